"""A networkx view of a node tree, for queries, drawings and export."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import fields

from privledger.graph.nodes import NODE_TYPES, Node, OneOf, Parallel, Repeat, Sequential, children
from privledger.graph.plan_json import canonical, to_json
from privledger.numerals import many

if TYPE_CHECKING:
    import networkx as nx

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMES = {kind: tuple(str(one.name) for one in fields(kind)) for kind in NODE_TYPES}
MOST_SHOWN = 8  # numbers of a list


def label(node: Node) -> str:
    """One line: the type and its own parameters."""
    parts = []
    for name in _NAMES[type(node)]:
        value = getattr(node, name)
        if isinstance(value, float):
            parts.append(f"{name}={value:.6g}")
            continue
        if isinstance(value, NODE_TYPES) or value is None:
            continue
        if isinstance(value, tuple) and value and isinstance(value[0], NODE_TYPES):
            continue
        shown = str(value)
        if isinstance(value, tuple):
            first = value if len(value) <= MOST_SHOWN else value[:3]
            more = f", and {len(value) - 3} more" if len(first) < len(value) else ""
            shown = "(" + ", ".join(f"{item:.3g}" for item in first) + more + ")"
        if value == () or value == "":
            continue
        parts.append(f"{name}={shown}")
    if isinstance(node, Sequential | Parallel | OneOf):
        parts.append(many(len(node.nodes), "member"))
    return f"{type(node).__name__}({', '.join(parts)})"


def view(node: Node) -> nx.DiGraph:
    """A frozen directed tree; each vertex has `kind`, `label`, `depth`, `multiplicity`, `json`.

    Vertices are paths such as "0", "0.2": the position below each ancestor.
    """
    import networkx

    graph: Any = networkx.DiGraph()
    stack: list[tuple[str, Node, int, int]] = [("0", node, 0, 1)]
    while stack:
        path, current, depth, times = stack.pop()
        graph.add_node(path, kind=type(current).__name__, label=label(current), depth=depth,
                       multiplicity=times, json=canonical(to_json(current)))
        below = times * current.count if isinstance(current, Repeat) else times
        for position, child in enumerate(children(current)):
            name = f"{path}.{position}"
            stack.append((name, child, depth + 1, below))
            graph.add_edge(path, name)
    return networkx.freeze(graph)


def graphml(node: Node) -> str:
    """The view as GraphML text. Characters that XML cannot carry become "?"."""
    import networkx

    whole = view(node).copy()
    for _, held in whole.nodes(data=True):
        held |= {key: _NO_XML.sub("?", value) for key, value in held.items()
                 if isinstance(value, str)}
    return "\n".join(networkx.generate_graphml(whole))
