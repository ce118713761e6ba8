"""Reading rows of a SQLite file that anybody may have written: nothing large is ever fetched.

SQLite itself refuses to build a text or blob above a limit that is set for the connection, before
it reserves memory for it: asking for the length of a text first would load the text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privledger.ledger.limits import MOST_BODY, MOST_CHECKPOINT, MOST_PACKED

MOST_VALUE = MOST_PACKED + MOST_CHECKPOINT
"""Bytes of any value that a connection to a ledger may read or write."""

# NOT INDEXED: an index that somebody added may hold other rows than the table.
BATCH_ROWS, BATCH_BYTES = 5000, 8 << 20

_AFTER = ("SELECT position, kind, body, previous, hash FROM entries NOT INDEXED "
          "WHERE position > ? ORDER BY position LIMIT ?")
_WITHOUT_BODY = ("SELECT position, kind, '', previous, hash FROM entries NOT INDEXED "
                 "WHERE position > ? ORDER BY position LIMIT 1")


@contextmanager
def at_most(connection: sqlite3.Connection, length: int) -> Iterator[None]:
    """Let nothing longer than `length` bytes be fetched meanwhile."""
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
    try:
        yield
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def is_too_big(error: Exception) -> bool:
    """Whether SQLite says that a value is larger than the connection's limit."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG


def batch(connection: sqlite3.Connection, after: int) -> list[tuple[Any, ...]]:
    """The next rows behind `after`, a few megabytes of them; none at the end.

    The body of a row is empty where it is longer than `MOST_BODY`.
    """
    found: list[tuple[Any, ...]] = []
    size = 0
    with at_most(connection, MOST_BODY):
        cursor = connection.cursor()
        try:
            for row in cursor.execute(_AFTER, (after, BATCH_ROWS)):
                found.append(row)
                size += len(row[2]) if isinstance(row[2], str | bytes) else 0
                if size > BATCH_BYTES:
                    break
        except sqlite3.DataError as error:
            if not is_too_big(error):
                raise
            # The cursor runs ahead by a row: whatever was not handed out is asked for again.
            return found or _one(connection, after)
        finally:
            cursor.close()
    return found


def _one(connection: sqlite3.Connection, after: int) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(_AFTER, (after, 1)).fetchall()
    except sqlite3.DataError as error:
        if not is_too_big(error):
            raise
        return connection.execute(_WITHOUT_BODY, (after,)).fetchall()


def value_or_empty(connection: sqlite3.Connection, statement: str, arguments: tuple[Any, ...],
                   most: int) -> bytes | None:
    """The one value that a statement selects; empty if it is longer than `most` bytes."""
    with at_most(connection, most):
        try:
            row = connection.execute(statement, arguments).fetchone()
        except sqlite3.DataError as error:
            if not is_too_big(error):
                raise
            return b""
    return bytes(row[0]) if row else None
