"""One SQLite file, one writer at a time, every commit on disk before it is believed.

WAL with synchronous=FULL: a commit is fsynced. BEGIN IMMEDIATE takes the write lock before
anything is read, so two processes cannot both decide on the same total.

Every transaction begins by looking whether the schema is the one that privledger writes, and
whether file, name and log still belong together. So whatever a connection has in mind of the
schema was read in a transaction that found it right. A reader goes on where it safely can, and
says what is wrong with the place (`inspect`); a writer refuses.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from privledger.errors import LedgerCorrupt, LedgerError, LedgerMisplaced, LedgerMissing
from privledger.findings import Finding
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import Entry, body_text, entries_of
from privledger.ledger.events import Corrected, Crashed, ScopeOpened, Settled
from privledger.ledger.store import PLACE, Row
from privledger.mutex import Mutex, delivered
from privledger.reading import kind_of
from privledger.storage.memory import Believing
from privledger.storage.place import Forking, Place, registry
from privledger.storage.sqlite_open import (
    APPLICATION_ID,
    CHECKPOINTS,
    FAILURES,
    IN_USE,
    Objects,
    begin,
    check_header,
    check_log,
    connect,
    differences,
    every_row,
    file_key,
    file_vector,
    finish_making,
    is_readable_format,
    joined_columns,
    last_checkpoint,
    look_at_file,
    make_file,
    names_in,
    next_rows,
    put_file,
    take_back,
    translate,
    unmark,
)

BUSY_SECONDS = 60.0
_OPEN: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
_MARKS = 3  # how often the mark is set alone, before it goes with an entry
_ENDS = (Settled, Crashed, ScopeOpened, Corrected)


class SQLiteStore(Forking, Believing):
    """The embedded default.

    Args:
        first: entries that a new file begins with.
        alone: read a file that was in use although its log is missing, as far as it goes.

    Raises:
        LedgerMissing: there is no file.
        LedgerMisplaced: it may not be used under this name.
        LedgerCorrupt: it is no ledger. A writer also refuses one with anything in its schema
            that privledger did not write.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False,
                 read_only: bool = False, first: Sequence[Entry] = (),
                 alone: bool = False) -> None:
        self.location = str(path)
        self._path = Path(os.path.abspath(path))  # wherever the process goes afterwards
        self._read_only, self._alone = read_only, alone and read_only
        self._begin_here()
        if create:
            make_file(self._path, first)
        if not self._path.exists():
            raise LedgerMissing(f"{self.location} does not exist")
        if not self._path.is_file():
            kind = kind_of(self._path.stat().st_mode)
            raise LedgerCorrupt(f"{self.location} is {kind}, not a file: not a ledger")
        _OPEN.add(self)
        try:
            with self._held():
                self._connect()
        except LedgerError:
            if create:  # no room for its log, say: nothing was promised
                take_back(self._path, first)
            raise

    def _begin_here(self) -> None:
        """Locks of this process: a forked child would inherit them as they happened to be."""
        self._pid = os.getpid()
        this = weakref.ref(self)
        self._lock = Mutex(lambda: _end_what_was_left(this()))
        self._connection: sqlite3.Connection | None = None
        self._place: Place | None = None
        self._known: Objects = []
        self._misplaced = ""  # what was once found wrong with the file stays wrong here

    def _held(self) -> Mutex:
        """The lock of this process. A connection must not cross a fork: the child opens its own,
        and takes what SQLite has in mind of its parent's locks for over."""
        if self._pid != os.getpid():
            self.close_inherited()  # descriptors of the parent's were closed at the fork
        return self._lock

    def close_inherited(self) -> None:
        """Close what a fork left behind; whatever SQLite says of it is no news here."""
        inherited, log = self._connection, Path(f"{self._path}-wal")
        there = log.exists()
        self._begin_here()
        if inherited is not None:
            with suppress(sqlite3.Error):
                inherited.close()
            if there and not log.exists():  # no other process was there: SQLite copied all of it
                with suppress(*FAILURES, OSError):
                    unmark(self._path)

    def _connect(self) -> sqlite3.Connection:
        self.refuse_if_torn(self.location)
        if self._misplaced:
            raise LedgerMisplaced(self._misplaced)
        if self._connection is None:
            with registry():
                try:
                    self._open()
                except BaseException as error:
                    self._let_go()
                    if isinstance(error, FAILURES):
                        raise translate(error, self.location) from None
                    if isinstance(error, OSError):
                        raise LedgerError(f"{self.location}: the file cannot be used "
                                          f"({error.strerror})") from None
                    raise
        assert self._connection is not None
        return self._connection

    def _open(self) -> None:
        writable = not self._read_only
        finish_making(self._path)
        self._place = Place(self._path, writable=writable)
        if not self._alone:
            check_log(self._place.head(), self._place.path, self.location)
        self._connection = connect(self._place.path, writable=writable, seconds=BUSY_SECONDS)
        check_header(self._connection, self.location)
        self._connection.execute("BEGIN")
        self._check(self._connection)
        self._connection.execute("COMMIT")
        if writable:
            mode = self._connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != ("wal",):
                raise LedgerError(f"{self.location}: the file cannot keep a log there (WAL)")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA cache_spill=OFF")  # before a commit nothing is written
        self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
        self._place.settle()

    def _check(self, connection: sqlite3.Connection) -> None:
        """Inside a transaction: the schema is what it must be, or, for a reader, what it is."""
        found = look_at_file(connection)
        if found != self._known:
            faults = differences(found)
            if faults and not self._read_only:
                raise LedgerCorrupt(f"{self.location}: {faults[0]}")
            self._known = found

    def _require(self, name: str) -> None:
        """A reader reads no view and nothing else that only bears the name of a table."""
        if not is_readable_format(self._known, name):
            raise LedgerCorrupt(f"{self.location}: {'; '.join(differences(self._known)[:5])}; "
                                "the history cannot be read")

    def inspect(self) -> list[Finding]:
        """Foreign tables, entries before the first, and what is wrong with the file's place."""
        with self._reading() as connection:
            assert self._place is not None
            found = differences(self._known)
            if is_readable_format(self._known, "entries") and connection.execute(
                    "SELECT 1 FROM entries NOT INDEXED WHERE position < 0 LIMIT 1").fetchone():
                found.append("there are entries before the first, which are never read")
            found += [f"the file {fault}" for fault in self._place.faults()]
        return [Finding(PLACE, -1, text) for text in found]

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """A copy as of one moment, log included, as a file that was closed; by SQLite's own way.

        Raises:
            LedgerError: there is something already, or it cannot be written.
        """
        made = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with self._held():
                self._connect().backup(made)
            made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            content = made.serialize()
        except FAILURES as error:
            raise translate(error, self.location) from None
        finally:
            made.close()
        put_file(Path(os.path.abspath(path)), content)

    @contextmanager
    def _reading(self, *tables: str) -> Iterator[sqlite3.Connection]:
        """One moment of the file, whose schema was looked at, to read `tables`."""
        with self._held():
            connection = self._connect()
            if connection.in_transaction:  # this thread's own: looked at when it began
                yield connection
                return
            try:
                connection.execute("BEGIN")
                self._check(connection)
                for name in tables:
                    self._require(name)
                yield connection
            except FAILURES as error:
                raise translate(error, self.location) from None
            except LedgerCorrupt:
                self._roll_back(connection)
                self._let_go()
                raise
            finally:
                self._roll_back(connection)

    def _roll_back(self, own: sqlite3.Connection | None = None) -> None:
        """End the transaction of `own`; what an interrupt left may be closed, and long replaced."""
        connection = self._connection
        if own is not None and own is not connection:
            return
        if connection is not None and connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.rollback()
            if connection.in_transaction:
                self._let_go()

    def read(self, after: int = -1) -> list[Entry]:
        """Entries behind `after`, in order, as of one moment; see `Store.read`."""
        with self._reading("entries") as connection:
            found = every_row(connection, after, self.location)
        return entries_of(found, self.location)

    def rows(self, after: int = -1) -> Iterator[Row]:
        """Entries behind `after`, a batch at a time, the file free in between; see `Store.rows`."""
        while True:
            with self._reading("entries") as connection:
                found = next_rows(connection, after, self.location)
            if not found:
                return
            yield from found
            after = found[-1][0]

    def columns(self, first: int, count: int) -> list[bytes] | None:
        """Some entries column by column, joined by SQLite itself; see `Store.columns`."""
        with self._reading("entries") as connection:
            return joined_columns(connection, first, count)

    def checkpoint(self) -> tuple[Checkpoint, str] | None:
        """The checkpoint and the names it needs, as of one moment; see `Store.checkpoint`."""
        with self._reading() as connection:  # both tables as of one moment
            kept = last_checkpoint(connection, self._known)
            if kept is None:
                return None
            names = names_in(connection, self.location)
        return None if names is None else (kept, names)

    def vector(self, name: str) -> bytes | None:
        """A per-record vector, or None; see `Store.vector`."""
        with self._reading("vectors") as connection:
            return file_vector(connection, name)

    @contextmanager
    def transaction(self) -> Iterator[_SQLiteTransaction]:
        """Take SQLite's write lock, then look whether the place is as it was left."""
        if self._read_only:
            raise LedgerError(f"{self.location} was opened to be read")
        with self._held():
            connection = self._connect()
            try:
                begin(connection, BUSY_SECONDS)
                if not self._look_around(connection):
                    self._mark(connection)
                made = _SQLiteTransaction(self, connection)
                yield made
                connection.execute("COMMIT")
                self._look_back()
                if made.ended:  # from here on the file alone holds what was settled
                    self._copy(connection)
            except FAILURES as error:
                raise translate(error, self.location) from None
            finally:
                self._roll_back(connection)

    def _mark(self, connection: sqlite3.Connection) -> None:
        """Say in the file itself that entries may be in its log, before one is: a copy of the
        file alone is refused then. Once for every opening, and again if another one closed."""
        for _ in range(_MARKS):
            connection.execute(f"PRAGMA application_id = {IN_USE}")
            connection.execute("COMMIT")
            self._copy(connection)
            begin(connection, BUSY_SECONDS)
            if self._look_around(connection):
                return
        connection.execute(f"PRAGMA application_id = {IN_USE}")  # with the entry itself

    def _copy(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file, as far as readers let it."""
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self._place is not None:
            self._place.notice()

    def _unmark(self) -> bool:
        """Before a clean close: whatever was committed so far reaches the file before this does,
        and the next writer marks the file again. False if it could not be written."""
        connection = self._connection
        if connection is None or self._read_only or connection.in_transaction:
            return True
        try:
            begin(connection, 0.0)
            if check_header(connection, self.location):
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except (*FAILURES, LedgerError):  # a disk that fails; or a process writes, and closes later
            with suppress(sqlite3.Error):
                connection.rollback()
            return False
        return True

    def _look_around(self, connection: sqlite3.Connection) -> bool:
        """Schema and place, and whether the file is marked as in use; after a fault nothing that
        this connection has in mind is used."""
        assert self._place is not None
        try:
            self._place.check()
            marked = check_header(connection, self.location)
            self._check(connection)
        except LedgerError as error:
            if isinstance(error, LedgerMisplaced):
                self._misplaced = str(error)
            self._roll_back()
            self._let_go()
            raise
        return marked

    def _look_back(self) -> None:
        """After a commit: that it went where it will be found again."""
        try:
            if self._place is not None:
                self._place.check_kept()
        except LedgerMisplaced as error:
            self._misplaced = str(error)
            self._let_go()
            raise

    def _let_go(self) -> None:
        """Close what is open. A file that was refused is not touched: it may be another's."""
        log, unmarked = Path(f"{self._path}-wal"), not self._known or self._unmark()
        connection, place = self._connection, self._place
        self._connection = self._place = None
        self._known = []
        with registry():
            if place is not None:
                place.before_closing()
                if connection is not None and not self._read_only and place.fault():
                    # SQLite itself leaves the log of a file that was moved where it was.
                    with suppress(*FAILURES):
                        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            there = not unmarked and log.exists()
            if connection is not None:
                connection.close()
            if there and not log.exists():  # SQLite copied all of it, and the mark was left
                with suppress(*FAILURES, OSError):
                    unmark(self._path)
            if place is not None:
                place.release()

    def close(self) -> None:
        """Close the connection and release what was locked."""
        with self._held():
            self._let_go()

    def __del__(self) -> None:
        with delivered(), suppress(Exception):  # also when it was never opened, or at the end
            if self._pid == os.getpid():
                self._let_go()


@atexit.register
def _close_all() -> None:
    """SQLite itself closes what the end of an interpreter finds open, and takes the log away:
    the mark has to go first."""
    for store in list(_OPEN):
        with suppress(Exception):
            if store._pid == os.getpid():
                store._let_go()


def _end_what_was_left(store: SQLiteStore | None) -> None:
    """An interrupted transaction is over; whatever still holds its connection does no harm."""
    connection = None if store is None or store._pid != os.getpid() else store._connection
    if store is not None and connection is not None and connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.rollback()
        store._let_go()


class _SQLiteTransaction:
    def __init__(self, store: SQLiteStore, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection = connection
        self.ended = False  # whether a grant ends in it
        (last,) = connection.execute("SELECT coalesce(max(position), -1) FROM entries").fetchone()
        self._next = int(last) + 1

    def read(self, after: int) -> list[Entry]:
        return self._store.read(after)

    def rows(self, after: int) -> list[Row]:
        return every_row(self._connection, after, self._store.location)

    def digest(self, position: int) -> str | None:
        row = self._connection.execute("SELECT hash FROM entries NOT INDEXED WHERE position = ?",
                                       (position,)).fetchone()
        return None if row is None else str(row[0])

    def append(self, entry: Entry) -> None:
        if entry.position != self._next:
            raise LedgerCorrupt(f"{self._store.location}: an entry out of order")
        self._next += 1
        self.ended = self.ended or isinstance(entry.event, _ENDS)
        self._connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
            (entry.position, entry.event.kind, body_text(entry), entry.previous, entry.hash),
        )

    def put_vector(self, name: str, data: bytes) -> None:
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (file_key(name), data))

    def vector(self, name: str) -> bytes | None:
        return file_vector(self._connection, name)

    def last_checkpoint(self) -> Checkpoint | None:
        return last_checkpoint(self._connection, self._store._known)

    def put_checkpoint(self, checkpoint: Checkpoint, names: str, *, afresh: bool) -> None:
        store = self._store
        if not any(name == "checkpoint" for _, name, *_ in store._known):
            for statement in CHECKPOINTS:
                self._connection.execute(statement)
            store._check(self._connection)
        if afresh:
            self._connection.execute("DELETE FROM closed")
        if names:
            self._connection.execute("INSERT INTO closed (names) VALUES (?)", (names,))
        self._connection.execute(
            "REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?)",
            (checkpoint.position, checkpoint.head, checkpoint.state, checkpoint.seal))
