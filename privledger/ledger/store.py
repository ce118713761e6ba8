"""What a store must do: durable, ordered, one writer at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Protocol, TypeAlias

from attrs import frozen

from privledger.errors import LedgerCorrupt, LedgerError
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.codec import decode
from privledger.ledger.entries import GENESIS, Entry, body_text, parse_body
from privledger.ledger.events import EVENTS

Row: TypeAlias = tuple[int, str, str, str, str]
"""Position, kind, text of the body, hash before, hash."""


class Look(Protocol):
    """Takes the number of an entry, and the hashes of it and of some behind it."""

    def __call__(self, index: int, *digests: str) -> None: ...

PLACE = "place-is-as-written"
"""The rule of findings about the place itself, whatever the history says."""


class Denied(LedgerError):
    """The place does not take an entry from this process. Nothing of the transaction was kept."""


class Transaction(Protocol):
    """Open while the write lock is held. Leaving normally makes everything durable at once."""

    def read(self, after: int) -> list[Entry]:
        """Entries with a position above `after`, in order."""

    def append(self, entry: Entry) -> None:
        """Add one entry; its position must follow the last."""

    def rows(self, after: int) -> list[Row]:
        """What is stored above `after`, in order, as it is stored: also what was just appended."""

    def digest(self, position: int) -> str | None:
        """The hash that is stored at `position`, or None."""

    def put_vector(self, name: str, data: bytes) -> None:
        """Keep a per-record vector under `name`."""

    def vector(self, name: str) -> bytes | None:
        """What is stored under `name`: also what was just put there."""

    def last_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that is kept now, if any."""

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        """Keep a checkpoint in place of the last, and add to the names (or begin them anew)."""


class Store(Protocol):
    """A place for one history."""

    location: str

    def read(self, after: int = -1) -> list[Entry]:
        """Entries with a position above `after`, in order, without taking the write lock."""

    def rows(self, after: int = -1) -> Iterator[Row]:
        """Entries behind `after` in order as they are stored, unparsed: for audits.

        The text of a body is empty where it is larger than `limits.MOST_BODY`: it is not fetched.
        """

    def columns(self, first: int, count: int) -> list[bytes] | None:
        """Positions, kinds, bodies, hashes before and hashes of so many entries, each as texts with
        line feeds between them; None where these are not all there, are no texts, or are long."""

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        """The checkpoint and all its names, or None; None if larger than `MOST_CHECKPOINT`."""

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None; empty if larger than `limits.MOST_PACKED`."""

    def markable(self, grants: Iterable[str]) -> set[str]:
        """Those of the grants, whose holders seem to be gone, that may be marked as crashed."""

    def ended(self, places: Iterable[str]) -> set[str]:
        """Those of the places in line that are over, as far as the store knows of itself."""

    def inspect(self) -> list[Finding]:
        """What is wrong with the place itself, under the rule `PLACE`: things in it that
        privledger did not put there or that are missing, other names, other files."""

    def secret(self, grant: str) -> str:
        """What settles a grant of this process from another one; empty where nothing is asked."""

    def hold(self, grant: str, secret: str) -> None:
        """Take over a grant that another process left, with what `secret` gave there."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Take the write lock. An exception inside leaves no trace.

        Raises:
            LedgerError: also if the place is not as it was written; nothing was read then.
        """

    def close(self) -> None:
        """Let go of the file."""


@frozen
class StoredRows:
    """The rows of a store behind `after`. Their number is looked for where progress is shown."""

    store: Store
    after: int = -1

    def __iter__(self) -> Iterator[Row]:
        return iter(self.store.rows(self.after))

    def __len__(self) -> int:
        most = 1
        while self._has(most):
            most *= 2
        return bisect_left(range(most), True, key=lambda count: not self._has(count))

    def _has(self, place: int) -> bool:
        return next(iter(self.store.rows(after=self.after + place)), None) is not None


# What a store gives back inside a transaction: nothing counts as written before it was read.
#
# A store can lose or change a charge as it is written: by a trigger in its file, a broken disk, a
# bug. So everything is read again before the commit, and compared with what was meant.

def check_head(transaction: Transaction, position: int, head: str, location: str) -> None:
    """That the history still holds the last entry that this process knows.

    Raises:
        LedgerCorrupt: it was cut, or it is another history.
    """
    if position >= 0 and transaction.digest(position) != head:
        raise LedgerCorrupt(f"{location}: entry {position} has changed since it was read")


def read_back(transaction: Transaction, entries: Sequence[Entry],
              location: str) -> dict[int, Entry]:
    """The entries that were appended, from the store, by their positions.

    Raises:
        LedgerCorrupt: it holds anything else there. The transaction must not be kept.
    """
    if not entries:
        return {}
    first = entries[0]
    check_head(transaction, first.position - 1, first.previous, location)
    rows = transaction.rows(first.position - 1)
    if rows != [_row(entry) for entry in entries]:
        raise LedgerCorrupt(f"{location}: a written entry does not read back")
    return {position: Entry(position, decode(kind, parse_body(text)), previous, digest, text)
            for position, kind, text, previous, digest in rows}


def check_spend_vectors(transaction: Transaction, vectors: Mapping[str, bytes],
                        location: str) -> None:
    """That per-record vectors came back as they were put.

    Raises:
        LedgerCorrupt: they did not.
    """
    for name, data in vectors.items():
        if transaction.vector(name) != data:
            raise LedgerCorrupt(f"{location}: a per-record vector does not read back as it was "
                                "written")


def _row(entry: Entry) -> Row:
    return entry.position, entry.event.kind, body_text(entry), entry.previous, entry.hash


# What is wrong with the stored texts, whatever they mean.

APART = "does not follow the one before"
EDITED = "the text does not match its hash"


class Chain:
    """Goes along with the rows of a history, from the first."""

    def __init__(self) -> None:
        self.previous, self.expected = GENESIS, 0

    def add(self, row: Row) -> tuple[str, ...]:
        """What is wrong with the next row: nothing, `APART`, `EDITED`, or both."""
        position, kind, text, previous, digest = row
        follows = position == self.expected and previous == self.previous
        self.previous, self.expected = digest, self.expected + 1
        try:
            named = f'"{kind}"' if kind in EVENTS else canonical(kind)
            whole = f"{previous}[{position},{named},{text}]".encode("ascii")
            edited = sha256(whole).hexdigest() != digest
        except (ValueError, TypeError):
            edited = True
        return (() if follows else (APART,)) + ((EDITED,) if edited else ())

    def follow(self, rows: Iterable[Row], look: Look | None = None) -> bool:
        """Whether all of some rows come next and are whole: as `add` says of each, but faster.
        After the first that is not, nothing is known.

        Args:
            look: called with number and hash of each.
        """
        previous, expected = self.previous, self.expected
        try:
            for position, kind, text, before, digest in rows:
                if position != expected or before != previous or kind not in EVENTS or sha256(
                        f'{before}[{position},"{kind}",{text}]'.encode("ascii")
                        ).hexdigest() != digest:
                    return False
                if look is not None:
                    look(expected, digest)
                previous, expected = digest, expected + 1
        except (ValueError, TypeError):
            return False
        self.previous, self.expected = previous, expected
        return True
