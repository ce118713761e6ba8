"""Private coins from a key: the same for a record whenever its chunk is answered again.

A chunk may be answered twice, after a crash or by two machines. Coins drawn afresh would put one
person into two parts, and a sample drawn twice is no longer the sample that was priced. So the
coins of one context are the words of one keyed stream (SHAKE-256 over key, context and chunk);
the key is 32 bytes of the ledger's own source. docs/proofs/chunks.md, "Coins".
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.noise.samplers import threshold
from privledger.rounding import count

KEY_BYTES: Final = 32


@define(eq=False, repr=False)
class KeyedCoins:
    """Coins of one chunk in one context. Every draw goes on where the last one stopped.

    Attributes:
        key: 32 secret bytes. context: what the coins are for. chunk: number of the chunk.
    """

    key: bytes
    context: str
    chunk: int
    _draws: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise InvalidValue("key", f"{len(self.key)} bytes", f"{KEY_BYTES} bytes")
        count("chunk", self.chunk, least=0)

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, shape (size,)."""
        held = self._bytes("words", 8 * count("size", size, least=0))
        return np.frombuffer(held, dtype="<u8").astype(np.uint64)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Coins, true with probability `rate` rounded down to a multiple of 2**-64.

        The first byte of a word decides, except where it equals the threshold's: the other seven
        bytes of that word are drawn then. The law is that of whole words.
        """
        size, limit = count("size", size, least=0), threshold(rate)
        if limit >> 64:
            return np.ones(size, dtype=np.bool_)
        first = np.frombuffer(self._bytes("first", size), dtype=np.uint8)
        high = limit >> 56
        coins: NDArray[np.bool_] = first < high
        tied = np.flatnonzero(first == high)
        rest = np.frombuffer(self._bytes("rest", 8 * len(tied)), dtype="<u8")
        coins[tied] = (rest >> np.uint64(8)) < np.uint64(limit & ((1 << 56) - 1))
        return coins

    def _bytes(self, purpose: str, size: int) -> bytes:
        self._draws += 1
        name = f"{self.context}\0{self.chunk}\0{self._draws}\0{purpose}"
        return hashlib.shake_256(self.key + name.encode()).digest(size)
