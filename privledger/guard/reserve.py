"""Reservations: decide on the whole plan, write it durably, or refuse. Nothing is read here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privledger.accounting import DEFAULT_ORDERS, check_relation
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    LedgerCorrupt,
    LedgerError,
    NotGranted,
)
from privledger.graph import IndividualFilter, Node, cost_of, from_json
from privledger.graph.meter import filter_caps
from privledger.graph.remember import charging
from privledger.guard.alone import check_alone, once_alone
from privledger.guard.scope import Scope
from privledger.ledger import FilterRule, History, Refusal, State, choose_filter, decide
from privledger.ledger.entries import Entry
from privledger.ledger.history import now

Lines = list[tuple[str, dict[str, Any]]]


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def filter_body(rule: FilterRule) -> dict[str, Any]:
    """Body of the entry that fixes a ledger's filter."""
    return {"kind": rule.kind, "order": rule.order, "cap_units": rule.cap_units,
            "delta_cap_units": rule.delta_cap_units, "theorem": rule.theorem}


def refusal_body(learner: str, error: BudgetExceeded) -> dict[str, Any]:
    """Body of the note that a refusal leaves."""
    return {"learner": learner, "asked": error.asked, "spent": error.spent, "left": error.left,
            "unit": error.unit, "time": now()}


def window_of(state: State) -> dict[str, Any]:
    """The window that a charge belongs to; nothing where no window was ever opened."""
    return {} if state.window is None else {"window": state.window}


def check_effort(history: History, kind: str, body: dict[str, Any], *,
                 whole: bool = False) -> None:
    """Refuse a plan that an auditor could not price again (`privledger.ledger.limits`).

    Raises:
        InvalidPlan: nothing was read.
    """
    history.room.check_plan(history.store, kind, body["plan"], whole=whole)


def reserve(history: History, kind: str, body: dict[str, Any], plan: Node,
            delta: float) -> dict[str, Any]:
    """Charge `plan` against the ledger's own filter, in one durable commit.

    Args:
        kind: `granted` or `scope`.
        body: the entry's body without its units.
        plan: built from the body's text; nobody else holds it.
        delta: the plan's part of the budget's delta, for `basic` ledgers.

    Returns:
        The entry's body as it was read back.

    Raises:
        BudgetExceeded: it does not fit; nothing was spent.
        UnsupportedNode: it cannot be priced.
        InvalidPlan: it takes too long to be priced again, see `privledger.ledger.limits`.
    """
    relation = check_relation(history.state.relation)
    fixed = history.state.rule
    check_effort(history, "rdp" if fixed is None else fixed.kind, body)
    with charging():
        cost_of(plan, relation)  # refuse what cannot be priced before any lock is taken

    def lines(state: State) -> Lines:
        with charging():  # here: another thread may decide for this one
            return decided(state)

    def decided(state: State) -> Lines:
        first: Lines = []
        rule = state.rule
        if rule is None:
            assert state.budget is not None
            rule = choose_filter(cost_of(plan, relation), state.budget)
            first.append(("filter", filter_body(rule)))
        decision = decide(state, rule, cost_of(plan, relation, rule.orders), delta, body)
        if isinstance(decision, Refusal):
            raise _Refused(decision)
        units = {"units": decision.units, "delta_units": decision.delta_units}
        if decision.delta_units:
            check_effort(history, rule.kind, body, whole=True)
        return [*first, (kind, body | units | window_of(state))]

    try:
        if history.state.rule is not None and not _fits(history, lines):
            history.look(lines)  # nobody gave anything back meanwhile: no lock, no fsync
        return _written(history.commit(lines), kind)
    except _Refused as refused:
        error = refused.refusal.error()
        history.note("refused", refusal_body(str(body.get("learner", "")), error))
        raise error from None
    except LedgerError as error:
        _say_nothing_was_read(error)
        raise


def _say_nothing_was_read(error: LedgerError) -> None:
    """What a failed reservation means. Whether it reached the disk is not always known."""
    error.args = (f"{error}; nothing was granted or read. A charge that reached the disk stays",)


def _fits(history: History, lines: Callable[[State], Lines]) -> bool:
    """Whether a request fits what this process knows, which may be a little old."""
    try:
        lines(history.state)
    except _Refused:
        return False
    return True


def _written(entries: list[Entry], kind: str) -> dict[str, Any]:
    """The body of the entry of this kind, as it was read back.

    Raises:
        LedgerCorrupt: it is not there.
    """
    for entry in entries:
        if entry.kind == kind:
            return dict(entry.body)
    raise LedgerCorrupt("the reservation was not written; nothing was read")


def reserve_in_scope(history: History, body: dict[str, Any], plan: Node, scope: Scope,
                     patience: float = 0.0) -> dict[str, Any]:
    """Let a plan draw on a filter scope that was paid for: no further charge to the ledger.

    One grant at a time: of two open ones each would have to count the other at its worst case,
    so that no record could pay, and both would release noise alone (docs/proofs/filters.md).

    Args:
        plan, scope: of the guard's own.
        patience: seconds to wait for the grant that is open, if another thread or process has it.

    Raises:
        ScopeBusy: another grant is open, or those that ended badly left nothing.
        NotGranted: the scope was never paid for, has other caps, or serves other records.
        InvalidValue: the plan is not the scope's filter.
    """
    if not isinstance(plan, IndividualFilter) or filter_caps(plan) != filter_caps(scope.node):
        raise InvalidValue("plan", type(plan).__name__, "the scope's IndividualFilter")
    fixed = history.state.rule
    check_effort(history, "rdp" if fixed is None else fixed.kind, body)
    worst = _worst(plan, history.state.relation)
    body |= {"scope": scope.name, "units": 0, "delta_units": 0, "worst": worst}

    def lines(state: State) -> Lines:
        paid = state.scopes.get(scope.name)
        if paid is None:
            raise NotGranted(f"scope {scope.name} was never paid for; nothing was read")
        node = from_json(paid.body["plan"])
        if not isinstance(node, IndividualFilter) or filter_caps(node) != filter_caps(plan):
            raise NotGranted(f"scope {scope.name} was paid for with other caps; nothing was read")
        used = {grant.body["data"] for grant in state.grants.values()
                if grant.body.get("scope") == scope.name}
        if used - {body["data"]}:
            raise NotGranted(
                "the scope is bound to another data set: records of two tables may belong to "
                "one person; append to the first, or open another scope. Nothing was read")
        check_alone(state, scope, body["data"])
        return [("granted", body | window_of(state))]

    try:
        return _written(once_alone(history, scope, lines, patience), "granted")
    except LedgerError as error:
        _say_nothing_was_read(error)
        raise


def _worst(plan: IndividualFilter, relation: str) -> float:
    """The most a record can pay under the plan: what an unfinished grant counts as."""
    if plan.node is None:
        return plan.cap
    orders = (plan.order,) if plan.kind == "renyi" else DEFAULT_ORDERS
    with charging():
        cost = cost_of(plan.node, check_relation(relation), orders)
    worst = cost.gdp_squared if plan.kind == "gdp" else cost.curve.bounds[0]
    return min(worst, plan.cap)
