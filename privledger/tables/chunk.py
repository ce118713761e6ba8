"""Rows as the guard reads them: encoded columns, and what was derived from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, overload
from weakref import WeakKeyDictionary

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.noise.source import Coins, NoiseSource
from privledger.tables.bins import Bins
from privledger.tables.columns import Columns

# Whose rows they are: a dense number for each person of a table, and what one of its rows weighs.
#
# Under unit person a choice counts a row as 1/m of a record, m the number of rows that its person
# has in the whole protected table (docs/proofs/people.md). Weights are whole steps, so that sums of
# them are exact in any order; those of one person add up to `ONE` at most.

ONE = 1 << 20
"""Steps that a whole person weighs, and so the row of a person who has no other."""


def numbered(people: NDArray[np.generic]) -> NDArray[np.int32]:
    """The same people as 0, 1, ... in the order in which they first appear, shape (n_records,).

    With one row per person this is the row's own position: whatever is drawn or kept by person
    then stands where it would stand by row.
    """
    _, first, place = np.unique(people, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return rank[place]


def people_in(people: NDArray[np.int32]) -> int:
    """How many people a whole table has.

    Raises:
        InvalidValue: the numbers are not 0, 1, ... without a gap.
    """
    counts = np.bincount(people) if len(people) and int(people.min()) >= 0 else np.zeros(1)
    if not counts.all() and len(people):
        raise InvalidValue("people", "given", "numbered from 0 without a gap")
    return len(counts) if len(people) else 0


def masses(people: NDArray[np.int32], n_people: int) -> NDArray[np.int64]:
    """What each row of a whole table weighs, in steps of 1 / ONE, cut: shape (n_records,).

    A person with more than ONE rows weighs nothing: sound, and no person has so many.
    """
    rows = np.bincount(people, minlength=n_people)
    each: NDArray[np.int64] = (ONE // np.maximum(rows, 1)).astype(np.int64)
    return each[people]


def in_main_cell(people: NDArray[np.int32], cells: NDArray[np.integer],
                 n_cells: int) -> NDArray[np.bool_]:
    """Which rows lie in the cell where their person has the most, the first of equal ones.

    Args:
        cells: cell of each row, shape (n_records,), below `n_cells`.
    """
    keys, place, rows = np.unique(people.astype(np.int64) * n_cells + cells,
                                  return_inverse=True, return_counts=True)
    # By person, most rows first; of equal ones the first cell.
    order = np.lexsort((keys, -rows, keys // n_cells))
    who = keys[order] // n_cells
    main = np.zeros(len(keys), dtype=np.bool_)
    main[order] = np.diff(who, prepend=-1) > 0
    return main[place]


Array: TypeAlias = NDArray[Any]
"""Codes, values or whole numbers, of one entry per record."""


class Lazily(Sequence[Array]):
    """Columns that are found when they are asked for; the last one is kept."""

    def __init__(self, load: Callable[[int], Array], size: int) -> None:
        self._load, self._size = load, size
        self._last: tuple[int, Array] | None = None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> Array: ...

    @overload
    def __getitem__(self, place: slice) -> list[Array]: ...

    def __getitem__(self, place: int | slice) -> Array | list[Array]:
        if isinstance(place, slice):
            return [self[one] for one in range(self._size)[place]]
        at = range(self._size)[place]
        if self._last is None or self._last[0] != at:
            self._last = at, self._load(at)
        return self._last[1]


class Keep(Protocol):
    """What a chunk keeps between the questions of one table, beside its columns.

    All of it can be computed again, but for what is fixed.
    """

    def coins(self, what: object) -> Coins:
        """Private coins of this chunk for `what`, the same whenever they are asked for."""

    def fixed(self, what: object, make: Callable[[], Array]) -> Array:
        """What `make` gave the first time that it was asked for, whatever moved since.

        Raises:
            DataError: it was there and is lost.
        """

    def matrix(self, bins: Bins, make: Callable[[], Array]) -> Array:
        """Bin codes of every feature, shape (features, n_records)."""

    def scores(self, score: object) -> tuple[int, Array] | None:
        """The running score as it was kept last, and after how many updates."""

    def keep_scores(self, score: object, applied: int, array: Array) -> None:
        """Keep the running score, instead of what was kept."""

    def cells(self, what: object) -> Array | None:
        """Cells of `what`, if it is the tree whose cells were kept last."""

    def keep_cells(self, what: object, array: Array) -> None:
        """Keep the cells of one tree, instead of another's."""


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
        first: place of the first record in the protected table, where this is a chunk of it.
        keep: what a chunk keeps between questions; None where the table is in memory.
    """

    features: Columns
    target: Array | None
    source: NoiseSource | None = None
    cache: WeakKeyDictionary[Any, Any] = field(factory=WeakKeyDictionary)
    last: tuple[object, Array] | None = None
    parent: tuple[Rows, Array] | None = None
    people: NDArray[np.int32] | None = None
    mass: NDArray[np.int64] | None = None
    n_people: int | None = None
    first: int = 0
    keep: Keep | None = None

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

    def coins(self, what: object) -> Coins:
        """Where private coins for `what` come from: drawn once, and kept by the caller."""
        if self.keep is not None:
            return self.keep.coins(what)
        assert self.source is not None
        return self.source.coins

    def recall(self, tree: object) -> Array | None:
        """Cells of a tree, if they were computed last: trees are asked twice in a row, and grow
        level by level."""
        if self.last is not None and self.last[0] is tree:
            return self.last[1]
        return None if self.keep is None else self.keep.cells(tree)

    def remember(self, tree: object, cells: Array) -> Array:
        """Keep the cells of a tree, instead of another's."""
        self.last = tree, cells
        if self.keep is not None:
            self.keep.keep_cells(tree, cells)
        return cells

    def fixed(self, what: object, make: Callable[[Rows], Array]) -> Array:
        """What `make` says of these records now, for as long as it is referred to."""
        return make(self) if self.keep is None else self.keep.fixed(what, lambda: make(self))

    def positions(self) -> NDArray[np.int64]:
        """Where these records stand in the order given to `protect`, shape (n_records,)."""
        if self.parent is None:
            return np.arange(self.first, self.first + self.n, dtype=np.int64)
        table, members = self.parent
        found: NDArray[np.int64] = table.positions()[members]
        return found

    def subset(self, members: Array) -> Rows:
        """The records at `members` (positions, in order) as a table of their own."""
        held = self.features.arrays
        arrays = Lazily(lambda place: held[place][members], len(held))
        columns = Columns(self.features.schema, arrays, len(members), {
            name: key.at(members) for name, key in self.features.keys.items()})
        target = None if self.target is None else self.target[members]
        # Whose rows they are and what they weigh is what it was in the whole table.
        return Rows(columns, target, self.source, parent=(self, members),
                    people=None if self.people is None else self.people[members],
                    mass=None if self.mass is None else self.mass[members],
                    n_people=self.n_people)

    def __repr__(self) -> str:
        return "Rows(private)"
