"""The rules by name, and the ways to run them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from unittest import SkipTest

from privledger.errors import public_name
from privledger.plugins import Priced
from privledger.testing.charging import (
    check_copies_never_fork_the_budget,
    check_crash_keeps_the_charge,
    check_no_read_before_grant,
    check_plan_needs_no_data,
    check_refusal_reads_nothing,
    check_same_plan_for_neighbouring_tables,
    check_spend_within_plan,
)
from privledger.testing.examples import Example
from privledger.testing.fitting import LearnerCheckFailed, fail, fresh
from privledger.testing.lockstep import lockstep
from privledger.testing.replaying import (
    check_model_follows_answers,
    check_rows_are_treated_alone,
)
from privledger.testing.scans import check_no_sampler_of_its_own, check_public_names_only
from privledger.testing.structure import check_bad_input_is_refused, check_structure_is_public
from privledger.testing.taint import (
    check_nothing_private_in_errors,
    check_nothing_private_in_the_model,
)
from privledger.testing.trials import check_epsilon_holds, check_fresh_noise

# The check by replay: the premises of a learner's privacy proof, on paths of its fits.

LOCK, LOCK_SECONDS = "lockstep-holds", 0.3


def check_lockstep_holds(learner: Priced, example: Example | None = None, *,
                         seconds: float = LOCK_SECONDS) -> None:
    """Fits on neighbouring tables with equal answers lose no more than their releases cost.

    docs/proofs/lockstep.md has the premises. What holds is said of the tables and paths that
    were visited: more of them with more time. Of a learner that is not replayable nothing is said,
    but for a warning.

    Args:
        seconds: of processor time; a few pairs of tables are always looked at.
    """
    found = lockstep(fresh(learner), example, seconds=seconds)
    if found.word == "not replayable":
        warnings.warn(f"{LOCK}: nothing is known of {type(learner).__name__}, as {found.why}",
                      stacklevel=2)
    elif not found.holds:
        place = "the fit" if found.release < 0 else f"release {found.release + 1}"
        fail(LOCK, f"{found.premise}, {place}: {found.why}")


Check = Callable[..., None]

_FORMER = {"answers-alone-decide": "model-follows-answers"}


class Checks(dict[str, Check]):
    """Checks by name, in order. A former name finds its check, and is in no list."""

    def __missing__(self, name: str) -> Check:
        if name not in _FORMER:
            raise KeyError(name)
        return self[_FORMER[name]]


def _reporting(name: str, check: Check) -> Check:
    """The check; whatever else a learner makes it raise is a failed check, too."""

    @wraps(check)
    def checked(*given: Any, **named: Any) -> None:
        try:
            check(*given, **named)
        except (LearnerCheckFailed, Warning, SkipTest):
            raise
        except Exception as error:
            # Its text may quote a value, and stays with the cause.
            raise LearnerCheckFailed(name, "a fit or a plan of the learner fails on a table of "
                                     f"the kit: {public_name(type(error))}") from error

    return checked


# Names are stable: they are the ids of test cases in other people's projects.
CHECKS = Checks({name: _reporting(name, check) for name, check in {
    "plan-needs-no-data": check_plan_needs_no_data,
    "no-read-before-grant": check_no_read_before_grant,
    "refusal-reads-nothing": check_refusal_reads_nothing,
    "spend-within-plan": check_spend_within_plan,
    "same-plan-for-neighbouring-tables": check_same_plan_for_neighbouring_tables,
    "crash-keeps-the-charge": check_crash_keeps_the_charge,
    "copies-never-fork-the-budget": check_copies_never_fork_the_budget,
    "structure-is-public": check_structure_is_public,
    "bad-input-is-refused": check_bad_input_is_refused,
    "no-sampler-of-its-own": check_no_sampler_of_its_own,
    "public-names-only": check_public_names_only,
    "rows-are-treated-alone": check_rows_are_treated_alone,
    "model-follows-answers": check_model_follows_answers,
    "lockstep-holds": check_lockstep_holds,
    "fresh-noise": check_fresh_noise,
    "nothing-private-in-the-model": check_nothing_private_in_the_model,
    "nothing-private-in-errors": check_nothing_private_in_errors,
    "epsilon-holds": check_epsilon_holds,
}.items()})


def check_learner(learner: Any, example: Example | None = None) -> None:
    """Run every check on an unfitted learner; raise `LearnerCheckFailed` at the first that fails.

    Args:
        learner: with its epsilon and delta.
        example: a table to fit on, for a learner that cannot use the kit's own.
    """
    for check in CHECKS.values():
        check(learner, example)


def parametrize_with_learner_checks(learners: list[Any], *, without: tuple[str, ...] = ()) -> Any:
    """A pytest decorator: one case per learner and check, with ids such as `X-spend-within-plan`.

    The decorated test takes `learner` and `check` and calls `check(learner)`.

    Args:
        without: checks to leave out, for example `epsilon-holds`, which fits often, where the
            same class is checked with other parameters already.
    """
    import pytest

    out = {_FORMER.get(name, name) for name in without}
    unknown = out - set(CHECKS)
    if unknown:
        raise ValueError(f"no check is called {', '.join(sorted(unknown))}")
    cases = [pytest.param(learner, check, id=f"{_name(learner)}-{name}")
             for learner in learners for name, check in CHECKS.items() if name not in out]
    return pytest.mark.parametrize(("learner", "check"), cases)


def parametrize_with_sklearn_checks(learners: list[Any],
                                    expected_failures: Mapping[str, str] | None = None) -> Any:
    """scikit-learn's own checks, as a pytest decorator; the test takes `estimator` and `check`.

    They fit on tables without a schema, so the learners must be in a mode that infers one
    (`mode="simulation"`, NOT PRIVATE). That mode is for this, and never for people's data.

    Args:
        expected_failures: check name -> why it cannot hold; such a case is marked `xfail`.
    """
    from sklearn.utils.estimator_checks import parametrize_with_checks

    reasons = dict(expected_failures or {})
    if not all(isinstance(reason, str) and reason.strip() for reason in reasons.values()):
        raise ValueError("each expected failure needs a reason")
    return parametrize_with_checks(learners, expected_failed_checks=lambda learner: reasons)


def _name(learner: Any) -> str:
    return (learner if inspect.isclass(learner) else type(learner)).__name__
