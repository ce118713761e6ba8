"""The canonical Lipschitz mechanism: an unordered set of k of d candidates, drawn exactly.

Sets of equal loss form a class (h, t). The largest of a class's noises is drawn at once, so
O(d k) draws stand for all sets. Floats only put aside classes that are far from winning; the
few that are left are compared in decimal arithmetic, with more bits where needed. See
docs/proofs/top-k.md.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.noise.exact_choice import checked_scores, uniform_below
from privledger.noise.highprecision import LazyUniform
from privledger.noise.samplers import Words
from privledger.rounding import count, moderate, number

NOISES = ("exponential", "gumbel")
SLACK = 0.5
"""Classes this far below the best float value are put aside; 0.46 and float errors are needed."""

_VAGUE = 1 << 24  # words this close to an end leave too much of the uniform unknown for floats
_MOST = 1 - 2.0**-40
_MOST_CANDIDATES = 10**8  # the float table of log-factorials is then right to 0.01
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class _Rival:
    """A class that may win: sets with the h best, without number h + 1, whose worst is t."""

    h: int
    t: int
    utility: Fraction  # -rate * loss, up to a number common to all classes
    size: int
    uniform: LazyUniform


def top_k(
    scores: object, k: object, rate: object, noise: object, words: Words,
    *, gamma: object = 0.5, slack: float = SLACK,
) -> NDArray[np.int64]:
    """k candidates with a small loss: (1 - gamma) max outside - gamma min inside.

    The set Y with the largest -rate * loss(Y) + noise wins, noise independent for each of the
    C(d, k) sets. With "gumbel" this is the exponential mechanism over sets.

    Args:
        scores: float64, shape (d,), finite, d from 2 to 10**8; each taken as exactly the
            number it is.
        k: from 1 to d - 1.
        rate: from 1e-140 to 1e140. epsilon / (2 sensitivity), or epsilon / sensitivity if all
            scores move one way.
        noise: "exponential" or "gumbel", of scale 1.
        words: the randomness.
        gamma: 0, or from 2**-53 to 1. Public.
        slack: at least SLACK. Any larger value gives the same sets, more slowly.

    Returns:
        Indices in rising order, shape (k,).

    Raises:
        InvalidValue: other arguments. No score is shown.

    References:
        Shekelyan, Loukides 2022 (arXiv:2201.13376), for the loss; the class sizes are ours.
    """
    slope = moderate("rate", rate)
    values = checked_scores(scores)
    d = count("number of scores", len(values), least=2, most=_MOST_CANDIDATES)
    size = count("k", k, most=d - 1)
    share = number("gamma", gamma)
    if not (share == 0 or 2.0**-53 <= share <= 1):
        raise InvalidValue("gamma", gamma, "0, or from 2**-53 to 1")
    if not (isinstance(noise, str) and noise in NOISES):
        raise InvalidValue("noise", noise, "exponential or gumbel")
    order = np.argsort(-values, kind="stable").astype(np.int64)
    ranked, gumbel = values[order], noise == "gumbel"
    near = _near(ranked, size, slope, share, gumbel, words, slack)
    rivals = [_rival(ranked, size, slope, share, place, words) for place in near]
    best = _winner(rivals, gumbel)
    if best.h == size:
        return np.sort(order[:size])
    middle = best.h + 1 + _subset(best.t - best.h - 2, size - best.h - 1, words)
    return np.sort(np.concatenate([order[: best.h], order[middle], order[best.t - 1 : best.t]]))


def _near(
    ranked: NDArray[np.float64], k: int, rate: float, gamma: float, gumbel: bool,
    words: Words, slack: float,
) -> list[tuple[int, int, int]]:
    """(h, t, word) of every class that may have the largest noisy utility."""
    inside, outside, first = _losses(ranked, k, rate, gamma)
    log_factorial = _log_factorials(len(ranked))
    bar, found = -math.inf, []
    for h in range(k, -1, -1):
        if h == k:  # the k best, a class of one set
            own, utility, log_size = np.full(1, k), np.full(1, first), np.zeros(1)
        else:
            own, utility = np.arange(k + 1, len(ranked) + 1), -outside - inside[h]
            log_size = log_factorial[k - h - 1 : len(ranked) - h - 1] - log_factorial[: len(own)]
            log_size -= log_factorial[k - h - 1]
        drawn = words(len(own))
        vague = drawn + np.uint64(_VAGUE) < np.uint64(2 * _VAGUE)  # wraps: both ends at once
        value = _noisy_floats(drawn, log_size, gumbel)
        with np.errstate(invalid="ignore"):
            value += utility
        clear = np.where(vague, -math.inf, value) if vague.any() else value
        bar = max(bar, float(clear.max()))
        for i in np.flatnonzero((value >= bar - slack) | vague).tolist():
            found.append((h, int(own[i]), int(drawn[i]), float(clear[i]), bool(vague[i])))
    return [(h, t, word) for h, t, word, value, open_ in found if open_ or value >= bar - slack]


def _losses(
    ranked: NDArray[np.float64], k: int, rate: float, gamma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """rate times both parts of the loss, less its value at x_k: no term is negative.

    So nothing cancels. The third number is the utility of the k best.
    """
    edge = ranked[k - 1]
    with np.errstate(over="ignore", under="ignore"):
        inside = np.minimum(ranked[:k] - edge, _LARGEST) * (rate * (1 - gamma))
        outside = np.minimum(edge - ranked[k:], _LARGEST) * (rate * gamma)
        first = np.minimum(edge - ranked[k], _LARGEST) * (rate * (1 - gamma))
    return inside, outside, float(first)


def _noisy_floats(
    drawn: NDArray[np.uint64], log_size: NDArray[np.float64], gumbel: bool
) -> NDArray[np.float64]:
    """The largest of exp(log_size) noises: Gumbel, or Exponential less 0 to 0.46."""
    value: NDArray[np.float64] = drawn.astype(np.float64)
    value *= -(2.0**-64)
    np.maximum(value, -_MOST, out=value)
    np.log1p(value, out=value)
    np.negative(value, out=value)
    with np.errstate(divide="ignore"):
        np.log(value, out=value)
    np.subtract(log_size, value, out=value)
    return value if gumbel else np.maximum(value, 0.0, out=value)


def _log_factorials(n: int) -> NDArray[np.float64]:
    from scipy.special import gammaln  # here, so that tools that only read start fast

    result: NDArray[np.float64] = gammaln(np.arange(n + 1, dtype=np.float64) + 1.0)
    return result


def _rival(
    ranked: NDArray[np.float64], k: int, rate: float, gamma: float,
    place: tuple[int, int, int], words: Words,
) -> _Rival:
    """The class with its exact utility and size."""
    h, t, word = place
    share, edge = Fraction(gamma), Fraction(float(ranked[k - 1]))
    missing, worst = Fraction(float(ranked[h])), Fraction(float(ranked[t - 1]))
    loss = (1 - share) * (missing - edge) + share * (edge - worst)
    size = 1 if h == k else math.comb(t - h - 2, k - h - 1)
    uniform = LazyUniform(word, 64, lambda: int(words(1)[0]))
    return _Rival(h, t, -Fraction(rate) * loss, size, uniform)


def _winner(rivals: list[_Rival], gumbel: bool) -> _Rival:
    """The class with the largest noisy utility, decided exactly."""
    while len(rivals) > 1:
        lows = [_noisy(rival, gumbel, up=False) for rival in rivals]
        best = max(lows)
        rivals = [rival for rival in rivals if _noisy(rival, gumbel, up=True) >= best]
        if len(rivals) > 1:
            for rival in rivals:
                rival.uniform.refine()
    return rivals[0]


def _noisy(rival: _Rival, gumbel: bool, *, up: bool) -> Decimal:
    """A bound of utility - log(a), or utility - log(1 - exp(-a)); a = -log(1 - W) / size.

    W is the class's uniform. Every step is rounded so that the result is an upper bound
    (`up`) or a lower one. decimal's exp and ln are correctly rounded: one step is enough.
    """
    bits = rival.uniform.bits
    digits = 2 * (bits * 31 // 100 + 15)
    toward, away = _context(digits, up), _context(digits, not up)
    left = (1 << bits) - rival.uniform.numerator - (0 if up else 1)
    survival = toward.divide(Decimal(left), Decimal(1 << bits))
    exponential = max(Decimal(0), _next(toward, toward.ln(survival), up).copy_negate())
    a = away.divide(exponential, Decimal(rival.size))
    if not gumbel:
        a = _one_minus_exp(a, away, up)
    noise = _next(away, away.ln(a), not up).copy_negate()
    utility = toward.divide(Decimal(rival.utility.numerator), Decimal(rival.utility.denominator))
    return toward.add(utility, noise)


def _one_minus_exp(a: Decimal, context: decimal.Context, low: bool) -> Decimal:
    """A lower (`low`) or upper bound of 1 - exp(-a), a >= 0, to half of the digits."""
    one = Decimal(1)
    if a < one.scaleb(-(context.prec // 2)):  # a - a^2/2 <= 1 - exp(-a) <= a
        return context.multiply(a, context.subtract(one, a)) if low else a
    return context.subtract(one, _next(context, context.exp(a.copy_negate()), low))


def _context(digits: int, up: bool) -> decimal.Context:
    rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return decimal.Context(prec=digits, rounding=rounding, Emin=decimal.MIN_EMIN,
                           Emax=decimal.MAX_EMAX, traps=[])


def _next(context: decimal.Context, value: Decimal, up: bool) -> Decimal:
    return context.next_plus(value) if up else context.next_minus(value)


def _subset(n: int, size: int, words: Words) -> NDArray[np.int64]:
    """A uniform subset of 0 .. n - 1 (Floyd's algorithm)."""
    tops = np.arange(n - size, n, dtype=np.int64)
    chosen: set[int] = set()
    for top, pick in zip(tops.tolist(), uniform_below(tops + 1, words).tolist(), strict=True):
        chosen.add(top if pick in chosen else pick)
    return np.fromiter(chosen, dtype=np.int64, count=size)
