"""Scores of features: right by brute force, and one record moves them as proved."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.broker.wire import WireReader
from privledger.errors import InvalidValue, SchemaError
from privledger.noise.seeded import SeededSource
from privledger.questions import feature_choice as features_module
from privledger.questions import feature_scores as feature_scores_code
from privledger.questions import votes as votes_code
from privledger.questions.closed_set import is_wire
from privledger.questions.votes import block_features, lasso, votes_of
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from tests.all_cases import all_cases
from tests.worlds import refused

VALUES = [0.0, 1.0, 2.5, 4.0, np.nan]


def schema_of(classes: int) -> pl.Schema:
    target = (pl.Column("t", "categorical", "target", categories=tuple(range(classes)))
              if classes else pl.Column("t", "numeric", "target", -1.0, 1.0))
    return pl.Schema("toy", (
        pl.Column("a", "numeric", "feature", 0.0, 4.0, missing=True),
        pl.Column("b", "numeric", "feature", -1.0, 4.0),
        pl.Column("c", "categorical", "feature", categories=("x", "y", "z"), missing=True),
        target))


def feature_scores(choice, rows):
    return choice.scores(choice.sketch(rows, 1.0))


def scores_of(score, schema, table, source=None, weights=()) -> np.ndarray:
    """Scores of a table given as a list of records (a, b, c, target)."""
    columns = list(zip(*table, strict=True)) if table else [[], [], [], []]
    arrays = (np.array(columns[0], dtype=float), np.array(columns[1], dtype=float),
              np.array(columns[2], dtype=np.int32))
    kind = np.int32 if schema.target.kind == "categorical" else float
    rows = Rows(Columns(schema, arrays, len(table)), np.array(columns[3], dtype=kind), source)
    return feature_scores(pl.Dataset(schema, object()).features_by(score, weights=weights), rows)


def records(classes: int):
    target = st.integers(0, classes - 1) if classes else st.sampled_from([-1.0, -.5, 0.25, 1.0])
    return st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES[:4]),
                     st.integers(-1, 2), target)


def known(table, place):
    pairs = [(row[place], row[3]) for row in table]
    return [(x, y) for x, y in pairs if not np.isnan(x) and not (place == 2 and x < 0)]


def slow_agreement(pairs, classes, weights=None) -> float:
    weights = weights or (1,) * classes
    cuts = [x - 0.1 for x in sorted({x for x, _ in pairs})] + [99.0]
    best = 0
    for chosen in itertools.combinations_with_replacement(cuts, classes - 1):
        said = [sum(x > cut for cut in chosen) for x, _ in pairs]
        for turned in (False, True):
            right = sum(weights[y] * ((classes - 1 - g if turned else g) == y)
                        for g, (_, y) in zip(said, pairs, strict=True))
            best = max(best, right)
    return best


def slow_pairs(pairs) -> int:
    return abs(sum(int(np.sign(x - u) * np.sign(y - v))
                   for (x, y), (u, v) in itertools.combinations(pairs, 2)))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("classes", [0, 2, 3, 5])
def test_order_scores_are_those_of_the_definition(data, classes):
    table = data.draw(st.lists(records(classes), min_size=1, max_size=9))
    schema = schema_of(classes)
    ranks = scores_of("rank", schema, table)
    for place in range(3):
        pairs = known(table, place)
        assert ranks[place] == pytest.approx(slow_pairs(pairs) / len(table), abs=1e-12)
    if classes:
        found = scores_of("agreement", schema, table)
        assert found.tolist() == [slow_agreement(known(table, place), classes)
                                  for place in range(3)]


def weights_of(classes):
    return st.tuples(*[st.integers(1, pl.questions.FeatureChoice.whole)] * classes)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_agreement_weighs_classes_and_one_record_moves_it_by_its_own_weight(data, classes):
    table = data.draw(st.lists(records(classes), min_size=1, max_size=9))
    schema, weights = schema_of(classes), data.draw(weights_of(classes))
    whole = pl.questions.FeatureChoice.whole
    found = scores_of("agreement", schema, table, weights=weights)
    assert found.tolist() == [slow_agreement(known(table, place), classes, weights) / whole
                              for place in range(3)]
    moved = found - scores_of("agreement", schema, table[:-1], weights=weights)
    assert (moved >= 0).all() and (moved <= weights[table[-1][3]] / whole).all()
    even = scores_of("agreement", schema, table, weights=(whole,) * classes)
    assert even.tolist() == scores_of("agreement", schema, table).tolist()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_sorted_keys_and_tallies_weigh_classes_alike(data):
    table = data.draw(st.lists(records(3), min_size=1, max_size=30))
    schema, weights = schema_of(3), data.draw(weights_of(3))
    found = []
    for most in (1 << 17, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(feature_scores_code, "MOST_SORTED", most)
            found.append(scores_of("agreement", schema, table, weights=weights).tolist())
    assert found[0] == found[1]


@all_cases("wrong", [[0, 1], [1, 1025], [True, 1], [1, 0.5], [1], ["1", 1], "11",
                     None, {"0": 1}], ids=repr)
def test_weights_arrive_as_they_were_sent(wrong):
    """Without them another score would answer at the same price, and nobody would notice."""
    data = pl.Dataset(schema_of(2), object())
    choice, reader = data.features_by("agreement", weights=(3, 1024)), WireReader(data)
    sent = json.loads(json.dumps(is_wire(choice, None))) | {"data": 0}
    assert reader.query(sent).weights == (3, 1024)
    plain = is_wire(data.features_by("agreement"), None) | {"data": 0}
    assert reader.query(plain).weights == ()
    refused(pl.errors.PrivledgerError, lambda: reader.query(sent | {"weights": wrong}))


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (0, 1), (1, 1025), (1, True), (1, 0.5)])
def test_weights_that_are_none_are_refused(weights):
    refused(InvalidValue, lambda: pl.Dataset(schema_of(2), object()).features_by("agreement",
            weights=weights), lambda: pl.Dataset(schema_of(2), object()).features_by("rank",
            weights=(1, 1)), match="weights")


def test_correlation_maps_to_public_bounds_and_leaves_missing_values_out():
    table = [(4.0, -1.0, 2, 1), (0.0, 4.0, -1, 0), (np.nan, 1.5, 0, 1)]
    found = scores_of("correlation", schema_of(2), table)
    assert found == pytest.approx([2.0, 2.0, 0.0], abs=1e-4)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("score", "classes"), [
    ("agreement", 2), ("agreement", 4), ("rank", 2), ("rank", 3), ("rank", 0),
    ("correlation", 3), ("correlation", 0)])
def test_one_record_moves_scores_as_the_bound_says(data, score, classes):
    table = data.draw(st.lists(records(classes), min_size=0, max_size=8))
    extra = data.draw(records(classes))
    spot = data.draw(st.integers(0, len(table)))
    schema = schema_of(classes)
    more = [*table[:spot], extra, *table[spot:]]
    moved = scores_of(score, schema, more) - scores_of(score, schema, table)
    bound = pl.questions.FeatureChoice.bound_of(score, schema)
    low, high = (end * bound.sensitivity for end in bound.change)
    assert (moved >= low - 1e-9).all()
    assert (moved <= high + 1e-9).all()


@pytest.mark.parametrize("classes", [2, 3, 5, 0])
def test_rank_bound_is_nearly_reached(classes):
    """All records of the other classes in perfect order, then one on the wrong side of all."""
    sizes = 60
    if classes:
        table = [(0.0, k / 20 - 1, 0, 1 + k * (classes - 1) // sizes) for k in range(sizes)]
        wrong = (0.0, 3.9, 0, 0)
    else:
        table = [(0.0, k / 20 - 1, 0, k / sizes) for k in range(sizes)]
        wrong = (0.0, 3.9, 0, -1.0)
    schema = schema_of(classes)
    moved = (scores_of("rank", schema, [*table, wrong]) - scores_of("rank", schema, table))[1]
    bound = features_module.rank_sensitivity(schema)
    assert moved > 0.95 if classes == 2 else -bound <= moved <= -0.95 * bound


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_record_changes_each_features_votes_by_one(data):
    n = data.draw(st.integers(6, 14))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    table, target = rng.normal(size=(6, n)), rng.integers(0, 2, n).astype(float)
    coins = rng.integers(0, 3, n)
    votes = pl.questions.Votes(3, 2, 0.05)
    whole = votes_of(votes, table, target, coins)
    less = votes_of(votes, table[:, :-1], target[:-1], coins[:-1])
    swapped = table.copy()
    swapped[:, -1] = 9.0
    other = votes_of(votes, swapped, target, coins)
    assert np.abs(whole - less).max() <= 1
    assert np.abs(whole - other).max() <= 1
    assert whole.sum() <= 6


def test_lasso_satisfies_its_optimality_conditions():
    rng = np.random.default_rng(3)
    table = rng.normal(size=(300, 40))
    target = table[7] - 0.5 * table[100] + 0.1 * rng.normal(size=40)
    weights = lasso(table, target, 0.1)
    slope = table @ (target - weights @ table) / 40
    assert np.abs(slope).max() <= 0.1 + 1e-4
    assert slope[weights != 0] == pytest.approx(0.1 * np.sign(weights[weights != 0]), abs=1e-4)
    assert set(block_features(table, target, 2, 0.1).tolist()) == {7, 100}


@pytest.mark.parametrize("width", [1, 3, 12, 40])
def test_a_lasso_that_stands_still_is_where_all_its_rounds_would_end(monkeypatch, width):
    """To the bit: what is stopped early are rounds that would have changed nothing."""
    rng = np.random.default_rng(width)
    for penalty in (0.01, 0.1, 0.4, 5.0):
        table = rng.normal(size=(width, 30))
        slope, size = table @ (table[0] + rng.normal(size=30)) / 30, table @ table.T / 30
        step, asked = 1 / np.linalg.eigvalsh(size)[-1], []

        def move(ahead, step=step, slope=slope, size=size, asked=asked):
            asked.append(1)
            return step * (slope - size @ ahead)

        found = votes_code._descend(move, width, step * penalty)
        rounds = len(asked)
        weights, ahead, pace = np.zeros(width), np.zeros(width), 1.0
        for _ in range(votes_code._ROUNDS):
            moved = ahead + move(ahead)
            fresh = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
            following = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
            ahead = fresh + (pace - 1) / following * (fresh - weights)
            weights, pace = fresh, following
        assert (found == weights).all()
        assert rounds <= votes_code._ROUNDS
    assert rounds == 1  # nothing is pulled as hard as the last penalty takes off


def test_blocks_of_nothing_constants_and_gaps_give_no_error():
    assert len(block_features(np.zeros((3, 0)), np.zeros(0), 2, 0.1)) == 0
    assert len(block_features(np.ones((3, 5)), np.arange(5.0), 2, 0.1)) == 0
    gaps = np.full((3, 5), np.nan)
    assert len(block_features(gaps, np.arange(5.0), 2, 0.1)) == 0
    assert len(block_features(np.ones((3, 5)), np.ones(5), 2, 0.1)) == 0


def test_constant_columns_never_win():
    table = [(1.0, float(k % 2), 0, k % 2) for k in range(10)]
    for score in ("agreement", "rank"):
        found = scores_of(score, schema_of(2), table)
        assert found[1] > found[0] == found[2]


def test_wide_chunks_and_many_rows_agree_with_single_columns():
    rng = np.random.default_rng(0)
    n, d = 700, 400  # several chunks
    schema = pl.Schema("w", (*(pl.Column(f"x{j}", "numeric", "feature", -4, 4) for j in range(d)),
                             pl.Column("t", "categorical", "target", categories=(0, 1))))
    X, y = np.clip(rng.normal(size=(d, n)), -4, 4), rng.integers(0, 2, n).astype(np.int32)
    rows = Rows(Columns(schema, tuple(X), n), y)
    data = pl.Dataset(schema, object())
    for score in ("agreement", "rank", "correlation"):
        whole = feature_scores(data.features_by(score), rows)
        for j in (0, 187, 399):
            alone = feature_scores(data.select([f"x{j}"]).features_by(score), rows)
            assert whole[j] == alone[0]


def test_scores_are_kept_for_later_draws_of_the_same_question():
    schema = schema_of(2)
    rows = Rows(Columns(schema, (np.ones(2), np.ones(2), np.ones(2, dtype=np.int32)), 2),
                np.array([0, 1], dtype=np.int32), SeededSource(0))
    choice = pl.Dataset(schema, object()).features_by("rank")
    assert feature_scores(choice, rows) is feature_scores(choice.without(1), rows)
    assert choice.without(1).candidates.tolist() == [0, 2]


def test_questions_that_cannot_be_are_refused():
    data = pl.Dataset(schema_of(2), object())
    for wrong in ("beauty", "votes", "custom"):
        with pytest.raises(InvalidValue):
            data.features_by(wrong)
    for excluded in ([3], [-1], [0, 1, 2], [0.5], [True]):
        with pytest.raises(InvalidValue):
            data.features_by("rank", excluded)
    refused(SchemaError, lambda: pl.Dataset(schema_of(0), object()).features_by("agreement"))
    for options in ({"blocks": 0}, {"most": 0}, {"penalty": -1.0}, {"penalty": float("nan")}):
        with pytest.raises(InvalidValue):
            pl.questions.Votes(**options)
    refused(InvalidValue, lambda: pl.questions.CustomScores(lambda X, y: [], float("inf"), "no"),
            lambda: pl.questions.CustomScores(lambda X, y: [], 1.0, " "))
