"""Check the history of a privacy-budget ledger with Python's standard library alone.

    python -I verify_history.py LEDGER [--receipt receipt.json]

LEDGER is the ledger's SQLite file, or what `privledger export LEDGER -o history.jsonl` wrote.
Exit code: 0 clean, 3 NOT TRUSTED (every fault is listed), 2 usage. Python 3.11 or later.

This reader shares no code with privledger, so a mistake there is not repeated here. The format:
docs/ledger-format.md. What it did not check is printed at the end of every report.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import stat
import tempfile
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from pathlib import Path
from typing import Any, Iterator  # noqa: UP035

from .book import Book
from .dues import UNIT, beside, epsilon_of
from .reading import FORMAT, MALFORMED, MOST_BODY, MOST_LINE, Bad, NoPrice, inert, parse, whole
from .vectors import Checkpoint

# A SQLite file as rows, opened so that nothing in it is ever executed; or a file of lines.

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
            wrong = ["there are entries before the first, which are never read"]
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


LABELS = "replace_label"
PERSON = "one person, with all rows in all tables"
MOST_RECEIPT = 1 << 20
NEVER = (
    "not checked: whether the noise was drawn, and drawn as it says",
    "not checked: whether times, claimed epsilons, holders and names are true",
    "not checked: whether members of a OneOf that begin alike may have a common price",
)


def many(count: int, one: str, more: str) -> str:
    """A number with its noun, singular or plural."""
    return f"{count} {one if count == 1 else more}"


def compared(receipt: Any) -> str:
    """What the history was compared with, and what therefore cannot have been seen."""
    if receipt is None:
        return ("no receipt was given, so deleted last entries, a restored backup or a complete "
                "rewrite would go unnoticed")
    date, entries = receipt.get("time"), receipt["entries"]
    which = f"the receipt of {inert(date)}" if date else "a receipt without a date"
    seen = many(entries, "entry", "entries")
    return (f"compared with {which} ({seen}, head {inert(receipt['head'])[:12]}): "
            f"entries deleted or rewritten after entry {entries} would go unnoticed")


def read_receipt(path: str) -> dict[str, Any]:
    """A receipt from a file, or from what `privledger run --format json` prints."""
    with open_file(path) as file:
        raw = file.read(MOST_RECEIPT + 1)
    if len(raw) > MOST_RECEIPT:
        raise Bad("too large for a receipt")
    value = parse(raw, "utf-8")
    value = value.get("receipt", value)  # or what `privledger run --format json` prints
    whole(value["entries"], 1)
    if type(value["uuid"]) is not str or type(value["head"]) is not str:
        raise Bad("not a receipt")
    return dict(value)


def check_receipt(book: Book, receipt: Any) -> None:
    """The receipt's last entry is still where it was."""
    receipt = receipt.get("receipt", receipt)
    entries, seen = len(book.hashes), whole(receipt["entries"], 1)
    if receipt["uuid"] != book.uuid:
        book.fault("the receipt is of another ledger")
    elif entries < seen:
        book.fault(f"{entries} entries, the receipt saw {seen}: a tail was cut, or an old copy")
    elif book.hashes[seen - 1] != receipt["head"]:
        book.fault(f"entry {seen - 1} is not the one the receipt saw: the history was rewritten")


def read_history(path: str) -> Book:
    """The whole history in a file or an export."""
    book = Book()
    if is_database(path):
        read_database(path, book)
        return book
    try:
        for line in lines_of(path):
            book.take(line)
            if book.is_enough():
                return book
    except Bad as error:
        book.fault(str(error))
    if not book.hashes and not book.faults:
        book.fault("the file holds no entry")
    book.finish()
    return book


def read_database(path: str, book: Book) -> None:
    """Read a ledger's own file into `book`, after looking for faults of the file itself."""
    try:
        file = Database(path)
    except sqlite3.Error as error:
        return book.fault(f"the file cannot be opened: {error}")
    try:
        wrong = file.faults()
        for text in wrong:
            book.fault(text)
        if wrong:
            return None
        kept = file.checkpoint()
        book.checkpoint = None if kept is None else Checkpoint(*kept)
        for row in file.rows():
            book.take_row(row)
            if book.is_enough():
                return None
        if not book.hashes:
            book.fault("the history is empty: not a ledger")
        book.finish(file.vector)
    except (sqlite3.Error, Bad, *MALFORMED) as error:
        book.fault(f"the file is damaged: {error}")
    finally:
        file.close()
    return None


def spent(book: Book) -> str:
    """Epsilon that is spent, in twelve digits, rounded up; words where it has no formula here."""
    try:
        value = epsilon_of(book.filter or "basic", Fraction(book.units, UNIT), book.order,
                           beside(book.delta, book.reserve))
    except (NoPrice, Bad, *MALFORMED):
        return "not recomputed"
    # Never below what it is.
    return str(Context(prec=12, rounding=ROUND_CEILING).create_decimal(value).normalize())


def report(book: Book, receipt: Any = None) -> None:
    """Print the verdict, the first faults, the promise and the totals."""
    said = compared(receipt)
    print(f"{said[:1].upper()}{said[1:]}.")
    print(f"NOT TRUSTED: {many(len(book.faults), 'finding', 'findings')}" if book.faults
          else f"clean: {many(len(book.hashes), 'entry', 'entries')} re-read")
    for position, text in book.faults[:50]:
        print(f"  entry {position}: {inert(text)}")
    print(f"ledger   {inert(book.uuid)}, {inert(book.relation)}, filter {inert(book.filter)}"
          f"{'' if book.mode == 'private' else ', NOT PRIVATE (simulation)'}")
    if book.relation == LABELS:
        print("promise  LABELS ONLY: features are public; nothing is promised about whole records")
    if book.unit == "person":
        print(f"about    {PERSON}")
    print(f"budget   epsilon {book.epsilon:.9g} at delta {book.delta:.9g}")
    print(f"spent    epsilon {spent(book)}, reservations included")
    print(f"entries  {len(book.hashes)}, {many(len(book.grants), 'grant', 'grants')}")
    print(f"head     {inert(book.hashes[-1] if book.hashes else '')}")
    for text, position in book.notes.items():
        print(f"{inert(text)} (entry {position})")
    for text in NEVER:
        print(text)


def main() -> int:
    """Read the arguments and the history; 0 if nothing is wrong with it."""
    parser = argparse.ArgumentParser(description="Check the history of a privacy-budget ledger.")
    parser.add_argument("history", help="a ledger's file, or what `privledger export` wrote")
    parser.add_argument("--receipt", help="a receipt that was kept elsewhere")
    options = parser.parse_args()
    receipt = None
    try:
        if options.receipt:
            receipt = read_receipt(options.receipt)
        book = read_history(options.history)
        if receipt is not None:
            check_receipt(book, receipt)
    except (Bad, *MALFORMED):
        parser.error("the receipt is none")
    except OSError as error:
        parser.error(f"a file cannot be read: {error.strerror}")
    report(book, receipt)
    return 3 if book.faults else 0
