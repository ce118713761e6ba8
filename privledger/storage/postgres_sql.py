"""What is said to the database, and a connection to say it; the driver's errors in our words.

None of them carries a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError
from privledger.graph import canonical
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


def explain_failure(error: Exception, address: Address) -> LedgerError:
    """One of our errors for one of the driver's, by SQLSTATE. Details (rows) are left out."""
    where, state = address.location, getattr(error, "sqlstate", None) or ""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    reason = address.hide(primary or str(error))
    if isinstance(error, driver().ProgrammingError) and not state:
        # The driver refuses an option of the URL, and may quote what it does not understand.
        return LedgerError(f"{where}: the URL has an option that PostgreSQL does not know")
    if state == _MOVED:
        return LedgerBusy(f"{where}: another client wrote without the lock. Nothing was granted")
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


if TYPE_CHECKING:
    import psycopg

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

ENDS = ("SELECT l.id, l.format, l.position = coalesce(e.position, -1) AND l.head = "
        "coalesce(e.hash, l.head), pg_catalog.has_table_privilege('privledger.grants', 'INSERT') "
        "FROM privledger.ledgers l LEFT JOIN LATERAL "
        "(SELECT position, hash FROM privledger.entries WHERE ledger = l.id "
        "ORDER BY position DESC LIMIT 1) e ON true WHERE l.name = %s")
READ = ("SELECT position, kind, body, previous, hash FROM privledger.entries "
        "WHERE ledger = %s AND position > %s ORDER BY position")
DIGEST = "SELECT hash FROM privledger.entries WHERE ledger = %s AND position = %s"
_VALUES = "(%s, %s, %s, %s::text[], %s::text[], %s::text[], %b::bytea[]"
APPEND = f"SELECT privledger.append{_VALUES})"
WRITE = f"SELECT privledger.write{_VALUES}, true)"  # with the rights of the tables' owner
KEEP = "SELECT privledger.keep(%s, %s::text[], %b::bytea[])"
STORE = ("INSERT INTO privledger.vectors (ledger, name, data) "
         "SELECT %s, v.* FROM ROWS FROM (pg_catalog.unnest(%s::text[]), "
         "pg_catalog.unnest(%b::bytea[])) v")


def connected(parameters: Mapping[str, str]) -> Connection:
    """A connection of which every statement is a transaction, unless one is begun."""
    options: dict[str, Any] = {
        "connect_timeout": "10", "fallback_application_name": "privledger",
        **parameters, "client_encoding": "UTF8"}
    made: Connection = driver().connect(**options, autocommit=True, prepare_threshold=None)
    return made


def check_durable(connection: Connection, location: str) -> None:
    """Raise if the server would forget what was committed."""
    if connection.execute("SHOW fsync").fetchone() != ("on",):
        raise LedgerError(f"{location}: the server runs with fsync = off, and would forget grants "
                          "when the power fails; it can be read only")


def vector_of(connection: Connection, ledger: int, name: str) -> bytes | None:
    """A per-record vector of a ledger, or None."""
    row = connection.execute("SELECT data FROM privledger.vectors WHERE ledger = %s AND name = %s",
                             (ledger, canonical(name)), binary=True).fetchone()
    return bytes(row[0]) if row else None


def leave(connection: Connection) -> None:
    """Leave no transaction open, whatever happened to it."""
    if connection.closed or not connection.info.transaction_status:
        return
    try:
        connection.execute("ROLLBACK")
    except driver().Error:
        connection.close()  # the server rolls back what a lost client began


def answers(cursor: Any) -> list[Any]:
    """The first value or row of every statement that answers; None for no row."""
    found = []
    while True:
        if cursor.description is not None:
            row = cursor.fetchone()
            found.append(row[0] if row is not None and len(row) == 1 else row)
        if not cursor.nextset():
            return found
