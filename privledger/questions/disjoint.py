"""Why the parts of a partition are disjoint, and whether a label can decide the part."""

from __future__ import annotations

from privledger.questions.cells import (
    CategoryCells,
    CoinCells,
    CrossCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
)
from privledger.questions.grown import GrownCells
from privledger.questions.tree_cells import TreeCells

_FREE: tuple[type, ...] = (TreeCells, GrownCells, IndexCells, LabelledCells, CoinCells)
_OWN: tuple[type, ...] = (TreeCells, GrownCells, CategoryCells, IntervalCells)


def by_record(cells: object) -> bool:
    """Whether a cell follows from the record alone, wherever it stands and whoever is beside it."""
    if type(cells) is CrossCells:
        return by_record(cells.first) and by_record(cells.second)
    return cells is None or type(cells) in _OWN


def depends_on_label(cells: object) -> bool:
    """Whether a record's cell may change with its label; yes for every unknown kind.

    Whether a record has a label at all is public where only labels are protected.
    """
    if type(cells) in (CategoryCells, IntervalCells):
        return not cells.name  # type: ignore[attr-defined]
    if type(cells) is CrossCells:
        return depends_on_label(cells.first) or depends_on_label(cells.second)
    return cells is not None and type(cells) not in _FREE


def certificate(cells: object, public_features: bool) -> str:
    """`index` also for parts by public features: neighbours have the same records in each.

    No vault comes in here: what cells of a stranger's raise keeps the frames it went through.
    """
    if type(cells) is CoinCells:
        return "iid_per_record"
    if type(cells) is IndexCells or (public_features and not depends_on_label(cells)):
        return "index"
    return "public_predicate"
