"""A feature's value and the target as one whole number, on public grids: what order scores read.

A key has the value's step above and the target's below, so sorted keys stand in the order of the
feature. Steps follow from the schema alone, whatever the records and however they are divided.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.tables.schema import Schema

Floats = NDArray[np.float64]
Keys = NDArray[np.uint32]

GAP = 0xFFFFFFFF
"""In the place of a missing value's key: above all of them."""
WHOLE_WEIGHT = 1 << 10
"""What a record of a class counts is in whole parts of it."""
FEW_TARGETS = 64
MOST_TARGETS = 1 << 10
FINE_BITS, COARSE_BITS = 16, 11


@frozen
class Grid:
    """Steps of features and of the target.

    Attributes:
        targets: how many targets are told apart; public.
    """

    targets: int

    @property
    def bits(self) -> int:
        """Of a key, that hold the target."""
        return max(1, (self.targets - 1).bit_length())

    @property
    def steps(self) -> int:
        """Of a feature's public range: 2^16, or 2^11 beside more than 64 targets."""
        return 1 << (FINE_BITS if self.targets <= FEW_TARGETS else COARSE_BITS)

    @property
    def size(self) -> int:
        """Keys that there may be: 2^22 at most."""
        return self.steps << self.bits

    def keys(self, scaled: Floats, targets: Keys) -> Keys:
        """Keys of features whose values were mapped to [0, steps], NaN where missing.

        Args:
            scaled: (features, n_records); overwritten. targets: (n_records,).
        """
        np.clip(scaled, 0.0, self.steps - 1, out=scaled)
        with np.errstate(invalid="ignore"):  # gaps are set by the caller
            found = scaled.astype(np.int32).view(np.uint32)
        found <<= np.uint32(self.bits)
        found |= targets
        return found


def order_grid(schema: Schema) -> Grid:
    """One step per class, as far as there are 2^10; a number has as many."""
    target = schema.target
    return Grid(min(len(target.categories), MOST_TARGETS) if target.kind == "categorical"
                else MOST_TARGETS)


def target_steps(target: NDArray[Any], schema: Schema, grid: Grid) -> Keys:
    """The target's step: of a class its place in the list, of a number that of its public range.

    More classes than steps share them in their order. A missing number counts as the lowest.

    Returns:
        Shape (n_records,), below `grid.targets`.
    """
    column = schema.target
    if column.kind == "categorical":
        places, classes = target.astype(np.int64), len(column.categories)
        if classes > grid.targets:
            places = places * grid.targets // classes
        return places.astype(np.uint32)
    scaled = np.clip((target - column.lower) / (column.upper - column.lower), 0.0, 1.0)
    return np.rint(np.nan_to_num(scaled, nan=0.0) * (grid.targets - 1)).astype(np.uint32)


# Agreement and rank of features whose records' keys stand in order: many features at once.  Each
# says the same as `tallied_agreement` does of the counts of the same keys; here nothing is counted,
# which is several times faster where records are few and features are many.


Ints = NDArray[np.int64]
Labels = NDArray[np.int8]
Walk = NDArray[np.int32]
Weights = NDArray[np.int32] | NDArray[np.int8]

_SHORT = 8  # numbers in a tie that are compared one distance at a time


def sorted_agreement(keys: Keys, grid: Grid, weights: tuple[int, ...] = ()) -> Ints:
    """Most records whose target some monotone step function tells, per row of sorted `keys`.

    f_c(s), the best for the first s records with targets up to c, is the number of c among
    them plus the largest f_(c-1)(r) less the number of c among the first r, r <= s. A function
    says one thing of equal values, so cuts lie between different ones only.

    Args:
        keys: (features, n_records), rising in each row, no gaps.
        weights: what a record of each class counts; empty for one.
    """
    top = grid.targets - 1
    each = _weights(weights, grid.targets)
    if top == 0 or not keys.shape[1]:
        return np.full(len(keys), keys.shape[1] * int(each[0]), dtype=np.int64)
    # Inside of a tie, and who has any.
    inner = np.less(keys[:, 1:] ^ keys[:, :-1], np.uint32(1 << grid.bits))
    tied = np.any(inner, axis=1)
    inner = inner[tied]
    labels = (keys & np.uint32((1 << grid.bits) - 1)).astype(np.int8)
    if top == 1 and not weights:
        return _two_classes(labels, tied, inner)
    return np.maximum(_climb(labels, top, tied, inner, each),
                      _climb(top - labels, top, tied, inner, each[::-1]))


def _weights(weights: tuple[int, ...], targets: int) -> Weights:
    if weights:
        return np.array(weights, dtype=np.int32)
    return np.ones(targets, dtype=np.int8)


def _without(walk: Walk, tied: NDArray[np.bool_], inner: NDArray[np.bool_]) -> None:
    """Nothing is gained by a cut inside of a tie: 0 is what a cut before everything gains."""
    if len(inner) == len(walk):
        walk[:, :-1] *= ~inner
    elif len(inner):
        some = walk[tied]
        some[:, :-1] *= ~inner
        walk[tied] = some


def _two_classes(labels: Labels, tied: NDArray[np.bool_], inner: NDArray[np.bool_]) -> Ints:
    """One cut: ones, plus zeros less ones before it; or the other way round."""
    labels *= np.int8(-2)
    labels += np.int8(1)
    walk = np.cumsum(labels, axis=1, dtype=np.int32)
    ones = (labels.shape[1] - walk[:, -1].astype(np.int64)) // 2
    _without(walk, tied, inner)
    rising = ones + np.maximum(walk.max(axis=1), 0)
    falling = labels.shape[1] - ones + np.maximum(-walk.min(axis=1), 0)
    found: Ints = np.maximum(rising, falling)
    return found


def _climb(labels: Labels, top: int, tied: NDArray[np.bool_], inner: NDArray[np.bool_],
           each: Weights) -> Ints:
    best: Walk | None = None
    for c in range(top):
        step = each[c] * (labels == c) - each[c + 1] * (labels == c + 1)
        walk = np.cumsum(step, axis=1, dtype=np.int32)
        if best is not None:
            np.maximum.accumulate(best, axis=1, out=best)
            np.maximum(best, 0, out=best)  # cuts before the first record
            walk += best
        _without(walk, tied, inner)
        best = walk
    assert best is not None
    last = np.count_nonzero(labels == top, axis=1) * int(each[top])
    found: Ints = last + np.maximum(best.max(axis=1), 0)
    return found


def sorted_pairs(keys: Keys, grid: Grid) -> Ints:
    """Pairs in the order of the target less pairs against it, per row of sorted `keys`; equal
    values or equal targets count for nothing.

    Args:
        keys: (features, n_records), rising in each row, no gaps; the same targets in each.
    """
    if not keys.shape[1]:
        return np.zeros(len(keys), dtype=np.int64)
    # Among equal values the lower target stands first: those pairs were taken for risen ones.
    return risen(keys & np.uint32((1 << grid.bits) - 1)) - _tied_pairs(keys, grid)


def _tied_pairs(keys: Keys, grid: Grid) -> Ints:
    """Pairs of equal value and unequal target in each sorted row."""
    found = np.zeros(len(keys), dtype=np.int64)
    below = np.uint32(1 << grid.bits)
    for apart in range(1, min(_SHORT, keys.shape[1])):
        step = keys[:, apart:] ^ keys[:, :-apart]
        near = step < below
        if not near.any():
            return found
        near &= step > 0
        found += [np.count_nonzero(row) for row in near]  # along an axis it is slower
    values = keys >> np.uint32(grid.bits)
    long = (values[:, _SHORT - 1 :] == values[:, : 1 - _SHORT]).any(axis=1)
    found[long] = _in_runs(values[long]) - _in_runs(keys[long])
    return found


def _in_runs(rows: Keys) -> Ints:
    """Pairs of equal numbers in each sorted row."""
    places = np.arange(rows.shape[1], dtype=np.int32)
    begins = np.zeros(rows.shape, dtype=np.int32)
    begins[:, 1:] = np.where(rows[:, 1:] != rows[:, :-1], places[1:], 0)
    np.maximum.accumulate(begins, axis=1, out=begins)
    found: Ints = int(places.sum(dtype=np.int64)) - begins.sum(axis=1, dtype=np.int64)
    return found


def risen(labels: Keys) -> Ints:
    """Pairs whose labels rise less pairs whose labels fall, per row; every row has the same
    labels in another order.

    One bit of the labels at a time, from the highest: pairs that first differ in it, inside
    groups that agree in the bits above. Records of a group keep their order.
    """
    n = labels.shape[1]
    known = np.unique(labels[0])
    bits = int(len(known) - 1).bit_length()
    if bits == 1:
        ones = (labels == known[1]).astype(np.float64)
        upper = int(ones[0].sum())
        before = (ones @ np.arange(n, dtype=np.float64)).astype(np.int64)
        found: Ints = 2 * before - upper * (upper - 1) - upper * (n - upper)
        return found
    values = np.searchsorted(known, labels).astype(np.uint64)
    total = np.zeros(len(labels), dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        if bit < bits - 1:
            values = _regrouped(values, bit + 1)
        ones_ = (values >> np.uint64(bit) & np.uint64(1)).astype(np.int64)
        group = (values[0] >> np.uint64(bit + 1)).astype(np.int64)
        zeros = np.zeros((len(labels), n + 1), dtype=np.int64)
        np.cumsum(1 - ones_, axis=1, out=zeros[:, 1:])
        ahead = zeros[:, :-1] - zeros[:, np.searchsorted(group, group, side="left")]
        highs = np.bincount(group, weights=ones_[0])
        total += 2 * (ones_ * ahead).sum(axis=1)
        total -= int((highs * (np.bincount(group) - highs)).sum())
    return total


def _regrouped(values: NDArray[np.uint64], bit: int) -> NDArray[np.uint64]:
    """Rows sorted by the bits from `bit` up; equal ones keep their order."""
    shift, low = np.uint64(bit), np.uint64((1 << bit) - 1)
    places = np.arange(values.shape[1], dtype=np.uint64)
    keys = (values >> shift << np.uint64(32) | places) << shift | values & low
    keys.sort(axis=1)
    grouped: NDArray[np.uint64] = keys >> (shift + np.uint64(32)) << shift | keys & low
    return grouped
