"""A store in memory: for tests, and for a fit that brings its own ledger."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from privledger.errors import LedgerCorrupt, LedgerError
from privledger.ledger.entries import Entry


class MemoryStore:
    """One list under one lock. Nothing survives the process."""

    location = ":memory:"

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._vectors: dict[str, bytes] = {}
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def read(self, after: int = -1) -> list[Entry]:
        return self._entries[after + 1 :]

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

    def close(self) -> None:
        return None


class _MemoryTransaction:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.entries: list[Entry] = []
        self.vectors: dict[str, bytes] = {}

    def read(self, after: int) -> list[Entry]:
        return self._store.read(after)

    def append(self, entry: Entry) -> None:
        if entry.position != len(self._store.read()) + len(self.entries):
            raise LedgerCorrupt("an entry out of order")
        self.entries.append(entry)

    def put_vector(self, name: str, data: bytes) -> None:
        self.vectors[name] = data
