"""Lines of learners that could once be changed without a test noticing."""

import numpy as np
import pytest
from privledger_learners import DiPriMeForestClassifier, JointTreeClassifier
from privledger_learners.soft_forest import least_leaf

import privledger as pl
from tests.worlds import refused, schema_of

SCHEMA = schema_of("s", {"x": (0.0, 1.0)}, t=["no", "yes"])
X = {"x": np.linspace(0.0, 1.0, 60)}
Y = np.where(X["x"] > 0.5, "yes", "no")


def test_a_simulation_with_another_seed_is_another():
    def answers(seed):
        model = JointTreeClassifier(epsilon=0.5, schema=SCHEMA, mode="simulation",
                                    random_state=seed)
        return model.fit(X, Y).predict_proba(X).tolist()

    assert answers(3) == answers(3)
    assert len({str(answers(seed)) for seed in range(5)}) > 1


def test_the_least_clear_answer_says_how_many_records_a_leaf_needs():
    clear, unclear = [0.9, 0.1], [0.55, 0.45]
    assert least_leaf(np.array([clear, clear])) == 3
    assert least_leaf(np.array([clear, unclear])) == 25
    assert least_leaf(np.array([unclear, clear])) == 25


@pytest.mark.parametrize(("candidates", "fits"), [(10**6, True), (10**6 + 1, False), (0, False)])
def test_how_many_candidates_there_may_be(candidates, fits):
    learner = DiPriMeForestClassifier(epsilon=1.0, schema=SCHEMA, candidates=candidates, n_trees=1,
                                      depth=1)
    if fits:
        learner.plan(SCHEMA)
    else:
        refused(pl.InvalidValue, lambda: learner.plan(SCHEMA), match="candidates")
