"""Record type -> cost. Unknown types are refused."""

from __future__ import annotations

import math
from functools import singledispatch

from privledger.accounting import (
    Cost,
    RdpCurve,
    Relation,
    bounded_range_rdp,
    gaussian_rdp,
    laplace_rdp,
    pure_rdp,
    zcdp_rdp,
)
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.mechanisms.selection import Asserted, Exponential, RandomizedResponse
from privledger.rounding import multiply_up, up

Mechanism = (
    Laplace
    | Gaussian
    | DiscreteLaplace
    | DiscreteGaussian
    | Exponential
    | RandomizedResponse
    | Asserted
)


@singledispatch
def leaf_cost(mechanism: object, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Cost of one call, for the relation its sensitivity is stated for."""
    raise UnsupportedNode(f"no accountant for {type(mechanism).__name__}; it is refused")


def _pure(epsilon: float, curve: RdpCurve, relation: Relation) -> Cost:
    return Cost(relation, epsilon, None, curve)


@leaf_cost.register
def _(mechanism: Laplace, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Mironov 2017 (arXiv:1702.07476v3), Proposition 6."""
    epsilon = up(mechanism.l1_sensitivity / mechanism.scale)
    return _pure(epsilon, laplace_rdp(epsilon, orders), relation)


@leaf_cost.register
def _(mechanism: Gaussian, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Exactly 1/noise_multiplier-GDP; Dong, Roth, Su 2019 (arXiv:1905.02383v3), Theorem 2.7."""
    squared = up(up(1 / mechanism.noise_multiplier) ** 2)
    curve = gaussian_rdp(mechanism.noise_multiplier, orders)
    return Cost(relation, math.inf, squared, curve, squared)


@leaf_cost.register
def _(mechanism: DiscreteLaplace, relation: Relation, orders: tuple[float, ...]) -> Cost:
    epsilon = multiply_up(mechanism.parameter, mechanism.sensitivity)
    return _pure(epsilon, pure_rdp(epsilon, orders), relation)


@leaf_cost.register
def _(mechanism: DiscreteGaussian, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Theorem 4: the zCDP curve only."""
    ratio = up(mechanism.sensitivity / mechanism.sigma)
    return Cost(relation, math.inf, None, zcdp_rdp(up(ratio * ratio / 2), orders), math.inf)


@leaf_cost.register
def _(mechanism: Exponential, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Bounded range: Dong, Durfee, Rogers 2020; docs/proofs/selection.md."""
    return _pure(mechanism.epsilon, bounded_range_rdp(mechanism.epsilon, orders), relation)


@leaf_cost.register
def _(mechanism: RandomizedResponse, relation: Relation, orders: tuple[float, ...]) -> Cost:
    if relation != "replace_one":
        raise RelationMismatch("RandomizedResponse is stated for the replace_one relation")
    noise, buckets = mechanism.noise_parameter, mechanism.num_buckets
    epsilon = math.log1p(buckets * (1 - noise) / noise)
    epsilon = up(up(epsilon)) if epsilon > 0 else 0.0
    return _pure(epsilon, pure_rdp(epsilon, orders), relation) if epsilon else Cost.zero(
        relation, orders
    )


@leaf_cost.register
def _(mechanism: Asserted, relation: Relation, orders: tuple[float, ...]) -> Cost:
    return _pure(mechanism.epsilon, pure_rdp(mechanism.epsilon, orders), relation)
