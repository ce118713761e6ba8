"""LabelPrivateClassifier: conforms, costs what it says, learns from noisy answers."""

from __future__ import annotations

from privledger_learners import LabelPrivateClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from privledger.testing import parametrize_with_learner_checks

LEARNERS = [LabelPrivateClassifier(epsilon=1.0, n_trees=5)]


@parametrize_with_learner_checks(LEARNERS)
def test_learner_conforms(learner, check):
    check(learner)


@parametrize_with_checks([LabelPrivateClassifier(epsilon=100.0, mode="simulation", random_state=0,
                                                 n_trees=5)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
