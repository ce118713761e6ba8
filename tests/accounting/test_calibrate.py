"""Calibration returns a noise that was evaluated and met the target."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting import (
    epsilon_from_mu,
    epsilon_from_rdp,
    mu_from_epsilon_delta,
    poisson_gaussian_rdp,
    smallest,
)
from privledger.errors import InvalidValue
from tests.all_cases import all_cases


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


@all_cases("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", None, 1e-310])
def test_bad_targets_are_refused(bad: float) -> None:
    with pytest.raises(InvalidValue):
        smallest(lambda noise: 1 / noise, bad)


@all_cases("epsilon", [1e-130, 1e-30, 1e-12, 1.0, 300.0, 1e9, 1e30, 1e130])
@all_cases("build", [
    lambda s: pl.Laplace(s), lambda s: pl.Repeat(pl.Laplace(s), 100),
    lambda s: pl.PermuteAndFlip(1 / s), lambda s: pl.DiscreteLaplace(1 / s),
    lambda s: pl.Sequential([pl.Laplace(s), pl.Parallel([pl.Laplace(2 * s), pl.Laplace(s)])])])
def test_pure_noise_is_found_as_far_as_nodes_allow(build, epsilon):
    noise = pl.calibrate(build, epsilon)
    assert epsilon * (1 - 1e-9) <= pl.epsilon(build(noise)) <= epsilon


@all_cases("noise", [pl.Gaussian, pl.DiscreteGaussian])
@all_cases(("epsilon", "delta"), [
    (1e-12, 1e-6), (1e-9, 1e-12), (1e9, 1e-6), (1.0, 1e-300), (1e-12, 1e-300), (1e30, 1e-6)])
def test_gaussian_noise_is_found_as_far_as_nodes_allow(noise, epsilon, delta):
    assert pl.epsilon(noise(pl.calibrate(noise, epsilon, delta)), delta) <= epsilon
    with pytest.raises(pl.InvalidValue, match="delta must be above 0"):
        pl.calibrate(noise, epsilon)


@pytest.mark.parametrize("epsilon", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("choice", [pl.Exponential, pl.PermuteAndFlip])
def test_the_epsilon_of_a_choice_is_found_as_far_as_nodes_allow(choice, epsilon):
    found = pl.calibrate(choice, epsilon, largest=True)
    assert epsilon * (1 - 1e-9) <= pl.epsilon(choice(found)) <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-6), (1e-6, 1e-6), (1e-7, 1e-9)])
@pytest.mark.parametrize(("rate", "runs", "mechanism"), [
    (.01, 100, pl.Gaussian), (.5, 20, pl.Gaussian), (.01, 50, pl.Laplace)])
def test_samples_at_tiny_epsilons_take_some_seconds(epsilon, delta, rate, runs, mechanism,
                                                    monkeypatch):
    """A minute, for masses that were zero: out to a largest loss that was far away."""
    from privledger.accounting.pld import accountant
    from privledger.accounting.pld.by_pld import epsilon_lower_by_pld
    from privledger.graph import cost_of

    ranges, widest = accountant._ranges, 0

    def counted(probe, items, lattice, delta):
        nonlocal widest
        found = ranges(probe, items, lattice, delta)
        widest = max(widest, *((last - first) / max(lattice.size, 4096) for first, last in found))
        return found

    monkeypatch.setattr(accountant, "_ranges", counted)
    begun = time.process_time()
    noise = pl.calibrate(lambda z: pl.Repeat(pl.PoissonSample(rate, mechanism(z)), runs), epsilon,
                         delta)
    assert time.process_time() - begun < 90
    assert widest < 20
    node = pl.Repeat(pl.PoissonSample(rate, mechanism(noise)), runs)
    assert epsilon_lower_by_pld(cost_of(node, "add_remove").losses, delta) <= (
        pl.epsilon(node, delta)) <= epsilon
    less = pl.Repeat(pl.PoissonSample(rate, mechanism(noise * .9999)), runs)
    assert pl.epsilon(less, delta) > epsilon
