"""The composition graph as a drawing: siblings collapsed until it can be read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from privledger.reports.page.nodes import NodeRow

MOST_DRAWN = 500
ALIKE = 4
WIDE, HIGH = 190, 26


@frozen
class Root:
    """One plan at the top: a grant or a scope. `row` is its node."""

    name: str
    row: int


@frozen
class Box:
    """One drawn node, or one that stands for many.

    Attributes:
        x, y: upper left corner, in pixels.
        title: the node's type, with how many it stands for. more: a longer text.
        parent: place of the box above; -1 for the first.
        path: which plan, then which child at each level; empty where there is no single one.
    """

    x: int
    y: int
    title: str
    more: str
    parent: int
    path: str
    folded: bool


@frozen
class Drawing:
    """Boxes in reading order; `nodes` is how many there are in truth."""

    boxes: tuple[Box, ...]
    width: int
    height: int
    nodes: int


@define
class _Part:
    title: str
    more: str
    path: str
    row: int | None
    folded: bool = False
    parts: list[_Part] = field(factory=list)


def drawing(rows: Sequence[NodeRow], roots: Sequence[Root]) -> Drawing:
    """Breadth first, so that every level is begun before one is shown in full."""
    top = _Part("history", f"everything paid for: {len(roots)} plans", "", None)
    drawn = 1
    level = _children(top, [(root.row, 1, str(place), root.name)
                            for place, root in enumerate(roots)], rows)
    queue = [(top, level)]
    while queue:
        parent, parts = queue.pop(0)
        if drawn + len(parts) > MOST_DRAWN:
            parent.folded = True
            continue
        parent.parts = parts
        drawn += len(parts)
        for part in parts:
            if part.row is None or not rows[part.row].below:
                continue
            below = [(row, many, f"{part.path}/{place}", "")
                     for place, (row, many) in enumerate(rows[part.row].below)]
            queue.append((part, _children(part, below, rows)))
    boxes: list[Box] = []
    height = _place(top, 0, 0, -1, boxes)
    width = max(box.x for box in boxes) + WIDE
    return Drawing(tuple(boxes), width, height, 1 + sum(rows[root.row].size for root in roots))


def _children(parent: _Part, members: list[tuple[int, int, str, str]],
              rows: Sequence[NodeRow]) -> list[_Part]:
    """The first few of each type by themselves, the others of it in one box."""
    shown: list[_Part] = []
    kinds: dict[str, list[tuple[int, int, str, str]]] = {}
    for member in members:
        kinds.setdefault(rows[member[0]].kind, []).append(member)
    for kind, alike in kinds.items():
        single = alike if len(alike) <= ALIKE + 1 else alike[:ALIKE]
        for row, many, path, name in single:
            times = f"{many} × " if many > 1 else ""
            more = " ".join(part for part in (name, kind, rows[row].parameters) if part)
            shown.append(_Part(f"{times}{kind}{_count(rows[row])}", times + more, path, row))
        rest = sum(many for _, many, _, _ in alike[len(single):])
        if rest:
            shown.append(_Part(f"… {rest} more {kind}", f"{rest} more {kind}, in the tree below",
                               "", None, folded=True))
    return shown


def _count(row: NodeRow) -> str:
    return f" × {row.repeats}" if row.repeats > 1 else ""


def _place(part: _Part, depth: int, y: int, parent: int, boxes: list[Box]) -> int:
    """Put `part` and what is below it from height `y` on; returns the first free height."""
    mine = len(boxes)
    boxes.append(Box(depth * WIDE, y, part.title, part.more, parent, part.path, part.folded))
    for child in part.parts:
        y = _place(child, depth + 1, y, mine, boxes)
    return y if part.parts else y + HIGH
