"""The composition graph as a drawing: siblings collapsed until it can be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any

from attrs import define, field, frozen

from privledger.accounting import Cost, Relation, check_relation
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import (
    Node,
    PostProcess,
    Public,
    Repeat,
    children,
    cost_of,
    label,
    replaced_cost,
)
from privledger.graph.remember import own_copy, unshared
from privledger.ledger import FilterRule
from privledger.ledger.view import View
from privledger.ledger.view_charges import NOBODY, UNNAMED, ChargeFigures
from privledger.ledger.view_figures import Amount, clean, summed_figures
from privledger.numerals import many
from privledger.reports.page.marks import hue_of
from privledger.reports.spend import PlanSteps, silent
from privledger.rounding import as_written, from_units, upward

# Every node of a ledger's plans once, with its price: what the tree of the page grows from.

MOST_EXACT = 300
MOST_OTHER = 20_000
MOST_BY_DISTRIBUTION = 60
_Price = tuple[float | None, float | None]


@frozen
class NodeRow:
    """One distinct node.

    Attributes:
        kind, parameters: type and its own parameters, as text.
        below: (row, how many equal members) of the nodes directly below, in order.
        repeats: how often what is below runs.
        amount: cost of one run in the filter's unit, rounded up; None if it has no price alone.
        epsilon: what one run certifies at the budget's delta by that filter; None likewise.
        other: the same in a replace_one history, where the ledger's relation is add_remove.
        size: nodes in the tree below and itself, equal members counted each.
    """

    kind: str
    parameters: str
    below: tuple[tuple[int, int], ...]
    repeats: int
    amount: float | None
    epsilon: float | None
    other: float | None
    size: int


@define
class NodeTable:
    """Distinct nodes, in the order they were first met. Filled by `add`, priced by `rows`.

    Attributes:
        costs: of whole plans, by row, as far as they have one; once `rows` was called.
    """

    _places: dict[Node, int] = field(factory=dict)
    _below: list[tuple[tuple[int, int], ...]] = field(factory=list)
    _sizes: list[int] = field(factory=list)
    costs: dict[int, Cost] = field(factory=dict)

    def add(self, node: Node) -> int:
        """The row of a copy of `node`, whatever is below it added first."""
        return self._add(own_copy(node))

    def _add(self, node: Node) -> int:
        place = self._places.get(node)
        if place is not None:
            return place
        counts: dict[int, int] = {}
        for child in children(node):
            row = self._add(child)
            counts[row] = counts.get(row, 0) + 1
        place = self._places[node] = len(self._below)
        self._below.append(tuple(counts.items()))
        self._sizes.append(1 + sum(self._sizes[row] * many for row, many in counts.items()))
        return place

    def rows(self, rule: FilterRule | None, relation: str,
             plans: Collection[int] = (), steps: PlanSteps = silent) -> tuple[NodeRow, ...]:
        """Every node with its price. O(distinct nodes).

        Args:
            plans: rows of whole plans. Of very many nodes, only these get the other price.
        """
        nodes = list(self._places)
        own: list[_Price] = [(None, None)] * len(nodes)
        other = list(own)
        if rule is not None:
            swapped = set(range(len(nodes)) if len(nodes) <= MOST_OTHER else plans)
            with unshared():
                own, other = prices(nodes, rule, relation,
                                    swapped if relation == "add_remove" else set(), steps,
                                    keep=plans, costs=self.costs)
        return tuple(
            NodeRow(type(node).__name__, parameters(node), below,
                    node.count if isinstance(node, Repeat) else 1, amount, epsilon, replaced, size)
            for node, below, (amount, epsilon), (_, replaced), size
            in zip(nodes, self._below, own, other, self._sizes, strict=True))


def parameters(node: Node) -> str:
    """A node's own parameters, without its type."""
    return clean(label(node).partition("(")[2][:-1], 200)


def prices(nodes: Sequence[Node], rule: FilterRule, relation: str,
           swapped: Collection[int] = (), steps: PlanSteps = silent, *, keep: Collection[int] = (),
           costs: dict[int, Cost] | None = None) -> tuple[list[_Price], list[_Price]]:
    """(amount, epsilon) of one run of each node by the ledger's filter; None where unpriced.

    Args:
        swapped: places that are also priced for a replaced record, which is the second list.
        keep: places of which the cost itself is put into `costs`.
    """
    wanted = check_relation(relation)
    units: list[int | None] = []
    others: list[int | None] = []
    # Both at once, while what is below is still in mind.
    for place, node in enumerate(steps("nodes priced", nodes)):
        dear, cost = place < MOST_BY_DISTRIBUTION, _cost(node, wanted, rule)
        if cost is not None and costs is not None and place in keep:
            costs[place] = cost
        units.append(_units(node, cost, rule, dear))
        others.append(_units(node, _replaced(node, cost, rule), rule, dear)
                      if place in swapped else None)
    return _priced(units, rule), _priced(others, rule)


def _priced(units: Sequence[int | None], rule: FilterRule) -> list[_Price]:
    epsilons = _epsilons({one for one in units if one is not None}, rule)
    return [(None, None) if one is None else (from_units(one), epsilons[one]) for one in units]


def _cost(node: Node, relation: Relation, rule: FilterRule) -> Cost | None:
    try:
        return cost_of(node, relation, rule.orders)
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _replaced(node: Node, cost: Cost | None, rule: FilterRule) -> Cost | None:
    """Of a replaced record, which is two steps of the ledger's own relation."""
    try:
        return None if cost is None else replaced_cost(node, cost, rule.orders)
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _units(node: Node, cost: Cost | None, rule: FilterRule, dear: bool) -> int | None:
    if isinstance(node, PostProcess | Public):
        return 0
    try:
        if cost is None or (
                rule.kind == "basic" and not dear and (
                    cost.pure_part is None
                    or cost.pure_part > as_written(rule.budget.epsilon))):
            return None  # only a distribution would tell, and there are too many of them
        return rule.price(cost, rule.budget.delta)[0]
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _epsilons(units: set[int], rule: FilterRule) -> dict[int, float]:
    """Epsilon of every amount. Very many are put into cells, each priced at its dearest amount."""
    if len(units) <= MOST_EXACT:
        return {one: rule.epsilon_of(one) for one in units}
    positive = sorted((one for one in units if one), reverse=True)
    width = max((math.log(positive[0]) - math.log(positive[-1])) / MOST_EXACT, 1e-3)
    found, dearest, epsilon = {0: 0.0}, math.inf, 0.0
    for one in positive:
        if not math.log(one) > dearest - width or dearest == math.inf:
            dearest, epsilon = math.log(one), rule.epsilon_of(one)
        found[one] = epsilon
    return found


def row_values(row: NodeRow) -> list[Any]:
    """A row for the page's JSON; texts are looked up elsewhere."""
    return [[part for pair in row.below for part in pair], row.repeats, short(row.amount),
            short(row.epsilon), short(row.other), row.size]


def short(value: float | None, digits: int = 4) -> float | str | None:
    """Rounded up to `digits` significant digits, so that the page never says too little."""
    if value is None or value == 0:
        return value
    shown = upward(value, digits)
    return shown if math.isinf(value) else float(shown)


MOST_DRAWN = 500
ALIKE = (24, 12, 8, 4)
"""Alike siblings that are drawn by themselves: the most with which everything fits."""
WIDE, HIGH = 190, 26
SHEET, NARROWEST_SHEET = 1.15, 640
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
        rows = max(10, round(SHEET * max(self.width, NARROWEST_SHEET) / HIGH))
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


# Cost as area: the whole spend, by table, learner, mechanisms and grant, row under row.
#
# Widths are charges in the ledger's own whole numbers, which add up; epsilons would not.

WIDTH, ROW = 1000, 26
NARROWEST = 5.0
"""Cells that would be narrower stand together in one."""
_LETTER = 7.2
_LEVELS: tuple[Callable[[ChargeFigures], str], ...] = (
    lambda one: one.table or NOBODY,
    lambda one: one.learner or UNNAMED,
    lambda one: " + ".join(one.mechanisms or ()) or "(nothing is promised)",
    lambda one: one.name,
)


@frozen
class Cell:
    """One rectangle.

    Attributes:
        x, y, width: in the drawing's units, of which the whole spend is `WIDTH` wide.
        title: as much of the name as fits. more: name and share of the budget, whole.
        hue: of the learner, as `hue_of` says; 0 where there are several, or none.
    """

    x: float
    y: int
    width: float
    title: str
    more: str
    hue: int


@frozen
class Icicle:
    """The picture: cells from top to bottom, and what each row is."""

    cells: tuple[Cell, ...] = ()
    rows: tuple[str, ...] = ("spent", "table", "learner", "mechanisms", "grant")

    @property
    def height(self) -> int:
        """Of the drawing."""
        return ROW * len(self.rows)


def icicle(view: View) -> Icicle:
    """What was spent; empty while nothing was."""
    charged = [one for one in view.charges if one.amount.units]
    if not charged:
        return Icicle()
    whole = summed_figures([one.amount for one in charged], view.rule)
    cells = [Cell(0.0, 0, float(WIDTH), *_named("everything that was spent", whole, WIDTH), 0)]
    _below(charged, whole, 0.0, 0, whole, cells)
    return Icicle(tuple(cells))


def _below(charges: Sequence[ChargeFigures], own: Amount, x: float, level: int, whole: Amount,
           cells: list[Cell]) -> None:
    """The cells of one level under one cell, dearest first, the narrow ones together."""
    if level == len(_LEVELS):
        return
    parts: dict[str, list[ChargeFigures]] = {}
    for one in charges:
        parts.setdefault(_LEVELS[level](one), []).append(one)
    sized = sorted(((summed_figures([one.amount for one in part], own.rule), name, part)
                    for name, part in parts.items()),
                   key=lambda each: (-each[0].units, each[2][0].position))
    shown = [each for each in sized if _wide(each[0], whole) >= NARROWEST]
    rest = sized[len(shown):]
    for amount, name, part in shown:
        width = _wide(amount, whole)
        cells.append(Cell(round(x, 2), ROW * (level + 1), round(width, 2),
                          *_named(name, amount, width), _hue(part)))
        _below(part, amount, x, level + 1, whole, cells)
        x += width
    if rest:
        amount = summed_figures([each[0] for each in rest], own.rule)
        name = rest[0][1] if len(rest) == 1 else many(len(rest), "more", "more")
        width = _wide(amount, whole)
        together = [one for each in rest for one in each[2]]
        cells.append(Cell(round(x, 2), ROW * (level + 1), round(width, 2),
                          *_named(name, amount, width), _hue(together)))


def _wide(amount: Amount, whole: Amount) -> float:
    return WIDTH * float(Fraction(amount.units, whole.units))


def _named(name: str, amount: Amount, width: float) -> tuple[str, str]:
    """What fits into a cell, and what it says when asked."""
    said = clean(name, 80)
    room = int((width - 8) / _LETTER)
    whole = said.startswith("grant-")  # a part of its number says nothing
    title = said if len(said) <= room else "" if room < 2 or whole else said[:room - 1] + "…"
    return title, f"{said}: {amount.share.text()} of the budget"


def _hue(part: Iterable[ChargeFigures]) -> int:
    learners = {one.learner for one in part}
    return hue_of(learners.pop()) if len(learners) == 1 else 0
