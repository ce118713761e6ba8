"""Per-record vectors of a settlement <-> bytes in the store. Confidential: they give a length."""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import LedgerCorrupt


def pack(taken: NDArray[np.int64], rounds: NDArray[np.int32]) -> bytes:
    """A per-record vector for the store: units taken, then rounds, compressed."""
    header = np.array([len(taken)], dtype="<i8").tobytes()
    return zlib.compress(header + taken.astype("<i8").tobytes() + rounds.astype("<i4").tobytes(), 1)


def unpack(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The inverse of `pack`."""
    try:
        raw = zlib.decompress(data)
    except zlib.error:
        raise LedgerCorrupt("a per-record vector is damaged") from None
    (n,) = np.frombuffer(raw[:8], dtype="<i8")
    taken = np.frombuffer(raw[8 : 8 + 8 * n], dtype="<i8").astype(np.int64)
    return taken, np.frombuffer(raw[8 + 8 * n :], dtype="<i4").astype(np.int32)


def vector_note(name: str, data: bytes) -> dict[str, Any]:
    """What the settlement says about a vector, so that an edited one is found."""
    return {"name": name, "sha256": sha256(data).hexdigest()}
