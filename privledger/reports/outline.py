"""A node tree as lines to read: equal members are merged, multiplicities are multiplied out."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from privledger.graph import (
    IndividualFilter,
    Node,
    PostProcess,
    Public,
    Repeat,
    children,
    label,
)


@frozen
class Outline:
    """One line of a composition tree.

    Attributes:
        kind: the node's type.
        label: the type and its own parameters.
        members: how many equal members of the parent this line stands for.
        times: how often it runs in the whole plan (every repeat above it multiplied).
    """

    kind: str
    label: str
    members: int
    times: int
    children: tuple[Outline, ...]


def outline(node: Node, *, members: int = 1, times: int = 1) -> Outline:
    """The tree below `node`, equal members merged in the order of their first one."""
    below = times * node.count if isinstance(node, Repeat) else times
    counts: dict[Node, int] = {}
    for child in children(node):
        counts[child] = counts.get(child, 0) + 1
    return Outline(
        type(node).__name__, label(node), members, times,
        tuple(outline(child, members=many, times=below * many)
              for child, many in counts.items()),
    )


def leaves(node: Node) -> Iterator[Node]:
    """Every distinct position that spends: mechanisms, and filters without a described inside."""
    below = children(node)
    if not below and not isinstance(node, PostProcess | Public):
        yield node
    for child in dict.fromkeys(below):
        yield from leaves(child)


def release_count(node: Node) -> int | None:
    """How many releases a plan describes; None if a filter leaves its inside open."""
    if isinstance(node, PostProcess | Public):
        return 0
    if isinstance(node, IndividualFilter) and node.node is None:
        return None
    below = children(node)
    if not below:
        return 1
    counts: dict[Node, int] = {}
    for child in below:
        counts[child] = counts.get(child, 0) + 1
    total = 0
    for child, many in counts.items():
        inside = release_count(child)
        if inside is None:
            return None
        total += many * inside
    return total * node.count if isinstance(node, Repeat) else total
