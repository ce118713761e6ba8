"""Values and texts made safe for a terminal and for JSON."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import attrs

from privledger.ledger.view_figures import Figure

# Control, format (bidirectional overrides among them), surrogate, private use, line breaks.
_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean(text: object, limit: int = 400) -> str:
    """Text that cannot move the cursor, change colours or reorder what is shown.

    >>> clean("a\\x1b[31mb\\nc")
    'a?[31mb?c'
    """
    safe = str(text)[: limit + 1]
    if not (safe.isascii() and safe.isprintable()):
        safe = "".join("?" if unicodedata.category(sign) in _UNSAFE else sign for sign in safe)
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."


def plain(value: Any) -> Any:
    """JSON values: records become objects; infinity and NaN, which JSON lacks, become words.

    A figure becomes its number.
    """
    if isinstance(value, Figure):
        return plain(value.value)
    if attrs.has(type(value)):
        return {a.name: plain(getattr(value, a.name)) for a in attrs.fields(type(value))
                if not a.name.startswith("_")}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return _number(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return float(value)
