"""The plugin surface: what a learner is, and how installed ones are found."""

from privledger.people.keys import passing_people_key
from privledger.plugins.learner import ClaimStep, Learner, LearnerInfo
from privledger.plugins.registry import (
    configured,
    find_learner,
    is_shipped,
    learner_names,
    load_learner,
)

__all__ = ["ClaimStep", "Learner", "LearnerInfo", "configured", "find_learner",
           "is_shipped", "learner_names", "load_learner", "passing_people_key"]
