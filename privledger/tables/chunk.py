"""Rows as the guard reads them: encoded columns, and what was derived from them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.facts.columns import Columns
from privledger.tables.weighing import masses, people_in


@define(eq=False, repr=False)
class Rows:
    """Encoded private columns and what was derived from them. Lives inside the guard.

    Attributes:
        features: encoded features.
        target: float64 or int32, shape (n_records,), or None.
        source: the ledger's noise source, for private coins.
        cache: arrays derived per handle object (bin codes, running scores, samples).
        last: the tree whose cells were computed last, and those cells.
        parent: the table that this one is a part of, and its members' positions there.
        people: place of each row's person in the protected table's own numbering, 0, 1, ...,
            int32, shape (n_records,); None where the unit is the row.
        mass: what each row weighs in a choice, in steps of 1 / ONE, shape (n_records,); found
            once for the whole protected table, and kept by every part of it.
        n_people: how many people the whole protected table has; None where the unit is the row.
    """

    features: Columns
    target: NDArray[Any] | None
    source: Any = None
    cache: WeakKeyDictionary[Any, Any] = field(factory=WeakKeyDictionary)
    last: tuple[object, NDArray[Any]] | None = None
    parent: tuple[Rows, NDArray[Any]] | None = None
    people: NDArray[np.int32] | None = None
    mass: NDArray[np.int64] | None = None
    n_people: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.people is not None and self.mass is None:
            # Of the whole table. In a part a person's rows would weigh too much: a person would
            # count in full in every part that has a row.
            self.n_people = people_in(self.people)
            self.mass = masses(self.people, self.n_people)

    @property
    def n(self) -> int:
        """How many records: private under add_remove."""
        return self.features.n_rows

    @property
    def whole(self) -> Rows:
        """The protected table that this one is a part of, or itself."""
        return self if self.parent is None else self.parent[0].whole

    def positions(self) -> NDArray[np.int64]:
        """Where these records stand in the order given to `protect`, shape (n_records,)."""
        if self.parent is None:
            return np.arange(self.n, dtype=np.int64)
        table, members = self.parent
        found: NDArray[np.int64] = table.positions()[members]
        return found

    def subset(self, members: NDArray[Any]) -> Rows:
        """The records at `members` (positions, in order) as a table of their own."""
        arrays = tuple(array[members] for array in self.features.arrays)
        columns = Columns(self.features.schema, arrays, len(members))
        target = None if self.target is None else self.target[members]
        # Whose rows they are and what they weigh is what it was in the whole table.
        return Rows(columns, target, self.source, parent=(self, members),
                    people=None if self.people is None else self.people[members],
                    mass=None if self.mass is None else self.mass[members],
                    n_people=self.n_people)

    def __repr__(self) -> str:
        return "Rows(private)"
