"""A row of a table of entries -> `Entry`. Every store reads its rows here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privledger.errors import LedgerCorrupt
from privledger.ledger.entries import Entry, parse_body


def entries_of(rows: Iterable[tuple[Any, ...]], location: str) -> list[Entry]:
    """Rows of (position, kind, body, previous, hash)."""
    try:
        return [Entry(position, kind, parse_body(body), previous, digest)
                for position, kind, body, previous, digest in rows]
    except (ValueError, TypeError, RecursionError):
        raise LedgerCorrupt(f"{location}: an entry is not JSON") from None
