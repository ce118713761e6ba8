"""Ledgers in a PostgreSQL database: many hosts, one writer at a time for each ledger.

A transaction locks the ledger's row before anything is read, so two clients cannot both decide
on the same total. The row says where the history ends; moving it on is conditional on that.
A commit waits for the disk, whatever the server's default for it is.

Clients have no right to write tables. They call functions (migrations/0002_functions.sql and
0003_waiting.sql) that check each entry, and ask for a grant's secret before they believe what
became of it. The tables and functions themselves are compared with what the migrations make, in
every transaction.
"""

from __future__ import annotations

import os
import re
import secrets
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

from privledger.errors import LedgerCorrupt, LedgerError, LedgerMissing, LedgerTooNew
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import FORMAT, GENESIS, Entry, body_text, entries_of
from privledger.ledger.events import (
    Corrected,
    Crashed,
    Created,
    FilterFixed,
    Granted,
    Released,
    Settled,
)
from privledger.ledger.store import Row
from privledger.mutex import Mutex
from privledger.storage import catalog
from privledger.storage import postgres_sql as sql
from privledger.storage.address import parse_address
from privledger.storage.migrate import allow, check_version, migrate
from privledger.storage.place import never_close
from privledger.storage.postgres_sql import Connection, driver, explain_failure

MOST_HELD = 100_000
"""Grants that are remembered; settled ones are for corrections only, the oldest go first."""

_GIVEN = (Released, Settled, Crashed, Corrected)


class Held:
    """Secrets of the grants that this process holds, by grant: who has one may say what became of
    it.

    A database that many clients write cannot tell them apart by what they send. So a client
    makes a secret when it reserves, and leaves only its digest there; releases, settlements and
    refunds come with it. It is kept in memory, and nowhere else: a grant whose holder died keeps
    its whole charge.
    """

    def __init__(self) -> None:
        self._secrets: OrderedDict[str, bytes] = OrderedDict()

    def proof(self, entry: Entry) -> bytes | None:
        """What the database asks for beside an entry: the digest for a grant that begins, the
        secret for one that goes on, None where nothing is asked or known."""
        name = getattr(entry.event, "grant", None)
        if not isinstance(name, str):
            return None
        if isinstance(entry.event, Granted):
            if name not in self._secrets:
                self._secrets[name] = secrets.token_bytes(32)
                if len(self._secrets) > MOST_HELD:
                    self._secrets.popitem(last=False)
            return sha256(self._secrets[name]).digest()
        return self._secrets.get(name) if isinstance(entry.event, _GIVEN) else None

    def secret(self, grant: str) -> str:
        """For a process that must settle later; empty if it is not known.
        Keep it as safe as that."""
        return self._secrets.get(grant, b"").hex()

    def take(self, grant: str, secret: str) -> None:
        """Hold a grant that another process left."""
        if grant not in self._secrets and re.fullmatch("[0-9a-f]{64}", secret):
            self._secrets[grant] = bytes.fromhex(secret)

    def __repr__(self) -> str:
        return f"Held({len(self._secrets)} grants)"


T = TypeVar("T")

BUSY_SECONDS = 60.0
ROWS = 5000
IDLE_SECONDS = 600.0
"""A client that hangs while it holds the lock is thrown out by the server after this long."""

# The name of a ledger has no quotes (address.py), so that all of this is one round trip.
_LOCK = "SELECT * FROM privledger.lock('{}'); EXECUTE " + catalog.LOOK
_NEW = "SELECT privledger.begin('{}', {}); EXECUTE " + catalog.LOOK


class PostgresStore:
    """One ledger of a database."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store cannot be pickled: it knows a password, and holds a connection")

    def __init__(self, url: object, *, create: bool = False, read_only: bool = False) -> None:
        self._address = parse_address(url)
        self.location = self._address.location
        self._read_only = read_only
        this = weakref.ref(self)
        self._lock = Mutex(lambda: _end_what_was_left(this()))
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._id: int | None = None
        self._owns = create
        self._looked: object = None  # what the place was when it was last compared in full
        self.held = Held()
        try:
            with self._translated():
                self._open(create)
        except BaseException:
            self.close()
            raise

    def _open(self, create: bool) -> None:
        connection = self._connect()
        if not self._read_only:
            sql.check_durable(connection, self.location)
            migrate(connection, self.location, BUSY_SECONDS, create=create)
        check_version(connection, self.location)
        self._check_place(connection)
        row = connection.execute(sql.ENDS, (self._address.ledger,)).fetchone()
        if row is None:
            if not create:
                raise LedgerMissing(f"{self.location} does not exist")
            return
        if create:
            raise self._taken()
        number, format_, whole, self._owns = row
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

    def _check_place(self, connection: Connection) -> None:
        """Raise if what is there is not what the migrations make.

        A reader goes on, so that an auditor sees every finding, unless tables are no tables.
        """
        found = catalog.strange(connection)
        if self._read_only:
            found = [one for one in found if catalog.unreadable(one)]
        if found:
            raise LedgerCorrupt(f"{self.location}: the tables or functions are not as they were "
                                f"made: {'; '.join(one.message for one in found[:3])}; nothing "
                                "was granted")

    def _check_unchanged(self, connection: Connection, look: object) -> None:
        """As `_check_place`, at the price of one look while nothing changes."""
        if look != self._looked:
            check_version(connection, self.location)
            catalog.prepare_catalog(connection, again=True)
            look = catalog.look(connection)  # before the comparison: what comes after it differs
            self._check_place(connection)
            self._looked = look

    def inspect(self) -> list[Finding]:
        """What is wrong with the schema itself: planted, missing or changed objects and rights."""
        with self._lock, self._translated():
            return self._outside(lambda connection: [
                *catalog.strange(connection), *catalog.too_many_rights(connection)])

    def markable(self, grants: Iterable[str]) -> set[str]:
        """Those of the grants that this client may mark as crashed."""
        return set(grants) if self._owns else self.ended(grants)

    def ended(self, places: Iterable[str]) -> set[str]:
        """Those whose session the server no longer has, or whose time is over by its clock."""
        with self._lock, self._translated():
            rows = self._outside(lambda connection: connection.execute(
                "SELECT * FROM privledger.markable(%s, %s::text[])",
                (self._id, list(places))).fetchall())
        return {name for (name,) in rows}

    def secret(self, grant: str) -> str:
        """What settles a grant of this process from another one; see `Store.secret`."""
        return self.held.secret(grant)

    def hold(self, grant: str, secret: str) -> None:
        """Take over a grant with the secret that its process had; see `Store.hold`."""
        self.held.take(grant, secret)

    def _taken(self) -> LedgerError:
        return LedgerError(f"{self.location} exists already; open it, or choose another name")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Whatever the driver raises leaves as one of our errors, without a password."""
        errors = driver()
        try:
            yield
        except (errors.Error, UnicodeError) as error:
            raise explain_failure(error, self._address) from None

    def _forget_inherited(self) -> None:
        """A connection must not cross a fork: the child opens its own, and never closes this."""
        if self._pid != os.getpid():
            if self._connection is not None:
                never_close(self._connection)
            self._connection, self._pid = None, os.getpid()

    def _connect(self) -> Connection:
        self._forget_inherited()
        if self._connection is None or self._connection.closed:
            self._connection = sql.connected(self._address.parameters)
            catalog.prepare_catalog(self._connection)
            self._looked = None
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
        """Entries behind `after`, in order, without the lock; see `Store.read`."""
        with self._lock, self._translated():
            return self._outside(lambda connection: self._select(connection, after))

    def _select(self, connection: Connection, after: int) -> list[Entry]:
        if self._id is None:
            return []
        rows = connection.execute(sql.READ, (self._id, after)).fetchall()
        return entries_of(rows, self.location)

    def rows(self, after: int = -1) -> Iterator[Row]:
        """Entries behind `after`, a batch at a time, the lock free in between; see `Store.rows`."""
        while self._id is not None:
            with self._lock, self._translated():
                found = self._outside(lambda connection, after=after: connection.execute(  # type: ignore[misc]
                    sql.READ + " LIMIT %s", (self._id, after, ROWS)).fetchall())
            if not found:
                return
            yield from found
            after = found[-1][0]

    def columns(self, first: int, count: int) -> list[bytes] | None:
        """None: read them as rows."""
        return None

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        """None: not kept here; a history is folded from its first entry."""
        return None  # not kept here yet

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None; see `Store.vector`."""
        if self._id is None:
            return None
        number = self._id
        with self._lock, self._translated():
            return self._outside(lambda connection: sql.vector_of(connection, number, name))

    @contextmanager
    def transaction(self) -> Iterator[_PostgresTransaction]:
        """Lock the ledger's row in one serial transaction; see `Store.transaction`."""
        if self._read_only:
            raise LedgerError(f"{self.location} was opened to be read")
        with self._lock, self._translated():
            try:
                connection, (row, look) = self._outside(self._begin)
                self._check_unchanged(connection, look)
                transaction = _PostgresTransaction(self, connection, row)
                yield transaction
                transaction.write()
                self._commit(connection, transaction)
            finally:
                if self._connection is not None:
                    sql.leave(self._connection)

    def _begin(self, connection: Connection) -> tuple[Connection, list[Any]]:
        """Begin, take the lock, and look at the place: one round trip.

        A ledger that is made here appears together with its first entry.
        """
        if connection.info.transaction_status:
            raise LedgerError(f"{self.location}: a transaction inside another one")
        name = self._address.ledger
        return connection, sql.answers(connection.execute((
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; "
            f"SET LOCAL lock_timeout = {int(1000 * BUSY_SECONDS)}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(1000 * IDLE_SECONDS)}; "
            + (_NEW.format(name, FORMAT) if self._id is None else _LOCK.format(name))
        ).encode("ascii")))

    def _commit(self, connection: Connection, transaction: _PostgresTransaction) -> None:
        try:
            done = connection.execute("COMMIT").statusmessage
        except driver().OperationalError:
            if not connection.closed or not self._was_kept(transaction):
                raise
            done = "COMMIT"
        if done != "COMMIT":
            raise LedgerError(f"{self.location}: the database rolled back")
        self._id = transaction.ledger

    def _was_kept(self, transaction: _PostgresTransaction) -> bool:
        """The connection died between COMMIT and its answer: ask whether it arrived.

        The lock waits until the lost transaction has ended, one way or the other.
        """
        if not transaction.entries:
            return False
        connection = self._connect()
        try:
            self._begin(connection)
            last = transaction.entries[-1]
            return connection.execute(
                "SELECT 1 FROM privledger.entries WHERE ledger = %s AND position = %s "
                "AND hash = %s", (transaction.ledger, last.position, last.hash),
            ).fetchone() is not None
        finally:
            sql.leave(connection)

    def close(self) -> None:
        """Give the connection back, but not one that a parent process still uses."""
        self._forget_inherited()
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _end_what_was_left(store: PostgresStore | None) -> None:
    """The connection of an interrupted transaction is not used again; the server rolls back."""
    connection = None if store is None or store._pid != os.getpid() else store._connection
    if connection is not None and not connection.closed and connection.info.transaction_status:
        connection.close()


class _PostgresTransaction:
    """Holds the lock. What is appended is sent in one go, before it is read back or kept."""

    def __init__(self, store: PostgresStore, connection: Connection, row: Any) -> None:
        self._store, self._connection = store, connection
        self.entries: list[Entry] = []
        self._sent = 0
        self._vectors: list[tuple[str, bytes]] = []
        self.ledger, self._position, self._head = self._where(row)
        self._seen = self._head

    def _where(self, row: Any) -> tuple[int, int, str]:
        """The ledger's number, and where its history ends."""
        store = self._store
        if store._id is None:
            if row is None:
                raise store._taken()
            return row, -1, GENESIS
        if row is None or row[0] != store._id:
            raise LedgerCorrupt(f"{store.location}: the ledger was removed from the database")
        ledger, format_, position, head, last_position, last_hash, folded = row
        store._check_format(format_)
        if (-1 if last_position is None else last_position, last_hash or GENESIS) != (
                position, head):
            raise store._cut()
        if folded != position:
            raise LedgerCorrupt(f"{store.location}: the totals are not those of the history; the "
                                "owner of the tables calls "
                                f"privledger.repair('{store._address.ledger}')")
        return ledger, position, head

    def read(self, after: int) -> list[Entry]:
        self._send()
        if after >= self._position:
            return []
        return entries_of(self._connection.execute(sql.READ, (self.ledger, after)).fetchall(),
                          self._store.location)

    def rows(self, after: int) -> list[Row]:
        """From the database, also what was just appended."""
        self._send()
        return self._connection.execute(sql.READ, (self.ledger, after)).fetchall()

    def digest(self, position: int) -> str | None:
        if (position, self._head) == (self._position, self._seen):
            return self._head  # read with the lock
        row = self._connection.execute(sql.DIGEST, (self.ledger, position)).fetchone()
        return None if row is None else str(row[0])

    def vector(self, name: str) -> bytes | None:
        self.write()
        return sql.vector_of(self._connection, self.ledger, name)

    def append(self, entry: Entry) -> None:
        if entry.position != self._position + len(self.entries) - self._sent + 1:
            raise LedgerCorrupt(f"{self._store.location}: an entry out of order")
        self.entries.append(entry)

    def put_vector(self, name: str, data: bytes) -> None:
        self._vectors.append((name, data))

    def last_checkpoint(self) -> Checkpoint | None:
        return None

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        return None

    def write(self) -> None:
        """Send what was appended, and the vectors that it names."""
        self._send()
        if self._vectors:
            self._connection.execute(
                sql.STORE if self._store._owns else sql.KEEP,
                (self.ledger, [canonical(name) for name, _ in self._vectors],
                 [data for _, data in self._vectors]))
            self._vectors = []

    def _send(self) -> None:
        """Bring new entries to the database, which moves the head if it is where it was."""
        fresh = self.entries[self._sent:]
        if not fresh:
            return
        store = self._store
        first = fresh[0].event
        if isinstance(first, Created):
            fixed = next((one.event for one in fresh if isinstance(one.event, FilterFixed)), None)
            allow(self._connection, self.ledger, first, fixed)
        self._connection.execute(
            sql.WRITE if store._owns else sql.APPEND,
            (self.ledger, self._position, self._head, [one.event.kind for one in fresh],
             [body_text(one) for one in fresh], [one.hash for one in fresh],
             [store.held.proof(one) for one in fresh]))
        self._sent = len(self.entries)
        self._position, self._head = fresh[-1].position, fresh[-1].hash
