"""Numbers that may enter a privacy computation, and sums that round against ourselves.

Every check is written so that NaN fails it. Booleans and strings are never numbers here.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.numerals import downward as downward
from privledger.numerals import downward_percent as downward_percent
from privledger.numerals import exact as exact
from privledger.numerals import upward as upward
from privledger.numerals import upward_percent as upward_percent

# How figures are printed is part of rounding; errors print some, too, and come before this layer.

UNIT = 1 << 192
"""Budget integers count units of 2**-192: fine enough for a plan of epsilon 1e-9."""

MOST_COUNT = 10**15
"""The largest count in a plan: its square is still a moderate float."""

_SMALLEST = sys.float_info.min  # the smallest normal number: subnormals lose digits


# NumPy counts a time difference among the whole numbers.
_NO_NUMBERS = (bool, np.timedelta64)


def number(name: str, value: object) -> float:
    """Return `value` as a finite float, or raise `InvalidValue` (booleans and strings too)."""
    # What nearly every number is comes first: the look at abstract classes takes longer.
    if type(value) is not float and type(value) is not int and (
            isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real)):
        raise InvalidValue(name, value, "a number")
    try:
        result = float(value)
    except OverflowError:
        raise InvalidValue(name, "a huge integer", "a finite number") from None
    if not math.isfinite(result):
        raise InvalidValue(name, value, "a finite number")
    return result


def finite_array(name: str, value: object) -> NDArray[np.float64]:
    """A copy of numbers as a float array: no booleans, texts or objects that turn into floats.

    Raises:
        InvalidValue: one of them is not a finite number; none of them is shown.
    """
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) or (
            isinstance(item, np.ndarray) and item.ndim) for item in value):
        value = [number(name, item) for item in value]  # [True, 1.0] would become floats
    try:
        array = np.array(value, dtype=np.float64 if isinstance(value, list) and not value else None)
    except (TypeError, ValueError):
        raise InvalidValue(name, "given", "made of finite numbers") from None
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InvalidValue(name, "given", "made of finite numbers")
    return array.astype(np.float64)


def plain_float(value: Any) -> Any:
    """A real number as a Python float, so that it fits into the history; else unchanged.

    For attrs converters: what is not a number is left for the record's own check to refuse.
    """
    if type(value) is float:
        return value
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real):
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf


def plain_int(value: Any) -> Any:
    """A whole number as a Python int; anything else unchanged, for the record to refuse."""
    if type(value) is int:
        return value
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Integral):
        return value
    return int(value)


def positive(name: str, value: object) -> float:
    """A finite, normal float above zero."""
    result = number(name, value)
    if not result >= _SMALLEST:
        raise InvalidValue(name, value, "above zero")
    return result


def moderate(name: str, value: object) -> float:
    """A float from 1e-140 to 1e140: squares, quotients and grid steps of it stay normal."""
    if type(value) is float and 1e-140 <= value <= 1e140:
        return value
    result = number(name, value)
    if not 1e-140 <= result <= 1e140:
        raise InvalidValue(name, value, "from 1e-140 to 1e140")
    return result


def non_negative(name: str, value: object) -> float:
    """A finite float, zero or a normal number above it."""
    if type(value) is float and _SMALLEST <= value < math.inf:
        return value
    result = number(name, value)
    if not (result == 0 or result >= _SMALLEST):
        raise InvalidValue(name, value, "zero or above")
    return result


def probability(name: str, value: object, *, zero: bool = False, one: bool = False) -> float:
    """A float strictly between 0 and 1; `zero` and `one` admit the ends."""
    result = number(name, value)
    inside = _SMALLEST <= result < 1 or (zero and result == 0) or (one and result == 1)
    if not inside:
        ends = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise InvalidValue(name, value, f"a probability in {ends}")
    return result


def count(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """A whole number from `least` to `most`; booleans and floats are refused."""
    if type(value) is int and value >= least and (most is None or value <= most):
        return value
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Integral) or (
            (whole := int(value)) < least):  # not the value itself, which compares as it likes
        raise InvalidValue(name, value, f"a whole number of at least {least}")
    if most is not None and whole > most:
        raise InvalidValue(name, whole if whole < 10**18 else "a huge integer",
                           f"a whole number of at most {most}")
    return whole


def whole_numbers(name: str, value: object, dimensions: int = 1, *,
                  least: int = 0) -> NDArray[np.int64]:
    """An array of whole numbers of at least `least`; booleans and floats are refused."""
    held = np.array(value, dtype=None if isinstance(value, np.ndarray) else object)  # a copy
    if held.dtype == object:
        if any(isinstance(one, _NO_NUMBERS) or not isinstance(one, numbers.Integral)
               or abs(int(one)) >> 62 for one in held.ravel()):
            raise InvalidValue(name, "given", "whole numbers")
    elif held.dtype.kind not in "iu" or (held.size and int(held.max()) >= 1 << 62):
        # A huge unsigned number would become one below zero.
        raise InvalidValue(name, "given", "whole numbers")
    result: NDArray[np.int64] = held.astype(np.int64)
    if result.ndim != dimensions or (result.size and int(result.min()) < least):
        raise InvalidValue(name, "given", f"whole numbers of at least {least}, in {dimensions} "
                                          f"dimension{'s' if dimensions > 1 else ''}")
    return result


def up(value: float) -> float:
    """The next float above a computed bound, so that one rounding error cannot lower it."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """The next float below."""
    return math.nextafter(value, -math.inf)


def add_up(values: Iterable[float]) -> float:
    """A float no smaller than the exact sum of non-negative numbers (infinity allowed)."""
    total = math.fsum(values)
    if not total >= 0:
        raise InvalidValue("sum", total, "made of non-negative numbers")
    return up(total) if 0 < total < math.inf else total


def sum_up(values: Iterable[float]) -> float:
    """The smallest float no less than the exact sum of finite numbers."""
    exact_sum = sum((Fraction(value) for value in values), Fraction(0))
    found = float(exact_sum)
    return up(found) if Fraction(found) < exact_sum else found


def multiply_up(left: float, right: float) -> float:
    """A float no smaller than the exact product of two non-negative numbers."""
    if left == 0 or right == 0:
        return 0.0
    product = left * right
    if not product >= 0:
        raise InvalidValue("product", product, "made of non-negative numbers")
    return up(product)


_WHOLE = (10**18 * math.lcm(*range(1, 31))) << 52
"""Parts that a person divides a budget into: decimals of 18 places, halves to thirtieths, floats
down to 2**-21, and what they make together: multiples of 1 / _WHOLE, more than 2**-155 each."""

_SURPLUS = 1 << 27
"""Units that any other charge is rounded up by, at least: more than 2**26 charges of parts lose."""


def as_written(value: float) -> Fraction:
    """The number that its shortest decimal says, or that it is, whichever is larger."""
    return max(Fraction(repr(float(value))), Fraction(value))


def as_promised(value: float) -> Fraction:
    """The number that its shortest decimal says, or that it is, whichever is smaller.

    What a parameter of a node promises: ten of .1 are 1. Noise is drawn for the float below.
    """
    return min(Fraction(repr(float(value))), Fraction(value))


def part_up(value: Fraction) -> float:
    """The smallest float no less than a fraction."""
    try:
        found = value.numerator / value.denominator
    except OverflowError:
        return math.inf
    return up(found) if Fraction(found) < value else found


def sum_fractions(values: Iterable[Fraction]) -> Fraction:
    """Their sum; rounded up by less than 2**-400 where its digits would grow without end."""
    total = Fraction(0)
    for value in values:
        total += value
        if total.denominator.bit_length() > 1024:
            total = Fraction(-(-total.numerator * (1 << 400) // total.denominator), 1 << 400)
    return total


def units_of_fraction(value: Fraction) -> int:
    """What a pure epsilon is charged, so that parts add up exactly (docs/proofs/filters.md).

    Parts of `_WHOLE` are rounded down; anything else is rounded up by `_SURPLUS` and more. Then
    fewer than 2**26 charges that fit a cap by `units_of_budget` never exceed it, as fractions.
    """
    below = value.numerator * UNIT // value.denominator
    if not value or _WHOLE % value.denominator == 0:
        return below
    return below + 1 + _SURPLUS


def units_of_budget(value: float) -> int:
    """The cap of a budget in pure epsilon: of the number as it is written."""
    meant = as_written(value)
    below = meant.numerator * UNIT // meant.denominator
    return below if _WHOLE % meant.denominator == 0 else max(0, below - _SURPLUS)


def named_up(units: int) -> float:
    """The least float that, as it is or as it is written, is no less than a sum of charges."""
    # Either a charge was rounded up by the surplus, or the truth is a part, which is coarser.
    truth = Fraction(max(0, units - _SURPLUS), UNIT)
    found = truth.numerator / truth.denominator
    return found if as_written(found) >= truth else up(found)


def room_down(units: int) -> float:
    """What a cap has left for pure charges; what no charge is small enough for is nothing."""
    return from_units_down(units) if units > _SURPLUS else 0.0


def units_up(value: float | Fraction) -> int:
    """Scaled integer no smaller than `value`: what a cost is recorded as."""
    checked = value if isinstance(value, Fraction) else non_negative("cost", value)
    above, below = checked.as_integer_ratio()
    return -(-above * UNIT // below)


def units_down(value: float) -> int:
    """Scaled integer no larger than `value`: what a cap is recorded as."""
    above, below = non_negative("cap", value).as_integer_ratio()
    return above * UNIT // below


_MOST_UNITS = int(sys.float_info.max) * UNIT


def from_units(units: int) -> float:
    """A float no less than a scaled integer: a charge, or a cap as it is promised. Infinity where
    there is none: only a forged history says so much."""
    if units > _MOST_UNITS:
        return math.inf
    value = units / UNIT  # to the nearest float, however many digits there are
    above, below = value.as_integer_ratio()
    return up(value) if above * UNIT < units * below else value


def from_units_down(units: int) -> float:
    """The largest float that is no more than a scaled integer: what is left."""
    value = min(units, _MOST_UNITS) / UNIT
    above, below = value.as_integer_ratio()
    return down(value) if above * UNIT > units * below else value
