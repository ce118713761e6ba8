"""What a ledger keeps of a person: HMAC-SHA256 of the id under the owner's key, cut to 16 bytes.

Whoever has the key can look a person up, and try guesses; whoever lacks it learns how many people
there are, and which of them are in two places under one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privledger.people.keys import PeopleKey

SIZE = 16
"""Bytes of a digest. Two of 10^9 people share one with a chance below 10^-20."""

PURPOSE = b"privledger person 1:"

Digests: TypeAlias = NDArray[np.uint64]
"""Shape (n, 2): sixteen bytes as two numbers that compare as the bytes do."""


def digests(key: PeopleKey, ids: Sequence[str]) -> Digests:
    """Digests of ids as `spelt`."""
    return from_bytes(b"".join(key.marks(PURPOSE, ids, SIZE)))


def from_bytes(data: bytes) -> Digests:
    """Digests in a row of bytes."""
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)


def to_bytes(found: Digests) -> bytes:
    """The inverse of `from_bytes`."""
    return found.astype(">u8").tobytes()
