"""The smallest noise that meets a target, found with few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

from privledger.errors import InvalidValue
from privledger.rounding import MOST_COUNT, positive

_TOLERANCE = 1e-11  # relative width of the final bracket
_STEPS = 200


def smallest(
    epsilon_of: Callable[[float], float],
    target: float,
    *,
    low: float = 1e-140,
    high: float = 1e140,
) -> float:
    """Smallest noise whose epsilon is at most `target`, to 1e-11 relative.

    By default among all the noise that a mechanism may have (`rounding.moderate`).

    Args:
        epsilon_of: epsilon (or any cost) as a non-increasing function of the noise. At small
            noise, or beyond what it allows, it may return infinity or raise OverflowError or
            ZeroDivisionError.
        target: the largest acceptable value, above 0.
        low: no smaller noise is tried; returned if it already meets the target.
        high: no larger noise is tried.

    Returns:
        A noise for which `epsilon_of` was evaluated and did meet the target.

    Raises:
        InvalidValue: no noise up to `high` meets the target, or a bad parameter.

    >>> round(smallest(lambda noise: 2 / noise, 0.5), 9)
    4.0
    """
    aim, least, most = positive("target", target), positive("low", low), positive("high", high)
    if not least < most:
        raise InvalidValue("low", low, "below high")

    def excess(log_noise: float) -> tuple[float, float]:
        noise = min(most, max(least, math.exp(log_noise)))
        return noise, _log_excess(epsilon_of, noise, aim)

    bad, good = _bracket(excess, math.log(least), math.log(most), aim)
    return good[1] if bad is None else _close(excess, bad, good)


_Point = tuple[float, float, float]  # log noise, noise, log(epsilon / target)
_Excess = Callable[[float], tuple[float, float]]


def _log_excess(epsilon_of: Callable[[float], float], noise: float, target: float) -> float:
    """log(epsilon / target); NaN and failures count as infinitely too much."""
    try:
        value = epsilon_of(noise)
    except (OverflowError, ZeroDivisionError, FloatingPointError):
        return math.inf
    if value <= 0:
        return -math.inf
    if not value <= target:
        # At least a trace above zero, although the quotient may round to 1.
        return max(math.log(value / target), 1e-300) if value < math.inf else math.inf
    return min(math.log(value / target), 0.0) if value / target > 0 else -math.inf


def _bracket(
    excess: _Excess, least: float, most: float, target: float
) -> tuple[_Point | None, _Point]:
    """Two neighbouring trials, the first too noisy to the budget, the second meeting it."""
    def trial(at: float) -> _Point:
        return at, *excess(at)

    point = trial(min(most, max(least, 0.0)))
    jump = math.log(2)
    if point[2] <= 0:
        while point[2] <= 0:
            good = point
            if point[0] <= least:
                return None, good
            point, jump = trial(max(least, point[0] - jump)), jump * 1.5
        return point, good
    bad, wall = point, None
    while point[2] > 0:
        # After prices that were finite, an infinite one says that such noise is not allowed.
        if point[2] < math.inf or bad[2] == math.inf:
            bad = point
        else:
            wall = point[0]
        end = most if wall is None else wall
        if end - bad[0] <= _TOLERANCE:
            raise InvalidValue("target", target, "within reach of some allowed noise")
        at = bad[0] + jump if wall is None else 0.5 * (bad[0] + wall)
        point, jump = trial(min(end, at)), jump * 1.5
    return bad, point


def _close(excess: _Excess, bad: _Point, good: _Point) -> float:
    """Shrink the bracket: false position with the Anderson-Bjorck weight, else bisection."""
    weight_bad, weight_good = bad[2], good[2]
    for step in range(_STEPS):
        width = good[0] - bad[0]
        if width <= _TOLERANCE:
            break
        at = _candidate(bad[0], good[0], weight_bad, weight_good, step)
        point = (at, *excess(at))
        if point[2] <= 0:
            weight_bad = _weaken(weight_bad, good[2], point[2])
            good, weight_good = point, point[2]
        else:
            weight_good = _weaken(weight_good, bad[2], point[2])
            bad, weight_bad = point, point[2]
    return good[1]


def _weaken(kept: float, replaced: float, new: float) -> float:
    """Weight of the end that stays: without this false position creeps from one side."""
    if not (math.isfinite(replaced) and math.isfinite(new)) or replaced == 0:
        return kept
    factor = 1 - new / replaced
    return kept * (factor if factor > 0.1 else 0.5)


def _candidate(low: float, high: float, above: float, below: float, step: int) -> float:
    """A point strictly inside, never closer to an end than half the tolerance."""
    middle = 0.5 * (low + high)
    usable = math.isfinite(above) and math.isfinite(below) and above > below
    if not usable or step % 8 == 7:
        return middle
    at = low + (high - low) * above / (above - below)
    # Stepping off the end by half the tolerance closes the bracket once the root is known.
    gap = min(0.45 * _TOLERANCE, 0.25 * (high - low))
    return min(high - gap, max(low + gap, at))


def largest_count(fits: Callable[[int], bool], most: int = MOST_COUNT) -> int:
    """Largest whole number up to `most` that fits, if all smaller ones do.

    Raises:
        InvalidValue: not even 1 fits.

    >>> largest_count(lambda number: number * number <= 50)
    7
    """
    if not fits(1):
        raise InvalidValue("target", "one", "within reach of one round at least")
    low, high = 1, min(2, most + 1)
    while high <= most and fits(high):
        low, high = high, min(2 * high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
