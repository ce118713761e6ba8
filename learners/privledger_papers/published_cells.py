"""Every number that the tables of the five papers print, or that their figures give in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from attrs import field, frozen

PAPERS = {
    "000": "Balance is key: private median splits yield high-utility random trees (2021)",
    "001": "Noise-efficient learning of differentially private partitioning machine ensembles "
           "(2022)",
    "002": "Feature selection from differentially private correlations (2024)",
    "003": "S-GBDT: frugal differentially private gradient boosting decision trees (2024)",
    "004": "Multinomial random forest (2019)",
}
SPREADS = ("half width of a 95 % interval", "standard deviation", "none")
METRICS = {  # whether more of it is better
    "accuracy": True, "accuracy_percent": True, "soft_score_1_minus_mean_abs": True, "r2": True,
    "top_k_accuracy": True, "top": True, "great": True, "good": True,
    "mse_target_scaled_to_unit": False, "test_error_percent": False,
    "mean_rank": False, "mean_nodes": False,
}
ROLES = ("paper", "baseline", "non-private reference", "baseline, not private", "summary")


class UnknownCell(ValueError):
    """Nothing of this name is printed; the message lists what is."""


@frozen
class Cell:
    """One printed number.

    Attributes:
        paper: `000` to `004`. where: table or figure, such as `T1`.
        system, data: by the paper's own names. role: one of `ROLES`.
        epsilon: as printed, in nats; None where nothing is private or none is printed.
        metric: one of `METRICS`. value: in its unit; None for a point of a curve that prints no
            numbers. spread: printed beside it, of `kind`.
        options: further parameters that are printed for this cell.
    """

    paper: str
    where: str
    system: str
    role: str
    data: str
    epsilon: float | None
    metric: str
    value: float | None
    spread: float | None
    kind: str
    options: dict[str, float] = field(factory=dict, hash=False)

    @property
    def table(self) -> str:
        """Paper and table, such as `001.T1`."""
        return f"{self.paper}.{self.where}"

    @property
    def budget(self) -> float:
        """The printed epsilon, of a cell that has one."""
        assert self.epsilon is not None, self.key
        return self.epsilon

    @property
    def key(self) -> str:
        """Its name: table, system, data and epsilon."""
        at = "" if self.epsilon is None else f"@{self.epsilon:g}"
        own = "" if self.value is not None else "".join(
            f",{name}={value:g}" for name, value in sorted(self.options.items())
        ) + f",{self.metric}"
        return f"{self.table}/{self.system}/{self.data}{at}{own}"


def _kind(paper: str, spread: float | None) -> str:
    if spread is None:
        return "none"
    return SPREADS[0] if paper == "000" else SPREADS[1]


@cache
def published() -> tuple[Cell, ...]:
    """All cells, in the order of the papers."""
    text = files("privledger_papers").joinpath("published/cells.jsonl").read_text("utf-8")
    found = []
    for line in text.splitlines():
        one = json.loads(line)
        found.append(Cell(**one, kind=_kind(one["paper"], one["spread"])))
    return tuple(found)


def tables() -> tuple[str, ...]:
    """Names of tables, and of figures with numbers, such as `000.T1`."""
    return tuple(dict.fromkeys(cell.table for cell in published()))


def chosen(names: Iterable[str] = ()) -> tuple[Cell, ...]:
    """Cells of some papers or tables; no name or `all` stands for everything.

    Raises:
        UnknownCell: a name that nothing has.
    """
    wanted = [name for name in names if name != "all"]
    found = published()
    for name in wanted:
        if name not in PAPERS and name not in tables():
            raise UnknownCell(f"{name}: no such paper, table or figure; there are "
                              f"{', '.join(PAPERS)} and {', '.join(tables())}")
    if wanted:
        found = tuple(cell for cell in found if cell.paper in wanted or cell.table in wanted)
    return found


def only(cells: tuple[Cell, ...], what: str, names: Sequence[str]) -> tuple[Cell, ...]:
    """Cells whose `what` (`system` or `data`) is one of `names`; all of them if there is none.

    Raises:
        UnknownCell: a name that no cell has.
    """
    there = sorted({getattr(cell, what) for cell in cells})
    for name in names:
        if name not in there:
            raise UnknownCell(f"{name}: not among these; there are {', '.join(there)}")
    return tuple(cell for cell in cells if not names or getattr(cell, what) in names)
