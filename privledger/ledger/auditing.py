"""Audit: one pass over the stored texts of a history, with every rule at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from privledger.errors import LedgerCorrupt, LedgerError, PrivledgerError
from privledger.findings import Finding
from privledger.ledger import rules
from privledger.ledger.checkpoint import (
    Checkpoint,
    NamesDigest,
    is_later,
    names_text,
    take_checkpoint,
)
from privledger.ledger.codec_lines import Line, LineReader, TooLarge
from privledger.ledger.entries import Entry, parse_body
from privledger.ledger.epochs import Epoch, Remembered, checkpoint_mark, follow_blocks
from privledger.ledger.rules import LIMITS, PRICES, Findings, Rule, Seen
from privledger.ledger.settle import RECOVERY, recovery_findings
from privledger.ledger.state import GrantIsClosed, GrantState, State
from privledger.ledger.store import APART, EDITED, Chain, Look, Row, Store, StoredRows
from privledger.reading import stepwise

CHAIN = "chain-is-unbroken"
STATES, CHECKPOINT = "states-follow", "checkpoint-matches"
_FAULTS = {APART: APART, EDITED: "was edited: its hash does not match"}
WATCH = "can-be-summed-up"
MOST_FORMS = 200_000
MOST_FINDINGS = 5_000
"""Enough to know that a history is not to be trusted; a forger's next million is not read."""
Check = Callable[[Line, State | None], Findings]


def chain_findings(store: Store, most: int = 100, uuid: str = "") -> tuple[list[Finding], str]:
    """Every break of the chain, `most` at most, and the hash of the last row.

    Says nothing about what the entries mean: `audit` does.

    Args:
        uuid: of the history, of which this user's processes remember unbroken blocks.
    """
    chain, found = Chain(), list[Finding]()
    if uuid:
        follow_blocks(store, uuid, chain)
    if chain.follow(stepwise("entries checked", StoredRows(store, chain.expected - 1))):
        return [], chain.previous
    chain = Chain()
    for row in StoredRows(store):
        faults = chain.add(row)
        if faults and len(found) < most:
            found += [Finding(CHAIN, row[0], fault) for fault in faults]
    return found, chain.previous


class Watch(Protocol):
    """What goes along with an audit, so that nothing is read or parsed twice.

    Beside `row`, it may have methods `on_granted` and so on, of a line and the state after it,
    and `ended`, of a grant that the compact state lets go of.
    """

    @property
    def row(self) -> Look:
        """Called with number and hash of every stored row, or of the first of several and with
        their hashes, before anything is known about them."""


W = TypeVar("W", bound=Watch)


def audit(store: Store, rows: Iterable[Row] | None = None) -> list[Finding]:
    """Run every rule on everything in `store`, and never stop at the first fault.

    An entry that a rule cannot read is a finding of that rule; it hides no other rule's.

    Args:
        rows: what `store.rows()` gave, for a caller that goes on with the very same ones.
    """
    return audit_along(store, _Nobody, rows)[0]


def audit_along(store: Store, begin: Callable[[], W], rows: Iterable[Row] | None = None,
                keep: Callable[[W, State, Remembered], None] | None = None,
                ) -> tuple[list[Finding], State | None, W]:
    """As `audit`, with a watch beside it.

    Args:
        begin: makes the watch; an audit that has to start afresh makes another.
        keep: called after an audit without a finding, with what an epoch is made of.

    Returns:
        The findings; the compact state at the end (None if none follows); the watch.
    """
    place = store.inspect()
    for compact, recalled in ((True, False), (True, True), (False, False)):
        watch = begin()
        try:
            run = _Audit(store, rows, watch, compact=compact, keeping=keep is not None and compact)
            if recalled and run.state is not None:
                run.state.recalled = _corrected(StoredRows(store) if rows is None else rows)
            found = [*place, *run.run()]
            if keep is not None and run.kept is not None and run.state is not None and not found:
                keep(watch, run.state, run.kept)
            return found, run.state, watch
        except GrantIsClosed:  # a correction of what is over: keep it in mind, or every grant
            continue
        except LedgerCorrupt:  # it cannot be read, and what is wrong with it is known
            if not place:
                raise
            return place, None, watch
    raise AssertionError("a state that keeps every grant knows those that are over")


def _corrected(rows: Iterable[Row]) -> frozenset[str]:
    """What corrections name; what is malformed is found out elsewhere."""
    found = set()
    for row in rows:
        if row[1] == "corrected":
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                found.add(str(parse_body(row[2])["grant"]))
    return frozenset(found)


def audit_on(store: Store, watch: Watch, epoch: Epoch) -> tuple[State, Remembered] | None:
    """An audit that goes on from an epoch, of which the whole chain is checked again.

    Args:
        watch: which knows what the epoch has of it.

    Returns:
        As of `audit_along`, if there is no finding; else None: then all has to be read.
    """
    try:
        if store.inspect():
            return None
        run = _Audit(store, None, watch, compact=True, keeping=True)
        if run.run(epoch) or run.state is None or run.kept is None:
            return None
        return run.state, run.kept
    except LedgerError:  # a correction of what is over, or a file that cannot be read
        return None


class _Nobody:
    """No watch."""

    def row(self, index: int, *digests: str) -> None:
        """Nothing looks."""


def _watched(look: Check) -> Callable[[Seen, Line, State | None], Findings]:
    return lambda seen, line, state: look(line, state)


class _Audit:
    """The pass. A rule that fails for good is left out from there on."""

    def __init__(self, store: Store, rows: Iterable[Row] | None, watch: Watch, *,
                 compact: bool, keeping: bool = False) -> None:
        self._store, self._rows = store, rows
        self._look = None if isinstance(watch, _Nobody) else watch.row
        self.kept = Remembered() if keeping else None
        self._ended = getattr(watch, "ended", None) if compact else None
        self.state: State | None = State(
            compact=compact, ended=self._over if keeping else self._ended)
        self._reader = LineReader()
        self._chain = Chain()
        self._seen = Seen(store)
        watching = [Rule(name[3:], WATCH, _watched(getattr(watch, name)))
                    for name in dir(watch) if name.startswith("on_")]
        self._rules: dict[str, list[Rule]] = {}
        for rule in (*rules.RULES, *watching):
            for kind in rule.kinds.split():
                self._rules.setdefault(kind, []).append(rule)
        self._found: dict[str, list[Finding]] = {name: [] for name in (
            CHAIN, LIMITS, STATES, *(rule.name for rule in rules.RULES), CHECKPOINT, RECOVERY,
            WATCH)}
        self._awake: dict[int, list[Rule]] = {}  # form -> what has anything to do
        self._total = 0  # findings so far
        self._kept = store.checkpoint()

    def _over(self, grant: GrantState) -> None:
        """The state lets go of a grant."""
        if self.kept is not None:
            self.kept.ended(grant)
        if self._ended is not None:
            self._ended(grant)

    def _resume(self, epoch: Epoch) -> Iterable[Row]:
        """Check the chain of an epoch's entries, and go on with what they came to; the rows
        behind it."""
        sealed, state = epoch.sealed, epoch.state
        kept = Remembered(epoch.efforts, epoch.checkpoint)
        if not epoch.follow(self._store, self._chain, self._look):
            self._tell(CHAIN, -1, "is not that of the epoch")
        self._seen.efforts, state.ended = epoch.efforts, self._over
        self.state, self.kept = state, kept
        for row in epoch.rows:
            line = self._reader.read(*row[:3])
            self.kept.take(row, line.event)
            for rule in self._rules.get(line.event.kind, []):
                if rule.name not in (PRICES, WATCH):  # these were found right, and told
                    self._check(rule, line)
        if self._kept is not None and self._kept[0].position < sealed.entries and (
                checkpoint_mark(*self._kept) != epoch.checkpoint):
            self._tell(CHECKPOINT, -1, "is not that of the epoch")
        return StoredRows(self._store, sealed.entries - 1)

    def run(self, epoch: Epoch | None = None) -> list[Finding]:
        rows = (self._resume(epoch) if epoch is not None else
                StoredRows(self._store) if self._rows is None else self._rows)
        for row in stepwise("entries verified", rows):
            if self._total >= MOST_FINDINGS:
                self._tell(LIMITS, row[0], f"more than {MOST_FINDINGS} findings before this entry: "
                                           "nothing was read from here on")
                break
            self._row(row)
        if not self._chain.expected:
            return [Finding(CHAIN, -1, "the history is empty: not a ledger")]
        if self._kept is not None and self._kept[0].position >= self._chain.expected:
            self._tell(CHECKPOINT, self._kept[0].position, "a "
                                                           "checkpoint lies beyond the last entry")
        if self.state is not None:
            self._found[RECOVERY] += recovery_findings(self._store, self.state)
        if self.kept is not None:
            self.kept.efforts = self._seen.efforts
        failed = self._found.pop(WATCH)  # what is malformed is a finding of other rules, too
        return [finding for found in self._found.values() for finding in found] or failed

    def _tell(self, rule: str, position: int, text: str) -> None:
        self._found[rule].append(Finding(rule, position, text))
        self._total += 1

    def _row(self, row: Row) -> None:
        position, kind, text, _, digest = row
        if self._look is not None:
            self._look(self._chain.expected, digest)
        fault = ""
        for wrong in self._chain.add(row):
            fault = f"entry {position} {_FAULTS[wrong]}"
            self._tell(CHAIN, position, wrong)
        try:
            line = self._reader.read(position, kind, text)
        except TooLarge as large:
            self._tell(LIMITS, position, f"{large}, so it was not read")
            self._lose(position, f"entry {position} {large}")
            return
        except (ValueError, TypeError, RecursionError):
            self._tell(CHAIN, position, "is not canonical JSON")
            self._lose(position, f"entry {position} is not canonical JSON")
            return
        if self.kept is not None:
            self.kept.take(row, line.event)
        self._fold(line, digest, fault)
        self._ask(line)
        if self._kept is not None and self._kept[0].position == position:
            self._compare(*self._kept)

    def _ask(self, line: Line) -> None:
        """Every rule, or of a form that is known those that have something to do."""
        awake = None if line.form is None else self._awake.get(line.form)
        if awake is not None:
            for rule in awake:
                self._check(rule, line)
            return
        asked, before = self._rules.get(line.event.kind, []), self._total
        for rule in asked:
            self._check(rule, line)
        if line.form is not None and self._total == before:
            if len(self._awake) >= MOST_FORMS:
                self._awake.clear()
            self._awake[line.form] = [rule for rule in self._rules.get(line.event.kind, [])
                                      if rule.again(self._seen, line.event)]

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
            self._tell(PRICES, position, f"cannot be priced: {why}")
            self.state = None

    def _check(self, rule: Rule, line: Line) -> None:
        name = rule.name
        if name == PRICES and self.state is None:
            return
        try:
            for finding in rule.check(self._seen, line, self.state):
                self._found[name].append(finding)  # what came before a failure counts
                self._total += 1
        except (PrivledgerError, KeyError, TypeError, ValueError) as error:
            if name == PRICES:
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
        self._tell(name, -1, "an entry is too malformed for this rule to finish "
                             f"({type(error).__name__})")
        self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        self._rules = {kind: [rule for rule in several if rule.name != name]
                       for kind, several in self._rules.items()}
        self._awake.clear()

    def _compare(self, kept: Checkpoint, names: str) -> None:
        """A checkpoint is what the entries up to its position fold to."""
        state = self.state
        if state is None or (kept.sound and is_later(kept)):
            return
        try:
            right = take_checkpoint(state, NamesDigest().bring(state.closed, len(state.closed)))
        except Exception as error:
            self._fail(CHECKPOINT, error)
            return
        if right != kept or names_text(state.closed) != names:
            self._tell(CHECKPOINT, kept.position, "is not what the entries before it add up to")
        elif self.kept is not None:
            self.kept.checkpoint = checkpoint_mark(kept, names)
