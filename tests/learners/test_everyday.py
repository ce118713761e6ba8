"""Everyday use: weights are refused with the reason; importances come from the model alone."""

import pickle

import numpy as np
import privledger_learners as learners
import pytest
from privledger_learners.estimator import NoiseFloorWarning
from sklearn.exceptions import NotFittedError

import privledger as pl

FEATURES = (pl.Column("useless", "numeric", "feature", 0.0, 1.0),
            pl.Column("telling", "numeric", "feature", 0.0, 1.0, missing=True),
            pl.Column("kind", "categorical", "feature", categories=("a", "b", "c")))
CLASSES = pl.Schema("t", (*FEATURES, pl.Column("y", "categorical", "target",
                                               categories=("no", "yes"))), expected_rows=4000,
                    expected_rows_provenance="public")
NUMBERS = pl.Schema("t", (*FEATURES, pl.Column("y", "numeric", "target", 0.0, 1.0)),
                    expected_rows=4000,
                    expected_rows_provenance="public")
SIMULATED = {"mode": "simulation", "random_state": 3}
LEARNERS = [learners.SGBDTClassifier, learners.SGBDTRegressor, learners.DPBoostClassifier,
            learners.JointTreeClassifier,
            learners.DiPriMeForestRegressor, learners.MultinomialForestClassifier,
            learners.AutoClassifier]


def table(numbers):
    rng = np.random.default_rng(5)
    telling = rng.uniform(0, 1, 4000)
    X = {"useless": rng.uniform(0, 1, 4000), "telling": telling,
         "kind": rng.choice(["a", "b", "c"], 4000)}
    return X, telling if numbers else np.where(telling > 0.5, "yes", "no")


def fitted(learner):
    schema = NUMBERS if learner.__name__.endswith("Regressor") else CLASSES
    X, y = table(schema is NUMBERS)
    return learner(epsilon=8.0, delta=1e-6, schema=schema, **SIMULATED).fit(X, y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_feature_that_tells_leads_and_no_row_is_needed(learner):
    model = fitted(learner)
    found = model.feature_importances_
    assert found.shape == (3,) and (found >= 0).all() and found.sum() == pytest.approx(1.0)
    assert found.argmax() == 1 and found[1] > 0.6
    spent = model.ledger_.spent
    again = pickle.loads(pickle.dumps(model))  # neither ledger nor data is left
    assert not hasattr(again, "ledger_") and not hasattr(again, "data_")
    np.testing.assert_array_equal(again.feature_importances_, found)
    assert model.ledger_.spent == spent


def test_a_model_that_says_one_thing_hangs_on_nothing():
    X, y = table(False)
    few = {name: values[:5] for name, values in X.items()}
    with pytest.warns(NoiseFloorWarning):
        model = learners.SGBDTClassifier(epsilon=0.1, delta=1e-6, schema=pl.Schema(
            "t", CLASSES.columns, expected_rows=5, expected_rows_provenance="public"),
            **SIMULATED).fit(few, y[:5])
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(3))


def test_importances_need_a_fit():
    with pytest.raises(ValueError, match="not fitted"):
        _ = learners.JointTreeClassifier(schema=CLASSES).feature_importances_


WEIGHED = [*LEARNERS, learners.LabelPrivateClassifier, learners.PrivateEnsembleClassifier]


@pytest.mark.parametrize("learner", WEIGHED)
def test_weights_are_refused_before_anything_is_read(learner):
    weights = np.full(7, 31337.25)
    with pytest.raises(pl.InvalidValue, match=r"sample_weight.*othing was read") as caught:
        learner(schema=CLASSES).fit(Unreadable(), Unreadable(), sample_weight=weights)
    assert "31337" not in str(caught.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        learner(schema=CLASSES).fit(Unreadable(), Unreadable(), weights=weights)


def test_a_search_refuses_weights_too():
    search = learners.PrivateSearchCV(learners.SGBDTClassifier(), {"learning_rate": [0.1, 0.2]},
                                      schema=CLASSES)
    with pytest.raises(pl.InvalidValue, match="sample_weight"):
        search.fit(Unreadable(), Unreadable(), sample_weight=[1.0])


def test_no_weights_are_no_weights():
    X, y = table(False)
    model = learners.JointTreeClassifier(epsilon=8.0, schema=CLASSES, **SIMULATED)
    assert model.fit(X, y, sample_weight=None).ledger_.spent > 0


# What learns sums, or samples rows, ranks no features.
_OF_SUMS = ("k-means", "least-squares", "marginal", "naive-bayes", "nearest-centroid", "pca",
            "summary")


@pytest.mark.parametrize("name", pl.plugins.learner_names())
def test_probabilities_wherever_they_mean_something(name):
    learner = pl.load_learner(name)
    assert callable(getattr(learner, "predict_proba", None)) is name.endswith("-classifier")
    assert isinstance(getattr(learner, "feature_importances_", None), property) is not (
        name.startswith(("dpsis", "label-private", "ssrdt", "top", *_OF_SUMS)))


class Unreadable:
    """Whoever looks at it fails the test."""

    def __getattribute__(self, name):
        raise AssertionError("something was read")


ASKED = ("predict", "predict_proba", "decision_function", "transform", "get_support",
         "get_feature_names_out")


@pytest.mark.parametrize("name", pl.plugins.learner_names())
def test_what_was_not_fitted_says_so(name):
    """`predict_proba` of some had no attribute of a name that nobody knows."""
    kind, X = pl.load_learner(name), np.zeros((2, 3))
    for method in ASKED:
        if hasattr(kind, method):
            with pytest.raises(NotFittedError):
                getattr(kind(), method)(*([] if method.startswith("get") else [X]))
    if hasattr(kind, "feature_importances_"):
        with pytest.raises((NotFittedError, AttributeError)):
            _ = kind().feature_importances_
