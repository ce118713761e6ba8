"""One SQLite file, one writer at a time, every commit on disk before it is believed.

WAL with synchronous=FULL: a commit is fsynced. BEGIN IMMEDIATE takes the write lock before
anything is read, so two processes cannot both decide on the same total.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerMissing, LedgerTooNew
from privledger.graph import canonical
from privledger.ledger.entries import FORMAT, Entry
from privledger.storage.rows import entries_of

APPLICATION_ID = 0x70726C67  # "prlg"
BUSY_SECONDS = 60.0

_TABLES = """
CREATE TABLE entries (
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE TABLE vectors (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
"""


# A damaged file can make SQLite quote bytes that are no text.
_FAILURES = (sqlite3.Error, UnicodeDecodeError)


def _translate(error: Exception, location: str) -> LedgerError:
    text = str(error).lower()
    if "locked" in text or "busy" in text:
        return LedgerBusy(f"{location}: another process held the write lock for too long; "
                          "nothing was granted")
    if "full" in text:
        return LedgerError(f"{location}: the disk is full; nothing was granted or read")
    if "readonly" in text or "unable to open" in text or "i/o" in text:
        return LedgerError(f"{location}: the file cannot be used ({error}); nothing was granted")
    return LedgerCorrupt(f"{location}: not a ledger, or damaged ({error})")


def _key(name: str) -> str:
    """Lone surrogates are no text for SQLite: such a name is kept in its escaped form."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return canonical(name)
    return name


class SQLiteStore:
    """The embedded default."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False,
                 read_only: bool = False) -> None:
        self.location = str(path)
        self._read_only = read_only
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        if create and Path(path).exists():
            raise LedgerError(f"{self.location} exists already; open it, or choose another name")
        if not create and not Path(path).is_file():
            raise LedgerMissing(f"{self.location} does not exist")
        try:
            if create:
                self._create()
            self._check_header()
        except _FAILURES as error:
            self.close()
            raise _translate(error, self.location) from None

    def _uri(self) -> str:
        """How SQLite is to open the file; a folder that cannot be written still can be read."""
        base = Path(self.location).absolute()
        if not self._read_only:
            return base.as_uri() + "?mode=rwc"
        if os.access(base.parent, os.W_OK) or Path(f"{base}-wal").exists():
            return base.as_uri() + "?mode=ro"
        return base.as_uri() + "?mode=ro&immutable=1"  # no writer can be there

    def _connect(self) -> sqlite3.Connection:
        # A connection must not cross a fork: the child opens its own.
        if self._connection is None or self._pid != os.getpid():
            connection = sqlite3.connect(self._uri(), uri=True, timeout=BUSY_SECONDS,
                                         isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA synchronous=FULL")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    def _create(self) -> None:
        connection = self._connect()
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id={APPLICATION_ID};"
            f"PRAGMA user_version={FORMAT}; {_TABLES} COMMIT;"
        )

    def _check_header(self) -> None:
        connection = self._connect()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise LedgerCorrupt(f"{self.location}: not a ledger")
        if version > FORMAT:
            raise LedgerTooNew(
                f"{self.location}: written in format {version}, this version reads up to {FORMAT}"
            )

    def read(self, after: int = -1) -> list[Entry]:
        with self._lock:
            try:
                return self._select(after)
            except _FAILURES as error:
                raise _translate(error, self.location) from None

    def _select(self, after: int) -> list[Entry]:
        rows = self._connect().execute(
            "SELECT position, kind, body, previous, hash FROM entries "
            "WHERE position > ? ORDER BY position", (after,)
        ).fetchall()
        return entries_of(rows, self.location)

    def vector(self, name: str) -> bytes | None:
        with self._lock:
            try:
                row = self._connect().execute(
                    "SELECT data FROM vectors WHERE name = ?", (_key(name),)).fetchone()
            except _FAILURES as error:
                raise _translate(error, self.location) from None
        return bytes(row[0]) if row else None

    @contextmanager
    def transaction(self) -> Iterator[_SQLiteTransaction]:
        with self._lock:
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield _SQLiteTransaction(self, connection)
                connection.execute("COMMIT")
            except _FAILURES as error:
                raise _translate(error, self.location) from None
            finally:
                if connection.in_transaction:
                    connection.rollback()

    def close(self) -> None:
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None


class _SQLiteTransaction:
    def __init__(self, store: SQLiteStore, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection = connection
        (last,) = connection.execute("SELECT coalesce(max(position), -1) FROM entries").fetchone()
        self._next = int(last) + 1

    def read(self, after: int) -> list[Entry]:
        return self._store._select(after)

    def append(self, entry: Entry) -> None:
        if entry.position != self._next:
            raise LedgerCorrupt(f"{self._store.location}: an entry out of order")
        self._next += 1
        self._connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
            (entry.position, entry.kind, canonical(entry.body), entry.previous, entry.hash),
        )

    def put_vector(self, name: str, data: bytes) -> None:
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (_key(name), data))
