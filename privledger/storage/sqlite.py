"""One SQLite file, one writer at a time, every commit on disk before it is believed.

WAL with synchronous=FULL: a commit is fsynced. BEGIN IMMEDIATE takes the write lock before
anything is read, so two processes cannot both decide on the same total. Who waits for it asks
again every few moments; SQLite's own way of waiting would ask ever more seldom, and starve.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerMissing, LedgerTooNew
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import FORMAT, Entry, body_text
from privledger.ledger.store import Row
from privledger.storage.rows import entries_of

APPLICATION_ID = 0x70726C67  # "prlg"
BUSY_SECONDS = 60.0
WAIT, LONG_WAIT = 0.001, 0.05  # seconds between two tries, and after which they come faster
ROWS = 5000

_SELECT = ("SELECT position, kind, body, previous, hash FROM entries "
           "WHERE position > ? ORDER BY position")
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


# Made by the first checkpoint; a file without them is as good, and an earlier version does not
# look at them. `closed` has the names of grants that are over, in the order they ended.
_CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "position INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL, seal TEXT NOT NULL) "
    "STRICT",
    "CREATE TABLE IF NOT EXISTS closed (number INTEGER PRIMARY KEY, names TEXT NOT NULL) STRICT",
)


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
        rows = self._connect().execute(_SELECT, (after,)).fetchall()
        return entries_of(rows, self.location)

    def rows(self) -> Iterator[Row]:
        after = -1
        while True:
            with self._lock:
                try:
                    found = self._connect().execute(_SELECT + " LIMIT ?", (after, ROWS)).fetchall()
                except _FAILURES as error:
                    raise _translate(error, self.location) from None
            if not found:
                return
            yield from found
            after = found[-1][0]

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        with self._lock:
            try:
                connection = self._connect()
                connection.execute("BEGIN")  # both tables as of one moment
                try:
                    kept = _last_checkpoint(connection)
                    names = [] if kept is None else connection.execute(
                        "SELECT names FROM closed ORDER BY number").fetchall()
                finally:
                    connection.execute("ROLLBACK")
            except _FAILURES as error:
                raise _translate(error, self.location) from None
        return None if kept is None else (kept, ",".join(row[0] for row in names))

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
                _begin(connection)
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


def _begin(connection: sqlite3.Connection) -> None:
    """Take the write lock, or raise after `BUSY_SECONDS`."""
    start = time.monotonic()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - start
                code = getattr(error, "sqlite_errorcode", 0)
                if code & 0xFF != sqlite3.SQLITE_BUSY or waited > BUSY_SECONDS:
                    raise
            time.sleep(WAIT if waited < LONG_WAIT else WAIT / 4)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")


def _last_checkpoint(connection: sqlite3.Connection) -> Checkpoint | None:
    made = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND "
                              "name IN ('checkpoint', 'closed')").fetchone()
    row = None if made != (2,) else connection.execute(
        "SELECT position, head, state, seal FROM checkpoint").fetchone()
    return None if row is None else Checkpoint(*row)


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
            (entry.position, entry.kind, body_text(entry), entry.previous, entry.hash),
        )

    def put_vector(self, name: str, data: bytes) -> None:
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (_key(name), data))

    def last_checkpoint(self) -> Checkpoint | None:
        return _last_checkpoint(self._connection)

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        for statement in _CHECKPOINTS:
            self._connection.execute(statement)
        if afresh:
            self._connection.execute("DELETE FROM closed")
        if names:
            self._connection.execute("INSERT INTO closed (names) VALUES (?)", (names,))
        self._connection.execute(
            "REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?)",
            (checkpoint.position, checkpoint.head, checkpoint.state, checkpoint.seal))
