"""A SQLite file as rows, opened so that nothing in it is ever executed; or a file of lines."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path
from typing import Any, Iterator  # noqa: UP035

from .reading import FORMAT, MOST_BODY, MOST_LINE, Bad

MAGIC, APPLICATION = b"SQLite format 3\0", 0x70726C67
IN_USE = 0x70726C68  # a file whose last entries may be in its log
MOST_PACKED = 12 * 5_000_000 + (1 << 16)  # bytes of one compressed vector
MOST_CHECKPOINT = 64 << 20
MOST_VECTOR_LINE = 24 << 20  # bytes of a vector in an export
MOST_OBJECTS = 16
TOO_BIG = 18  # SQLITE_TOOBIG
ENTRIES = """CREATE TABLE entries (
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL
) STRICT"""
SCHEMA = {
    "entries": ENTRIES,
    "vectors": "CREATE TABLE vectors (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT",
    "sqlite_autoindex_vectors_1": None,
    "entries_keep": """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
    "entries_stay": """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
}
LATER = {  # come with the first checkpoint
    "checkpoint": "CREATE TABLE checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), position "
                  "INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL, seal TEXT NOT NULL) "
                  "STRICT",
    "closed": "CREATE TABLE closed (number INTEGER PRIMARY KEY, names TEXT NOT NULL) STRICT",
}
KINDS_OF_FILE = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"),
                 (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
                 (stat.S_ISBLK, "a device"))


def check_regular(path: str) -> None:
    """Opening a FIFO or a device alone may wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS_OF_FILE if is_kind(mode)), "no file")
        raise OSError(0, f"it is {kind}")


def open_file(path: str) -> Any:
    """Open a regular file for bytes; a pipe or a device is refused, not waited for."""
    check_regular(path)
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def is_database(path: str) -> bool:
    """Whether a file begins as SQLite files do."""
    with open_file(path) as file:
        return bool(file.read(16) == MAGIC)


def lines_of(path: str) -> Iterator[bytes]:
    """Lines of an export. Raises `Bad` at one that is too long, or not whole."""
    with open_file(path) as file:
        line = file.readline(MOST_LINE)
        if not line:
            raise Bad("the file is empty")
        while line:
            if not line.endswith(b"\n"):
                more = b""
                if line.startswith(b'{"data":'):  # a vector may be longer than an entry
                    more = file.readline(MOST_VECTOR_LINE)
                line += more
                if not line.endswith(b"\n"):
                    yield line
                    raise Bad("the file does not end with a whole line, or a line is too long")
            yield line
            line = file.readline(MOST_LINE)


class Database:
    """A ledger's file. Views and triggers that were planted are found before any table is read."""

    def __init__(self, path: str) -> None:
        check_regular(path)
        self.folder = ""
        log = path + "-wal"
        has_log = os.path.exists(log) and os.path.getsize(log) > 0
        with open(path, "rb") as file:
            self.alone = file.read(20)[18:] == b"\2\2" and not has_log
        if has_log and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
            # A log can only be read where its index can be written: beside a copy.
            self.folder = tempfile.mkdtemp()
            copied = os.path.join(self.folder, "ledger")
            for end in ("", "-wal"):
                check_regular(path + end)
                shutil.copyfile(path + end, copied + end)
            path = copied
        uri = Path(path).absolute().as_uri() + ("?mode=ro" if has_log else "?mode=ro&immutable=1")
        self.connection = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)
        self.connection.text_factory = bytes
        self.limit(MOST_BODY)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON",
                        "mmap_size = 0"):
            self.connection.execute("PRAGMA " + setting)

    def limit(self, length: int) -> None:
        """Nothing longer is fetched: SQLite says so before it reserves memory."""
        self.connection.setlimit(0, length)  # SQLITE_LIMIT_LENGTH

    def close(self) -> None:
        """Close it, and remove the copy that was made of it, if one was."""
        self.connection.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def faults(self) -> list[str]:
        """What is wrong with the file itself. If anything is, its tables must not be read."""
        (application,), = self.connection.execute("PRAGMA application_id")
        (version,), = self.connection.execute("PRAGMA user_version")
        if application == IN_USE and self.alone:
            return ["copied or moved while it was in use, without its log (-wal), which holds its "
                    "last entries"]
        if application not in (APPLICATION, IN_USE):
            return ["not a ledger"]
        if not 1 <= version <= FORMAT:
            return [f"a later format than {FORMAT}: take a later verifier"]
        rows = self.connection.execute("SELECT name, sql FROM sqlite_schema LIMIT ?",
                                       (MOST_OBJECTS,)).fetchall()
        found = {text_of(name): None if sql is None else text_of(sql) for name, sql in rows}
        foreign = [name for name in found if found[name] != {**SCHEMA, **LATER}.get(name, 0)]
        missing = [name for name in SCHEMA if name not in found]
        wrong = [f"{name} in the file is not what a ledger writes" for name in foreign] + [
            f"{name} is missing in the file" for name in missing]
        if not wrong and self.connection.execute("SELECT 1 FROM entries WHERE position < 0 LIMIT 1"
                                                 ).fetchone():
            wrong = ["there are entries before the first, which nobody reads"]
        return wrong

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Position, kind, text of the body (None if it is too long), hash before, hash."""
        columns, after = "SELECT position, kind, {}, previous, hash FROM entries ", -1
        tail = "WHERE position > ? ORDER BY position LIMIT ?"
        while True:
            found, size = [], 0
            try:
                for row in self.connection.execute(columns.format("body") + tail, (after, 2000)):
                    found.append(row)
                    size += len(row[2])
                    if size > 2 * MOST_BODY:
                        break
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                    raise
            if not found:
                found = self.one(columns, tail, after)
            if not found:
                return
            yield from found
            after = found[-1][0]

    def one(self, columns: str, tail: str, after: int) -> list[tuple[Any, ...]]:
        """The next row behind `after`; without its body where that is too large."""
        for body in ("body", "NULL"):
            try:
                return self.connection.execute(columns.format(body) + tail, (after, 1)).fetchall()
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                    raise
        return []

    def vector(self, name: str) -> bytes | None:
        """A per-record vector; None if there is none; empty if it is too large."""
        try:
            name.encode("utf-8")
            key = name
        except UnicodeEncodeError:  # kept in its escaped form
            import json
            key = json.dumps(name)
        self.limit(MOST_PACKED)
        try:
            row = self.connection.execute("SELECT data FROM vectors WHERE name = ?",
                                          (key,)).fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                raise
            return b""
        finally:
            self.limit(MOST_BODY)
        return None if row is None else bytes(row[0])

    def checkpoint(self) -> tuple[Any, ...] | None:
        """Position, head, state, seal, names; None if there is none, or one too large."""
        if not self.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'checkpoint'"
                                       ).fetchone():
            return None
        self.limit(MOST_CHECKPOINT)
        try:
            row = self.connection.execute("SELECT position, head, state, seal FROM checkpoint"
                                          ).fetchone()
            names, left = [], MOST_CHECKPOINT
            for (text,) in self.connection.execute("SELECT names FROM closed ORDER BY number"):
                names.append(text_of(text))
                left -= len(text)
                if left < 0:
                    return None
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                raise
            return None
        finally:
            self.limit(MOST_BODY)
        return None if row is None else (
            row[0], *(text_of(value) for value in row[1:]), ",".join(names))


def text_of(value: Any) -> str:
    """Bytes of the database as text, damaged characters marked; refused if they are none."""
    if not isinstance(value, bytes):
        raise Bad("a damaged page: a text is none")
    return value.decode("utf-8", "replace")
