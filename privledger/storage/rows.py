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


def entries_of(rows: Iterable[tuple[Any, ...]], location: str) -> list[Entry]:
    """Rows of (position, kind, body, previous, hash)."""
    try:
        return [Entry(position, kind, json.loads(body, parse_constant=_refuse,
                                                 parse_float=_finite), previous, digest)
                for position, kind, body, previous, digest in rows]
    except (ValueError, TypeError, RecursionError):
        raise LedgerCorrupt(f"{location}: an entry is not JSON") from None
