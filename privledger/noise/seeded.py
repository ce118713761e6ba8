"""Repeatable noise for simulations. Nothing drawn here protects a person."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privledger.noise import samplers
from privledger.noise.source import ExactSource
from privledger.rounding import count

Generator: TypeAlias = np.random.Generator


def generator(*seeds: int) -> Generator:
    """Repeatable public randomness for tests and audits: never noise that protects a person."""
    return np.random.default_rng(seeds)


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Public randomness that repeats, also where no seed was given: for tests of learners.

    A ledger's own noise does not come from here and stays fresh.
    """
    make: Any = np.random.default_rng
    state, old = random.getstate(), np.random.get_state()

    def default_rng(given: Any = None) -> np.random.Generator:
        found: np.random.Generator = make(seed if given is None else given)
        return found

    np.random.default_rng = default_rng  # type: ignore[assignment]
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        np.random.default_rng = make
        np.random.set_state(old)
        random.setstate(state)


class SeededCoins(ExactSource):
    """Coins of a simulation: the noise that follows is as if none were drawn, as with an engine,
    whose workers draw them.

    Args:
        of: a generator of their own.
    """

    private = False

    def __init__(self, of: Generator) -> None:
        self._generator = of

    def _words(self, size: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 1 << 64, size=size, dtype=np.uint64)


class SeededSource(SeededCoins):
    """The NoiseSource protocol over a NumPy generator: for simulation and tests only.

    Floats rounded to integers, from a generator that the seed repeats.

    Raises:
        InvalidValue: `seed` is not a whole number of at least 0.

    >>> SeededSource(7).describe()
    'NOT PRIVATE (simulation, seed 7)'
    """

    def __init__(self, seed: int) -> None:
        self._seed = count("seed", seed, least=0)
        super().__init__(np.random.default_rng(self._seed))
        self._apart = 0
        self._coins = SeededCoins(np.random.default_rng((self._seed, 0, 1)))

    @property
    def coins(self) -> SeededCoins:
        """As `NoiseSource.coins`."""
        return self._coins

    def apart(self, size: int) -> NDArray[np.uint64]:
        """Words of a generator of their own: the noise that follows is as if none were drawn."""
        self._apart += 1
        words = np.random.default_rng((self._seed, self._apart))
        return words.integers(0, 1 << 64, size=count("size", size, least=0), dtype=np.uint64)

    def describe(self) -> str:
        """One line for reports and records."""
        return f"NOT PRIVATE (simulation, seed {self._seed})"

    def gaussian(self, sigma: object, size: int) -> NDArray[np.int64]:
        """Rounded normal floats; `sigma` in grid steps, checked as by SystemSource."""
        size = count("size", size, least=0)
        scale = samplers.checked_scale("sigma", sigma, size)
        return np.rint(self._generator.standard_normal(size) * scale).astype(np.int64)

    def laplace(self, scale: object, size: int) -> NDArray[np.int64]:
        """Rounded Laplace floats; `scale` in grid steps, checked as by SystemSource."""
        size = count("size", size, least=0)
        checked = samplers.checked_scale("scale", scale, size)
        return np.rint(self._generator.laplace(size=size) * checked).astype(np.int64)
