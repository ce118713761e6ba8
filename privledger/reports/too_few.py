"""Whether a plan's answers can be told from noise, from public facts: how many people there are."""

from __future__ import annotations

import math
from functools import singledispatch

from privledger.facts.schema import Schema
from privledger.graph import (
    FixedSizeSample,
    Node,
    PoissonSample,
    RandomAllocation,
    TruncatedPoissonSample,
    children,
)
from privledger.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    ReportNoisyMax,
    SparseVector,
    TopK,
)
from privledger.numerals import upward
from privledger.rounding import exact

SHARE = 0.1
"""An answer whose noise is so large a part of everybody says next to nothing."""


def quietest(node: Node) -> float:
    """Standard deviation of a plan's quietest answer, in records: what one record at the most
    moves it by is one. Infinity where nothing is released."""
    inside = [quietest(child) for child in children(node)]
    own = noise_of(node)
    return min([own, *inside]) / _share(node)


def _share(node: Node) -> float:
    """The share of all records that a sample holds, with the same noise; 1 of what is no sample."""
    if isinstance(node, PoissonSample | TruncatedPoissonSample):
        return node.rate
    if isinstance(node, FixedSizeSample):
        return node.size / node.out_of
    return 1 / node.steps if isinstance(node, RandomAllocation) else 1.0


@singledispatch
def noise_of(leaf: object) -> float:
    """Of one mechanism; infinity for what adds no noise of its own."""
    return math.inf


@noise_of.register
def _(leaf: Gaussian) -> float:
    return leaf.noise_multiplier / math.sqrt(max(leaf.shares, default=1.0))


@noise_of.register
def _(leaf: Laplace) -> float:
    return math.sqrt(2.0) * leaf.scale / leaf.l1_sensitivity


@noise_of.register
def _(leaf: DiscreteGaussian) -> float:
    return leaf.sigma / leaf.sensitivity


@noise_of.register
def _(leaf: DiscreteLaplace) -> float:
    # Its square is 2 e^a/(e^a - 1)^2, a bit above what is said here.
    return math.sqrt(2.0) / math.expm1(min(leaf.parameter, 700.0)) / leaf.sensitivity


@noise_of.register
def _(leaf: SparseVector) -> float:
    return math.sqrt(2.0) * max(leaf.threshold_scale, leaf.query_scale) / leaf.sensitivity


@noise_of.register(Exponential)
@noise_of.register(PermuteAndFlip)
@noise_of.register(ReportNoisyMax)
@noise_of.register(TopK)
def _(leaf: Exponential | PermuteAndFlip | ReportNoisyMax | TopK) -> float:
    # Differences of two scores must be about so large to be seen.
    return 2.0 / leaf.epsilon


def too_few(node: Node, schema: Schema) -> str | None:
    """A sentence if what the schema says of the number of people is too little for a plan."""
    people = schema.declared_rows
    noise = quietest(node)
    if schema.unit != "person" or people is None or not SHARE * people < noise < math.inf:
        return None
    return (f"too few people for anything to be learnt: {exact(people)} of them, and the quietest "
            f"answer has noise as of {upward(noise, 3)}")
