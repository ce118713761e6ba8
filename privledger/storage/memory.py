"""A store in memory: for tests, and for a fit that brings its own ledger."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from privledger.errors import LedgerCorrupt, LedgerError
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import Entry, body_text
from privledger.ledger.store import Row
from privledger.storage.rows import entries_of


class MemoryStore:
    """One list under one lock. Nothing survives the process."""

    location = ":memory:"

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._vectors: dict[str, bytes] = {}
        self._checkpoint: Checkpoint | None = None
        self._names: list[str] = []
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def read(self, after: int = -1) -> list[Entry]:
        # From the text: what is read from here is the reader's own.
        return entries_of(map(_row, self._entries[after + 1 :]), self.location)

    def rows(self) -> Iterator[Row]:
        return map(_row, self._entries[:])

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        return None if self._checkpoint is None else (self._checkpoint, ",".join(self._names))

    def vector(self, name: str) -> bytes | None:
        return self._vectors.get(name)

    @contextmanager
    def transaction(self) -> Iterator[_MemoryTransaction]:
        if os.getpid() != self._pid:
            raise LedgerError("a ledger in memory belongs to the process that made it: a forked "
                              "child would spend the same budget twice")
        with self._lock:
            transaction = _MemoryTransaction(self)
            yield transaction
            self._entries.extend(transaction.entries)
            self._vectors.update(transaction.vectors)
            if transaction.checkpoint is not None:
                checkpoint, names, afresh = transaction.checkpoint
                self._checkpoint = checkpoint
                self._names = ([] if afresh else self._names) + ([names] if names else [])

    def close(self) -> None:
        return None


def _row(entry: Entry) -> Row:
    return entry.position, entry.kind, body_text(entry), entry.previous, entry.hash


class _MemoryTransaction:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.entries: list[Entry] = []
        self.vectors: dict[str, bytes] = {}
        self.checkpoint: tuple[Checkpoint, str, bool] | None = None

    def read(self, after: int) -> list[Entry]:
        return self._store.read(after)

    def append(self, entry: Entry) -> None:
        if entry.position != len(self._store._entries) + len(self.entries):
            raise LedgerCorrupt("an entry out of order")
        self.entries.append(entry)

    def put_vector(self, name: str, data: bytes) -> None:
        self.vectors[name] = data

    def last_checkpoint(self) -> Checkpoint | None:
        return self._store._checkpoint

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        self.checkpoint = checkpoint, names, afresh
