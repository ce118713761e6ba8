"""Nodes <-> plain JSON values, and canonical JSON text."""

from __future__ import annotations

import json
from typing import Any

from privledger.errors import InvalidPlan
from privledger.graph.node_checks import check_depth, json_fields
from privledger.graph.nodes import NODES, Node, row_of
from privledger.numerals import meant

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True,
                            allow_nan=False)


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN or infinity."""
    return _ENCODER.encode(value)


def to_json(node: Node) -> dict[str, Any]:
    """A node as a JSON object; its type under `node`.

    Raises:
        InvalidPlan: it is nested too deeply, or too large to be written out.
    """
    check_depth(node)
    return _out(node)


def _out(node: Node) -> dict[str, Any]:
    result: dict[str, Any] = {"node": type(node).__name__}
    row = row_of(node)
    for name, attribute in (json_fields(type(node)) if row is None else row.fields).items():
        value = getattr(node, attribute.name)
        if isinstance(value, tuple):
            value = [item if row_of(item) is None else _out(item) for item in value]
        elif row_of(value) is not None:
            value = _out(value)
        result[name] = value
    return result


def from_json(value: Any) -> Node:
    """The node that `to_json` wrote; every record checks itself again.

    Raises:
        InvalidPlan: it is nested too deeply, too large, or no node.
        InvalidMechanism: a record that checked itself failed.
    """
    check_depth(value)
    return _node(value)


def _node(value: Any) -> Node:
    name = value.get("node") if isinstance(value, dict) else None
    row = NODES.get(name) if isinstance(name, str) else None
    if row is None:
        near = meant(name, NODES) if isinstance(name, str) else ""
        raise InvalidPlan("node", _short(value), f"an object whose `node` is a known type{near}")
    known = row.fields
    arguments: dict[str, Any] = {}
    for key, item in value.items():
        if key == "node":
            continue
        if key not in known:
            raise InvalidPlan(f"{value['node']} field", key, f"one of {', '.join(known)}")
        arguments[known[key].name] = item if type(item) is float else _value(item)
    try:
        node: Node = row.kind(**arguments)
    except TypeError:
        raise InvalidPlan(value["node"], _short(value), "given all its fields") from None
    for key, item in value.items():
        # A text or an object would turn into a tuple of its characters or keys.
        if type(item) is not float and key != "node" and not isinstance(item, list) and isinstance(
                getattr(node, known[key].name), tuple):
            raise InvalidPlan(f"{value['node']} {key}", _short(item), "a list")
    return node


def _value(item: Any) -> Any:
    if isinstance(item, dict):
        return _node(item)
    if isinstance(item, list):
        return tuple([part if type(part) is float else _value(part) for part in item])
    return item


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
