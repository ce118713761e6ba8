"""The sampled Gaussian against 60 digits at whole and fractional orders."""

import math
import random
import time

import mpmath as mp
import numpy as np
import pytest

from privledger.accounting import (
    DEFAULT_ORDERS,
    gaussian_rdp,
    laplace_rdp,
    poisson_gaussian_rdp,
    poisson_generic_rdp,
    poisson_pure_epsilon,
    pure_rdp,
)
from privledger.errors import InvalidValue
from tests.all_cases import all_cases


def whole(q: float, s: float, order: int) -> mp.mpf:
    with mp.workdps(60):
        rate, noise = mp.mpf(q), mp.mpf(s)
        moment = mp.fsum(
            mp.binomial(order, k) * (1 - rate) ** (order - k) * rate**k
            * mp.exp(mp.mpf(k * k - k) / (2 * noise**2)) for k in range(order + 1))
        return mp.log(moment) / (order - 1)


def fractional(q: float, s: float, order: float) -> mp.mpf:
    with mp.workdps(45):
        rate, noise, a = mp.mpf(q), mp.mpf(s), mp.mpf(order)
        h = min(mp.mpf(1) / 4, noise / 6)
        steps = range(int(-17 / h), int((a / noise + 19) / h))
        moment = h * mp.fsum(
            mp.exp(-(k * h) ** 2 / 2)
            * (1 - rate + rate * mp.exp(k * h / noise - 1 / (2 * noise**2))) ** a for k in steps)
        return mp.log(moment / mp.sqrt(2 * mp.pi)) / (a - 1)


@all_cases("q", [1e-6, 0.01, 0.5, 1 - 1e-9])
@all_cases("s", [0.06, 0.3, 1.0, 5.0, 100.0])
def test_whole_orders(q: float, s: float) -> None:
    orders = (2, 3, 7, 16, 64, 256)
    bounds = poisson_gaussian_rdp(q, s, tuple(map(float, orders))).bounds
    for order, bound in zip(orders, bounds, strict=True):
        exact = whole(q, s, order)
        assert exact <= bound <= exact * (1 + mp.mpf(10) ** -9), order


@all_cases("q", [1e-6, 0.01, 0.5])
@all_cases("s", [0.3, 1.0, 20.0])
def test_fractional_orders(q: float, s: float) -> None:
    orders = (1.05, 1.5, 2.5, 7.25) if s >= 1 else (1.05, 1.5, 2.5)
    for order, bound in zip(orders, poisson_gaussian_rdp(q, s, orders).bounds, strict=True):
        exact = fractional(q, s, order)
        assert exact <= bound <= exact * (1 + mp.mpf(10) ** -9), order


@pytest.mark.parametrize(("q", "s"), [(0.01, 1.0), (1e-4, 0.5), (0.3, 8.0), (0.02, 20.0)])
def test_huge_orders_stay_between_their_bounds(q: float, s: float) -> None:
    orders = (1e4, 1e5, 1e6)
    for order, bound in zip(orders, poisson_gaussian_rdp(q, s, orders).bounds, strict=True):
        last_term = (order * math.log(q) + order * (order - 1) / (2 * s * s)) / (order - 1)
        assert max(0.0, last_term) <= bound <= order / (2 * s * s) * (1 + 1e-12)
    if s >= 8:  # the sum is still cheap enough to check one of them
        k = np.arange(10001)
        lgamma = np.vectorize(math.lgamma)
        terms = (math.lgamma(10001) - lgamma(k + 1.0) - lgamma(10001.0 - k) + k * math.log(q)
                 + (10000 - k) * math.log1p(-q) + k * (k - 1) / (2 * s * s))
        exact = np.logaddexp.reduce(terms) / 9999
        assert poisson_gaussian_rdp(q, s, (1e4,)).bounds[0] == pytest.approx(exact, rel=1e-9)


def test_ends_of_the_sampling_rate() -> None:
    assert poisson_gaussian_rdp(1.0, 2.0) == gaussian_rdp(2.0)
    assert set(poisson_gaussian_rdp(0.0, 2.0).bounds) == {0.0}


@pytest.mark.parametrize("many", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_configurations_give_finite_rising_curves(many: int) -> None:
    source = random.Random(7)
    orders = DEFAULT_ORDERS[::5]
    for _ in range(many):
        q, s = 10 ** source.uniform(-9, 0), 10 ** source.uniform(-2, 4)
        bounds = poisson_gaussian_rdp(q, s, orders).as_array()
        assert np.isfinite(bounds).all()
        assert (bounds > 0).all()
        assert (bounds <= gaussian_rdp(s, orders).as_array()).all()
        if s >= 0.05:
            assert (np.diff(bounds) >= -1e-9 * bounds[1:]).all(), (q, s)


@pytest.mark.parametrize(("q", "s"), [(1e-300, 1.0), (1e-90, 0.05), (0.5, 1e300), (0.5, 1e-300),
                                      (1 - 2**-53, 0.05), (0.5, 1e45), (1e-99, 1e49)])
def test_extremes_never_raise(q: float, s: float) -> None:
    bounds = poisson_gaussian_rdp(q, s).as_array()
    assert (bounds > 0).all()


def test_grid_is_fast() -> None:
    poisson_gaussian_rdp(0.01, 1.1)
    times = []
    for _ in range(5):
        start = time.process_time()
        poisson_gaussian_rdp(0.01, 1.1)
        times.append(time.process_time() - start)
    assert min(times) < 0.06


@all_cases("epsilon", [1e-12, 0.1, 1.0, 29.0, 40.0, 700.0])
@all_cases("q", [1e-12, 0.01, 0.9, 1.0])
def test_pure_amplification(q: float, epsilon: float) -> None:
    with mp.workdps(340):
        exact = mp.log1p(mp.mpf(q) * mp.expm1(mp.mpf(epsilon)))
        assert exact <= poisson_pure_epsilon(q, epsilon) <= exact * (1 + mp.mpf(10) ** -11)


@all_cases("q", [1e-6, 0.01, 0.3])
@all_cases("s", [0.5, 1.0, 10.0])
def test_generic_bound_is_above_the_exact_one(q: float, s: float) -> None:
    orders = (1.3, 2.0, 2.5, 3.0, 16.0, 64.0, 256.0, 1000.0, 1e6)
    generic = poisson_generic_rdp(q, lambda order: order / (2 * s * s), orders).as_array()
    exact = poisson_gaussian_rdp(q, s, orders).as_array()
    assert (generic >= exact * (1 - 1e-9)).all()
    assert (generic <= np.ceil(orders) / (2 * s * s) * 1.001).all()


@all_cases("q", [1e-6, 0.01, 0.3])
@all_cases("s", [0.5, 1.0, 10.0])
def test_generic_bound_is_that_of_the_theorem_or_a_smaller_one(q: float, s: float) -> None:
    """Zhu, Wang 2019, Theorem 6; the mechanism's own; convexity."""
    orders = (2.0, 3.0, 16.0, 64.0)
    found = poisson_generic_rdp(q, lambda order: order / (2 * s * s), orders).bounds
    with mp.workdps(60):
        rate = mp.mpf(q)
        for order, bound in zip(map(int, orders), found, strict=True):
            own = {k: mp.mpf(k) / (2 * mp.mpf(s) ** 2) for k in range(2, order + 1)}
            moment = (1 - rate) ** (order - 1) * (order * rate - rate + 1) + mp.fsum(
                (1 if k == 2 else 3) * mp.binomial(order, k) * (1 - rate) ** (order - k) * rate**k
                * mp.exp((k - 1) * own[k]) for k in own)
            beta = order - 1
            least = min(mp.log(moment) / beta, own[order],
                        mp.log(1 + rate * mp.expm1(beta * own[order])) / beta)
            assert least <= bound <= least * (1 + mp.mpf(10) ** -9)


@pytest.mark.parametrize("bound", [-1e-9, math.nan])
def test_a_generic_bound_is_no_negative_number(bound: float) -> None:
    with pytest.raises(InvalidValue):
        poisson_generic_rdp(0.1, lambda order: bound if order == 3 else 1.0, (2.0, 5.0))


def test_generic_bound_covers_both_directions_of_randomized_response() -> None:
    epsilon, q = 1.0, 0.1
    p = 1 / (1 + math.exp(-epsilon))
    base = np.array([1 - p, p])
    mixed = (1 - q) * base + q * base[::-1]
    orders = (1.5, 2.0, 3.0, 8.0, 32.0)
    curve = pure_rdp(epsilon, tuple(map(float, range(2, 257))))
    bounds = poisson_generic_rdp(q, lambda k: curve.at(k), orders).bounds
    for order, bound in zip(orders, bounds, strict=True):
        for one, other in ((base, mixed), (mixed, base)):
            assert math.log((one**order * other ** (1 - order)).sum()) / (order - 1) <= bound


def test_generic_bound_at_the_ends() -> None:
    own = laplace_rdp(1.0, tuple(map(float, range(2, 300))))
    assert set(poisson_generic_rdp(0.0, own.at, (2.0, 3.5)).bounds) == {0.0}
    assert poisson_generic_rdp(1.0, own.at, (2.0,)).at(2.0) >= own.at(2.0)
    assert poisson_generic_rdp(0.1, lambda _: math.inf, (2.0, 900.0)).bounds[0] == math.inf
    with pytest.raises(InvalidValue):
        poisson_generic_rdp(0.1, lambda _: math.nan, (2.0,))


@all_cases("bad", [math.nan, math.inf, -0.1, 1.1, True, "1", None, 1e-310])
def test_bad_rates_are_refused(bad: float) -> None:
    for call in (
        lambda: poisson_gaussian_rdp(bad, 1.0), lambda: poisson_pure_epsilon(bad, 1.0),
        lambda: poisson_generic_rdp(bad, float),
    ):
        with pytest.raises(InvalidValue):
            call()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, True, "1", None, 1e-310])
def test_bad_sizes_are_refused(bad: float) -> None:
    for call in (
        lambda: poisson_gaussian_rdp(0.1, bad), lambda: poisson_pure_epsilon(0.1, bad),
    ):
        with pytest.raises(InvalidValue):
            call()
