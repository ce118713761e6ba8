"""What agreement and rank keep of a chunk: sorted keys of few records, tallies of many.

Which of the two it is follows from the records alone, not from how they were divided.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.questions.order_keys import (
    GAP,
    WHOLE_WEIGHT,
    Grid,
    Keys,
    sorted_agreement,
    sorted_pairs,
)

# Agreement and rank of a feature from how much weight has each pair of value and target.  Weight
# is a count of records, or steps of 1 / ONE under unit person (docs/proofs/people.md). Whole
# numbers throughout: what is found is the same however the records were divided.


Ints = NDArray[np.int64]

_SHIFT = 16
_PIECE = (1 << _SHIFT) - 1
_DENSE = 8  # keys of which one is met: sorting takes as long as looking at all of them
_KEPT, _FULL = 12, 8  # bytes of a key that was met beside its weight; of every key's weight


@frozen(eq=False, repr=False)
class KeyTally:
    """Weight by key: of the keys that were met, or of every key where that is shorter.

    Attributes:
        keys: rising and distinct, shape (m,); or every key of the grid, and then empty.
        weights: above zero for each of `keys`; or of every key, shape (grid.size,).
    """

    keys: Keys
    weights: Ints

    @property
    def full(self) -> bool:
        """Whether the weights are of every key."""
        return len(self.weights) > len(self.keys)

    def plus(self, other: KeyTally, grid: Grid) -> KeyTally:
        """Of both together; what stands where follows from the weights alone."""
        if self.full and other.full:
            return KeyTally(self.keys, self.weights + other.weights)
        if self.full or other.full:  # a weight never goes away again
            whole, part = (self, other) if self.full else (other, self)
            weights = whole.weights.copy()
            weights[part.keys] += part.weights
            return KeyTally(whole.keys, weights)
        if (len(self.keys) + len(other.keys)) * _DENSE < grid.size:
            return _met(np.concatenate([self.keys, other.keys]),
                        np.concatenate([self.weights, other.weights]), grid)
        every = np.zeros(grid.size, dtype=np.int64)
        every[self.keys] = self.weights
        every[other.keys] += other.weights
        return _of_all(every, grid)

    def table(self, grid: Grid) -> Ints:
        """Weight by value and target, of the values that were met: shape (values, 2^bits)."""
        if self.full:
            return self.weights.reshape(grid.steps, 1 << grid.bits)
        values = self.keys >> np.uint32(grid.bits)
        place = np.cumsum(values != np.roll(values, 1))  # from 1, or 0 where there is one value
        place -= place[:1].sum()
        found = np.zeros((int(place[-1:].sum()) + 1, 1 << grid.bits), dtype=np.int64)
        found[place, self.keys & np.uint32((1 << grid.bits) - 1)] = self.weights
        return found


def _of_all(every: Ints, grid: Grid) -> KeyTally:
    """Given the weight of every key."""
    held = np.flatnonzero(every != 0).astype(np.uint32)
    if _KEPT * len(held) < _FULL * grid.size:
        return KeyTally(held, every[held])
    return KeyTally(held[:0], every)


def _met(keys: Keys, weights: Ints, grid: Grid) -> KeyTally:
    """The weight of every key among `keys`, which may repeat, in any order."""
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    first = _firsts(keys)
    if len(first) < len(keys):
        keys, weights = keys[first], np.add.reduceat(weights, first)
    held = weights > 0
    return _shortest(keys[held], weights[held], grid)


def _firsts(keys: Keys) -> NDArray[np.intp]:
    """Where each run of equal ones begins."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])


def _shortest(keys: Keys, weights: Ints, grid: Grid) -> KeyTally:
    """Of the keys that were met, each once."""
    if _KEPT * len(keys) < _FULL * grid.size:
        return KeyTally(keys, weights)
    every = np.zeros(grid.size, dtype=np.int64)
    every[keys] = weights
    return KeyTally(keys[:0], every)


def tally_of(keys: Keys, mass: Ints | int, grid: Grid) -> KeyTally:
    """Of one feature's records, less those whose value is missing.

    Args:
        keys: in any order, none missing. mass: what each record weighs, or all of them.
    """
    if isinstance(mass, int) and len(keys) < grid.size:
        keys = np.sort(keys)
        first = _firsts(keys)
        return _shortest(keys[first], np.diff(first, append=len(keys)) * mass, grid)
    if not isinstance(mass, int) and len(keys) * _DENSE < grid.size:
        return _met(keys, mass, grid)
    # Sums of float64 are exact: 2^20 steps of up to 2^32 records.
    assert len(keys) < 1 << 32
    if isinstance(mass, int):
        every = np.bincount(keys, minlength=grid.size) * mass
    else:
        every = np.bincount(keys, weights=mass, minlength=grid.size).astype(np.int64)
    return _of_all(every, grid)


def tallied_agreement(tally: KeyTally, grid: Grid, weights: tuple[int, ...] = ()) -> int:
    """Most weight of records whose target some monotone step function tells.

    Args:
        weights: of classes, which what records weigh is multiplied by; empty for ones.
    """
    table = tally.table(grid)[:, : grid.targets]
    if weights:
        table = table * np.array(weights, dtype=np.int64)
    return max(_climb(table), _climb(table[:, ::-1]))


def _climb(table: Ints) -> int:
    """Most weight that a rising function gets right; see `order_keys.sorted_agreement`."""
    top = table.shape[1] - 1
    if top == 0:
        return int(table.sum())
    best: Ints | None = None
    for c in range(top):
        walk = np.cumsum(table[:, c] - table[:, c + 1])
        if best is not None:
            walk += np.maximum(np.maximum.accumulate(best), 0)
        best = walk
    assert best is not None
    return int(table[:, top].sum()) + max(int(best.max()), 0)


def tallied_pairs(tally: KeyTally, grid: Grid) -> int:
    """Weight of pairs in the order of the target less weight of pairs against it.

    A pair weighs the product of its records' weights; equal values or targets count for nothing.
    """
    table = np.ascontiguousarray(tally.table(grid).T)
    lower = np.zeros(table.shape[1], dtype=np.int64)  # of targets below, by value
    found = 0
    for held in table[: grid.targets]:
        if held.any():
            # Of all that have a lower target: those of lower values have risen, those of higher
            # ones fallen.
            before = np.cumsum(lower)
            found += dot(held, before - lower) - dot(held, before[-1] - before)
            lower += held
    return found


def dot(left: Ints, right: Ints) -> int:
    """Sum of products, exactly; none of them is negative, and each side's sum fits in 64 bits."""
    most = int(left.sum())
    if most * int(right.max(initial=0)) < 1 << 63:
        return int(left @ right)
    if most >= 1 << 47:
        return (dot(left >> _SHIFT, right) << _SHIFT) + dot(left & _PIECE, right)
    total = shift = 0
    while right.any():  # sixteen bits of it at a time: a piece's sum fits in 64
        total += int(left @ (right & _PIECE)) << shift
        right, shift = right >> _SHIFT, shift + _SHIFT
    return total


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
        one: what a person with a single record weighs.
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


def together_counts(a: Ordered | Tallied, b: Ordered | Tallied, grid: Grid) -> Ordered | Tallied:
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
