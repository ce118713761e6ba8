"""The proof by search: nobody's rows together move a query further than one row may.

Sums are whole numbers of grid steps, so distances are exact, as in test_sensitivity.
"""

import math

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.questions.query import Query
from privledger.questions.question import Derivation, Step
from tests.properties.test_sensitivity import queries
from tests.voices.tables import RELATIONS, People

Q = pl.questions


def distances(query, mechanism, relation, one, two):
    """Loss units between two tables: mu squared under Gaussian noise, epsilon under Laplace."""
    state = query.prepare(mechanism, relation)
    gaussian = isinstance(mechanism, pl.Gaussian)
    total = 0.0
    for recipe, left, right in zip(state.recipes, query.sketch(one, state),
                                   query.sketch(two, state), strict=True):
        steps = [abs(int(d)) for d in (left - right).ravel().tolist()]
        total += (math.sqrt(sum(d * d for d in steps)) / recipe.noise) ** 2 if gaussian else (
            sum(steps) / recipe.noise)
    return total


def mechanisms(rng, query, shares, relation):
    most = math.fsum(query.sensitivity(block, relation, 1) for block in query.blocks)
    yield pl.Gaussian(float(np.exp(rng.uniform(-6, 6))), shares if len(shares) > 1 else ())
    yield pl.Laplace(float(np.exp(rng.uniform(-6, 6))), l1_sensitivity=most)


def bound(mechanism):
    if isinstance(mechanism, pl.Gaussian):
        return 1 / mechanism.noise_multiplier**2
    return pl.epsilon(mechanism)


def search(make_ledger, relation, classes, seed, tables):
    """Neighbours tried. Asserts that none of them is too far."""
    rng = np.random.default_rng([seed, classes])
    first = People(classes, []).schema
    X, y, _ = People.drawn(np.random.default_rng(1), classes, 9).columns()
    data = make_ledger().protect(X, y, first)
    tried = 0
    for _ in range(tables):
        for query, shares in queries(data, rng):
            table = People.drawn(rng, classes)
            other = table.neighbour(rng, relation)
            if not other.held or not table.held:
                continue
            one, two = table.rows(), other.rows()
            for mechanism in mechanisms(rng, query, shares, relation):
                assert distances(query, mechanism, relation, one, two) <= bound(mechanism)
                tried += 1
    return tried


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_nobody_moves_a_query_too_far(make_ledger, relation, classes):
    assert search(make_ledger, relation, classes, 1, 6) > 40


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_nobody_moves_a_query_too_far_in_many_trials(make_ledger, relation, classes):
    assert search(make_ledger, relation, classes, 2, 12_000) > 100_000


def parts_of(query, cells):
    """The query on every part of a partition, as the guard would ask it."""
    for part in range(cells.count):
        context = pl.graph.Context("part", "p", part=part, parts=cells.count,
                                   certificate="public_predicate")
        data = query.data
        yield part, Query(Derivation(data.schema, data.seal, (Step(context, cells),)),
                          query.blocks, query.cells, query.what)


def over_parts(query, cells, mechanism, relation, one, two):
    total = 0.0
    for part, inside in parts_of(query, cells):
        held = [rows.subset(np.flatnonzero(cells.index(rows) == part)) for rows in (one, two)]
        total += distances(inside, mechanism, relation, *held)
    return total


def search_parts(make_ledger, classes, seed, tables, relation="add_remove"):
    """Under replace_one two parts may see somebody: one who left, one who came."""
    rng = np.random.default_rng([seed, classes, 3])
    times = 2 if relation == "replace_one" else 1
    X, y, _ = People.drawn(np.random.default_rng(1), classes, 9).columns()
    data = make_ledger().protect(X, y, People(classes, []).schema)
    tried = 0
    for _ in range(tables):
        for query, shares in queries(data, rng):
            table = People.drawn(rng, classes)
            if not table.held:
                continue
            other = table.neighbour(rng, relation)
            cells = (data.cells("c"), data.cells("x", [0.0, 1.0]))[int(rng.integers(2))]
            for mechanism in mechanisms(rng, query, shares, relation):
                found = over_parts(query, cells, mechanism, relation, table.rows(), other.rows())
                assert found <= times * bound(mechanism)
                tried += 1
    return tried


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_all_parts_together_see_one_person_once(make_ledger, classes, relation):
    assert search_parts(make_ledger, classes, 1, 4, relation) > 25


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_all_parts_together_see_one_person_once_in_many_trials(make_ledger, classes, relation):
    assert search_parts(make_ledger, classes, 2, 11_000, relation) > 100_000


def same_person(values, cells=None, times=1):
    """Rows of one person: x `values`."""
    n = len(values)
    return People(False, [({"x": np.array(values, dtype=float),
                            "c": np.array(["a"] * n, dtype=object)},
                           np.zeros(n))] * times).rows()


def answer(query, mechanism, rows, relation="add_remove"):
    state = query.prepare(mechanism, relation)
    return [array * recipe.grid for array, recipe in zip(query.sketch(rows, state), state.recipes,
                                                         strict=True)]


def test_within_a_cell_rows_count_as_their_mean_and_over_cells_by_one_factor(make_ledger):
    X, y, _ = People.drawn(np.random.default_rng(1), False, 9).columns()
    data = make_ledger().protect(X, y, People(False, []).schema)
    total = data.query((Q.ColumnValue("x", 0.0, 1.0, clip=3.0), Q.Ones()))
    rows = same_person([1.0, 2.0, 3.0])
    found, count = answer(total, pl.Laplace(1.0, l1_sensitivity=4.0), rows)
    assert found[0] == pytest.approx(2.0, abs=1e-5)
    assert count[0] == pytest.approx(1.0, abs=1e-5)
    cells = data.histogram("x", [1.5, 2.5])
    each, = answer(cells, pl.Laplace(1.0), rows)
    assert each.ravel() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-5)
    each, = answer(cells, pl.Gaussian(1.0), rows)
    assert each.ravel() == pytest.approx([3**-0.5] * 3 + [0], abs=1e-5)
    each, = answer(cells, pl.Gaussian(1.0), rows, "replace_label")
    assert each.ravel() == pytest.approx([3**-0.5] * 3 + [0], abs=1e-5)


def test_ratios_of_answers_stay_means(make_ledger):
    """One factor for every block: a sum over a count is still somebody's mean."""
    X, y, _ = People.drawn(np.random.default_rng(1), False, 9).columns()
    data = make_ledger().protect(X, y, People(False, []).schema)
    query = data.query((Q.ColumnValue("x", 0.0, 1.0, clip=3.0), Q.Ones()),
                       data.cells("x", [0.5, 1.5]))
    rows = same_person([0.25, 0.25, 1.0, 3.0])
    for mechanism in (pl.Laplace(1.0, l1_sensitivity=4.0), pl.Gaussian(1.0, (0.5, 0.5))):
        found, count = answer(query, mechanism, rows)
        ratio = found[:3].ravel() / count[:3].ravel()
        assert ratio == pytest.approx([0.25, 1.0, 3.0], rel=1e-4)


def test_a_person_with_very_many_rows_is_no_longer_than_any_other(make_ledger):
    """Adding up a million numbers rounds up; the mean is cut afterwards."""
    X, y, _ = People.drawn(np.random.default_rng(1), False, 9).columns()
    data = make_ledger().protect(X, y, People(False, []).schema)
    query = data.query((Q.ColumnValue("x", 0.0, 0.1, clip=0.7), Q.TargetShares()),
                       data.cells("x", [-1.0]))
    n = 300_000
    x = np.where(np.arange(n) % 3 == 0, -2.0, 3.0)
    empty = People(False, []).rows()
    held = People(False, [({"x": x, "c": np.full(n, "a", dtype=object)}, np.full(n, 3.3))]).rows()
    for mechanism in (pl.Gaussian(1e-4, (0.3, 0.7)), pl.Laplace(1e-4, l1_sensitivity=1.7)):
        found = distances(query, mechanism, "add_remove", empty, held)
        assert 0.99 * bound(mechanism) < found <= bound(mechanism)


def test_a_masked_table_and_a_part_give_the_same_sums(make_ledger):
    X, y, _ = People.drawn(np.random.default_rng(1), True, 9).columns()
    data = make_ledger().protect(X, y, People(True, []).schema)
    rng = np.random.default_rng(5)
    cells = data.cells("c")
    for query, shares in queries(data, rng):
        rows = People.drawn(rng, True, 9).rows()
        mechanism = pl.Gaussian(1.0, shares if len(shares) > 1 else ())
        for part, inside in parts_of(query, cells):
            members = cells.index(rows) == part
            if not members.any():
                continue
            state = inside.prepare(mechanism, "add_remove")
            whole = inside.sketch(rows, evolve(state, mask=members))
            alone = inside.sketch(rows.subset(np.flatnonzero(members)), state)
            for one, other in zip(whole, alone, strict=True):
                np.testing.assert_array_equal(one, other)


def test_other_labels_in_other_cells(make_ledger):
    """Two rows in two cells, one of them of the class: the other way round is the whole bound."""
    X, y, _ = People.drawn(np.random.default_rng(1), True, 9).columns()
    data = make_ledger().protect(X, y, People(True, []).schema)
    query = data.query((Q.ClassIs(1),), data.cells("x", [0.5]))
    X = {"x": np.array([0.0, 1.0]), "c": np.array(["a", "a"], dtype=object)}
    one, two = (People(True, [(X, np.array(labels))]).rows() for labels in ([1, 0], [0, 1]))
    for mechanism in (pl.Gaussian(0.01), pl.Laplace(0.01)):
        found = distances(query, mechanism, "replace_label", one, two)
        assert 0.999 * bound(mechanism) < found <= bound(mechanism)
