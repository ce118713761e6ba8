"""Settling: the end of a grant is written, or kept where it is found again. It is never lost
in silence: charges stand, and the caller that closes is told where the items are.

A recovery file says what a grant that is open or crashed released, and that it is over. It
can do nothing else, however it was written: no charge changes, nothing is handed back, and what the
rules of an audit find fault with is refused. It holds no values of records, no per-record vectors
and no answers. Format: docs/ledger-format.md.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import field, frozen

from privledger import mutex
from privledger.errors import (
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    NotSettled,
    PrivledgerError,
)
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger.checkpoint import state_folder
from privledger.ledger.codec import decode, encode, given, without, written
from privledger.ledger.codec_lines import LineOf
from privledger.ledger.entries import Entry, parse_body
from privledger.ledger.events import Event, Granted, Released, Settled
from privledger.ledger.history import History
from privledger.ledger.limits import check_text
from privledger.ledger.rules import KEPT, RELEASES, RULES, WHOLE, Seen
from privledger.ledger.state import GrantState, State
from privledger.ledger.store import Denied, Store
from privledger.reading import read_plain, write_whole

RECOVERY = "spills-are-taken-up"
SUFFIX = ".spill"
MOST_BYTES = 4 << 20
MOST_ITEMS = 400_000
MOST_FILES = 100
MOST_NAMES = 100_000
"""Entries of a folder that are looked at; who has more there keeps the ledger in one of its own."""
_MOST_OTHERS = 100_000  # lists and objects that are no items
_COMPARED = 200_000  # entries of a history that is read through for a grant that is over

_RELEASED = {"grant", "first", "questions", "nodes", "items", "noise"}
_SETTLED = {"grant", "time", "touched", "releases"}


class RecoveryRefused(LedgerError):
    """A recovery file that is damaged, forged, or of another ledger. Nothing was done with it."""


@frozen
class RecoveryFile:
    """What one file says.

    Attributes:
        ledger: uuid of the ledger.
        grant: name of the grant.
        granted: sha256 of the canonical body of the grant's entry.
        position, head: the last entry that its writer knew.
        lines: `Released` in order, then one `Settled`.
        secret: what the place of the ledger asks for before it believes them; empty if nothing.
    """

    ledger: str
    grant: str
    granted: str
    position: int
    head: str
    lines: tuple[Event, ...]
    secret: str = field(default="", repr=False)

    def text(self) -> str:
        """Canonical JSON, with its own hash in it."""
        value = {"format": 1, "ledger": self.ledger, "grant": self.grant, "granted": self.granted,
                "position": self.position, "head": self.head,
                "lines": [[event.kind, encode(event)] for event in self.lines]}
        if self.secret:
            value["secret"] = self.secret
        return canonical(value | {"sha256": _digest(canonical(value))})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def recovery_of(state: State, grant: GrantState, lines: Sequence[Event],
                secret: str = "") -> RecoveryFile:
    """The file of a settlement that could not be written. Vectors stay behind: without them
    every record counts as having paid the most its plan allows."""
    kept = tuple(without(event, "vector", "cap", "answer", "score") for event in lines)
    return RecoveryFile(state.uuid, grant.grant, _digest(written(grant.event)), state.position,
                 state.head, kept, secret)


def read_recovery(text: str) -> RecoveryFile:
    """The inverse of `RecoveryFile.text`; the lines are not looked at yet.

    Raises:
        RecoveryRefused: not a recovery file, or edited.
    """
    if text.count("[") + text.count("{") > MOST_ITEMS + _MOST_OTHERS:
        raise RecoveryRefused(f"it has more than {MOST_ITEMS} items")
    try:
        value = parse_body(text)
        if not isinstance(value, dict) or canonical(value) != text or value.pop("format", 0) != 1:
            raise ValueError
        said, lines = value.pop("sha256"), value["lines"]
        found = RecoveryFile(value["ledger"], value["grant"], value["granted"], value["position"],
                      value["head"], tuple(decode(kind, dict(line)) for kind, line in lines),
                      value.get("secret", ""))
        texts = (found.ledger, found.grant, found.granted, found.head, said, found.secret)
        if not all(type(one) is str for one in texts) or type(found.position) is not int:
            raise ValueError
        whole = len(value) == 6 + ("secret" in value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RecoveryRefused("it is no recovery file of this version") from None
    if not whole or found.text() != text:
        raise RecoveryRefused("its hash does not match: it was edited")
    return found


def _unfinished(state: State, name: str) -> GrantState | None:
    """A grant that is open or crashed, and nothing that it released is written down."""
    grant = state.grants.get(name)
    over = grant is None or grant.status not in ("granted", "crashed") or grant.releases
    return None if over else grant


def check_recovery(file: RecoveryFile, state: State, store: Store) -> None:
    """Whether it may be added to the history that `state` was folded from.

    Raises:
        RecoveryRefused: another ledger, another grant, or more than the grant covers.
    """
    grant = _unfinished(state, file.grant)
    if file.ledger != state.uuid:
        raise RecoveryRefused("it belongs to another ledger")
    if grant is None:
        raise RecoveryRefused("its grant is neither open nor crashed")
    if file.granted != _digest(written(grant.event)) or not (
            grant.position <= file.position <= state.position):
        raise RecoveryRefused("its grant differs from the one of this name")
    try:
        covered = _is_covered(file, grant, state, store)
    except (PrivledgerError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            RecursionError, OverflowError):
        covered = False
    if not covered:
        raise RecoveryRefused("it states more than its grant covers, or is malformed")


def _is_covered(file: RecoveryFile, grant: GrantState, state: State, store: Store) -> bool:
    """Whether the rules of an audit find nothing in the lines, and these say nothing else than
    what was released and that the grant is over: what is appended is there for ever."""
    releases = [event for event in file.lines if isinstance(event, Released)]
    end = file.lines[-1]
    if type(end) is not Settled or len(releases) != len(file.lines) - 1:
        return False
    seen = Seen(store, state.format, state.mode, policy=state.policy)
    lines: tuple[Granted | Released | Settled, ...] = (grant.event, *releases, end)
    for event in lines:
        names = (RELEASES,) if event is grant.event else (WHOLE, RELEASES, KEPT)
        line = LineOf(-1, event, None)
        if event.grant != grant.grant or check_text(event.kind, written(event)) or any(
                list(rule.check(seen, line, state)) for rule in RULES
                if rule.name in names and event.kind in rule.kinds.split()):
            return False
    said = given(end)
    return (all(given(event) == _RELEASED and event.noise == state.creation.noise
                and all(map(_is_short, event.questions)) for event in releases)
            and end.releases <= MOST_ITEMS and end.touched >= (end.releases > 0)
            and said >= _SETTLED and said - _SETTLED in (set(), {"error", "failed"})
            and end.failed is ("failed" in said)
            and _is_short(end.time) and _is_short(end.error or ""))


def _is_short(value: object) -> bool:
    return type(value) is str and len(value) <= 4000


def same_lines(entries: Sequence[Entry], grant: str, lines: Sequence[Event]) -> bool:
    """Whether the history says the same of a grant that is over; a vector may be missing."""
    there = [entry.event for entry in entries if isinstance(entry.event, Released | Settled)
             and entry.event.grant == grant]
    return _bare(there) == _bare(lines)


def _bare(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.kind, written(without(event, "vector", "cap", "time", "answer", "score")))
            for event in events]


@frozen
class RecoveryFolder:
    """A folder where recovery files of one ledger are, and how their names begin."""

    folder: str
    prefix: str
    make: bool = False

    def path(self, grant: str) -> str:
        """Where the releases of `grant` would lie, written or not."""
        return str(Path(self.folder) / f"{self.prefix}.{grant}{SUFFIX}")

    def names(self, first: Container[str] = ()) -> list[str]:
        """Paths of all that look like recovery files, at most `MOST_FILES`.

        Args:
            first: grants whose files come before all others, which any user may have put there.
        """
        found = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            for _, entry in zip(range(MOST_NAMES), entries, strict=False):
                if entry.name.startswith(f"{self.prefix}.") and entry.name.endswith(SUFFIX):
                    found.append(entry.path)
        start = len(str(Path(self.folder) / f"{self.prefix}."))
        return sorted(found, key=lambda path: (path[start:-len(SUFFIX)] not in first,
                                               path))[:MOST_FILES]

    def read(self, path: str) -> str:
        """Text of a recovery file.

        Raises:
            RecoveryRefused: no plain file of one name, or too large.
        """
        try:
            facts, data = read_plain(path, MOST_BYTES)
            text = data.decode("ascii")
        except OSError:
            raise RecoveryRefused("it cannot be opened, or is a link") from None
        except UnicodeDecodeError:
            raise RecoveryRefused("it is no recovery file of this version") from None
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise RecoveryRefused("it is no plain file of one name")
        if len(text) > MOST_BYTES:
            raise RecoveryRefused(f"it is larger than {MOST_BYTES} bytes")
        return text

    def write(self, grant: str, text: str) -> str:
        """Put a recovery file there, whole or not at all, readable by its owner only. Its path."""
        folder = Path(self.folder)
        if self.make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(grant)
        write_whole(Path(path), text.encode("ascii"))
        with suppress(OSError):  # not every system can
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return path

    def remove(self, path: str) -> None:
        """Remove a recovery file; one that is gone already is fine."""
        with suppress(OSError):
            os.unlink(path)


def recovery_folders(location: str, uuid: str) -> list[RecoveryFolder]:
    """Where recovery files of a ledger can be: beside its file, and in the user's own state folder.

    The latter is $XDG_STATE_HOME/privledger, or ~/.local/state/privledger. A ledger in memory
    has none: it ends with the process that holds the items anyway.
    """
    if location == ":memory:":
        return []
    found = [RecoveryFolder(str(state_folder()), uuid, make=True)]
    if "://" not in location:
        path = Path(location).absolute()
        found.insert(0, RecoveryFolder(str(path.parent), path.name))
    return found


def put(location: str, file: RecoveryFile) -> str:
    """Keep a recovery file in the first place that takes it; where it is.

    Raises:
        RecoveryRefused: it is too large, or there is no room anywhere.
    """
    text, why = file.text(), "a ledger in memory has no folder for it"
    if len(text) > MOST_BYTES:
        raise RecoveryRefused(f"it would be larger than {MOST_BYTES} bytes")
    for folder in recovery_folders(location, file.ledger):
        try:
            return folder.write(file.grant, text)
        except OSError as error:
            why = f"{folder.folder}: {error.strerror or type(error).__name__}"
    raise RecoveryRefused(why)


def drop(location: str, uuid: str, grant: str) -> None:
    """Remove the file of a grant that was settled after all."""
    for folder in recovery_folders(location, uuid):
        folder.remove(folder.path(grant))


def waiting(location: str, uuid: str,
            first: Container[str]) -> Iterator[tuple[RecoveryFolder, str]]:
    """Every file that looks like one of a ledger; those of `first`, its open grants, before
    the others."""
    for folder in recovery_folders(location, uuid):
        for path in folder.names(first):
            yield folder, path


def recovery_findings(store: Store, state: State) -> list[Finding]:
    """What an audit says about them: those that wait, and those that can never be taken up."""
    found = []
    for folder, path in waiting(store.location, state.uuid, state.grants):
        try:
            file = read_recovery(folder.read(path))
            if not _is_taken_up(file, state, store):
                check_recovery(file, state, store)
                found.append(Finding(RECOVERY, -1, f"{path}: a recovery file holds releases of "
                                                 f"{file.grant}: open the ledger for writing to "
                                                 "take them in"))
        except RecoveryRefused as refused:
            found.append(Finding(RECOVERY, -1, f"{path}: {refused}"))
    return found


def _is_taken_up(file: RecoveryFile, state: State, store: Store) -> bool:
    """Whether the history says already what the file says: a process was killed in between."""
    grant = state.grants.get(file.grant)
    over = state.knows(file.grant) and (grant is None or grant.status in ("settled", "aborted"))
    return (file.ledger == state.uuid and over and state.position < _COMPARED
            and same_lines(store.read(), file.grant, file.lines))


PAUSES = (0.05, 0.2, 0.5)
"""Seconds between tries where the ledger is a file."""
LONG_PAUSES = (*PAUSES, 1.0, 2.0, 4.0)
"""The same where it is a server, which may be starting again."""


@frozen
class Settlement:
    """What a session wants to write at its end.

    Attributes:
        grant: name of the grant.
        lines: `Released` in order, then `Settled` or `Aborted`.
        vectors: per-record vectors that `settled` names.
        releases: how many items there are.
    """

    grant: str
    lines: tuple[Event, ...]
    vectors: dict[str, bytes]
    releases: int


class _Over(Exception):
    """The grant is over already."""


def settle(history: History, settlement: Settlement) -> None:
    """Write a settlement, durably. Again and again the same: it is written once.

    Raises:
        NotSettled: it could not be written. It says where the items are; the charge stands.
    """
    history.unsettled[settlement.grant] = settlement
    server = "://" in history.store.location
    try:
        for pause in (*(LONG_PAUSES if server else PAUSES), None):
            try:
                _write(history, settlement)
                break
            except LedgerError as error:
                hopeless = isinstance(error, LedgerCorrupt) or (
                    isinstance(error, LedgerBusy) and not server)  # it waited long enough
                if pause is None or hopeless:
                    raise
                mutex.threads.sleep(pause)
    except Exception as error:
        raise _kept(history, settlement, error) from None
    except BaseException:  # an interrupt: it may have been written, and may be written again
        _kept(history, settlement, None)
        raise
    _others(history)


def settle_left(history: History) -> None:
    """Write what could not be written before.

    Raises:
        NotSettled: the first that still cannot be.
    """
    for settlement in list(history.unsettled.values()):
        settle(history, settlement)


def _write(history: History, settlement: Settlement) -> None:
    def lines(state: State) -> list[Event]:
        if _unfinished(state, settlement.grant) is None:
            raise _Over
        return list(settlement.lines)

    try:
        history.commit(lines, settlement.vectors)
    except _Over:
        # By an earlier try of which the answer was lost, or by who took up the file.
        if not same_lines(history.store.read(), settlement.grant, settlement.lines):
            raise LedgerCorrupt(f"{settlement.grant} was closed by another session, without this "
                                "session's releases") from None
    history.unsettled.pop(settlement.grant, None)
    if settlement.grant in history.recoverable:
        drop(history.store.location, history.known(lambda state: state.uuid),
                   settlement.grant)
        history.recoverable.discard(settlement.grant)


def _kept(history: History, settlement: Settlement, error: Exception | None) -> NotSettled:
    """RecoveryFile it, and say so."""
    cause = str(error) if isinstance(error, LedgerError) else type(error).__name__
    where, why, store = None, "", history.store

    def made(state: State) -> RecoveryFile:
        grant = state.grants.get(settlement.grant)
        if grant is None:
            raise RecoveryRefused("the grant is over already")
        return recovery_of(state, grant, settlement.lines, store.secret(settlement.grant))

    try:
        if type(settlement.lines[-1]) is not Settled:
            raise RecoveryRefused("a grant that is handed back has no items")
        where = put(store.location, history.known(made))
        history.recoverable.add(settlement.grant)
    except LedgerError as refused:
        why = str(refused)
    except Exception as failure:  # whatever else is broken: what is said here comes first
        why = type(failure).__name__
    return NotSettled(grant=settlement.grant, releases=settlement.releases, cause=cause,
                      spill=where, why=why)


def _others(history: History) -> None:
    """The ledger can be written again: so can what is left of other sessions."""
    for settlement in list(history.unsettled.values()):
        try:
            _write(history, settlement)
        except Exception:
            return  # they were told; their recovery files, or their own close(), come later


def take_up(history: History) -> list[Finding]:
    """Append what recovery files hold, once, and remove them; what is wrong with the others."""
    location, found = history.store.location, []
    uuid, grants = history.look(lambda state: (state.uuid, set(state.grants)))
    for folder, path in waiting(location, uuid, grants):
        try:
            one = read_recovery(folder.read(path))
            _append(history, one)
            folder.remove(path)
        except (RecoveryRefused, Denied) as refused:
            found.append(Finding(RECOVERY, -1, f"{path}: {refused}"))
    return found


def _append(history: History, one: RecoveryFile) -> None:
    state: Any = history.look(lambda state: state.fork())
    if _is_taken_up(one, state, history.store):
        return
    check_recovery(one, state, history.store)
    known = history.store.read(one.position - 1)[:1]
    if not known or known[0].hash != one.head:
        raise RecoveryRefused("it belongs to another history")

    history.store.hold(one.grant, one.secret)

    def lines(now: State) -> list[Event]:
        # Another process may have been faster with the same file.
        return [] if _unfinished(now, one.grant) is None else list(one.lines)

    history.commit(lines)
