"""Small public tables that every suite shares. Nothing here needs a file or a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import privledger as pl

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared"


@pytest.fixture(scope="session")
def shared_data():
    """The folder of example data sets; skips where it is not there."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the shared example data are not here")
    return folder


@pytest.fixture(scope="session")
def schema():
    return pl.Schema("small", (
        pl.Column("size", "numeric", "feature", 0.0, 1.0),
        pl.Column("weight", "numeric", "feature", -5.0, 5.0, missing=True),
        pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        pl.Column("target", "numeric", "target", 0.0, 10.0),
    ))


@pytest.fixture(scope="session")
def table():
    """200 records: features as a dict of columns, and a numeric target."""
    rng = np.random.default_rng(3)
    weight = rng.uniform(-5, 5, 200)
    weight[::13] = np.nan
    return ({"size": rng.random(200), "weight": weight,
             "colour": np.array(["red", "green", "blue"])[rng.integers(0, 3, 200)]},
            rng.uniform(0, 10, 200))


@pytest.fixture
def make_ledger():
    """Ledgers in memory with a generous budget; keyword arguments as for `Ledger.create`."""
    def make(epsilon=50.0, delta=1e-6, **options):
        return pl.Ledger.create(None, budget=pl.Budget(epsilon, delta), **options)

    return make


@pytest.fixture
def guarded(make_ledger, schema, table):
    """(ledger, data) with a generous budget."""
    ledger = make_ledger()
    return ledger, ledger.protect(*table, schema)
