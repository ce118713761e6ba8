"""Starting learners of `plugins/` in confined processes; skips where the kernel cannot."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.broker import DEFAULTS, RemoteLearner
from privledger.broker.sandbox import BROKEN
from tests.worlds import schema_of

PLUGINS = Path(__file__).parent / "plugins"
SECRET = 0.3141592653589793
SCHEMA = schema_of("tiny", {"x": (0.0, 1.0)}, label=["no", "yes"])


def point(name: str, module: str = "hostile") -> EntryPoint:
    return EntryPoint(f"test-{name.lower()}", f"{module}:{name}", "privledger.learners")


@pytest.fixture
def start(monkeypatch):
    """Start a learner of `plugins/`; every process ends with the test."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    started = []

    def make(name, schema=SCHEMA, patience=60.0, private=(), relation="add_remove",
             labels=None, limits=DEFAULTS, **params):
        try:
            learner = RemoteLearner.start(point(name), {"epsilon": 1.0, "delta": 1e-6} | params,
                                          schema, relation, private=private, patience=patience,
                                          labels=labels, limits=limits)
        except pl.errors.IsolationUnavailable as error:
            if "not available here" in str(error) and BROKEN not in str(error):
                pytest.skip(str(error))
            raise
        started.append(learner)
        return learner

    yield make
    for learner in started:
        learner.close()


@pytest.fixture
def tiny():
    """(ledger, data) of forty records, one of them with a telling value."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6))
    x = np.linspace(0, 1, 40)
    x[17] = SECRET
    return ledger, ledger.protect({"x": x}, np.array(["no", "yes"] * 20), SCHEMA, name="people")
