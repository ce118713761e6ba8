"""Choices: candidates are public, scores are right, and one record moves them as proved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.questions.cells import CategoryCells, IntervalCells
from privledger.questions.options import options_of
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from tests.worlds import NoVault, refused

FEATURES = (
    pl.Column("a", "numeric", "feature", 0.0, 6.0, integer=True, missing=True),
    pl.Column("b", "categorical", "feature", categories=("x", "y", "z"), missing=True),
    pl.Column("c", "numeric", "feature", 0.0, 1.0))
CLASSES = pl.Schema("toy", (*FEATURES, pl.Column("t", "categorical", "target",
                                                 categories=("n", "p", "q"))))
NUMBERS = pl.Schema("toy", (*FEATURES, pl.Column("t", "numeric", "target", 0.0, 1.0)))

record = st.tuples(st.sampled_from([0, 1, 2, 3, 4, 5, 6, np.nan]), st.integers(-1, 2),
                   st.floats(0, 1), st.integers(0, 2))
tables = st.lists(record, min_size=0, max_size=12)


def rows_of(schema, table) -> Rows:
    columns = list(zip(*table, strict=True)) if table else [[], [], [], []]
    features = Columns(schema, (np.array(columns[0], dtype=float),
                                np.array(columns[1], dtype=np.int32),
                                np.array(columns[2], dtype=float)), len(table))
    return Rows(features, np.array(columns[3], dtype=np.int32))


@pytest.fixture(scope="module")
def data():
    return pl.Dataset(CLASSES, NoVault())


@pytest.fixture(scope="module")
def number_data():
    return pl.Dataset(NUMBERS, NoVault())


def grown(data, bins=8):
    """Depth two: a at 3 under the root, then category y, then c and nothing."""
    tree = data.root(data.bins(bins))
    tree = tree.grow([0], [3])
    return tree.grow([1, 2], [1, 5])


@pytest.mark.parametrize("place", [0, 1])
def test_each_test_of_a_level_is_of_the_bins(data, place):
    """One that is wrong is refused beside one that is right, wherever it stands."""
    tree = data.root(data.bins(8)).grow([0], [3])
    sizes = tree.bins.sizes()

    def level(feature, cut):
        tests = [[0, feature], [1, cut]] if place else [[feature, 0], [cut, 1]]
        return tree.grow(*tests)

    ends = {feature: sizes[feature] - bool(tree.bins.unordered()[feature])
            for feature in range(len(sizes))}
    for feature, end in ends.items():
        assert level(feature, 0).count == level(feature, end - 1).count == 4
        for cut in (-1, end, end + 1, 2**40):
            refused(pl.InvalidValue, lambda f=feature, c=cut: level(f, c), match="tests of a level")
    assert level(-1, 7).count == 4  # without a test the cut is nothing
    for feature in (-2, len(sizes), len(sizes) + 1, 2**40):
        refused(pl.InvalidValue, lambda f=feature: level(f, 0), match="tests of a level")


def expanded(choice, rows) -> dict[tuple[int, int, int], tuple[float, int]]:
    """(leaf, feature, cut) -> score and weight, one entry per cut."""
    found = options_of(choice, choice.sketch(rows, 1.0))
    result = {}
    for place, leaf in enumerate(found.leaf):
        for spot in range(found.starts[place], found.starts[place + 1]):
            span = int(found.length[spot])
            assert found.weight[spot] % span == 0
            for cut in range(int(found.first[spot]), int(found.first[spot]) + span):
                key = int(leaf), int(found.feature[spot]), cut
                assert key not in result
                result[key] = float(found.score[spot]), int(found.weight[spot]) // span
    return result


def sides(choice, rows, key):
    """Records on the left and on the right of a cut in its leaf, by the tree's own routing."""
    leaf, feature, cut = key
    tree = choice.cells
    features = np.full(tree.count, -1)
    cuts = np.zeros(tree.count, dtype=int)
    features[leaf], cuts[leaf] = feature, cut
    index = tree.grow(features, cuts).index(rows)
    return np.flatnonzero(index == 2 * leaf), np.flatnonzero(index == 2 * leaf + 1)


def sse(values) -> float:
    values = np.asarray(values, dtype=float)
    return float(((values - values.mean(axis=0)) ** 2).sum()) if len(values) else 0.0


def reference(choice, rows, key) -> float:
    left, right = sides(choice, rows, key)
    if choice.score == "rank":
        return -abs(len(left) - len(right))
    onehot = np.eye(3)[rows.target]
    return -sse(onehot[left]) - sse(onehot[right])


@settings(max_examples=60, deadline=None)
@given(table=tables)
@pytest.mark.parametrize("score", ["rank", "squared_error"])
def test_scores_are_those_of_the_definition(data, table, score):
    rows = rows_of(data.schema, table)
    tree = grown(data)
    labels = CategoryCells("", 3) if score == "squared_error" else None
    choice = data.choose(tree, score, among="both", labels=labels)
    sizes = np.bincount(tree.index(rows), minlength=4)
    for key, (value, _) in expanded(choice, rows).items():
        constant = sizes[key[0]] if score == "squared_error" else 0
        assert value - constant == pytest.approx(reference(choice, rows, key), abs=1e-9)


def test_candidates_are_public(data):
    tree = grown(data)
    sets = []
    for table in ([], [(3, 1, 0.2, 0)] * 5, [(0, 0, 0.9, 1), (6, 2, 0.1, 2), (2, -1, 0.5, 0)]):
        choice = data.choose(tree, "rank", among="both")
        found = expanded(choice, rows_of(data.schema, table))
        sets.append({key: weight for key, (_, weight) in found.items()})
    assert sets[0] == sets[1] == sets[2]
    by_leaf = {leaf: sorted(key[1:] for key in sets[0] if key[0] == leaf) for leaf in range(4)}
    # a < 3 below the root's left side; the category y is settled in leaves 0 and 1.
    assert [cut for feature, cut in by_leaf[0] if feature == 0] == [1, 2]
    assert [cut for feature, cut in by_leaf[0] if feature == 1] == [0, 2]
    assert [cut for feature, cut in by_leaf[1] if feature == 1] == [1]
    assert [cut for feature, cut in by_leaf[2] if feature == 2] == [1, 2, 3, 4]
    assert [cut for feature, cut in by_leaf[3] if feature == 2] == [6, 7, 8]


def test_features_that_compete_weigh_the_same(data):
    choice = data.choose(data.root(data.bins(8)), "rank", among="both")
    weights = {}
    for (_, feature, _), (_, weight) in expanded(choice, rows_of(data.schema, [])).items():
        weights[feature] = weights.get(feature, 0) + weight
    assert max(weights.values()) - min(weights.values()) <= 16


def neighbours(draw_table, extra, place):
    return [*draw_table[: place % (len(draw_table) + 1)], extra,
            *draw_table[place % (len(draw_table) + 1) :]]


@settings(max_examples=80, deadline=None)
@given(table=tables, extra=record, place=st.integers(0, 20))
@pytest.mark.parametrize("score", ["rank", "squared_error", "gini", "entropy", "number", "gain"])
@pytest.mark.parametrize("among", ["both", "features"])
def test_one_record_moves_scores_as_far_as_proved(data, number_data, table, extra, place, score,
                                                  among):
    bigger = neighbours(table, extra, place)
    handle = number_data if score in ("number", "gain") else data
    choice = made(handle, score, among)
    found = []
    for one in (table, bigger):
        rows = rows_of(handle.schema, one)
        if score in ("number", "gain"):
            rows.target = np.array([row[2] for row in one], dtype=float)
        sizes = np.bincount(choice.cells.index(rows), minlength=4)
        squares = np.zeros(4)
        if score == "number" and len(one):
            steps = np.trunc(rows.target * 2.0**20) / 2.0**20
            squares = np.bincount(choice.cells.index(rows), weights=steps**2, minlength=4)
        constant = {"squared_error": sizes, "number": squares}.get(score, np.zeros(4))
        found.append({key: value - constant[key[0]]
                      for key, (value, _) in expanded(choice, rows).items()})
    least, most = choice.bound.change
    scale = choice.sensitivity("add_remove")
    assert choice.sensitivity("replace_one") == 2 * scale
    for key, value in found[0].items():
        moved = found[1][key] - value
        assert least * scale - 1e-9 <= moved <= most * scale + 1e-9


def made(handle, score, among):
    tree = grown(handle)
    if score in ("squared_error", "gini", "entropy"):
        return handle.choose(tree, score, among=among, labels=CategoryCells("", 3))
    if score == "number":
        return handle.choose(tree, "squared_error", among=among)
    if score == "gain":
        running = handle.score("squared", [0.0], center=0.5, scale=0.5)
        return handle.choose(tree, "gain", among=among, gradient=running.gradient(1.0), penalty=0.5)
    return handle.choose(tree, score, among=among)


def test_bounds_of_squared_errors_are_nearly_reached(data):
    """So that nobody lowers them: many records of one class, then one of another."""
    tree = data.root(data.bins(8))
    choice = data.choose(tree, "squared_error", among="both", labels=CategoryCells("", 3))
    table = [(0, 0, 0.0, 0)] * 500
    before = expanded(choice, rows_of(data.schema, table))
    after = expanded(choice, rows_of(data.schema, [*table, (0, 0, 0.0, 1)]))
    key = (0, 0, 5)
    assert after[key][0] - 501 - (before[key][0] - 500) < -1.99


def test_every_leaf_may_ask_about_its_own_feature(data):
    rows = rows_of(data.schema, [(0, 0, 0.3, 0), (1, 1, 0.9, 1), (5, 2, 0.1, 2), (4, 0, 0.6, 1)])
    tree = data.root(data.bins(8)).grow([0], [3])
    own = expanded(data.choose(tree, "rank", features=[1, 2]), rows)
    everything = expanded(data.choose(tree, "rank", among="both"), rows)
    assert {key[:2] for key in own} == {(0, 1), (1, 2)}
    assert all(everything[key][0] == value for key, (value, _) in own.items())
    assert all(weight == 1 for _, weight in own.values())


def test_leaves_that_ask_nothing_and_boxes_that_are_empty(data):
    tree = data.root(data.bins(8)).grow([0], [1])
    choice = data.choose(tree, "rank", features=[0, -1])
    found = options_of(choice, choice.sketch(rows_of(data.schema, [(0, 0, 0.0, 0)]), 1.0))
    assert len(found.leaf) == 0  # a < 1 leaves one bin; the other leaf asks nothing


@pytest.mark.parametrize("wrong", [
    {"score": "best"}, {"among": "rows"}, {"features": [0, 1, 2, 3, 4]}, {"features": [9, 0, 0, 0]},
    {"among": "both", "features": [0, 0, 0, 0]}, {"penalty": -1.0}, {"penalty": float("nan")},
    {"score": "gini", "among": "both", "features": None}, {"features": [0.5, 0, 0, 0]},
    {"score": "gain", "among": "both", "features": None}])
def test_bad_choices_are_refused(data, wrong):
    options = {"score": "rank", "features": [0, 0, 0, 0]} | wrong
    if options["features"] is None:
        del options["features"]
    refused(pl.InvalidValue, lambda: data.choose(grown(data), **options))


@pytest.mark.parametrize(("feature", "cut"), [
    ([0, 0], [1, 1]), ([3], [1]), ([0], [99]), ([0], [-1]), ([0.5], [1]), ([-2], [0])])
def test_bad_levels_are_refused(data, feature, cut):
    refused(pl.InvalidValue, lambda: data.root(data.bins(8)).grow(feature, cut))


def test_trees_route_alike_inside_and_outside_the_guard(data):
    rows = rows_of(data.schema, [(np.nan, -1, 0.3, 0), (1, 1, 0.9, 1), (5, 2, 0.7, 2)])
    tree = grown(data)
    np.testing.assert_array_equal(tree.assign(tree.bins.codes(rows.features)), tree.index(rows))
    assert tree.index(rows).tolist() == [2, 1, 3]


def test_classes_may_be_intervals_of_a_numeric_target(number_data):
    rows = rows_of(number_data.schema, [(0, 0, 0.3, 0), (1, 1, 0.9, 1), (5, 2, 0.7, 2)])
    rows.target = np.array([0.1, 0.5, 0.9])
    tree = number_data.root(number_data.bins(8))
    choice = number_data.choose(tree, "squared_error", among="both",
                                labels=IntervalCells("", [0.3, 0.6]))
    found = expanded(choice, rows)
    assert found[0, 0, 1][0] == pytest.approx(1 + 2 * 0.25 * 2)


def test_only_allowed_features_compete(data):
    rows = rows_of(data.schema, [(0, 0, 0.3, 0), (1, 1, 0.9, 1), (5, 2, 0.7, 2)])
    tree = data.root(data.bins(8)).grow([0], [3])
    allowed = np.array([[True, False, False], [False, True, True]])
    everything = expanded(data.choose(tree, "rank", among="both"), rows)
    some = expanded(data.choose(tree, "rank", among="both", allowed=allowed), rows)
    assert some == {key: value for key, value in everything.items() if allowed[key[:2]]}
    refused(pl.InvalidValue, lambda: data.choose(tree, "rank", features=[0, 0], allowed=allowed))
    for wrong in (allowed[:1], allowed.astype(int), allowed[0]):
        with pytest.raises(pl.InvalidValue):
            data.choose(tree, "rank", among="both", allowed=wrong)


@settings(max_examples=50, deadline=None)
@given(table=tables)
@pytest.mark.parametrize("score", ["rank", "squared_error"])
def test_runs_are_the_same_by_sorting_and_by_counting(data, table, score):
    from privledger.questions import tallies

    labels = CategoryCells("", 3) if score == "squared_error" else None
    choice = data.choose(grown(data), score, among="both", labels=labels)
    found = []
    for counted in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tallies, "_fits_table", lambda *sizes: counted)  # noqa: B023
            found.append(expanded(choice, rows_of(data.schema, table)))
    assert found[0] == found[1]
