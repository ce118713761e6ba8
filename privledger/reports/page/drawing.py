"""The composition graph as a drawing: siblings collapsed until it can be read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from privledger.reports.colours import hue_of
from privledger.reports.page.nodes import NodeRow

MOST_DRAWN = 500
ALIKE = (24, 12, 8, 4)
"""Alike siblings that are drawn by themselves: the most with which everything fits."""
WIDE, HIGH = 190, 26
SHEET, NARROWEST = 1.15, 640
"""A printed piece is so many times as high as it is wide, and never drawn larger than life."""


@frozen
class Root:
    """One plan at the top: a grant or a scope. `row` is its node, `learner` who asked."""

    name: str
    row: int
    learner: str = ""


@frozen
class Box:
    """One drawn node, or one that stands for many.

    Attributes:
        x, y: upper left corner, in pixels.
        title: the node's type, with how many it stands for. more: a longer text.
        parent: place of the box above; -1 for the first. hue: of the learner who asked; 0 below.
        path: which plan, then which child at each level; empty where there is no single one.
    """

    x: int
    y: int
    title: str
    more: str
    parent: int
    path: str
    folded: bool
    hue: int = 0


@frozen
class Drawing:
    """Boxes in reading order; `nodes` is how many there are in truth."""

    boxes: tuple[Box, ...]
    width: int
    height: int
    nodes: int

    @property
    def sheets(self) -> tuple[tuple[int, int], ...]:
        """(first, height) of pieces that each fit on a printed page, cut between two rows."""
        rows = max(10, round(SHEET * max(self.width, NARROWEST) / HIGH))
        return tuple((top, min(rows * HIGH, self.height - top))
                     for top in range(0, self.height, rows * HIGH))


@define
class _Part:
    title: str
    more: str
    path: str
    row: int | None
    folded: bool = False
    hue: int = 0
    parts: list[_Part] = field(factory=list)


@frozen
class _Member:
    row: int
    many: int
    path: str
    who: str = ""
    name: str = ""


def drawing(rows: Sequence[NodeRow], roots: Sequence[Root], most: int = MOST_DRAWN) -> Drawing:
    """The history as a tree of at most `most` boxes."""
    for alike in ALIKE:
        top, whole = _grown(rows, roots, alike, most)
        if whole:
            break
    boxes: list[Box] = []
    height = _place(top, 0, 0, -1, boxes)
    width = max(box.x for box in boxes) + WIDE
    return Drawing(tuple(boxes), width, height, 1 + sum(rows[root.row].size for root in roots))


def _grown(rows: Sequence[NodeRow], roots: Sequence[Root], alike: int,
           most: int) -> tuple[_Part, bool]:
    """Breadth first, so that every level is begun before one is shown in full.

    Returns the tree, and whether nothing had to be left out of it.
    """
    top = _Part("history", f"everything paid for: {len(roots)} plans", "", None)
    drawn, whole = 1, True
    queue = [(top, _children([_Member(root.row, 1, str(place), root.learner, root.name)
                              for place, root in enumerate(roots)], rows, alike))]
    for parent, parts in queue:
        if drawn + len(parts) > most:
            parent.folded, whole = True, False
            continue
        parent.parts = parts
        drawn += len(parts)
        for part in parts:
            if part.row is not None and rows[part.row].below:
                below = [_Member(row, many, f"{part.path}/{place}")
                         for place, (row, many) in enumerate(rows[part.row].below)]
                queue.append((part, _children(below, rows, alike)))
    return top, whole


def _children(members: list[_Member], rows: Sequence[NodeRow], most: int) -> list[_Part]:
    """The first few of each type by themselves, the others of it in one box."""
    shown: list[_Part] = []
    kinds: dict[str, list[_Member]] = {}
    for member in members:
        kinds.setdefault(rows[member.row].kind, []).append(member)
    for kind, alike in kinds.items():
        single = alike if len(alike) <= most + 1 else alike[:most]
        for one in single:
            times = f"{one.many} × " if one.many > 1 else ""
            who = f"{one.who}: " if one.who else ""
            more = " ".join(part for part in (one.name, kind, rows[one.row].parameters) if part)
            shown.append(_Part(f"{who}{times}{kind}{_figure(rows[one.row])}",
                               f"{who}{times}{more}", one.path, one.row,
                               hue=hue_of(one.who) if one.who else 0))
        rest = sum(one.many for one in alike[len(single):])
        if rest:
            shown.append(_Part(f"… {rest} more {kind}", f"{rest} more {kind}, in the tree below",
                               "", None, folded=True))
    return shown


def _figure(row: NodeRow) -> str:
    """What tells a node from its siblings in few letters: runs, members, the first parameter."""
    if row.repeats > 1:
        return f" × {row.repeats}"
    many = sum(count for _, count in row.below)
    first = row.parameters.partition(",")[0].partition("=")[2]
    return f" of {many}" if many > 1 else f" {first[:12]}" if first else ""


def _place(part: _Part, depth: int, y: int, parent: int, boxes: list[Box]) -> int:
    """Put `part` and what is below it from height `y` on; returns the first free height."""
    mine = len(boxes)
    boxes.append(Box(depth * WIDE, y, part.title, part.more, parent, part.path, part.folded,
                     part.hue))
    for child in part.parts:
        y = _place(child, depth + 1, y, mine, boxes)
    return y if part.parts else y + HIGH
