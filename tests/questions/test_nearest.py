"""Cells by the nearest centre: who is in which, and what is refused."""

import numpy as np
import pytest

import privledger as pl
from privledger.questions import NearestCells, Ones, RowValues
from tests.all_cases import all_cases

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", 0.0, 10.0, missing=True),
    pl.Column("z", "numeric", "feature", -2.0, 2.0),
    pl.Column("c", "categorical", "feature", categories=("a", "b")),
    pl.Column("y", "numeric", "target", 0.0, 1.0)))
QUIET = pl.Gaussian(1e-6)


def protected(x, z):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e15, 1e-6), filter="gdp")
    return ledger, ledger.protect({"x": x, "z": z, "c": ["a"] * len(x)}, np.zeros(len(x)), SCHEMA)


def test_sizes_are_those_of_the_nearest_centre():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 11, 500), rng.uniform(-2, 2, 500)
    centers = rng.uniform(-1, 1, (4, 2))
    scaled = np.clip(np.stack([x / 5 - 1, z / 2], axis=1), -1, 1)
    nearest = np.square(scaled[:, None] - centers).sum(axis=2).argmin(axis=1)
    ledger, data = protected(x, z)
    with ledger.request(QUIET, data) as session:
        found = session.release(QUIET, data.query((Ones(),), NearestCells(("x", "z"), centers)))
    assert np.ravel(found) == pytest.approx(np.bincount(nearest, minlength=4), abs=1e-3)


def test_ties_go_to_the_first_and_missing_counts_as_the_middle():
    ledger, data = protected([np.nan, 5.0, 0.0], [0.0, 0.0, 2.0])
    cells = NearestCells(("x",), [[0.5], [-0.5], [0.5]])
    with ledger.request(QUIET, data) as session:
        found = session.release(QUIET, data.query((Ones(),), cells))
    assert np.ravel(found) == pytest.approx([2, 1, 0], abs=1e-3)


def test_a_partition_by_centres_costs_as_one_part():
    ledger, data = protected([1.0, 9.0], [0.0, 1.0])
    node = pl.Gaussian(2.0)
    left, right = data.partition(NearestCells(("x",), [[-1.0], [1.0]]))
    with ledger.request(pl.Parallel([node, node], "public_predicate"), data) as session:
        for part in (left, right):
            session.release(node, part.query((RowValues(["z"], 1.0),)))
    assert ledger.spent == pytest.approx(pl.epsilon(node, 1e-6), rel=1e-6)


@all_cases("wrong", [
    {"names": ("x", "x")}, {"names": ("",)}, {"names": ()}, {"centers": [0.0]},
    {"centers": [[0.0, 1.0]]}, {"centers": [[1.5]]}, {"centers": [[np.nan]]}, {"centers": []},
    {"centers": [[0.0], [0.0, 1.0]]}, {"centers": [[True]]}, {"centers": "x"}])
def test_what_are_no_centres_is_refused(wrong):
    with pytest.raises(pl.PrivledgerError):
        NearestCells(**{"names": ("x",), "centers": [[0.0]]} | wrong)


def test_a_category_has_no_distance():
    ledger, data = protected([1.0], [1.0])
    with ledger.request(QUIET, data) as session, pytest.raises(pl.SchemaError):
        session.release(QUIET, data.query((Ones(),), NearestCells(("c",), [[0.0]])))
    (grant,) = ledger.state.grants.values()
    assert grant.end.releases == 0
