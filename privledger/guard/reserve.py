"""Reservations: decide on the whole plan, write it durably, or refuse. Nothing is read here."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Container
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from attrs import evolve

from privledger.accounting import DEFAULT_ORDERS, check_relation
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    LedgerCorrupt,
    LedgerError,
    NotGranted,
    PrivledgerError,
    ScopeBusy,
)
from privledger.graph import IndividualFilter, Node, cost_of, from_json
from privledger.graph.fold import charging
from privledger.guard.policing import learner_of
from privledger.guard.spends import Scope, grants_of, worst_of
from privledger.ledger import (
    FilterRule,
    History,
    State,
    choose_filter,
    decide,
    own_epsilon,
)
from privledger.ledger.decide import Charge, Refusal, limits, may_come
from privledger.ledger.entries import Entry, is_gone, now
from privledger.ledger.events import (
    Crashed,
    Event,
    FilterFixed,
    Granted,
    Holder,
    Plan,
    Refused,
    ScopeOpened,
)
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.line import (
    MOST_PLACES,
    Limit,
    QueuePosition,
    can_come,
    demand_of,
    held_by,
    is_over,
)
from privledger.ledger.view_records import took_nothing
from privledger.rounding import non_negative

# Waiting for budget: a place in the history's line, and a look from time to time.  Nothing is
# held while one waits: no lock, no budget, no row. A killed process leaves a place that ends
# with its process, or with its own time where the process cannot be seen.


_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


class Over(Exception):
    """A decision was a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def queue_place(asked: Granted | ScopeOpened, charge: Charge,
                seconds: float = 0.0) -> QueuePosition:
    """What a request would be in the line, for so many seconds."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    if isinstance(asked, ScopeOpened):
        return QueuePosition("", "", {}, charge.units, charge.delta_units, until)
    held = asked.holder or Holder("", 0, "")
    return QueuePosition(
        asked.grant,
        asked.data,
        dict(asked.labels),
        charge.units,
        charge.delta_units,
        until,
        held.host,
        held.pid,
        held.started,
    )


def check_turn(state: State, rule: FilterRule, asked: Granted | ScopeOpened,
               charge: Charge, ended: Container[str] = ()) -> None:
    """Raise `Over` where it is the turn of another request, which waits for what is asked for.

    Args:
        ended: places that are known to be over.
    """
    if not state.line:
        return
    moment, known = now(), limits(state, rule)
    there = {name: place for name, place in state.line.items() if name not in ended
             and not _is_gone(place, moment) and _waits_for_others(place, known)}
    title = held_by(there, queue_place(asked, charge), known)
    if title:
        raise Over(Refusal(rule, charge, state.units, state.delta_units, line=title))


def _is_gone(place: QueuePosition, moment: str) -> bool:
    return is_over(place, moment) or is_gone(Holder(*place.process))


def _clear(history: History, learner: str) -> None:
    """Strike out places that are over, if there is no room for another."""
    moment = now()
    over = history.look(lambda state: {
        name for name, place in state.line.items() if _is_gone(place, moment)
    } if len(state.line) >= MOST_PLACES else set())
    if over:
        over = history.store.markable(over)
        history.commit(lambda state: [Refused(learner, time=moment, left_line=name)
                                      for name in state.line if name in over])


def _waits_for_others(place: QueuePosition, known: tuple[Limit, ...]) -> bool:
    """Whether what it waits for may come without what its own process holds. Else it holds up none:
    it could wait for ever."""
    return can_come(demand_of(place, known), known,
                    lambda refund: refund.process != place.process)


def granted_in_turn(history: History, asked: Granted, lines: Callable[[State], list[Event]],
                    over: Over, seconds: float) -> list[Entry]:
    """Take a place in line, and commit `lines` as soon as it is its turn and they fit.

    Args:
        lines: raises `Over` until then. over: what it raised first.

    Raises:
        Over: the time is over, or what is asked for can never come.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    place = queue_place(asked, over.refusal.charge, seconds)

    def stand(state: State) -> list[Event]:
        if len(state.line) >= MOST_PLACES or not may_come(state, place):
            raise over
        return [Refused(asked.learner, time=now(), waits=place)]

    _clear(history, asked.learner)
    history.commit(stand)
    try:
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            history.mark_crashed()  # what a dead process holds never comes back
            if over.refusal.line:
                history.ask_who_left()
            try:
                history.look(lines)
                return history.commit(lines)
            except Over as again:
                over = again
            if not history.look(lambda state: may_come(state, place)):
                break
        raise over
    except BaseException:
        with suppress(PrivledgerError):
            history.commit(lambda state: [
                Refused(asked.learner, time=now(), left_line=asked.grant)
            ] if asked.grant in state.line else [])
        raise


# One open grant at a time on a filter scope: who is there, whether to wait, and for how long.  A
# grant that is open counts with its worst case for every record. So two open ones would leave
# each other nothing, and both would release noise alone. That is private, and of no
# use.


MOST_WAIT = 3600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25
# Open grants on scopes: the process and thread that asked, and whether it is still held.
_HERE: dict[str, tuple[int, int, weakref.ref[object]]] = {}


def patience(wait: object) -> float:
    """Seconds to wait for a scope, at most an hour."""
    seconds = non_negative("wait", wait)
    if seconds > MOST_WAIT:
        raise InvalidValue("wait", wait, f"at most {MOST_WAIT:g} seconds")
    return seconds


def note_open(grant: str, held: object) -> None:
    """This thread holds `grant`, and would wait for itself; if `held` goes, it is never settled."""
    _HERE[grant] = os.getpid(), threading.get_ident(), weakref.ref(held)


class Asking:
    """Stands for a grant until there is a session. It goes with the frame that asks, so a request
    that is interrupted right after it was granted blocks no other."""


def note_over(grant: str) -> None:
    """The grant is settled."""
    _HERE.pop(grant, None)


def check_alone(state: State, scope: Scope, data: str) -> None:
    """Refuse while another grant is open, or where those that broke off left nothing.

    Raises:
        ScopeBusy: one is open. NotGranted: no record could pay for anything.
    """
    drawn = grants_of(state, scope.name, data)
    holders = tuple(grant.grant for grant in drawn if grant.status == "granted")
    if holders:
        raise _busy(scope.name, holders, "settle it first, or ask with wait=seconds")
    lost = sum(worst_of(grant, scope) for grant in drawn if grant.event.data == data
               and (grant.end is None or grant.end.vector is None) and not took_nothing(grant))
    if lost >= RECORD_UNITS:
        raise NotGranted(
            f"scope {scope.name} is used up: crashed grants count at their worst case, and leave "
            "no record any budget. Open another scope. Nothing was read")


def _busy(scope: str, grants: tuple[str, ...], advice: str) -> ScopeBusy:
    return ScopeBusy(
        f"scope {scope}: {', '.join(grants)} is still open, and would count at its worst case for "
        f"every record; {advice}. Nothing was read, nothing was charged", scope, grants)


def once_alone(history: History, scope: Scope, lines: Callable[[State], list[Event]],
               seconds: float) -> list[Entry]:
    """Commit `lines` as soon as no other grant on the scope is open.

    Args:
        lines: raises `ScopeBusy` while there is one.
        seconds: how long to wait for it.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            history.look(lines)  # a refusal takes no lock
            return history.commit(lines)
        except ScopeBusy as busy:
            if history.mark_crashed() or _mark_dropped(history, busy.grants):
                continue  # its holder is gone
            if any(grant in _HERE and _HERE[grant][:2] == (os.getpid(), threading.get_ident())
                   for grant in busy.grants):
                raise _busy(scope.name, busy.grants, "this thread holds it, so waiting would never "
                                                     "end: settle it") from None
            left = deadline - time.monotonic()
            if not left > 0:
                raise
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _mark_dropped(history: History, grants: tuple[str, ...]) -> bool:
    """Record grants of this process whose sessions were let go without being closed.

    Their worst case stays counted, as for a holder that crashed.
    """
    gone = [grant for grant in grants if grant in _HERE
            and _HERE[grant][0] == os.getpid() and _HERE[grant][2]() is None]
    if gone:
        history.commit(lambda state: [
            Crashed(grant, now(), "its session was dropped unsettled") for grant in gone
            if grant in state.grants and state.grants[grant].status == "granted"])
        for grant in gone:
            note_over(grant)
    return bool(gone)


Asked = TypeVar("Asked", Granted, ScopeOpened)


def filter_fixed(rule: FilterRule) -> FilterFixed:
    """The entry that fixes a ledger's filter."""
    return FilterFixed(rule.kind, rule.order, rule.cap_units, rule.delta_cap_units, rule.theorem)


def refused_grant(learner: str, error: BudgetExceeded) -> Refused:
    """The note that a refusal leaves, with the budget that did not suffice."""
    return Refused(learner, error.unit, now(), error.asked, error.spent, error.left,
                   limit=error.scope)


def check_effort(history: History, plan: Plan) -> None:
    """Refuse a plan that an auditor could not price again (`privledger.ledger.limits`).

    Raises:
        InvalidPlan: nothing was read.
    """
    fixed = history.state.rule
    history.room.check_plan(history.store, "rdp" if fixed is None else fixed.kind, plan)


def reserve(history: History, asked: Asked, plan: Node,
            patience: float = 0.0) -> tuple[Asked, bool]:
    """Charge a plan against the ledger's own filter, in one durable commit.

    Args:
        asked: a grant or a scope, without its units.
        plan: built from its text; no caller holds it.
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
        history.note(refused_grant(learner_of(asked), error))
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
            history.look(lines)  # nothing was given back meanwhile: no lock, no fsync
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
        history.room.check_plan(history.store, rule.kind, asked.plan, whole=True)
    return [*first, evolve(asked, units=decision.units, delta_units=decision.delta_units,
                           window=state.window)]


def _say_nothing_was_read(error: LedgerError) -> None:
    """What a failed reservation means. Whether it reached the disk is not always known."""
    error.args = (f"{error}. Nothing was granted or read. A charge that reached the disk stays "
                  "spent",)


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
    raise LedgerCorrupt("the reservation was not written. Nothing was read")


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
        raise NotGranted(f"scope {scope.name} was never paid for. Nothing was read")
    node = from_json(paid.event.plan)
    if not isinstance(node, IndividualFilter) or node.caps != scope.node.caps:
        raise NotGranted(f"scope {scope.name} was paid for with other caps. Nothing was read")
    used = {grant.event.data for grant in state.grants.values()
            if grant.event.scope == scope.name}
    if state.unit == "row" and used - {data}:
        raise NotGranted(
            "the scope belongs to another data set, and records of two tables may belong to one "
            "person. Append to the first table, or open another scope. Nothing was read")


def _check_order(state: State, scope: Scope, asked: Granted, here: Container[str]) -> None:
    """Refuse rows that may stand in another order than before: what each has spent is kept by its
    place. Another process compares keyed marks; without one it cannot be known."""
    before = [grant.event for grant in state.grants.values() if grant.event.scope == scope.name
              and grant.grant not in here and not took_nothing(grant)]
    if state.unit == "row" and any(event.mark is None or event.mark != asked.mark
                                   for event in before):
        raise NotGranted(
            f"scope {scope.name} was used by another process, and it is not certain that this "
            "table has the same rows in the same order. Protect it with the same fingerprint_key "
            "and the same row order, or open another scope. Nothing was read")


def _worst(plan: IndividualFilter, relation: str) -> float:
    """The most a record can pay under the plan: what an unfinished grant counts as."""
    if plan.node is None:
        return plan.cap
    orders = (plan.order,) if plan.kind == "renyi" else DEFAULT_ORDERS
    with charging():
        cost = cost_of(plan.node, check_relation(relation), orders)
    worst = cost.gdp_squared if plan.kind == "gdp" else cost.curve.bounds[0]
    return min(worst, plan.cap)
