"""Exact choices: the exponential mechanism, permute-and-flip, randomized response.

Floating point decides with a margin that covers its own error; what the margin leaves open is
decided by integer arithmetic, with more bits of the uniform where needed. The law of every
result is exactly the stated one. See docs/proofs/exact-noise.md, "Exact choices".

Candidates lie in segments, CSR layout: segment s has the positions starts[s] to
starts[s + 1] - 1. Scores and codes are private: no error shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue, PrivledgerError
from privledger.noise.highprecision import LazyUniform, laplace_survival
from privledger.noise.samplers import Words
from privledger.rounding import count, moderate, probability

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_WEIGHT = (1 << 62) - 1
_CHUNK = 1 << 15  # candidates at a time: temporaries stay in the processor's cache
_MOST_SEGMENTS = 1 << 11  # at a time: at least 2**50 units for each in one int64 sum
_UNIT_BITS = 61
_FAR = 1000.0  # exp(-1000) is zero in floats, and below 2**-1400 in truth
_TRIES = 4096  # each fails with probability below 3/4


def choose(
    scores: object, weights: object, starts: object, rate: object, words: Words,
    *, margin: float = 1.0,
) -> Integers:
    """One position of each segment, i with probability weights[i] exp(rate scores[i]) / total.

    Args:
        scores: float64, shape (n,), finite; each taken as exactly the number it is.
        weights: int64, shape (n,), from 1 to 2**62 - 1.
        starts: int64, shape (segments + 1,), rising from 0 to n.
        rate: from 1e-140 to 1e140, per unit of score.
        words: the randomness: one word for each segment, more where V is extended.
        margin: at least 1. Any larger value gives the same draws, more slowly.

    Returns:
        Positions, shape (segments,).

    Raises:
        InvalidValue: other arguments, an empty segment.
    """
    slope = moderate("rate", rate)
    values = checked_scores(scores)
    edges = _checked_starts(starts, len(values))
    sizes = _whole("weights", weights, len(values))
    if not ((sizes >= 1) & (sizes <= LARGEST_WEIGHT)).all():
        raise InvalidValue("weights", "something else", "from 1 to 2**62 - 1")
    out = np.empty(len(edges) - 1, dtype=np.int64)
    for first, last in _chunks(edges):
        part = slice(edges[first], edges[last])
        local = edges[first : last + 1] - edges[first]
        drawn = words(last - first)
        chosen, open_ = _by_floats(values[part], sizes[part], local, slope, drawn, margin)
        for s in np.flatnonzero(open_).tolist():
            own = slice(edges[first + s], edges[first + s + 1])
            chosen[s] = local[s] + _by_integers(
                values[own], sizes[own], slope, _uniform(int(drawn[s]), words))
        out[first:last] = chosen + edges[first]
    return out


def _by_floats(
    values: Floats, weights: Integers, edges: Integers, rate: float,
    drawn: NDArray[np.uint64], margin: float,
) -> tuple[Integers, NDArray[np.bool_]]:
    """Positions, and which of them the margin leaves open. The bound is proved in the docs."""
    begins, lengths = edges[:-1], np.diff(edges)
    far = _exponents(values, edges, rate)
    mass = np.exp(-far)
    mass *= weights
    far += 8.0
    far *= mass
    scale = 2.0 ** (_UNIT_BITS - (len(begins) - 1).bit_length()) / np.add.reduceat(mass, begins)
    error = np.add.reduceat(far, begins) * scale * 2.0**-50
    mass *= np.repeat(scale, lengths)
    # One sum for all segments, in integers: nothing is lost by cancellation.
    ends = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.rint(mass, out=mass).astype(np.int64), out=ends[1:])
    base = ends[begins]
    total = ends[edges[1:]] - base
    fraction = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    target = base + np.minimum((fraction * total).astype(np.int64), total - 1)
    place = np.searchsorted(ends[1:], target, side="right").astype(np.int64)
    slack = (lengths + error + total * 2.0**-51 + 4.0) * margin
    # Written so that NaN counts as open.
    closed = (target - ends[place] > slack) & (ends[place + 1] - target > slack)
    return place, ~closed


def _exponents(values: Floats, edges: Integers, rate: float) -> Floats:
    """rate * (best of the segment - score), at most _FAR."""
    far: Floats = np.repeat(np.maximum.reduceat(values, edges[:-1]), np.diff(edges))
    with np.errstate(over="ignore", under="ignore"):
        far -= values  # may be infinite; rate >= 1e-140 then leaves it far beyond _FAR
        far *= rate
    return np.minimum(far, _FAR, out=far)


def _by_integers(values: Floats, weights: Integers, rate: float, uniform: LazyUniform) -> int:
    """The first k with V * total < weight of candidates 0 to k, for one segment."""
    scores, sizes = values.tolist(), weights.tolist()
    best = Fraction(max(scores))
    exponents = [Fraction(rate) * (best - Fraction(score)) for score in scores]
    spare = sum(sizes).bit_length()  # the total is at least 2**precision, errors sum to 2**spare
    known: dict[int, tuple[list[int], list[int]]] = {}

    def sums(precision: int) -> tuple[list[int], list[int]]:
        if precision not in known:
            pairs = [laplace_survival(t.numerator, t.denominator, precision) for t in exponents]
            known[precision] = tuple(  # type: ignore[assignment]
                list(accumulate(size * pair[side] for size, pair in
                                zip(sizes, pairs, strict=True))) for side in (0, 1))
        return known[precision]

    def below(k: int) -> bool:
        def share(precision: int) -> tuple[int, int]:
            low, high = sums(precision + spare)
            return ((low[k] << precision) // high[-1], -(-(high[k] << precision) // low[-1]))

        return uniform.is_below(share)

    first, last = 0, len(scores) - 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if below(middle) else (middle + 1, last)
    return first


def permute_and_flip(
    scores: object, starts: object, rate: object, words: Words, *, margin: float = 1.0
) -> Integers:
    """One position of each segment by permute-and-flip.

    Candidates in random order, the first accepted one wins; acceptance has probability
    exp(rate (score - best)). Here all coins are flipped and a uniform one of the accepted is
    taken: the same law. Arguments and errors as for `choose`.
    """
    slope = moderate("rate", rate)
    values = checked_scores(scores)
    edges = _checked_starts(starts, len(values))
    if len(edges) == 1:
        return np.zeros(0, dtype=np.int64)
    accepted = np.zeros(len(values) + 1, dtype=np.int64)
    for first, last in _chunks(edges):
        part = slice(int(edges[first]), int(edges[last]))
        local = edges[first : last + 1] - edges[first]
        accepted[1:][part] = _coins(values[part], local, slope, words, margin)
    upto = np.cumsum(accepted)
    base = upto[edges[:-1]]
    rank = uniform_below(upto[edges[1:]] - base, words)
    return np.searchsorted(upto[1:], base + rank, side="right").astype(np.int64)


def _coins(
    values: Floats, edges: Integers, rate: float, words: Words, margin: float
) -> NDArray[np.bool_]:
    """For each candidate whether V < exp(rate (score - best)), decided exactly."""
    far = _exponents(values, edges, rate)
    mass = np.exp(-far)
    drawn = words(len(values))
    fraction = drawn.astype(np.float64) * 2.0**-64
    slack = ((far + 8.0) * mass * 2.0**-51 + fraction * 2.0**-51 + 2.0**-62) * margin
    heads: NDArray[np.bool_] = fraction < mass
    for i in np.flatnonzero(~(np.abs(fraction - mass) > slack)).tolist():
        segment = int(np.searchsorted(edges, i, side="right")) - 1
        best = float(values[edges[segment] : edges[segment + 1]].max())
        t = Fraction(rate) * (Fraction(best) - Fraction(float(values[i])))
        heads[i] = _uniform(int(drawn[i]), words).is_below(_survival(t))
    return heads


def _survival(t: Fraction) -> Callable[[int], tuple[int, int]]:
    return lambda precision: laplace_survival(t.numerator, t.denominator, precision)


def _uniform(word: int, words: Words) -> LazyUniform:
    return LazyUniform(word, 64, lambda: int(words(1)[0]))


def uniform_below(bounds: object, words: Words) -> Integers:
    """Exactly uniform whole numbers, each in [0, its bound), by rejection.

    Args:
        bounds: int64, any length, each at least 1.
        words: the randomness: one word for each, and one more for each rejection.

    Raises:
        InvalidValue: another type or shape, or a bound below 1.
        PrivledgerError: an entropy source that repeats itself.
    """
    limits = _whole("bounds", bounds)
    if not (limits >= 1).all():
        raise InvalidValue("bounds", "something else", "at least 1 each")
    # Bits of bound - 1; rounding to a float may give one too many, which costs time only.
    bits = np.frexp((limits - 1).astype(np.float64))[1].astype(np.uint64)
    out = np.zeros(len(limits), dtype=np.int64)
    left = np.arange(len(limits))
    for _ in range(_TRIES):
        # Two shifts, since one by 64 is not defined.
        tried = ((words(len(left)) >> np.uint64(1)) >> (np.uint64(63) - bits[left])).view(np.int64)
        fits = tried < limits[left]
        out[left[fits]] = tried[fits]
        left = left[~fits]
        if not len(left):
            return out
    raise PrivledgerError("the entropy source repeats itself: no number was drawn")


def randomized_response(
    codes: object, buckets: object, noise_parameter: object, words: Words
) -> Integers:
    """Each code, or in its place a uniform draw from all buckets.

    Args:
        codes: whole numbers from 0 to buckets - 1, shape (n,).
        buckets: how many there are, at least 2.
        noise_parameter: probability of a draw, in (0, 1]. The real one is as large or
            larger by under 2**-64: there is never less noise.
        words: the randomness.

    Raises:
        InvalidValue: other arguments. No code is shown.
    """
    replaced = Fraction(probability("noise_parameter", noise_parameter, one=True))
    most = count("buckets", buckets, least=2, most=LARGEST_WEIGHT)
    out = _whole("codes", codes).copy()
    if not ((out >= 0) & (out < most)).all():
        raise InvalidValue("codes", "something else", "from 0 to buckets - 1")
    kept_below = int((1 - replaced) * (1 << 64))  # rounded down; below 2**64, as replaced > 0
    drawn = np.flatnonzero(words(len(out)) >= np.uint64(kept_below))
    out[drawn] = uniform_below(np.full(len(drawn), most, dtype=np.int64), words)
    return out


def checked_scores(scores: object) -> Floats:
    """`scores` as a finite float64 vector; raises InvalidValue, which shows no score."""
    values = _vector("scores", scores, "f")
    if values.dtype != np.float64:
        raise InvalidValue("scores", str(values.dtype), "float64")
    if not np.isfinite(values).all():
        raise InvalidValue("scores", "something else", "finite numbers")
    return values


def _checked_starts(starts: object, n: int) -> Integers:
    edges = _whole("starts", starts)
    if not (len(edges) and edges[0] == 0 and edges[-1] == n and (edges[1:] > edges[:-1]).all()):
        raise InvalidValue("starts", "something else",
                           "rising from 0 to the number of candidates: no empty segment")
    return edges


def _whole(name: str, value: object, size: int | None = None) -> Integers:
    """An int64 vector (of `size` entries)."""
    found = _vector(name, value, "iu")
    if found.dtype == np.uint64:
        raise InvalidValue(name, "uint64", "signed whole numbers")
    if size is not None and len(found) != size:
        raise InvalidValue(name, "another length", "one for each score")
    return found.astype(np.int64, copy=False)


def _vector(name: str, value: object, kinds: str) -> NDArray[Any]:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim != 1:
        what = f"shape {value.shape}, {value.dtype}" if isinstance(value, np.ndarray) else (
            type(value).__name__)
        raise InvalidValue(name, what, "a vector of numbers, of the stated type")
    return np.ascontiguousarray(value)


def _chunks(edges: Integers) -> Iterator[tuple[int, int]]:
    """Runs of whole segments, few enough for one int64 sum and for the cache."""
    first, segments = 0, len(edges) - 1
    while first < segments:
        last = int(np.searchsorted(edges, edges[first] + _CHUNK, side="right")) - 1
        last = max(first + 1, min(last, first + _MOST_SEGMENTS))
        yield first, last
        first = last
