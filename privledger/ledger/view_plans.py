"""The plan in an entry -> a node. A page asks for one plan many times: it is read once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from privledger.errors import PrivledgerError
from privledger.graph import Node, PostProcess, from_json

UNREADABLE = PostProcess("a plan that cannot be read")
"""Stands where nothing is promised, or a text is no plan. Never priced; an audit reports it."""

MOST = 4096

# Identity of the JSON value -> the value itself, which keeps that identity its own, and the node.
_known: OrderedDict[int, tuple[Any, Node]] = OrderedDict()


def plan_of(value: Any) -> Node:
    """As `from_json`, read once for each value of a body; bodies are never changed.

    Raises:
        PrivledgerError, KeyError, TypeError: not a plan.
    """
    found = _known.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    node = from_json(value)
    _known[id(value)] = value, node
    if len(_known) > MOST:
        _known.popitem(last=False)
    return node


def plan_or_none(value: Any) -> Node:
    """As `plan_of`, with `UNREADABLE` in place of what is not a plan."""
    try:
        return plan_of(value)
    except (PrivledgerError, KeyError, TypeError):
        return UNREADABLE
