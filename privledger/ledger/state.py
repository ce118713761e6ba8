"""Entries -> what is spent and what is left. Running totals: one entry costs O(1).

A compact state keeps of a grant that is over its name only, unless it drew on a scope or was
corrected: what decides on requests needs no more, and a snapshot of it stays small. Whoever
wants to see every grant folds a full one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from attrs import define, evolve, field, frozen

from privledger.errors import LedgerCorrupt, LedgerError, LedgerTooNew, PrivledgerError
from privledger.ledger.budget import Budget
from privledger.ledger.caps import Cap, window_name
from privledger.ledger.codec import decode
from privledger.ledger.entries import FORMAT, GENESIS, Entry, chain_hash
from privledger.ledger.events import (
    Corrected,
    Crashed,
    Created,
    Granted,
    Protected,
    ScopeOpened,
    Settled,
)
from privledger.ledger.filters import FilterRule, fixed_filter
from privledger.ledger.policy import Policy


class GrantIsClosed(LedgerError):
    """A compact state was asked about a grant of which it kept the name only."""

    def __init__(self, grant: str) -> None:
        super().__init__(f"{grant} is over; its plan is in the history")
        self.grant = grant


@define
class GrantState:
    """One grant and what became of it."""

    grant: str
    position: int
    body: dict[str, Any]
    status: str = "granted"  # settled | aborted | crashed
    releases: int = 0
    touched: bool = True
    settled: dict[str, Any] = field(factory=dict)
    crashed: dict[str, Any] = field(factory=dict)
    corrections: list[dict[str, Any]] = field(factory=list)

    @property
    def event(self) -> Granted:
        """What was granted."""
        return cast(Granted, decode("granted", self.body))

    @property
    def end(self) -> Settled | None:
        """How it ended (`Aborted` where it was handed back); None while it is open."""
        kind = "aborted" if self.status == "aborted" else "settled"
        return cast(Settled, decode(kind, self.settled)) if self.settled else None

    @property
    def crash(self) -> Crashed | None:
        """That its holder was found gone; it may have ended since."""
        return cast(Crashed, decode("crashed", self.crashed)) if self.crashed else None

    @property
    def corrected(self) -> list[Corrected]:
        """What was added to its charge since, in order."""
        return [cast(Corrected, decode("corrected", one)) for one in self.corrections]

    @property
    def charged(self) -> tuple[int, int]:
        """Units and delta units, with every correction."""
        parts = [self.body, *self.corrections]
        return (sum(int(part["units"]) for part in parts),
                sum(int(part["delta_units"]) for part in parts))

    @property
    def counted(self) -> tuple[int, int]:
        """What the totals hold of it: `charged`, less what was handed back."""
        units, delta_units = self.charged
        if self.status == "aborted" and not self.touched and not self.releases:
            return units - int(self.body["units"]), delta_units - int(self.body["delta_units"])
        return units, delta_units

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan as corrected last; None where nothing is promised any more."""
        found: dict[str, Any] | None = (self.corrections[-1] if self.corrections
                                        else self.body)["plan"]
        return found


@frozen
class ScopeState:
    """One individual filter scope, paid for once."""

    scope: str
    position: int
    body: dict[str, Any]

    @property
    def event(self) -> ScopeOpened:
        """What was paid for."""
        return cast(ScopeOpened, decode("scope", self.body))


@define
class State:
    """The fold of a history.

    Attributes:
        compact: keep names only of grants that are over.
        created: body of the first entry.
        closed: names of grants that are over and drew on no scope, in the order they ended.
    """

    compact: bool = False
    created: dict[str, Any] = field(factory=dict)
    uuid: str = ""
    budget: Budget | None = None
    relation: str = ""
    mode: str = ""
    filter_asked: str = "auto"
    rule: FilterRule | None = None
    units: int = 0
    delta_units: int = 0
    position: int = -1
    head: str = GENESIS
    grants: dict[str, GrantState] = field(factory=dict)
    scopes: dict[str, ScopeState] = field(factory=dict)
    data: dict[str, dict[str, Any]] = field(factory=dict)
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

    @property
    def creation(self) -> Created:
        """The promise, as the first entry says it."""
        return cast(Created, decode("created", self.created))

    @property
    def tables(self) -> dict[str, Protected]:
        """Tables by name, as they were protected last; none in a compact state."""
        return {name: cast(Protected, decode("protected", body))
                for name, body in self.data.items()}

    @property
    def broken(self) -> str:
        """Why the promise no longer holds; empty while it does."""
        if self.rule is None:
            return ""
        over = (self.units > self.rule.cap_units
                or self.delta_units > self.rule.delta_cap_units)
        if not over:
            return ""
        reasons = [f"{name}: {entry['why']}" for name, grant in self.grants.items()
                   for entry in grant.corrections]
        return "the budget is overspent after corrections (" + "; ".join(reasons)[:500] + ")"

    def charge(self, units: int, delta_units: int, body: dict[str, Any]) -> None:
        """Add to the totals and to every cap that the grant with `body` falls under."""
        self.charges += 1
        self.units += units
        self.delta_units += delta_units
        earlier = self.totals_of(body.get("window"))
        for place, cap in enumerate(self.caps):
            if cap.matches(body):
                totals = earlier if cap.per_window else self.cap_spent
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
        if chain_hash(entry.position, entry.kind, entry.body, entry.previous) != entry.hash:
            raise LedgerCorrupt(f"entry {entry.position} was edited: its hash does not match")
        self.take(entry)

    def take(self, entry: Entry) -> None:
        """As `apply`, for an entry of which place and hash are right."""
        handler = _HANDLERS.get(entry.kind)
        if handler is None:
            raise LedgerCorrupt(f"entry {entry.position} is of an unknown kind")
        if entry.position and not self.uuid:
            raise LedgerCorrupt("the history does not begin with its creation")
        try:
            handler(self, entry)
        except LedgerError:
            raise
        except (PrivledgerError, KeyError, TypeError, ValueError, AttributeError):
            raise LedgerCorrupt(f"entry {entry.position} ({entry.kind}) is malformed") from None
        self.position, self.head = entry.position, entry.hash

    def fork(self) -> State:
        """A copy that can be folded on by itself. Bodies are shared: nobody changes them."""
        return evolve(
            self, grants={name: evolve(grant, corrections=list(grant.corrections))
                          for name, grant in self.grants.items()},
            scopes=dict(self.scopes), data=dict(self.data), cap_spent=list(self.cap_spent),
            windows={name: list(totals) for name, totals in self.windows.items()},
            closed=list(self.closed), closed_names=set(self.closed_names))

    def knows(self, grant: str) -> bool:
        """Whether a grant of this name was ever given."""
        return grant in self.grants or grant in self.closed_names

    def close(self, grant: GrantState) -> None:
        """Note that a grant is over."""
        if grant.body.get("scope"):
            return  # what it took from the scope is added up for as long as there is a scope
        self.closed.append(grant.grant)
        self.closed_names.add(grant.grant)
        if self.compact and not grant.corrections:
            del self.grants[grant.grant]


def folded(entries: Sequence[Entry]) -> State:
    """The state of entries that an audit found no fault in: no hash is computed again."""
    state = State()
    for entry in entries:
        _HANDLERS[entry.kind](state, entry)
        state.position, state.head = entry.position, entry.hash
    return state


def _created(state: State, entry: Entry) -> None:
    body = entry.body
    if entry.position != 0:
        raise LedgerCorrupt("a second creation in one history")
    if int(body["format"]) > FORMAT:
        raise LedgerTooNew(
            f"the ledger has format {body['format']}, this version reads up to {FORMAT}"
        )
    state.created = body
    state.uuid, state.relation, state.mode = body["uuid"], body["relation"], body["mode"]
    state.budget = Budget(body["budget"]["epsilon"], body["budget"]["delta"])
    state.filter_asked, state.format = body["filter"], int(body["format"])
    state.caps = tuple(Cap.from_dict(cap) for cap in body.get("caps", ()))
    state.cap_spent = [(0, 0)] * len(state.caps)
    if body.get("policy") is not None:
        state.policy = Policy.from_dict({"policy": body["policy"]})


def _filter(state: State, entry: Entry) -> None:
    if state.rule is not None or state.budget is None:
        raise LedgerCorrupt("the filter was fixed twice")
    if state.grants or state.scopes or state.closed:
        raise LedgerCorrupt("the filter was fixed after a grant")
    body = entry.body
    fresh = fixed_filter(body["kind"], state.budget,
                         body["order"] if body["kind"] == "rdp" else None)
    # A little more room, as for prices: another machine may have rounded otherwise.
    if (body["cap_units"] > fresh.cap_units + fresh.cap_units // 10**9
            or body["delta_cap_units"] > fresh.delta_cap_units):
        raise LedgerCorrupt(f"entry {entry.position}: the cap is larger than the budget's")
    state.rule = FilterRule(body["kind"], body["order"], state.budget, int(body["cap_units"]),
                            int(body["delta_cap_units"]))


def _protected(state: State, entry: Entry) -> None:
    name, body = entry.body["data"], entry.body
    if not state.compact:
        state.data[name] = body


def _charge(state: State, entry: Entry, body: dict[str, Any]) -> None:
    units, delta_units = entry.body["units"], entry.body["delta_units"]
    if type(units) is not int or type(delta_units) is not int:
        raise LedgerCorrupt(f"entry {entry.position} charges what is no whole number")
    if state.rule is None:
        raise LedgerCorrupt(f"entry {entry.position} charges before a filter was fixed")
    if units < 0 or delta_units < 0:
        raise LedgerCorrupt(f"entry {entry.position} charges less than nothing")
    if entry.kind != "corrected" and entry.body.get("window") != state.window:
        raise LedgerCorrupt(f"entry {entry.position} charges another window than the open one")
    state.charge(units, delta_units, body)


def _scope(state: State, entry: Entry) -> None:
    name = entry.body["scope"]
    if name in state.scopes:
        raise LedgerCorrupt(f"scope opened twice at entry {entry.position}")
    # No name of a grant, table or label keeps it from the caps: a scope falls under all of them.
    _charge(state, entry, {"window": entry.body.get("window")})
    state.scopes[name] = ScopeState(name, entry.position, entry.body)


def _granted(state: State, entry: Entry) -> None:
    name = entry.body["grant"]
    if state.knows(name):
        raise LedgerCorrupt(f"granted twice at entry {entry.position}")
    _charge(state, entry, entry.body)
    state.grants[name] = GrantState(name, entry.position, entry.body)


def _refused(state: State, entry: Entry) -> None:
    state.refusals += 1


def _open_grant(state: State, entry: Entry) -> GrantState:
    grant = state.grants.get(entry.body["grant"])
    if grant is None or grant.status not in ("granted", "crashed"):
        raise LedgerCorrupt(f"entry {entry.position} ({entry.kind}) has no open grant")
    return grant


def _released(state: State, entry: Entry) -> None:
    _open_grant(state, entry).releases += len(entry.body["items"])


def _settled(state: State, entry: Entry) -> None:
    grant = _open_grant(state, entry)
    grant.status, grant.settled = "settled", entry.body
    state.close(grant)


def _aborted(state: State, entry: Entry) -> None:
    grant = _open_grant(state, entry)
    grant.status, grant.settled = "aborted", entry.body
    grant.touched = bool(entry.body["touched"])
    if not grant.touched and not grant.releases:
        state.charge(-int(grant.body["units"]), -int(grant.body["delta_units"]), grant.body)
    state.close(grant)


def _crashed(state: State, entry: Entry) -> None:
    grant = _open_grant(state, entry)
    grant.status, grant.crashed = "crashed", entry.body


def _corrected(state: State, entry: Entry) -> None:
    name = entry.body["grant"]
    grant = state.grants.get(name)
    if grant is None and name in state.closed_names:
        raise GrantIsClosed(name)
    if grant is None or grant.body.get("scope"):
        raise LedgerCorrupt(f"entry {entry.position} corrects what was never charged")
    _charge(state, entry, grant.body)
    grant.corrections.append(entry.body)


def _window(state: State, entry: Entry) -> None:
    name = window_name(entry.body["window"])
    wrong = state.window_entry(name)
    if wrong is not None:
        raise LedgerCorrupt(f"entry {entry.position} opens a window: it must be {wrong}")
    state.windows[state.window or ""] = list(state.cap_spent)
    state.cap_spent = [(0, 0) if cap.per_window else spent
                       for cap, spent in zip(state.caps, state.cap_spent, strict=True)]
    state.window = name


_HANDLERS = {
    "created": _created, "filter": _filter, "protected": _protected, "scope": _scope,
    "granted": _granted, "refused": _refused, "released": _released, "settled": _settled,
    "aborted": _aborted, "crashed": _crashed,
    "corrected": _corrected, "window": _window,
}
