"""Cost as area: the whole spend, by table, learner, mechanisms and grant, row under row.

Widths are charges in the ledger's own whole numbers, which add up; epsilons would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from attrs import frozen

from privledger.ledger.view import View
from privledger.ledger.view_charges import NOBODY, UNNAMED, ChargeFigures
from privledger.ledger.view_figures import Amount, summed
from privledger.numerals import many
from privledger.reports.colours import hue_of
from privledger.reports.safe_text import clean

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
    whole = summed([one.amount for one in charged], view.rule)
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
    sized = sorted(((summed([one.amount for one in part], own.rule), name, part)
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
        amount = summed([each[0] for each in rest], own.rule)
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
