"""What a store must do: durable, ordered, one writer at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from privledger.errors import LedgerError
from privledger.findings import Finding
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import Entry

Row: TypeAlias = tuple[int, str, str, str, str]
"""Position, kind, text of the body, hash before, hash."""

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
