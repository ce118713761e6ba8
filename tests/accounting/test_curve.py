"""Curves: records that check themselves, sums that never round down."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privledger.accounting import DEFAULT_ORDERS, RdpCurve, gaussian_rdp, laplace_rdp, sum_curves
from privledger.errors import InvalidCurve, InvalidValue
from tests.all_cases import all_cases

ORDERS = (1.5, 2.0, 8.0)
BAD = [math.nan, -1.0, -math.inf, True, "1", None, 1e-310, 1j]
bound_lists = st.lists(st.floats(1e-300, 1e300) | st.just(0.0), min_size=3, max_size=3)


def curve(bounds: list[float]) -> RdpCurve:
    return RdpCurve(ORDERS, tuple(bounds))


def test_default_orders_cover_both_ends() -> None:
    assert DEFAULT_ORDERS[0] == 1.01
    assert DEFAULT_ORDERS[-1] == 1e6
    assert 200 <= len(DEFAULT_ORDERS) <= 240
    assert all(float(k) in DEFAULT_ORDERS for k in range(2, 65))


@all_cases("bad", BAD)
def test_bad_bounds_are_refused(bad: object) -> None:
    with pytest.raises(InvalidCurve):
        RdpCurve(ORDERS, (0.1, bad, 0.3))  # type: ignore[arg-type]


@all_cases("bad", [*BAD, math.inf, 1.0, 0.5, [2.0]])
def test_bad_orders_are_refused(bad: object) -> None:
    with pytest.raises(InvalidValue):
        RdpCurve((bad, 2.0), (0.1, 0.2))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        curve([1.0, 1.0, 1.0]).at(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("orders", [(), (2.0, 2.0), (3.0, 2.0), "23", 5])
def test_orders_must_increase(orders: object) -> None:
    with pytest.raises(InvalidCurve):
        RdpCurve(orders, (0.1, 0.2))  # type: ignore[arg-type]


def test_arrays_are_checked_too() -> None:
    for bad in (np.array([0.1, math.nan, 1]), np.array([0.1, -1, 1]), np.zeros(2)):
        with pytest.raises(InvalidCurve):
            RdpCurve.from_array(ORDERS, bad)


def test_infinite_bounds_mean_no_bound() -> None:
    known = curve([math.inf, 0.5, math.inf])
    assert known.at(1.6) == 0.5
    assert known.at(3.0) == math.inf
    assert known.at(9.0) == math.inf


@pytest.mark.parametrize("order", [2.0001, 3.0, 5.5, 7.9])
def test_between_orders_it_is_the_chord_of_log_moments(order: float) -> None:
    """(order - 1) times the bound is convex, so it lies below; rounded up, and by no more."""
    for low, high in ((0.0, 0.0), (0.0, 0.7), (0.2, 0.2), (0.2, 0.9)):
        share = (order - 2.0) / 6.0
        chord = ((1 - share) * low + share * 7 * high) / (order - 1)
        found = curve([0.0, low, high]).at(order)
        assert chord * (1 - 1e-15) <= found <= chord * (1 + 1e-13)


@given(bound_lists, bound_lists)
def test_sums_never_round_down(left: list[float], right: list[float]) -> None:
    total = curve(left) + curve(right)
    for a, b, c in zip(left, right, total.bounds, strict=True):
        assert c == math.inf or Fraction(c) >= Fraction(a) + Fraction(b)


@given(bound_lists, st.integers(0, 10**30))
def test_products_never_round_down(bounds: list[float], count: int) -> None:
    for a, c in zip(bounds, curve(bounds).times(count).bounds, strict=True):
        assert c == math.inf or Fraction(c) >= Fraction(a) * count


@given(st.permutations([gaussian_rdp(s, ORDERS) for s in (0.3, 1, 7, 20, 1e3, 1e5)]))
def test_order_of_composition_does_not_matter(parts: list[RdpCurve]) -> None:
    first, second = sum_curves(parts), sum_curves(sorted(parts, key=lambda part: part.bounds))
    np.testing.assert_allclose(first.as_array(), second.as_array(), rtol=1e-12)


@pytest.mark.parametrize("order", [1.001, 1.3, 1.7, 3.0, 7.9])
def test_chord_is_above_the_truth(order: float) -> None:
    for make, at in ((laplace_rdp, 1.0), (gaussian_rdp, 2.0)):
        assert make(at, ORDERS).at(order) >= make(at, (order,)).bounds[0] * (1 - 1e-12)
    between = laplace_rdp(1.0, ORDERS).at(order)
    assert between <= laplace_rdp(1.0, ORDERS).bounds[-1]


def test_alignment_is_required() -> None:
    with pytest.raises(InvalidCurve):
        curve([1, 1, 1]) + RdpCurve((2.0,), (1.0,))
    with pytest.raises(InvalidCurve):
        curve([1, 1, 1]).maximum(RdpCurve((2.0,), (1.0,)))
    with pytest.raises(InvalidCurve):
        sum_curves([])


@pytest.mark.parametrize("count", [-1, 1.0, True, "2", math.nan])
def test_bad_counts_are_refused(count: object) -> None:
    with pytest.raises(InvalidValue):
        curve([1, 1, 1]).times(count)  # type: ignore[arg-type]


def test_curves_are_values() -> None:
    one = curve([0.0, 1.0, 2.0])
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(curve([0.0, 1.0, 2.0]))
    with pytest.raises(ValueError):
        one.as_array()[0] = 5
