"""How far apart a price and its lower bound lie, and that the truth is between them."""

from __future__ import annotations

import pytest

import privledger as pl
from privledger.accounting import DEFAULT_ORDERS
from privledger.accounting.certificate import epsilon_at, epsilon_at_least
from privledger.graph.fold import cost_of
from tests.accounting import contour

GAP = 1e-4


def bounds(node: pl.Node, delta: float, relation: str = "add_remove") -> tuple[float, float]:
    cost = cost_of(node, relation, DEFAULT_ORDERS)
    return epsilon_at_least(cost, delta), epsilon_at(cost, delta).epsilon


def sgd(rate: float, noise: float, count: int) -> pl.Node:
    return pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(noise)), count)


NOISES = [0.8 + 0.1 * place for place in range(20)]
CLOSE = {
    "laplace group": (pl.nodes.Group(3, pl.Repeat(pl.Laplace(10.0), 100)), 1e-5),
    "rare and few": (sgd(1.417e-4, 1.6, 400), 1.17e-8),
    "noises": (pl.Sequential(tuple(
        pl.PoissonSample(0.01, pl.Gaussian(noise)) for noise in NOISES)), 1e-6),
    "discrete gaussian": (pl.Repeat(pl.DiscreteGaussian(10.0), 50), 1e-6),
    "sampled laplace": (pl.Repeat(pl.PoissonSample(0.01, pl.Laplace(1.0)), 1000), 1e-6),
    "sampled laplaces": (pl.Sequential((
        pl.Repeat(pl.PoissonSample(0.01, pl.Laplace(1.0)), 500),
        pl.Repeat(pl.PoissonSample(0.02, pl.Laplace(2.0)), 500), pl.Gaussian(10.0))), 1e-6),
    "sampled discrete laplace": (
        pl.Repeat(pl.PoissonSample(0.05, pl.DiscreteLaplace(0.5)), 300), 1e-6),
    "sgd, a tiny delta": (sgd(0.01, 1.0, 1000), 1e-30),
}


@pytest.mark.slow
def test_a_million_rounds_at_a_small_rate() -> None:
    lower, upper = bounds(sgd(1e-4, 1.0, 10**6), 1e-9)
    assert lower <= 0.713700 <= upper <= (1 + GAP) * lower


@pytest.mark.parametrize("name", CLOSE)
def test_price_and_lower_bound_are_close(name: str) -> None:
    lower, upper = bounds(*CLOSE[name])
    assert lower <= upper <= (1 + GAP) * lower


@pytest.mark.parametrize(("rate", "scale", "count", "smooth", "delta"), [
    (0.01, 1.0, 1000, 0.5, 1e-6), (0.3, 2.0, 5, 0.4, 1e-8), (0.05, 0.8, 40, 1.0, 1e-4)])
def test_the_truth_of_sampled_laplaces_lies_between(rate, scale, count, smooth, delta) -> None:
    """With two offsets: the lattices of a removal and of an unsampled Laplace."""
    node = pl.Sequential((
        pl.Repeat(pl.PoissonSample(rate, pl.Laplace(scale)), count), pl.Laplace(3.0),
        pl.Gaussian(1 / smooth)))
    world = [(contour.laplaces(1 / scale, rate), count), (contour.laplaces(1 / 3.0), 1),
             (contour.Normal(smooth), 1)]
    truth = max(contour.epsilon(world, delta),
                contour.epsilon([(law.turned(), n) for law, n in world], delta))
    lower, upper = bounds(node, delta)
    assert lower * (1 - 1e-8) <= truth <= upper * (1 + 1e-8)
    assert upper <= (1 + GAP) * lower


@pytest.mark.parametrize(("rate", "noise", "count", "delta"), [
    (1.417e-4, 1.6, 400, 1.17e-8), (1e-3, 2.0, 100, 1e-8), (0.2, 1.0, 30, 1e-5)])
def test_the_truth_of_sampled_gaussians_lies_between(rate, noise, count, delta) -> None:
    truth = contour.epsilon(
        [(contour.normals({0.0: 1 - rate, 1 / noise: rate}, {0.0: 1.0}, 1500), count)], delta)
    lower, upper = bounds(sgd(rate, noise, count), delta)
    assert lower * (1 - 1e-8) <= truth <= upper * (1 + 1e-8)
