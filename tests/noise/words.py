"""Words of random bits that a test lays out."""

import numpy as np
from numpy.typing import NDArray


class Chosen:
    """A word stream for tests: the given words first, then a fixed generator."""

    def __init__(self, *words: int, seed: int = 0) -> None:
        self._first, self._generator = list(words), np.random.default_rng(seed)
        self.taken = 0

    def __call__(self, size: int) -> NDArray[np.uint64]:
        self.taken += size
        head, self._first = self._first[:size], self._first[size:]
        tail = self._generator.integers(0, 1 << 64, size=size - len(head), dtype=np.uint64)
        return np.concatenate([np.array(head, dtype=np.uint64), tail])
