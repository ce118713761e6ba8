"""Graph -> cost, bottom up. One short rule per node type; unknown types are refused.

The rules and their sources are in docs/proofs/composition.md; samples and changes
of what counts as a neighbour are in `fold_rules`, a choice among members in `one_of`.
"""

from __future__ import annotations

import math
from functools import singledispatch

from privledger.accounting import (
    DEFAULT_ORDERS,
    Cost,
    RdpCurve,
    Relation,
    check_relation,
    maximum,
    pairwise_parallel,
    repeat,
    sequential,
)
from privledger.accounting.pld import GaussianPair, both_ways
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.graph.nodes import (
    IndividualFilter,
    Node,
    Parallel,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    below,
    check_node,
    children,
    row_of,
)
from privledger.graph.register import leaf_cost
from privledger.graph.remember import remembered
from privledger.rounding import multiply_up, up

Orders = tuple[float, ...]


def cost_of(
    node: Node, relation: Relation = "add_remove", orders: Orders = DEFAULT_ORDERS
) -> Cost:
    """Price `node` for one neighbouring relation.

    Raises:
        UnsupportedNode: no proof at hand for this node or combination.
        RelationMismatch: the node is stated for the other relation.
    """
    check_node("node", node)
    return _cached(node, check_relation(relation), orders)


@singledispatch
def fold(node: Node, relation: Relation, orders: Orders) -> Cost:
    """Leaves are priced by the mechanism register."""
    if relation == "replace_label":
        raise RelationMismatch(f"under replace_label {type(node).__name__} is priced inside "
                               "LabelOnly only, so that its epsilon is not taken for a promise "
                               "about whole records")
    return leaf_cost(node, relation, orders)


@remembered(4096)
def _cached(node: Node, relation: Relation, orders: Orders) -> Cost:
    """The rules that a kind's row states, then its own."""
    row = row_of(node)
    if row is not None and row.relations and relation not in row.relations:
        raise RelationMismatch(row.elsewhere.format(relation=relation))
    for kinds, why in row.never if row is not None else ():
        if any(isinstance(one, kinds) for child in children(node) for one in below(child)):
            raise UnsupportedNode(why)
    rule = fold.dispatch(type(node))  # called here: a frame less for each level of a plan
    return rule(node, relation, orders)


@fold.register
def _(node: PostProcess, relation: Relation, orders: Orders) -> Cost:
    return Cost.zero(relation, orders)


@fold.register
def _(node: Public, relation: Relation, orders: Orders) -> Cost:
    return Cost.zero(relation, orders)


@fold.register
def _(node: Sequential, relation: Relation, orders: Orders) -> Cost:
    if not node.nodes:
        return Cost.zero(relation, orders)
    return sequential([cost_of(child, relation, orders) for child in node.nodes])


@fold.register
def _(node: Repeat, relation: Relation, orders: Orders) -> Cost:
    return repeat(cost_of(node.node, relation, orders), node.count)


@fold.register
def _(node: Parallel, relation: Relation, orders: Orders) -> Cost:
    """Add-or-remove: the dearest part. Replace-one: a record may leave one part for another.
    By position (replace-one and label-only): it stays where it is."""
    distinct = tuple(dict.fromkeys(node.nodes))
    if relation == "add_remove":
        if node.certificate == "index":
            raise RelationMismatch("parts by index are a partition for replace_one only")
        return maximum([cost_of(child, relation, orders) for child in distinct])
    if node.certificate == "index":
        return maximum([cost_of(child, relation, orders) for child in distinct])
    if relation == "replace_label":
        raise RelationMismatch("under replace_label parts that a label may decide are priced "
                               "inside LabelOnly only: put LabelOnly around the Parallel")
    # A record moves between two parts, which may be alike: two of each kind say it all.
    twice = [child for child in distinct for _ in range(min(2, node.nodes.count(child)))]
    return pairwise_parallel(
        [cost_of(child, "replace_one", orders) for child in twice],
        [cost_of(child, "add_remove", orders) for child in twice],
    )


@fold.register
def _(node: IndividualFilter, relation: Relation, orders: Orders) -> Cost:
    """A Gaussian-DP filter costs one Gaussian; a Renyi filter is a statement at its order only.

    Orders below the filter's follow because a Renyi divergence grows with its order.
    """
    if node.kind == "gdp":
        mu = up(math.sqrt(node.cap))
        return Cost(
            relation, math.inf, node.cap,
            RdpCurve(orders, tuple(multiply_up(node.cap / 2, order) for order in orders)),
            node.cap,
            both_ways(GaussianPair(mu)) if 1e-12 <= mu <= 1e4 else None,
        )
    bounds = tuple(node.cap if order <= node.order else math.inf for order in orders)
    return Cost(relation, math.inf, None, RdpCurve(orders, bounds), math.inf,
                no_losses="a Renyi filter bounds one order only")

