"""Exact discrete Laplace and discrete Gaussian noise: whole numbers by their own law.

Floats decide with a margin that covers their own error; what the margin leaves open is decided by
integer arithmetic. See docs/proofs/exact-noise.md, "Discrete noise".
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue, PrivledgerError
from privledger.noise.highprecision import LazyUniform, laplace_survival, rounded_whole
from privledger.noise.samplers import MARGIN, Words
from privledger.rounding import positive

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST = 2.0**50
"""Of sigma, and of 1/parameter: magnitudes over 2**62 then have probability below 2**-1400."""
SMALLEST = 2.0**-20
"""Of sigma, and of 1/parameter: below, noise other than zero has probability below 2**-1400."""

_FRACTION_BITS = 63
_FEWEST = 1 << 46  # below it V's own interval is too wide for the margin
_MASK = np.uint64((1 << _FRACTION_BITS) - 1)
_CHUNK = 1 << 14
_TRIES = 4096  # each fails with probability below 3/4
_FAR = 1000.0  # exp(-1000) is zero in floats, and below 2**-1400 in truth


def sampled_parameter(parameter: object) -> float:
    """A parameter of discrete Laplace noise that can be drawn; raises `InvalidValue`."""
    checked = positive("parameter", parameter)
    if not 1 / LARGEST <= checked <= 1 / SMALLEST:
        raise InvalidValue("parameter", checked, "from 2**-50 to 2**20")
    return checked


def sampled_sigma(sigma: object) -> float:
    """A sigma of discrete Gaussian noise that can be drawn; raises `InvalidValue`."""
    checked = positive("sigma", sigma)
    if not SMALLEST <= checked <= LARGEST:
        raise InvalidValue("sigma", checked, "from 2**-20 to 2**50")
    return checked


def discrete_laplace(parameter: object, size: int, words: Words, *,
                     margin: float = MARGIN) -> Integers:
    """Exact draws with mass proportional to exp(-parameter |x|), shape (size,).

    Args:
        parameter: from 2**-50 to 2**20, taken as exactly the number it is.
        words: the randomness: one word for each draw, and one more for each time V is extended.
        margin: at least `MARGIN`. Any larger value gives the same draws, more slowly.

    Raises:
        InvalidValue: another parameter.
        PrivledgerError: a magnitude over 2**62, or an entropy source that repeats itself.
    """
    return _laplace(Fraction(sampled_parameter(parameter)), size, words, margin)


def discrete_gaussian(sigma: object, size: int, words: Words, *,
                      margin: float = MARGIN) -> Integers:
    """Exact draws with mass proportional to exp(-x^2 / (2 sigma^2)), shape (size,).

    Discrete Laplace draws, each kept with the ratio of the two masses (Canonne, Kamath,
    Steinke 2020, arXiv:2004.00010v4, algorithm 3). Arguments and errors as above; sigma is from
    2**-20 to 2**50.
    """
    width = sampled_sigma(sigma)
    whole = math.floor(width) + 1
    out = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    for _ in range(_TRIES):
        if not len(left):
            return out
        tried = _laplace(Fraction(1, whole), len(left), words, margin)
        kept = _kept(tried, width, whole, words, margin)
        out[left[kept]] = tried[kept]
        left = left[~kept]
    if len(left):
        raise PrivledgerError("the entropy source repeats itself: no noise was drawn")
    return out


def _laplace(parameter: Fraction, size: int, words: Words, margin: float) -> Integers:
    out = np.empty(size, dtype=np.int64)
    for start in range(0, size, _CHUNK):
        _fill(out[start : start + _CHUNK], parameter, words, margin)
    return out


def _fill(out: Integers, parameter: Fraction, words: Words, margin: float) -> None:
    """One chunk: the largest k with V < P(|X| >= k), and a sign."""
    slope = float(parameter)
    drawn = words(len(out))
    fractions = (drawn & _MASK).view(np.int64)
    middles = (fractions.astype(np.float64) + 0.5) * 2.0**-_FRACTION_BITS
    # P(|X| >= k) = 2 exp(-parameter k) / (1 + exp(-parameter)) for k of at least 1.
    place = (math.log(2.0) - math.log1p(math.exp(-slope)) - np.log(middles)) / slope
    nearest = np.rint(place)
    slack = (np.abs(place) + 2.0 / slope) * margin
    # Written so that NaN counts as undecided.
    undecided = ~((np.abs(place - nearest) > slack) & (fractions >= _FEWEST))
    out[:] = np.maximum(np.floor(place), 0.0)
    for index in np.flatnonzero(undecided).tolist():
        uniform = LazyUniform(int(fractions[index]), _FRACTION_BITS, lambda: int(words(1)[0]))
        out[index] = rounded_whole(uniform, parameter, int(out[index]))
    signs = drawn.view(np.int64) >> 63  # 0, or -1 for a negative draw
    out ^= signs
    out -= signs


def _kept(tried: Integers, sigma: float, whole: int, words: Words,
          margin: float) -> NDArray[np.bool_]:
    """For each draw whether V < exp(-(|x| - sigma^2/t)^2 / (2 sigma^2)), decided exactly."""
    size = np.abs(tried).astype(np.float64)
    middle = sigma / whole * sigma
    away = np.abs(size - middle)
    error = (size + middle) * 2.0**-50
    with np.errstate(over="ignore", under="ignore"):
        far = np.minimum(away / sigma * (away / sigma) / 2, _FAR)
        loose = (away + error) / sigma * (error / sigma) + (far + 1) * 2.0**-48
    mass = np.exp(-far)
    drawn = words(len(tried))
    fraction = drawn.astype(np.float64) * 2.0**-64
    slack = (2 * mass * loose + fraction * 2.0**-51 + 2.0**-62) * (margin / MARGIN)
    heads: NDArray[np.bool_] = fraction < mass
    for i in np.flatnonzero(~((np.abs(fraction - mass) > slack) & (loose < 0.5))).tolist():
        heads[i] = _below(int(drawn[i]), _exponent(abs(int(tried[i])), sigma, whole), words)
    return heads


def _exponent(size: int, sigma: float, whole: int) -> Fraction:
    squared = Fraction(sigma) ** 2
    return (size - squared / whole) ** 2 / (2 * squared)


def _below(word: int, exponent: Fraction, words: Words) -> bool:
    uniform = LazyUniform(word, 64, lambda: int(words(1)[0]))
    return uniform.is_below(lambda precision: laplace_survival(
        exponent.numerator, exponent.denominator, precision))
