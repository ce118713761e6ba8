"""How deep a plan may be nested, and how large it may be: one rule for every reader of plans.

Prices, meters and codecs walk a plan by recursion. Without a stated limit the interpreter's own
limit would answer, somewhere in the middle of a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from privledger.errors import InvalidPlan

MAX_DEPTH = 100  # a leaf alone is 1 deep
MOST_NODES = 1_000_000  # written out: a subtree that is used twice counts twice
_RULE = f"nested at most {MAX_DEPTH} deep"
_BELOW = ("node", "nodes", "event", "events")  # of nodes, and of the events of dp_accounting


class Nested:
    """Base of the composites: a place for their depth, so that it is computed once."""

    __slots__ = ("_depth",)
    _depth: int


def depth_of(node: object) -> int:
    """The depth of a node by what its members know of theirs; else it is walked."""
    if not isinstance(node, Nested):
        return 1
    if not hasattr(node, "_depth"):
        inside = list(_inside(node))
        # A member that came out of a pickle knows nothing, and neither do those below it.
        if all(hasattr(one, "_depth") or not isinstance(one, Nested) for one in inside):
            found = 1 + max(map(depth_of, inside), default=0)
        else:
            found = sum(1 for _ in islice(_levels(node, "plan"), MAX_DEPTH + 1))
        object.__setattr__(node, "_depth", found)
    return node._depth


def check_nested(name: str, node: object) -> None:
    """Raise `InvalidPlan` if `node`, whose members were checked, is too deep."""
    if depth_of(node) > MAX_DEPTH:
        raise InvalidPlan(name, "a deeper one", _RULE)


def check_depth(value: object, name: str = "plan") -> int:
    """Raise `InvalidPlan` unless a node, its JSON form, or a `DpEvent` is within the limits.

    Walks the whole of it, level by level and without recursion, and trusts nothing that was
    noted before. Ends on anything, a value that holds itself included.

    Returns:
        How many nodes it has, written out.

    Args:
        value: what a caller, a message or a file gave; of any type.
        name: how the error calls it.
    """
    nodes = 0
    for depth, level in enumerate(_levels(value, name)):
        nodes += sum(level)
        if depth >= MAX_DEPTH:
            raise InvalidPlan(name, "a deeper one", _RULE)
        if nodes > MOST_NODES:
            raise InvalidPlan(name, "a larger one", f"of at most {MOST_NODES} nodes")
    return nodes


def _levels(value: object, name: str) -> Iterator[list[int]]:
    """For each level how often each of its different objects stands there; shared ones once."""
    level: dict[int, tuple[object, int]] = {id(value): (value, 1)}
    while level:
        yield [times for _, times in level.values()]
        below: dict[int, tuple[object, int]] = {}
        for one, times in level.values():
            for member in _members(one, name):
                below[id(member)] = member, below.get(id(member), (member, 0))[1] + times
        level = below


def _members(value: object, name: str) -> Iterator[object]:
    if isinstance(value, dict):
        for item in value.values():
            if type(item) is float or type(item) is str:  # what most of them are
                continue
            if isinstance(item, dict):
                yield item
            elif isinstance(item, list | tuple):
                yield from _listed(item, name)
    else:
        yield from _inside(value)


def _listed(items: list[Any] | tuple[Any, ...], name: str) -> Iterator[object]:
    for item in items:
        if type(item) is float:
            continue
        if isinstance(item, dict):
            yield item
        elif isinstance(item, list | tuple):
            raise InvalidPlan(name, "a list of lists", "an object whose lists hold nodes or "
                              "numbers")


def _inside(value: object) -> Iterator[object]:
    for name in _BELOW:
        item = getattr(value, name, None)
        if isinstance(item, list | tuple):
            yield from item
        elif item is not None:
            yield item
