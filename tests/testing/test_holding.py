"""Locks of every shipped learner, for longer than the default run has time."""

from importlib.metadata import entry_points

import pytest
from cheats.gaps import ScoresTooFarSeldom

from privledger.testing import CHECKS, LearnerCheckFailed

LEARNERS = {entry.load().__name__: entry.load()
            for entry in entry_points(group="privledger.learners")}
FEW = {"DPSIS": {"k": 2}, "DPSISTwoStage": {"k": 2}}  # the examples have three features


def learner_of(name):
    return LEARNERS[name](epsilon=1.0, **FEW.get(name, {}))


def test_there_is_one_of_every_learner():
    assert len([learner_of(name) for name in LEARNERS]) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_twenty_seconds_break_no_premise(name):
    """Exact premises: no false alarm is expected at all."""
    CHECKS["lockstep-holds"](learner_of(name), seconds=20)


def test_a_broken_premise_is_named():
    with pytest.raises(LearnerCheckFailed, match="P3, release 1: the loss is 1.5 times"):
        CHECKS["lockstep-holds"](ScoresTooFarSeldom(epsilon=1.0), seconds=60)
