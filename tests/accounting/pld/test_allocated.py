"""The table of an allocation: masses against many digits, and what it may leave out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from privledger.accounting.pld.allocated import _ONE, AllocatedPair, Law, _cut, _one, ratio_law


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
