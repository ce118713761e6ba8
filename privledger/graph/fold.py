"""Graph -> cost, bottom up. One short rule per node type; unknown types are refused.

The rules and their sources are in docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch

from privledger.accounting import (
    DEFAULT_ORDERS,
    Cost,
    RdpCurve,
    Relation,
    check_relation,
    maximum,
    pairwise_parallel,
    poisson_gaussian_rdp,
    poisson_generic_rdp,
    poisson_pure_epsilon,
    pure_rdp,
    repeat,
    sequential,
)
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.graph.nodes import (
    Group,
    IndividualFilter,
    Node,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    check_node,
    holds,
)
from privledger.mechanisms import leaf_cost
from privledger.rounding import down, multiply_up


def cost_of(
    node: Node, relation: Relation = "add_remove", orders: tuple[float, ...] = DEFAULT_ORDERS
) -> Cost:
    """Price `node` for one neighbouring relation.

    Raises:
        UnsupportedNode: no proof at hand for this node or combination.
        RelationMismatch: the node is stated for the other relation.
    """
    check_node("node", node)
    return _cached(node, check_relation(relation), orders)


@lru_cache(maxsize=4096)
def _cached(node: Node, relation: Relation, orders: tuple[float, ...]) -> Cost:
    return fold(node, relation, orders)


@singledispatch
def fold(node: object, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Leaves are priced by the mechanism register."""
    return leaf_cost(node, relation, orders)


@fold.register
def _(node: PostProcess, relation: Relation, orders: tuple[float, ...]) -> Cost:
    return Cost.zero(relation, orders)


@fold.register
def _(node: Public, relation: Relation, orders: tuple[float, ...]) -> Cost:
    return Cost.zero(relation, orders)


@fold.register
def _(node: Sequential, relation: Relation, orders: tuple[float, ...]) -> Cost:
    if not node.nodes:
        return Cost.zero(relation, orders)
    return sequential([cost_of(child, relation, orders) for child in node.nodes])


@fold.register
def _(node: Repeat, relation: Relation, orders: tuple[float, ...]) -> Cost:
    return repeat(cost_of(node.node, relation, orders), node.count)


@fold.register
def _(node: Parallel, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Add-or-remove: the dearest part. Replace-one: a record may leave one part for another."""
    if relation == "add_remove":
        if node.certificate == "index":
            raise RelationMismatch("parts by index are a partition for replace_one only")
        return maximum([cost_of(child, relation, orders) for child in node.nodes])
    replaced = [cost_of(child, "replace_one", orders) for child in node.nodes]
    if node.certificate == "index":
        return maximum(replaced)
    return pairwise_parallel(
        replaced, [cost_of(child, "add_remove", orders) for child in node.nodes]
    )


@fold.register
def _(node: PoissonSample, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Exact for Gaussians (they merge into one on the same sample); generic bound otherwise."""
    if relation != "add_remove":
        raise RelationMismatch("Poisson subsampling is priced under add_remove only")
    if holds(node.node, IndividualFilter):
        # The filter must act before the sample is drawn, so that cost follows the record.
        raise UnsupportedNode("an individual filter inside a Poisson sample has no proof here; "
                              "put the sample inside the filter")
    if holds(node.node, Group):
        raise UnsupportedNode("rows are sampled one by one: a group inside a Poisson sample has "
                              "no proof here")
    inner = cost_of(node.node, relation, orders)
    if node.rate == 1:
        return inner
    if inner.mu_squared is not None:
        if inner.mu_squared == 0:
            return inner
        multiplier = down(1 / math.sqrt(inner.mu_squared))
        curve = poisson_gaussian_rdp(node.rate, multiplier, orders)
        # A sampled Gaussian is no better than its unsampled one as a Gaussian-DP statement.
        return Cost(relation, math.inf, None, curve, inner.mu_squared)
    if math.isfinite(inner.pure):
        epsilon = poisson_pure_epsilon(node.rate, inner.pure)
        return Cost(relation, epsilon, None, pure_rdp(epsilon, orders))
    curve = poisson_generic_rdp(
        node.rate, lambda order: cost_of(node.node, relation, (float(order),)).curve.bounds[0],
        orders,
    )
    return Cost(relation, math.inf, None, curve, inner.gdp_squared)


@fold.register
def _(node: IndividualFilter, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """A Gaussian-DP filter costs one Gaussian; a Renyi filter is a statement at its order only.

    Orders below the filter's follow because a Renyi divergence grows with its order.
    """
    if relation != "add_remove":
        raise RelationMismatch("individual filters are proved for add_remove only")
    if node.kind == "gdp":
        return Cost(
            relation, math.inf, node.cap,
            RdpCurve(orders, tuple(multiply_up(node.cap / 2, order) for order in orders)),
            node.cap,
        )
    bounds = tuple(node.cap if order <= node.order else math.inf for order in orders)
    return Cost(relation, math.inf, None, RdpCurve(orders, bounds), math.inf)


@fold.register
def _(node: Group, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """k rows: pure k * epsilon; Gaussian DP k * mu (Dong, Roth, Su 2019, Theorem 2.14)."""
    inner = cost_of(node.node, relation, orders)
    if node.rows == 1:
        return inner
    squared = multiply_up(inner.gdp_squared, float(node.rows) ** 2)
    exact = squared if inner.mu_squared is not None else None
    pure = multiply_up(inner.pure, float(node.rows))
    if exact is not None:
        bounds = tuple(multiply_up(squared / 2, order) for order in orders)
    elif math.isfinite(pure):
        bounds = pure_rdp(pure, orders).bounds
    else:
        raise UnsupportedNode("group cost is known for pure DP and for unsampled Gaussians only")
    return Cost(relation, pure, exact, RdpCurve(orders, bounds), squared)
