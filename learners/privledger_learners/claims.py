"""The papers' own arithmetic, beside the sound one. Shown, never charged."""

from __future__ import annotations

import math

import numpy as np

import privledger as pl
from privledger_learners.boosting.rule import Priced
from privledger_learners.gain.rule import Priced as GainPriced

ORDERS = tuple(float(order) for order in range(2, 201))


def _zhu_wang(rate: float, mu_squared: float, order: int) -> float:
    """The amplification the paper prints (its Theorem 14), at an integer order."""
    powers = np.arange(3, order + 1)
    terms = [
        (order - 1) * math.log1p(-rate) + math.log(order * rate - rate + 1),
        math.log(order * (order - 1) / 2) + 2 * math.log(rate)
        + (order - 2) * math.log1p(-rate) + mu_squared,
    ]
    log_choose = np.array([math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
                           for k in powers])
    rest = (math.log(3) + log_choose + (order - powers) * math.log1p(-rate)
            + powers * math.log(rate) + (powers - 1) * powers * mu_squared / 2)
    everything = np.concatenate([terms, rest])
    top = float(everything.max())
    return (top + math.log(float(np.exp(everything - top).sum()))) / (order - 1)


def published_epsilon(rate: float, mu_squared: float, rounds: int, delta: float) -> float:
    """What Algorithm 7 would report: the smallest (bound + log(1/delta)) / order it can find.

    Its condition exp(bound - order * epsilon) = delta is not a valid conversion: the exponent
    of the sound one is (order - 1)(bound - epsilon).
    """
    best = math.inf
    for order in ORDERS:
        if rate == 1:
            bound = rounds * order * mu_squared / 2
        else:
            bound = rounds * _zhu_wang(rate, mu_squared, int(order))
        best = min(best, (bound + math.log(1 / delta)) / order)
    return best


def sgbdt_total(priced: Priced, delta: float) -> float:
    """What Algorithm 7 would report for this plan's own noise: for the trees, as the printed
    initial score has no price to add."""
    rule = priced.rule
    mu_squared = 1 / rule.tree_node(priced.noise).noise_multiplier ** 2
    return published_epsilon(rule.sampling_rate, mu_squared, rule.trees, delta)


def sgbdt_claims(priced: Priced, delta: float, relation: str) -> tuple[pl.ClaimStep, ...]:
    """Step by step: initial score, trees, everything, at this plan's own noise."""
    rule, noise = priced.rule, priced.noise
    trees = pl.Repeat(rule.round_node(noise), rule.trees)
    claimed = sgbdt_total(priced, delta)
    steps = [pl.ClaimStep(
        "trees", "Algorithm 7, line 6; Theorem 18", claimed, pl.epsilon(trees, delta, relation),
        delta, "the printed conversion drops the divergence's own order; priced here by Gaussian "
        "DP or by the exact sampled Gaussian curve")]
    start = rule.start_nodes(noise)
    if start:
        node = pl.Sequential(start)
        steps.insert(0, pl.ClaimStep(
            "initial score", "Algorithm 6; Theorem 20", None, pl.epsilon(node, delta, relation),
            delta, "printed noise divides by the private number of records: no finite epsilon; "
            "a noisy sum and a noisy count here"))
    steps.append(pl.ClaimStep(
        "everything", "Theorem 11", claimed, pl.epsilon(priced.plan, delta, relation), delta,
        "one plan, priced as a whole" + (
            "; claimed for the trees alone, as the printed initial score has no price"
            if start else "")))
    return tuple(steps)


def dpboost_total(priced: GainPriced, delta: float, relation: str) -> float | None:
    """The printed arithmetic for everything: pure epsilon only, and without an initial score.

    Trees on disjoint parts count once for each round of parts.
    """
    rule, noise = priced.rule, priced.noise
    shape = rule.shapes[-1]
    leaves = pl.Sequential(rule.leaf_nodes(shape, noise, 0))
    if rule.start_nodes(noise) or delta:
        return None
    one = shape.depth * rule.split_node(shape, noise).epsilon + pl.epsilon(leaves, 0.0, relation)
    return one * shape.trees / rule.parts


def dpboost_claims(priced: GainPriced, delta: float, relation: str) -> tuple[pl.ClaimStep, ...]:
    """Step by step: initial score, splits and leaves of one tree, everything."""
    rule, noise = priced.rule, priced.noise
    shape = rule.shapes[-1]
    split = rule.split_node(shape, noise)
    splits = pl.Repeat(split, shape.depth)
    leaves = pl.Sequential(rule.leaf_nodes(shape, noise, 0))
    pure = delta == 0
    # The printed arithmetic knows pure epsilon only: exponents as declared, added up.
    claimed_splits = shape.depth * split.epsilon
    claimed_leaves = pl.epsilon(leaves, 0.0, relation) if pure else None
    start = rule.start_nodes(noise)
    steps = [
        pl.ClaimStep("splits of a tree", "Algorithms 2 and 3; Corollary 27", claimed_splits,
                     pl.epsilon(splits, delta, relation), delta,
                     "sensitivity 3 g*^2 is the one-sided change; the range of changes is 4 g*^2, "
                     "so the printed mechanism costs two thirds of its epsilon"),
        pl.ClaimStep("leaves of a tree", "section V-B", claimed_leaves,
                     pl.epsilon(leaves, delta, relation), delta,
                     "a noisy count and a noisy sum here, in place of a quotient with noise"),
    ]
    if start:
        node = pl.Sequential(start)
        steps.insert(0, pl.ClaimStep(
            "initial score", "Algorithm 6; Theorem 20", None, pl.epsilon(node, delta, relation),
            delta, "printed noise divides by the private number of records: no finite epsilon; "
            "a noisy sum and a noisy count here"))
    steps.append(pl.ClaimStep(
        "everything", "section V-B", dpboost_total(priced, delta, relation),
        pl.epsilon(priced.plan, delta, relation), delta,
        "parts by a coin per record; equal parts of a shuffled table are not covered by "
        "parallel composition"))
    return tuple(steps)
