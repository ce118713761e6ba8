"""Whose rows they are: a dense number for each person of a table, and what one of its rows weighs.

Under unit person a choice counts a row as 1/m of a record, m the number of rows that its person
has in the whole protected table (docs/proofs/people.md). Weights are whole steps, so that sums of
them are exact in any order; those of one person add up to `ONE` at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue

ONE = 1 << 20
"""Steps that a whole person weighs, and so the row of somebody who has no other."""


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

    A person with more than ONE rows weighs nothing: sound, and nobody has so many.
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
