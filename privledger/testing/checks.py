"""Named checks for learner plugins. Each takes a learner and raises `LearnerCheckFailed`."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

from privledger.errors import BudgetExceeded, PrivledgerError
from privledger.graph import cost_of
from privledger.ledger import Budget
from privledger.session import Ledger
from privledger.testing.watched import WatchedTable, example_schema, example_table

Check = Callable[[Any], None]


class LearnerCheckFailed(AssertionError):
    """A learner breaks a rule; `check` is the rule's stable id."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check


def _fail(check: str, message: str) -> None:
    raise LearnerCheckFailed(check, message)


def _task(learner: Any) -> str:
    tasks = learner.info.tasks
    return "classification" if tasks and "regression" not in tasks else "regression"


def _fresh(learner: Any) -> Any:
    """An unfitted copy; a plain deep copy for learners without `get_params`."""
    if hasattr(learner, "get_params"):
        return type(learner)(**learner.get_params(deep=False))
    return copy.deepcopy(learner)


def _ledger(learner: Any, factor: float = 1.0) -> Ledger:
    epsilon, delta = float(learner.epsilon), float(getattr(learner, "delta", 0.0))
    return Ledger.create(None, budget=Budget(epsilon * factor, delta),
                         relation=getattr(learner, "relation", "add_remove"))


def _watched(learner: Any, factor: float = 1.0, table: Any = None) -> WatchedTable:
    """The example table behind the learner's own kind of ledger.

    A learner whose attribute `unlabelled` is true gets one where some labels are missing.
    """
    return WatchedTable.build(_ledger(learner, factor), _task(learner), table,
                              unlabelled=bool(getattr(learner, "unlabelled", False)))


def check_plan_needs_no_data(learner: Any) -> None:
    """`plan(schema)` gives a priced node, the same one twice, from public facts alone."""
    schema = example_schema(_task(learner))
    plan = _fresh(learner).plan(schema)
    cost_of(plan, getattr(learner, "relation", "add_remove"))
    if _fresh(learner).plan(schema) != plan:
        _fail("plan-needs-no-data", "two plans from one schema differ")


def check_no_read_before_grant(learner: Any) -> None:
    """Rows are read inside releases only, and every reading release was charged."""
    watched = _watched(learner)
    _fresh(learner).fit(watched.data)
    if watched.early:
        _fail("no-read-before-grant", f"rows were read {watched.early} times outside a release")
    charged = sum(grant.releases for grant in watched.ledger.state.grants.values())
    if watched.vault.opened > charged:
        _fail("no-read-before-grant", "rows were read more often than releases were charged")
    if not watched.ledger.state.grants:
        _fail("no-read-before-grant", "the learner fitted without asking for a grant")


def check_refusal_reads_nothing(learner: Any) -> None:
    """Over budget: `BudgetExceeded`, zero rows read, nothing spent."""
    watched = _watched(learner, 0.5)
    try:
        _fresh(learner).fit(watched.data)
    except BudgetExceeded:
        pass
    else:
        _fail("refusal-reads-nothing", "a fit over budget was not refused")
    if watched.early or watched.vault.opened or watched.ledger.spent:
        _fail("refusal-reads-nothing", "a refused fit read rows or spent budget")


def check_spend_within_plan(learner: Any) -> None:
    """What the ledger holds after a fit is what `plan(schema)` said, and it verifies."""
    watched = _watched(learner)
    _fresh(learner).fit(watched.data)
    if watched.ledger.spent > float(learner.epsilon) * (1 + 1e-9):
        _fail("spend-within-plan", "the fit spent more than its epsilon")
    findings = watched.ledger.verify()
    if findings:
        _fail("spend-within-plan", f"the ledger does not verify: {findings[0].message}")


def check_same_plan_for_neighbouring_tables(learner: Any) -> None:
    """One record more or less does not change what is reserved."""
    task = _task(learner)
    X, y = example_table(task)
    smaller = {name: column[1:] for name, column in X.items()}, y[1:]
    plans = []
    for table in ((X, y), smaller):
        watched = _watched(learner, table=table)
        _fresh(learner).fit(watched.data)
        plans.append([grant.body["plan"] for grant in watched.ledger.state.grants.values()])
    if plans[0] != plans[1]:
        _fail("same-plan-for-neighbouring-tables", "the reservation depends on the records")


def check_crash_keeps_the_charge(learner: Any) -> None:
    """A fit that dies after its first release has spent its whole reservation."""
    watched = _watched(learner)
    ledger = watched.ledger

    class Crash(Exception):
        pass

    def stop(releases: int) -> None:
        raise Crash

    ledger.on_release = stop
    try:
        _fresh(learner).fit(watched.data)
    except Crash:
        pass
    except PrivledgerError as error:
        _fail("crash-keeps-the-charge", f"the exception was replaced by {type(error).__name__}")
    if not ledger.spent >= float(learner.epsilon) * 0.5:
        _fail("crash-keeps-the-charge", "a crashed fit was handed back its budget")


def check_copies_never_fork_the_budget(learner: Any) -> None:
    """A fitted learner pickles without guarded data; a copied one keeps the same ledger."""
    watched = _watched(learner)
    fitted = _fresh(learner)
    fitted = fitted.fit(watched.data) or fitted
    twin = copy.deepcopy(fitted)
    for name, value in vars(twin).items():
        if isinstance(value, Ledger) and value is not watched.ledger:
            _fail("copies-never-fork-the-budget", f"{name} is a second ledger")
    try:
        text = pickle.dumps(fitted)
    except TypeError as error:
        _fail("copies-never-fork-the-budget", f"a fitted learner must pickle: {error}")
    else:
        if b"WatchedRows" in text or b"Vault" in text:
            _fail("copies-never-fork-the-budget", "guarded data went into a pickle")


CHECKS: dict[str, Check] = {
    "plan-needs-no-data": check_plan_needs_no_data,
    "no-read-before-grant": check_no_read_before_grant,
    "refusal-reads-nothing": check_refusal_reads_nothing,
    "spend-within-plan": check_spend_within_plan,
    "same-plan-for-neighbouring-tables": check_same_plan_for_neighbouring_tables,
    "crash-keeps-the-charge": check_crash_keeps_the_charge,
    "copies-never-fork-the-budget": check_copies_never_fork_the_budget,
}


def check_learner(learner: Any) -> None:
    """Run every check on an unfitted learner; raise at the first that fails."""
    for check in CHECKS.values():
        check(learner)


def parametrize_with_learner_checks(learners: list[Any]) -> Any:
    """A pytest decorator: one case per learner and check, with ids such as `X-spend-within-plan`.

    The decorated test takes `learner` and `check` and calls `check(learner)`.
    """
    import pytest

    cases = [pytest.param(learner, check, id=f"{_name(learner)}-{name}")
             for learner in learners for name, check in CHECKS.items()]
    return pytest.mark.parametrize(("learner", "check"), cases)


def _name(learner: Any) -> str:
    return (learner if inspect.isclass(learner) else type(learner)).__name__
