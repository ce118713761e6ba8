"""Curves of the unsampled mechanisms against 60 digits: never below, never above by 1e-11."""

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from privledger.accounting import (
    RdpCurve,
    bounded_range_rdp,
    gaussian_rdp,
    laplace_rdp,
    pure_rdp,
    zcdp_rdp,
)
from privledger.accounting.renyi import MOST_STEPS, steps_rdp
from privledger.errors import InvalidValue
from tests.all_cases import all_cases

ORDERS = (1.0001, 1.05, 1.5, 2.0, 3.0, 16.0, 64.0, 1000.0, 1e6)
EPSILONS = (1e-9, 1e-4, 0.1, 0.9, 1.0, 7.0, 100.0, 500.0)


def laplace(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    b = a - 1
    moment = a * mp.exp(b * e) + b * mp.exp(-a * e)
    return mp.log(moment / (2 * a - 1)) / b


def response(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    p = 1 / (1 + mp.exp(-e))
    return mp.log(p * mp.exp((a - 1) * e) + (1 - p) * mp.exp((1 - a) * e)) / (a - 1)


def two_point(e: mp.mpf, a: mp.mpf, t: mp.mpf) -> mp.mpf:
    q = (1 - mp.exp(t - e)) / (mp.exp(t) - mp.exp(t - e))
    return mp.log(q * mp.exp(a * t) + (1 - q) * mp.exp(a * (t - e))) / (a - 1)


def bounded_range(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    peak = (1 - mp.exp(-a * e)) * (a - 1) / (a * (mp.exp(-e) - mp.exp(-a * e)))
    return min(two_point(e, a, mp.log(peak)), a * e * e / 8, e)


@all_cases(("built", "truth"), [
    (laplace_rdp, laplace), (pure_rdp, response), (bounded_range_rdp, bounded_range),
])
@all_cases("epsilon", EPSILONS)
def test_against_many_digits(
    built: Callable[..., RdpCurve], truth: Callable[..., mp.mpf], epsilon: float
) -> None:
    with mp.workdps(60):
        for order, bound in zip(ORDERS, built(epsilon, ORDERS).bounds, strict=True):
            exact = truth(mp.mpf(epsilon), mp.mpf(order))
            assert exact <= bound <= exact * (1 + mp.mpf(10) ** -11), order


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_bounded_range_covers_every_two_point_pair(epsilon: float) -> None:
    with mp.workdps(40):
        for order, bound in zip(ORDERS, bounded_range_rdp(epsilon, ORDERS).bounds, strict=True):
            for step in range(1, 20):
                t = mp.mpf(epsilon) * step / 20
                assert two_point(mp.mpf(epsilon), mp.mpf(order), t) <= bound


def test_bounded_range_covers_random_exponential_mechanisms() -> None:
    source = np.random.default_rng(5)
    orders = np.array(ORDERS[1:7])
    for _ in range(300):
        eta, size = 10 ** source.uniform(-2, 1), int(source.integers(2, 6))
        before = source.uniform(-3, 3, size)
        after = before + source.choice([0.0, eta, source.uniform(0, eta)], size)
        p, q = (np.exp(x - np.logaddexp.reduce(x)) for x in (before, after))
        bounds = bounded_range_rdp(eta, tuple(orders)).as_array()
        for one, other in ((p, q), (q, p)):
            powers = orders[:, None] * np.log(one / other) + np.log(other)
            exact = np.logaddexp.reduce(powers, axis=1) / (orders - 1)
            assert (exact <= bounds * (1 + 1e-9) + 1e-12).all()


def test_gaussian_and_zcdp() -> None:
    for noise in (1e-3, 0.7, 1e5):
        got = gaussian_rdp(noise, ORDERS).as_array()
        assert (got >= np.array(ORDERS) / (2 * noise**2)).all()
        np.testing.assert_allclose(got, np.array(ORDERS) / (2 * noise**2), rtol=1e-12)
    np.testing.assert_allclose(zcdp_rdp(0.3, ORDERS).as_array(), 0.3 * np.array(ORDERS))
    assert min(gaussian_rdp(1e200, ORDERS).bounds) > 0  # an underflow is not free
    assert set(zcdp_rdp(0.0, ORDERS).bounds) == {0.0}


@all_cases("built", [gaussian_rdp, zcdp_rdp, laplace_rdp, pure_rdp,
                     bounded_range_rdp])
@all_cases("bad", [math.nan, math.inf, -1.0, True, "1", None, 1e-310])
def test_bad_numbers_are_refused(built: Callable[..., RdpCurve], bad: object) -> None:
    with pytest.raises(InvalidValue):
        built(bad, ORDERS)
    with pytest.raises(InvalidValue):
        built(1.0, (2.0, bad))


@pytest.mark.parametrize("built", [laplace_rdp, pure_rdp, bounded_range_rdp])
def test_curves_rise_and_stay_below_pure(built: Callable[..., RdpCurve]) -> None:
    for epsilon in (1e-200, 1e-9, 0.5, 30.0, 1e4, 1e200):
        bounds = built(epsilon).as_array()
        assert (bounds <= epsilon).all()
        assert (bounds > 0).all()
        assert (np.diff(bounds) >= -1e-11 * bounds[1:]).all()


def test_as_many_records_apart_as_are_priced_and_one_more():
    """Of pure epsilon: never below one record's, and the largest number is among them."""
    orders = (2.0, 16.0)
    one = pure_rdp(0.01, orders).as_array()
    assert (steps_rdp(lambda at: pure_rdp(0.01, at), MOST_STEPS, orders).as_array() >= one).all()
    for wrong in (0, MOST_STEPS + 1):
        with pytest.raises(InvalidValue, match="steps"):
            steps_rdp(lambda at: pure_rdp(0.01, at), wrong, orders)
