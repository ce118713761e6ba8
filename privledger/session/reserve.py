"""Reservations: decide on the whole plan, write it durably, or refuse. Nothing is read here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privledger.accounting import DEFAULT_ORDERS, check_relation
from privledger.errors import BudgetExceeded, InvalidValue, NotGranted
from privledger.graph import IndividualFilter, Node, cost_of, from_json
from privledger.graph.meter import filter_caps
from privledger.ledger import FilterRule, History, Refusal, State, choose_filter, decide
from privledger.ledger.history import now
from privledger.session.scope import Scope

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


def reserve(history: History, kind: str, body: dict[str, Any], plan: Node, delta: float) -> None:
    """Charge `plan` against the ledger's own filter, in one durable commit.

    Args:
        kind: `granted` or `scope`.
        body: the entry's body without its units.
        delta: the plan's part of the budget's delta, for `basic` ledgers.

    Raises:
        BudgetExceeded: it does not fit; nothing was spent.
        UnsupportedNode: it cannot be priced.
    """
    relation = check_relation(history.state.relation)
    cost_of(plan, relation)  # refuse what cannot be priced before any lock is taken

    def lines(state: State) -> Lines:
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
        return [*first, (kind, body | units | window_of(state))]

    try:
        if history.state.rule is not None and not _fits(history, lines):
            history.look(lines)  # nobody gave anything back meanwhile: no lock, no fsync
        history.commit(lines)
    except _Refused as refused:
        error = refused.refusal.error()
        history.note("refused", refusal_body(str(body.get("learner", "")), error))
        raise error from None


def _fits(history: History, lines: Callable[[State], Lines]) -> bool:
    """Whether a request fits what this process knows, which may be a little old."""
    try:
        lines(history.state)
    except _Refused:
        return False
    return True


def reserve_in_scope(history: History, body: dict[str, Any], plan: Node, scope: Scope) -> None:
    """Let a plan draw on a filter scope that was paid for: no further charge to the ledger.

    Raises:
        NotGranted: the scope was never paid for, has other caps, or serves other records.
        InvalidValue: the plan is not the scope's filter.
    """
    # By exact type: a stranger's caps may be others each time they are asked for.
    if type(scope) is not Scope or type(scope.node) is not IndividualFilter or (
            type(scope.name) is not str):
        raise InvalidValue("scope", type(scope).__name__, "what open_scope gave")
    if not isinstance(plan, IndividualFilter) or filter_caps(plan) != filter_caps(scope.node):
        raise InvalidValue("plan", type(plan).__name__, "the scope's IndividualFilter")
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
        return [("granted", body | window_of(state))]

    history.commit(lines)


def _worst(plan: IndividualFilter, relation: str) -> float:
    """The most a record can pay under the plan: what an unfinished grant counts as."""
    if plan.node is None:
        return plan.cap
    orders = (plan.order,) if plan.kind == "renyi" else DEFAULT_ORDERS
    cost = cost_of(plan.node, check_relation(relation), orders)
    worst = cost.gdp_squared if plan.kind == "gdp" else cost.curve.bounds[0]
    return min(worst, plan.cap)
