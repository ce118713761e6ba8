"""What a store must do: durable, ordered, one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import Entry

Row: TypeAlias = tuple[int, str, str, str, str]
"""Position, kind, text of the body, hash before, hash."""


class Transaction(Protocol):
    """Open while the write lock is held. Leaving normally makes everything durable at once."""

    def read(self, after: int) -> list[Entry]:
        """Entries with a position above `after`, in order."""

    def append(self, entry: Entry) -> None:
        """Add one entry; its position must follow the last."""

    def put_vector(self, name: str, data: bytes) -> None:
        """Keep a per-record vector under `name`."""

    def last_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that is kept now, if any."""

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        """Keep a checkpoint in place of the last, and add to the names (or begin them anew)."""


class Store(Protocol):
    """A place for one history."""

    location: str

    def read(self, after: int = -1) -> list[Entry]:
        """Entries with a position above `after`, in order, without taking the write lock."""

    def rows(self) -> Iterator[Row]:
        """Every entry in order as it is stored, unparsed: for audits."""

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        """The checkpoint and all its names, or None."""

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Take the write lock. An exception inside leaves no trace."""

    def close(self) -> None:
        """Let go of the file."""
