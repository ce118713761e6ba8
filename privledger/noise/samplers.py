"""Exact rounded Gaussian and Laplace draws from a stream of random words.

One word gives a sign and 63 bits of a uniform V. Floating point inverts the distribution with
a margin that covers its own error; a draw whose rounding the margin leaves open is decided
by integer arithmetic, with more bits of V where needed. See docs/proofs/exact-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue, PrivledgerError
from privledger.noise.highprecision import (
    LazyUniform,
    Survival,
    gaussian_survival,
    laplace_survival,
    rounded_magnitude,
)
from privledger.rounding import MOST_COUNT, count, positive, probability

Words: TypeAlias = Callable[[int], NDArray[np.uint64]]
"""Given n, returns n fresh uniform 64-bit words."""

Scale: TypeAlias = float | NDArray[np.float64]
"""One scale for all draws, or an array of shape (size,) with one for each."""

MARGIN = 2.0**-44
"""Error allowed to a float quantile x: MARGIN * (1 + x), V's unknown bits included."""

_REPEATS = "the entropy source repeats itself: no number was drawn"

LARGEST_SCALE = 2.0**52
"""In grid steps. Magnitudes over 2**62 then have probability below 2**-1400."""

_FRACTION_BITS = 63
_FEWEST = 1 << 46  # below it V's own interval is too wide for MARGIN; one draw in 2**17
_MAGNITUDE_MASK = np.uint64((1 << _FRACTION_BITS) - 1)
_CHUNK = 1 << 14  # temporaries of 128 KiB stay in the processor's cache
_SMALLEST_SCALE = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SamplerLaw:
    """A symmetric law of scale 1, by its magnitude T."""

    name: str
    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]]  # float inverse of P(T > t)
    survival: Survival  # P(T > t), enclosed in integers


def _gaussian_quantile(tail: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtri  # here, so that tools that only read start fast

    result: NDArray[np.float64] = ndtri(tail * 0.5)
    return np.negative(result, out=result)


def _laplace_quantile(tail: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.log(tail)
    return np.negative(result, out=result)


GAUSSIAN = SamplerLaw("gaussian", _gaussian_quantile, gaussian_survival)
LAPLACE = SamplerLaw("laplace", _laplace_quantile, laplace_survival)


def rounded(
    law: SamplerLaw, scale: Scale, size: int, words: Words, *, margin: float = MARGIN
) -> NDArray[np.int64]:
    """Independent exact draws of floor(scale * X + 1/2), X from `law`.

    Args:
        law: GAUSSIAN (scale = standard deviation) or LAPLACE (scale = b).
        scale: in grid steps, already checked by `checked_scale`.
        size: number of draws.
        words: the randomness: `size` words, and one more for each time V is extended.
        margin: at least MARGIN. Any larger value gives the same draws, more slowly.

    Returns:
        Shape (size,), in grid steps.

    Raises:
        PrivledgerError: a magnitude over 2**62, or an entropy source that repeats itself.
    """
    out = np.empty(size, dtype=np.int64)
    for start in range(0, size, _CHUNK):
        part = slice(start, min(start + _CHUNK, size))
        piece = scale[part] if isinstance(scale, np.ndarray) else scale
        _fill(out[part], law, piece, words, margin)
    return out


def _fill(
    out: NDArray[np.int64], law: SamplerLaw, scale: Scale, words: Words, margin: float
) -> None:
    """Writes one chunk of draws into `out`."""
    drawn = words(len(out))
    fractions = (drawn & _MAGNITUDE_MASK).view(np.int64)
    middles = fractions.astype(np.float64)
    middles += 0.5
    middles *= 2.0**-_FRACTION_BITS
    magnitude = law.quantile(middles)
    magnitude *= scale
    nearest = np.rint(magnitude)
    # The float error, in grid steps, is at most (scale * x + scale) * margin.
    slack = (magnitude + scale) * margin
    magnitude -= nearest
    slack += np.abs(magnitude, out=magnitude)
    # Written so that NaN counts as undecided.
    undecided = ~((slack < 0.5) & (fractions >= _FEWEST))
    out[:] = nearest
    if undecided.any():
        for index in np.flatnonzero(undecided).tolist():
            own = float(scale[index]) if isinstance(scale, np.ndarray) else scale
            out[index] = _decide(law, own, int(fractions[index]), int(out[index]), words)
    signs = drawn.view(np.int64) >> 63  # 0, or -1 for a negative draw
    out ^= signs
    out -= signs


def _decide(law: SamplerLaw, scale: float, fraction: int, guess: int, words: Words) -> int:
    """One magnitude by integer arithmetic."""
    uniform = LazyUniform(fraction, _FRACTION_BITS, lambda: int(words(1)[0]))
    return rounded_magnitude(uniform, law.survival, scale, guess)


def checked_scale(name: str, value: object, size: int) -> Scale:
    """`value` as a float, or as a float64 array of shape (size,), every entry usable.

    Raises:
        InvalidValue: not a number, boolean, NaN, infinite, zero, negative, subnormal or above
            2**52; or an array of another shape or type.
    """
    if not isinstance(value, np.ndarray):
        scale = positive(name, value)
        if not scale <= LARGEST_SCALE:
            raise InvalidValue(name, value, "at most 2**52 grid steps")
        return scale
    if value.dtype.kind not in "fiu" or value.dtype.itemsize > 8:
        raise InvalidValue(name, str(value.dtype), "an array of floats or whole numbers")
    if value.shape != (size,):
        raise InvalidValue(name, f"shape {value.shape}", f"one number or an array of {size}")
    scales = value.astype(np.float64)  # a copy: the caller may change its array meanwhile
    good = (scales >= _SMALLEST_SCALE) & (scales <= LARGEST_SCALE)
    if not good.all():
        worst = float(scales[np.argmin(good)])
        raise InvalidValue(name, worst, "above zero (not subnormal) and at most 2**52 grid steps")
    return scales


def bernoulli(rate: object, size: int, words: Words) -> NDArray[np.bool_]:
    """Independent coins, true with probability floor(rate * 2**64) / 2**64.

    Rounded down, because a smaller sampling rate never costs more. Exact at 0 and at 1.

    Raises:
        InvalidValue: `rate` is not in [0, 1], or not a number.
    """
    limit = threshold(rate)
    if limit >> 64:
        return np.ones(size, dtype=np.bool_)
    return words(size) < np.uint64(limit)


def threshold(rate: object) -> int:
    """Of all 64-bit words those below this one come up with probability `rate`, rounded down."""
    return int(math.ldexp(probability("rate", rate, zero=True, one=True), 64))


def subset(size: int, out_of: int, words: Words) -> NDArray[np.bool_]:
    """A uniform draw of `size` of `out_of`, without replacement, shape (out_of,).

    Those with the smallest words. The words are independent, so every set of
    that size is as likely, unless a word inside equals one outside: then all are drawn again.

    Raises:
        InvalidValue: `size` or `out_of` is not a whole number, or `size` is over `out_of`.
    """
    most = count("out_of", out_of)
    few = count("size", size, most=most)
    while few < most:
        drawn = words(most)
        edges = np.partition(drawn, (few - 1, few))
        if edges[few - 1] < edges[few]:
            inside: NDArray[np.bool_] = drawn < edges[few]
            return inside
    return np.ones(most, dtype=np.bool_)


def integers_below(bound: int, size: int, words: Words) -> NDArray[np.int64]:
    """Exactly uniform whole numbers in [0, bound), shape (size,): words at or above the largest
    multiple of `bound` are drawn again, each apart.

    Raises:
        InvalidValue: `bound` or `size` is not a whole number, or out of range.
    """
    checked = count("bound", bound, most=MOST_COUNT)
    last = (1 << 64) // checked * checked - 1  # below 2**64, whatever the bound is
    drawn = words(count("size", size, least=0))
    for _ in range(4096):  # a word is drawn again with probability below 1/2
        again = np.flatnonzero(drawn > np.uint64(last))
        if not len(again):
            return (drawn % np.uint64(checked)).astype(np.int64)
        drawn = drawn.copy()
        drawn[again] = words(len(again))
    raise PrivledgerError(_REPEATS)


def integer_below(bound: object, words: Words) -> int:
    """An exactly uniform whole number in [0, bound), by rejection.

    Raises:
        InvalidValue: `bound` is not a whole number of at least 1.
    """
    checked = count("bound", bound)
    bits = (checked - 1).bit_length()
    n_words = -(-bits // 64)
    for _ in range(4096):  # each try fails with probability below 1/2
        value = int.from_bytes(words(n_words).tobytes(), "little") >> (64 * n_words - bits)
        if value < checked:
            return value
    raise PrivledgerError(_REPEATS)
