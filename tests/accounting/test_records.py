"""Per-record bounds: never below the exact ones, at most 1 % above, and silent about shares."""

from __future__ import annotations

import math
import random
import time

import mpmath as mp
import numpy as np
import pytest

import privledger as pl
from privledger.accounting import (
    DEFAULT_ORDERS,
    RdpCurve,
    laplace_rdp,
    poisson_gaussian_rdp,
    poisson_pure_epsilon,
    pure_rdp,
)
from privledger.accounting.records import (
    NEGLIGIBLE,
    check_shares,
    gaussian_per_record,
    laplace_per_record,
    poisson_gaussian_per_record,
    poisson_laplace_per_record,
)
from privledger.accounting.subsample import sampled_gaussian_bounds
from privledger.errors import InvalidValue
from tests.all_cases import all_cases

ORDERS = (1.01, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
STEEP = (1.0001, 2.0, 16.0, 128.0, 1024.0, 1e4, 1e5, 1e6)
LIMIT = 1.01
SHARES = np.concatenate((
    np.random.default_rng(5).random(80), 10 ** np.random.default_rng(6).uniform(-8, 0, 80),
    [5e-324, 1e-300, 1e-160, 1 - 2.0**-53, 1.0]))


def one_by_one(curve, shares, orders):
    """The unvectorised bound of each share, shape (n, k)."""
    return np.array([curve(float(share)).as_array() for share in shares]).reshape(
        len(shares), len(orders))


def check(found, exact, full, limit=LIMIT):
    assert (found >= exact).all()
    shown = exact > NEGLIGIBLE * full
    assert (found[shown] <= exact[shown] * limit).all()


@pytest.mark.parametrize("noise", [1e-3, 0.7, 1.0, 50.0, 1e120])
def test_gaussian_is_exact(noise):
    found = gaussian_per_record(noise, SHARES, ORDERS)
    for share, row in zip(SHARES[::4].tolist(), found[::4], strict=True):
        for order, bound in zip(ORDERS, row.tolist(), strict=True):
            exact = mp.mpf(share) ** 2 * mp.mpf(order) / (2 * mp.mpf(noise) ** 2)
            assert exact <= bound
            assert bound <= exact * (1 + mp.mpf(10) ** -12) or bound <= 1e-305


@all_cases("epsilon", [1e-6, 0.1, 1.0, 9.0, 300.0, 1e4])
@all_cases("orders", [ORDERS, STEEP])
def test_laplace(epsilon, orders):
    exact = one_by_one(lambda s: laplace_rdp(max(s * epsilon, 3e-308), orders), SHARES, orders)
    found = laplace_per_record(epsilon, SHARES, orders)
    full = laplace_rdp(epsilon, orders).as_array()
    # A chord meets its ends: both sides carry the same rounding there.
    check(found * (1 + 1e-13), exact, full)
    assert (found[-1] == full).all()


@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.3, 0.99])
@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0, 60.0])
@pytest.mark.parametrize("orders", [ORDERS, STEEP])
def test_sampled_gaussian(rate, noise, orders):
    exact = one_by_one(lambda s: poisson_gaussian_rdp(rate, noise / s, orders), SHARES[:160],
                       orders)
    found = poisson_gaussian_per_record(rate, noise, SHARES, orders)
    assert (found[:160] >= exact * (1 - 1e-12)).all()
    assert (found[:160] <= exact * LIMIT).all()  # for every share, however small
    assert (found[-1] == poisson_gaussian_rdp(rate, noise, orders).as_array()).all()
    assert (found > 0).all()


@pytest.mark.parametrize(("rate", "noise"), [(1e-3, 0.5), (0.05, 1.0), (0.5, 3.0)])
def test_sampled_gaussian_against_many_digits(rate, noise):
    shares = np.array([1e-7, 0.003, 0.2, 0.37, 0.71, 0.99])
    found = poisson_gaussian_per_record(rate, noise, shares, (2.0, 7.0, 64.0))
    with mp.workdps(80):
        q = mp.mpf(rate)
        for share, row in zip(shares.tolist(), found.tolist(), strict=True):
            square = (mp.mpf(share) / mp.mpf(noise)) ** 2
            for order, bound in zip((2, 7, 64), row, strict=True):
                moment = mp.fsum(mp.binomial(order, k) * (1 - q) ** (order - k) * q**k
                                 * mp.exp(k * (k - 1) * square / 2) for k in range(order + 1))
                exact = mp.log(moment) / (order - 1)
                assert exact <= bound <= exact * LIMIT


def test_sampled_gaussian_near_every_point_of_its_tables():
    """Random mechanisms, shares all over the steep parts."""
    source = random.Random(11)
    for _ in range(8):
        rate, noise = 10 ** source.uniform(-6, -0.01), 10 ** source.uniform(-0.8, 2)
        middle = np.sqrt(np.linspace(1e-9, 1, 997)[1:])
        shares = middle[middle < noise / 0.05]
        row = np.tile(np.array(ORDERS), len(shares))
        exact = sampled_gaussian_bounds(rate, np.repeat(noise / shares, len(ORDERS)), row)
        ratio = poisson_gaussian_per_record(rate, noise, shares, ORDERS) / exact.reshape(
            len(shares), len(ORDERS))
        assert ratio.min() >= 1 - 1e-12 and ratio.max() <= LIMIT, (rate, noise)


def test_convexity_on_which_the_chords_rest():
    """log of the moment is convex in the square, at fractional orders and below 1.5 too."""
    squares = np.linspace(1e-3, 4, 400)
    for order in (1.01, 1.2, 1.7, 2.0, 2.5, 9.3):
        for rate in (1e-4, 0.1, 0.5, 0.97):
            values = sampled_gaussian_bounds(
                rate, 1 / np.sqrt(squares), np.full(len(squares), order))
            assert (np.diff(values, 2) >= -1e-10 * values[2:]).all()
            assert (values / squares >= order * rate**2 / 2 * (1 - 1e-12)).all()


@pytest.mark.parametrize(("rate", "noise"), [
    (0.1, 0.02), (1e-300, 1.0), (0.5, 1e300), (0.5, 1e-300), (1 - 2**-53, 0.05), (1e-99, 1e49)])
def test_extremes_are_never_below(rate, noise):
    """The tangent at zero is below; a table may beat the fallback bounds used out there."""
    shares = np.array([1e-9, 0.1, 0.5, 0.999, 1.0])
    found = poisson_gaussian_per_record(rate, noise, shares, ORDERS)
    for share, row in zip(shares.tolist(), found.tolist(), strict=True):
        for order, bound in zip(ORDERS, row, strict=True):
            assert order / 2 * (mp.mpf(rate) * share / mp.mpf(noise)) ** 2 <= bound
    assert (found[-1] == poisson_gaussian_rdp(rate, noise, ORDERS).as_array()).all()


def test_ends_of_the_sampling_rate():
    assert not poisson_gaussian_per_record(0.0, 1.0, SHARES, ORDERS).any()
    zero = RdpCurve.zero(ORDERS)
    assert not poisson_laplace_per_record(0.0, 1.0, zero, SHARES).any()
    assert np.array_equal(poisson_laplace_per_record(1.0, 0.5, zero, SHARES),
                          laplace_per_record(0.5, SHARES, ORDERS))
    assert not laplace_per_record(0.0, SHARES, ORDERS).any()
    assert np.array_equal(poisson_gaussian_per_record(1.0, 2.0, SHARES, ORDERS),
                          gaussian_per_record(2.0, SHARES, ORDERS))


def true_sampled_laplace(rate, epsilon, order):
    """Both directions by quadrature; the means less 1, with digits that cancellation leaves."""
    with mp.workdps(30 - 2 * min(0, int(mp.log10(rate * epsilon)))):
        q, e, a = mp.mpf(rate), mp.mpf(epsilon), mp.mpf(order)

        def mean(power):
            def at(x):
                u = q * mp.expm1(2 * x - e)
                return (1 + u) ** power - 1 - power * u

            pieces = mp.linspace(0, e, 2 + int(e))
            # Smooth on every piece: a third of the points of the other rule, to the last digit.
            inside = mp.quad(lambda x: mp.exp(-x) * at(x), pieces, maxdegree=5,
                             method="gauss-legendre")
            return (inside + at(mp.mpf(0))) / 2 + mp.exp(-e) * at(e) / 2

        return mp.log1p(max(mean(a), mean(1 - a))) / (a - 1)


@pytest.mark.parametrize(("rate", "epsilon"), [
    (1e-6, 1.0), (0.01, 1e-3), (0.01, 1.0), (0.01, 9.0), (0.9, 3.0)])
def test_sampled_laplace(rate, epsilon):
    """Never below the truth, at most 1.2 % above, whatever number of releases it stands for."""
    orders = (1.01, 2.5, 4.0, 64.0)
    curve = RdpCurve(orders, tuple(
        pl.rdp(pl.PoissonSample(rate, pl.Laplace(1 / epsilon)), orders)))
    full = curve.bounds
    shares = np.concatenate((SHARES[80:160:20], [0.3, 0.7, 1.0]))
    found = poisson_laplace_per_record(rate, epsilon, curve, shares)
    assert (found[-1] <= np.array(full)).all()
    for share, row in zip(shares.tolist(), found.tolist(), strict=True):
        for order, bound, most in zip(orders, row, full, strict=True):
            true = true_sampled_laplace(rate, mp.mpf(share) * epsilon, order)
            assert true <= bound
            assert bound <= 1.012 * true or true < NEGLIGIBLE * most


@pytest.mark.parametrize(("rate", "epsilon"), [
    (1e-120, 1.0), (0.3, 900.0), (1 - 2**-53, 2.0), (0.5, 590.0)])
def test_a_sampled_laplace_out_of_reach_is_priced_as_pure(rate, epsilon):
    full = pure_rdp(poisson_pure_epsilon(rate, epsilon), ORDERS)
    found = poisson_laplace_per_record(rate, epsilon, full, SHARES)
    assert np.isfinite(found).all() and (found <= full.as_array()).all()
    for share, row in zip(SHARES[80:160:20].tolist(), found[80:160:20].tolist(), strict=True):
        for order, bound in zip((1.5, 64.0), (row[1], row[-1]), strict=True):
            assert true_sampled_laplace(rate, mp.mpf(share) * epsilon, order) <= bound


CALLS = (
    lambda shares, orders: gaussian_per_record(1.1, shares, orders),
    lambda shares, orders: laplace_per_record(1.1, shares, orders),
    lambda shares, orders: poisson_gaussian_per_record(0.02, 1.1, shares, orders),
    lambda shares, orders: poisson_laplace_per_record(
        0.02, 1.1, pure_rdp(1.1, orders), shares),
)


@pytest.mark.parametrize("call", CALLS)
def test_zero_costs_zero_and_more_costs_more(call):
    shares = np.concatenate(([-0.0, 0.0], np.geomspace(1e-9, 1, 20_000)))
    found = call(shares, ORDERS)
    assert found.shape == (len(shares), len(ORDERS)) and found.dtype == np.float64
    assert not found[:2].any() and (found[2:] > 0).all()
    assert (np.diff(found, axis=0) >= -1e-13 * found[1:]).all()


@pytest.mark.parametrize("call", CALLS)
def test_records_do_not_depend_on_their_neighbours(call):
    shares = np.random.default_rng(1).random(30_000)
    found = call(shares, ORDERS)
    assert np.array_equal(found[::-1], call(shares[::-1], ORDERS))
    assert np.array_equal(found[17_000:17_001], call(shares[17_000:17_001], ORDERS))
    assert call(shares[:0], ORDERS).shape == (0, len(ORDERS))


SECRET = 0.7312345
BAD_SHARES = [
    np.array([SECRET, math.nan]), np.array([SECRET, 1 + 2.0**-52]), np.array([SECRET, -1e-300]),
    np.array([SECRET, math.inf]), np.array([[SECRET]]), np.array(SECRET),
    np.array([True, False]), np.array([SECRET + 0j]), np.array(["0.7312345"]),
    np.array([SECRET], dtype=object), np.array([SECRET], dtype=np.longdouble),
    np.ma.masked_array([SECRET], [True]), [SECRET], SECRET, "0.7312345", None,
]


@all_cases("bad", BAD_SHARES, ids=range(len(BAD_SHARES)))
@all_cases("call", CALLS)
def test_bad_shares_are_refused_without_saying_one(call, bad):
    with pytest.raises(InvalidValue) as caught:
        call(bad, ORDERS)
    assert "73123" not in str(caught.value) + repr(caught.value.value) + repr(caught.value.args)


def test_shares_of_other_number_types():
    for kind in (np.float16, np.float32, np.int8, np.uint64):
        assert check_shares(np.array([0, 1], dtype=kind)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, True, "1", None, 1e-310])
def test_bad_parameters_are_refused(bad):
    shares = np.array([0.5])
    for call in (
        lambda: gaussian_per_record(bad, shares), lambda: laplace_per_record(bad, shares),
        lambda: poisson_gaussian_per_record(bad, 1.0, shares),
        lambda: poisson_gaussian_per_record(0.5, bad, shares),
        lambda: poisson_laplace_per_record(bad, 1.0, RdpCurve.zero(ORDERS), shares),
        lambda: poisson_laplace_per_record(0.5, bad, RdpCurve.zero(ORDERS), shares),
    ):
        with pytest.raises(InvalidValue):
            call()


def test_default_orders_have_a_table():
    found = poisson_gaussian_per_record(0.01, 1.0, SHARES)
    exact = one_by_one(lambda s: poisson_gaussian_rdp(0.01, 1 / s), SHARES[:160], DEFAULT_ORDERS)
    assert (found[:160] >= exact * (1 - 1e-12)).all() and (found[:160] <= exact * LIMIT).all()


def test_a_hundred_thousand_records_are_fast():
    shares = np.random.default_rng(2).random(100_000)
    best = math.inf
    for noise in (1.01, 1.02, 1.03):  # a new table each time
        start = time.process_time()
        poisson_gaussian_per_record(0.01, noise, shares, ORDERS)
        best = min(best, time.process_time() - start)
    assert best < 0.6
