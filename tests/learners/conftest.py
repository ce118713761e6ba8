"""A table that several learners share, and what scikit-learn's own checks ask of the process."""

import numpy as np
import pytest

from tests.worlds import schema_of


@pytest.fixture
def rings():
    """(schema, X, y): 4,000 records in a square; inside the inner one, or blue, they are "in"."""
    return _rings("out", "in")


@pytest.fixture
def rings_and_never():
    """The same with a class that never occurs."""
    return _rings("out", "in", "never")


def _rings(*classes):
    schema = schema_of("rings", {"a": (-1.0, 1.0), "b": (-1.0, 1.0),
                       "colour": ["red", "green", "blue"]}, t=[*classes])
    rng = np.random.default_rng(0)
    X = {"a": rng.uniform(-1, 1, 4000), "b": rng.uniform(-1, 1, 4000),
         "colour": rng.choice(["red", "green", "blue"], 4000)}
    inside = (np.abs(X["a"]) < 0.6) & (np.abs(X["b"]) < 0.6) | (X["colour"] == "blue")
    return schema, X, np.where(inside, "in", "out")


@pytest.fixture(autouse=True)
def array_interface(request, monkeypatch):
    """Its check of arrays under the array interface skips itself unless this is set."""
    if "check_array_api" in request.node.name:
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")
