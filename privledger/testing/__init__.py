"""The conformance kit for learner plugins: `check_learner(learner)` runs every check.

Checks have stable ids; `parametrize_with_learner_checks` makes one pytest case of each.
"""

from privledger.testing.checks import (
    CHECKS,
    LearnerCheckFailed,
    check_learner,
    parametrize_with_learner_checks,
)
from privledger.testing.watched import WatchedTable, example_table

__all__ = [
    "CHECKS",
    "LearnerCheckFailed",
    "WatchedTable",
    "check_learner",
    "example_table",
    "parametrize_with_learner_checks",
]
