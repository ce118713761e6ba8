"""Receipts: is the history that a model was released under still all there?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privledger.errors import InvalidPlan
from privledger.findings import Finding
from privledger.ledger import Entry

RULE = "receipt-is-in-history"
_FIELDS = {"uuid": str, "entries": int, "head": str}


def load_receipt(path: str | Path) -> dict[str, Any]:
    """Read a receipt written as JSON.

    Raises:
        InvalidPlan: not a receipt; the field is named.
    """
    name = Path(path).name
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InvalidPlan("receipt", name, "a JSON file that can be read") from None
    if isinstance(value, dict) and isinstance(value.get("receipt"), dict):
        value = value["receipt"]  # what `run --format json` prints
    if not isinstance(value, dict):
        raise InvalidPlan("receipt", name, "a JSON object")
    for field, kind in _FIELDS.items():
        if type(value.get(field)) is not kind:
            raise InvalidPlan(f"receipt {field}", value.get(field), f"a {kind.__name__}")
    if value["entries"] < 1:
        raise InvalidPlan("receipt entries", value["entries"], "at least 1")
    return value


def head_is_in_history(entries: Sequence[Entry], head: str) -> Iterator[Finding]:
    """An entry with this hash is in the history: everything up to it is unchanged."""
    if not any(entry.hash == head for entry in entries):
        yield Finding(RULE, len(entries) - 1,
                      "the expected head is not in the history: a tail was cut off, an old copy "
                      "came back, or it is another ledger")


def receipt_is_in_history(entries: Sequence[Entry], receipt: dict[str, Any]) -> Iterator[Finding]:
    """Same ledger, and the receipt's last entry is still where it was."""
    if not entries:
        yield Finding(RULE, -1, "the history is empty")
        return
    body = entries[0].body
    if not isinstance(body, dict) or body.get("uuid") != receipt["uuid"]:
        yield Finding(RULE, 0, "the receipt is of another ledger")
        return
    expected = receipt["entries"]
    if len(entries) < expected:
        yield Finding(RULE, len(entries) - 1,
                      f"{len(entries)} entries, the receipt saw {expected}: "
                      "a tail was cut off, or this is an old copy")
    elif entries[expected - 1].hash != receipt["head"]:
        yield Finding(RULE, expected - 1,
                      "another entry stands where the receipt's last one was: "
                      "the history was rewritten, or it forked from a copy")
    elif "counter" in receipt and receipt["counter"] != _moves(entries[:expected]):
        yield Finding(RULE, expected - 1, "the receipt's counter is not that of this history: "
                                          "the receipt was edited")


def _moves(entries: Sequence[Entry]) -> int:
    """How often the totals moved; `Receipt.counter` of that history."""
    return sum(entry.kind in ("scope", "granted", "corrected")
               or (entry.kind == "aborted" and entry.body.get("touched") is False)
               for entry in entries)
