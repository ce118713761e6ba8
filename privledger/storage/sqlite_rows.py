"""What is read from the tables of a ledger file, each within its limits."""

from __future__ import annotations

import sqlite3

from privledger.errors import LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.limits import MOST_CHECKPOINT, MOST_PACKED
from privledger.ledger.store import Row
from privledger.storage.bounded import at_most, batch, is_too_big, value_or_empty
from privledger.storage.sqlite_schema import Objects, is_readable


def next_rows(connection: sqlite3.Connection, after: int, location: str) -> list[Row]:
    """The next entries. In a damaged file pages can lead back to pages before them."""
    found = batch(connection, after)
    for row in found:
        if type(row[0]) is not int or row[0] <= after:
            raise LedgerCorrupt(f"{location}: not a ledger, or damaged (entries out of order)")
        after = row[0]
    return found


def last_checkpoint(connection: sqlite3.Connection, known: Objects) -> Checkpoint | None:
    """The checkpoint, if there is one that can be read.

    Args:
        known: the schema, as it was looked at in this transaction.
    """
    if not all(is_readable(known, name) for name in ("checkpoint", "closed")):
        return None
    try:
        with at_most(connection, MOST_CHECKPOINT):
            row = connection.execute(
                "SELECT position, head, state, seal FROM checkpoint NOT INDEXED").fetchone()
    except sqlite3.DataError as error:
        if not is_too_big(error):
            raise
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


def vector_of(connection: sqlite3.Connection, name: str) -> bytes | None:
    """A per-record vector, or None."""
    return value_or_empty(connection, "SELECT data FROM vectors WHERE name = ?", (key_of(name),),
                          MOST_PACKED)


def key_of(name: str) -> str:
    """Lone surrogates are no text for SQLite: such a name is kept in its escaped form."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return canonical(name)
    return name
