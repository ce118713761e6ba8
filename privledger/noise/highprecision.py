"""Integer arithmetic for the few draws that floating point cannot decide.

A magnitude T has survival function S(t) = P(T > t). With V uniform on (0, 1), the solution of
S(T) = V has that law, and T >= t exactly when V <= S(t). So the rounded draw needs only
comparisons of V with S at half-integers over the scale. Here S is enclosed between two
integers (every division rounds outwards) and V gains bits until it lies outside them.
More bits never change a decision already made, so they cannot bend the law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from privledger.errors import PrivledgerError

Survival = Callable[[int, int, int], tuple[int, int]]
"""(numerator, denominator, precision) -> S(numerator/denominator) in units of 2**-precision."""

LIMIT = 1 << 62
"""Largest magnitude returned, in grid steps: leaves int64 room for the value it is added to."""

_WORD = 64
_MOST_BITS = 4096  # a fair source needs more with probability below 2**-3900: it is broken
_EXTRA = 32  # enclosures this much finer than V, so that V is nearly always what limits us
_GUARD = 32  # outward roundings cost about one unit per series term; terms number far below 2**32


class LazyUniform:
    """A uniform number known to lie in (numerator, numerator + 1) * 2**-bits."""

    def __init__(self, numerator: int, bits: int, next_word: Callable[[], int]) -> None:
        self.numerator, self.bits, self._next_word = numerator, bits, next_word

    def is_below(self, enclose: Callable[[int], tuple[int, int]]) -> bool:
        """Whether V is below the irrational number that `enclose(precision)` brackets.

        Raises:
            PrivledgerError: thousands of bits did not decide, so the source repeats itself.
        """
        while True:
            low, high = enclose(self.bits + _EXTRA)
            if (self.numerator + 1) << _EXTRA <= low:
                return True
            if self.numerator << _EXTRA >= high:
                return False
            self.refine()

    def refine(self) -> None:
        """Appends 64 fresh bits; raises PrivledgerError if there are thousands already."""
        if self.bits > _MOST_BITS:
            raise PrivledgerError("the entropy source repeats itself: no noise was drawn")
        self.numerator = self.numerator << _WORD | self._next_word()
        self.bits += _WORD


def rounded_magnitude(uniform: LazyUniform, survival: Survival, scale: float, guess: int) -> int:
    """The integer nearest to scale * T, for the T with survival(T) = uniform.

    Args:
        uniform: V; gains bits when they are needed.
        survival: encloses S.
        scale: in grid steps, positive; taken as the exact dyadic rational that it is.
        guess: where to look first; a wrong guess costs time only.

    Raises:
        PrivledgerError: the answer is above 2**62, or the entropy source is broken.
    """
    mantissa, divisor = scale.as_integer_ratio()

    def at_least(steps: int) -> bool:
        numerator, denominator = (2 * steps - 1) * divisor, 2 * mantissa
        return uniform.is_below(lambda precision: survival(numerator, denominator, precision))

    found = _last_true(at_least, min(max(guess, 0), LIMIT))
    if found > LIMIT:
        raise PrivledgerError("noise beyond 2**62 grid steps: use a coarser grid")
    return found


def rounded_whole(uniform: LazyUniform, parameter: Fraction, guess: int) -> int:
    """The largest k with uniform < P(|X| >= k), X of mass proportional to exp(-parameter |x|).

    Arguments and errors as for `rounded_magnitude`.
    """
    over, under = parameter.numerator, parameter.denominator

    def enclosed(steps: int, precision: int) -> tuple[int, int]:
        low, high = laplace_survival(steps * over, under, precision)
        least, most = laplace_survival(over, under, precision)
        one = 1 << precision
        return 2 * low * one // (one + most), _ceil_div(2 * high * one, one + least)

    found = _last_true(lambda steps: uniform.is_below(lambda precision: enclosed(steps, precision)),
                       min(max(guess, 0), LIMIT))
    if found > LIMIT:
        raise PrivledgerError("noise beyond 2**62 grid steps: use a coarser grid")
    return found


def _last_true(holds: Callable[[int], bool], guess: int) -> int:
    """Largest k for which `holds`, which is true up to some k >= 0 and false after.

    Above LIMIT the answer is only known to be above LIMIT.
    """
    low, high, step = guess, guess + 1, 1
    while low > 0 and not holds(low):
        low, high, step = max(0, low - step), low, 2 * step
    if low == guess:
        while high <= LIMIT + 1 and holds(high):
            low, high, step = high, high + 2 * step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def laplace_survival(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Encloses exp(-t), t = numerator/denominator > 0, in units of 2**-precision."""
    if 10 * numerator >= 7 * precision * denominator:  # ln 2 < 0.7, so exp(-t) < 2**-precision
        return 0, 1
    width = precision + _GUARD
    low, high = _series(numerator, denominator, 1, 1, width)
    return _coarser((1 << 2 * width) // high, _ceil_div(1 << 2 * width, low))


def gaussian_survival(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Encloses P(|N(0, 1)| > t), t = numerator/denominator > 0, in units of 2**-precision.

    1 - S(t) = sqrt(2/pi) exp(-t^2/2) (t + t^3/3 + t^5/15 + ...); all terms are positive.

    References:
        Abramowitz and Stegun 1964, 26.2.11.
    """
    square, over = numerator * numerator, denominator * denominator
    if 5 * square >= 7 * precision * over:  # S(t) <= exp(-t^2/2), and ln 2 < 0.7
        return 0, 1
    width = precision + _GUARD
    sum_low, sum_high = _series(square, over, 3, 2, width)
    exp_low, exp_high = _series(square, over, 2, 2, width)
    factor_low, factor_high = _root_two_over_pi(width)
    inside_low = factor_low * numerator * sum_low // (denominator * exp_high)
    inside_high = _ceil_div(factor_high * numerator * sum_high, denominator * exp_low)
    return _coarser(max(0, (1 << width) - inside_high), (1 << width) - inside_low)


def _series(numerator: int, denominator: int, start: int, step: int, width: int) -> tuple[int, int]:
    """Encloses 1 + x/start + x^2/(start (start+step)) + ..., in units of 2**-width.

    With x = numerator/denominator > 0: start 1, step 1 is exp(x); 2, 2 is exp(x/2).
    """
    low = high = total_low = total_high = 1 << width
    divisor = start * denominator
    while high > 1 or 2 * numerator > divisor:
        low = low * numerator // divisor
        high = _ceil_div(high * numerator, divisor)
        total_low += low
        total_high += high
        divisor += step * denominator
    # From here each term is at most half the one before, so the rest sums to at most the last.
    return total_low, total_high + high


@lru_cache(maxsize=16)
def _root_two_over_pi(width: int) -> tuple[int, int]:
    low, high = _pi(width)
    square = 2 << 3 * width
    return math.isqrt(square // high), math.isqrt(_ceil_div(square, low)) + 1


def _pi(width: int) -> tuple[int, int]:
    """Encloses pi: Machin, 16 arctan(1/5) - 4 arctan(1/239), in units of 2**-width."""
    value = 16 * _arctan_inverse(5, width) - 4 * _arctan_inverse(239, width)
    # Each of at most width/4.6 + 2 terms is off by less than 2.1 units, weighed 16 + 4 times.
    slack = 16 * width + 128
    return value - slack, value + slack


def _arctan_inverse(divisor: int, width: int) -> int:
    power = (1 << width) // divisor
    total, odd, sign = 0, 1, 1
    while power:
        total += sign * (power // odd)
        power //= divisor * divisor
        odd, sign = odd + 2, -sign
    return total


def _coarser(low: int, high: int) -> tuple[int, int]:
    """Drops the guard bits, outwards."""
    return low >> _GUARD, -(-high >> _GUARD)


def _ceil_div(left: int, right: int) -> int:
    return -(-left // right)
