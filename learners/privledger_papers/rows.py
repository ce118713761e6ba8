"""A printed cell beside what ran: means, intervals, charges and a status."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

from privledger_papers.forms import Refused
from privledger_papers.protocols import protocol_of
from privledger_papers.published_cells import METRICS, SPREADS, Cell
from privledger_papers.results import Result, Results
from privledger_papers.running import DERIVED, ENOUGH, FAST, named
from privledger_papers.systems import printed, was_sound
from privledger_papers.tasks import MissingData, Table, load

STATUSES = ("reproduced", "uncertain", "differs", "other task", "data missing", "not printed",
            "not run", "refused")
NEAR = 0.03
"""Largest difference that counts as reproduced: of a share or an R2; of the figure itself for a
squared error, three times as much."""
ONE_CLASS = "every fit scores what always answering one class does"


@frozen
class Reached:
    """What some fits reached.

    Attributes:
        mean: of the metric. half: half width of its 95 % t interval; infinite for one fit.
        fits: how many. charge: the largest epsilon that one of them was charged; None if not
            private. learner: what ran. note: how it differs from what is printed.
        one_class: every fit scored what always answering one class does. due: fits that are still
            missing, where one takes under `FAST` seconds.
    """

    mean: float
    half: float
    fits: int
    charge: float | None
    delta: float
    learner: str
    note: str = ""
    one_class: bool = False
    due: int = 0


@frozen
class Row:
    """One cell.

    Attributes:
        own: its system in printed form; default: the learner that is recommended for the task.
        sound: whether the printed price holds, in words. status: one of `STATUSES`.
        why: of the status, where there is more to say.
    """

    cell: Cell
    own: Reached | None
    default: Reached | None
    sound: str
    status: str
    why: str = ""

    @property
    def ahead(self) -> bool | None:
        """Whether our sound default is ahead of a printed private figure; None if none ran."""
        if self.default is None or self.cell.epsilon is None or self.cell.value is None:
            return None
        return better(self.cell.metric, self.default.mean, self.cell.value)


def better(metric: str, one: float, other: float) -> bool:
    """Whether a figure is better than another."""
    return one > other if METRICS[metric] else one < other


def reached(results: Sequence[Result], most: int, *, exact: bool = False) -> Reached | None:
    """Mean and interval of some fits; None of none.

    Args:
        most: fits of the paper's protocol. exact: every fit is the same.
    """
    if not results:
        return None
    scores = [one.score for one in results]
    half = 0.0 if exact else math.inf
    if len(scores) > 1:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(scores) - 1)) * statistics.stdev(scores) / math.sqrt(
            len(scores))
    charges = [one.charge for one in results if one.charge is not None]
    return Reached(statistics.fmean(scores), half, len(scores), max(charges, default=None),
                   results[0].delta, results[0].learner, results[0].note,
                   all(one.one_class for one in results),
                   due=max(min(ENOUGH, most) - len(results), 0)
                   if max(one.seconds for one in results) < FAST else 0)


def near(cell: Cell, own: Reached) -> bool:
    """Whether a printed figure is close, and not outside both intervals."""
    assert cell.value is not None
    off, close = abs(own.mean - cell.value), tolerance(cell)
    beside = (cell.spread or 0.0) if cell.kind == SPREADS[0] else 0.0
    return off <= close and (off <= math.hypot(own.half, beside) or off <= close / 3)


def tolerance(cell: Cell) -> float:
    """How far from its printed figure a mean may be."""
    assert cell.value is not None
    percent = 100 if "percent" in cell.metric else 1
    close = 3 * NEAR * cell.value if cell.metric.startswith("mse") else NEAR * percent
    if cell.metric in ("mean_nodes", "mean_rank"):
        close = 0.1 * cell.value
    return close


def compared(cell: Cell, own: Reached) -> tuple[str, str]:
    """Status of what ran beside what is printed, and why: an interval wider than the tolerance
    reproduces nothing."""
    if not near(cell, own):
        return "differs", own.note
    if own.half > tolerance(cell):
        return "uncertain", own.note or "its interval is wider than the tolerance"
    return "reproduced", own.note


def rows(cells: Iterable[Cell], results: Results, folder: Path | None, seed: int) -> list[Row]:
    """One row a cell. Without a folder what did not run counts as not run."""
    known: dict[tuple[str, str], Table | None] = {}
    found = [_row(cell, results, folder, seed, known) for cell in cells]
    return _with_ranks(found)


def _row(cell: Cell, results: Results, folder: Path | None, seed: int,
         known: dict[tuple[str, str], Table | None]) -> Row:
    protocol = protocol_of(cell)
    most = protocol.repetitions
    exact = cell.metric == "mean_nodes" or (cell.epsilon is None and most == 1)
    own = reached(results.of(named(cell, "printed"), "printed", seed), most, exact=exact)
    default = reached(results.of(named(cell, "default"), "default", seed), most)
    status, why = _status(cell, own, folder, known)
    if own is not None and own.one_class:
        why = "; ".join(filter(None, (why, ONE_CLASS)))
    return Row(cell, own, default, was_sound(cell), status, why)


def _status(cell: Cell, own: Reached | None, folder: Path | None,
            known: dict[tuple[str, str], Table | None]) -> tuple[str, str]:
    from privledger_papers.tasks import SOURCES

    if cell.metric in DERIVED:
        return "not run", "the mean of the ranks below"
    source = SOURCES[cell.paper][cell.data]
    if source.name is None:
        return "data missing", "no public copy is at hand"
    if own is not None:
        if cell.value is None:
            return "not printed", own.note
        if source.other:
            return "other task", source.other
        return compared(cell, own)
    if folder is None:
        return "not run", ""
    where = cell.paper, cell.data
    if where not in known:
        try:
            known[where] = load(cell.paper, cell.data, folder)
        except MissingData:
            known[where] = None
    table = known[where]
    if table is None:
        return "data missing", f"{source.name} is not in the folder"
    form = printed(cell, table)
    return ("refused", form.why) if isinstance(form, Refused) else ("not run", "")


def _with_ranks(found: list[Row]) -> list[Row]:
    """Average ranks follow from the rows of their table."""
    from attrs import evolve

    done = []
    for row in found:
        if row.cell.metric == "mean_rank":
            mean = _mean_rank(row.cell, found)
            if mean is not None:
                own = Reached(mean, math.inf, 1, None, 0.0, "")
                status, _ = compared(row.cell, own)
                row = evolve(row, own=own, status=status, why="of the sets that ran")
        done.append(row)
    return done


def _mean_rank(cell: Cell, found: list[Row]) -> float | None:
    """Of a system, over the sets on which all systems ran."""
    sets: dict[str, dict[str, float]] = {}
    systems = {row.cell.system for row in found if row.cell.metric == "mean_rank"}
    for row in found:
        if row.cell.table == cell.table and row.own and row.cell.metric != "mean_rank":
            sets.setdefault(row.cell.data, {})[row.cell.system] = row.own.mean
    ranks = []
    for scores in sets.values():
        if set(scores) >= systems:
            mine = scores[cell.system]
            ranks.append(1 + sum(one > mine for one in scores.values())
                         + (sum(one == mine for one in scores.values()) - 1) / 2)
    return statistics.fmean(ranks) if ranks else None
