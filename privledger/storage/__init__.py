"""Where a history is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from privledger.errors import InvalidValue, LedgerCorrupt, LedgerError
from privledger.ledger.entries import Entry
from privledger.ledger.store import Store, read_back
from privledger.reading import path_in
from privledger.storage.address import parse_address
from privledger.storage.memory import MemoryStore as MemoryStore
from privledger.storage.sqlite import SQLiteStore as SQLiteStore
from privledger.tables.spool import clear_left_behind

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_FOLDED = re.compile(r"postgres(ql)?:/", re.IGNORECASE)  # what pathlib makes of a URL


def is_url(location: object) -> bool:
    """Whether this names a server and no file. Any scheme: a mistyped one is no file either."""
    text = str(location) if isinstance(location, str | os.PathLike) else ""
    return bool(_URL.match(text) or _FOLDED.match(text))


def shown(location: object) -> str:
    """A location as it may be printed."""
    if not is_url(location):
        return str(location)
    try:
        return parse_address(location).location
    except LedgerError:
        return "a URL"


def store_at(location: str | os.PathLike[str] | None, *, create: bool = False,
             read_only: bool = False, first: Sequence[Entry] = ()) -> Store:
    """The store for a file name, a `postgresql://` URL, or (to create) None or ":memory:".

    Args:
        first: entries that a new store begins with: it appears with them or not at all.
    """
    store: Store
    if create and (location is None or str(location) == ":memory:"):
        store = MemoryStore()
    elif is_url(location):
        from privledger.storage.postgres import PostgresStore

        clear_left_behind()
        store = PostgresStore(location, create=create, read_only=read_only)
    elif isinstance(location, str | os.PathLike):
        clear_left_behind()
        place = path_in("ledger", os.fsdecode(location))
        return SQLiteStore(place, create=create, read_only=read_only, first=first)
    else:
        raise InvalidValue("path", type(location).__name__, "a file name or a postgresql:// URL")
    if first:
        with kept_store(store), store.transaction() as transaction:
            for entry in first:
                transaction.append(entry)
            read_back(transaction, first, store.location)
    return store


def refuse_findings(store: Store) -> None:
    """For the next user of a store.

    Raises:
        LedgerCorrupt: there is something wrong with the place itself.
    """
    found = store.inspect()
    if found:
        raise LedgerCorrupt(f"{store.location}: " + "; ".join(one.message for one in found[:5]))


@contextmanager
def kept_store(store: Store) -> Iterator[Store]:
    """A store that is closed if what is begun with it fails, and stays open otherwise."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
