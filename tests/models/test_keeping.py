"""A fitted learner goes into a file and comes back the same; nothing else gets in or out."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from tests.all_cases import all_cases

sys.path.insert(0, str(Path(__file__).parent))
from kept_learners import LEARNERS, fitted, table

from tests.worlds import refused, schema_of

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
    twin = pickle.loads(pickle.dumps(learner))
    ask = "predict" if hasattr(learner, "predict") else "transform"
    if hasattr(learner, ask):
        np.testing.assert_array_equal(list(getattr(twin, ask)(X)), list(getattr(learner, ask)(X)))
    assert not hasattr(twin, "ledger_") and not hasattr(twin, "data_")
    if hasattr(learner, "predict"):
        np.testing.assert_array_equal(found.predict(X), learner.predict(X))
    elif hasattr(learner, "score_samples"):
        np.testing.assert_array_equal(found.score_samples(X), learner.score_samples(X))
        assert found.sample(50).equals(learner.sample(50))
    else:
        np.testing.assert_array_equal(list(found.transform(X)), list(learner.transform(X)))
    if hasattr(learner, "predict_proba"):
        np.testing.assert_array_equal(found.predict_proba(X), learner.predict_proba(X))
    assert not hasattr(found, "ledger_") and not hasattr(found, "data_")
    assert found.schema == LEARNERS[name][0]
    assert found.receipt_ == learner.receipt_
    assert b"pickle" not in path.read_bytes()


@all_cases("name", sorted(LEARNERS))
def test_a_model_answers_for_rows_it_could_not_have_seen(models, name):
    """Beyond the bounds, of no known category, with gaps."""
    held = [column.name for column in LEARNERS[name][0].features]
    strange = {"x": [-5.0, 2.0, np.nan], "n": [99.0, -1.0, 0.0], "c": ["violet", None, "a"]}
    for ask in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(models(name), ask) and not name.startswith("dpsis"):  # these choose columns
            found = getattr(models(name), ask)({one: strange[one] for one in held})
            assert len(found) == 3
            assert np.asarray(found).dtype.kind != "f" or np.isfinite(found).all()


@pytest.mark.parametrize("budget", [None, 0.01])
def test_a_learner_that_is_not_fitted_is_not_kept(tmp_path, budget):
    learn = pytest.importorskip("privledger_learners")
    schema = schema_of("t", {"x": (0, 10)}, y=[1, "yes"])
    X, y = {"x": [float(i % 10) for i in range(100)]}, [1, "yes"] * 50
    learner = learn.JointTreeClassifier(epsilon=1.0, schema=schema, mode="simulation",
                                        random_state=0)
    if budget is not None:
        book = pl.Ledger.create(None, budget=pl.Budget(budget), mode="simulation", seed=0)
        refused(pl.BudgetExceeded, lambda: learner.fit(book.protect(X, y, schema)))
    with pytest.raises(pl.errors.ModelError, match="not fitted yet"):
        pl.save_model(learner, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    learner.fit(X, y)
    pl.save_model(learner, tmp_path / "m")
    again = pl.load_model(tmp_path / "m")
    assert again.classes_.tolist() == [1, "yes"] and set(again.predict(X).tolist()) <= {1, "yes"}
    assert again.score(X, y) == again.score(X, ["1", "yes"] * 50) == again.score(
        X, np.array([1, "yes"] * 50, dtype=object))
