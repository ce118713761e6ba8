"""DPBoost against the conformance kit and scikit-learn's own checks."""

from __future__ import annotations

import pytest
from privledger_learners import DPBoostClassifier, DPBoostRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from privledger.testing import parametrize_with_learner_checks

LEARNERS = [
    DPBoostRegressor(),
    DPBoostClassifier(),
    DPBoostRegressor(n_trees=10, parts=5, depth=2, gradient_filtering=True, geometric="leaves"),
    DPBoostClassifier(delta=1e-6, n_trees=6, depth=2, geometric="gradients"),
    DPBoostClassifier(n_trees=4, parts=2, relation="replace_one"),
]


@parametrize_with_learner_checks(LEARNERS)
def test_learner_conforms(learner, check):
    check(learner)


@pytest.mark.parametrize("kind", [DPBoostRegressor, DPBoostClassifier])
def test_the_default_is_pure(kind):
    assert kind().delta == 0.0


EXPECTED_FAILURES: dict[str, str] = {}
"""None: the suite runs in simulation mode, where a schema may be inferred. NOT PRIVATE."""


@parametrize_with_checks([
    DPBoostRegressor(mode="simulation", random_state=0, epsilon=50.0, n_trees=20, depth=3),
    DPBoostClassifier(mode="simulation", random_state=0, epsilon=50.0, n_trees=20, depth=3),
], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
