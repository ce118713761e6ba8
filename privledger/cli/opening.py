"""Opening things for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privledger.errors import LedgerCorrupt, LedgerError, PrivledgerError
from privledger.ledger import Store
from privledger.session import Ledger
from privledger.storage import SQLiteStore


@contextmanager
def reading(path: str | Path) -> Iterator[Ledger]:
    """A ledger opened read-only. A history that cannot be folded is a corrupt one."""
    try:
        ledger = Ledger.open(path, read_only=True)
    except LedgerError:
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError):
        raise LedgerCorrupt(f"{path}: the history cannot be understood") from None
    try:
        yield ledger
    finally:
        ledger._history.store.close()


@contextmanager
def reading_store(path: str | Path) -> Iterator[Store]:
    """Only the store: for an audit that wants every fault, not the first."""
    store = SQLiteStore(path, read_only=True)
    try:
        yield store
    finally:
        store.close()
