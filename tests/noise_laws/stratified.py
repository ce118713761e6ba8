"""Words for the samplers that fill [0, 2**64) evenly, and a source of noise that uses them.

A deck of N stratified words has one word in each of N equal parts of [0, 2**64), at a random
place of its part, in random order. docs/proofs/noise-law.md says what follows. Everything is
repeatable: nothing drawn here protects anybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privledger.noise.seeded import SeededSource
from privledger.noise.source import SystemSource

Deck = NDArray[np.uint64]


def strata(size: int, random: SeededSource) -> Deck:
    """One word of each of `size` equal parts of [0, 2**64), shuffled; `size` is below 2**32."""
    if size < 2:
        return random.integers64(size)
    words = in_order(size, random)
    return words[np.argsort(random.integers64(size))]


def in_order(size: int, random: SeededSource) -> Deck:
    """As `strata`, in rising order; `size` is from 2 to 2**32 - 1."""
    place = np.arange(size + 1, dtype=np.uint64)
    whole, rest = divmod(1 << 64, size)
    # Part k begins at floor(k 2**64 / size); no product below overflows but the last one, which
    # is 2**64 and is not used.
    odd = place * np.uint64(rest) // np.uint64(size)
    low = place[:-1] * np.uint64(whole) + odd[:-1]
    return low + random.integers64(size) % (np.uint64(whole) + odd[1:] - odd[:-1])


class Dealer:
    """Hands out a deck in order; after its end every batch has a stratified deck of its own.

    Attributes:
        rounds: batches after the deck's end.
        overdrawn: whether a batch began in the deck and went on behind its end.
    """

    def __init__(self, deck: Deck, random: SeededSource, *, singles: bool = False) -> None:
        """`singles`: whether a word that is asked for alone is the deck's next one. Otherwise
        it is the extension of an earlier word, and comes from beside the deck."""
        self._deck, self._random, self._singles, self._next = deck, random, singles, 0
        self.rounds, self.overdrawn = 0, False

    @property
    def clean(self) -> bool:
        """Whether the whole deck was dealt, and no batch passed its end."""
        return self._next == len(self._deck) and not self.overdrawn

    def __call__(self, size: int) -> Deck:
        left = len(self._deck) - self._next
        if not size or (size == 1 and not (self._singles and left)):
            self.rounds += size if not left else 0
            return self._random.integers64(size)
        if not left:
            self.rounds += 1
            return strata(size, self._random)
        found = self._deck[self._next : self._next + size].copy()
        self._next += len(found)
        if len(found) < size:
            self.overdrawn = True
            return np.concatenate([found, self._random.integers64(size - len(found))])
        return found


class DealtSource(SystemSource):
    """The operating system's source in everything but its words. NOT PRIVATE."""

    private = False

    def __init__(self, deal: Dealer) -> None:
        super().__init__()
        self._deal = deal

    def describe(self) -> str:
        """One line for reports and records."""
        return "NOT PRIVATE (words of a test of the noise)"

    def _words(self, size: int) -> Deck:
        return self._deal(size)
