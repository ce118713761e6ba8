"""Powers of a transform that is close to 1: many rounds, each of which loses next to nothing.

A power n multiplies the rounding of a transform by n. Where nearly all mass lies at losses near
0, the transform less 1 is a sum of p (exp(i x) - 1), small terms that keep their digits.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.bands import UNIT

Complex = NDArray[np.complex128]
LEAST_COUNT = 4096
_NEAR = 2048  # lattice points on either side of 0
_FEWEST = 64
_TERMS = 3_000_000
_ROWS = 128


@frozen(eq=False)
class Close:
    """The transform less 1 at the frequencies `at`, each off by at most `error` (absolute)."""

    at: NDArray[np.int64]
    less_one: Complex
    error: Array

    def power(self, count: int, size: int) -> tuple[Complex, Array]:
        """The power, zero at all other frequencies; and the relative error where it is not."""
        a, b = self.less_one.real, self.less_one.imag
        with np.errstate(divide="ignore"):
            log_size = 0.5 * np.log1p(np.maximum(2 * a + a * a + b * b, -1.0))
        turn = np.arctan2(b, 1 + a)
        result = np.zeros(size // 2 + 1, dtype=np.complex128)
        result[self.at] = np.exp(np.maximum(count * log_size, -700.0)) * np.exp(1j * count * turn)
        length = np.sqrt((1 + a) ** 2 + b * b)
        own = self.error + 16 * UNIT * (np.abs(a) + np.abs(b) + a * a + b * b)
        relative = np.zeros(size // 2 + 1)
        relative[self.at] = np.expm1(np.minimum(
            count * own / np.maximum(length - self.error, 1e-300) * (1 + 1e-9), 50.0)) + 64 * UNIT
        return result, relative


def close(
    tilted: Array, at: NDArray[np.int64], half: int, transform: Complex, fft_error: float
) -> Close:
    """The transform of `tilted` less 1 at the frequencies `at`.

    Args:
        tilted: masses on the circle, shape (size,), with the sum 1 to a few roundings.
        half: how many masses on either side of 0 are near it.
        transform: of `tilted` without those. fft_error: bound on its error at any frequency.
    """
    size = len(tilted)
    steps = np.arange(1, half + 1)  # a mass and the one opposite of 0 share sine and cosine
    ahead, behind = np.append(tilted[1:half], 0.0), tilted[:-half - 1:-1]
    both, odd = ahead + behind, ahead - behind
    far = float(tilted[half:-half].sum())
    less_one = np.empty(len(at), dtype=np.complex128)
    moved = np.empty(len(at))
    for start in range(0, len(at), _ROWS):
        rows = slice(start, start + _ROWS)
        turn = at[rows, None] * steps % size  # exact, in whole numbers
        angle = np.where(2 * turn > size, turn - size, turn) * (2 * math.pi / size)
        less_one[rows] = (-2 * (both * np.sin(0.5 * angle) ** 2).sum(axis=1)
                          - 1j * (odd * np.sin(angle)).sum(axis=1))
        moved[rows] = (both * np.abs(angle)).sum(axis=1)
    less_one += transform[at] - far
    # Sums by halves of up to 2,048 terms, each product a few roundings; the sum of `far` alike.
    return Close(at, less_one, 64 * UNIT * (moved + 2 * far) + fft_error)


def near(size: int, frequencies: int) -> int:
    """How many masses on either side of 0 are taken one by one; 0 if that takes too long."""
    half = min(_NEAR, size // 4, _TERMS // max(1, frequencies))
    return half if half >= _FEWEST else 0
