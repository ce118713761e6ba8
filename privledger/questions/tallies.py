"""Whole numbers of every leaf and public bin: what a choice of a cut knows of the records.

Counts and integer sums per leaf and bin, for the bins that have records: they add up over chunks
in any order. Whether they are found by sorting or in a table makes no difference to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.questions.grown import (
    NO_TEST,
    GrownCells,
    categorical,
    category_starts,
    matrix_of,
    order_of,
)
from privledger.questions.statistics import Statistics
from privledger.tables.chunk import Rows

_TABLE = 4  # a table of leaves times bins is made where it has so many entries per record
_EMPTY = np.zeros(0, dtype=np.int64)

Ints = NDArray[Any]


@frozen(eq=False)
class Runs:
    """Records of equal bin within a leaf, ordered by leaf and bin.

    Attributes:
        node, value: leaf and bin of each run, shape (r,).
        upto: statistics of all records before each run, and of all, shape (r + 1, width).
    """

    node: Ints
    value: Ints
    upto: Ints


@frozen(eq=False)
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

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        sums = np.zeros((len(keys), self.sums.shape[1]), dtype=np.int64)
        np.add.at(sums, place, np.concatenate([self.sums, other.sums]))
        return Tally(self.feature, keys, sums)


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


def counted_tally(feature: int, node: Ints, value: Ints, leaves: int, bins: int,
                  statistics: Statistics) -> Tally:
    """By a table of leaves times bins: faster where that is small."""
    table = statistics.per_key(node.astype(np.int64) * bins + value, leaves * bins)
    spots = np.flatnonzero(statistics.counts(table))
    return Tally(feature, spots // bins << 16 | spots % bins, table[spots])


def tallies_of(tree: GrownCells, features: Ints | None, allowed: Ints | None, rows: Rows,
               node: Ints, statistics: Statistics) -> Iterator[Tally]:
    """One tally per feature that some leaf asks about; every leaf's own numeric one together.

    Args:
        features, allowed: as in `Choice`.
        node: leaf of each record that takes part, shape (n,); `rows` holds these records only.
    """
    if features is not None:
        yield from _own(tree, features, rows, node, statistics)
        return
    for feature in range(len(tree.bins.schema.features)):
        if allowed is None or allowed[:, feature].any():
            yield _one(tree, feature, rows, node, statistics)


def _one(tree: GrownCells, feature: int, rows: Rows, node: Ints, statistics: Statistics) -> Tally:
    value, size = matrix_of(tree.bins, rows)[feature], tree.bins.sizes()[feature]
    if tree.count * size <= _TABLE * rows.n or categorical(tree.bins)[feature]:
        return counted_tally(feature, node, value, tree.count, size, statistics)
    return sorted_tally(feature, node, value, statistics, order_of(tree.bins, rows, feature))


def _own(tree: GrownCells, features: Ints, rows: Rows, node: Ints,
         statistics: Statistics) -> Iterator[Tally]:
    kinds = categorical(tree.bins)
    asked = features != NO_TEST
    if (asked & ~kinds[features]).any():
        value = matrix_of(tree.bins, rows)[features[node], np.arange(len(node))]
        yield sorted_tally(NO_TEST, node, value, statistics, None)
    for feature in np.unique(features[asked & kinds[features]]).tolist():
        yield _one(tree, feature, rows, node, statistics)


def possible_categories(tree: GrownCells, feature: int) -> NDArray[np.bool_]:
    """Categories of a feature that every leaf's box leaves open, shape (leaves, categories)."""
    starts = category_starts(tree.bins)
    return tree.open[:, starts[feature] : starts[feature + 1]]
