"""Quantiles among public edges: the right place, the proved bound by search, one draw."""

import json

import numpy as np
import pytest

import privledger as pl
from privledger.broker.wire import WireDescriber, WireReader
from privledger.questions.choice import QuantileChoice
from tests.properties.test_sensitivity import SCHEMA, as_rows, neighbours, random_table
from tests.worlds import refused

SHARP = pl.Exponential(1e6)


@pytest.fixture
def sharp(schema, table):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6))
    return ledger, ledger.protect(*table, schema)


def ask(ledger, data, query, node=SHARP):
    with ledger.request(node, data) as session:
        return session.release(node, query)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("node", [SHARP, pl.PermuteAndFlip(1e6), pl.ReportNoisyMax(1e6, "gumbel")])
def test_the_quantile_is_found(sharp, table, q, node):
    ledger, data = sharp
    for name, held, far in (("size", table[0]["size"], 1 / 1024), ("target", table[1], 10 / 1024)):
        answer = ask(ledger, data, data.quantile(name, q), node)
        low, high = np.quantile(held, [q - 0.006, q + 0.006])
        assert low - far <= answer <= high + far
    assert ledger.verify() == []


def test_bounds_may_be_narrower_and_missing_values_count_nowhere(sharp, table):
    ledger, data = sharp
    known = table[0]["weight"][~np.isnan(table[0]["weight"])]
    answer = ask(ledger, data, data.quantile("weight", 0.5))
    low, high = np.quantile(known, [0.49, 0.51])
    assert low - 0.02 <= answer <= high + 0.02
    assert ask(ledger, data, data.quantile("size", 0.01, lower=0.5, upper=0.7)) == 0.5


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_label"])
@pytest.mark.parametrize("seed", range(15))
def test_no_neighbour_moves_a_score_further_than_the_sensitivity(make_ledger, relation, seed):
    rng = np.random.default_rng([seed, 77])
    X, y = random_table(rng, int(rng.integers(1, 12)), False)
    data = make_ledger().protect(X, y, SCHEMA)
    most = 0.0
    for name in ("x", "y"):
        query = data.quantile(name, float(rng.uniform(0.01, 0.99)), bins=16, between=bool(seed % 2))
        before = query.scores(query.sketch(as_rows(X, y, SCHEMA), 1.0), 1)
        for _ in range(8):
            after = query.scores(query.sketch(as_rows(
                *neighbours(rng, X, y, relation, False), SCHEMA), 1.0), 1)
            moved = np.abs(after - before).max()
            assert moved <= query.sensitivity(relation)
            most = max(most, moved / query.sensitivity(relation))
    if relation == "add_remove":
        assert most > 0.1  # the search reaches something


@pytest.mark.parametrize(("q", "value"), [(0.2, 3), (0.5, 4), (0.85, 4), (0.95, 9)])
def test_between_edges_a_value_of_many_rows_is_found(make_ledger, q, value):
    """A third has the value 3 or less, more than half has 4: edges near 4 say 3.9 or 4.1."""
    whole = pl.Schema("w", (pl.Column("size", "numeric", "feature", 0, 10, integer=True),))
    held = [3] * 30 + [4] * 60 + [9] * 10
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6))
    data = ledger.protect({"size": held}, schema=whole)
    asked = data.quantile("size", q, lower=-0.5, upper=10.5, bins=11, between=True)
    assert ask(ledger, data, asked) == value


def test_what_costs_less_than_the_score_moves_is_refused(sharp):
    ledger, data = sharp
    for node in (pl.Exponential(1.0, (0.0, 1.0)), pl.Laplace(1.0), pl.TopK(1, 1.0),
                 pl.ReportNoisyMax(1.0, "laplace")):
        with ledger.request(node, data) as session:
            with pytest.raises(pl.errors.UnsupportedNode):
                session.release(node, data.quantile("size"))
            assert session.releases == 0
    assert data._vault.opened == 0


def test_the_rate_is_that_of_the_bound(sharp):
    data = sharp[1]
    for q, relation, bound in ((0.25, "add_remove", 0.75), (0.25, "replace_one", 1.0),
                               (0.5, "add_remove", 0.5)):
        rate = data.quantile("size", q).prepare(pl.Exponential(1.0), relation)
        assert rate == pytest.approx(1 / (2 * bound), rel=1e-5)
        assert rate <= 1 / (2 * bound)


def test_every_field_arrives(sharp):
    data = sharp[1]
    describer, reader = WireDescriber(data._vault, data.schema), WireReader(data)
    asked = data.quantile("size", 0.3, lower=0.1, upper=0.9, bins=77, between=True)
    sent = json.loads(json.dumps(describer.query(asked)))
    found = reader.query(sent)
    assert type(found) is QuantileChoice
    for name in ("name", "quantile", "lower", "upper", "bins", "what", "between"):
        assert getattr(found, name) == getattr(asked, name)


def test_chunks_add_up(sharp, table, schema):
    data = sharp[1]
    query = data.quantile("size", 0.3)
    rows = as_rows(*table, schema)
    whole = query.sketch(rows, 1.0)
    halves = [query.sketch(rows.subset(np.arange(*ends)), 1.0) for ends in ((0, 90), (90, 200))]
    assert query.merge(*halves).tolist() == whole.tolist()


def test_a_person_counts_once(schema, table):
    """Half of all rows are one person's: the median is that of the others."""
    X, y = {k: v.copy() for k, v in table[0].items()}, table[1]
    X["size"][:100] = 0.999
    X["size"][100:] = np.linspace(0, 0.5, 100)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6), unit="person",
                              people_key=b"k" * 32)
    people = ["one"] * 100 + [str(i) for i in range(100)]
    data = ledger.protect(X, y, schema, people=people)
    assert ask(ledger, data, data.quantile("size")) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("wrong", [
    {"quantile": 0.0}, {"quantile": 1.0}, {"quantile": 1e-9}, {"lower": 2.0}, {"bins": 0},
    {"lower": -1e308, "upper": 1e308}, {"bins": 1 << 17}, {"between": 1}])
def test_impossible_quantiles_are_refused(sharp, wrong):
    refused(pl.errors.InvalidValue, lambda: sharp[1].quantile("size", **wrong))
