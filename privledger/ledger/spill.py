"""Spill: what a session released, kept in a file while the ledger cannot be written.

A spill says what a grant that is open or crashed released, and that it is over. It can do nothing
else, whoever wrote it: no charge changes, nothing is handed back, and what does not fit the plan
that was reserved is refused. It holds no values of records, no per-record vectors and no answers.
Format: docs/ledger-format.md.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

from privledger.errors import LedgerError, PrivledgerError
from privledger.findings import Finding
from privledger.graph import Meter, as_released, canonical, from_json
from privledger.ledger.codec import decode, encode, given, without, written
from privledger.ledger.codec_shapes import SHAPES, check_fields, check_together
from privledger.ledger.entries import FORMAT, Entry, parse_body
from privledger.ledger.events import Event, Released, Settled
from privledger.ledger.limits import check_text
from privledger.ledger.log import read_node
from privledger.ledger.origins import Origins, origin_findings
from privledger.ledger.seals import state_folder
from privledger.ledger.state import GrantState, State

RULE = "spills-are-taken-up"
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


class SpillRefused(LedgerError):
    """A spill that is damaged, forged, or of another ledger. Nothing was done with it."""


@frozen
class Spill:
    """What one file says.

    Attributes:
        ledger: uuid of the ledger.
        grant: name of the grant.
        granted: sha256 of the canonical body of the grant's entry.
        position, head: the last entry that whoever wrote it knew.
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


def spill_of(state: State, grant: GrantState, lines: Sequence[Event], secret: str = "") -> Spill:
    """The spill of a settlement that could not be written. Vectors stay behind: without them
    every record counts as having paid the most its plan allows."""
    kept = tuple(without(event, "vector", "cap", "answer") for event in lines)
    return Spill(state.uuid, grant.grant, _digest(written(grant.event)), state.position,
                 state.head, kept, secret)


def read_spill(text: str) -> Spill:
    """The inverse of `Spill.text`; the lines are not looked at yet.

    Raises:
        SpillRefused: not a spill, or edited.
    """
    if text.count("[") + text.count("{") > MOST_ITEMS + _MOST_OTHERS:
        raise SpillRefused(f"it has more than {MOST_ITEMS} items")
    try:
        value = parse_body(text)
        if not isinstance(value, dict) or canonical(value) != text or value.pop("format", 0) != 1:
            raise ValueError
        said, lines = value.pop("sha256"), value["lines"]
        found = Spill(value["ledger"], value["grant"], value["granted"], value["position"],
                      value["head"], tuple(decode(kind, dict(line)) for kind, line in lines),
                      value.get("secret", ""))
        texts = (found.ledger, found.grant, found.granted, found.head, said, found.secret)
        if not all(type(one) is str for one in texts) or type(found.position) is not int:
            raise ValueError
        whole = len(value) == 6 + ("secret" in value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SpillRefused("it is not a spill of this version") from None
    if not whole or found.text() != text:
        raise SpillRefused("its hash does not match: it was edited")
    return found


def check_spill(spill: Spill, state: State) -> None:
    """Whether it may be added to the history that `state` was folded from.

    Raises:
        SpillRefused: another ledger, another grant, or more than the grant covers.
    """
    grant = state.grants.get(spill.grant)
    if spill.ledger != state.uuid:
        raise SpillRefused("it belongs to another ledger")
    if grant is None or grant.status not in ("granted", "crashed") or grant.releases:
        raise SpillRefused("its grant is not one that is open or crashed")
    if spill.granted != _digest(written(grant.event)) or not (
            grant.position <= spill.position <= state.position):
        raise SpillRefused("its grant is another one than the one of this name")
    try:
        _check_lines(spill, grant, state)
    except SpillRefused:
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            RecursionError, OverflowError):
        raise SpillRefused("it says more than its grant covers, or is malformed") from None


def _check_lines(spill: Spill, grant: GrantState, state: State) -> None:
    for event in spill.lines:  # what is appended is in the history for ever
        _must(type(event) in (Released, Settled))
        check_fields(SHAPES[event.kind], encode(event))
        check_together(event.kind, encode(event), FORMAT, "private")
        _must(not check_text(event.kind, written(event)))
    releases = [event for event in spill.lines if isinstance(event, Released)]
    ends = [event for event in spill.lines if isinstance(event, Settled)]
    _must(len(ends) == 1 and ends[0] is spill.lines[-1])
    settled = ends[0]
    count = sum(len(event.items) for event in releases)
    _must(count <= MOST_ITEMS)
    meter, first, asked = Meter(as_released(from_json(grant.event.plan))), 0, set[str]()
    for event in releases:
        _must(given(event) == _RELEASED and event.grant == grant.grant and event.first == first)
        _must(_is_text(event.noise) and event.noise == state.creation.noise)
        nodes = [read_node(node) for node in event.nodes]
        _must(all(_is_text(text) for text in event.questions))
        for node, question, cells in event.items:
            _must(all(type(one) is int and one >= 0 for one in (node, question, cells)))
            asked.add(event.questions[question])
            meter.admit(*nodes[node])
        first += len(event.items)
    said = given(settled)
    _must(said >= _SETTLED and said - _SETTLED in (set(), {"error", "failed"}))
    _must(settled.grant == grant.grant and settled.releases == count)
    _must(type(settled.touched) is bool and settled.touched >= (count > 0))
    _must(_is_text(settled.time) and _is_text(settled.error or ""))
    _must(settled.failed is ("failed" in said))
    asserted = tuple(sorted(text for text in asked if text.startswith("asserted:")))
    _must(state.policy is None or not list(
        origin_findings(Origins(asserted=asserted), state.policy)))


def _must(true: bool) -> None:
    if not true:
        raise SpillRefused("it says more than its grant covers, or is malformed")


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= 4000


def same_lines(entries: Sequence[Entry], grant: str, lines: Sequence[Event]) -> bool:
    """Whether the history says the same of a grant that is over; a vector may be missing."""
    there = [entry.event for entry in entries if isinstance(entry.event, Released | Settled)
             and entry.event.grant == grant]
    return _bare(there) == _bare(lines)


def _bare(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.kind, written(without(event, "vector", "cap", "time", "answer")))
            for event in events]


@frozen
class Shelf:
    """A folder where spills of one ledger are, and how their names begin."""

    folder: str
    prefix: str
    make: bool = False

    def path(self, grant: str) -> str:
        """Where the releases of `grant` would lie, written or not."""
        return str(Path(self.folder) / f"{self.prefix}.{grant}{SUFFIX}")

    def names(self, first: Container[str] = ()) -> list[str]:
        """Paths of all that look like spills, at most `MOST_FILES`.

        Args:
            first: grants whose spills come before all others, which anybody may have put there.
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
        """Text of a spill.

        Raises:
            SpillRefused: no plain file of one name, or too large.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
                                 | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            raise SpillRefused("it cannot be opened, or is a link") from None
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
                raise SpillRefused("it is no plain file of one name")
            if facts.st_size > MOST_BYTES:
                raise SpillRefused(f"it is larger than {MOST_BYTES} bytes")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MOST_BYTES + 1).decode("ascii")
        except (OSError, UnicodeDecodeError):
            raise SpillRefused("it is not a spill of this version") from None
        finally:
            os.close(descriptor)

    def write(self, grant: str, text: str) -> str:
        """Put a spill there, whole or not at all, readable by its owner only. Its path."""
        folder = Path(self.folder)
        if self.make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(grant)
        beside = f"{path}.{secrets.token_hex(4)}"
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("ascii"))
                file.flush()
                os.fsync(descriptor)
            os.replace(beside, path)
        finally:
            with suppress(OSError):
                os.unlink(beside)
        _sync(folder)
        return path

    def remove(self, path: str) -> None:
        """Remove a spill; one that is gone already is fine."""
        with suppress(OSError):
            os.unlink(path)


def _sync(folder: Path) -> None:
    with suppress(OSError):  # not every system can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def shelves(location: str, uuid: str) -> list[Shelf]:
    """Where spills of a ledger can be: beside its file, and in the user's own state folder.

    The latter is $XDG_STATE_HOME/privledger, or ~/.local/state/privledger. A ledger in memory
    has none: it ends with the process that holds the items anyway.
    """
    if location == ":memory:":
        return []
    found = [Shelf(str(state_folder()), uuid, make=True)]
    if "://" not in location:
        path = Path(location).absolute()
        found.insert(0, Shelf(str(path.parent), path.name))
    return found


def put(location: str, spill: Spill) -> str:
    """Keep a spill in the first place that takes it; where it is.

    Raises:
        SpillRefused: it is too large, or there is no room anywhere.
    """
    text, why = spill.text(), "a ledger in memory has no place for it"
    if len(text) > MOST_BYTES:
        raise SpillRefused(f"it would be larger than {MOST_BYTES} bytes")
    for shelf in shelves(location, spill.ledger):
        try:
            return shelf.write(spill.grant, text)
        except OSError as error:
            why = f"{shelf.folder}: {error.strerror or type(error).__name__}"
    raise SpillRefused(why)


def drop(location: str, uuid: str, grant: str) -> None:
    """Remove the spill of a grant that was settled after all."""
    for shelf in shelves(location, uuid):
        shelf.remove(shelf.path(grant))


def waiting(location: str, uuid: str, first: Container[str]) -> Iterator[tuple[Shelf, str]]:
    """Every file that looks like a spill of a ledger; those of `first`, its open grants, before
    the others."""
    for shelf in shelves(location, uuid):
        for path in shelf.names(first):
            yield shelf, path


def findings(location: str, state: State, read: Callable[[], Sequence[Entry]]) -> list[Finding]:
    """What an audit says about spills: those that wait, and those that can never be taken up."""
    found = []
    for shelf, path in waiting(location, state.uuid, state.grants):
        try:
            spill = read_spill(shelf.read(path))
            if not is_taken_up(spill, state, read):
                check_spill(spill, state)
                found.append(Finding(RULE, -1, f"{path}: releases of {spill.grant} wait there; "
                                               "open the ledger for writing to take them up"))
        except SpillRefused as refused:
            found.append(Finding(RULE, -1, f"{path}: {refused}"))
    return found


def is_taken_up(spill: Spill, state: State, read: Callable[[], Sequence[Entry]]) -> bool:
    """Whether the history says already what the spill says: somebody was killed in between."""
    grant = state.grants.get(spill.grant)
    over = state.knows(spill.grant) and (grant is None or grant.status in ("settled", "aborted"))
    return (spill.ledger == state.uuid and over and state.position < _COMPARED
            and same_lines(read(), spill.grant, spill.lines))
