"""The table of an allocation: masses against many digits, and what it may leave out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import privledger as pl
from privledger.accounting.pld.allocated import (
    _ONE,
    AllocatedPair,
    Law,
    Ratios,
    _cut,
    _one,
    ratio_law,
)
from privledger.accounting.pld.by_pld import delta_of_one
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.losses import pair_rdp
from privledger.accounting.pld.shifted import slopes
from privledger.nodes import RandomAllocation
from tests.all_cases import all_cases


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0])
def test_masses_of_one_ratio(mu):
    """Shared between grid points so that the mean of every cell stays; exact but for `_ONE`."""
    law, size = _one(mu, 10), mpf(mu)
    with mp.workdps(120):
        for k in range(2, len(law.place) - 1, 97):
            a, b, c = (mpf(float(at)) for at in law.place[k - 1:k + 2])
            (q0, q1, q2), (p0, p1, p2) = ([mp.ncdf(mp.log(at) / size + side * size / 2)
                                           for at in (a, b, c)] for side in (1, -1))
            truth = ((p1 - p0) - a * (q1 - q0)) / (b - a) + (c * (q2 - q1) - (p2 - p1)) / (c - b)
            assert 0 <= mpf(float(law.mass[k])) / truth - 1 <= 2 * _ONE


@pytest.mark.parametrize(("steps", "mu"), [(2, 1.0), (7, 0.3), (64, 2.0), (1000, 1.0)])
def test_mean_and_variance_of_the_ratio(steps, mu):
    """Never less than one and than the true variance; the total never below what was not left
    out."""
    law = ratio_law(steps, mu)
    ratio = law.place / steps
    assert 1 <= law.mass.sum() + law.lost_q <= 1 + 1e-6
    assert 1 <= law.mass @ ratio + law.lost_p <= 1 + 1e-6
    spread = float(law.mass @ (ratio - 1) ** 2) / (math.expm1(mu * mu) / steps)
    assert 1 - 1e-6 <= spread <= 1 + 6e-4
    assert law.lost_p < 1e-14 and law.lost_q < 1e-14


def test_what_is_left_out_is_lost_in_both_worlds():
    """A block of 2 of 10 rounds: P mass where the record is in it, Q mass of all five blocks."""
    law = Law(np.array([0.0, 1.0, 2.0, 4.0, 9.0]), np.array([0.1, 0.5, 0.3, 0.1, 1e-32]),
              0.0, 0.0, 0.0, 1)
    cut = _cut(law, 2, 10)
    assert len(cut.place) == 4
    assert cut.lost_p == pytest.approx(9e-32 / 2 + 5e-32, rel=1e-6, abs=0)
    assert cut.lost_q == pytest.approx(5e-32, rel=1e-6, abs=0)


def test_masses_between_losses_are_those_of_the_table():
    for add in (False, True):
        pair = AllocatedPair(5, 1.0, add)
        edges = np.linspace(-3.0, 3.0, 50)
        bands = pair.bands(edges)
        atoms = pair.atoms()
        for mass, below, above, rest in (
                (bands.p, bands.below, bands.above, atoms.infinite),
                (bands.q, bands.below_q, bands.above_q, atoms.q_only)):
            assert mass.sum() + below + above + rest == pytest.approx(1.0, abs=1e-8)
        middle = 0.5 * (edges[:-1] + edges[1:])
        full = bands.q > 1e-12
        assert np.abs(np.log(bands.p[full] / bands.q[full]) - middle[full]).max() <= 0.5 * (
            edges[1] - edges[0]) + 1e-9


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_the_smallest_ratios_are_shared_between_nothing_and_the_first_point(mu):
    law = _one(mu, 10)
    below = 0.5 * math.erfc((-math.log(law.place[1]) / mu - 0.5 * mu) / math.sqrt(2))
    assert below > 1e-18 and law.place[0] == 0
    assert law.mass[0] >= below * (1 - 1e-9) and law.mass[1] >= below


# --- Any child: a world of few outputs, every one of which is listed.


def world(p, q, steps):
    """Every mean of so many ratios, with its chance under Q; shape (k^steps,) each."""
    ratio, chance = np.zeros(1), np.ones(1)
    for _ in range(steps):
        ratio, chance = (ratio[:, None] + p / q).ravel(), (chance[:, None] * q).ravel()
    return ratio / steps, chance


def random_child(rng):
    """P and Q of two to four outputs, all ratios of a size; sometimes P has mass of its own, or Q
    has. And how many rounds."""
    k = int(rng.integers(2, 5))
    steps = int(rng.integers(2, 8 if k == 2 else 5))
    q = np.maximum(rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0]))), 1e-9)
    q /= q.sum()
    p = q * np.exp(rng.normal(size=k) * 10 ** rng.uniform(-4, 1))
    infinite = float(10 ** rng.uniform(-12, -1)) if rng.random() < 0.3 else 0.0
    p[int(np.argmin(p / q))] *= rng.random() < 0.7
    return p / p.sum() * (1 - infinite), q, infinite, steps


@all_cases("seed", range(60))
def test_allocations_of_any_pair_are_never_below_the_world(seed):
    rng = np.random.default_rng([35, seed])
    p, q, infinite, steps = random_child(rng)
    ratio, chance = world(p, q, steps)
    there = p > 0
    one = Ratios.of(*slopes(np.log(p[there] / q[there]), p[there], 0.0, infinite),
                    float((p / q).min()) * (1 - 1e-12))
    scale = float(np.abs(np.log(ratio[ratio > 0])).max())
    for add in (False, True):
        pair = AllocatedPair(steps, one, add)
        for epsilon in (0.0, *(rng.random(5) * scale)):
            grow = math.exp(epsilon)
            gain = 1 - grow * ratio if add else ratio - grow
            truth = float(chance @ np.maximum(gain, 0)) + infinite * (not add)
            assert delta_of_one(pair, float(epsilon)) >= truth * (1 - 1e-12) - 1e-15
        if infinite == 0 and there.all():
            orders = (1.5, 2.0, 4.0, 16.0)
            for order, bound in zip(orders, pair_rdp(pair, orders), strict=True):
                moment = float(chance @ ratio ** (1 - order if add else order))
                assert bound >= math.log(moment) / (order - 1) - 1e-13


@all_cases(("parameter", "steps"), [(0.1, 5), (1.0, 8), (1.0, 11), (3.0, 4), (1e-3, 9)])
def test_discrete_laplace_noise_attains_the_price_of_its_allocation(parameter, steps):
    """One round tells two ratios apart, so the world is a binomial law; within 1 % of delta."""
    likely = 1 / (1 + math.exp(-parameter))
    p, q = np.array([likely, 1 - likely]), np.array([1 - likely, likely])
    ratio, chance = world(p, q, steps)
    node = RandomAllocation(steps, pl.DiscreteLaplace(parameter))
    for share in (0.0, 0.1, 0.3):
        grow = math.exp(share * parameter)
        truth = max(float(chance @ np.maximum(ratio - grow, 0)),
                    float(chance @ np.maximum(1 - grow * ratio, 0)))
        assert truth <= pl.delta(node, share * parameter) <= 1.01 * truth
        lower = pl.explain(node, truth).lower
        assert 0.99 * share * parameter <= lower <= share * parameter * (1 + 1e-9)


def test_rounds_of_infinite_losses_have_no_list():
    """No ratio of a round is a float above 0: the grid of them was empty, and that an error."""
    with pytest.raises(TooMuch):
        ratio_law(2, Ratios((0.0,), (1.0,), 1.0, 0.0))


@pytest.mark.parametrize("epsilon", [300.0, 360.0, 500.0, 700.0, 800.0])
def test_rounds_of_giant_losses_have_a_price(epsilon):
    """Squares of their ratios are no floats; a warning is an error here."""
    for steps in (2, 50):
        node = RandomAllocation(steps, pl.Asserted(epsilon, "so it was said"))
        assert epsilon - math.log(2 * steps) < pl.epsilon(node, 1e-6) <= epsilon


def test_rounds_of_other_noise_cost_far_less_than_one():
    node = pl.Repeat(RandomAllocation(100, pl.Laplace(1.0)), 10)
    found = pl.explain(node, 1e-6)  # 9.99998 without the coin
    assert 1.3122 < found.lower < found.certificate.epsilon < 1.3125
    assert pl.epsilon(node, 1e-6, accountant="rdp") < 1.42
    assert pl.epsilon(node, 0.0) == 10.0
    mixed = RandomAllocation(20, pl.Sequential([pl.Laplace(2.0), pl.Gaussian(3.0)]))
    assert pl.epsilon(mixed, 1e-6) < 0.8 * pl.epsilon(mixed.node, 1e-6)


def test_ratios_are_cut_at_the_line_that_ends_at_one():
    """Tangents of too much P mass: what they say beyond the line is the line's."""
    loss, q = np.log([2.0, 1.0, 0.6]), np.array([0.3, 0.4, 0.3])
    one = Ratios.of(loss, q, 0.0, 0.5)
    ratio, mass = np.array(one.ratio), np.array(one.mass)
    assert mass.sum() == pytest.approx(1, abs=1e-15) and 1 - 1e-14 < ratio @ mass <= 1
    assert one.ratio == pytest.approx((2.0, 1.0, 0.5)) and one.mass[1] == pytest.approx(0.1)


def test_of_bounded_ratios_what_is_rare_is_shared_between_the_ends():
    """Nothing is lost, and the mean stays: 6 lies between 4 and 9."""
    law = Law(np.array([1.0, 2.0, 3.0, 4.0, 6.0, 9.0]),
              np.array([0.1, 0.5, 0.3, 0.1, 1e-32, 1e-32]), 0.0, 0.0, 0.0, 1, bounded=True)
    cut = _cut(law, 2, 10)
    assert cut.place.tolist() == [1.0, 2.0, 3.0, 4.0, 9.0] and cut.lost_p == cut.lost_q == 0
    assert cut.mass[-1] == pytest.approx(1.4e-32, rel=1e-9, abs=0)


def test_losses_that_are_too_rare_for_a_lattice_are_infinite():
    one = Ratios((math.e, 1.0, math.exp(-1)), (0.2, 1 - 0.2 - 0.2 * math.e, 0.2 * math.e), 0.0, 0.0)
    for add in (False, True):
        pair = AllocatedPair(40, one, add, rare=1e-7)
        atoms, edges = pair.atoms(), np.array([-2.0, 2.0])
        assert 1e-9 < atoms.infinite <= 1.01e-7
        assert pair.bands(edges).p.sum() + atoms.infinite == pytest.approx(1, abs=1e-9)
        assert pair.bands(edges).q.sum() + atoms.q_only == pytest.approx(1, abs=1e-9)
        assert pair.top < AllocatedPair(40, one, add).top


@pytest.mark.parametrize("steps", [2, 4, 8, 100, 1000])
@pytest.mark.parametrize("one", [
    Ratios((math.exp(0.5), math.exp(-0.5)), (1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(-0.5))),
           0.0, 0.0), Ratios((2.0, 0.0), (0.5, 0.5), 0.0, 0.0)], ids=["two", "two, one is 0"])
def test_grids_are_dense_between_few_ratios(one, steps):
    """No grid may lack points where sums lie: the variance of four such ratios was a fifth off."""
    law, ratio = ratio_law(steps, one), np.array(one.ratio)
    spread = np.array(one.mass) @ (ratio - 1) ** 2 / steps
    assert law.mass @ (law.place / steps - 1) ** 2 == pytest.approx(spread, rel=1e-3)
