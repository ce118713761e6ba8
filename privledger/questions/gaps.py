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

from privledger.questions.tallies import Tally

Ints = NDArray[Any]
_NONE = np.zeros((0, 0), dtype=np.int64)


@frozen(eq=False)
class Gaps:
    """Runs of candidates, ordered by leaf.

    Attributes:
        node: leaf, shape (m,).
        feature: which feature.
        first: first cut of the run (or the category).
        length: number of cuts, at least 1.
        left, total: statistics of the records below the cut, and of the leaf, (m, width),
            until the score is known.
        score: shape (m,), once it is known.
    """

    node: Ints
    feature: Ints
    first: Ints
    length: Ints
    left: Ints
    total: Ints
    score: NDArray[np.float64] = field(factory=lambda: np.zeros(0))

    def scored(self, score: NDArray[np.float64]) -> Gaps:
        """With its score, and without the statistics that it came from."""
        return Gaps(self.node, self.feature, self.first, self.length, _NONE, _NONE, score)

    def at(self, places: Ints) -> Gaps:
        """Scored runs at `places`."""
        return Gaps(self.node[places], self.feature[places], self.first[places],
                    self.length[places], _NONE, _NONE, self.score[places])


def numeric_gaps(tally: Tally, low: Ints, high: Ints, feature: Ints) -> Gaps:
    """Runs of candidates of one numeric feature for every leaf.

    Args:
        low, high, feature: box and feature of each leaf, shape (leaves,); high <= low + 1
            leaves no candidate.
    """
    leaves = np.arange(len(low), dtype=np.int32)
    runs = tally.running()
    head = np.searchsorted(runs.node, np.arange(len(low) + 1))
    # Before each run of records lies a gap, and one more behind the last run of a leaf.
    gap_node = np.repeat(leaves, np.diff(head) + 1)
    before = np.arange(len(runs.node)) + runs.node
    last = head[1:] + leaves
    upper = np.empty(len(gap_node), dtype=np.int32)
    lower = np.empty_like(upper)
    upper[before], upper[last] = runs.value, 1 << 20
    lower[before + 1] = runs.value
    lower[head[:-1] + leaves] = -1
    first = np.maximum(lower, low.astype(np.int32)[gap_node]) + np.int32(1)
    length = np.minimum(upper, high.astype(np.int32)[gap_node] - 1) - first + np.int32(1)
    kept = np.flatnonzero(length > 0)
    gap_node, first, length = gap_node[kept], first[kept], length[kept]
    borders = runs.upto[head]
    below = runs.upto[kept - gap_node] - borders[gap_node]
    total = (borders[1:] - borders[:-1])[gap_node]
    return Gaps(gap_node, feature.astype(np.int32)[gap_node], first, length, below, total)


def category_gaps(tally: Tally, possible: Ints, feature: Ints) -> Gaps:
    """One candidate per leaf and possible category: this category against the rest.

    Args:
        possible: shape (leaves, categories), True where the leaf's box has the category.
        feature: of each leaf, shape (leaves,).
    """
    leaves, categories = possible.shape
    table = np.zeros((leaves, categories + 1, tally.sums.shape[1]), dtype=np.int64)
    table[tally.node, tally.value] = tally.sums
    whole = table.sum(axis=1)
    gap_node, first = np.nonzero(possible)
    total = whole[gap_node]
    left = total - table[gap_node, first]
    node, first = gap_node.astype(np.int32), first.astype(np.int32)
    return Gaps(node, feature.astype(np.int32)[gap_node], first, np.ones_like(first), left, total)


def joined(parts: list[Gaps]) -> Gaps:
    """All scored runs, ordered by leaf; within a leaf in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Gaps(nothing, nothing, nothing, nothing, _NONE, _NONE)
    both = [np.concatenate([getattr(part, name) for part in parts])
            for name in ("node", "feature", "first", "length", "score")]
    order = np.argsort(both[0].astype(np.uint16), kind="stable")
    node, feature, first, length, score = (column[order] for column in both)
    return Gaps(node, feature, first, length, _NONE, _NONE, score)
