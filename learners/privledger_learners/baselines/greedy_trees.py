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
    laplace,
    leaf_values,
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
