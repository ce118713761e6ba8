"""Trees whose every test is chosen by an exponential mechanism among the borders of public bins."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.forest import Tree
from privledger_learners.trees.grow import (
    class_counts,
    geometric,
    grow,
    laplace,
    leaf_values,
    levels_of,
    monotone,
)


@frozen(eq=False)
class CountedTrees:
    """DP-RF's: a level counts its nodes, stops those that noise would drown, and splits the rest.

    A tree of depth d has d + 1 equal parts: a level halves its own between counts and choice,
    leaves have the last one whole.

    Attributes:
        number: the target is one; then the score is the squared error, else Gini scaled to
            [0, 1] in each node.
    """

    relation: Relation
    number: bool
    votes: str = "mean"

    def _parts(self, depth: int, epsilon: float) -> tuple[pl.Laplace, pl.Exponential, pl.Laplace]:
        level = geometric(epsilon, depth + 1, 1.0)[0]
        chooser = monotone([level / 2])[0] if self.number else pl.Exponential(level / 2)
        return (laplace(level / 2, self.relation, cells=True), chooser,
                laplace(level, self.relation, cells=True))

    def node(self, depth: int, epsilon: float) -> pl.Node:
        """Counts and choice of every level, then the leaves."""
        counts, chooser, leaves = self._parts(depth, epsilon)
        return pl.Sequential([*([counts, chooser] * depth), leaves])

    def tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins, depth: int,
             epsilon: float, rng: np.random.Generator) -> Tree:
        """Level by level; a stopped node sends all its records on, and is asked again."""
        counts, chooser, leaves = self._parts(depth, epsilon)
        tree = data.root(bins)
        for _ in range(depth):
            sizes = self._sizes(session, data, tree, counts)
            allowed = np.broadcast_to((sizes >= self._least(data, counts))[:, None],
                                      tree.low.shape)
            picked = session.release(chooser, self._choice(data, tree, allowed))
            tree = tree.grow(picked.feature, picked.cut)
        return Tree(tree, leaf_values(session, data, tree, leaves, 0.0))

    def _sizes(self, session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
               mechanism: pl.Laplace) -> np.ndarray:
        """Noisy numbers of records of every node, shape (leaves,)."""
        if not self.number:
            return np.asarray(class_counts(session, data, tree, mechanism).sum(axis=1))
        return np.asarray(session.release(mechanism, data.query(
            (pl.questions.TargetShares(),), tree, "records per node")).sum(axis=1))

    def _least(self, data: pl.Dataset, mechanism: pl.Laplace) -> float:
        """A node of fewer records says less than the noise of what would be counted in it."""
        classes = 2 if self.number else len(data.schema.target.categories)
        return math.sqrt(2) * mechanism.scale * classes

    def _choice(self, data: pl.Dataset, tree: pl.questions.GrownCells,
                allowed: np.ndarray) -> pl.questions.Choice:
        if self.number:
            return data.choose(tree, "squared_error", among="both", allowed=allowed)
        labels = pl.questions.CategoryCells("", len(data.schema.target.categories))
        return data.choose(tree, "gini", among="both", labels=labels, allowed=allowed)


@frozen(eq=False)
class ScoredTrees:
    """DP-DF's and MaxTree's: half for tests, equal parts a level; half for class counts of leaves.

    The score is the squared error of classes, records times Gini: a bounded change for any
    number of records, so no size is needed to scale it.

    Attributes:
        least: a node is cut off where it holds fewer noisy records than so many deviations of
            its noise; 0 keeps all.
    """

    relation: Relation
    least: float
    votes: str = "mean"

    def node(self, depth: int, epsilon: float) -> pl.Node:
        """A choice for every level, then the leaves."""
        return pl.Sequential([*self._choosers(depth, epsilon), self._leaves(epsilon)])

    def _choosers(self, depth: int, epsilon: float) -> tuple[pl.Exponential, ...]:
        return monotone(geometric(epsilon / 2, depth, 1.0))

    def _leaves(self, epsilon: float) -> pl.Laplace:
        return laplace(epsilon / 2, self.relation, cells=True)

    def tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins, depth: int,
             epsilon: float, rng: np.random.Generator) -> Tree:
        """Grow it, ask every leaf, and cut off what noise would drown: for free."""
        labels = pl.questions.CategoryCells("", len(data.schema.target.categories))
        tree = grow(session, data.root(bins), self._choosers(depth, epsilon),
                    lambda cells: data.choose(cells, "squared_error", among="both",
                                              labels=labels))
        noise = self._leaves(epsilon)
        counts = class_counts(session, data, tree, noise)
        return Tree(tree, pruned_shares(counts, math.sqrt(2) * noise.scale, self.least))


def pruned_shares(counts: np.ndarray, noise: float, least: float) -> np.ndarray:
    """Class shares of every leaf; a node of few noisy records says what the node above it says.

    Args:
        counts: noisy, shape (2**depth, classes). noise: standard deviation of each.
        least: fewest records, in deviations of the node's own noise.

    Returns:
        Shares, shape (2**depth, classes), rows adding up to one.
    """
    levels = levels_of(counts)
    shares = np.full((1, counts.shape[1]), 1.0 / counts.shape[1])
    for depth, level in enumerate(levels):
        above = shares if depth == 0 else np.repeat(shares, 2, axis=0)
        held = np.maximum(level, 0.0)
        size = held.sum(axis=1, keepdims=True)
        own = np.divide(held, size, out=above.copy(), where=size > 0)
        few = least * noise * math.sqrt(counts.size / len(level))
        shares = np.where(level.sum(axis=1, keepdims=True) >= few, own, above)
    return np.asarray(shares)
