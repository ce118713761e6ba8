"""Plain values in messages: texts, lists, whole numbers, and arrays as bytes. Checked when read."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privledger.errors import IsolationError, UnsupportedNode
from privledger.rounding import count

# Whether a public record holds plain values only, and arrays that stay as they were checked.
#
# A number of a stranger's own make is asked to calculate with private arrays: `array - center`
# hands it the array. So exact types, as for the records themselves.

_PLAIN = frozenset({bool, int, float, str, type(None), *np.sctypeDict.values()} - {np.object_})


def is_plain(what: Any) -> bool:
    """Whether every field is a plain value, a tuple of such, or an array of numbers."""
    fields = getattr(type(what), "__attrs_attrs__", ())
    return all(_plain(getattr(what, one.name)) for one in fields)


def _plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(_plain(item) for item in value)
    if type(value) is np.ndarray:
        return value.dtype.kind in "biuf"
    return is_plain_value(value)


def is_plain_value(value: Any) -> bool:
    """Whether it is a number or a text of Python's or numpy's own, or None."""
    return type(value) in _PLAIN


def fixed(table: Any) -> NDArray[Any]:
    """A copy that cannot be changed."""
    held = np.ascontiguousarray(table)
    if not held.size:
        return np.zeros(held.shape, held.dtype)
    # Backed by bytes: it was checked once, and it cannot be made writable again.
    return np.frombuffer(held.tobytes(), held.dtype).reshape(held.shape)


def refuse(what: object) -> NoReturn:
    """Raise `UnsupportedNode`: this is of no kind whose sensitivity is derived."""
    raise UnsupportedNode(f"no derived sensitivity for {type(what).__name__}; use data.custom, "
                          "which is recorded as asserted. Nothing was read")


Json = dict[str, Any]
MOST_CELLS = 1_000_000
_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(f"<{name}") for name in ("f8", "i4", "i8", "u1", "u2", "u4", "u8")}


def bytes_out(data: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(data).decode("ascii")


def bytes_in(wire: Json, key: str) -> bytes:
    """The inverse of `bytes_out`."""
    try:
        return base64.b64decode(text_field(wire, key), validate=True)
    except (binascii.Error, ValueError):
        raise IsolationError(f"{key} must be bytes in base64") from None


def array_out(array: Any) -> Json:
    """An array of numbers as its kind, its shape, and its bytes in base64."""
    held = np.asarray(array)
    dtype = _DTYPES.get(f"{held.dtype.kind}{held.dtype.itemsize}", _DTYPES["f8"])
    data = np.ascontiguousarray(held, dtype=dtype).tobytes()
    return {"dtype": f"{dtype.kind}{dtype.itemsize}", "shape": list(held.shape),
            "data": base64.b64encode(data).decode("ascii")}


def array_in(value: Any, kinds: str = "f") -> NDArray[Any]:
    """The inverse of `array_out`; a private copy of exactly the bytes that were sent."""
    wire = table(value)
    dtype = _DTYPES.get(text_field(wire, "dtype"))
    shape = tuple(count("shape", size, least=0) for size in items(wire, "shape"))
    if dtype is None or dtype.kind not in kinds or len(shape) > 2:
        raise IsolationError("an array of an unexpected kind or with too many dimensions")
    try:
        data = base64.b64decode(text_field(wire, "data"), validate=True)
    except (binascii.Error, ValueError):
        raise IsolationError("an array whose bytes are not base64") from None
    if len(data) != dtype.itemsize * (shape[0] if shape else 1) * (
            shape[1] if len(shape) == 2 else 1):
        raise IsolationError("an array whose bytes do not fit its shape")
    found: NDArray[Any] = np.frombuffer(data, dtype).reshape(shape)
    return found.astype(dtype.newbyteorder("="))


def table(value: Any) -> Json:
    """An object of a message. Raises `IsolationError` for anything else."""
    if not isinstance(value, dict):
        raise IsolationError("an object was expected")
    return value


def text_field(wire: Json, key: str, limit: int | None = None) -> str:
    """A text of a message, cut to `limit` characters. Raises `IsolationError` if it is none."""
    value = wire.get(key)
    if not isinstance(value, str):
        raise IsolationError(f"{key} must be a text")
    return value[:limit]


def items(wire: Json, key: str, most: int = 100_000) -> list[Any]:
    """A list of at most `most` items. Raises `IsolationError` if it is none, or longer."""
    value = wire.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise IsolationError(f"{key} must be a list of at most {most}")
    return value


def whole(wire: Json, key: str, most: int = MOST_CELLS) -> int:
    """A whole number from 0 to `most`. Raises `InvalidValue` for anything else."""
    return count(key, wire.get(key), least=0, most=most)
