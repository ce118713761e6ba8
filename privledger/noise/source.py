"""Where noise comes from: the NoiseSource protocol and operating-system entropy."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Final, Literal, Protocol, runtime_checkable

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.mutex import Uncopied
from privledger.noise import discrete, exact_choice, samplers, top_k
from privledger.noise.samplers import threshold
from privledger.rounding import count

_BUFFER_BYTES = 1 << 16  # one system call per 8192 words; a small batch cannot afford its own


class Coins(Protocol):
    """Private coins: what is drawn for each record, and never released."""

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, shape (size,)."""

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Coins, true with probability `rate` or less by under 2**-64."""


@runtime_checkable
class NoiseSource(Protocol):
    """Independent draws. Scales are in grid steps: one number, or an array of shape (size,)."""

    @property
    def private(self) -> bool:
        """Whether a release with this noise may be called private."""

    @property
    def coins(self) -> Coins:
        """What private coins are drawn from."""

    def describe(self) -> str:
        """One line for reports and records."""

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, shape (size,)."""

    def gaussian(self, sigma: object, size: int) -> NDArray[np.int64]:
        """N(0, sigma^2) rounded to whole grid steps, shape (size,)."""

    def laplace(self, scale: object, size: int) -> NDArray[np.int64]:
        """Laplace noise, density exp(-|x|/scale) / (2 scale), rounded to whole grid steps."""

    def discrete_laplace(self, parameter: float, size: int) -> NDArray[np.int64]:
        """Whole numbers with mass proportional to exp(-parameter |x|), shape (size,)."""

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        """Whole numbers with mass proportional to exp(-x^2 / (2 sigma^2)), shape (size,)."""

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Coins, true with probability `rate` or less by under 2**-64."""

    def integer_below(self, bound: int) -> int:
        """Uniform on 0, 1, ..., bound - 1."""

    def uniform_below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each bound a uniform draw from 0, 1, ..., bound - 1."""

    def choose(
        self, scores: NDArray[np.float64], weights: NDArray[np.int64],
        starts: NDArray[np.int64], rate: float,
    ) -> NDArray[np.int64]:
        """One position of each segment, with probability ~ weight * exp(rate * score)."""

    def permute_and_flip(
        self, scores: NDArray[np.float64], starts: NDArray[np.int64], rate: float
    ) -> NDArray[np.int64]:
        """One position of each segment, by permute-and-flip."""

    def randomized_response(
        self, codes: NDArray[np.int64], buckets: int, noise_parameter: float
    ) -> NDArray[np.int64]:
        """Each code, or with probability `noise_parameter` a uniform draw from the buckets."""

    def top_k(
        self, scores: NDArray[np.float64], k: int, rate: float,
        noise: Literal["exponential", "gumbel"], gamma: float = 0.5,
    ) -> NDArray[np.int64]:
        """k candidates by the canonical Lipschitz mechanism, in rising order."""


class _Pool:
    """Buffered entropy of one process. Used words are wiped, so they cannot be read later."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._words = np.zeros(0, dtype=np.uint64)
        self._next = 0

    def take(self, size: int) -> NDArray[np.uint64]:
        # Nothing waits here: not for a thread that was interrupted or lost in a fork.
        if 8 * size >= _BUFFER_BYTES or not self._lock.acquire(blocking=False):
            return _fresh(size)
        try:
            return self._cut(size)
        finally:
            self._lock.release()

    def _cut(self, size: int) -> NDArray[np.uint64]:
        first = self._next
        if len(self._words) - first < size:
            self._next = _BUFFER_BYTES  # past the end, until the new words are there
            self._words = _fresh(_BUFFER_BYTES // 8)
            first = 0
        # Moved on before anything is wiped: an interrupt in between must not leave wiped words
        # for the next release.
        self._next = first + size
        used = self._words[first : first + size]
        words = used.copy()
        used.fill(0)
        return words


def _fresh(size: int) -> NDArray[np.uint64]:
    return np.frombuffer(bytearray(os.urandom(8 * size)), dtype=np.uint64)


class ExactSource:
    """What every source draws exactly from the uniform words that it has."""

    @property
    def coins(self) -> Coins:
        """As `NoiseSource.coins`: the same words as its noise."""
        return self

    def _words(self, size: int) -> NDArray[np.uint64]:
        raise NotImplementedError

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """Uniform words, shape (size,). Raises InvalidValue unless size is whole and >= 0."""
        return self._words(count("size", size, least=0))

    def discrete_laplace(self, parameter: float, size: int) -> NDArray[np.int64]:
        """Exactly the discrete law; see `discrete.discrete_laplace`."""
        size = count("size", size, least=0)
        return discrete.discrete_laplace(parameter, size, self._words)

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        """Exactly the discrete law; see `discrete.discrete_gaussian`."""
        size = count("size", size, least=0)
        return discrete.discrete_gaussian(sigma, size, self._words)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Coins with probability `rate` rounded down to a multiple of 2**-64.

        Raises:
            InvalidValue: `rate` outside [0, 1] or an impossible size.
        """
        return samplers.bernoulli(rate, count("size", size, least=0), self._words)

    def integer_below(self, bound: int) -> int:
        """Exactly uniform on 0, ..., bound - 1. Raises InvalidValue unless bound >= 1."""
        return samplers.integer_below(bound, self._words)

    def uniform_below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exactly uniform below each bound; see `exact_choice.uniform_below`."""
        return exact_choice.uniform_below(bounds, self._words)

    def choose(
        self, scores: NDArray[np.float64], weights: NDArray[np.int64],
        starts: NDArray[np.int64], rate: float,
    ) -> NDArray[np.int64]:
        """Exactly the exponential mechanism's law in each segment; see `exact_choice.choose`."""
        return exact_choice.choose(scores, weights, starts, rate, self._words)

    def permute_and_flip(
        self, scores: NDArray[np.float64], starts: NDArray[np.int64], rate: float
    ) -> NDArray[np.int64]:
        """Exactly permute-and-flip's law; see `exact_choice.permute_and_flip`."""
        return exact_choice.permute_and_flip(scores, starts, rate, self._words)

    def randomized_response(
        self, codes: NDArray[np.int64], buckets: int, noise_parameter: float
    ) -> NDArray[np.int64]:
        """Never less noise than asked for; see `exact_choice.randomized_response`."""
        return exact_choice.randomized_response(codes, buckets, noise_parameter, self._words)

    def top_k(
        self, scores: NDArray[np.float64], k: int, rate: float,
        noise: Literal["exponential", "gumbel"], gamma: float = 0.5,
    ) -> NDArray[np.int64]:
        """Exactly the canonical Lipschitz mechanism's set, sorted; see `top_k.top_k`."""
        return top_k.top_k(scores, k, rate, noise, self._words, gamma=gamma)


class SystemSource(Uncopied, ExactSource):
    """Exact noise from operating-system entropy. There is no seed, on purpose.

    Safe to share between threads. A forked child starts from an empty buffer. Copies are the
    same object and pickling is refused, since two holders of one buffer would draw equal noise.

    Assumes `os.urandom` is uniform and independent. A virtual machine that is resumed twice
    from one snapshot may repeat up to 64 KiB of buffered words.

    >>> source = SystemSource()
    >>> source.gaussian(2.5, 4).shape
    (4,)
    """

    private = True
    _UNPICKLED = "a SystemSource cannot be pickled: its noise would be drawn twice"

    def __init__(self) -> None:
        self._pool = _Pool()
        _sources.add(self)

    def describe(self) -> str:
        """One line for reports and records."""
        return "operating-system entropy, exact rounded noise"

    def gaussian(self, sigma: object, size: int) -> NDArray[np.int64]:
        """Exact draws of floor(N(0, sigma^2) + 1/2).

        Args:
            sigma: standard deviation in grid steps, at most 2**52; a number, or an array of
                shape (size,). The float is taken as exactly the number it is.
            size: number of draws, zero allowed.

        Raises:
            InvalidValue: an impossible sigma or size.
            PrivledgerError: a magnitude over 2**62 or a broken entropy source, both of
                probability below 2**-1400.
        """
        size = count("size", size, least=0)
        scale = samplers.checked_scale("sigma", sigma, size)
        return samplers.rounded(samplers.GAUSSIAN, scale, size, self._words)

    def laplace(self, scale: object, size: int) -> NDArray[np.int64]:
        """Exact draws of floor(L + 1/2), L of density exp(-|x|/scale) / (2 scale).

        Arguments and errors as for `gaussian`.
        """
        size = count("size", size, least=0)
        checked = samplers.checked_scale("scale", scale, size)
        return samplers.rounded(samplers.LAPLACE, checked, size, self._words)

    def _words(self, size: int) -> NDArray[np.uint64]:
        pool = self._pool
        # The fork hook misses children made outside Python; the process number does not.
        if pool.process != os.getpid():
            pool = self._pool = _Pool()
        return pool.take(size)


_sources: weakref.WeakSet[SystemSource] = weakref.WeakSet()


def _forget_buffers() -> None:
    """Runs in a forked child. A new pool also has a new lock: another thread may have held it."""
    for source in list(_sources):
        source._pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_buffers)


# Private coins from a key: the same for a record whenever its chunk is answered again.
#
# A chunk may be answered twice, after a crash or by two machines. Coins drawn afresh would put one
# person into two parts, and a sample drawn twice is no longer the sample that was priced. So the
# coins of one context are the words of one keyed stream (SHAKE-256 over key, context and chunk);
# the key is 32 bytes of the ledger's own source. docs/proofs/chunks.md, "Coins".

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
