"""Which table is far from what is expected: the score, its bound, and what is refused."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.noise.source import SystemSource
from privledger.questions.question import Noise
from privledger.tables.chunk import ONE, Rows
from privledger.tables.columns import Columns
from tests.worlds import protected, refused

Q = pl.questions
SCHEMA = pl.Schema("two", (pl.Column("a", "categorical", categories=("x", "y")),
                           pl.Column("b", "categorical", categories=("x", "y", "z")),
                           pl.Column("t", "categorical", "target", categories=(0, 1))))
A, B, T = Q.CategoryCells("a", 3), Q.CategoryCells("b", 4), Q.CategoryCells("", 2)
TABLES = (Q.CrossCells(A, T), Q.CrossCells(B, T), Q.CrossCells(A, B))
CELLS = sum(one.count for one in TABLES)
row = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1))
guess = st.lists(st.floats(-5, 50), min_size=CELLS, max_size=CELLS)


def choice(expected, penalty=(0.0, 1.5, 0.25), tables=TABLES):
    return Q.TableChoice(pl.Dataset(SCHEMA, None), tables, expected, penalty)


def rows_of(records, people=None):
    held = np.array(records, dtype=np.int32).reshape(-1, 3)
    return Rows(Columns(SCHEMA, (held[:, 0], held[:, 1]), len(held)), held[:, 2],
                people=None if people is None else np.array(people, dtype=np.int32))


def scores(asked, rows):
    return asked.scores(asked.sketch(rows, 1.0), 1 if rows.people is None else ONE)


@given(st.lists(row, min_size=1, max_size=12), guess)
def test_the_score_is_the_distance_minus_the_penalty(records, expected):
    found, start = scores(choice(expected), rows_of(records)), 0
    for place, (cells, penalty) in enumerate(zip(TABLES, (0.0, 1.5, 0.25), strict=True)):
        counts = np.bincount(cells.index(rows_of(records)), minlength=cells.count)
        want = np.abs(counts - expected[start:start + cells.count]).sum() - penalty
        assert math.isclose(found[place], want, abs_tol=1e-4)
        start += cells.count


@given(st.lists(row, min_size=1, max_size=12), row, guess)
def test_a_neighbour_moves_a_score_no_further_than_the_bound(records, other, expected):
    asked = choice(expected)
    here = scores(asked, rows_of(records))
    more = scores(asked, rows_of([*records, other]))
    replaced = scores(asked, rows_of([*records[:-1], other]))
    assert np.abs(more - here).max() <= asked.sensitivity("add_remove")
    assert np.abs(replaced - here).max() <= asked.sensitivity("replace_one")


@given(st.lists(row, min_size=1, max_size=6), st.lists(row, min_size=1, max_size=9), guess)
def test_all_rows_of_a_person_move_a_score_by_one(records, theirs, expected):
    asked, n = choice(expected), len(records)
    here = scores(asked, rows_of(records, range(n)))
    more = scores(asked, rows_of([*records, *theirs], [*range(n), *[n] * len(theirs)]))
    assert np.abs(more - here).max() <= asked.sensitivity("add_remove")


def test_both_bounds_are_attained():
    asked = choice(np.zeros(CELLS), (0.0, 0.0, 0.0))
    gone = scores(asked, rows_of([(0, 0, 0)])) - scores(asked, rows_of(np.zeros((0, 3))))
    assert (gone == 1).all()
    expected = np.zeros(CELLS)
    expected[0] = 1.0
    asked = choice(expected, (0.0, 0.0, 0.0))
    assert scores(asked, rows_of([(1, 0, 0)]))[0] - scores(asked, rows_of([(0, 0, 0)]))[0] == 2


def test_the_choice_has_the_law_of_the_exponential_mechanism():
    """10,000 draws: each frequency within 6 standard deviations, 3 * 2e-9 false alarms."""
    asked, records = choice(np.ones(CELLS) / 2), rows_of([(0, 1, 1), (1, 1, 0), (0, 2, 1)])
    rate = asked.prepare(pl.Exponential(2.0), "add_remove")
    sketch = asked.sketch(records, rate)
    noise = Noise(pl.Exponential(2.0), rate, SystemSource())
    many = 10_000
    found = Counter(int(asked.finish(sketch, noise)) for _ in range(many))
    law = np.exp(rate * asked.scores(sketch, 1))
    law /= law.sum()
    for place, share in enumerate(law):
        assert abs(found[place] / many - share) < 6 * math.sqrt(share * (1 - share) / many)


@pytest.mark.parametrize(("tables", "expected", "penalty"), [
    ((), [], []), (TABLES, [0.0] * CELLS, [0.0]), (TABLES, np.zeros((CELLS, 1)), [0.0] * 3),
    (TABLES, [2.0**31] * CELLS, [0.0] * 3), (TABLES, np.full(CELLS, np.nan), [0.0] * 3),
    (TABLES, np.zeros(CELLS, dtype=int), [0.0] * 3)])
def test_what_can_never_be_right_is_refused(tables, expected, penalty):
    refused(InvalidValue, lambda: choice(expected, penalty, tables))


def test_tables_that_records_do_not_decide_are_refused_before_anything_is_read():
    ledger, data = protected(pl.Budget(1.0), {"a": ["x", "y"], "b": ["x", "z"]}, [0, 1], SCHEMA)
    coins = data.partition(3).cells
    for tables, expected in (((coins,), np.zeros(3)), ((A,), np.zeros(4)),
                             ((Q.CrossCells(Q.CrossCells(A, B), T),), np.zeros(24))):
        asked = Q.TableChoice(data, tables, expected, [0.0])
        with ledger.request(pl.Exponential(0.1), data) as session:
            with pytest.raises((UnsupportedNode, InvalidValue)):
                session.release(pl.Exponential(0.1), asked)
            assert session.releases == 0
    with ledger.request(pl.TopK(1, 0.1), data) as session, pytest.raises(UnsupportedNode):
        session.release(pl.TopK(1, 0.1), Q.TableChoice(data, (A, T), np.zeros(5), [0.0, 0.0]))


def test_tables_are_counted_the_same_in_chunks():
    asked = choice(np.zeros(CELLS))
    records = list(itertools.product((0, 1), (0, 1, 2), (0, 1)))
    whole = asked.sketch(rows_of(records), 1.0)
    parts = asked.merge(asked.sketch(rows_of(records[:5]), 1.0),
                        asked.sketch(rows_of(records[5:]), 1.0))
    assert (whole == parts).all()
