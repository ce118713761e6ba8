"""Median trees of an ensemble: how many and how deep, and which attributes their leaves test.

Everything here follows from parameters, public coins, released cuts, or public features.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.grow import geometric, laplace

Ints = np.ndarray
SETTINGS = ("spe", "sspe1", "sspe2", "pte")
LABEL_SETTINGS = ("sspe2", "pte")
DEEPEST = 14
FEW, MANY = 5, 10  # trees, below and from RECORDS / epsilon records
RECORDS = 20_000.0
LEAF_RECORDS = 12.5
FREE_LEVELS = 3
ENOUGH = 10


@frozen
class Choices:
    """Resolved parameters of one ensemble; what is None follows from a number of records.

    Attributes:
        trees: how many. disjoint: each on a part of its own, else all on the same records.
        depth: of every tree.
        structure: part of epsilon for the medians. count: part for the number of records.
        ratio: of a level's epsilon to that of the level above.
        layered: how attributes are drawn; see `toss`.
        leaf_records: records times epsilon that a leaf should hold.
        smoothing: 0 for none. votes: how leaves of several trees add up.
    """

    trees: int | None
    disjoint: bool
    depth: int | None
    max_depth: int
    structure: float
    count: float
    ratio: float
    layered: bool
    leaf_records: float
    smoothing: float
    votes: str
    numeric_bins: int

    @property
    def known(self) -> bool:
        """Whether no number of records is needed."""
        return self.trees is not None and self.depth is not None

    @property
    def _counts(self) -> tuple[int, ...]:
        # Both are reserved; the released number of records says which is grown.
        return (FEW, MANY) if self.trees is None else (self.trees,)

    def all_shapes(self) -> list[Choices]:
        """Every ensemble that `fitted` may give."""
        depths = range(1, self.max_depth + 1) if self.depth is None else (self.depth,)
        return [evolve(self, trees=trees, depth=depth)
                for trees in self._counts for depth in depths]

    def fitted(self, rows: float, epsilon: float, leaves: float) -> Choices:
        """The ensemble for about so many (labelled) records.

        Args:
            epsilon: of everything. leaves: of the class counts of all trees.
        """
        trees = self.trees or (MANY if rows * epsilon >= RECORDS else FEW)
        reach = max(rows, 1.0) * leaves / self.leaf_records
        depth = round(math.log2(max(reach, 2.0)))
        return evolve(self, trees=trees, depth=self.depth or min(max(depth, 1), self.max_depth))

    @property
    def splits(self) -> bool:
        """Whether there are parts to draw: one tree takes everything."""
        return self.disjoint and self.trees != 1

    def share(self, epsilon: float) -> float:
        """What one tree may spend of what all trees may."""
        assert self.trees is not None
        return epsilon * (1 - 1e-9) / (1 if self.splits else self.trees)

    def levels(self, epsilon: float) -> tuple[pl.Exponential, ...]:
        """One median mechanism per level of one tree, from the epsilon of all trees' levels.

        Geometric: the paper's equation (7) at ratio 3/2.
        """
        assert self.depth is not None
        return tuple(pl.Exponential(part)
                     for part in geometric(self.share(epsilon), self.depth, self.ratio))

    def leaf(self, epsilon: float, relation: Relation = "add_remove") -> pl.Laplace:
        """Noise of the class counts of one tree, from the epsilon of all trees' leaves."""
        return laplace(self.share(epsilon), relation, cells=True)

    def all_trees(self, node: pl.Node,
                  certificate: Literal["iid_per_record", "index"] = "iid_per_record") -> pl.Node:
        """`node` once per tree."""
        assert self.trees is not None
        if self.splits:
            return pl.Parallel([node] * self.trees, certificate)
        return pl.Repeat(node, self.trees)


def open_features(tree: pl.questions.GrownCells) -> np.ndarray:
    """Features that a leaf's box leaves something to split, shape (leaves, features).

    Follows from the schema and from released cuts.
    """
    found = np.zeros((tree.count, len(tree.bins.schema.features)), dtype=bool)
    start = 0
    for place, column in enumerate(tree.bins.schema.features):
        if is_category(column):
            possible = tree.open[:, start : start + len(column.categories)].sum(axis=1)
            start += len(column.categories)
        else:  # the last bin is for missing cells
            possible = tree.high[:, place] - tree.low[:, place] - 1
        found[:, place] = possible + column.missing >= 2
    return found


def is_category(column: pl.Column) -> bool:
    """Whether a test of this feature picks one category against the rest."""
    return column.kind == "categorical" and not column.ordered


def toss(tree: pl.questions.GrownCells, rng: np.random.Generator, layered: bool = True) -> Ints:
    """One attribute per leaf by public coins, among those left to split; -1 where none is.

    Args:
        layered: below FREE_LEVELS one common order of attributes for all leaves of a level,
            those tested least on a leaf's path first; else uniform, leaf by leaf.
    """
    possible = open_features(tree)
    if layered and tree.depth >= FREE_LEVELS:
        keys = _tested(tree) + rng.random((1, possible.shape[1]))
    else:
        keys = rng.random(possible.shape)
    chosen = np.where(possible, keys, np.inf).argmin(axis=1)
    return np.where(possible.any(axis=1), chosen, -1).astype(np.int32)


def _tested(tree: pl.questions.GrownCells) -> np.ndarray:
    """How often each attribute was tested on the way to each leaf, (leaves, features)."""
    if tree.parent is None:
        return np.zeros((1, tree.low.shape[1]))
    found = _tested(tree.parent)
    nodes = np.flatnonzero(tree.feature >= 0)
    found[nodes, tree.feature[nodes]] += 1
    return np.repeat(found, 2, axis=0)


def public_tree(bins: pl.questions.Bins, codes: tuple[Ints, ...], depth: int,
                rng: np.random.Generator, layered: bool = True) -> pl.questions.GrownCells:
    """A median tree on public features: nothing to pay.

    Args:
        codes: bins of every record, one array of shape (n,) per feature.
    """
    tree = pl.questions.GrownCells(bins)
    unordered = np.array([is_category(column) for column in bins.schema.features])
    matrix = np.stack([column.astype(np.int64) for column in codes])
    node, places = np.zeros(matrix.shape[1], dtype=np.int64), np.arange(matrix.shape[1])
    for _ in range(depth):
        feature = toss(tree, rng, layered)
        cut = _medians(tree, feature, matrix, node)
        feature = np.where(cut < 0, -1, feature)
        tree = tree.grow(feature, cut)
        tested, at = feature[node], cut[node]
        value = matrix[tested, places]
        # As the tree itself would, one level at a time.
        right = np.where(unordered[tested], value == at, value >= at) & (tested >= 0)
        node = 2 * node + right
    return tree


def _medians(tree: pl.questions.GrownCells, feature: Ints, codes: Ints, node: Ints) -> Ints:
    """The cut of each leaf that leaves about as many records on either side, or -1.

    Args:
        codes: shape (features, n). node: leaf of each record, shape (n,).
    """
    cut = np.full(tree.count, -1, dtype=np.int64)
    for place, column in enumerate(tree.bins.schema.features):
        leaves = np.flatnonzero(feature == place)
        if not len(leaves):
            continue
        row = np.full(tree.count, -1)
        row[leaves] = np.arange(len(leaves))
        held = row[node] >= 0
        where, value = row[node[held]], codes[place][held]
        if is_category(column):
            cut[leaves] = _category(where, value, len(leaves), len(column.categories))
        else:
            cut[leaves] = _number(where, value, tree.low[leaves, place], tree.high[leaves, place])
    # The paper's stop, sound here: the features that decide it are public.
    cut[np.bincount(node, minlength=tree.count) <= ENOUGH] = -1
    return cut


def _category(where: Ints, value: Ints, leaves: int, categories: int) -> Ints:
    known = value < categories
    counts = np.bincount(where[known] * categories + value[known],
                         minlength=leaves * categories).reshape(leaves, categories)
    total = np.bincount(where, minlength=leaves)
    fit = np.where(counts > 0, np.abs(2 * counts - total[:, None]), 1 << 40)
    return np.where((counts > 0).any(axis=1), fit.argmin(axis=1), -1)


def _number(where: Ints, value: Ints, low: Ints, high: Ints) -> Ints:
    """Halfway between the two values that the better of the two middle cuts separates."""
    if not len(where):
        return np.full(len(low), -1)
    keys = np.sort(where << 17 | value)
    leaves = np.arange(len(low), dtype=np.int64) << 17
    starts, ends = np.searchsorted(keys, leaves), np.searchsorted(keys, leaves + (1 << 17))
    size = ends - starts
    held = keys & ((1 << 17) - 1)
    middle = held[np.minimum(starts + size // 2, len(keys) - 1)]
    left = np.searchsorted(keys, leaves + middle)
    right = np.searchsorted(keys, leaves + middle + 1)
    nearer = size - 2 * (left - starts) <= np.abs(2 * (right - starts) - size)
    at = np.where((left > starts) & nearer, left, right)
    above = np.where(at < ends, held[np.minimum(at, len(keys) - 1)], high - 1)
    below = held[np.maximum(at - 1, 0)]
    found = (below + above + 1) // 2
    return np.where((size > 0) & (low < found) & (found < high), found, -1)
