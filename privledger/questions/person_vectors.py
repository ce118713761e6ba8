"""What people say to a query: one vector each, of the same length as one record's would have.

Within a cell a person's rows count as their mean. Over cells and blocks one factor scales the
whole vector, so that ratios of answers stay weighted means. In a part of a partition it counts by
the share of the person's weight that lies there. Proofs: docs/proofs/people.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.questions.sums import square_norms
from privledger.tables.chunk import ONE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_DENSE = 8  # a table of people times cells is made where it has so many entries per row
_ULP = 2.0**-52


@frozen(eq=False)
class BoundRule:
    """How a person's vector is kept short: public, but for what lies in the guard's rows.

    Attributes:
        norm: of the mechanism, 1 or 2.
        relation: the neighbouring relation.
        clips: of every block.
        shares: of a block in the squared norm, of sum one; None for the L1 norm.
        parts: whether the handle is a part of a partition that may divide a person's rows.
    """

    norm: int
    relation: str
    clips: Sequence[float]
    shares: Sequence[float] | None
    parts: bool


@frozen(eq=False, repr=False)
class PersonVectors:
    """One entry for every person and cell that the person has a row in. Inside the guard.

    Attributes:
        who: place of each entry's person, shape (entries,).
        cell: its cell, likewise; None where there are none.
        values: of each block, (entries,) or (entries, width).
        ones: which blocks count one for every row.
        terms: roundings that an entry's person's squared norm may have, shape (entries,).
    """

    who: Ints
    cell: Ints | None
    values: list[Floats]
    ones: tuple[bool, ...]
    terms: Floats

    def of(self, people: NDArray[np.bool_]) -> PersonVectors:
        """Only what some people say, `people` of shape (n_people,)."""
        kept = people[self.who]
        if kept.all():
            return self
        return PersonVectors(self.who[kept], None if self.cell is None else self.cell[kept],
                      [array[kept] for array in self.values], self.ones, self.terms[kept])

    def scaled(self, factor: Floats) -> PersonVectors:
        """Each person's vector times its own factor, shape (n_people,)."""
        each = factor[self.who]
        return evolve(self, values=[_times(array, each) for array in self.values])

    def squares(self, clips: Sequence[float], weights: Sequence[float],
                n_people: int) -> Floats:
        """Sum over blocks and cells of weight * (norm / clip)^2, per person, shape (n_people,).

        Rounded up by as many roundings as it took, where there is more than one cell.
        """
        total, ones = np.zeros(len(self.who)), np.zeros(len(self.who))
        for array, clip, weight, one in zip(self.values, clips, weights, self.ones, strict=True):
            if one:  # last, as where records are added up
                ones += np.square(array) * weight
            else:
                total += weight * square_norms(array, clip)
        total += ones
        total *= 1 + self.terms * _ULP
        return np.bincount(self.who, weights=total, minlength=n_people).astype(np.float64)


def person_vectors(values: Sequence[Floats | None], people: NDArray[np.int32],
                   mass: NDArray[np.int64], n_people: int, cells: Ints | None, n_cells: int,
                   rule: BoundRule) -> PersonVectors:
    """What each person says, from the contributions of the rows that take part.

    Args:
        values: of every block, clipped, (n,) or (n, width); None where every row counts one.
        people, mass: as in `Rows`. cells: cell of each row, or None.
    """
    keys, place = _entries(people, n_people, cells, n_cells,
                           bare=all(array is None for array in values))
    rows = np.bincount(place, minlength=len(keys)) if len(place) else np.ones_like(keys)
    who = keys if cells is None else keys // n_cells
    means = [_mean(array, place, rows, clip, rule.norm)
             for array, clip in zip(values, rule.clips, strict=True)]
    touched = np.bincount(who, minlength=n_people)
    width = sum(1 if array.ndim == 1 else array.shape[1] for array in means)
    terms = np.where(touched > 1, touched * (width + 2) + 8.0, 0.0)
    said = PersonVectors(who, None if cells is None else keys - who * n_cells, means,
                  tuple(array is None for array in values), terms[who])
    factor = _factor(said, touched, terms, n_people, rule)
    if rule.parts:
        # Steps of everything that the person has: in a part they add up to one only for those
        # who have all their rows in it.
        factor *= np.minimum(np.bincount(people, weights=mass, minlength=n_people) / ONE, 1.0)
    return said if (factor == 1.0).all() else said.scaled(factor)


def _entries(people: NDArray[np.int32], n_people: int, cells: Ints | None, n_cells: int,
             bare: bool) -> tuple[Ints, Ints]:
    """Keys (person * n_cells + cell) that occur, rising, and where each row's stands there; the
    latter is left out, of length 0, where nothing of the rows is averaged (`bare`)."""
    keys, size = people.astype(np.int64), n_people
    if cells is not None:
        keys, size = keys * n_cells + cells, n_people * n_cells
    nothing = keys[:0]
    if size > _DENSE * len(keys) + 1024:
        return (np.unique(keys), nothing) if bare else np.unique(keys, return_inverse=True)
    seen = np.zeros(size, dtype=np.bool_)
    seen[keys] = True
    found = np.flatnonzero(seen)
    if bare:
        return found, nothing
    rank = np.empty(size, dtype=np.int32 if len(found) < 2**31 else np.int64)
    rank[found] = np.arange(len(found), dtype=rank.dtype)
    return found, rank[keys].astype(np.int64)


def _mean(values: Floats | None, place: Ints, rows: Ints, clip: float,
          norm: int) -> Floats:
    """Mean of each entry's rows, as long as a row may be; a single row stays as it is."""
    if values is None:
        return np.ones(len(rows))
    columns = [values] if values.ndim == 1 else list(values.T)
    sums = [np.bincount(place, weights=column, minlength=len(rows)) / rows for column in columns]
    if values.ndim == 1:
        held: Floats = np.clip(sums[0], -clip, clip)  # adding up may have rounded it up
        return held
    means = np.stack(sums, axis=1)
    scaled = [column / clip for column in sums]
    size = sum((np.abs(column) if norm == 1 else np.square(column)) for column in scaled)
    size = size if norm == 1 else np.sqrt(size)
    size = np.where(rows > 1, np.maximum(size, 1.0), 1.0)
    shortened: Floats = means / size[:, None]
    return shortened


def _factor(said: PersonVectors, touched: Ints, terms: Floats, n_people: int,
            rule: BoundRule) -> Floats:
    """What each person's vector is multiplied by, shape (n_people,); one where it has one cell."""
    several = touched > 1
    if not several.any():
        return np.ones(n_people)
    if rule.norm == 1:
        long = touched.astype(np.float64)
    elif rule.relation == "replace_label" or rule.shares is None:
        # Both worlds touch the same cells, and may differ in each by the whole bound.
        long = np.sqrt(touched)
    else:
        long = np.maximum(np.sqrt(said.squares(rule.clips, rule.shares, n_people)), 1.0)
    factor: Floats = np.where(several, (1 - terms * _ULP) / np.maximum(long, 1.0), 1.0)
    return factor


def _times(array: Floats, each: Floats) -> Floats:
    return array * each if array.ndim == 1 else array * each[:, None]
