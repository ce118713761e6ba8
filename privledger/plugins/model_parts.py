"""This package's own records that a model may hold: how each is written and built again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import asdict, frozen

from privledger.graph import canonical
from privledger.ledger import Receipt
from privledger.ledger.events import Estimate, PrivateScore
from privledger.questions.cells import CategoryCells, IntervalCells
from privledger.questions.grown import GrownCells, Test, TreeCells
from privledger.tables.bins import Bins
from privledger.tables.schema import Schema

Fields = dict[str, Any]
MOST_CELL_BYTES = 1 << 29


@frozen
class Known:
    """How one kind of record is kept.

    Attributes:
        write: its fields. read: the record, by its own constructor, which checks it.
        weight: bytes that it takes beyond what its fields do.
    """

    write: Callable[[Any], Fields]
    read: Callable[[Fields], Any]
    weight: Callable[[Fields], int] = lambda _: 0


def _named(kind: type, *names: str) -> Known:
    return Known(lambda value: {name: getattr(value, name) for name in names},
                 lambda found: kind(**found))


def _schema(found: Fields) -> Schema:
    return Schema.from_dict(json.loads(found["json"]))


def _bins(value: Bins) -> Fields:
    """Without cuts as it always was."""
    names = ("schema", "numeric_bins", "cuts", "grid") if value.cuts else ("schema", "numeric_bins")
    return {name: getattr(value, name) for name in names}


def _boxes(found: Fields) -> int:
    """A level of a tree holds two bins per leaf and feature, and what is open per category."""
    bins, parent = found["bins"], found.get("parent")
    leaves = 1 if parent is None else 2 * int(parent.count)
    columns = bins.schema.features
    return leaves * (8 * len(columns) + sum(len(column.categories) for column in columns))


KNOWN: dict[type, Known] = {
    Schema: Known(lambda value: {"json": canonical(value.to_dict())}, _schema),
    # Without its time, which readers of earlier versions do not know; the file has it besides.
    Receipt: Known(lambda one: asdict(one, filter=lambda at, _: at.name != "time"),
                   lambda found: Receipt(**found)),
    Estimate: _named(Estimate, "name", "value", "noise", "both"),
    PrivateScore: _named(PrivateScore, "estimates", "records", "share", "epsilon"),
    Bins: Known(_bins, lambda found: Bins(**found)),
    Test: _named(Test, "feature", "table"),
    TreeCells: _named(TreeCells, "bins", "tests", "count"),
    GrownCells: Known(lambda value: {name: getattr(value, name)
                                     for name in ("bins", "parent", "feature", "cut")},
                      lambda found: GrownCells(**found), _boxes),
    CategoryCells: _named(CategoryCells, "name", "count"),
    IntervalCells: _named(IntervalCells, "name", "edges"),
}
