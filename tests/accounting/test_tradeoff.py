"""Risk: never below what a test really reaches, and near it where that is known exactly.

The oracle: randomised responses and one Gaussian, run together. All threshold tests of their
likelihood ratio are known in closed form, and by Neyman and Pearson no test is better.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

import privledger as pl
from privledger.accounting import (
    RdpCurve,
    cost_tradeoff,
    gaussian_tradeoff,
    pure_tradeoff,
    renyi_tradeoff,
    zcdp_tradeoff,
)
from privledger.errors import InvalidValue
from privledger.graph import cost_of
from privledger.ledger import Budget
from privledger.ledger.filters import fixed_filter
from privledger.rounding import from_units

ORDER = 8.0


def truth(epsilons, mu, thresholds):
    """(wrong, hits) of the tests that accuse above each threshold, in both worlds exactly."""
    found = []
    for threshold in thresholds:
        wrong = hits = 0.0
        for signs in itertools.product((1, -1), repeat=len(epsilons)):
            loss = sum(sign * each for sign, each in zip(signs, epsilons, strict=True))
            p = math.prod(1 / (1 + math.exp(-sign * each))
                          for sign, each in zip(signs, epsilons, strict=True))
            q = p * math.exp(-loss)
            if mu:
                place = (loss - threshold) / mu
                hits += p * ndtr(place + mu / 2)
                wrong += q * ndtr(place - mu / 2)
            elif loss > threshold:
                hits, wrong = hits + p, wrong + q
        found.append((min(1.0, wrong), min(1.0, hits)))
    return found


def bounds_for(epsilons, mu):
    """Every curve that a ledger would read for the plan."""
    plan = pl.Sequential([*(pl.Asserted(each, "a coin") for each in epsilons),
                          *([pl.Gaussian(1 / mu)] if mu else [])])
    cost = cost_of(plan, "add_remove", (2.0, ORDER, 32.0))
    curves = [gaussian_tradeoff(math.sqrt(cost.gdp())), zcdp_tradeoff(cost.zcdp),
              renyi_tradeoff(cost.curve),
              renyi_tradeoff(RdpCurve((ORDER,), (cost.curve.at(ORDER),)))]
    if not mu:
        curves.append(pure_tradeoff(cost.pure))
    return curves


@pytest.mark.parametrize("plans", [120, pytest.param(1000, marks=pytest.mark.slow)])
def test_never_below_the_truth_on_random_plans(plans):
    source = np.random.default_rng(plans)
    for _ in range(plans):
        epsilons = source.uniform(0.01, 1.5, source.integers(0, 4)).tolist()
        mu = float(source.uniform(0.01, 2.0)) if source.random() < 0.6 or not epsilons else 0.0
        reached = truth(epsilons, mu, source.normal(0, 2, 2).tolist())
        curve = bounds_for(epsilons, mu)[source.integers(0, 4 if mu else 5)]
        for wrong, hits in reached:
            if 0 < wrong < 1:
                assert curve.hits(wrong) >= hits * (1 - 1e-12)
            assert curve.advantage >= hits - wrong - 1e-15
            assert curve.accuracy(0.3) >= 0.3 * hits + 0.7 * (1 - wrong) - 1e-15
            assert curve.accuracy(0.8) >= 0.8 * hits + 0.2 * (1 - wrong) - 1e-15


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
def test_a_plan_of_gaussians_is_met(mu):
    curve = cost_tradeoff(cost_of(pl.Repeat(pl.Gaussian(2 / mu), 4), "add_remove"), 8.0)
    for wrong in (1e-5, 1e-3, 0.01, 0.3):
        exact = norm.cdf(norm.ppf(wrong) + mu)
        assert exact * (1 - 1e-12) <= curve.hits(wrong) <= exact * 1.01
    assert curve.advantage == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-9)


def test_a_point_of_the_curve_has_a_public_name():
    """Rates of an attack, by the field's names, are those of the curve and of `explain`."""
    plan = pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 100)
    curve = pl.nodes.tradeoff(plan)
    assert pl.nodes.tpr(plan, 0.01) == curve.hits(0.01)
    assert pl.nodes.advantage(plan) == curve.advantage
    assert pl.nodes.tpr(plan, 0.0) < 1e-9 and pl.nodes.tpr(plan, 1.0) == 1.0
    assert pl.nodes.tpr(pl.Gaussian(1.0), 0.01) >= norm.cdf(norm.ppf(0.01) + 1)
    exchanged = pl.nodes.AsReplaceOne(plan)
    assert pl.nodes.tpr(exchanged, 0.01, "replace_one") > pl.nodes.tpr(plan, 0.01)
    with pytest.raises(pl.errors.RelationMismatch):
        pl.nodes.advantage(plan, "replace_one")


def test_a_sampled_gaussian_is_met_within_a_hundredth():
    """The pair of one round is known: thresholds on x, in either direction."""
    rate, sigma = 0.2, 0.8
    curve = cost_tradeoff(cost_of(pl.PoissonSample(rate, pl.Gaussian(sigma)), "add_remove"), 6.0)
    for x in (0.5, 1.5, 2.5):
        wrong = norm.sf(x)
        hits = (1 - rate) * wrong + rate * norm.sf(x - 1 / sigma)
        assert curve.hits(wrong) >= hits * (1 - 1e-9)
        assert curve.hits(hits) >= wrong  # trivially; the other direction:
        low, high = norm.cdf(x), (1 - rate) * norm.cdf(x) + rate * norm.cdf(x - 1 / sigma)
        assert curve.hits(high) >= low * (1 - 1e-9)
        assert curve.hits(wrong) <= 1.01 * hits
    best = rate * (2 * norm.cdf(0.5 / sigma) - 1)
    assert best * (1 - 1e-9) <= curve.advantage <= 1.01 * best


def test_the_figures_of_known_budgets():
    """Advantage and hits at 1 and .1 in 100; the design's table, rounded up there."""
    for kind, epsilon, order, wanted in (
        ("gdp", 1.0, None, (0.095, 0.0184, 0.00217)), ("zcdp", 3.0, None, (0.300, 0.0526, 0.0080)),
        ("rdp", 2.0, 12.0, (0.495, 0.0388, 0.00470)),
    ):
        rule = fixed_filter(kind, Budget(epsilon, 1e-6), order)
        curve = rule.tradeoff(rule.cap_units)
        found = curve.advantage, curve.hits(0.01), curve.hits(0.001)
        for value, most in zip(found, wanted, strict=True):
            assert 0.97 * most <= value <= most


@given(st.floats(0.01, 3), st.integers(2, 6), st.floats(1e-6, 0.9))
def test_several_rows_are_the_curve_on_itself(mu, rows, wrong):
    curve = gaussian_tradeoff(mu)
    walked = wrong
    for _ in range(rows):
        walked = min(1.0, curve.hits(walked))
    assert curve.rows(rows).hits(wrong) == pytest.approx(walked, rel=1e-6)
    assert curve.rows(1) is curve


def test_several_rows_of_pure_dp_never_pass_the_product():
    curve = pure_tradeoff(0.3).rows(5)
    assert math.exp(1.5) * 0.001 >= curve.hits(0.001) / (1 + 1e-9)
    assert math.tanh(0.3 / 2) <= curve.advantage <= math.tanh(0.3 / 2 * 5)


@given(st.sampled_from([gaussian_tradeoff(0.7), zcdp_tradeoff(0.3), pure_tradeoff(1.0, 1e-5),
                        renyi_tradeoff(RdpCurve((12.0,), (1.1,)))]),
       st.floats(0, 1, allow_subnormal=False),  # a subnormal number is no probability
       st.floats(0, 1, allow_subnormal=False))
def test_the_curve_rises_and_is_no_worse_than_luck(curve, one, other):
    low, high = sorted((one, other))
    if min(low, 1 - high) > 1e-300 or low in (0.0, 1.0):
        assert low <= curve.hits(low) <= curve.hits(high) * (1 + 1e-9) <= 1 + 1e-9


def test_corrections_past_everything_are_certainty():
    rule = fixed_filter("basic", Budget(1.0, 1e-6))
    assert rule.tradeoff(rule.cap_units * 10**6, 1 << 513).advantage == 1.0
    assert from_units(rule.cap_units) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1, True, "1", None])
def test_numbers_are_checked(bad):
    curve = gaussian_tradeoff(1.0)
    for call in (curve.hits, curve.accuracy, lambda v: curve.precision(0.5, v),
                 lambda v: curve.precision(v, 0.5), curve.rows, lambda v: curve.rows(0),
                 lambda v: curve.rows(1001)):
        with pytest.raises(InvalidValue):
            call(bad)
    for make in (gaussian_tradeoff, zcdp_tradeoff, pure_tradeoff, curve.delta):
        if bad != 1.1:
            with pytest.raises(InvalidValue):
                make(bad)
