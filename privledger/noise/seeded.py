"""Repeatable noise for simulations. Nothing drawn here protects anybody."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privledger.noise import discrete, exact_choice, samplers, top_k
from privledger.rounding import count

Generator: TypeAlias = np.random.Generator


def generator(*seeds: int) -> Generator:
    """Repeatable public randomness for tests and audits: never noise that protects anybody."""
    return np.random.default_rng(seeds)


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Public randomness that repeats, also where nobody gave a seed: for tests of learners.

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


class SeededSource:
    """The NoiseSource protocol over a NumPy generator: for simulation and tests only.

    Floats rounded to integers, from a generator that anybody with the seed can repeat.

    Raises:
        InvalidValue: `seed` is not a whole number of at least 0.

    >>> SeededSource(7).describe()
    'NOT PRIVATE (simulation, seed 7)'
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = count("seed", seed, least=0)
        self._generator = np.random.default_rng(self._seed)
        self._apart = 0

    def apart(self, size: int) -> NDArray[np.uint64]:
        """Words of a generator of their own: the noise that follows is as if none were drawn."""
        self._apart += 1
        words = np.random.default_rng((self._seed, self._apart))
        return words.integers(0, 1 << 64, size=count("size", size, least=0), dtype=np.uint64)

    def describe(self) -> str:
        """One line for reports and records."""
        return f"NOT PRIVATE (simulation, seed {self._seed})"

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, shape (size,)."""
        size = count("size", size, least=0)
        return self._generator.integers(0, 1 << 64, size=size, dtype=np.uint64)

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

    def discrete_laplace(self, parameter: float, size: int) -> NDArray[np.int64]:
        """Exactly the discrete law; see `discrete.discrete_laplace`."""
        size = count("size", size, least=0)
        return discrete.discrete_laplace(parameter, size, self.integers64)

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        """Exactly the discrete law; see `discrete.discrete_gaussian`."""
        size = count("size", size, least=0)
        return discrete.discrete_gaussian(sigma, size, self.integers64)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Coins, true with probability `rate`."""
        return samplers.bernoulli(rate, count("size", size, least=0), self.integers64)

    def integer_below(self, bound: int) -> int:
        """Uniform on 0, ..., bound - 1."""
        return samplers.integer_below(bound, self.integers64)

    def uniform_below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exactly uniform below each bound; see `exact_choice.uniform_below`."""
        return exact_choice.uniform_below(bounds, self.integers64)

    def choose(
        self, scores: NDArray[np.float64], weights: NDArray[np.int64],
        starts: NDArray[np.int64], rate: float,
    ) -> NDArray[np.int64]:
        """Exactly the exponential mechanism's law in each segment; see `exact_choice.choose`."""
        return exact_choice.choose(scores, weights, starts, rate, self.integers64)

    def permute_and_flip(
        self, scores: NDArray[np.float64], starts: NDArray[np.int64], rate: float
    ) -> NDArray[np.int64]:
        """Exactly permute-and-flip's law; see `exact_choice.permute_and_flip`."""
        return exact_choice.permute_and_flip(scores, starts, rate, self.integers64)

    def randomized_response(
        self, codes: NDArray[np.int64], buckets: int, noise_parameter: float
    ) -> NDArray[np.int64]:
        """Never less noise than asked for; see `exact_choice.randomized_response`."""
        return exact_choice.randomized_response(codes, buckets, noise_parameter, self.integers64)

    def top_k(
        self, scores: NDArray[np.float64], k: int, rate: float,
        noise: Literal["exponential", "gumbel"], gamma: float = 0.5,
    ) -> NDArray[np.int64]:
        """Exactly the canonical Lipschitz mechanism's set, sorted; see `top_k.top_k`."""
        return top_k.top_k(scores, k, rate, noise, self.integers64, gamma=gamma)
