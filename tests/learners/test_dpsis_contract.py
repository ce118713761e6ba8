"""DP-SIS and its baseline against the conformance kit and scikit-learn's checks."""

from __future__ import annotations

import pytest
from privledger_learners import DPSIS, DPSISTwoStage
from sklearn.utils.estimator_checks import parametrize_with_checks

import privledger as pl
from privledger.testing import CHECKS, parametrize_with_learner_checks


def same_scores(X, y):
    return X.shape[1] * [1.0]


LEARNERS = [
    DPSIS(k=2),
    DPSIS(k=2, epsilon=6.0),
    DPSIS(k=2, scores="rank", relation="replace_one"),
    DPSIS(k=2, scores="correlation", method="canonical"),
    DPSIS(k=2, delta=1e-6),
    DPSIS(k=1, scores=pl.questions.CustomScores(same_scores, 1.0, "constant")),
    DPSISTwoStage(k=2),
    DPSISTwoStage(k=2, method="canonical", relation="replace_one"),
]


class Numbers(DPSIS):
    """The same on the kit's table with a number as its target."""

    info = pl.LearnerInfo("numbers", "DP-SIS on a number", tasks=("regression", "classification"))


class Classes(DPSIS):
    """The same on the kit's table with classes only: nothing else has sizes to balance."""

    info = pl.LearnerInfo("classes", "DP-SIS on classes", tasks=("classification",))


OTHERS = [*LEARNERS[1:], Numbers(k=2), Numbers(k=2, epsilon=6.0),
          Classes(k=2, class_weight="balanced"),
          Classes(k=1, class_weight="balanced", relation="replace_one", method="canonical")]


@parametrize_with_learner_checks(LEARNERS[:1])
def test_learner_conforms(learner, check):
    check(learner)


@parametrize_with_learner_checks(OTHERS, without=("epsilon-holds",))
def test_learner_conforms_with_other_parameters(learner, check):
    check(learner)


@pytest.mark.slow
@pytest.mark.parametrize("learner", OTHERS, ids=[
    f"{place}-{type(learner).__name__}" for place, learner in enumerate(OTHERS)])
def test_epsilon_holds_with_other_parameters(learner):
    CHECKS["epsilon-holds"](learner)


@parametrize_with_checks([
    DPSIS(mode="simulation", random_state=0, k=1),
    DPSISTwoStage(mode="simulation", random_state=0, k=1),
])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
