"""Locks of every shipped learner, for longer than the default run has time."""

import privledger_learners
import pytest
from cheats.gaps import ScoresTooFarSeldom

from privledger.testing import CHECKS, LearnerCheckFailed

LEARNERS = sorted(set(privledger_learners.__all__) - {"PrivateSearchCV"})  # needs a learner
FEW = {"DPSIS": {"k": 2}, "DPSISTwoStage": {"k": 2}}  # the examples have three features


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_twenty_seconds_break_no_premise(name):
    """Exact premises: no false alarm is expected at all."""
    learner = getattr(privledger_learners, name)(epsilon=1.0, **FEW.get(name, {}))
    CHECKS["lockstep-holds"](learner, seconds=20)


def test_a_broken_premise_is_named():
    with pytest.raises(LearnerCheckFailed, match="P3, release 1: the loss is 1.5 times"):
        CHECKS["lockstep-holds"](ScoresTooFarSeldom(epsilon=1.0), seconds=60)
