"""The tables of a PostgreSQL database: numbered SQL files, each run once, in order.

A server adds up and compares integers. It cannot turn an (epsilon, delta) into them, so the
creator of a ledger writes down, for each filter that its budget allows, how much fits: the rooms.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import cast

from privledger.accounting import DEFAULT_ORDERS
from privledger.errors import (
    InvalidValue,
    LedgerError,
    LedgerMissing,
    LedgerTooNew,
    PrivledgerError,
)
from privledger.ledger.codec import decode
from privledger.ledger.entries import parse_body
from privledger.ledger.events import Created, FilterFixed
from privledger.ledger.filters import KINDS, Budget, FilterRule, fixed_filter
from privledger.storage.postgres_sql import Connection, driver

_THERE = ("SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
          "ON n.oid = c.relnamespace WHERE n.nspname = 'privledger' AND c.relname = 'migrations' "
          "AND c.relkind = 'r'")
_WITHOUT_ROOMS = ("SELECT l.id, c.body, f.body FROM privledger.ledgers l "
                  "JOIN privledger.entries c ON c.ledger = l.id AND c.position = 0 "
                  "LEFT JOIN privledger.entries f ON f.ledger = l.id AND f.kind = 'filter' "
                  "WHERE NOT EXISTS (SELECT 1 FROM privledger.limits m WHERE m.ledger = l.id)")
LOCK = 0x70726C67  # "prlg": two clients do not migrate at once


def scripts() -> dict[int, str]:
    """Number -> SQL. Each file ends by writing its number into `privledger.migrations`."""
    folder = files("privledger.storage") / "migrations"
    found = {int(file.name[:4]): file.read_text(encoding="utf-8")
             for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(found.items()))


def version(connection: Connection) -> int | None:
    """The last migration that was run here, or None if there are no ledgers here."""
    # Not to_regclass, which may answer from a cache while another client makes the table.
    if connection.execute(_THERE).fetchone() is None:
        return None
    row = connection.execute("SELECT coalesce(max(number), 0) FROM privledger.migrations")
    (number,) = row.fetchone() or (0,)
    return int(number)


def check_version(connection: Connection, location: str) -> None:
    """Raise unless the tables are those this version works with."""
    known, found = max(scripts()), version(connection)
    if found is None:
        raise LedgerMissing(f"{location} does not exist: the database has no ledgers")
    if found > known:
        raise LedgerTooNew(f"{location}: the tables have version {found}, this version reads up "
                           f"to {known}")
    if found < known:
        raise _behind(location, found, known)


def _behind(location: str, found: int, known: int) -> LedgerError:
    return LedgerError(f"{location}: the tables have version {found}; their owner must open the "
                       f"ledger for writing once, to bring them to {known}")


def migrate(connection: Connection, location: str, seconds: float, *, create: bool) -> None:
    """Run what is missing, all or nothing. Tables are made only to `create` a ledger."""
    known, found = scripts(), version(connection)
    if (found is None and not create) or (found or 0) >= max(known):
        return
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
                       "SET LOCAL synchronous_commit = on; "
                       f"SET LOCAL lock_timeout = {int(1000 * seconds)}")
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        found = version(connection) or 0  # another client may have been faster
        for number, script in known.items():
            if number > found:
                connection.execute(script.encode())
        for ledger, created, fixed in connection.execute(_WITHOUT_ROOMS).fetchall():
            _allow_old(connection, ledger, created, fixed)
        connection.execute("COMMIT")
    except driver().errors.InsufficientPrivilege:
        if found is None:
            raise
        raise _behind(location, found, max(known)) from None
    finally:
        if not connection.closed and connection.info.transaction_status:
            connection.execute("ROLLBACK")


def allow(connection: Connection, ledger: int, created: Created,
          fixed: FilterFixed | None) -> None:
    """Tell the database how much fits into a ledger and its caps, under every filter."""
    connection.execute("SELECT privledger.allow(%s, %s::jsonb)",
                       (ledger, json.dumps(rooms(created, fixed))))


def _allow_old(connection: Connection, ledger: int, created: str, fixed: str | None) -> None:
    try:
        first = decode("created", parse_body(created))
        rule = None if fixed is None else decode("filter", parse_body(fixed))
        allow(connection, ledger, cast(Created, first), cast(FilterFixed | None, rule))
    except (PrivledgerError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # no history that can be opened; it gets no room


Room = tuple[str, float, int, int, int]
"""Kind and order of a filter, place (-1 for the ledger, else a cap's), units, delta units."""


def rooms(created: Created, fixed: FilterFixed | None) -> list[Room]:
    """Rooms of the ledger and its caps.

    Args:
        created: the first entry.
        fixed: the one that fixes the filter, if it is fixed.
    """
    found: list[Room] = []
    for rule in _rules(created.filter, created.budget, fixed):
        found.append((rule.kind, rule.order, -1, rule.cap_units, rule.delta_cap_units))
        for place, cap in enumerate(created.caps):
            own = cap.rule(rule)
            found.append((rule.kind, rule.order, place, own.cap_units, own.delta_cap_units))
    return found


def _rules(asked: str, budget: Budget, fixed: FilterFixed | None) -> list[FilterRule]:
    """The filter that is fixed, or all that a first request may fix."""
    if fixed is not None:
        return [FilterRule(fixed.rule, fixed.order, budget, int(fixed.cap_units),
                           int(fixed.delta_cap_units))]
    candidates = [(kind, order) for kind in (KINDS if asked == "auto" else (asked,))
                  for order in (DEFAULT_ORDERS if kind == "rdp" else (None,))]
    found = []
    for kind, order in candidates:
        try:
            found.append(fixed_filter(kind, budget, order))
        except InvalidValue:  # this budget leaves nothing there
            continue
    return found
