"""How many rows people have: a partition of people, not of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json
from privledger.questions.cells import by_predicate, check_edges, edges_in, to_edges
from privledger.tables.chunk import Rows


@frozen(eq=False)
class RowsPerPersonCells:
    """Cells between public edges of the number of rows that a row's person has, in all.

    All of a person's rows lie in one cell, so a count of each cell counts people.

    Attributes:
        edges: a person with at least `edges[i]` rows, and fewer than the next, is in cell i + 1.
    """

    edges: tuple[float, ...] = field(converter=to_edges)
    by_record: bool = field(default=False, init=False)
    reads_label: bool = field(default=False, init=False)
    has_coins: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        check_edges(self.edges)

    @property
    def count(self) -> int:
        """One cell more than edges."""
        return len(self.edges) + 1

    def certificate(self, public_features: bool) -> str:
        return by_predicate(self.reads_label, public_features)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: there are people."""
        check_people(facts)

    def own(self, to: Copier) -> RowsPerPersonCells:
        return RowsPerPersonCells(self.edges)

    def to_wire(self, to: Describer) -> Json:
        return {"edges": list(self.edges)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> RowsPerPersonCells:
        return cls(edges_in(wire))

    def index(self, rows: Rows) -> NDArray[Any]:
        """As `Cells.index`: by the whole protected table, also in a part of it."""
        people = rows.whole.people
        if people is None or rows.people is None:  # a record each
            return np.searchsorted(self.edges, np.ones(rows.n), side="right")
        return np.searchsorted(self.edges, np.bincount(people)[rows.people], side="right")


def check_people(facts: TableFacts) -> None:
    """Raise `UnsupportedNode` unless the ledger protects people."""
    if facts.unit != "person":
        raise UnsupportedNode("this ledger protects rows and knows no people: create one with "
                              "unit=\"person\". Nothing was read")
