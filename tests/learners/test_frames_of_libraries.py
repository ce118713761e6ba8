"""Learners take frames of every library, and predict the same of the same rows."""

import numpy as np
import polars
import pyarrow as pa
import pytest
from privledger_learners import DiPriMeForestRegressor
from privledger_learners.guarding import with_unlabelled

import privledger as pl

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", 0.0, 1.0),
    pl.Column("job", "categorical", "feature", categories=("nurse", "smith"), missing=True),
    pl.Column("y", "numeric", "target", 0.0, 1.0)))
RNG = np.random.default_rng(0)
ROWS = {"x": RNG.random(60), "job": np.array(["nurse", None, "smith"] * 20, dtype=object),
        "y": RNG.random(60)}
TABLE = pa.table(ROWS)
FORMS = {"arrow": TABLE, "polars": polars.from_arrow(TABLE), "pandas": TABLE.to_pandas()}


@pytest.mark.parametrize("form", FORMS)
def test_a_learner_fits_and_predicts(form):
    found = []
    for X, y in ((FORMS[form], FORMS[form]["y"]), (ROWS, ROWS["y"])):
        learner = DiPriMeForestRegressor(epsilon=5.0, n_trees=2, max_depth=2, schema=SCHEMA,
                                         mode="simulation", random_state=3)
        found.append(learner.fit(X, y).predict(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_a_label_come_in_any_form(form):
    X, y = with_unlabelled(FORMS[form], ROWS["y"], FORMS[form], SCHEMA)
    found, expected = (pl.encode_features(one, SCHEMA).arrays for one in (
        X, {name: np.concatenate([ROWS[name], ROWS[name]]) for name in ("x", "job")}))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(y) == 120
