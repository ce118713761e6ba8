"""Prices of nodes that change what a neighbour is, or how often something ran."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from attrs import evolve

from privledger.accounting import Cost, RdpCurve, Relation, delta_at, pure_rdp
from privledger.accounting.pld import GaussianPair, Losses, both_ways, grouped, pure_pair, replaced
from privledger.accounting.triangle import MOST_STEPS, steps_rdp
from privledger.accounting.tuning import (
    negative_binomial_pure,
    negative_binomial_rdp,
    poisson_pure,
    poisson_rdp,
)
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.graph.fold import cost_of, fold
from privledger.graph.nodes import (
    AsReplaceOne,
    Correlated,
    FixedSizeSample,
    Group,
    IndividualFilter,
    LabelOnly,
    Node,
    RandomAllocation,
    TruncatedPoissonSample,
    Tuning,
    holds,
)
from privledger.rounding import multiply_up, part_up, up

Orders = tuple[float, ...]


@fold.register
def _(node: Group, relation: Relation, orders: Orders) -> Cost:
    """k rows: pure k epsilon, Gaussian DP k mu, Renyi by k triangle inequalities."""
    inner = cost_of(node.node, relation, orders)
    if node.rows == 1:
        return inner
    losses = None if inner.losses is None else grouped(inner.losses, node.rows)
    return _several(node.node, inner, node.rows, relation, relation, orders, "a group of rows",
                    losses)


@fold.register
def _(node: AsReplaceOne, relation: Relation, orders: Orders) -> Cost:
    """One removal and one addition: two steps [docs/proofs/relations.md]."""
    if relation != "replace_one":
        raise RelationMismatch("AsReplaceOne is priced under replace_one: that is its purpose")
    return replaced_cost(node.node, cost_of(node.node, "add_remove", orders), orders)


def replaced_cost(node: Node, inner: Cost, orders: Orders) -> Cost:
    """Of `AsReplaceOne(node)`, where `inner` is what `node` costs under add_remove.

    Raises:
        UnsupportedNode: no proof at hand for this node.
    """
    losses = None if inner.losses is None else replaced(inner.losses)
    return _several(node, inner, 2, "add_remove", "replace_one", orders,
                    "a change of relation", losses)


@fold.register
def _(node: LabelOnly, relation: Relation, orders: Orders) -> Cost:
    """Every rule that is used for a replaced record holds for a changed label
    [docs/proofs/relations.md]; samples of a fixed size are not shown to."""
    if relation != "replace_label":
        raise RelationMismatch(
            f"LabelOnly promises nothing about whole records, so it has no price under {relation}: "
            "it is for ledgers of relation replace_label")
    if holds(node.node, FixedSizeSample):
        # Its proof swaps whole records, and a label may move a query less than a record does.
        raise UnsupportedNode("a sample of fixed size inside LabelOnly has no proof here")
    if any(holds(node.node, kind) for kind in (
            RandomAllocation, TruncatedPoissonSample, Correlated)):
        raise UnsupportedNode("a random allocation, a sample that is cut off, or correlated noise "
                              "inside LabelOnly has no proof here")
    return evolve(cost_of(node.node, "replace_one", orders), relation="replace_label")


def _several(
    child: Node, inner: Cost, steps: int, stated: Relation, relation: Relation, orders: Orders,
    what: str, losses: Losses | None,
) -> Cost:
    if holds(child, IndividualFilter):
        raise UnsupportedNode(f"{what} around an individual filter has no proof here")
    if inner.failure:
        raise UnsupportedNode(f"{what} around a cost with delta is not priced here")
    squared = multiply_up(inner.gdp_squared, float(steps) ** 2)
    part = None if inner.pure_part is None else inner.pure_part * steps
    pure = math.inf if part is None else part_up(part)
    exact = squared if inner.mu_squared is not None else None

    def curve() -> RdpCurve:
        best = np.full(len(orders), math.inf)
        if exact is not None:
            best = np.array([multiply_up(squared / 2, order) for order in orders])
        elif steps <= MOST_STEPS:
            best = steps_rdp(lambda at: cost_of(child, stated, at).curve, steps,
                             orders).as_array()
        if math.isfinite(pure):
            best = np.minimum(best, pure_rdp(pure, orders).as_array())
        return RdpCurve.from_array(orders, best)

    return Cost(relation, pure, exact, curve, squared, _several_losses(exact, pure, losses),
                f"{what} has no dominating pairs here around what is inside",
                zcdp=inner.rho * steps**2, part=part)


def _several_losses(exact: float | None, pure: float, known: Losses | None) -> Losses | None:
    """Release by release where that is proved; else of the whole, as far as it is pure."""
    if exact is not None and 1e-24 <= exact <= 1e8:
        return both_ways(GaussianPair(up(math.sqrt(exact))))
    if known is not None:
        return known
    if 1e-12 <= pure <= 600:
        return both_ways(pure_pair(pure, tight=False))
    return None


@fold.register
def _(node: Tuning, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/tuning.md; Papernot, Steinke 2022 (arXiv:2110.03620v2)."""
    if holds(node.node, IndividualFilter):
        raise UnsupportedNode("tuning around an individual filter has no proof here")
    inner = cost_of(node.node, relation, orders)
    if inner.failure:
        raise UnsupportedNode("tuning around a cost with delta is not priced here")
    if inner.pure == 0:
        return inner
    pure = math.inf
    if node.distribution == "poisson":
        if math.isfinite(inner.pure):
            pure = poisson_pure(inner.pure, node.mean)
        curve = poisson_rdp(inner.curve, node.mean, lambda epsilon: _delta(inner, epsilon))
    else:
        if math.isfinite(inner.pure):
            pure = negative_binomial_pure(inner.pure, node.shape)
        curve = negative_binomial_rdp(inner.curve, node.shape, node.success)
    if math.isfinite(pure):
        curve = RdpCurve.from_array(
            orders, np.minimum(curve.as_array(), pure_rdp(pure, orders).as_array()))
    losses = both_ways(pure_pair(pure, tight=False)) if 1e-12 <= pure <= 600 else None
    return Cost(relation, pure, None, curve, losses=losses,
                no_losses="tuning has a Renyi bound only")


def _delta(trial: Cost, epsilon: float) -> float:
    """The smaller of what pure DP and Renyi DP say of one trial."""
    found = []
    for accountant in ("pure", "rdp"):
        with suppress(UnsupportedNode):
            found.append(delta_at(trial, epsilon, accountant).delta)
    return min(found, default=1.0)
