"""Calibration returns a noise that was evaluated and met the target."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privledger.accounting import (
    epsilon_from_mu,
    epsilon_from_rdp,
    mu_from_epsilon_delta,
    poisson_gaussian_rdp,
    smallest,
)
from privledger.errors import InvalidValue


@given(st.floats(0.01, 50), st.floats(1e-12, 0.01))
def test_agrees_with_the_closed_form(epsilon: float, delta: float) -> None:
    noise = smallest(lambda noise: epsilon_from_mu(1 / noise, delta), epsilon)
    assert epsilon_from_mu(1 / noise, delta) <= epsilon
    assert noise == pytest.approx(1 / mu_from_epsilon_delta(epsilon, delta), rel=2e-11)


def test_few_evaluations_for_sampled_rounds() -> None:
    calls = []

    def epsilon_of(noise: float) -> float:
        calls.append(noise)
        return epsilon_from_rdp(poisson_gaussian_rdp(0.05, noise).times(500), 1e-6)[0]

    noise = smallest(epsilon_of, 1.0)
    assert len(calls) <= 20
    assert epsilon_of(noise) <= 1.0 < epsilon_of(noise * (1 - 1e-10))
    assert noise == pytest.approx(5.2085, abs=1e-3)


def test_failures_at_tiny_noise_count_as_too_much() -> None:
    def fragile(noise: float) -> float:
        if noise < 0.3:
            raise OverflowError
        return math.inf if noise < 0.7 else (math.nan if noise < 0.8 else 1 / noise)

    assert smallest(fragile, 1.0) == pytest.approx(1.0, rel=1e-10)
    assert smallest(fragile, 5.0) == pytest.approx(0.8, rel=1e-10)


def test_a_jump_is_bracketed() -> None:
    noise = smallest(lambda noise: 0.0 if noise >= 3 else 7.0, 1.0)
    assert 3 <= noise <= 3 * (1 + 1e-10)


def test_limits() -> None:
    assert smallest(lambda noise: 0.0, 1.0, low=0.5) == 0.5
    with pytest.raises(InvalidValue):
        smallest(lambda noise: 2.0, 1.0)
    with pytest.raises(InvalidValue):
        smallest(lambda noise: 1 / noise, 1.0, low=2.0, high=1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", None, 1e-310])
def test_bad_targets_are_refused(bad: float) -> None:
    with pytest.raises(InvalidValue):
        smallest(lambda noise: 1 / noise, bad)
