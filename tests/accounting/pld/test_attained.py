"""Lower bounds of what is priced by a pair that nobody attains: worlds that do exist."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import ndtri

import privledger as pl
from privledger.accounting.pld.allocated import AllocatedPair, ratio_law, single_grid
from privledger.accounting.pld.attained import (
    ContractedPair,
    _one,
    attained,
    attained_items,
    attained_parts,
)
from privledger.accounting.pld.envelopes import Corners
from privledger.accounting.pld.mixtures import CoinPair
from privledger.accounting.pld.pairs import (
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    pure_pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair
from tests.accounting import contour
from tests.all_cases import all_cases

GAUSS = GaussianPair(1.0)
LOOSE = {
    "range": BoundedRangePair(0.8), "allocation": AllocatedPair(7, 1.0, add=False),
    "allocation, added": AllocatedPair(7, 1.0, add=True),
    "fixed": FixedSizePair(0.1, GAUSS), "fixed laplace": FixedSizePair(0.3, LaplacePair(2.0)),
    "cut": CoinPair(0.2, RemovePair(0.1, GAUSS), RemovePair(0.1, GaussianPair(2.0))),
    "sampled range": RemovePair(0.2, BoundedRangePair(0.8)),
    "sampled range, added": AddPair(0.2, BoundedRangePair(0.8)),
    "fixed range": FixedSizePair(0.2, BoundedRangePair(0.8)),
}


def profile(pair, epsilon):
    """The hockey stick, from bands and atoms, without any slack."""
    edges = np.concatenate([np.linspace(epsilon, epsilon + 60.0, 4001), [math.inf]])
    bands, atoms = pair.bands(edges), pair.atoms()
    found = float(np.sum(bands.p - math.exp(epsilon) * bands.q)) + atoms.infinite
    beyond = atoms.loss > epsilon
    return found + float(np.sum(atoms.p[beyond] * -np.expm1(epsilon - atoms.loss[beyond])))


@all_cases("name", LOOSE)
def test_what_is_attained_is_dominated(name):
    pair = LOOSE[name]
    below = attained(pair)
    assert not pair.tight and below is not None and below.tight
    for epsilon in (0.0, 0.01, 0.05, 0.1, 0.3, 0.7, 1.5):
        assert profile(below, epsilon) <= profile(pair, epsilon) * (1 + 1e-9) + 1e-13


def test_what_is_attained_stays_and_what_is_not_known_goes():
    assert attained(GAUSS) is GAUSS
    assert attained(pure_pair(1.0, tight=False)) is None
    assert attained(RemovePair(0.1, pure_pair(1.0, tight=False))) is None
    held = attained_items(((pure_pair(1.0, tight=False), 3), (GAUSS, 2), (BoundedRangePair(0.4), 1),
                           (BoundedRangePair(0.4), 1)))
    assert dict(held)[GAUSS] == 2 and len(held) == 2 and sum(n for _, n in held) == 4


# --- allocations --------------------------------------------------------------------------------

@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0])
def test_masses_and_means_of_one_ratio(mu):
    parts, size = _one(mu), mpf(mu)
    grid = single_grid(mu)[1:]
    cells = np.searchsorted(grid, parts.place, side="right") - 1
    with mp.workdps(120):
        for k in range(0, len(parts.place), 97):
            a, b = (mpf(float(at)) for at in grid[cells[k]:cells[k] + 2])
            q, p = (mp.ncdf(mp.log(b) / size + side * size / 2) - mp.ncdf(
                mp.log(a) / size + side * size / 2) for side in (1, -1))
            assert abs(mpf(float(parts.mass[k])) / q - 1) <= parts.loose
            assert abs(mpf(float(parts.place[k])) * q / p - 1) <= parts.loose


@pytest.mark.parametrize(("steps", "mu"), [(2, 1.0), (7, 0.3), (64, 2.0), (1000, 1.0)])
def test_mean_stays_and_variance_falls(steps, mu):
    parts, above = attained_parts(steps, mu), ratio_law(steps, mu)
    ratio = parts.place / steps
    assert parts.mass.sum() == pytest.approx(1, abs=1e-9)
    assert parts.mass @ ratio == pytest.approx(1, abs=1e-9)
    spread = math.expm1(mu * mu) / steps
    assert spread * (1 - 6e-4) <= parts.mass @ (ratio - 1) ** 2 <= spread * (1 + 1e-9) <= (
        above.mass @ (above.place / steps - 1) ** 2) * (1 + 2e-9)


@settings(max_examples=8, deadline=None)
@given(steps=st.integers(2, 40), mu=st.floats(0.05, 3.0), epsilon=st.floats(0.0, 2.0),
       add=st.booleans())
def test_below_is_below_above(steps, mu, epsilon, add):
    low, high = ContractedPair(steps, mu, add), AllocatedPair(steps, mu, add)
    assert profile(low, epsilon) <= profile(high, epsilon) * (1 + 1e-8) + 1e-13


def test_two_rounds_against_the_plane():
    """Two rounds as an integral over the plane: the true profile lies between both tables."""
    mu, points = 1.0, 1500
    z = np.linspace(-9, 9, points)
    weight = np.exp(-z * z / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    ratio = np.exp(mu * z - mu * mu / 2)
    mean = 0.5 * (ratio[:, None] + ratio)
    mass = weight[:, None] * weight
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        rise = math.exp(epsilon)
        for add, truth in ((False, np.sum(mass * np.maximum(mean - rise, 0))),
                           (True, np.sum(mass * np.maximum(1 - rise * mean, 0)))):
            low, high = (profile(kind(2, mu, add), epsilon) for kind in (
                ContractedPair, AllocatedPair))
            assert low <= truth * (1 + 1e-6) + 1e-9 and truth <= high * (1 + 1e-6) + 1e-9
            assert low >= truth * (1 - 2e-3)


# --- whole plans --------------------------------------------------------------------------------

def lower(node, delta, relation="add_remove"):
    found = pl.epsilon(node, delta, relation, explain=True)
    assert 0 < found.lower <= found.certificate.epsilon
    return found.lower


def test_exponential_mechanisms_are_two_candidates_at_least():
    """The world: two candidates, half the range ahead in one table and behind in the other."""
    node = pl.Exponential(0.4)
    loss = 0.2  # bounded range 0.4
    p = 1 / (1 + math.exp(-loss))
    law = contour.finite([p, 1 - p], [1 - p, p])
    truth = contour.epsilon([(law, 60), (contour.Normal(0.05), 1)], 1e-6)
    found = lower(pl.Sequential([pl.Repeat(node, 60), pl.Gaussian(20.0)]), 1e-6)
    assert truth * (1 - 1e-3) <= found <= truth * (1 + 1e-8)


@pytest.mark.parametrize(("size", "out_of", "count"), [(10, 100, 50), (1, 3, 5)])
def test_samples_of_a_size_are_samples_of_records_that_are_all_alike_but_one(size, out_of, count):
    node = pl.nodes.FixedSizeSample(size, out_of, pl.Gaussian(1.0))
    rate = size / out_of
    law = contour.normals({0.0: 1 - rate, 1.0: rate}, {0.0: 1.0})
    truth = contour.epsilon([(law, count), (contour.Normal(0.05), 1)], 1e-6)
    found = lower(pl.Sequential([pl.Repeat(node, count), pl.Gaussian(20.0)]), 1e-6, "replace_one")
    assert truth * (1 - 1e-3) <= found <= truth * (1 + 1e-8)


def test_once_a_fixed_sample_is_attained():
    found = pl.epsilon(pl.nodes.FixedSizeSample(100, 10_000, pl.Gaussian(1.0)), 1e-6,
                       "replace_one", explain=True)
    assert found.lower >= found.certificate.epsilon * (1 - 1e-9)


def test_what_is_asserted_is_left_out():
    alone = lower(pl.Repeat(pl.Laplace(5.0), 20), 1e-6)
    beside = lower(pl.Sequential([pl.Repeat(pl.Laplace(5.0), 20),
                                  pl.Asserted(0.5, "somebody said so")]), 1e-6)
    assert beside == pytest.approx(alone, rel=1e-3)


def test_a_gap_of_normal_quantiles_is_never_below_the_exact_one():
    """Masses from 1e-300 to what lacks 1e-16 to 1, far apart and nearly equal."""
    rng = np.random.default_rng(1)
    q = np.concatenate([10 ** rng.uniform(-300, -0.31, 100), rng.uniform(0.5, 0.999, 40)] * 2)
    p = np.concatenate([q[:140] * (1 + 10 ** rng.uniform(-12, 0, 140)),
                        10 ** rng.uniform(-300, 0, 140)])
    p = np.maximum(np.minimum(p, 1 - 2.0**-53), q)  # a test has as much power as size
    found = Corners(q, p, 1 - q, 1 - p).gaps()

    def normal(mass):
        """Newton's steps on the log of the smaller tail, from what floats say."""
        side, tail = (-1, mpf(mass)) if mass < 0.5 else (1, 1 - mpf(mass))
        x = mpf(-float(ndtri(float(tail))))
        for _ in range(6):
            at, slope = mp.erfc(x / mp.sqrt(2)) / 2, mp.npdf(x)
            x += at / slope * mp.log(at / tail)
        return side * x

    with mp.workdps(40):
        for place in range(len(q)):
            exact = normal(float(p[place])) - normal(float(q[place]))
            assert exact <= found[place] <= exact + 1e-11 * (40 + abs(exact))
