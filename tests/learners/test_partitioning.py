"""Partitioning ensembles: conform, cost what they say, refuse what has no sound reading."""

from __future__ import annotations

from privledger_learners import PrivateEnsembleClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from privledger.testing import parametrize_with_learner_checks

LEARNERS = [
    PrivateEnsembleClassifier(epsilon=1.0),
    PrivateEnsembleClassifier(epsilon=1.0, variant="paper"),
    PrivateEnsembleClassifier(epsilon=1.0, delta=1e-6, depth=2, n_trees=3, sharing="disjoint"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="sspe1"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="sspe1", linkage="linked"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="sspe1", variant="paper", linkage="linked"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="sspe2"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="sspe2", variant="paper"),
    PrivateEnsembleClassifier(epsilon=1.0, setting="pte", second_trees=3),
]


@parametrize_with_learner_checks(LEARNERS)
def test_learner_conforms(learner, check):
    check(learner)


@parametrize_with_checks([
    PrivateEnsembleClassifier(epsilon=200.0, mode="simulation", random_state=0),
    PrivateEnsembleClassifier(epsilon=200.0, mode="simulation", random_state=0, setting="sspe2"),
])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
