"""Prices that are computed once. What a ledger charges by is kept apart from everybody else's.

A cache keeps the first node that was asked about as its key. If that node is a stranger's, the
stranger can change it afterwards, into another node of the same hash: 2.0**61 and 1.0 have one,
and the second would have the first one's price. So a key is a copy that nobody else holds. Beside
that a ledger decides by a cache of its own, of which nobody else was ever handed a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from privledger.accounting.deadline import check_time
from privledger.errors import InvalidPlan
from privledger.graph.nodes import Node, row_of

P = ParamSpec("P")
T = TypeVar("T")
_CHARGING: ContextVar[bool] = ContextVar("charging", default=False)
_OWN: ContextVar[bool] = ContextVar("own", default=False)
_PLAIN = (float, int, str, bool, type(None))


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
    """Here whoever asks for prices made every node, from a text or by `own_copy`, and hands none
    of them to anybody: none is copied again."""
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
        InvalidPlan: somebody put into a record what does not belong there.
        InvalidMechanism: a record that checked itself failed.
    """
    return _copied(node, {})  # type: ignore[no-any-return]


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """One frame for each level: a plan may be nested as deeply as Python goes."""
    kind = type(value)
    if kind in _PLAIN:
        return value
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


def remembered(most: int) -> Callable[[Callable[Concatenate[Node, P], T]],
                                      Callable[Concatenate[Node, P], T]]:
    """`lru_cache` of `most` entries, twice: for charges, and for whoever asks for a price.

    The function's first argument is a node; it may not keep it. Every call that is not answered
    from the cache looks at the time that pricing may take (`accounting.deadline`).
    """

    def wrap(function: Callable[Concatenate[Node, P], T]) -> Callable[Concatenate[Node, P], T]:
        def missed(key: _Key, *given: P.args, **named: P.kwargs) -> T:
            check_time()
            if _OWN.get() or _CHARGING.get():
                return function(key.node, *given, **named)
            key.node = own_copy(key.node)
            token = _OWN.set(True)  # whatever is inside of it is nobody else's either
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
