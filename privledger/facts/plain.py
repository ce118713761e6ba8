"""Whether a public record holds plain values only, and arrays that stay as they were checked.

A number of a stranger's own make is asked to calculate with private arrays: `array - center`
hands it the array. So exact types, as for the records themselves.
"""

from __future__ import annotations

from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode

_PLAIN = frozenset({bool, int, float, str, type(None), *np.sctypeDict.values()} - {np.object_})


def is_plain(what: Any, *others: str, own: frozenset[type] = frozenset()) -> bool:
    """Whether every field but the `others` is a plain value, of an `own` type, a tuple of such,
    or an array of numbers."""
    fields = attrs.fields(type(what)) if attrs.has(type(what)) else ()
    return all(_plain(getattr(what, one.name), own) for one in fields if one.name not in others)


def _plain(value: Any, own: frozenset[type]) -> bool:
    if type(value) is tuple:
        return all(_plain(item, own) for item in value)
    if type(value) is np.ndarray:
        return value.dtype.kind in "biuf"
    return type(value) in _PLAIN or type(value) in own


def fixed(table: Any) -> NDArray[Any]:
    """A copy that nobody can change."""
    held = np.ascontiguousarray(table)
    if not held.size:
        return np.zeros(held.shape, held.dtype)
    # Backed by bytes: it was checked once, and nobody can make it writable again.
    return np.frombuffer(held.tobytes(), held.dtype).reshape(held.shape)


def refuse(what: object) -> NoReturn:
    """Raise `UnsupportedNode`: this is of no kind whose sensitivity is derived."""
    raise UnsupportedNode(f"no derived sensitivity for {type(what).__name__}; use data.custom, "
                          "which is recorded as asserted. Nothing was read")
