"""Random trees over node types and both relations: never below the truth, by an oracle apart.

The short form draws 100 trees; `pytest -m slow` 1,000, and prints the widest gaps.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import privledger as pl
from tests.accounting import contour
from tests.accounting.contour import World

Drawn = tuple[pl.Node, World]
PRECISION = 1e-8  # of the oracle, relative


def sampled(rng, exchanged, rows):
    """DP-SGD: rounds of a Gaussian on a Poisson sample, one direction or an exchange."""
    rate, noise = 10 ** rng.uniform(-3, -0.3), rng.uniform(0.7, 4)
    count = int(10 ** rng.uniform(0, 2.5))
    up = {j / noise: math.comb(rows, j) * rate**j * (1 - rate) ** (rows - j)
          for j in range(rows + 1)}
    down = {-centre: weight for centre, weight in up.items()} if exchanged else {0.0: 1.0}
    node = pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(noise)), count)
    return node, [(contour.normals(up, down), count)]


def gaussian(rng, steps):
    noise = rng.uniform(2, 30)
    return pl.Gaussian(noise), [(contour.Normal(steps / noise), 1)]


def laplace(rng, steps):
    scale, count = rng.uniform(2, 50), int(rng.integers(1, 30))
    return pl.Repeat(pl.Laplace(scale), count), [(contour.laplaces(steps / scale), count)]


def sampled_laplace(rng):
    rate, scale, count = 10 ** rng.uniform(-2, -0.2), rng.uniform(0.7, 5), int(
        rng.integers(1, 60))
    return (pl.Repeat(pl.PoissonSample(rate, pl.Laplace(scale)), count),
            [(contour.laplaces(1 / scale, rate), count)])


def whole_laplace(rng):
    parameter, count = rng.uniform(0.1, 0.8), int(rng.integers(1, 12))
    return (pl.Repeat(pl.DiscreteLaplace(parameter), count),
            [(contour.whole_laplace(parameter, 1), count)])


def whole_gaussian(rng):
    sigma, count = rng.uniform(2, 12), int(rng.integers(1, 12))
    return (pl.Repeat(pl.DiscreteGaussian(sigma), count),
            [(contour.whole_gaussian(sigma, 1), count)])


def answers(rng):
    noise, buckets, count = rng.uniform(0.4, 0.95), int(rng.integers(2, 6)), int(
        rng.integers(1, 6))
    wrong = noise / buckets
    law = contour.finite([wrong, wrong * (buckets - 2) or 1e-300, 1 - noise + wrong],
                         [1 - noise + wrong, wrong * (buckets - 2) or 1e-300, wrong])
    return pl.Repeat(pl.RandomizedResponse(noise, buckets), count), [(law, count)]


def choice(rng):
    """Two candidates whose scores move apart: one world of an exponential mechanism."""
    epsilon, count = rng.uniform(0.02, 0.4), int(rng.integers(1, 20))
    odds = [1 / (1 + math.exp(side * epsilon / 2)) for side in (-1, 1)]
    law = contour.finite([odds[0], 1 - odds[0]], [odds[1], 1 - odds[1]])
    return pl.Repeat(pl.Exponential(epsilon), count), [(law, count)]


def fixed_size(rng):
    """The record that is swapped is unlike all others, which are alike."""
    out_of = int(rng.integers(20, 500))
    size, noise, count = int(rng.integers(1, out_of // 2)), rng.uniform(1, 5), int(
        rng.integers(1, 40))
    rate = size / out_of
    node = pl.Repeat(pl.nodes.FixedSizeSample(size, out_of, pl.Gaussian(noise)), count)
    return node, [(contour.normals({0.0: 1 - rate, 1 / noise: rate}, {0.0: 1.0}), count)]


def both(one, other):
    return pl.Sequential((one[0], other[0])), one[1] + other[1]


def tree(rng) -> tuple[Drawn, str]:
    """A tree, a world that some neighbours have, and the relation. A Gaussian is always there."""
    kind = rng.choice(["add_remove", "group", "replace_one", "exchange", "group exchanged"])
    if kind == "add_remove":
        parts = [draw(rng) for draw in rng.choice(
            [sampled_laplace, whole_laplace, whole_gaussian, choice], size=2,
            replace=False)]
        parts += [sampled(rng, False, 1), laplace(rng, 1)][:int(rng.integers(0, 3))]
        found = gaussian(rng, 1)
        for part in parts:
            found = both(found, part)
        if rng.random() < 0.3:  # a part that costs less
            weak = pl.Gaussian(1000.0)
            found = pl.Parallel((found[0], weak), certificate="public_predicate"), found[1]
        return found, "add_remove"
    if kind == "replace_one":
        found = both(both(gaussian(rng, 1), fixed_size(rng)), answers(rng))
        return both(found, laplace(rng, 1)), "replace_one"
    rows = int(rng.integers(2, 5)) if "group" in kind else 1
    exchanged = kind != "group"
    steps = rows * (2 if exchanged else 1)
    found = both(gaussian(rng, steps), sampled(rng, exchanged, rows))
    if rng.random() < 0.5:
        found = both(found, laplace(rng, steps))
    node = found[0]
    if rows > 1:
        node = pl.nodes.Group(rows, node)
    return ((pl.nodes.AsReplaceOne(node) if exchanged else node), found[1]), (
        "replace_one" if exchanged else "add_remove")


def gap(seed: int, accountant: str = "best") -> tuple[float, str]:
    """Our epsilon over the world's, less 1; and the tree."""
    rng = np.random.default_rng([18, seed])
    (node, world), relation = tree(rng)
    delta = float(10 ** rng.uniform(-9, -3))
    sides = [world]
    if not isinstance(node, pl.nodes.AsReplaceOne):  # an exchange is its own mirror image
        sides.append([(law.turned(), count) for law, count in world])
    truth = max(contour.epsilon(side, delta) for side in sides)
    ours = pl.epsilon(node, delta, relation=relation, accountant=accountant)
    assert ours >= truth * (1 - PRECISION) - 1e-10, (seed, node, delta, ours, truth)
    return (ours / truth - 1 if truth > 0.01 else 0.0), f"{seed} {type(node).__name__}"


def test_a_hundred_trees_are_never_below_the_truth():
    gaps = sorted(gap(seed, "pld")[0] for seed in range(100))
    assert gaps[50] < 2e-3  # dominating pairs that no neighbours have make the rest


@pytest.mark.slow
def test_a_thousand_trees_are_never_below_the_truth():
    gaps = sorted(gap(seed) for seed in range(1000))
    print("\n".join(f"{size:.2e} {tree}" for size, tree in gaps[::-1][:40]))
    assert gaps[500][0] < 2e-3


@pytest.mark.parametrize(("rate", "noise", "count", "delta", "close"), [
    pytest.param(1e-4, 1.0, 10**6, 1e-9, 1e-4, marks=pytest.mark.slow),
    (1.417e-4, 1.6, 400, 1.17e-8, 1e-4),
    pytest.param(1e-5, 0.7, 10**5, 1e-7, 2e-3, marks=pytest.mark.slow),
    (1e-3, 2.0, 100, 1e-8, 1e-5),
])
def test_small_sampling_rates(rate, noise, count, delta, close):
    """Where a saddle point misleads: up to 3.5 % too high once, and said to be within 1e-5."""
    truth = contour.epsilon(
        [(contour.normals({0.0: 1 - rate, 1 / noise: rate}, {0.0: 1.0}, 1500), count)], delta)
    node = pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(noise)), count)
    found = pl.certify(node, delta)
    excess = found.epsilon - truth
    assert -1e-9 * truth <= excess <= close * truth
    assert found.pld is not None and excess <= 3 * found.pld.added + 1e-6 * truth


def test_the_oracle_knows_what_is_known():
    gauss = [(contour.Normal(0.5), 4)]
    assert contour.epsilon(gauss, 1e-5) == pytest.approx(
        pl.epsilon(pl.Gaussian(1.0), 1e-5), rel=1e-9)
    mixed = [(contour.normals({0.0: 0.99, 1.0: 0.01}, {0.0: 0.99, -1.0: 0.01}), 1000)]
    assert contour.epsilon(mixed, 1e-5) == pytest.approx(2.84344, abs=1e-5)


def test_a_moment_that_vanishes_and_comes_back():
    """Discrete Gaussians beside a narrow one: the oracle once stopped before the moment's
    second hump and was 5e-5 too high, so that a right price looked too small."""
    assert 0 <= gap(611, "pld")[0] < 1e-5


def test_a_root_far_below_the_saddle_point_is_none():
    """Cancellation once gave the oracle 7.05 for an exchange that costs 26.96."""
    assert 0 <= gap(69, "pld")[0] < 1e-5
