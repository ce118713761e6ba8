"""Receipts that lie beside a ledger's place: whether somebody has seen the ledger that is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from privledger.errors import PrivledgerError
from privledger.reports.receipt import load_receipt

MOST_BYTES = 1 << 20  # what `run --format json` prints with a plan in it is far smaller
MOST_FILES = 2000


def receipt_of(place: str | Path, *more: str | Path | None) -> Path | None:
    """A receipt of the ledger at `place`, among the JSON files of its folder and `more`.

    A receipt names its ledger by the `ledger` written in it or beside it; without one, by its
    own name: `study.receipt.json`, `study.ledger.json` and `receipt.json` for `study.ledger`.
    """
    ledger = Path(place)
    beside = _json_files(ledger.absolute().parent)
    named = [Path(path) for path in more if path is not None]
    return next((path for path in (*named, *beside) if _is_small(path) and _names(path, ledger)),
                None)


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))[:MOST_FILES]
    except OSError:
        return []


def _is_small(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def _names(path: Path, ledger: Path) -> bool:
    try:
        load_receipt(path)
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (PrivledgerError, OSError, ValueError, RecursionError):
        return False
    written = value.get("ledger")
    if isinstance(written, str):
        return Path(written).name == ledger.name
    own = re.compile(rf"(({re.escape(ledger.name)}|{re.escape(ledger.stem)})([._-].*)?|receipt)"
                     r"\.json", re.IGNORECASE)
    return own.fullmatch(path.name) is not None
