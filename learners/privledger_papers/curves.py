"""Figures that print no numbers: curves of our own, from the same fits, drawn with Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from privledger_papers.published_cells import Cell
from privledger_papers.rows import Row

GRID = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
TREES = (1, 2, 5, 10, 20)
OWNERS = (1, 5, 20)
DIPRIME = ("RF", "ERT", "DiPriMe", "DiPriMeExp", "DiPriMeFlip", "DP-ERT")
CLASSES = (*DIPRIME, "DP-RF", "DP-DF")
NOT_PRIVATE = ("RF", "ERT", "non-private GBDT")
MSE, RIGHT = "mse_target_scaled_to_unit", "accuracy"


@frozen
class Figure:
    """A figure of a paper.

    Attributes:
        name: such as `000.F1a`. data: the paper's name of the set. along: what the x axis is,
            `epsilon` or an option; at: its values. epsilon: of all points, where it is not x.
        options: the same at every point. metrics: one curve each.
        always: rows of its paper's tables: an algorithm that no table and no figure measures.
    """

    name: str
    data: str
    along: str
    at: tuple[float, ...]
    systems: tuple[str, ...]
    metrics: tuple[str, ...]
    epsilon: float | None = None
    options: tuple[tuple[str, float], ...] = ()
    always: bool = False

    def cells(self) -> tuple[Cell, ...]:
        """A cell without a printed number for every point; what has no budget is one along it."""
        paper, _, where = self.name.partition(".")
        found = (self._cell(paper, where, system, metric, x)
                 for metric in self.metrics for system in self.systems for x in self.at)
        return tuple({cell.key: cell for cell in found}.values())

    def _cell(self, paper: str, where: str, system: str, metric: str, x: float) -> Cell:
        private = system not in NOT_PRIVATE
        epsilon = x if self.along == "epsilon" else self.epsilon
        options = dict(self.options) | ({} if self.along == "epsilon" else {self.along: x})
        return Cell(paper, where, system, "paper" if private else "non-private reference",
                    self.data, epsilon if private else None, metric, None, None, "none", options)

    def place(self, cell: Cell) -> float | None:
        """Where a cell is on the x axis; None for everywhere."""
        return cell.epsilon if self.along == "epsilon" else float(cell.options[self.along])


def _appliances(letters: str, partitioned: float) -> tuple[Figure, ...]:
    own = (("partitioned", partitioned),)
    a, b, c = (f"000.{letters}{letter}" for letter in "abc")
    return (
        Figure(a, "Appliances", "depth", tuple(range(3, 11)), DIPRIME, (MSE,), 10.0, own),
        Figure(b, "Appliances", "trees", TREES, DIPRIME, (MSE,), 10.0, (*own, ("depth", 8))),
        Figure(c, "Appliances", "epsilon", GRID, DIPRIME, (MSE,), None, (*own, ("depth", 8))))


def _order(where: str, data: str, k: int) -> Figure:
    return Figure(f"002.{where}", data, "epsilon", (*GRID, 20.0), ("DP-SIS", "two-stage"),
                  ("top_k_accuracy", "top", "great", "good"), None, (("k", k),))


FIGURES = {figure.name: figure for figure in (
    *_appliances("F1", 1.0), *_appliances("F5", 0.0),
    Figure("000.F2", "Banknote", "epsilon", GRID, CLASSES, (RIGHT,), None, (("depth", 5),)),
    Figure("000.F6", "Banknote", "epsilon", GRID, CLASSES, (RIGHT,), None,
           (("depth", 5), ("partitioned", 0.0))),
    Figure("000.F7", "Appliances", "rho", (0.1, 0.3, 0.5, 0.7, 0.9), ("DiPriMeExp",), (MSE,), 10.0,
           (("depth", 8),)),
    Figure("000.F8", "Appliances", "rho", (0.1, 0.3, 0.5, 0.7, 0.9), ("DiPriMeFlip",), (MSE,), 10.0,
           (("depth", 8),)),
    Figure("001.F1a", "Syn5d", "epsilon", GRID, ("SPE",), ("accuracy_percent",)),
    Figure("001.F1b", "Syn10d", "epsilon", GRID, ("SPE",), ("accuracy_percent",)),
    Figure("001.F3", "Banknotes", "trees", TREES, ("SPE",), ("accuracy_percent",), 2.0),
    _order("F2", "Christensen", 5), _order("F3", "Sorlie", 5), _order("F6a", "Alon", 5),
    _order("F6b", "Golub", 5), _order("F6c", "Gravier", 5), _order("F6d", "Khan", 5),
    _order("F6e", "Singh", 5),
    Figure("003.F4a", "Abalone", "epsilon", GRID, ("S-GBDT", "DPBoost"), ("r2",)),
    Figure("003.F4b", "Adult", "epsilon", GRID[:5], ("S-GBDT", "DPBoost"),
           ("test_error_percent",)),
    Figure("003.F8", "Abalone", "epsilon", GRID, ("DPBoost", "DPBoost no GDF"), ("r2",)),
    Figure("003.A9a", "Abalone", "owners", OWNERS, ("S-GBDT distributed",), ("r2",), 0.54,
           always=True),
    Figure("003.A9b", "Adult", "owners", OWNERS, ("S-GBDT distributed",),
           ("test_error_percent",), 0.54, always=True),
    *(Figure(f"004.F4{letter}", data, "B1", (0.5, 1.0, 5.0, 10.0, 20.0), ("MRF, single tree",),
             ("accuracy_percent",), None, (("B2", 10.0), ("B3", 10.0)))
      for letter, data in zip("abc", ("Cmc", "Wdbc", "Car"), strict=True)),
)}
"""By name. What a paper draws on sets that are not at hand has no figure here."""


def cells_of(names: Sequence[str], *, drawn: bool = True) -> tuple[Cell, ...]:
    """Points of some figures, of the figures of some papers, or of all.

    Args:
        drawn: else only figures by name, and of a paper what is always among its rows.
    """
    return tuple(cell for figure in FIGURES.values() for cell in figure.cells()
                 if figure.name in names or ((drawn or figure.always)
                                             and ("all" in names or cell.paper in names)))


def draw(found: Sequence[Row], folder: Path) -> list[Path]:
    """One picture for each figure and metric that has points; where they were written."""
    import matplotlib

    matplotlib.use("Agg")
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES.values():
        for metric in figure.metrics:
            own = [row for row in found if row.cell.table == figure.name
                   and row.cell.metric == metric and row.own is not None]
            if own:
                written.append(_picture(figure, metric, own, folder))
    return written


def _picture(figure: Figure, metric: str, own: Sequence[Row], folder: Path) -> Path:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(5, 3.4), layout="constrained")
    axes = canvas.subplots()
    for system in figure.systems:
        points = sorted((place, row.own.mean) for row in own if row.cell.system == system
                        and row.own and (place := figure.place(row.cell)) is not None)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=system)
        elif level := [row.own.mean for row in own if row.cell.system == system and row.own]:
            axes.axhline(level[0], linestyle=":", label=f"{system} (not private)")
    points = sorted({(place, row.default.mean) for row in own if row.default
                     and (place := figure.place(row.cell)) is not None})
    if points:
        axes.plot(*zip(*points, strict=True), color="black", linewidth=2, label="our default")
    if figure.along == "epsilon":
        axes.set_xscale("log")
    axes.set(xlabel=figure.along, ylabel=metric, title=f"{figure.name} {figure.data}")
    axes.legend(fontsize=7)
    path = folder / f"{figure.name}-{metric}.png"
    canvas.savefig(path, dpi=120)
    return path
