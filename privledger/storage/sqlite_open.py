"""A connection to a ledger file that an attacker may have written, and what is read through it.

Nothing large is ever fetched: SQLite itself refuses to build a text or blob above a limit that is
set for the connection, before it reserves memory for it. Asking for the length of a text first
would load the text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

from privledger.errors import InvalidValue, LedgerBusy, LedgerCorrupt, LedgerError, LedgerTooNew
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import FORMAT, Entry, body_text
from privledger.ledger.limits import MOST_BODY, MOST_CHECKPOINT, MOST_PACKED
from privledger.ledger.store import Row
from privledger.storage.place import open_file, registry

if sys.platform != "win32":
    import fcntl

# The schema of a ledger file, to the letter, and what in a file differs from it.
#
# An attacker may have touched a file. A trigger can delete a charge as it is written, a view can
# stand where the history should be, an index can hold other rows than its table. So whatever
# is not exactly what privledger wrote is named, and a file with any of it grants nothing. Files of
# the formats 1 to 3 have the same tables.

APPLICATION_ID = 0x70726C67  # "prlg"
IN_USE = 0x70726C68  # from before the first write until a clean close: the log belongs to it

TABLES = (
    """CREATE TABLE entries (
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL
) STRICT""",
    "CREATE TABLE vectors (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT",
)
TRIGGERS = (
    """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
)
# Made by the first checkpoint; a file without them is as good, and an earlier version does not
# look at them. `closed` has the names of grants that are over, in the order they ended.
CHECKPOINTS = (
    "CREATE TABLE checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "position INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL, seal TEXT NOT NULL) "
    "STRICT",
    "CREATE TABLE closed (number INTEGER PRIMARY KEY, names TEXT NOT NULL) STRICT",
)

_MOST = 40
_READ = ("SELECT type, name, tbl_name, rootpage, substr(sql, 1, 1000), "
         f"length(CAST(sql AS BLOB)) FROM sqlite_master LIMIT {_MOST}")
Objects: TypeAlias = list[tuple[Any, ...]]


def _object(sql: str) -> tuple[tuple[str, str], tuple[Any, ...]]:
    words = sql.split()
    kind, name = words[1].lower(), words[2]
    table = words[words.index("ON") + 1] if kind == "trigger" else name
    return (kind, name), (table, sql, len(sql))


_FIRST: dict[tuple[Any, Any], tuple[Any, ...]] = dict(map(_object, (*TABLES, *TRIGGERS)))
_FIRST["index", "sqlite_autoindex_vectors_1"] = "vectors", None, None  # of the primary key
_LATER: dict[tuple[Any, Any], tuple[Any, ...]] = dict(map(_object, CHECKPOINTS))


def read_objects(connection: sqlite3.Connection) -> Objects:
    """What the file says is in it. Reading this list runs nothing of it."""
    return connection.execute(_READ).fetchall()


def differences(found: Objects) -> list[str]:
    """A sentence for everything that is not as privledger writes it."""
    said, names = [], [(kind, name) for kind, name, *_ in found]
    known = _FIRST | _LATER
    for kind, name, table, _, sql, length in found:
        right = known.get((kind, name)) if isinstance(name, str) else None
        if right is None:
            said.append(f"{_shown(kind, name)} is nothing that privledger made")
        elif (table, sql, length) != right:
            said.append(f"{_shown(kind, name)} is not the one that privledger makes")
        elif names.count((kind, name)) > 1:
            said.append(f"there are two of {_shown(kind, name)}")
    wanted = [*_FIRST, *(_LATER if any(name in _LATER for name in names) else ())]
    said += [f"{_shown(*name)} is missing" for name in wanted if name not in names]
    if len(found) >= _MOST:
        said.append("there are many more such objects")
    return [*said, *_roots(found)]


def _roots(found: Objects) -> list[str]:
    """Every table has pages of its own: two on the same ones could be written through each."""
    roots = [root for kind, _, _, root, *_ in found if kind in ("table", "index")]
    others = [root for kind, _, _, root, *_ in found if kind not in ("table", "index")]
    if len(set(roots)) < len(roots):
        return ["two tables or indexes share their pages"]
    if any(type(root) is not int or root < 2 for root in roots) or any(others):
        return ["a table or index has no pages of its own"]
    return []


def is_readable_format(found: Objects, name: str) -> bool:
    """Whether `name` is that table and nothing else, so that an auditor may read it."""
    rows = [row for row in found if row[1] == name]
    right = (_FIRST | _LATER)["table", name]
    if len(rows) != 1 or rows[0][0] != "table" or (*rows[0][2:3], *rows[0][4:]) != right:
        return False
    root = rows[0][3]
    return type(root) is int and root > 1 and [row[3] for row in found].count(root) == 1


def _shown(kind: object, name: object) -> str:
    """Names from a file that an attacker may have written: short, and in printable ASCII."""
    plain = kind if kind in ("table", "index", "trigger", "view") else "an object"
    article = "" if plain == "an object" else "the "
    return f"{article}{plain} {ascii(name)[:60]}"


MOST_VALUE = MOST_PACKED + MOST_CHECKPOINT
"""Bytes of any value that a connection to a ledger may read or write."""

# NOT INDEXED: an index that an attacker added may hold other rows than the table.
BATCH_ROWS, BATCH_BYTES, _PART = 5000, 8 << 20, 16

_AFTER = ("SELECT position, kind, body, previous, hash FROM entries NOT INDEXED "
          "WHERE position > ? ORDER BY position LIMIT ?")
_WITHOUT_BODY = ("SELECT position, kind, '', previous, hash FROM entries NOT INDEXED "
                 "WHERE position > ? ORDER BY position LIMIT 1")
# A blob is not below x'', nor a number above ''; sum() leaves NULL out. The other three texts are
# known words or 64 digits, which no number has.
_COLUMNS = ("SELECT count(*), sum({}), {} FROM entries NOT INDEXED "
            "WHERE position >= ? AND position < ?").format(
    "body > '' AND " + " AND ".join(f"{name} < x''"
                                    for name in ("kind", "body", "previous", "hash")),
    ", ".join(f"CAST(group_concat({name}, '\n') AS BLOB)"
              for name in ("position", "kind", "body", "previous", "hash")))


class TooBig(sqlite3.DataError):
    """A value is larger than what was allowed."""


@contextmanager
def at_most(connection: sqlite3.Connection, length: int) -> Iterator[None]:
    """Let nothing longer than `length` bytes be fetched meanwhile.

    Raises:
        TooBig: it would have been.
    """
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
    try:
        yield
    except sqlite3.DataError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG:
            raise TooBig(*error.args) from None
        raise
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


WAIT, LONG_WAIT = 0.001, 0.05  # seconds between two tries, and after which they come faster

# A damaged file can make SQLite quote bytes that are no text.
FAILURES = (sqlite3.Error, UnicodeDecodeError)

_LONGEST_STATEMENT = 100_000  # also for a schema, which SQLite parses when it opens a file
_SCHEMA_SECONDS, _STEPS = 2.0, 100_000


def translate(error: Exception, location: str) -> LedgerError:
    """What SQLite says, as one of our errors. What it means (nothing granted, not settled) is
    said by who asked."""
    text = str(error).lower()
    if "locked" in text or "busy" in text:
        return LedgerBusy(f"{location}: another process held the write lock for too long")
    if "full" in text:
        return LedgerError(f"{location}: the disk is full")
    if "readonly" in text or "unable to open" in text or "i/o" in text:
        return LedgerError(f"{location}: the file cannot be used ({error})")
    return LedgerCorrupt(f"{location}: not a ledger, or damaged ({error})")


def connect(path: Path, *, writable: bool, seconds: float) -> sqlite3.Connection:
    """A connection with every guard that SQLite offers. It creates no file.

    Args:
        seconds: how long SQLite itself waits for a lock, outside of `begin`.
    """
    connection = sqlite3.connect(_uri(path, writable), uri=True, timeout=seconds,
                                 isolation_level=None, check_same_thread=False)
    try:
        _guard(connection, writable=writable)
    except BaseException:
        connection.close()
        raise
    return connection


def _uri(path: Path, writable: bool) -> str:
    """How SQLite is to open the file; a folder that cannot be written still can be read."""
    if writable:
        return path.as_uri() + "?mode=rw"
    if os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists():
        return path.as_uri() + "?mode=ro"
    return path.as_uri() + "?mode=ro&immutable=1"  # no writer can be there


def _guard(connection: sqlite3.Connection, *, writable: bool) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA recursive_triggers=OFF")
    if not writable:
        connection.execute("PRAGMA query_only=ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    configure = getattr(connection, "setconfig", None)  # from Python 3.12 on
    for name, value in (("DEFENSIVE", True), ("TRUSTED_SCHEMA", False), ("DQS_DDL", False),
                        ("DQS_DML", False), ("ENABLE_TRIGGER", False), ("ENABLE_VIEW", False),
                        ("WRITABLE_SCHEMA", False)):
        number = getattr(sqlite3, f"SQLITE_DBCONFIG_{name}", None)
        if configure is not None and number is not None:
            configure(number, value)
    # No authorizer and no other callback in Python: an interrupt inside one would be swallowed,
    # and the statement refused as if the file were damaged.


def look_at_file(connection: sqlite3.Connection) -> Objects:
    """The schema, inside a transaction; a file whose schema takes long to read is no ledger."""
    end = time.thread_time() + _SCHEMA_SECONDS
    connection.set_progress_handler(lambda: time.thread_time() > end, _STEPS)
    try:
        return read_objects(connection)
    finally:
        connection.set_progress_handler(None, 0)


def check_log(head: bytes, path: Path, location: str) -> None:
    """Refuse a file that was in use and came without its log: its last entries are not in it.

    Args:
        head: the first bytes of the file.

    Raises:
        LedgerCorrupt: it was copied or moved alone.
    """
    log = Path(f"{path}-wal")
    if head[68:72] == IN_USE.to_bytes(4, "big") and head[18:20] == b"\2\2" and not (
            log.exists() and log.stat().st_size):
        raise LedgerCorrupt(
            f"{location} was copied or moved while it was in use, without {log.name}, which holds "
            "its last entries. Put both in one folder again, or copy a ledger with "
            "`privledger backup`; `privledger restore` opens what is left")


def unmark(path: Path) -> None:
    """Take the mark from a file whose log was copied into it to the end and is gone."""
    connection = connect(path, writable=True, seconds=1.0)
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    finally:
        connection.close()


def check_header(connection: sqlite3.Connection, location: str) -> bool:
    """Whether the file is marked as in use.

    Raises:
        LedgerCorrupt, LedgerTooNew: it does not say that it is a ledger, of a format that is
            known here.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application not in (APPLICATION_ID, IN_USE) or version < 1:
        raise LedgerCorrupt(f"{location}: not a ledger")
    if version > FORMAT:
        raise LedgerTooNew(
            f"{location}: written in format {version}, this version reads up to {FORMAT}"
        )
    return bool(application == IN_USE)


def begin(connection: sqlite3.Connection, seconds: float) -> None:
    """Take the write lock, or raise after `seconds`.

    Who waits asks again every few moments; SQLite's own way of waiting would ask ever more
    seldom, and starve.
    """
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
                if code & 0xFF != sqlite3.SQLITE_BUSY or waited > seconds:
                    raise
            time.sleep(WAIT if waited < LONG_WAIT else WAIT / 4)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")


def next_rows(connection: sqlite3.Connection, after: int, location: str) -> list[Row]:
    """The next rows behind `after`, a few megabytes of them; none at the end.

    The body of a row is empty where it is longer than `MOST_BODY`. In a damaged file pages can lead
    back to pages before them.
    """
    found, size, cursor = list[Row](), 0, connection.cursor()
    try:
        with at_most(connection, MOST_BODY):
            cursor.execute(_AFTER, (after, BATCH_ROWS))
            while size <= BATCH_BYTES and (part := cursor.fetchmany(_PART)):
                found += part
                size += sum([len(row[2]) if isinstance(row[2], str | bytes) else 0
                             for row in part])
    except TooBig:
        # The cursor runs ahead by some rows: whatever was not handed out is asked for again.
        found = found or _one(connection, after)
    finally:
        cursor.close()
    usual = range(after + 1, after + 1 + len(found))
    if [row[0] for row in found] != list(usual) or {type(row[0]) for row in found} - {int}:
        for row in found:
            if type(row[0]) is not int or row[0] <= after:
                raise LedgerCorrupt(f"{location}: not a ledger, or damaged (entries out of order)")
            after = row[0]
    return found


def joined_columns(connection: sqlite3.Connection, first: int, count: int) -> list[bytes] | None:
    """As `Store.columns`."""
    try:
        with at_most(connection, BATCH_BYTES):
            there, texts, *found = connection.execute(_COLUMNS, (first, first + count)).fetchone()
    except TooBig:
        return None
    return found if texts == there == count else None


def every_row(connection: sqlite3.Connection, after: int, location: str) -> list[Row]:
    """All rows behind `after`."""
    found: list[Row] = []
    while rows := next_rows(connection, after, location):
        found += rows
        after = rows[-1][0]
    return found


def _one(connection: sqlite3.Connection, after: int) -> list[Row]:
    with at_most(connection, MOST_BODY):
        try:
            with at_most(connection, MOST_BODY):
                return connection.execute(_AFTER, (after, 1)).fetchall()
        except TooBig:
            return connection.execute(_WITHOUT_BODY, (after,)).fetchall()


def last_checkpoint(connection: sqlite3.Connection, known: Objects) -> Checkpoint | None:
    """The checkpoint, if there is one that can be read.

    Args:
        known: the schema, as it was looked at in this transaction.
    """
    if not all(is_readable_format(known, name) for name in ("checkpoint", "closed")):
        return None
    try:
        with at_most(connection, MOST_CHECKPOINT):
            row = connection.execute(
                "SELECT position, head, state, seal FROM checkpoint NOT INDEXED").fetchone()
    except TooBig:
        return None  # one that is too large is none: the history is there
    return None if row is None else Checkpoint(*row)


def names_in(connection: sqlite3.Connection, location: str) -> str | None:
    """The names that a checkpoint needs; None if they are too many."""
    names, last, left = [], None, MOST_CHECKPOINT
    for number, text in connection.execute("SELECT number, names FROM closed NOT INDEXED "
                                           "ORDER BY number"):
        if last is not None and number <= last:
            raise LedgerCorrupt(f"{location}: not a ledger, or damaged (a checkpoint out of order)")
        left -= len(text)
        if left < 0:
            return None
        names.append(text)
        last = number
    return ",".join(names)


def file_vector(connection: sqlite3.Connection, name: str) -> bytes | None:
    """A per-record vector, or None; empty if it is too large."""
    try:
        with at_most(connection, MOST_PACKED):
            row = connection.execute("SELECT data FROM vectors WHERE name = ?",
                                     (file_key(name),)).fetchone()
    except TooBig:
        return b""
    return bytes(row[0]) if row else None


def file_key(name: str) -> str:
    """Lone surrogates are no text for SQLite: such a name is kept in its escaped form."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return canonical(name)
    return name


# A new ledger file appears whole, with its first entries, or not at all.
#
# It is built in memory, written beside its place under a name that says what it is, brought to the
# disk, and only then linked to its name, which fails if there is anything. A process that is killed
# on the way leaves no ledger, or a whole one.


MODE = 0o600
"""For the owner only: a ledger holds what records spent."""

_LONGEST = 240
"""Bytes of a ledger's name."""
_UNFINISHED = ".unfinished-"
_PATIENCE = 1.0
_BESIDE = 1 << 17  # bytes that the log of a first opening and its index take
_TRIES = 16
_LOGGED = b"\x02\x02"  # at byte 18: both versions of the file format that keeps a log (WAL)


def make_file(path: Path, first: Sequence[Entry]) -> None:
    """A new file at `path` that holds `first`; raises as `put_file`."""
    put_file(path, _content(first))


def put_file(path: Path, content: bytes) -> None:
    """A new ledger's file at `path`, whole or not at all.

    Args:
        content: of a SQLite file; it is marked as one that keeps a log.

    Raises:
        InvalidValue: a name that is too long for the files beside it.
        LedgerError: there is something already, or it cannot be written.
    """
    if len(os.fsencode(path.name)) > _LONGEST:
        raise InvalidValue("ledger", f"{path.name[:60]}...", f"a name of at most {_LONGEST} bytes: "
                           "its log and what is written beside it have longer ones")
    if os.path.lexists(path):
        raise _exists(path)
    for suffix in ("-wal", "-journal"):
        if os.path.lexists(f"{path}{suffix}"):
            raise LedgerError(f"{path}{suffix} is there, left by another ledger of that name, or "
                              "by one whose file is gone: bring that back, or move it away")
    with contextlib.suppress(OSError):
        for left in _unfinished(path):
            _remove_left(left)
    try:
        with registry():  # no thread opens it before the maker's descriptor is closed
            _placed(path, content[:18] + _LOGGED + content[20:])
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise LedgerError(f"{path}: no ledger can be made there ({error.strerror}); nothing was "
                          "made") from None
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise LedgerError(f"{path} was made, but the disk did not confirm its name "
                          f"({error.strerror}); open it if it is there") from None


def take_back(path: Path, first: Sequence[Entry]) -> None:
    """Remove a ledger that was made a moment ago and could not be opened, if it is as it was made:
    a process that has it open already marks the file before the first write."""
    made = _content(first)
    with contextlib.suppress(OSError), registry():
        log = Path(f"{path}-wal")
        if path.read_bytes() == made[:18] + _LOGGED + made[20:] and not (
                log.exists() and log.stat().st_size):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)


def _placed(path: Path, content: bytes) -> None:
    """Write and link; again if another maker took the unfinished file for one that was left.

    It may do so in the moment before the file is locked. Then there was nothing to link.
    """
    for left in reversed(range(_TRIES)):
        beside = path.with_name(f"{_begin(path)}{token_hex(6)}")
        try:
            return _write_and_link(beside, path, content)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise FileExistsError from None
            if not left or not path.parent.is_dir():
                raise
    return None


def _begin(path: Path) -> str:
    """How unfinished files of that ledger are called; a file name has an end."""
    return path.name[:60] + _UNFINISHED


def _exists(path: Path) -> LedgerError:
    return LedgerError(f"{path} exists already; open it, or choose another name")


def _content(first: Sequence[Entry]) -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for statement in (*TABLES, *TRIGGERS):
            connection.execute(statement)
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", [
            (one.position, one.event.kind, body_text(one), one.previous, one.hash)
            for one in first])
        return connection.serialize()
    finally:
        connection.close()


def _write_and_link(beside: Path, path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(beside, flags | getattr(os, "O_BINARY", 0), MODE)
    try:
        _lock(descriptor, wait=True)  # as long as it is held, no process clears this file away
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, MODE)  # whatever the umask left of it
        rest = memoryview(content + bytes(_BESIDE))
        while rest:
            rest = rest[os.write(descriptor, rest):]
        os.fsync(descriptor)  # there is room to open it, too: a full disk leaves no empty ledger
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
        os.link(beside, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # where a folder cannot be synced
            raise
    finally:
        os.close(descriptor)


def finish_making(path: Path) -> None:
    """Take away the second name of a ledger whose maker was killed between two steps.

    Raises:
        LedgerBusy: its maker is still at work.
    """
    until = time.monotonic() + _PATIENCE
    while (found := _second_name(path)) is not None:
        if not _remove_left(found):
            if time.monotonic() > until:
                raise LedgerBusy(f"{path} is being made by another process; nothing was granted")
            time.sleep(0.002)


def _second_name(path: Path) -> Path | None:
    with contextlib.suppress(OSError):
        own = os.stat(path)
        if own.st_nlink > 1:
            for left in _unfinished(Path(os.path.realpath(path))):
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.lstat(left), own):
                        return left
    return None


def _unfinished(path: Path) -> Iterator[Path]:
    with os.scandir(path.parent) as found:
        names = [one.name for one in found if one.name.startswith(_begin(path))]
    return (path.with_name(name) for name in names)


def _remove_left(left: Path) -> bool:
    """Remove what a killed process left; False if its maker is still there."""
    try:
        descriptor = open_file(left, getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return True
    try:
        if not _lock(descriptor, wait=False):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
        return True
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """The maker's lock: flock, which is no business of SQLite's."""
    if sys.platform == "win32":
        return wait
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return wait
    return True
