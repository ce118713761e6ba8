"""Claimed versus sound for S-GBDT: finding F8, computed by our own accountant."""

from __future__ import annotations

import math

from privledger_learners import SGBDTRegressor
from privledger_learners.published import published_epsilon

import privledger as pl
from tests.worlds import schema_of

DELTA = 1e-5


def published_run(sigma_leaf: float, clip: float = 0.3, r1: float = 0.5) -> tuple[float, float]:
    """(claimed, sound) for 100 trees at rate .1: Theorem 10 gives mu^2 = 2(r1 + r2 g^2)/sigma^2."""
    mu_squared = 2 * (r1 + (1 - r1) * clip**2) / sigma_leaf**2
    claimed = published_epsilon(0.1, mu_squared, 100, DELTA)
    node = pl.Repeat(pl.PoissonSample(0.1, pl.Gaussian(1 / math.sqrt(mu_squared))), 100)
    return claimed, pl.epsilon(node, DELTA)


def test_the_printed_conversion_understates_epsilon_more_than_fourfold():
    claimed, sound = published_run(5.90)
    assert 0.12 < claimed < 0.151  # .150 at order 100, less at the order that flatters most
    assert sound > 0.659  # a certified lower bound (PLD) for the same noise
    assert sound < 0.74


def test_claim_and_cost_differ_on_a_single_gaussian():
    """At order 1000 the printed rule reports .51 for a mechanism of true epsilon 4.377."""
    printed = (1000 / 2 + math.log(1 / DELTA)) / 1000
    assert printed < 0.52
    assert pl.epsilon(pl.Gaussian(1.0), DELTA) > 4.37
    assert pl.delta(pl.Gaussian(1.0), printed) > 0.2


def test_every_plan_shows_both_columns():
    schema = schema_of("t", {"x": (0, 1)}, y=(0, 1))
    for options in ({}, {"sampling_rate": 0.1}, {"individual_filter": "gdp"}):
        learner = SGBDTRegressor(epsilon=0.5, delta=DELTA, schema=schema, n_trees=30, **options)
        steps = {step.step: step for step in learner.claimed(schema)}
        assert steps["everything"].sound <= 0.5
        assert steps["everything"].sound > 0.499
        assert steps["initial score"].claimed is None  # printed form has no finite epsilon
        assert steps["trees"].claimed < steps["trees"].sound
        assert steps["trees"].ratio > 1
