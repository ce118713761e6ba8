"""Ledgers in a PostgreSQL database: many hosts, one writer at a time for each ledger.

A transaction locks the ledger's row before anything is read, so two clients cannot both decide
on the same total. The row says where the history ends; moving it on is conditional on that.
A commit waits for the disk, whatever the server's default for it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerMissing, LedgerTooNew
from privledger.graph import canonical
from privledger.ledger.entries import FORMAT, GENESIS, Entry
from privledger.storage.address import parse_address
from privledger.storage.migrate import check_version, migrate
from privledger.storage.postgres_errors import driver, explain
from privledger.storage.rows import entries_of

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

BUSY_SECONDS = 60.0
IDLE_SECONDS = 600.0
"""A client that hangs while it holds the lock is thrown out by the server after this long."""

_LOCK = "SELECT id, format, position, head FROM privledger.ledgers WHERE name = %s FOR UPDATE"
_ENDS = ("SELECT l.id, l.format, l.position = coalesce(e.position, -1) AND l.head = "
         "coalesce(e.hash, l.head) FROM privledger.ledgers l LEFT JOIN LATERAL "
         "(SELECT position, hash FROM privledger.entries WHERE ledger = l.id "
         "ORDER BY position DESC LIMIT 1) e ON true WHERE l.name = %s")
_LAST = ("SELECT position, hash FROM privledger.entries WHERE ledger = %s "
         "ORDER BY position DESC LIMIT 1")
_READ = ("SELECT position, kind, body, previous, hash FROM privledger.entries "
         "WHERE ledger = %s AND position > %s ORDER BY position")
_NEW = ("INSERT INTO privledger.ledgers (name, format, position, head) VALUES (%s, %s, -1, %s) "
        "ON CONFLICT DO NOTHING RETURNING id")
_ADD = ("INSERT INTO privledger.entries (ledger, position, kind, body, previous, hash) "
        "VALUES (%s, %s, %s, %s, %s, %s)")
_KEEP = "INSERT INTO privledger.vectors (ledger, name, data) VALUES (%s, %s, %s)"
_MOVE = ("UPDATE privledger.ledgers SET position = %s, head = %s "
         "WHERE id = %s AND position = %s AND head = %s")

_inherited: list[object] = []  # a parent's connections: closing one would close the parent's


class PostgresStore:
    """One ledger of a database."""

    def __init__(self, url: object, *, create: bool = False, read_only: bool = False) -> None:
        self._address = parse_address(url)
        self.location = self._address.location
        self._read_only = read_only
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._id: int | None = None
        try:
            with self._translated():
                self._open(create)
        except BaseException:
            self.close()
            raise

    def _open(self, create: bool) -> None:
        connection = self._connect()
        if not self._read_only:
            _check_durable(connection, self.location)
            migrate(connection, self.location, BUSY_SECONDS, create=create)
        check_version(connection, self.location)
        row = connection.execute(_ENDS, (self._address.ledger,)).fetchone()
        if row is None:
            if not create:
                raise LedgerMissing(f"{self.location} does not exist")
            return
        if create:
            raise self._taken()
        number, format_, whole = row
        self._check_format(format_)
        if not whole:
            raise self._cut()
        self._id = number

    def _check_format(self, found: int) -> None:
        if found > FORMAT:
            raise LedgerTooNew(f"{self.location}: written in format {found}, this version reads "
                               f"up to {FORMAT}")

    def _cut(self) -> LedgerError:
        return LedgerCorrupt(f"{self.location}: the history does not end where the ledger says "
                             "it does")

    def _taken(self) -> LedgerError:
        return LedgerError(f"{self.location} exists already; open it, or choose another name")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Whatever the driver raises leaves as one of our errors, without a password."""
        errors = driver()
        try:
            yield
        except (errors.Error, UnicodeError) as error:
            raise explain(error, self._address) from None

    def _forget_inherited(self) -> None:
        """A connection must not cross a fork: the child opens its own, and never closes this."""
        if self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection, self._pid = None, os.getpid()

    def _connect(self) -> Connection:
        self._forget_inherited()
        if self._connection is None or self._connection.closed:
            options: dict[str, Any] = {
                "connect_timeout": "10", "fallback_application_name": "privledger",
                **self._address.parameters, "client_encoding": "UTF8"}
            self._connection = driver().connect(**options, autocommit=True,
                                                prepare_threshold=None)
        return self._connection

    def _outside(self, work: Callable[[Connection], T]) -> T:
        """Do what needs no transaction; once more if the connection was lost since its last use."""
        self._forget_inherited()
        held, connection = self._connection, self._connect()
        try:
            return work(connection)
        except driver().OperationalError:
            if connection is not held or not connection.closed:
                raise
        return work(self._connect())

    def read(self, after: int = -1) -> list[Entry]:
        with self._lock, self._translated():
            return self._outside(lambda connection: self._select(connection, after))

    def _select(self, connection: Connection, after: int) -> list[Entry]:
        if self._id is None:
            return []
        rows = connection.execute(_READ, (self._id, after)).fetchall()
        return entries_of(rows, self.location)

    def vector(self, name: str) -> bytes | None:
        if self._id is None:
            return None
        with self._lock, self._translated():
            row = self._outside(lambda connection: connection.execute(
                "SELECT data FROM privledger.vectors WHERE ledger = %s AND name = %s",
                (self._id, canonical(name)), binary=True).fetchone())
        return bytes(row[0]) if row else None

    @contextmanager
    def transaction(self) -> Iterator[_PostgresTransaction]:
        if self._read_only:
            raise LedgerError(f"{self.location} was opened to be read; nothing was granted")
        with self._lock, self._translated():
            connection = self._outside(self._begin)
            try:
                transaction = _PostgresTransaction(self, connection)
                yield transaction
                transaction.write()
                self._commit(connection, transaction)
            finally:
                _leave(connection)

    def _begin(self, connection: Connection) -> Connection:
        if connection.info.transaction_status:
            raise LedgerError(f"{self.location}: a transaction inside another one")
        # One round trip for all that needs no answer.
        connection.execute(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; "
            f"SET LOCAL lock_timeout = {int(1000 * BUSY_SECONDS)}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(1000 * IDLE_SECONDS)}")
        return connection

    def _commit(self, connection: Connection, transaction: _PostgresTransaction) -> None:
        try:
            done = connection.execute("COMMIT").statusmessage
        except driver().OperationalError:
            if not connection.closed or not self._was_kept(transaction):
                raise
            done = "COMMIT"
        if done != "COMMIT":
            raise LedgerError(f"{self.location}: the database rolled back; nothing was granted")
        self._id = transaction.ledger

    def _was_kept(self, transaction: _PostgresTransaction) -> bool:
        """The connection died between COMMIT and its answer: ask whether it arrived.

        The lock waits until the lost transaction has ended, one way or the other.
        """
        if not transaction.entries:
            return False
        connection = self._begin(self._connect())
        try:
            connection.execute(_LOCK, (self._address.ledger,))
            last = transaction.entries[-1]
            return connection.execute(
                "SELECT 1 FROM privledger.entries WHERE ledger = %s AND position = %s "
                "AND hash = %s", (transaction.ledger, last.position, last.hash),
            ).fetchone() is not None
        finally:
            _leave(connection)

    def close(self) -> None:
        self._forget_inherited()
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _check_durable(connection: Connection, location: str) -> None:
    if connection.execute("SHOW fsync").fetchone() != ("on",):
        raise LedgerError(f"{location}: the server runs with fsync = off, and would forget grants "
                          "when the power fails; it can be read only")


def _leave(connection: Connection) -> None:
    """Leave no transaction open, whatever happened to it."""
    if connection.closed or not connection.info.transaction_status:
        return
    try:
        connection.execute("ROLLBACK")
    except driver().Error:
        connection.close()  # the server rolls back what a lost client began


class _PostgresTransaction:
    """Holds the lock. What is appended is sent at the end, in one go."""

    def __init__(self, store: PostgresStore, connection: Connection) -> None:
        self._store, self._connection = store, connection
        self.entries: list[Entry] = []
        self._vectors: list[tuple[str, bytes]] = []
        self.ledger, self._position, self._head = self._lock_row()

    def _lock_row(self) -> tuple[int, int, str]:
        """The ledger's number, and where its history ends."""
        store, name = self._store, self._store._address.ledger
        if store._id is None:  # made here: a ledger appears together with its first entry
            made = self._connection.execute(_NEW, (name, FORMAT, GENESIS)).fetchone()
            if made is None:
                raise store._taken()
            return made[0], -1, GENESIS
        row = self._connection.execute(_LOCK, (name,)).fetchone()
        if row is None or row[0] != store._id:
            raise LedgerCorrupt(f"{store.location}: the ledger was removed from the database")
        ledger, format_, position, head = row
        store._check_format(format_)
        last = self._connection.execute(_LAST, (ledger,)).fetchone() or (-1, GENESIS)
        if last != (position, head):
            raise store._cut()
        return ledger, position, head

    def read(self, after: int) -> list[Entry]:
        return self._store._select(self._connection, after)

    def append(self, entry: Entry) -> None:
        if entry.position != self._position + len(self.entries) + 1:
            raise LedgerCorrupt(f"{self._store.location}: an entry out of order")
        self.entries.append(entry)

    def put_vector(self, name: str, data: bytes) -> None:
        self._vectors.append((name, data))

    def write(self) -> None:
        """Send what was appended, and move the head if it is still where it was."""
        with self._connection.cursor() as cursor:
            if self.entries:
                cursor.executemany(_ADD, [
                    (self.ledger, one.position, one.kind, canonical(one.body), one.previous,
                     one.hash) for one in self.entries])
                last = self.entries[-1]
                cursor.execute(_MOVE, (last.position, last.hash, self.ledger, self._position,
                                       self._head))
                if cursor.rowcount != 1:
                    raise LedgerBusy(f"{self._store.location}: somebody wrote without the lock; "
                                     "nothing was granted")
            if self._vectors:
                cursor.executemany(_KEEP, [(self.ledger, canonical(name), data)
                                           for name, data in self._vectors])
