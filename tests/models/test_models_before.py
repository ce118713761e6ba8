"""Model files that were written before boosted learners shared their records: still read."""

import json
from pathlib import Path

import numpy as np
import pytest

import privledger as pl

BEFORE = Path(__file__).parent / "before"  # made at commit 7fd5746, in simulation
SAID = json.loads((BEFORE / "said.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SAID["said"])
def test_a_model_from_before_says_what_it_said(name):
    model = pl.load_model(BEFORE / f"{name}.model")
    found = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    assert np.array_equal(found(SAID["rows"]), np.array(SAID["said"][name]))


@pytest.mark.parametrize("name", SAID["said"])
def test_and_is_written_again_with_what_was_added(name, tmp_path):
    pl.save_model(pl.load_model(BEFORE / f"{name}.model"), tmp_path / "again.model")
    again = pl.load_model(tmp_path / "again.model")
    found = again.predict_proba if hasattr(again, "predict_proba") else again.predict
    assert np.array_equal(found(SAID["rows"]), np.array(SAID["said"][name]))
