"""Gaussian DP against 300 digits."""

import math
import random

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privledger.accounting import (
    delta_from_mu,
    epsilon_from_mu,
    mu_from_epsilon_delta,
    mu_from_pure,
)
from privledger.errors import InvalidValue
from tests.all_cases import all_cases


def true_delta(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(400):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def cases() -> list[tuple[float, float]]:
    source = random.Random(3)
    found = []
    for _ in range(120):
        mu = 10 ** source.uniform(-6, 3)
        found.append((mu, max(0.0, mu * (source.uniform(-1, 37) + mu / 2))))
    return found


@pytest.mark.parametrize(("mu", "epsilon"), cases())
def test_closed_forms_are_tight_and_never_below(mu: float, epsilon: float) -> None:
    truth = true_delta(mu, epsilon)
    delta = delta_from_mu(mu, epsilon)
    assert truth <= delta <= truth * (1 + mp.mpf(10) ** -12)
    if not 1e-300 < delta < 0.5:
        return
    proved = epsilon_from_mu(mu, float(truth))
    assert true_delta(mu, proved) <= float(truth)
    if epsilon > 0:
        assert proved <= epsilon * (1 + 1e-12)
        largest = mu_from_epsilon_delta(epsilon, float(truth))
        assert true_delta(largest, epsilon) <= float(truth)
        assert largest >= mu * (1 - 2e-12)


@all_cases("epsilon", [1e-12, 1e-6, 0.01, 0.5, 0.999, 1.0, 2.0, 50.0, 300.0, 700.0])
def test_pure_to_gaussian(epsilon: float) -> None:
    mu = mu_from_pure(epsilon)
    with mp.workdps(700):
        corner = 1 / (1 + mp.exp(mp.mpf(epsilon)))
        assert mp.ncdf(-mp.mpf(mu) / 2) <= corner
        assert mp.ncdf(-mp.mpf(mu) / 2 * (1 - mp.mpf(10) ** -12)) >= corner


def test_zero_costs_nothing() -> None:
    assert delta_from_mu(0, 0) == epsilon_from_mu(0, 0.1) == mu_from_pure(0) == 0
    assert epsilon_from_mu(1e-9, 0.1) == 0


@all_cases("mu", [1e-300, 1e-20, 1e-3, 1.0, 1e4, 1e7, 1e20, 1e100])
@all_cases("delta", [1e-300, 1e-20, 0.1, 0.5, 0.9, 0.9999999])
def test_extremes_give_numbers(mu: float, delta: float) -> None:
    epsilon = epsilon_from_mu(mu, delta)
    assert 0 <= epsilon < math.inf
    assert 0 < mu_from_epsilon_delta(epsilon, delta) < math.inf
    assert 0 < delta_from_mu(mu, epsilon) <= 1


@given(st.floats(1e-4, 50), st.floats(1e-4, 50), st.floats(1e-12, 0.4))
def test_more_mu_costs_more(first: float, second: float, delta: float) -> None:
    low, high = sorted((first, second))
    assert epsilon_from_mu(low, delta) <= epsilon_from_mu(high, delta) * (1 + 1e-11) + 1e-12


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1", None, 1e-310])
def test_bad_numbers_are_refused(bad: float) -> None:
    for call in (
        lambda: delta_from_mu(bad, 1.0), lambda: delta_from_mu(1.0, bad),
        lambda: epsilon_from_mu(bad, 0.1), lambda: epsilon_from_mu(1.0, bad),
        lambda: mu_from_epsilon_delta(bad, 0.1), lambda: mu_from_epsilon_delta(1.0, bad),
        lambda: mu_from_pure(bad),
    ):
        with pytest.raises(InvalidValue):
            call()
