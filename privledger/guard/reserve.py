"""Reservations: decide on the whole plan, write it durably, or refuse. Nothing is read here."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

from attrs import evolve

from privledger.accounting import DEFAULT_ORDERS, check_relation
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    LedgerCorrupt,
    LedgerError,
    NotGranted,
)
from privledger.graph import IndividualFilter, Node, cost_of, from_json
from privledger.graph.remember import charging
from privledger.guard.alone import check_alone, once_alone
from privledger.guard.in_line import Over, check_turn, granted_in_turn
from privledger.guard.policing import learner_of
from privledger.guard.spends import Scope
from privledger.ledger import (
    FilterRule,
    History,
    Refusal,
    State,
    choose_filter,
    decide,
    own_epsilon,
)
from privledger.ledger.entries import Entry
from privledger.ledger.events import (
    Event,
    FilterFixed,
    Granted,
    Plan,
    Refused,
    ScopeOpened,
)
from privledger.ledger.holder import now
from privledger.ledger.view_records import took_nothing

Asked = TypeVar("Asked", Granted, ScopeOpened)


def filter_fixed(rule: FilterRule) -> FilterFixed:
    """The entry that fixes a ledger's filter."""
    return FilterFixed(rule.kind, rule.order, rule.cap_units, rule.delta_cap_units, rule.theorem)


def refused(learner: str, error: BudgetExceeded) -> Refused:
    """The note that a refusal leaves, with the budget that did not suffice."""
    return Refused(learner, error.unit, now(), error.asked, error.spent, error.left,
                   limit=error.scope)


def check_effort(history: History, plan: Plan, *, whole: bool = False) -> None:
    """Refuse a plan that an auditor could not price again (`privledger.ledger.limits`).

    Raises:
        InvalidPlan: nothing was read.
    """
    fixed = history.state.rule
    _check_effort(history, "rdp" if fixed is None else fixed.kind, plan, whole)


def _check_effort(history: History, rule: str, plan: Plan, whole: bool) -> None:
    history.room.check_plan(history.store, rule, plan, whole=whole)


def reserve(history: History, asked: Asked, plan: Node,
            patience: float = 0.0) -> tuple[Asked, bool]:
    """Charge a plan against the ledger's own filter, in one durable commit.

    Args:
        asked: a grant or a scope, without its units.
        plan: built from its text; nobody else holds it.
        patience: seconds to wait in line for what does not fit yet.

    Returns:
        The entry as it was read back, and whether it fixed the ledger's filter for life.

    Raises:
        BudgetExceeded: it does not fit; nothing was spent.
        UnsupportedNode: it cannot be priced.
        InvalidPlan: it takes too long to be priced again, see `privledger.ledger.limits`.
    """
    relation = check_relation(history.state.relation)
    check_effort(history, asked.plan)
    with charging():
        cost_of(plan, relation)  # refuse what cannot be priced before any lock is taken

    def lines(state: State) -> list[Event]:
        with charging():  # here: another thread may decide for this one
            return _decided(history, state, asked, plan)

    try:
        entries = _reserved(history, asked, lines, patience)
        return _written(entries, asked), any(isinstance(entry.event, FilterFixed)
                                             for entry in entries)
    except Over as over:
        error = over.refusal.error(own_epsilon(plan, over.refusal.rule, relation))
        history.note(refused(learner_of(asked), error))
        raise error from None
    except LedgerError as error:
        _say_nothing_was_read(error)
        raise


def would_refuse(history: History, asked: Granted, plan: Node) -> BudgetExceeded | None:
    """The refusal that `reserve` would raise now, without a wait and without a note.

    Raises: as `reserve`, all but `BudgetExceeded`.
    """
    check_effort(history, asked.plan)
    state = history.refresh()
    try:
        with charging():
            _decided(history, state, asked, plan)
    except Over as over:
        relation = check_relation(state.relation)
        return over.refusal.error(own_epsilon(plan, over.refusal.rule, relation))
    return None


def _reserved(history: History, asked: Asked, lines: Callable[[State], list[Event]],
              patience: float) -> list[Entry]:
    try:
        if history.state.rule is not None and not _fits(history, lines):
            history.look(lines)  # nobody gave anything back meanwhile: no lock, no fsync
        return history.commit(lines)
    except Over as over:
        if over.refusal.line and history.ask_who_left():
            return _reserved(history, asked, lines, patience)
        if not (patience and isinstance(asked, Granted)):
            raise
        return granted_in_turn(history, asked, lines, over, patience)


def _decided(history: History, state: State, asked: Asked, plan: Node) -> list[Event]:
    """What is written if it fits: the filter, where none was fixed, and the charge."""
    first: list[Event] = []
    rule, relation = state.rule, check_relation(state.relation)
    if rule is None:
        assert state.budget is not None
        rule = choose_filter(cost_of(plan, relation), state.budget)
        first.append(filter_fixed(rule))
    decision = decide(state, rule, cost_of(plan, relation, rule.orders), asked.delta, asked)
    if isinstance(decision, Refusal):
        raise Over(decision)
    check_turn(state, rule, asked, decision, history.ended)
    if decision.delta_units and rule.kind == "basic":
        _check_effort(history, rule.kind, asked.plan, whole=True)
    return [*first, evolve(asked, units=decision.units, delta_units=decision.delta_units,
                           window=state.window)]


def _say_nothing_was_read(error: LedgerError) -> None:
    """What a failed reservation means. Whether it reached the disk is not always known."""
    error.args = (f"{error}; nothing was granted or read. A charge that reached the disk stays",)


def _fits(history: History, lines: Callable[[State], list[Event]]) -> bool:
    """Whether a request fits what this process knows, which may be a little old."""
    try:
        lines(history.state)
    except Over:
        return False
    return True


def _written(entries: list[Entry], asked: Asked) -> Asked:
    """The entry of this kind, as it was read back.

    Raises:
        LedgerCorrupt: it is not there.
    """
    for entry in entries:
        if isinstance(entry.event, type(asked)):
            return entry.event
    raise LedgerCorrupt("the reservation was not written; nothing was read")


def reserve_in_scope(history: History, asked: Granted, plan: Node, scope: Scope,
                     here: Container[str], patience: float = 0.0) -> Granted:
    """Let a plan draw on a filter scope that was paid for: no further charge to the ledger.

    One grant at a time: of two open ones each would have to count the other at its worst case,
    so that no record could pay, and both would release noise alone (docs/proofs/filters.md).

    Args:
        plan, scope: of the guard's own.
        here: grants on scopes that this very ledger object gave: it knows that a name stands for
            the same rows in the same order as long as it lives.
        patience: seconds to wait for the grant that is open, if another thread or process has it.

    Raises:
        ScopeBusy: another grant is open, or those that ended badly left nothing.
        NotGranted: the scope was never paid for, has other caps, or serves other records.
        InvalidValue: the plan is not the scope's filter.
    """
    if not isinstance(plan, IndividualFilter) or plan.caps != scope.node.caps:
        raise InvalidValue("plan", type(plan).__name__, "the scope's IndividualFilter")
    check_effort(history, asked.plan)
    drawn = evolve(asked, scope=scope.name, worst=_worst(plan, history.state.relation))

    def lines(state: State) -> list[Event]:
        _check_scope(state, scope, asked.data)
        _check_order(state, scope, asked, here)
        check_alone(state, scope, asked.data)
        return [evolve(drawn, window=state.window)]

    try:
        return _written(once_alone(history, scope, lines, patience), drawn)
    except LedgerError as error:
        _say_nothing_was_read(error)
        raise


def _check_scope(state: State, scope: Scope, data: str) -> None:
    """Refuse a scope that was not paid for as it is, or that serves another table."""
    paid = state.scopes.get(scope.name)
    if paid is None:
        raise NotGranted(f"scope {scope.name} was never paid for; nothing was read")
    node = from_json(paid.event.plan)
    if not isinstance(node, IndividualFilter) or node.caps != scope.node.caps:
        raise NotGranted(f"scope {scope.name} was paid for with other caps; nothing was read")
    used = {grant.event.data for grant in state.grants.values()
            if grant.event.scope == scope.name}
    if state.unit == "row" and used - {data}:
        raise NotGranted(
            "the scope is bound to another data set: records of two tables may belong to "
            "one person; append to the first, or open another scope. Nothing was read")


def _check_order(state: State, scope: Scope, asked: Granted, here: Container[str]) -> None:
    """Refuse rows that may stand in another order than before: what each has spent is kept by its
    place. Whoever was not there compares keyed marks; without one nobody knows."""
    before = [grant.event for grant in state.grants.values() if grant.event.scope == scope.name
              and grant.grant not in here and not took_nothing(grant)]
    if state.unit == "row" and any(event.mark is None or event.mark != asked.mark
                                   for event in before):
        raise NotGranted(
            f"scope {scope.name} was used before, by another process, and it is not certain that "
            "the table has the same rows in the same order: protect it with the fingerprint_key "
            "of before and the rows in the order of before, or open another scope. Nothing was "
            "read")


def _worst(plan: IndividualFilter, relation: str) -> float:
    """The most a record can pay under the plan: what an unfinished grant counts as."""
    if plan.node is None:
        return plan.cap
    orders = (plan.order,) if plan.kind == "renyi" else DEFAULT_ORDERS
    with charging():
        cost = cost_of(plan.node, check_relation(relation), orders)
    worst = cost.gdp_squared if plan.kind == "gdp" else cost.curve.bounds[0]
    return min(worst, plan.cap)
