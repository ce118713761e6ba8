"""Renyi curves: one upper bound in nats for each of a fixed tuple of orders."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from privledger.accounting.moments import Array
from privledger.errors import InvalidCurve, InvalidValue
from privledger.rounding import count as whole_number
from privledger.rounding import non_negative, number, up

_EPS = float(np.finfo(np.float64).eps)


def _default_orders() -> tuple[float, ...]:
    low = [round(1 + 10 ** (-2 + step / 12), 4) for step in range(24)]  # 1.01 to 1.83
    # Sampled mechanisms turn steep at a small order, so the best one is hit closely there.
    middle = [2 + step / 5 for step in range(20)] + [6 + step / 4 for step in range(12)]
    middle += [float(order) for order in range(2, 65)]
    # Whole numbers, because the sampled Gaussian is cheapest there.
    high = [float(round(64 * 64 ** (step / 84))) for step in range(1, 85)]  # to 4096, by 5 %
    high += [float(round(4096 * (1e6 / 4096) ** (step / 32))) for step in range(1, 33)]
    return tuple(sorted({*low, *middle, *high}))


DEFAULT_ORDERS: tuple[float, ...] = _default_orders()
"""Serve epsilon from .01 to 100 at delta from 1e-30 to .1.

The best order is about 1 + log(1/delta)/epsilon, which is what the two ends are for.
"""


@lru_cache(maxsize=256)
def _checked(orders: tuple[object, ...]) -> tuple[float, ...]:
    checked = tuple(number("order", order) for order in orders)
    below = (1.0, *checked)
    if not checked or not all(a < b for a, b in zip(below, checked, strict=False)):
        raise InvalidCurve("orders", orders[:8], "strictly increasing numbers above 1")
    return checked


def check_orders(orders: Iterable[float]) -> tuple[float, ...]:
    """Orders as one shared tuple of floats, strictly increasing and above 1.

    Raises:
        InvalidValue: an order is not a finite number.
        InvalidCurve: they do not increase, start at 1 or below, or there are none.
    """
    if orders is DEFAULT_ORDERS:
        return DEFAULT_ORDERS
    if isinstance(orders, str) or not isinstance(orders, Iterable):
        raise InvalidCurve("orders", orders, "a tuple of numbers above 1")
    try:
        held = tuple(orders)
        # Numbers of a stranger's own, as keys, could later be taken for other orders.
        known = all(type(order) in (int, float) for order in held)
        return _checked(held) if known else _checked.__wrapped__(held)
    except TypeError:
        raise InvalidCurve("orders", "unhashable items", "a tuple of numbers above 1") from None


def _check_bound(value: object) -> float:
    if type(value) is float and value == math.inf:
        return value
    try:
        return non_negative("bound", value)
    except InvalidValue:
        raise InvalidCurve("bound", value, "a number of at least 0, or infinity") from None


@frozen
class RdpCurve:
    """Upper bounds on the Renyi divergence between neighbours, in both directions.

    Attributes:
        orders: strictly increasing, above 1.
        bounds: nats, at least 0; infinity means that nothing is proved at this order.

    Raises:
        InvalidCurve: lengths differ, or a bound is negative, NaN, subnormal or no number.

    References:
        Mironov 2017 (arXiv:1702.07476v3), Definition 4 and Proposition 1.

    >>> RdpCurve((2.0, 4.0), (0.5, 1.0)).at(3.0) >= 0.75
    True
    """

    orders: tuple[float, ...]
    bounds: tuple[float, ...]
    _array: Array = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        orders = check_orders(self.orders)
        bounds = tuple(_check_bound(bound) for bound in self.bounds)
        if len(orders) != len(bounds):
            raise InvalidCurve("bounds", len(bounds), f"as many as the {len(orders)} orders")
        _fill(self, orders, bounds, np.array(bounds, dtype=np.float64))

    @classmethod
    def from_array(cls, orders: tuple[float, ...], bounds: Array) -> RdpCurve:
        """A curve from an array of shape `(len(orders),)`; a few microseconds.

        Raises:
            InvalidCurve: the shape differs, or a bound is negative or NaN.
        """
        orders = check_orders(orders)
        array = np.array(bounds, dtype=np.float64)
        if array.shape != (len(orders),) or not bool((array >= 0).all()):
            raise InvalidCurve("bounds", "an array", "non-negative, one for each order")
        curve = object.__new__(cls)
        _fill(curve, orders, tuple(array.tolist()), array)
        return curve

    @classmethod
    def zero(cls, orders: tuple[float, ...] = DEFAULT_ORDERS) -> RdpCurve:
        """The curve of a release that depends on no record."""
        return cls.from_array(orders, np.zeros(len(check_orders(orders))))

    def as_array(self) -> Array:
        """The bounds as a read-only array of shape `(len(orders),)`."""
        return self._array

    def at(self, order: float) -> float:
        """An upper bound at any order above 1; infinity beyond the last.

        (order - 1) * divergence is convex in the order and 0 at order 1, so the chord between
        two proved points lies above it; the divergence itself never decreases.

        Raises:
            InvalidValue: the order is not a finite number above 1.
        """
        wanted = number("order", order)
        if not wanted > 1:
            raise InvalidValue("order", order, "above 1")
        position = bisect_left(self.orders, wanted)
        if position < len(self.orders) and self.orders[position] == wanted:
            return self.bounds[position]
        return self._chord(wanted, position)

    def _chord(self, order: float, position: int) -> float:
        after = next((k for k in range(position, len(self.orders))
                      if self.bounds[k] < math.inf), None)
        if after is None:
            return math.inf
        right, high = self.orders[after], self.bounds[after]
        before = next((k for k in range(position - 1, -1, -1)
                       if self.bounds[k] < math.inf), None)
        if before is None or high == 0:
            return high
        left, low = self.orders[before], self.bounds[before]
        share = (order - left) / (right - left)
        moment = (1 - share) * (left - 1) * low + share * (right - 1) * high
        return min(high, up(moment / (order - 1) * (1 + 8 * _EPS)))

    def __add__(self, other: RdpCurve) -> RdpCurve:
        """Sequential composition; each sum is rounded up."""
        if not isinstance(other, RdpCurve):
            return NotImplemented
        check_aligned(self, other)
        total = self._array + other._array
        exact = (self._array == 0) | (other._array == 0)
        return RdpCurve.from_array(
            self.orders, np.where(exact, total, np.nextafter(total, np.inf)))

    def times(self, count: int) -> RdpCurve:
        """The same mechanism `count` times; 0 times costs nothing.

        Raises:
            InvalidValue: not a whole number of at least 0.
        """
        repeats = whole_number("count", count, least=0)
        if repeats == 0:
            return RdpCurve.zero(self.orders)
        if repeats == 1:
            return self
        with np.errstate(over="ignore"):
            product = self._array * up(float(repeats))
        return RdpCurve.from_array(
            self.orders, np.where(product == 0, 0.0, np.nextafter(product, np.inf)))

    def maximum(self, other: RdpCurve) -> RdpCurve:
        """The larger bound at each order."""
        check_aligned(self, other)
        return RdpCurve.from_array(self.orders, np.maximum(self._array, other._array))


def _fill(
    curve: RdpCurve, orders: tuple[float, ...], bounds: tuple[float, ...], array: Array
) -> None:
    array.setflags(write=False)
    for name, value in (("orders", orders), ("bounds", bounds), ("_array", array)):
        object.__setattr__(curve, name, value)


def check_aligned(*curves: RdpCurve) -> tuple[float, ...]:
    """The orders that all curves share.

    Raises:
        InvalidCurve: they do not share them, or there is no curve.
    """
    if not curves:
        raise InvalidCurve("curves", (), "at least one curve")
    orders = curves[0].orders
    for curve in curves[1:]:
        if curve.orders is not orders and curve.orders != orders:
            raise InvalidCurve("orders", curve.orders[:8], "the same for every curve")
    return orders


def sum_curves(curves: Iterable[RdpCurve]) -> RdpCurve:
    """Sum of many curves, rounded up once for all of them.

    A sum of n non-negative floats is below the exact one by at most n ulp.
    """
    parts = tuple(curves)
    orders = check_aligned(*parts)
    if len(parts) == 1:
        return parts[0]
    total = np.zeros(len(orders))
    for part in parts:
        total = total + part.as_array()
    raised = np.nextafter(total * (1 + len(parts) * _EPS), np.inf)
    return RdpCurve.from_array(orders, np.where(total == 0, 0.0, raised))
