"""The driver, and its errors in our words. None of them carries a password."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError
from privledger.ledger.store import Denied
from privledger.storage.address import Address

_BUSY = ("55P03", "40001", "40P01", "53300")  # lock timeout, serialization, deadlock, connections
_FULL = ("53100", "53200", "53400")
_MOVED, _DENIED, _BEHIND = "PL001", "PL002", "PL003"  # said by our own functions
_DAMAGED = ("42P01", "42703", "42883", "42804", "3F000", "XX001", "XX002")  # no table, no column


def driver() -> Any:
    """psycopg, imported when it is first needed."""
    try:
        import psycopg
    except ImportError:
        raise LedgerError("a ledger in PostgreSQL needs psycopg: "
                          "pip install 'privledger[postgres]'") from None
    module: ModuleType = psycopg
    return module


def explain(error: Exception, address: Address) -> LedgerError:
    """One of our errors for one of the driver's, by SQLSTATE. Details (rows) are left out."""
    where, state = address.location, getattr(error, "sqlstate", None) or ""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    reason = address.hide(primary or str(error))
    if isinstance(error, driver().ProgrammingError) and not state:
        # The driver refuses an option of the URL, and may quote what it does not understand.
        return LedgerError(f"{where}: the URL has an option that PostgreSQL does not know")
    if state == _MOVED:
        return LedgerBusy(f"{where}: somebody wrote without the lock; nothing was granted")
    if state == _DENIED:
        return Denied(f"{where}: the database refuses it ({reason}); nothing was granted")
    if state == _BEHIND:
        return LedgerCorrupt(f"{where}: {reason}; the owner of the tables calls "
                             f"privledger.repair('{address.ledger}')")
    if state in _BUSY:
        return LedgerBusy(f"{where}: another process held the write lock for too long, or the "
                          f"server is too busy ({reason})")
    if state in _FULL:
        return LedgerError(f"{where}: the server is out of space ({reason})")
    if state in _DAMAGED or state[:2] in ("22", "23") or isinstance(error, UnicodeError):
        return LedgerCorrupt(f"{where}: not a ledger, or damaged ({reason})")
    return LedgerError(f"{where}: the database cannot be used ({reason})")
