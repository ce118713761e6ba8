"""Candidate cuts of every leaf: runs of neighbouring bins with the same records on each side.

The candidates of a leaf are all cuts strictly inside its box, a public set. Records only
decide which of them share a score, and a run stands for all its cuts: the mechanism over runs,
weighted by their lengths, then a uniform cut of the run, is the mechanism over cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.data.choices.statistics import Statistics

Ints = NDArray[Any]


@frozen(eq=False)
class Gaps:
    """Runs of candidates, ordered by leaf.

    Attributes:
        node: leaf, shape (m,).
        feature: which feature.
        first: first cut of the run (or the category).
        length: number of cuts, at least 1.
        left, total: statistics of the records below the cut, and of the leaf, (m, width).
        score: shape (m,), once it is known.
    """

    node: Ints
    feature: Ints
    first: Ints
    length: Ints
    left: Ints
    total: Ints
    score: NDArray[np.float64] = field(factory=lambda: np.zeros(0))

    def columns(self) -> tuple[Ints, ...]:
        """Every column, in order."""
        return (self.node, self.feature, self.first, self.length, self.left, self.total,
                self.score)


def numeric_gaps(
    node: Ints, value: Ints, low: Ints, high: Ints, feature: Ints, statistics: Statistics,
) -> Gaps:
    """Runs of one numeric feature for every leaf.

    Args:
        node, value: leaf and bin of each record, shape (n,).
        low, high, feature: box and feature of each leaf, shape (leaves,); high <= low + 1
            leaves no candidate.
    """
    leaves = len(low)
    run_node, run_value, sums = _occupied(node, value, int(value.max(initial=0)) + 1, leaves,
                                          statistics)
    runs = np.bincount(run_node, minlength=leaves)
    # Before each run lies a gap, and one more behind the last run of a leaf.
    gap_node = np.repeat(np.arange(leaves), runs + 1)
    before = np.arange(len(run_node)) + run_node
    ends = np.cumsum(runs)
    last = ends + np.arange(leaves)
    upper = np.empty(len(gap_node), dtype=np.int64)
    lower = np.empty_like(upper)
    place = np.empty_like(upper)
    upper[before], upper[last] = run_value, 1 << 20
    lower[before + 1] = run_value
    lower[last - runs] = -1
    place[before], place[last] = np.arange(len(run_node)), ends
    first = np.maximum(lower, low[gap_node]) + 1
    length = np.minimum(upper, high[gap_node] - 1) - first + 1
    kept = length > 0
    gap_node, first, length, place = gap_node[kept], first[kept], length[kept], place[kept]
    borders = sums[np.concatenate([[0], ends])]
    below = sums[place] - borders[gap_node]
    total = (borders[1:] - borders[:-1])[gap_node]
    return Gaps(gap_node, feature[gap_node], first, length, below, total)


def _occupied(
    node: Ints, value: Ints, values: int, leaves: int, statistics: Statistics,
) -> tuple[Ints, Ints, Ints]:
    """Leaf and bin of every run, in order, and sums over the first 0, 1, ... runs.

    By a table of all keys where that is no larger than a few times the records, else by
    sorting: the same runs and the same sums.
    """
    n_keys = leaves * values
    if n_keys <= 4 * len(node) + 1024:
        keys = node.astype(np.int64) * values + value
        table = statistics.per_key(keys, n_keys)
        counts = table[:, 0] if statistics.classes is None else table.sum(axis=1)
        held = np.flatnonzero(counts)
        sums = np.zeros((len(held) + 1, table.shape[1]), dtype=np.int64)
        np.cumsum(table[held], axis=0, out=sums[1:])
        return held // values, held % values, sums
    keys = node.astype(np.int64) << 16 | value
    order = _order(node, value) if _need_order(statistics) else _EMPTY
    keys = keys[order] if len(order) else np.sort(keys)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = statistics.totals(order, np.append(starts, len(keys)))
    return keys[starts] >> 16, keys[starts] & 0xFFFF, sums


def _order(node: Ints, value: Ints) -> Ints:
    """By leaf, then by bin, both below 2**16: two stable sorts of 16 bits take linear time."""
    by_value = np.argsort(value.astype(np.uint16), kind="stable")
    order: Ints = by_value[np.argsort(node.astype(np.uint16)[by_value], kind="stable")]
    return order


_EMPTY = np.zeros(0, dtype=np.int64)


def _need_order(statistics: Statistics) -> bool:
    return statistics.classes is not None or statistics.numbers is not None


def category_gaps(
    node: Ints, value: Ints, possible: Ints, feature: Ints, statistics: Statistics,
) -> Gaps:
    """One candidate per leaf and possible category: this category against the rest.

    Args:
        node, value: leaf and code of each record; a code past the last is a missing one.
        possible: shape (leaves, categories), True where the leaf's box has the category.
        feature: of each leaf, shape (leaves,).
    """
    leaves, categories = possible.shape
    keys = node.astype(np.int64) * (categories + 1) + np.minimum(value, categories)
    table = statistics.per_key(keys, leaves * (categories + 1))
    table = table.reshape(leaves, categories + 1, -1)
    whole = table.sum(axis=1)
    gap_node, first = np.nonzero(possible)
    total = whole[gap_node]
    left = total - table[gap_node, first]
    return Gaps(gap_node, feature[gap_node], first, np.ones_like(first), left, total)


def joined(parts: list[Gaps]) -> Gaps:
    """All runs, ordered by leaf; within a leaf in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Gaps(nothing, nothing, nothing, nothing, nothing[:, None], nothing[:, None])
    both = [np.concatenate(columns) for columns in zip(*(part.columns() for part in parts),
                                                       strict=True)]
    order = np.argsort(both[0].astype(np.uint16), kind="stable")
    return Gaps(*(column[order] for column in both))
