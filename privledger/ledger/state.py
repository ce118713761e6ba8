"""Entries -> what is spent and what is left. Running totals: one entry costs O(1).

A compact state keeps of a grant that is over its name only, unless it drew on a scope or was
corrected: what decides on requests needs no more, and a snapshot of it stays small. To
see every grant, fold a full one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from privledger.accounting import UNITS
from privledger.errors import LedgerCorrupt, LedgerError, LedgerTooNew, PrivledgerError
from privledger.ledger.entries import FORMAT, GENESIS, Entry, is_whole
from privledger.ledger.events import (
    Aborted,
    Corrected,
    Crashed,
    Created,
    Enrolled,
    FilterFixed,
    Granted,
    Plan,
    Protected,
    Refused,
    Released,
    ScopeOpened,
    Settled,
    Unreadable,
    WindowOpened,
)
from privledger.ledger.filters import (
    Budget,
    Cap,
    FilterRule,
    fixed_filter,
    matching_caps,
    window_name,
)
from privledger.ledger.line import QueuePosition, follow_queue
from privledger.ledger.policy import Policy


class GrantIsClosed(LedgerError):
    """A compact state was asked about a grant of which it kept the name only."""

    def __init__(self, grant: str) -> None:
        super().__init__(f"{grant} is over; its plan is in the history")
        self.grant = grant


def _added(parts: Sequence[Granted | ScopeOpened | Corrected]) -> tuple[int, int]:
    return sum(int(part.units) for part in parts), sum(int(part.delta_units) for part in parts)


@define
class GrantState:
    """One grant and what became of it.

    Attributes:
        position: of the entry that granted it.
        event: what was granted.
        status: `granted` (open), `settled`, `aborted` (handed back) or `crashed`.
        releases: how many were written down.
        touched: False only if it said so when it was handed back.
        end: how it ended (`Aborted` where it was handed back); None while it is open.
        crash: that its holder was found gone; it may have ended since.
        corrected: what was added to its charge since, in order.
    """

    grant: str
    position: int
    event: Granted
    status: str = "granted"
    releases: int = 0
    touched: bool = True
    end: Settled | None = None
    crash: Crashed | None = None
    corrected: list[Corrected] = field(factory=list)

    @property
    def charged(self) -> tuple[int, int]:
        """Units and delta units, with every correction."""
        return _added([self.event, *self.corrected])

    @property
    def counted(self) -> tuple[int, int]:
        """What the totals hold of it: `charged`, less what was handed back."""
        units, delta_units = self.charged
        if self.status == "aborted" and not self.touched:
            return units - int(self.event.units), delta_units - int(self.event.delta_units)
        return units, delta_units

    @property
    def plan(self) -> Plan | None:
        """The plan as corrected last; None where nothing is promised any more."""
        return self.corrected[-1].plan if self.corrected else self.event.plan


@frozen
class ScopeState:
    """One individual filter scope, paid for once.

    Attributes:
        position: of the entry that paid for it.
        event: what was paid for.
        corrected: what ran under it beyond what its filter counted, in order.
    """

    scope: str
    position: int
    event: ScopeOpened
    corrected: tuple[Corrected, ...] = ()

    @property
    def charged(self) -> tuple[int, int]:
        """Units and delta units, with every correction."""
        return _added([self.event, *self.corrected])

    @property
    def plan(self) -> Plan | None:
        """The filter and all that ran beside it; None where nothing is promised any more."""
        return _together([self.event.plan, *(one.plan for one in self.corrected)])

    def beside(self, data: str) -> GrantState | None:
        """What its corrections say ran beside the filter, as one grant for `data`: every record
        lost that much more. None where there is no correction."""
        if not self.corrected:
            return None
        opened, last = self.event, self.corrected[-1]
        name = f"{self.scope}, as corrected"
        units, delta_units = self.charged
        whole = evolve(last, plan=_together([one.plan for one in self.corrected]),
                       units=units - int(opened.units),
                       delta_units=delta_units - int(opened.delta_units))
        event = Granted(grant=name, learner="", data=data, plan=opened.plan, delta=opened.delta,
                        units=0, delta_units=0, time=last.time, window=opened.window)
        return GrantState(name, self.position, event, "settled", corrected=[whole])


def _together(plans: Sequence[Plan | None]) -> Plan | None:
    known = [plan for plan in plans if plan is not None]
    if len(known) < len(plans):
        return None
    return known[0] if len(known) == 1 else {"node": "Sequential", "nodes": known}


@define
class State:
    """The fold of a history.

    Attributes:
        compact: keep names only of grants that are over.
        tables: as they were protected last, by name; none in a compact state.
        unit: whom the promise is about: `row` or `person`. key_check: see `Created`.
        enrolled: position and event of every enrolment, in order; none under unit `row`.
        closed: names of grants that are over and drew on no scope, in the order they ended.
        line: who waits for budget, by grant; no charge rests on it.
        ended: takes each grant that is over, as a compact state lets go of it.
        recalled: grants that it does not let go of: they are corrected later.
    """

    compact: bool = False
    _creation: Created | None = None
    uuid: str = ""
    budget: Budget | None = None
    relation: str = ""
    mode: str = ""
    filter_asked: str = "auto"
    unit: str = "row"
    enrolled: list[tuple[int, Enrolled]] = field(factory=list)
    rule: FilterRule | None = None
    units: int = 0
    delta_units: int = 0
    position: int = -1
    head: str = GENESIS
    grants: dict[str, GrantState] = field(factory=dict)
    scopes: dict[str, ScopeState] = field(factory=dict)
    tables: dict[str, Protected] = field(factory=dict)
    refusals: int = 0
    caps: tuple[Cap, ...] = ()
    cap_spent: list[tuple[int, int]] = field(factory=list)
    format: int = 0
    window: str | None = None
    windows: dict[str, list[tuple[int, int]]] = field(factory=dict)
    charges: int = 0
    policy: Policy | None = None
    closed: list[str] = field(factory=list)
    closed_names: set[str] = field(factory=set, repr=False)
    line: dict[str, QueuePosition] = field(factory=dict)
    ended: Callable[[GrantState], None] | None = field(default=None, eq=False, repr=False)
    recalled: frozenset[str] = field(default=frozenset(), eq=False, repr=False)

    @property
    def creation(self) -> Created:
        """The promise, as the first entry says it."""
        if self._creation is None:
            raise LedgerCorrupt("the history is empty: not a ledger")
        return self._creation

    @property
    def broken(self) -> str:
        """Why the promise no longer holds; empty while it does."""
        if self.rule is None:
            return ""
        over = (self.units > self.rule.cap_units
                or self.delta_units > self.rule.delta_cap_units)
        if not over:
            return ""
        corrected = [(name, event) for name, grant in self.grants.items()
                     for event in grant.corrected]
        corrected += [(name, event) for name, scope in self.scopes.items()
                      for event in scope.corrected]
        reasons = [f"{name}: {event.why}" for name, event in corrected]
        return "the budget is overspent after corrections (" + "; ".join(reasons)[:500] + ")"

    def charge(self, units: int, delta_units: int, paid: Granted | ScopeOpened) -> None:
        """Add to the totals and to every cap that what was paid for falls under."""
        self.charges += 1
        self.units += units
        self.delta_units += delta_units
        earlier = self.totals_of(paid.window)
        request = paid if isinstance(paid, Granted) else None
        for place in matching_caps(self.caps, paid.window, request):
            totals = earlier if self.caps[place].per_window else self.cap_spent
            spent = totals[place]
            totals[place] = spent[0] + units, spent[1] + delta_units

    @property
    def opened(self) -> tuple[str, ...]:
        """Every window so far; the last one is open."""
        return (*(name for name in self.windows if name),
                *(() if self.window is None else (self.window,)))

    def totals_of(self, window: str | None) -> list[tuple[int, int]]:
        """The caps' totals of a window: the one that is open, or an earlier one."""
        return self.cap_spent if window == self.window else self.windows[window or ""]

    def window_entry(self, name: str) -> str | None:
        """Why the window cannot be opened; None if it can."""
        if self.format < 3:
            return f"a ledger of format 3 (this one has {self.format}, without windows)"
        if name == self.window or name in self.windows:
            return "a new name: a window is opened once, and never again"
        return None

    def apply(self, entry: Entry) -> None:
        """Fold one entry in, or raise `LedgerCorrupt` if it cannot follow."""
        if entry.position != self.position + 1 or entry.previous != self.head:
            raise LedgerCorrupt(f"entry {entry.position} does not follow the one before")
        if not is_whole(entry):
            raise LedgerCorrupt(f"entry {entry.position} was edited: its hash does not match")
        self.take(entry)

    def take(self, entry: Entry) -> None:
        """As `apply`, for an entry of which place and hash are right."""
        handler = _HANDLERS.get(type(entry.event))
        if handler is None:
            raise LedgerCorrupt(f"entry {entry.position} is of an unknown kind")
        if entry.position and not self.uuid:
            raise LedgerCorrupt("the history does not begin with its creation")
        try:
            handler(self, entry.position, entry.event)
        except (PrivledgerError, KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, LedgerError) and not isinstance(error, Unreadable):
                raise
            wrong = f"entry {entry.position} ({entry.event.kind}) is malformed"
            raise LedgerCorrupt(wrong) from None
        self.position, self.head = entry.position, entry.hash

    def fork(self) -> State:
        """A copy that can be folded on by itself. Events are shared: they never change."""
        return evolve(
            self, grants={name: evolve(grant, corrected=list(grant.corrected))
                          for name, grant in self.grants.items()},
            scopes=dict(self.scopes), tables=dict(self.tables), cap_spent=list(self.cap_spent),
            windows={name: list(totals) for name, totals in self.windows.items()},
            enrolled=list(self.enrolled), line=dict(self.line),
            closed=list(self.closed), closed_names=set(self.closed_names))

    def knows(self, grant: str) -> bool:
        """Whether a grant of this name was ever given."""
        return grant in self.grants or grant in self.closed_names

    def close(self, grant: GrantState) -> None:
        """Note that a grant is over."""
        if grant.event.scope:
            return  # what it took from the scope is added up for as long as there is a scope
        self.closed.append(grant.grant)
        self.closed_names.add(grant.grant)
        if (self.compact or self.ended is not None) and not grant.corrected and (
                grant.grant not in self.recalled):
            del self.grants[grant.grant]
            if self.ended is not None:
                self.ended(grant)


def folded(entries: Sequence[Entry]) -> State:
    """The state of entries that an audit found no fault in: no hash is computed again."""
    state = State()
    for entry in entries:
        _HANDLERS[type(entry.event)](state, entry.position, entry.event)
        state.position, state.head = entry.position, entry.hash
    return state


def _created(state: State, position: int, event: Created) -> None:
    if position != 0:
        raise LedgerCorrupt("a second creation in one history")
    if int(event.format) > FORMAT:
        raise LedgerTooNew(
            f"the ledger has format {event.format}, this version reads up to {FORMAT}"
        )
    state._creation, state.format = event, int(event.format)
    state.uuid, state.relation, state.mode = event.uuid, event.relation, event.mode
    state.budget, state.filter_asked = event.budget, event.filter
    state.caps, state.policy = event.caps, event.policy
    if event.unit not in UNITS or (event.unit != "row" and event.format < 4):
        raise LedgerCorrupt("the privacy unit is unknown here; known: {', '.join(UNITS)}, and row "
                            "before format 4")
    if (event.unit == "person") != (event.key_check is not None):
        raise LedgerCorrupt("a key of people goes with unit person, and with no other")
    state.unit = event.unit
    state.cap_spent = [(0, 0)] * len(state.caps)


def _enrolled(state: State, position: int, event: Enrolled) -> None:
    number = len(state.enrolled)
    if state.unit != "person":
        raise LedgerCorrupt(f"entry {position} enrols people, but the ledger protects rows")
    if (event.people.name, event.members.name) != (f"people:{number}", f"members:{number}"):
        raise LedgerCorrupt(f"entry {position} enrols people under names of another ledger")
    state.enrolled.append((position, event))


def _filter(state: State, position: int, event: FilterFixed) -> None:
    if state.rule is not None or state.budget is None:
        raise LedgerCorrupt("the filter was fixed twice")
    if state.grants or state.scopes or state.closed:
        raise LedgerCorrupt("the filter was fixed after a grant")
    fresh = fixed_filter(event.rule, state.budget, event.order if event.rule == "rdp" else None)
    # A little more room, as for prices: another machine may have rounded otherwise.
    if (event.cap_units > fresh.cap_units + fresh.cap_units // 10**9
            or event.delta_cap_units > fresh.delta_cap_units):
        raise LedgerCorrupt(f"entry {position}: the cap is larger than the budget's")
    state.rule = FilterRule(event.rule, event.order, state.budget, int(event.cap_units),
                            int(event.delta_cap_units))


def _protected(state: State, position: int, event: Protected) -> None:
    name = event.data
    if not state.compact:
        state.tables[name] = event


def _charge(state: State, position: int, event: Granted | ScopeOpened | Corrected,
            paid: Granted | ScopeOpened) -> None:
    units, delta_units = event.units, event.delta_units
    if type(units) is not int or type(delta_units) is not int:
        raise LedgerCorrupt(f"entry {position} charges a number that is not whole")
    if state.rule is None:
        raise LedgerCorrupt(f"entry {position} charges before a filter was fixed")
    if units < 0 or delta_units < 0:
        raise LedgerCorrupt(f"entry {position} charges less than nothing")
    if event is paid and paid.window != state.window:
        raise LedgerCorrupt(f"entry {position} charges another window than the open one")
    state.charge(units, delta_units, paid)


def _scope(state: State, position: int, event: ScopeOpened) -> None:
    name = event.scope
    if name in state.scopes:
        raise LedgerCorrupt(f"scope opened twice at entry {position}")
    _charge(state, position, event, event)
    state.scopes[name] = ScopeState(name, position, event)


def _granted(state: State, position: int, event: Granted) -> None:
    name, number = event.grant, event.enrolled
    if state.knows(name):
        raise LedgerCorrupt(f"granted twice at entry {position}")
    if (state.unit == "person" or number is not None) and (
            state.unit != "person" or type(number) is not int
            or not 0 <= number < len(state.enrolled)
            or state.enrolled[number][1].data != event.data):
        raise LedgerCorrupt(f"entry {position} grants a table whose people are unknown")
    _charge(state, position, event, event)
    state.grants[name] = GrantState(name, position, event)
    state.line.pop(name, None)


def _refused(state: State, position: int, event: Refused) -> None:
    state.refusals += follow_queue(state.line, event.__dict__, state.knows)


def _open_grant(state: State, position: int, event: Released | Settled | Crashed) -> GrantState:
    grant = state.grants.get(event.grant)
    if grant is None or grant.status not in ("granted", "crashed"):
        raise LedgerCorrupt(f"entry {position} ({event.kind}) has no open grant")
    return grant


def _released(state: State, position: int, event: Released) -> None:
    _open_grant(state, position, event).releases += len(event.items)


def _settled(state: State, position: int, event: Settled) -> None:
    grant = _open_grant(state, position, event)
    grant.status, grant.end = "settled", event
    state.close(grant)


def _aborted(state: State, position: int, event: Aborted) -> None:
    grant = _open_grant(state, position, event)
    grant.status, grant.end = "aborted", event
    grant.touched = bool(grant.releases) or not event.gives_back
    if not grant.touched:
        granted = grant.event
        state.charge(-int(granted.units), -int(granted.delta_units), granted)
    state.close(grant)


def _crashed(state: State, position: int, event: Crashed) -> None:
    grant = _open_grant(state, position, event)
    grant.status, grant.crash = "crashed", event


def _corrected(state: State, position: int, event: Corrected) -> None:
    name = event.grant
    grant = state.grants.get(name)
    if grant is None and name in state.closed_names:
        raise GrantIsClosed(name)
    scope = state.scopes.get(name)
    if grant is None and scope is not None:
        _charge(state, position, event, scope.event)
        state.scopes[name] = evolve(scope, corrected=(*scope.corrected, event))
        return
    if grant is None or grant.event.scope:
        raise LedgerCorrupt(f"entry {position} corrects what was never charged")
    _charge(state, position, event, grant.event)
    grant.corrected.append(event)


def _window(state: State, position: int, event: WindowOpened) -> None:
    name = window_name(event.window)
    wrong = state.window_entry(name)
    if wrong is not None:
        raise LedgerCorrupt(f"entry {position} opens a window: it must be {wrong}")
    state.windows[state.window or ""] = list(state.cap_spent)
    state.cap_spent = [(0, 0) if cap.per_window else spent
                       for cap, spent in zip(state.caps, state.cap_spent, strict=True)]
    state.window = name


_HANDLERS: dict[type[Any], Callable[[State, int, Any], None]] = {
    Created: _created, FilterFixed: _filter, Protected: _protected, Enrolled: _enrolled,
    ScopeOpened: _scope,
    Granted: _granted, Refused: _refused, Released: _released, Settled: _settled,
    Aborted: _aborted, Crashed: _crashed, Corrected: _corrected, WindowOpened: _window,
}
