"""What agreement and rank keep of a chunk: sorted keys of few records, tallies of many.

Which of the two it is follows from the records alone, not from how they were divided.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.questions.order_keys import GAP, WHOLE_WEIGHT, Grid, Keys
from privledger.questions.sorted_scores import sorted_agreement, sorted_pairs
from privledger.questions.tallied_scores import (
    KeyTally,
    tallied_agreement,
    tallied_pairs,
    tally_of,
)

Floats = NDArray[np.float64]

MOST_SORTED = 1 << 17
"""Records of whom each feature's keys are kept one by one."""
_MOST_BITS = 32  # of the number of records: scores are rounded by less than 2^-20
_CELLS = 1 << 17  # scored at a time: temporaries stay in the processor's cache


@define(eq=False)
class Ordered:
    """Every feature's keys, in order: of at most `MOST_SORTED` records that all weigh the same.

    Attributes:
        keys: shape (features, n_records), rising in each row, `GAP` for missing values.
        one: what each record weighs.
        found: scores, once they are known.
    """

    keys: Keys
    one: int
    found: Floats | None = field(default=None, init=False, repr=False)

    @property
    def total(self) -> int:
        """Weight of all records, also of those whose values are missing."""
        return int(self.keys.shape[1]) * self.one

    def tallied(self, grid: Grid) -> Tallied:
        """The same, counted."""
        return Tallied(tuple(tally_of(_known(row), self.one, grid) for row in self.keys),
                       self.total, self.one)


@define(eq=False)
class Tallied:
    """Every feature's weights by key.

    Attributes:
        tallies: one per feature.
        total: weight of all records, also of those whose values are missing.
        one: what somebody weighs who has a single record.
        found: scores, once they are known.
    """

    tallies: tuple[KeyTally, ...]
    total: int
    one: int
    found: Floats | None = field(default=None, init=False, repr=False)

    def tallied(self, grid: Grid) -> Tallied:
        """Itself."""
        return self


def _known(row: Keys) -> Keys:
    """Of one feature, less missing values."""
    return row[: np.searchsorted(row, np.uint32(GAP))]


def together(a: Ordered | Tallied, b: Ordered | Tallied, grid: Grid) -> Ordered | Tallied:
    """Both chunks' records."""
    if (isinstance(a, Ordered) and isinstance(b, Ordered)
            and a.keys.shape[1] + b.keys.shape[1] <= MOST_SORTED):
        keys = np.concatenate([a.keys, b.keys], axis=1)
        keys.sort(axis=1)
        return Ordered(keys, a.one)
    left, right = a.tallied(grid), b.tallied(grid)
    return Tallied(tuple(one.plus(other, grid) for one, other in zip(
        left.tallies, right.tallies, strict=True)), left.total + right.total, left.one)


def order_scores(score: str, merged: Ordered | Tallied, grid: Grid,
                 gaps: NDArray[np.bool_], weights: tuple[int, ...] = ()) -> Floats:
    """`agreement` or `rank` of every feature, shape (features,).

    Args:
        gaps: which features may have missing values, by the schema.
        weights: what a record of each class counts in `agreement`, in parts of `WHOLE_WEIGHT`.
    """
    if isinstance(merged, Ordered):
        found = _in_order(score, merged.keys, grid, gaps, weights)
        if weights:
            return found / WHOLE_WEIGHT
        return found / (merged.keys.shape[1] or 1) if score == "rank" else found
    one, total = merged.one, merged.total or 1
    assert total < one << _MOST_BITS
    if score == "agreement":
        whole = one * (WHOLE_WEIGHT if weights else 1)
        return np.array([tallied_agreement(each, grid, weights) / whole
                         for each in merged.tallies])
    return np.array([abs(tallied_pairs(each, grid)) / (one * total) for each in merged.tallies])


def _in_order(score: str, keys: Keys, grid: Grid, gaps: NDArray[np.bool_],
              weights: tuple[int, ...]) -> Floats:
    """Agreement, or |rises - falls|, of every row."""
    ask = (partial(sorted_agreement, weights=weights) if score == "agreement" else sorted_pairs)
    found = np.zeros(len(keys))
    width = max(1, _CELLS // max(keys.shape[1], 1))
    for first in range(0, len(keys), width):
        part, holed = keys[first : first + width], gaps[first : first + width]
        inside = found[first : first + width]
        if not holed.all():
            inside[~holed] = ask(part[~holed] if holed.any() else part, grid)
        for place in np.flatnonzero(holed).tolist():
            inside[place] = ask(_known(part[place])[None], grid)[0]
    return np.abs(found)
