"""Audit: one pass over the stored texts of a history, with every rule at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from privledger.errors import LedgerCorrupt, PrivledgerError
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint, NamesDigest, is_later, names_text, take
from privledger.ledger.entries import GENESIS, Entry
from privledger.ledger.lines import Line, LineReader
from privledger.ledger.rules import (
    Findings,
    PolicyIsKept,
    PricesAreRight,
    ReleasesAreGranted,
    ScopesArePaid,
    VectorsMatch,
)
from privledger.ledger.state import GrantIsClosed, State
from privledger.ledger.store import Row, Store

CHAIN, STATES, CHECKPOINT = "chain-is-unbroken", "states-follow", "checkpoint-matches"
WATCH = "can-be-summed-up"
Check = Callable[[Line, State], Findings]


class Watch(Protocol):
    """Whoever goes along with an audit, so that nothing is read or parsed twice.

    Beside `row`, it may have methods `on_granted` and so on, as the rules do.
    """

    @property
    def row(self) -> Callable[[int, str], None]:
        """Called with number and hash of every stored row, before anything is known about it."""


W = TypeVar("W", bound=Watch)


def audit(store: Store, rows: Sequence[Row] | None = None) -> list[Finding]:
    """Run every rule on everything in `store`, and never stop at the first fault.

    An entry that a rule cannot read is a finding of that rule; it hides no other rule's.

    Args:
        rows: what `store.rows()` gave, for a caller that goes on with the very same ones.
    """
    return audit_along(store, _Nobody, rows)[0]


def audit_along(store: Store, begin: Callable[[], W], rows: Sequence[Row] | None = None,
                ) -> tuple[list[Finding], State | None, W]:
    """As `audit`, with a watch beside it.

    Args:
        begin: makes the watch; an audit that has to start afresh makes another.

    Returns:
        The findings; the compact state at the end (None if none follows); the watch.
    """
    for compact in (True, False):
        watch = begin()
        run = _Audit(store, rows, watch, compact=compact)
        try:
            return run.run(), run.state, watch
        except GrantIsClosed:  # a correction of what is over: keep every grant in mind
            continue
    raise AssertionError("a state that keeps every grant knows those that are over")


class _Nobody:
    """No watch."""

    def row(self, index: int, digest: str) -> None:
        """Nobody looks."""


class _Audit:
    """The pass. A rule that fails for good is left out from there on."""

    def __init__(self, store: Store, rows: Sequence[Row] | None, watch: Watch, *,
                 compact: bool) -> None:
        self._store, self._rows = store, rows
        self._look = None if isinstance(watch, _Nobody) else watch.row
        self.state: State | None = State(compact=compact)
        self._reader = LineReader()
        self._previous, self._expected = GENESIS, 0
        self._kinds: dict[str, str] = {}
        self._prices = PricesAreRight()
        rules: tuple[Any, ...] = (self._prices, ReleasesAreGranted(), ScopesArePaid(),
                                  PolicyIsKept(), VectorsMatch(store))
        self._checks: dict[str, list[tuple[str, Check]]] = {}
        for title, rule in [*((rule.name, rule) for rule in rules), (WATCH, watch)]:
            for name in dir(rule):
                if name.startswith("on_"):
                    self._checks.setdefault(name[3:], []).append((title, getattr(rule, name)))
        order = (CHAIN, STATES, *(rule.name for rule in rules), CHECKPOINT, WATCH)
        self._found: dict[str, list[Finding]] = {name: [] for name in order}
        self._kept = store.checkpoint()

    def run(self) -> list[Finding]:
        for row in self._store.rows() if self._rows is None else self._rows:
            self._row(row)
        if not self._expected:
            return [Finding(CHAIN, -1, "the history is empty: not a ledger")]
        if self._kept is not None and self._kept[0].position >= self._expected:
            self._tell(CHECKPOINT, self._kept[0].position, "a checkpoint behind the last entry")
        failed = self._found.pop(WATCH)  # what is malformed is a finding of other rules, too
        return [finding for found in self._found.values() for finding in found] or failed

    def _tell(self, rule: str, position: int, text: str) -> None:
        self._found[rule].append(Finding(rule, position, text))

    def _row(self, row: Row) -> None:
        position, kind, text, previous, digest = row
        if self._look is not None:
            self._look(self._expected, digest)
        fault = ""
        if position != self._expected or previous != self._previous:
            fault = f"entry {position} does not follow the one before"
            self._tell(CHAIN, position, "does not follow the one before")
        if not self._is_hash(row):
            fault = f"entry {position} was edited: its hash does not match"
            self._tell(CHAIN, position, "the text does not match its hash")
        self._previous, self._expected = digest, self._expected + 1
        try:
            line = self._reader.read(position, kind, text)
        except (ValueError, TypeError, RecursionError):
            self._tell(CHAIN, position, "is not canonical JSON")
            self._lose(position, f"entry {position} is not canonical JSON")
            return
        self._fold(line, digest, fault)
        checks = self._checks.get(kind)
        if checks:
            for name, check in checks:
                self._check(name, check, line)
        if self._kept is not None and self._kept[0].position == position:
            self._compare(*self._kept)

    def _is_hash(self, row: Row) -> bool:
        position, kind, text, previous, digest = row
        try:
            named = self._kinds.get(kind)
            if named is None:
                named = self._kinds[kind] = canonical(kind)
            whole = f"{previous}[{position},{named},{text}]".encode("ascii")
        except (ValueError, TypeError):
            return False
        return hashlib.sha256(whole).hexdigest() == digest

    def _fold(self, line: Line, digest: str, fault: str) -> None:
        state = self.state
        if state is None:
            return
        try:
            if fault:
                raise LedgerCorrupt(fault)
            line.hash = digest
            state.take(cast(Entry, line))
        except GrantIsClosed:
            raise
        except PrivledgerError as error:
            self._lose(line.position, str(error))
        except Exception as error:  # an edited entry can make a rule raise anything
            self._fail(STATES, error)
            self.state = None

    def _lose(self, position: int, why: str) -> None:
        """From here on there is no state: what needs one stops."""
        if self.state is not None:
            self._tell(STATES, position, why)
            self._tell(self._prices.name, position, f"cannot be priced: {why}")
            self.state = None

    def _check(self, name: str, check: Check, line: Line) -> None:
        prices = name == self._prices.name
        if prices and self.state is None:
            return
        try:
            for finding in check(line, self.state):  # type: ignore[arg-type]
                self._found[name].append(finding)  # what came before a failure counts
        except (PrivledgerError, KeyError, TypeError, ValueError) as error:
            if prices:
                self._tell(name, line.position, f"cannot be priced: {error}")
                self._leave_out(name)
            elif isinstance(error, PrivledgerError):
                self._tell(name, line.position, str(error))
            elif isinstance(error, KeyError):
                self._tell(name, line.position, "no grant before it")
            else:
                self._fail(name, error)
        except Exception as error:
            self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> None:
        self._tell(name, -1, "an entry is so malformed that this rule cannot finish "
                             f"({type(error).__name__})")
        self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        self._checks = {kind: [one for one in checks if one[0] != name]
                        for kind, checks in self._checks.items()}

    def _compare(self, kept: Checkpoint, names: str) -> None:
        """A checkpoint is what the entries up to its position fold to."""
        state = self.state
        if state is None or (kept.sound and is_later(kept)):
            return
        try:
            right = take(state, NamesDigest().bring(state.closed, len(state.closed)))
        except Exception as error:
            self._fail(CHECKPOINT, error)
            return
        if right != kept or names_text(state.closed) != names:
            self._tell(CHECKPOINT, kept.position, "is not what the entries before it add up to")
