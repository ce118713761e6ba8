"""Cells of one partition divided by another."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json, refuse
from privledger.questions.cells import Cells, by_predicate, depends_on_label
from privledger.tables.chunk import Rows


@frozen(eq=False)
class CrossCells:
    """Every cell of `first` divided by `second`: cell number first * second.count + second."""

    first: Cells
    second: Cells

    @property
    def count(self) -> int:
        """Cells of both, multiplied."""
        return self.first.count * self.second.count

    @property
    def by_record(self) -> bool:
        """If both are."""
        return self.first.by_record and self.second.by_record

    @property
    def reads_label(self) -> bool:
        """If either does."""
        return depends_on_label(self.first) or depends_on_label(self.second)

    @property
    def has_coins(self) -> bool:
        """If either has."""
        return self.first.has_coins or self.second.has_coins

    @property
    def below(self) -> tuple[Cells, Cells]:
        """What may move on: cells of a running score."""
        return self.first, self.second

    def certificate(self, public_features: bool) -> str:
        return by_predicate(self.reads_label, public_features)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: both fit."""
        self.first.check(facts)
        self.second.check(facts)

    def own(self, to: Copier) -> CrossCells:
        """As `Cells.own`. Cells of cells are crossed once: a deeper nest could have no end."""
        for part in (self.first, self.second):
            if type(part) is CrossCells:
                refuse(part)
        return CrossCells(to.cells(self.first), to.cells(self.second))

    def to_wire(self, to: Describer) -> Json:
        return {"first": to.object(self.first), "second": to.object(self.second)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> CrossCells:
        return cls(reader.cells(wire.get("first")), reader.cells(wire.get("second")))

    def index(self, rows: Rows) -> NDArray[Any]:
        outer = np.asarray(self.first.index(rows), dtype=np.int64)
        inner = np.asarray(self.second.index(rows), dtype=np.int64)
        return outer * self.second.count + inner
