"""Searches for worst tables: they find what is known to be there, and only neighbours."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privledger.errors import PrivledgerError
from privledger.graph.selection import Exponential, TopK
from privledger.testing.examples import example_schema, example_table
from privledger.testing.lockstep.neighbours import TablePair, rows_of
from privledger.testing.lockstep.worst_tables import _ladders, climbing, starting_pairs
from tests.all_cases import all_cases
from tests.certified.claims import Claim
from tests.certified.pairs import RELATIONS, check_pair, encoded, pair_from_json, pair_to_json
from tests.certified.searching import search
from tests.worlds import refused

SCHEMA = example_schema("several classes")
ROW, OTHER = (0.0, None, "red", "no"), (1.0, 5.0, "blue", "unknown")


@all_cases("relation", RELATIONS)
@all_cases("task", ["regression", "classification", "several classes"])
def test_all_that_is_tried_are_neighbours(task, relation):
    tries = climbing(example_schema(task), relation, seed=3, least_rows=1, most_rows=500)
    pair, seen = next(tries), set()
    for turn in range(600):
        check_pair(pair, relation)
        assert 1 <= min(pair.n_records) <= max(pair.n_records) <= 500
        assert all(often > 0 for _, often in pair.common)
        first, second = pair.tables()
        assert (first.n_records, second.n_records) == pair.n_records
        seen.add(pair)
        pair = tries.send(float(turn % 7))
    assert len(seen) > 300


@pytest.mark.parametrize("relation", RELATIONS)
def test_first_pairs_are_of_every_kind(relation):
    pairs = starting_pairs(SCHEMA, relation)
    sizes = {max(pair.n_records) for pair in pairs[:24]}
    assert min(sizes) == 1 and max(sizes) > 100
    assert len(set(pairs)) == len(pairs)
    assert starting_pairs(SCHEMA, relation) == pairs != starting_pairs(SCHEMA, relation, seed=1)


def test_the_record_that_differs_comes_last():
    pair = TablePair(SCHEMA, ((ROW, 3),), None, OTHER)
    first, second = pair.tables()
    assert rows_of(first) == [ROW] * 3
    assert rows_of(second) == [ROW] * 3 + [OTHER]
    held, other = encoded(pair)
    assert (held.n, other.n) == (3, 4)
    assert held.target.tolist() == other.target[:3].tolist()
    assert pair.turned().tables()[0].n_records == 4


def test_a_pair_survives_its_own_text():
    for pair in starting_pairs(SCHEMA, "replace_one")[:40]:
        assert pair_from_json(json.loads(json.dumps(pair_to_json(pair)))) == pair


@pytest.mark.parametrize("change", [
    {"common": [[["red"], 2]]}, {"common": [[[0.0, 0.0, "red", "no"], 0]]},
    {"old": [0.0, 0.0, "red", ["no"]]}, {"common": [[[0.0, 0.0, "red", "no"]]]}, {"schema": 3}])
def test_a_text_of_something_else_is_refused(change):
    with pytest.raises(PrivledgerError):
        pair_from_json({**pair_to_json(TablePair(SCHEMA, ((ROW, 3),), None, OTHER)), **change})


@pytest.mark.parametrize(("relation", "old", "new"), [
    ("add_remove", ROW, OTHER), ("add_remove", None, None), ("replace_one", None, ROW),
    ("replace_one", ROW, ROW), ("replace_label", ROW, OTHER), ("nobody", None, ROW)])
def test_tables_that_are_no_neighbours_are_refused(relation, old, new):
    refused(PrivledgerError, lambda: check_pair(TablePair(SCHEMA, (), old, new), relation))


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_equal_seeds_and_scores_try_equal_tables(seed):
    found = []
    for _ in range(2):
        tries = climbing(SCHEMA, "add_remove", seed=seed)
        pair = next(tries)
        for turn in range(60):
            pair = tries.send(float(turn % 5))
        found.append(pair)
    assert found[0] == found[1]


def test_a_saturated_search_stops():
    found = search(lambda pair: 1.0, SCHEMA, "add_remove", seconds=60.0)
    assert (found.value, found.tables) == (1.0, 1)
    assert search(lambda pair: 0.0, SCHEMA, "add_remove", steps=30).tables == 30


def test_an_examples_own_rows_are_tried():
    from privledger.testing.examples import Example

    base = Example(SCHEMA, *example_table("several classes", 12))
    own = set(rows_of(base))
    found = search(lambda pair: float(sum(row in own for row, _ in pair.common)), base,
                   "add_remove", steps=20)
    assert found.value >= 10


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_joint_trees_bound_is_reached(relation):
    """(n - 1)/(n + 1) of the bound with n records, and .70 by search once."""
    claim = Claim("both at once", "choice", {"score": "squared_error", "among": "both",
                  "labels": True}, "several classes", Exponential(1.0, (-1.0, 0.0)), relation)
    found = search(claim.ratio, SCHEMA, relation, seconds=60.0, target=0.991)
    assert 0.99 <= found.value <= 1


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_widths_of_top_k_are_reached(noise):
    """.40 by search once."""
    claim = Claim("two of three", "feature choice", {"score": "agreement"}, "several classes",
                  TopK(2, 1.0, noise), "add_remove")
    found = search(claim.ratio, SCHEMA, "add_remove", seconds=60.0, target=0.991)
    assert 0.99 <= found.value <= 1


@all_cases("task", ["regression", "classification", "several classes"])
def test_a_ladder_rises_through_every_target_below_its_top(task):
    """The record that differs is above all others, or below all; in one feature the other way."""
    schema = example_schema(task)
    target = schema.target
    for crowd, odd, even in _ladders(schema):
        rising = [row[-1] for row in crowd]
        if target.kind == "numeric":
            assert rising[0] == target.lower and rising == sorted(set(rising))
            assert rising[-1] < odd[-1] == even[-1] == target.upper
        else:
            assert (*rising, odd[-1]) == target.categories and even[-1] == odd[-1]
