"""Whole rows as vectors: exact sums, one clip for all entries, statistics of a regression."""

import numpy as np
import pytest

import privledger as pl
from privledger.questions.blocks import clipped
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_target
from tests.all_cases import all_cases
from tests.worlds import protected, refused

SCHEMA = pl.Schema("rows", (
    pl.Column("a", "numeric", "feature", 0.0, 4.0, missing=True),
    pl.Column("b", "numeric", "feature", -1.0, 1.0),
    pl.Column("c", "categorical", "feature", categories=("x", "y")),
    pl.Column("t", "numeric", "target", 0.0, 10.0)))
TINY = pl.Gaussian(1e-6)


@pytest.fixture
def held():
    rng = np.random.default_rng(4)
    X = {"a": rng.uniform(0, 5, 300), "b": rng.uniform(-1, 1, 300),
         "c": rng.choice(np.array(["x", "y"]), 300)}
    X["a"][::7] = np.nan
    return X, rng.uniform(0, 10, 300)


def scaled(X, y):
    a = np.nan_to_num(np.clip((X["a"] - 2) / 2, -1, 1))
    return np.stack([a, X["b"], (y - 5) / 5], axis=1)


def ask(held, query, **options):
    ledger, data = protected(pl.Budget(1e15, 1e-6), *held, SCHEMA, filter="gdp", **options)
    with ledger.request(TINY, data) as session:
        return session.release(TINY, query(data))


def test_sums_are_those_of_the_scaled_rows(held):
    u = scaled(*held)
    assert ask(held, lambda d: d.row_sum()) == pytest.approx(u[:, :2].sum(0), abs=1e-2)
    assert ask(held, lambda d: d.row_sum(["t", "b"])) == pytest.approx(
        u[:, [2, 1]].sum(0), abs=1e-2)
    cells = ask(held, lambda d: d.row_sum(["a", "b"], cells=d.cells("c")))
    for place, name in enumerate(("x", "y")):
        assert cells[place] == pytest.approx(u[held[0]["c"] == name, :2].sum(0), abs=1e-2)


def test_products_are_all_that_a_regression_needs(held):
    u = np.column_stack([np.ones(300), scaled(*held)])
    found = ask(held, lambda d: d.row_sum(["a", "b", "t"], "products"))
    gram = np.zeros((4, 4))
    gram[np.triu_indices(4)] = found
    gram += np.triu(gram, 1).T
    assert gram == pytest.approx(u.T @ u, abs=1e-2)
    fitted = np.linalg.solve(gram[:3, :3], gram[:3, 3])
    assert fitted == pytest.approx(np.linalg.lstsq(u[:, :3], u[:, 3], rcond=None)[0], abs=1e-3)


@pytest.mark.parametrize("kind", ["values", "products"])
def test_a_long_row_is_shortened_as_a_whole(held, kind):
    """Directions stay: one factor for the whole vector, in the norm of the mechanism."""
    data = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6)).protect(*held, SCHEMA)
    u = np.column_stack([np.ones(300), scaled(*held)[:, :2]])
    v = u[:, 1:] if kind == "values" else np.stack(
        [u[:, i] * u[:, j] for i in range(3) for j in range(i, 3)], axis=1)
    for node, norm in ((pl.Gaussian(1.0), 2), (pl.Laplace(1.0, 0.25), 1)):
        query = data.row_sum(kind=kind, clip=0.25)
        state = query.prepare(node, "add_remove")
        rows = Rows(pl.encode_features(held[0], SCHEMA), encode_target(held[1], SCHEMA))
        size = np.linalg.norm(v, ord=norm, axis=1, keepdims=True)
        expected = v / np.maximum(size / 0.25, 1)
        assert clipped(query.blocks[0], rows, norm) == pytest.approx(expected, abs=1e-12)
        (steps,) = query.sketch(rows, state)
        assert np.abs(steps[0] * state.recipes[0].grid - expected.sum(0)).max() <= (
            300 * state.recipes[0].grid)


@pytest.mark.parametrize(("relation", "factor"), [
    ("add_remove", 1), ("replace_one", 2), ("replace_label", 2)])
def test_a_vector_that_is_replaced_turns_round(held, relation, factor):
    data = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6)).protect(*held, SCHEMA)
    query = data.row_sum(["a", "t"], clip=0.5)
    assert query.sensitivity(query.blocks[0], relation, 2) == factor * 0.5


@all_cases("wrong", [
    {"names": []}, {"names": "a"}, {"names": ["a", "a"]}, {"names": ["a"], "clip": 0},
    {"names": ["a"], "clip": float("nan")}, {"names": ["a"], "clip": True},
    {"names": ["a"], "kind": "cubes"}, {"names": [1]},
    {"names": [str(i) for i in range(63)], "kind": "products"}])
def test_impossible_rows_are_refused(wrong):
    refused(pl.errors.InvalidValue, lambda: pl.questions.RowValues(**{"clip": 1.0} | wrong))


def test_a_category_is_refused(held):
    with pytest.raises(pl.errors.SchemaError):
        ask(held, lambda d: d.query((pl.questions.RowValues(["c"], 1.0),)))


def test_people_are_heard_as_one_vector(held):
    """One person's rows count as their mean: with two equal rows each, half of the sum."""
    X, y = ({k: np.repeat(v, 2) for k, v in held[0].items()}, np.repeat(held[1], 2))
    ledger, data = protected(pl.Budget(1e15, 1e-6), X, y, SCHEMA, filter="gdp", unit="person",
                             people_key=b"k" * 32, people=[str(i // 2) for i in range(600)])
    with ledger.request(TINY, data) as session:
        answer = session.release(TINY, data.row_sum())
    assert answer == pytest.approx(scaled(*held)[:, :2].sum(0), abs=1e-2)
