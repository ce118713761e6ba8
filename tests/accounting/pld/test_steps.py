"""Groups of rows and exchanged rows: pairs against mpmath, and against neighbours' own laws."""

from __future__ import annotations

import itertools
import math

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest

import privledger as pl
from privledger.accounting.pld.accountant import delta_upper, epsilon_lower, epsilon_upper
from privledger.accounting.pld.by_pld import delta_of_one
from privledger.accounting.pld.mixtures import MixturePair, binomial
from privledger.accounting.pld.pairs import GaussianPair
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair
from privledger.errors import UnsupportedNode

ONE = (1.0,)
PAIRS = {
    "exchange": MixturePair(binomial(0.01, 1), binomial(0.01, 1), 1.0),
    "rare exchange": MixturePair(binomial(1e-4, 1), binomial(1e-4, 1), 0.7),
    "sharp exchange": MixturePair(binomial(0.2, 1), binomial(0.2, 1), 5.0),
    "group goes": MixturePair(binomial(0.05, 3), ONE, 0.8),
    "group comes": MixturePair(ONE, binomial(0.05, 3), 0.8),
    "groups exchanged": MixturePair(binomial(0.3, 4), binomial(0.3, 4), 0.4),
    "large group": MixturePair(binomial(0.01, 30), ONE, 0.3),
}


def density(weights, mu, x):
    return mp.fsum(mp.mpf(one) * mp.npdf(x - j * mp.mpf(mu)) for j, one in enumerate(weights))


def profile(pair, epsilon):
    """H at e^epsilon: the loss rises in x, so the best test is a half-line found by bisection."""
    with mp.workdps(35):
        level, low, high = mp.exp(mp.mpf(epsilon)), mp.mpf(-60), mp.mpf(60)
        for _ in range(115):
            x = (low + high) / 2
            above = density(pair.up, pair.mu, x) > level * density(pair.down, -pair.mu, x)
            low, high = (low, x) if above else (x, high)
        return mp.fsum(mp.mpf(one) * mp.ncdf(j * mp.mpf(pair.mu) - low)
                       for j, one in enumerate(pair.up)) - level * mp.fsum(
            mp.mpf(one) * mp.ncdf(-j * mp.mpf(pair.mu) - low) for j, one in enumerate(pair.down))


@pytest.mark.parametrize("name", list(PAIRS)[:-1])
def test_one_run_is_exact_and_never_below(name):
    pair = PAIRS[name]
    for epsilon in (0.0, 1e-3, 0.1, 0.5, 3.0):
        truth = max(mp.mpf(0), profile(pair, epsilon))
        found, under = (delta_of_one(pair, epsilon, upper=one) for one in (True, False))
        assert under <= truth + mp.mpf(10)**-30 and truth <= found * (1 + 1e-15)
        assert found - under <= 1e-12 * truth + 1e-13


@pytest.mark.parametrize("name", PAIRS)
def test_edges_are_where_they_say(name):
    pair = PAIRS[name]
    edges = np.linspace(-2.0, 6.0, 4001)
    bands = pair.bands(edges)
    assert bands.blur < 1e-12
    assert abs(bands.p.sum() + bands.below + bands.above - 1) < 1e-12
    assert abs(bands.q.sum() + bands.below_q + bands.above_q - 1) < 1e-12
    inside = bands.q > 1e-300
    ratio = np.log(bands.p[inside]) - np.log(bands.q[inside])
    loose = 1e-12 + 4 * (bands.slack_p[inside] / bands.p[inside]
                         + bands.slack_q[inside] / bands.q[inside])
    assert (ratio >= edges[:-1][inside] - loose).all()
    assert (ratio <= edges[1:][inside] + loose).all()


def test_one_row_is_a_sample_s_own_pair():
    for rate, mu in ((0.01, 1.0), (0.3, 2.0)):
        weights = binomial(rate, 1)
        for mixture, known in (
                (MixturePair(weights, ONE, mu), RemovePair(rate, GaussianPair(mu))),
                (MixturePair(ONE, weights, mu), AddPair(rate, GaussianPair(mu)))):
            for epsilon in (0.0, 0.05, 0.4):
                assert delta_of_one(mixture, epsilon) == pytest.approx(
                    delta_of_one(known, epsilon), rel=1e-9, abs=1e-14)


def test_chances_of_rows_add_up():
    for rate, rows in itertools.product((1e-5, 0.01, 0.5, 0.99), (1, 3, 40)):
        assert abs(math.fsum(binomial(rate, rows)) - 1) < 1e-15 * (rows + 1)


def test_no_neighbours_on_a_plane_are_told_apart_better():
    """Rows of length at most 1 in any direction, some of them fewer than allowed: by sums over a
    grid on the plane, which for normal densities is exact to 1e-9 or so."""
    rng = np.random.default_rng(5)
    x = np.linspace(-8, 12, 161)
    cell = (x[1] - x[0]) ** 2
    plane = np.stack(np.meshgrid(x, x), -1)

    def law(rows, rate):
        total = np.zeros(plane.shape[:2])
        for inside in itertools.product((0, 1), repeat=len(rows)):
            chance = np.prod([rate if one else 1 - rate for one in inside])
            centre = sum((row for row, one in zip(rows, inside, strict=True) if one),
                         np.zeros(2))
            total += chance * np.exp(-0.5 * ((plane - centre) ** 2).sum(-1)) / (2 * math.pi)
        return total

    for _ in range(6):
        rate, most = float(rng.uniform(0.02, 0.9)), int(rng.integers(1, 4))
        mu = float(rng.uniform(0.2, 1.3))

        def some(most=most, mu=mu):
            angles = rng.uniform(0, 2 * math.pi, int(rng.integers(1, most + 1)))
            return [mu * rng.uniform(0.3, 1) * np.array([math.cos(a), math.sin(a)])
                    for a in angles]

        old, new = law(some(), rate), law(some(), rate)
        nobody, chances = law([], rate), binomial(rate, most)
        for p, q, pair in ((old, new, MixturePair(chances, chances, mu)),
                           (old, nobody, MixturePair(chances, ONE, mu)),
                           (nobody, new, MixturePair(ONE, chances, mu))):
            for level in (0.4, 0.9, 1.0, 1.5, 4.0):
                found = float(np.maximum(p - level * q, 0).sum() * cell)
                most_allowed = (delta_of_one(pair, math.log(level)) if level >= 1
                                else float(profile(pair, math.log(level))))
                assert found <= most_allowed + 1e-7


def test_published_numbers():
    """The truth of issue 18 is 2.84344, by three accountants; ours lies above and within 1e-5."""
    steps = pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 1000)
    found = pl.certify(pl.nodes.AsReplaceOne(steps), 1e-5, relation="replace_one")
    assert found.accountant == "pld" and 2.84344 <= found.epsilon < 2.84346
    items = ((PAIRS["exchange"], 1000),)
    assert 2.8434 < epsilon_lower(items, 1e-5).value <= epsilon_upper(items, 1e-5).value
    assert delta_upper(items, 2.84346).value <= 1e-5


def test_a_group_goes_as_it_is_exchanged():
    steps = pl.Repeat(pl.PoissonSample(0.02, pl.Gaussian(1.5)), 50)
    one = pl.nodes.Group(3, pl.nodes.AsReplaceOne(steps))
    other = pl.nodes.AsReplaceOne(pl.nodes.Group(3, steps))
    both = [pl.epsilon(node, 1e-6, relation="replace_one") for node in (one, other)]
    assert both[0] == both[1]
    fewer = pl.epsilon(pl.nodes.Group(3, steps), 1e-6)
    assert fewer < both[0] < pl.epsilon(one, 1e-6, relation="replace_one", accountant="rdp")


def test_releases_on_all_rows():
    """Shifts add up: k rows of Laplace noise are one Laplace at k times the shift."""
    for rows in (2, 5):
        group = pl.nodes.Group(rows, pl.Repeat(pl.Laplace(10.0), 100))
        own = pl.Repeat(pl.Laplace(10.0 / rows), 100)
        assert pl.epsilon(group, 1e-5) == pytest.approx(pl.epsilon(own, 1e-5), rel=1e-6)
    exponential = pl.nodes.Group(2, pl.Repeat(pl.Exponential(0.05), 60))
    own = pl.Repeat(pl.Exponential(0.1), 60)
    assert pl.epsilon(exponential, 1e-6) <= pl.epsilon(own, 1e-6) * 1.001


@pytest.mark.parametrize("inside", [
    pl.PoissonSample(0.1, pl.Parallel([pl.Laplace(1.0), pl.Laplace(2.0)])),
    pl.nodes.Correlated(pl.PoissonSample(0.1, pl.Gaussian(1.0)), (1.0, 0.5), 20, 5, 3),
], ids=["sampled parts", "correlated"])
def test_what_is_not_proved_has_no_distribution(inside):
    for node, relation in ((pl.nodes.Group(2, inside), "add_remove"),
                           (pl.nodes.AsReplaceOne(inside), "replace_one")):
        try:
            found = pl.certify(node, 1e-5, relation=relation, accountant="pld")
        except UnsupportedNode:
            continue
        assert pl.epsilon(node, 1e-5, relation=relation, accountant="pure") >= (
            found.epsilon * (1 - 1e-12))


def test_rows_in_parts_cost_what_they_cost_in_the_dearest():
    """All rows may be in that part: a lower bound, which is reached."""
    parts = pl.Parallel([pl.Laplace(1.0), pl.Laplace(2.0), pl.Exponential(0.4)])
    for make, relation in ((lambda node: pl.nodes.Group(3, node), "add_remove"),
                           (pl.nodes.AsReplaceOne, "replace_one")):
        least = pl.epsilon(make(pl.Laplace(1.0)), 1e-2, relation)
        assert least * (1 - 1e-12) <= pl.epsilon(make(parts), 1e-2, relation) <= least * 1.001
