"""Deltas of 1e-15 and 1e-30 against arbitrary precision: no bound below the truth, none far off."""

from __future__ import annotations

import mpmath as mp  # type: ignore[import-untyped]
import pytest

import privledger as pl
from privledger import PoissonSample, Repeat
from privledger.nodes import RandomAllocation
from tests.accounting import contour
from tests.accounting.pld import exact
from tests.accounting.pld.test_gaps import bounds, sgd
from tests.all_cases import all_cases

TINY = [1e-15, 1e-30]
CLOSE = 1e-4


def enclosed(node: pl.Node, delta: float, true: list[exact.Profile], relation: str) -> None:
    """The exact delta at our epsilon is at most delta; just below the lower bound it is more."""
    lower, upper = bounds(node, delta, relation)
    with mp.workdps(exact.DIGITS):
        assert max(profile(mp.mpf(upper)) for profile in true) <= delta
        assert max(profile(mp.mpf(lower) * (1 - mp.mpf(10) ** -12)) for profile in true) >= delta
    assert upper <= (1 + CLOSE) * lower


@pytest.mark.parametrize("delta", TINY)
def test_gaussians(delta) -> None:
    enclosed(pl.Repeat(pl.Gaussian(4.0), 8), delta, [exact.gaussian(mp.sqrt(8) / 4)], "add_remove")


@pytest.mark.parametrize("delta", TINY)
def test_answers(delta) -> None:
    enclosed(pl.Repeat(pl.RandomizedResponse(0.8, 3), 50), delta,
             [exact.response(0.8, 3).power(50)], "replace_one")


@pytest.mark.parametrize("delta", TINY)
def test_discrete_laplaces(delta) -> None:
    table = exact.discrete_laplace(0.5, 1)
    enclosed(pl.Repeat(pl.DiscreteLaplace(0.5), 60), delta, [table.power(60)],
             "add_remove")


@pytest.mark.parametrize("delta", TINY)
def test_sampled_answers(delta) -> None:
    """Both directions of a Poisson sample of discrete noise."""
    table = exact.discrete_laplace(0.5, 1)
    lanes = [table.sampled(0.25, lane).power(40) for lane in ("remove", "add")]
    enclosed(pl.Repeat(pl.PoissonSample(0.25, pl.DiscreteLaplace(0.5)), 40), delta, lanes,
             "add_remove")


@pytest.mark.parametrize("delta", TINY)
def test_one_sampled_gaussian(delta) -> None:
    known = exact.gaussian(0.5)
    enclosed(pl.PoissonSample(0.1, pl.Gaussian(2.0)), delta,
             [exact.removed(0.1, known), exact.added(0.1, known)], "add_remove")


@pytest.mark.parametrize("delta", TINY)
def test_a_thousand_rounds_by_contour(delta) -> None:
    truth = contour.epsilon(
        [(contour.normals({0.0: 0.99, 1.0: 0.01}, {0.0: 1.0}, 1500), 1000)], delta)
    lower, upper = bounds(sgd(0.01, 1.0, 1000), delta)
    assert lower * (1 - 1e-8) <= truth <= upper * (1 + 1e-8)
    assert upper <= (1 + CLOSE) * lower


@all_cases("plan", [
    Repeat(PoissonSample(0.01, pl.Sequential([pl.Gaussian(1.0), pl.Laplace(5.0)])), 1000),
    Repeat(pl.Parallel([Repeat(pl.Laplace(5.0), 3), pl.Gaussian(3.0)]), 20),
    RandomAllocation(100, pl.Gaussian(1.0)), RandomAllocation(100, pl.Laplace(1.0)),
    Repeat(pl.nodes.MixtureOfGaussians(3.0, (0, 1), (0.9, 0.1)), 20)], ids=str)
def test_delta_is_what_epsilon_was_asked_at(plan):
    """A product on a sample sent 1e-20 of its mass to infinity, whatever delta came out: 10,000
    times too much at 1e-25. An allocation kept 8.5 deviations: ten times too much at 1e-18."""
    for delta in (1e-12, 1e-18, 1e-25):
        assert pl.delta(plan, pl.epsilon(plan, delta)) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize(("steps", "noise"), [(100, 1.0), (10, 0.25)])
def test_an_allocation_is_reached_at_tiny_deltas(steps, noise):
    """4.660 and 6.317 for 4.404 and 6.084; from below 4.278 and 4.412."""
    plan = RandomAllocation(steps, pl.Gaussian(noise))
    for delta in (1e-6, 1e-18, 1e-25):
        price = pl.epsilon(plan, delta)
        assert pl.epsilon(plan, delta, explain=True).lower == pytest.approx(price, rel=1e-4)
