"""Rows of a table of entries -> `Entry`. Every store reads its rows here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privledger.ledger.entries import Entry, entry_of


def entries_of(rows: Iterable[tuple[Any, ...]], location: str) -> list[Entry]:
    """Rows of (position, kind, body, previous, hash)."""
    return [entry_of(row, location) for row in rows]
