"""A store in memory: for tests, and for a fit that brings its own ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from privledger.errors import LedgerCorrupt, LedgerError
from privledger.findings import Finding
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import Entry, body_text, entries_of
from privledger.ledger.store import Row
from privledger.mutex import Mutex, threads


class Believing:
    """A store that believes all who may write to it, and that is as many as may settle a grant."""

    def columns(self, first: int, count: int) -> list[bytes] | None:
        """None: read them as rows."""
        return None

    def markable(self, grants: Iterable[str]) -> set[str]:
        """All of them: a writer may say that a holder is gone."""
        return set(grants)

    def ended(self, places: Iterable[str]) -> set[str]:
        """None: a reader of the history can see the processes of this host."""
        return set()

    def secret(self, grant: str) -> str:
        """Empty: a writer settles its grants."""
        return ""

    def hold(self, grant: str, secret: str) -> None:
        """Nothing to take over: no secret is asked for."""
        return None


class MemoryStore(Believing):
    """One list under one lock. Nothing survives the process."""

    location = ":memory:"

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._vectors: dict[str, bytes] = {}
        self._checkpoint: Checkpoint | None = None
        self._names: list[str] = []
        self._lock = Mutex()
        self._pid = threads.process()

    def read(self, after: int = -1) -> list[Entry]:
        """Entries behind `after`, parsed anew: the store's own stay here; see `Store.read`."""
        # From the text: what is read from here is the reader's own.
        return entries_of(map(_row, self._entries[after + 1 :]), self.location)

    def rows(self, after: int = -1) -> Iterator[Row]:
        """Entries behind `after` as they are kept; see `Store.rows`."""
        return map(_row, self._entries[after + 1 :])

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        """The last checkpoint and its names, or None; see `Store.checkpoint`."""
        return None if self._checkpoint is None else (self._checkpoint, ",".join(self._names))

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None; see `Store.vector`."""
        return self._vectors.get(name)

    def inspect(self) -> list[Finding]:
        """No finding: there is no place where a stranger could put anything."""
        return []

    @contextmanager
    def transaction(self) -> Iterator[_MemoryTransaction]:
        """One writer at a time; a forked child is refused; see `Store.transaction`."""
        if threads.process() != self._pid:
            raise LedgerError("a ledger in memory belongs to the process that made it: a forked "
                              "child would spend the same budget twice")
        with self._lock:
            transaction = _MemoryTransaction(self)
            yield transaction
            # One step makes it durable; an interrupt around it leaves an unnamed vector, or an
            # old checkpoint.
            self._vectors.update(transaction.vectors)
            self._entries.extend(transaction.entries)
            if transaction.checkpoint is not None:
                checkpoint, names, afresh = transaction.checkpoint
                before = [] if afresh else self._names
                vars(self).update(  # both at once
                    _checkpoint=checkpoint, _names=before + ([names] if names else []))

    def close(self) -> None:
        """Nothing to let go of."""
        return None


def _row(entry: Entry) -> Row:
    return entry.position, entry.event.kind, body_text(entry), entry.previous, entry.hash


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

    def rows(self, after: int) -> list[Row]:
        held = self._store._entries
        return [*map(_row, held[after + 1 :]),
                *map(_row, self.entries[max(0, after + 1 - len(held)) :])]

    def digest(self, position: int) -> str | None:
        held = len(self._store._entries)
        found = (self._store._entries if position < held else self.entries)
        place = position if position < held else position - held
        return found[place].hash if 0 <= place < len(found) else None

    def put_vector(self, name: str, data: bytes) -> None:
        self.vectors[name] = data

    def vector(self, name: str) -> bytes | None:
        return self.vectors.get(name, self._store._vectors.get(name))

    def last_checkpoint(self) -> Checkpoint | None:
        return self._store._checkpoint

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        self.checkpoint = checkpoint, names, afresh
