"""Labels drawn per leaf: counts are the scores, every class is a candidate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import privledger as pl
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from tests.worlds import NoVault, refused, refuses

SCHEMA = pl.Schema("toy", (
    pl.Column("a", "numeric", "feature", 0.0, 6.0, integer=True),
    pl.Column("t", "categorical", "target", categories=("n", "p", "q"))))
CLASSES = pl.questions.CategoryCells("", 3)
ONCE = pl.Exponential(1.0, (0, 1))
record = st.tuples(st.integers(0, 6), st.integers(0, 2))


def rows_of(table) -> Rows:
    values, target = zip(*table, strict=True) if table else ((), ())
    return Rows(Columns(SCHEMA, (np.array(values, dtype=float),), len(table)),
                np.array(target, dtype=np.int32))


def question(data):
    return data.choose_label(data.root(data.bins(8)).grow([0], [3]), CLASSES)


@settings(max_examples=100, deadline=None)
@given(table=st.lists(record, max_size=10), extra=record)
def test_one_record_raises_one_count_by_one(table, extra):
    choice = question(pl.Dataset(SCHEMA, NoVault()))
    before = choice.sketch(rows_of(table), 1.0)
    after = choice.sketch(rows_of([*table, extra]), 1.0)
    moved = after - before
    least, most = choice.bound.change
    assert moved.sum() == 1
    assert least <= moved.min() <= moved.max() <= most
    assert len(after) == len(before) == 6  # candidates are public
    assert choice.sensitivity("add_remove") == 1
    assert choice.sensitivity("replace_one") == 2


@settings(max_examples=100, deadline=None)
@given(table=st.lists(record, max_size=8), extra=record, rate=st.floats(0.01, 2.0))
def test_the_law_moves_by_at_most_the_rate(table, extra, rate):
    """Brute force: log-probabilities of all outcomes of both leaves, with and without one."""
    choice = question(pl.Dataset(SCHEMA, NoVault()))
    laws = []
    for one in (table, [*table, extra]):
        scores = choice.sketch(rows_of(one), 1.0).reshape(2, 3)
        laws.append(rate * scores - np.log(np.exp(rate * scores).sum(axis=1, keepdims=True)))
    moved = np.abs(laws[1] - laws[0]).max(axis=1)
    assert moved.sum() <= rate * (1 + 1e-9)


@pytest.fixture
def few():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 0.0))
    return ledger, ledger.protect({"a": np.array([0.0, 1, 1, 5, 6])},
                                  np.array(["n", "n", "p", "q", "q"]), SCHEMA)


@pytest.mark.parametrize("mechanism", [pl.Exponential(2.0, (0, 1)), pl.PermuteAndFlip(1.0)])
def test_draws_follow_the_mechanism(few, mechanism):
    """Chi-square over 3,000 draws of the first leaf; false alarms at most 1e-7."""
    ledger, data = few
    choice = question(data)
    counts, draws = np.array([2.0, 1.0, 0.0]), 3000
    if isinstance(mechanism, pl.Exponential):
        chances = np.exp(counts) / np.exp(counts).sum()
    else:
        accept = np.exp(counts - 2)
        chances = np.zeros(3)  # the best is always accepted: a uniform one of the accepted
        for p in (0, 1):
            for q in (0, 1):
                weight = (accept[1] if p else 1 - accept[1]) * (accept[2] if q else 1 - accept[2])
                kept = [0] + [1] * p + [2] * q
                chances[kept] += weight / len(kept)
    seen = np.zeros(3)
    with ledger.request(pl.Repeat(mechanism, draws), data) as session:
        for _ in range(draws):
            seen[session.release(mechanism, choice)[0]] += 1
    assert stats.chisquare(seen, chances * draws).pvalue > 1e-7


def test_a_label_is_paid_for_and_drawn_once_per_leaf(few):
    ledger, data = few
    sharp = pl.Exponential(1e3, (0, 1))
    with ledger.request(sharp, data) as session:
        assert session.release(sharp, question(data)).tolist() == [0, 2]
        refused(pl.NotGranted, lambda: session.release(sharp, question(data)))
    assert data._vault.opened == 1
    assert ledger.verify() == []


@pytest.mark.parametrize("mechanism", [
    pl.Exponential(1.0, (-1, 0)), pl.Laplace(1.0), pl.ReportNoisyMax(1.0, "laplace")])
def test_mechanisms_that_do_not_fit_are_refused(few, mechanism):
    ledger, data = few
    refuses(ledger, data, mechanism, question(data))


def test_strangers_are_refused(few):
    ledger, data = few

    class Sly(pl.questions.LabelChoice):
        def sensitivity(self, relation):
            return 1e-9

    tree = data.root(data.bins(8))
    for sly in (Sly(data, tree, CLASSES),
                data.choose_label(tree, pl.questions.CategoryCells("", 2))):
        with ledger.request(ONCE, data) as session, pytest.raises(pl.PrivledgerError):
            session.release(ONCE, sly)
    refused(pl.InvalidValue, lambda: data.choose_label(CLASSES, CLASSES))
    assert data._vault.opened == 0


def test_individual_filters_take_no_labels():
    ledger = pl.Ledger.create(None, budget=pl.Budget(10.0, 1e-6), filter="gdp")
    data = ledger.protect({"a": np.array([0.0])}, np.array(["n"]), SCHEMA)
    node = pl.IndividualFilter("gdp", 1.0)
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        with pytest.raises(pl.errors.UnsupportedNode):
            session.release(ONCE, handle.choose_label(handle.root(handle.bins(4)), CLASSES))
    assert data._vault.opened == 0
