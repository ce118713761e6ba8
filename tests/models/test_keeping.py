"""A fitted learner goes into a file and comes back the same; nothing else gets in or out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import privledger as pl

sys.path.insert(0, str(Path(__file__).parent))
from kept_learners import LEARNERS, fitted, table

sys.path.pop(0)


HELD = {}


@pytest.fixture
def models():
    """Fitted once, by name."""
    def get(name):
        if name not in HELD:
            HELD[name] = fitted(name)
        return HELD[name]

    return get


def test_every_shipped_learner_is_tried():
    assert set(LEARNERS) == set(pl.plugins.learner_names())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_comes_back_the_same(models, name, tmp_path):
    learner = models(name)
    path = tmp_path / "kept.model"
    pl.save_model(learner, path)
    found = pl.load_model(path)
    assert type(found) is type(learner)
    X, _ = table(LEARNERS[name][0], 300, seed=7)
    if hasattr(learner, "predict"):
        np.testing.assert_array_equal(found.predict(X), learner.predict(X))
    else:
        assert list(found.transform(X)) == list(learner.transform(X))
    if hasattr(learner, "predict_proba"):
        np.testing.assert_array_equal(found.predict_proba(X), learner.predict_proba(X))
    assert not hasattr(found, "ledger_") and not hasattr(found, "data_")
    assert found.schema == LEARNERS[name][0]
    assert found.receipt_ == learner.receipt_
    assert b"pickle" not in path.read_bytes()
