"""What a store must do: durable, ordered, one writer at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from privledger.ledger.entries import Entry


class Transaction(Protocol):
    """Open while the write lock is held. Leaving normally makes everything durable at once."""

    def read(self, after: int) -> list[Entry]:
        """Entries with a position above `after`, in order."""

    def append(self, entry: Entry) -> None:
        """Add one entry; its position must follow the last."""

    def put_vector(self, name: str, data: bytes) -> None:
        """Keep a per-record vector under `name`."""


class Store(Protocol):
    """A place for one history."""

    location: str

    def read(self, after: int = -1) -> list[Entry]:
        """Entries with a position above `after`, in order, without taking the write lock."""

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Take the write lock. An exception inside leaves no trace."""

    def close(self) -> None:
        """Let go of the file."""
