"""Graph -> cost, bottom up. One short rule per node type; unknown types are refused.

The rules and their sources are in docs/proofs/composition.md; samples and changes
of what counts as a neighbour are in `fold_rules`, a choice among members in `one_of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, singledispatch, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

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
from privledger.accounting.deadline import check_time
from privledger.accounting.pld import GaussianPair, both_ways
from privledger.errors import InvalidPlan, RelationMismatch, UnsupportedNode
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
from privledger.rounding import multiply_up, up

# Prices that are computed once. What a ledger charges by is kept apart from other callers' prices.
#
# A cache keeps the first node that was asked about as its key. If that node is a stranger's, the
# stranger can change it afterwards, into another node of the same hash: 2.0**61 and 1.0 have one,
# and the second would have the first one's price. So a key is a copy that no caller holds.
# Beside that a ledger decides by a cache of its own, of which no caller was ever handed a
# result.

P = ParamSpec("P")
T = TypeVar("T")
_CHARGING: ContextVar[bool] = ContextVar("charging", default=False)
_OWN: ContextVar[bool] = ContextVar("own", default=False)
_PLAIN = (float, int, str, bool, type(None))
_LONG = 1000  # nodes of a plan, of which one copy is kept


@contextmanager
def charging() -> Iterator[None]:
    """Here prices are charged: every node was built from the ledger's own text."""
    token = _CHARGING.set(True)
    try:
        yield
    finally:
        _CHARGING.reset(token)


@contextmanager
def unshared() -> Iterator[None]:
    """Here the caller made every node, from a text or by `own_copy`, and hands none
    of them on: none is copied again."""
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


class _Key:
    """A node in a cache. Where it stays there, it is exchanged for a copy."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __hash__(self) -> int:
        return hash(self.node)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Key and self.node == other.node


def own_copy(node: Node) -> Node:
    """The same tree, made afresh; what was shared in it is shared again.

    Raises:
        InvalidPlan: a record holds what does not belong there.
        InvalidMechanism: a record that checked itself failed.
    """
    return _copied(node, {})  # type: ignore[no-any-return]


def _copied(value: Any, known: dict[int, Any], *, afresh: bool = False) -> Any:
    """One frame for each level: a plan may be nested as deeply as Python goes."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is Sequential and not afresh and len(value.nodes) >= _LONG:
        return _long_copy(_Key(value))
    row = row_of(value)
    if row is None:
        raise InvalidPlan("node", kind.__name__, "made of nodes and plain values")
    if id(value) not in known:
        given = {}
        for one in row.fields.values():
            inside = getattr(value, one.name)
            if type(inside) is tuple:
                items = []
                for item in inside:
                    items.append(_copied(item, known))  # a comprehension is a frame more
                inside = tuple(items)
            else:
                inside = _copied(inside, known)
            given[one.alias] = inside
        known[id(value)] = kind(**given)
    return known[id(value)]


@lru_cache(8)
def _long_copy(key: _Key) -> Node:
    """Of a plan that nodes are appended to: made once, as long as it equals what it was made of."""
    key.node = _copied(key.node, {}, afresh=True)
    return key.node


def remembered(most: int) -> Callable[[Callable[Concatenate[Node, P], T]],
                                      Callable[Concatenate[Node, P], T]]:
    """`lru_cache` of `most` entries, twice: for charges, and for other callers.

    The function's first argument is a node; it may not keep it. Every call that is not answered
    from the cache looks at the time that pricing may take (`accounting.deadline`).
    """

    def wrap(function: Callable[Concatenate[Node, P], T]) -> Callable[Concatenate[Node, P], T]:
        def missed(key: _Key, *given: P.args, **named: P.kwargs) -> T:
            check_time()
            if _OWN.get() or _CHARGING.get():
                return function(key.node, *given, **named)
            key.node = own_copy(key.node)
            token = _OWN.set(True)  # what is inside of it is no caller's either
            try:
                return function(key.node, *given, **named)
            finally:
                _OWN.reset(token)

        asked, charged = (lru_cache(most)(missed) for _ in range(2))

        @wraps(function)
        def call(node: Node, *given: P.args, **named: P.kwargs) -> T:
            cache = charged if _CHARGING.get() else asked
            return cache(_Key(node), *given, **named)  # type: ignore[arg-type]

        def clear() -> None:
            asked.cache_clear()
            charged.cache_clear()

        call.cache_clear = clear  # type: ignore[attr-defined]
        return cast(Callable[Concatenate[Node, P], T], call)

    return wrap


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
