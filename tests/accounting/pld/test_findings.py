"""Published guarantees that were wrong, as regressions; the profile of choosing by scores."""

from __future__ import annotations

import math
import random

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest

import privledger as pl
from privledger.accounting.pld import BoundedRangePair
from tests.accounting.pld import exact
from tests.all_cases import all_cases

DELTA = 1e-5


# --- choosing by scores: bounded range --------------------------------------------------------


@pytest.mark.parametrize("eta", [1e-3, 0.3, 1.0, 5.0])
def test_exponential_profile_is_the_largest_of_two_point_pairs(eta: float) -> None:
    t = np.linspace(0.0, eta, 40_001)
    s = np.expm1(t - eta) / np.expm1(-eta)  # P mass at loss t; the rest is at t - eta
    for epsilon in np.linspace(-1.2 * eta, 1.2 * eta, 25):
        profiles = (s * np.maximum(0, -np.expm1(epsilon - t))
                    + (1 - s) * np.maximum(0, -np.expm1(epsilon - t + eta)))
        found = exact.at_float(BoundedRangePair(eta), float(epsilon))
        assert found >= profiles.max() - 1e-13
        assert found <= profiles.max() * (1 + 1e-6) + 1e-8
        if epsilon >= 0:
            priced = pl.delta(pl.Exponential(eta), float(epsilon), accountant="pld")
            assert priced >= profiles.max() - 1e-15
            assert priced == pytest.approx(found, abs=1e-12)


def test_exponential_mechanisms_lie_below_their_price() -> None:
    source = random.Random(12)
    for _ in range(200):
        epsilon, size = math.exp(source.uniform(-3, 1.5)), source.randint(2, 6)
        scores = np.array([source.uniform(0, 6) for _ in range(size)])
        change = np.array([source.choice([-1.0, 1.0, source.uniform(-1, 1)])
                           for _ in range(size)])
        p, q = (np.exp(0.5 * epsilon * (s - s.max())) for s in (scores, scores + change))
        p, q = p / p.sum(), q / q.sum()
        for x in np.linspace(0, epsilon, 7):
            true = max(np.maximum(0, p - math.exp(x) * q).sum(),
                       np.maximum(0, q - math.exp(x) * p).sum())
            assert true <= pl.delta(pl.Exponential(epsilon), float(x)) + 1e-15


# --- F9: permute-and-flip has no bounded range ------------------------------------------------


def permute_and_flip(epsilon: float) -> exact.Table:
    """Two candidates with scores (0, 0) and (-1, 1), sensitivity 1."""
    with mp.workdps(exact.DIGITS):
        half = mp.exp(-mp.mpf(epsilon)) / 2
        return exact.Table((mp.mpf(1) / 2, mp.mpf(1) / 2), (half, 1 - half))


PURE_ONLY = (pl.PermuteAndFlip, lambda e: pl.ReportNoisyMax(e, "exponential"),
             lambda e: pl.ReportNoisyMax(e, "laplace"), lambda e: pl.TopK(3, e, "exponential"))


def test_permute_and_flip_exceeds_the_bounded_range_profile() -> None:
    table = permute_and_flip(1.0)
    losses = [float(mp.log(p / q)) for p, q in zip(table.p, table.q, strict=True)]
    assert losses == pytest.approx([1.0, -0.490], abs=1e-3)
    assert exact.at(table.profile(), 0.9) > 10 * exact.at(exact.bounded_range(1.0), 0.9)


@all_cases("epsilon", [0.1, 1.0, 3.0])
@all_cases("build", PURE_ONLY)
def test_noisy_choices_get_no_bounded_range_credit(build, epsilon: float) -> None:
    node, choice = build(epsilon), pl.Exponential(epsilon)
    whole = exact.at(permute_and_flip(epsilon).profile(), 0.9 * epsilon)
    assert pl.delta(node, 0.9 * epsilon) >= whole > pl.delta(choice, 0.9 * epsilon)
    for count in (1, 12):
        plan = pl.Repeat(node, count)
        priced = pl.epsilon(plan, DELTA)
        # As one Laplace threshold, which two candidates are: docs/proofs/currencies.md.
        assert priced == pytest.approx(pl.epsilon(
            pl.Repeat(pl.Laplace(1.0, epsilon), count), DELTA), rel=1e-12)
        assert priced <= pl.epsilon(
            pl.Repeat(pl.Asserted(epsilon, "any pure mechanism"), count), DELTA)
        assert exact.at(permute_and_flip(epsilon).power(count), priced) <= DELTA
    # Under composition a bounded range is worth having.
    assert pl.epsilon(pl.Repeat(choice, 12), DELTA) < pl.epsilon(pl.Repeat(node, 12), DELTA)
    assert (pl.rdp(node, [2.0]) >= pl.rdp(choice, [2.0])).all()


def test_gumbel_noise_is_the_exponential_mechanism() -> None:
    for node in (pl.ReportNoisyMax(0.7, "gumbel"), pl.TopK(3, 0.7, "gumbel")):
        assert pl.epsilon(pl.Repeat(node, 12), DELTA) == pl.epsilon(
            pl.Repeat(pl.Exponential(0.7), 12), DELTA)


# --- F8: a conversion that published S-GBDT guarantees rest on --------------------------------


@pytest.mark.parametrize(("rounds", "rate", "clip", "sigma", "published", "sound"), [
    (100, 0.1, 0.3, 5.90, 0.150, 0.659)])
def test_published_boosting_guarantee(
    rounds: int, rate: float, clip: float, sigma: float, published: float, sound: float
) -> None:
    """exp(rho - alpha epsilon) = delta is no conversion: it lacks (alpha - 1)(rho - epsilon)."""
    mu = math.sqrt(2 * (0.5 + 0.5 * clip**2)) / sigma
    plan = pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(1 / mu)), rounds)
    found = pl.certify(plan, DELTA)
    assert found.accountant == "pld" and found.epsilon == pytest.approx(sound, abs=2e-3)
    assert found.epsilon > 4 * published
    assert pl.delta(plan, published) == pytest.approx(0.0218, abs=2e-4)
    assert pl.delta(plan, published) > 2000 * DELTA
    assert pl.epsilon(plan, DELTA, accountant="rdp") == pytest.approx(0.726, abs=5e-3)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_conversion_itself(mu: float) -> None:
    order = 1000
    claimed = (order * mu**2 / 2 + math.log(1 / DELTA)) / order
    assert pl.delta(pl.Gaussian(1 / mu), claimed) > 1000 * DELTA
    assert pl.epsilon(pl.Gaussian(1 / mu), DELTA) > 2 * claimed
