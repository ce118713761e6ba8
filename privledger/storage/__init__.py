"""Where a history is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from privledger.ledger.store import Store
from privledger.storage.address import is_url, shown
from privledger.storage.memory import MemoryStore
from privledger.storage.postgres import PostgresStore
from privledger.storage.sqlite import SQLiteStore

__all__ = ["MemoryStore", "PostgresStore", "SQLiteStore", "is_url", "kept", "shown", "store_at"]


def store_at(location: str | os.PathLike[str] | None, *, create: bool = False,
             read_only: bool = False) -> Store:
    """The store for a file name, a `postgresql://` URL, or (to create) None or ":memory:"."""
    if create and (location is None or str(location) == ":memory:"):
        return MemoryStore()
    if is_url(location):
        return PostgresStore(location, create=create, read_only=read_only)
    return SQLiteStore(str(location), create=create, read_only=read_only)


@contextmanager
def kept(store: Store) -> Iterator[Store]:
    """A store that is closed if what is begun with it fails, and stays open otherwise."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
