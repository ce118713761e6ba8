"""Whole numbers of every leaf and public bin: what a choice of a cut knows of the records.

Counts and integer sums per leaf and bin, for the bins that have records: they add up over chunks
in any order. Whether they are found by sorting or in a table makes no difference to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.questions.blocks import runs, target_of
from privledger.questions.cells import Cells
from privledger.questions.grown import (
    NO_TEST,
    GrownCells,
    matrix_of,
    order_of,
    values_of,
)
from privledger.questions.score import Gradient
from privledger.tables.chunk import ONE, Rows

# What a split score needs of each record, as whole numbers whose sums are exact.


STEPS = 2.0**20
"""Grid of a target or gradient: whole steps of its bound over this, cut towards zero."""


@frozen(eq=False, repr=False)
class Statistics:
    """One of: nothing (counts only), a class code per record, or a number per record.

    Attributes:
        classes: class code of each record, shape (n,), or None.
        n_classes: number of classes, from the schema.
        numbers: whole numbers, each at most `STEPS` away from zero, shape (n,), or None.
        mass: what each record counts, in whole steps; None where each counts one.
    """

    classes: NDArray[Any] | None = None
    n_classes: int = 0
    numbers: NDArray[np.int64] | None = None
    mass: NDArray[np.int64] | None = None

    @property
    def width(self) -> int:
        """Columns of `totals`."""
        return self.n_classes if self.classes is not None else 2

    @property
    def bare(self) -> bool:
        """Nothing but counts of records."""
        return self.classes is None and self.numbers is None and self.mass is None

    def counts(self, table: NDArray[Any]) -> NDArray[Any]:
        """How many records each row of `totals` stands for."""
        return table.sum(axis=1) if self.classes is not None else table[:, 0]

    def totals(self, order: NDArray[Any], at: NDArray[Any]) -> NDArray[np.int64]:
        """Sums over the first `at` records of `order`, shape (len(at), width).

        Classes: counts of each class. Else: how many records, and the sum of their numbers.
        """
        each = None if self.mass is None else self.mass[order]
        counts = at if each is None else _running(each)[at]
        if self.classes is not None:
            ordered = self.classes[order]
            found = np.empty((len(at), self.n_classes), dtype=np.int64)
            for code in range(self.n_classes - 1):
                here = ordered == code
                found[:, code] = _running(here if each is None else here * each)[at]
            found[:, -1] = counts - found[:, :-1].sum(axis=1)
            return found
        if self.numbers is None:
            return np.stack([counts, np.zeros_like(counts)], axis=1)
        return np.stack([counts, _running(self.numbers[order])[at]], axis=1)


def _running(values: NDArray[Any]) -> NDArray[np.int64]:
    """Sums of the first 0, 1, ..., n values."""
    result = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=result[1:])
    return result


def summed(keys: NDArray[np.int64], n_keys: int,
           mass: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """How many records have each key, or what they weigh together: shape (n_keys,)."""
    if mass is None:
        return np.bincount(keys, minlength=n_keys)
    # Whole numbers again: below 2**53 for 2**33 people.
    return np.bincount(keys, weights=mass, minlength=n_keys).astype(np.int64)


def weighed(statistics: Statistics, rows: Rows) -> Statistics:
    """The same of records that weigh what they do under unit person; as they are under unit row.

    A number times a weight is cut towards zero to whole steps again: some other number of the
    same record, no larger, times its weight (docs/proofs/people.md).
    """
    if rows.mass is None:
        return statistics
    numbers = statistics.numbers
    if numbers is not None:
        numbers = np.sign(numbers) * (np.abs(numbers) * rows.mass // ONE)
    return evolve(statistics, numbers=numbers, mass=rows.mass)


def of_labels(labels: Cells, rows: Rows) -> Statistics:
    """One class per cell of `labels`."""
    return Statistics(np.asarray(labels.index(rows)).astype(np.int64), labels.count)


def of_target(rows: Rows) -> Statistics:
    """A numeric target, scaled to [0, 1] by its public bounds, in steps of 1 / STEPS."""
    column = rows.features.schema.target
    scaled = (target_of(rows) - column.lower) / (column.upper - column.lower)
    scaled = np.nan_to_num(np.clip(scaled, 0.0, 1.0), nan=0.0)
    return Statistics(numbers=np.trunc(scaled * STEPS).astype(np.int64))


def of_gradient(gradient: Gradient, rows: Rows) -> tuple[Statistics, NDArray[np.bool_] | None]:
    """Gradients of width one, clipped to [-clip, clip], in steps of clip / STEPS.

    Returns:
        Statistics of the records that take part, and which those are (None for all): records
        beyond the clip of a filtered gradient are not counted either.
    """
    values = gradient.values(rows)
    numbers = np.empty(len(values), dtype=np.int64)
    for at in runs(len(values)):
        scaled = values[at] / gradient.clip
        scaled[np.isnan(scaled)] = 0.0
        np.clip(scaled, -1.0, 1.0, out=scaled)
        scaled *= STEPS
        numbers[at] = np.trunc(scaled, out=scaled)
    inside = gradient.inside(rows)
    return Statistics(numbers=numbers if inside is None else numbers[inside]), inside


_TABLE, _SMALL = 4, 1 << 12  # entries per record of a small table, leaves times bins; its size
_EMPTY = np.zeros(0, dtype=np.int64)
_FEW, _ONE = 1 << 16, 1 << 37  # records whose count and sum fit one number, and what one counts

Ints = NDArray[Any]


@frozen(eq=False, repr=False)
class Runs:
    """Records of equal bin within a leaf, ordered by leaf and bin.

    Attributes:
        node, value: leaf and bin of each run, shape (r,).
        upto: statistics of all records before each run, and of all, shape (r + 1, width).
    """

    node: Ints
    value: Ints
    upto: Ints


@frozen(eq=False, repr=False)
class Tally:
    """Sums over the records of each leaf and bin, for one feature.

    Attributes:
        feature: which; -1 where every leaf asks about a numeric feature of its own.
        keys: leaf * 2^16 + bin, distinct and rising, shape (r,).
        sums: whole numbers, shape (r, width), as `Statistics` has them.
    """

    feature: int
    keys: Ints
    sums: Ints

    @property
    def node(self) -> Ints:
        """Leaf of each row."""
        return self.keys >> 16

    @property
    def value(self) -> Ints:
        """Bin of each row."""
        return self.keys & 0xFFFF

    def running(self) -> Runs:
        """The same as sums of everything before each row."""
        upto = np.zeros((len(self.keys) + 1, self.sums.shape[1]), dtype=np.int64)
        np.cumsum(self.sums, axis=0, out=upto[1:])
        return Runs(self.node, self.value, upto)

    def __add__(self, other: Tally | Tabled) -> Tally | Tabled:
        """Both together."""
        if isinstance(other, Tabled):
            return other + self
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        sums = np.zeros((len(keys), self.sums.shape[1]), dtype=np.int64)
        np.add.at(sums, place, np.concatenate([self.sums, other.sums]))
        return Tally(self.feature, keys, sums)

    def listed(self) -> Tally:
        """As it is."""
        return self


@frozen(eq=False, repr=False)
class Tabled:
    """The same with a place for every bin, empty ones too: shorter where most of them are met.

    Attributes:
        feature: as of a `Tally`.
        table: whole numbers, shape (leaves, width, bins).
        counting: how many columns, from the first, count records: every class, or one.
    """

    feature: int
    table: Ints
    counting: int

    def __add__(self, other: Tally | Tabled) -> Tabled:
        """Both together."""
        if isinstance(other, Tabled):
            return Tabled(self.feature, self.table + other.table, self.counting)
        table = self.table.copy()
        table[other.node, :, other.value] += other.sums  # each leaf and bin is there once
        return Tabled(self.feature, table, self.counting)

    def listed(self) -> Tally:
        """Those leaves and bins that have records."""
        counts = self.table[:, : self.counting].sum(axis=1)
        spots = np.flatnonzero(counts)
        node, value = np.divmod(spots, counts.shape[1])
        return Tally(self.feature, node << 16 | value, self.table[node, :, value])


def side_by_side(group: list[Tally], leaves: int) -> Tally:
    """Several features as one, whose k-th has its leaves after those of the features before."""
    if len(group) == 1:
        return group[0]
    shift = leaves << 16
    keys = np.concatenate([one.keys + place * shift for place, one in enumerate(group)])
    return Tally(group[0].feature, keys, np.concatenate([one.sums for one in group]))


def sorted_tally(feature: int, node: Ints, value: Ints, statistics: Statistics,
                 order: Ints | None) -> Tally:
    """By sorting. `order` sorts the records by bin, where that is known already."""
    if order is None and not statistics.bare:
        order = np.argsort(value, kind="stable")
    if order is None:
        keys = np.sort(node.astype(np.int64) << 16 | value)
        order = _EMPTY
    else:
        # Sorting 16-bit numbers stably takes linear time: least significant digit first.
        order = order[np.argsort(node.astype(np.uint16)[order], kind="stable")]
        keys = node[order].astype(np.int64) << 16 | value[order]
    fresh = np.ones(len(keys), dtype=np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(fresh)
    upto = statistics.totals(order, np.append(starts, len(keys)))
    return Tally(feature, keys[starts], np.diff(upto, axis=0))


@define(eq=False, repr=False)
class _Counter:
    """Counts by a table: one number per record says its place, and each feature adds its bin.

    Attributes:
        node: leaf of each record. statistics: of the same records.
    """

    node: Ints
    leaves: int
    statistics: Statistics
    _base: tuple[int, Ints] | None = field(init=False, default=None)
    _packed: NDArray[np.float64] | None = field(init=False, default=None)

    def _places(self, bins: int) -> Ints:
        """Where each record's first bin is, for features of so many bins."""
        if self._base is None or self._base[0] != bins:
            base = self.node.astype(np.intp)
            if self.statistics.classes is not None:
                base *= self.statistics.n_classes
                base += self.statistics.classes
            base *= bins
            self._base = bins, base
        return self._base[1]

    def tally(self, feature: int, value: Ints, bins: int) -> Tabled:
        """Sums over the records of each leaf and bin."""
        found, width = self.statistics, self.statistics.width
        keys = np.add(self._places(bins), value, dtype=np.intp)
        if found.classes is not None:
            flat = summed(keys, self.leaves * width * bins, found.mass)
            return Tabled(feature, flat.reshape(self.leaves, width, bins), width)
        size = self.leaves * bins
        table = np.zeros((self.leaves, width, bins), dtype=np.int64)
        if found.numbers is None or found.mass is not None or len(keys) >= _FEW:
            table[:, 0] = summed(keys, size, found.mass).reshape(self.leaves, bins)
            if found.numbers is not None:
                # Sums of whole numbers below 2**53 are exact in float64.
                sums = np.bincount(keys, weights=found.numbers, minlength=size)
                table[:, 1] = sums.reshape(self.leaves, bins)
            return Tabled(feature, table, 1)
        # Both in one: of fewer than 2^16 records the numbers add up to less than 2^36, either way.
        if self._packed is None:
            self._packed = (found.numbers + _ONE).astype(np.float64)
        both = np.bincount(keys, self._packed, size).astype(np.int64).reshape(self.leaves, bins)
        table[:, 0] = both + _ONE // 2 >> 37
        table[:, 1] = both - (table[:, 0] << 37)
        return Tabled(feature, table, 1)


def tallies_of(tree: GrownCells, features: Ints | None, allowed: Ints | None, rows: Rows,
               node: Ints, statistics: Statistics) -> Iterator[Tally | Tabled]:
    """One tally per feature that some leaf asks about; every leaf's own numeric one together.

    Args:
        features, allowed: as in `Choice`.
        node: leaf of each record that takes part, shape (n,); `rows` holds these records only.
    """
    counter = _Counter(node, tree.count, statistics)
    if features is not None:
        yield from _own(tree, features, rows, counter)
        return
    for feature in range(len(tree.bins.schema.features)):
        if allowed is None or allowed[:, feature].any():
            yield _one(tree, feature, rows, counter)


def _fits_table(entries: int, records: int) -> bool:
    """Whether a table is quicker than sorting; a larger one has no more entries than records."""
    return entries <= max(records, min(_TABLE * records, _SMALL))


def _one(tree: GrownCells, feature: int, rows: Rows, counter: _Counter) -> Tally | Tabled:
    value, size = matrix_of(tree.bins, rows)[feature], tree.bins.sizes()[feature]
    if tree.bins.unordered()[feature] or _fits_table(tree.count * size, rows.n):
        return counter.tally(feature, value, size)
    return sorted_tally(feature, counter.node, value, counter.statistics,
                        order_of(tree.bins, rows, feature))


def _own(tree: GrownCells, features: Ints, rows: Rows,
         counter: _Counter) -> Iterator[Tally | Tabled]:
    kinds = tree.bins.unordered()
    asked = features != NO_TEST
    numeric = np.unique(features[asked & ~kinds[features]])
    if len(numeric):
        value = values_of(matrix_of(tree.bins, rows), features[counter.node])
        size = max(tree.bins.sizes())
        if _fits_table(tree.count * size, rows.n):
            yield counter.tally(NO_TEST, value, size)
        else:
            yield sorted_tally(NO_TEST, counter.node, value, counter.statistics, None)
    for feature in np.unique(features[asked & kinds[features]]).tolist():
        yield _one(tree, feature, rows, counter)


def possible_categories(tree: GrownCells, feature: int) -> NDArray[np.bool_]:
    """Categories of a feature that every leaf's box leaves open, shape (leaves, categories)."""
    starts = tree.bins.category_starts()
    return tree.open[:, starts[feature] : starts[feature + 1]]
