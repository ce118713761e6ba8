"""The conformance kit for learner plugins: `check_learner(learner)` runs every check.

Checks have stable ids; `parametrize_with_learner_checks` makes one pytest case of each.
"""

from privledger.testing.checks import (
    CHECKS,
    check_learner,
    parametrize_with_learner_checks,
    parametrize_with_sklearn_checks,
)
from privledger.testing.examples import Example, example_schema, example_table
from privledger.testing.fitting import LearnerCheckFailed, WatchedTable
from privledger.testing.guessing import Guessed, guess, guessing_audit

__all__ = ["CHECKS", "Example", "Guessed", "LearnerCheckFailed", "WatchedTable", "check_learner",
           "example_schema", "example_table", "guess", "guessing_audit",
           "parametrize_with_learner_checks", "parametrize_with_sklearn_checks"]
