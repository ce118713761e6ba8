"""A row of a table of entries -> `Entry`. Every store reads its rows here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from privledger.errors import LedgerCorrupt
from privledger.ledger.entries import Entry


def _refuse(text: str) -> float:
    raise ValueError("NaN and infinity are no JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _entry(position: object, kind: object, body: object, previous: object,
           digest: object) -> Entry:
    # A flipped bit of a damaged page can change the type of a value.
    if not (type(position) is int and isinstance(kind, str) and isinstance(body, str)
            and isinstance(previous, str) and isinstance(digest, str)):
        raise TypeError
    value = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    return Entry(position, kind, value, previous, digest)


def entries_of(rows: Iterable[tuple[Any, ...]], location: str) -> list[Entry]:
    """Rows of (position, kind, body, previous, hash)."""
    try:
        return [_entry(*row) for row in rows]
    except (ValueError, TypeError, RecursionError):
        raise LedgerCorrupt(f"{location}: an entry is not JSON") from None
