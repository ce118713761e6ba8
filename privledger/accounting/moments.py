"""Moments of a privacy loss without cancellation.

If `L` is the privacy loss under the first of two distributions, then E[exp(-L)] = 1 - r, where r
is mass of the second that the first lacks, so with beta = order - 1

    E[exp(beta L)] - 1 = E[gain(L, beta)] + beta r,
    gain(L, beta) = expm1(beta L) + beta expm1(-L)
                  = excess(beta L) + beta excess(-L),   excess(t) = exp(t) - 1 - t.

Both parts are non-negative, so a Renyi bound of 1e-15 keeps all its digits: the terms of first
order, which would cancel in floating point, never appear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MARGIN = 1.0 + 1e-13
"""Covers the rounding of a few dozen elementary operations, each good to a few ulp."""

_SERIES_BELOW = 0.25
_TERMS = range(14, 2, -1)


T = TypeVar("T")


def by_doubling(one: T, count: int, joined: Callable[[T, T], T]) -> T:
    """`one`, joined with itself so often: a power of two is twice the one before."""
    found = list[T]()
    while count:
        if count & 1:
            found.append(one)
        count >>= 1
        one = joined(one, one) if count else one
    return reduce(joined, found)


def excess(value: Array) -> Array:
    """exp(value) - 1 - value, to a few ulp for every sign and size below 709."""
    small = np.abs(value) < _SERIES_BELOW
    many = np.count_nonzero(small)
    if not many:
        return np.asarray(np.expm1(value) - value)
    near = value[small]
    series = np.ones_like(near)
    for term in _TERMS:  # in place: 1 + near * series / term
        series *= near
        series /= term
        series += 1.0
    near = np.asarray(0.5 * near * near * series)
    if many == value.size:
        return near.reshape(value.shape)
    far = np.where(small, 1.0, value)
    found = np.asarray(np.expm1(far) - far)
    found[small] = near
    return found


def moment_gain(loss: Array, beta: Array) -> Array:
    """expm1(beta * loss) + beta * expm1(-loss), without cancellation."""
    return excess(beta * loss) + beta * excess(-loss)


def log_gain(loss: Array, beta: Array) -> Array:
    """Logarithm of `gain`, never below it, finite for every finite loss except 0.

    For a loss above zero gain <= exp(beta * loss), which replaces it where exp would overflow.
    """
    product = beta * loss
    huge = product > 600.0
    with np.errstate(divide="ignore"):
        log = np.log(moment_gain(np.where(huge, 0.0, loss), beta))
    return np.where(huge, product, log)


def log_mix(value: Array, rate: float) -> Array:
    """log(1 - rate + rate exp(value)), to a few ulp of the larger of 1 and the result.

    Needs 1e-200 <= rate <= 1.
    """
    low = np.minimum(value, 500.0)
    shift = rate * np.expm1(low)
    near_one = np.log1p(np.maximum(shift, -0.5))
    # 1 + shift loses the digits of 1 - rate when the rate is close to 1.
    with np.errstate(divide="ignore"):
        small = np.log((1 - rate) + rate * np.exp(low))
    return np.where(value > 500.0, value + np.log(rate),
                    np.where(shift < -0.5, small, near_one))


def raise_bounds(bounds: Array) -> Array:
    """Move computed bounds up by the margin; zero stays zero, no result is subnormal."""
    with np.errstate(over="ignore"):
        raised = np.nextafter(bounds * MARGIN, np.inf)
    return np.where(bounds == 0, 0.0, np.maximum(raised, np.finfo(np.float64).tiny))
