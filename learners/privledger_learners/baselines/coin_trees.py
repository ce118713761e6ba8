"""Trees that never look at records: a feature and a cut of its box by public coins."""

from __future__ import annotations

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.forest import Tree
from privledger_learners.trees.grow import laplace, leaf_values, some_of, splittable


def coin_tree(tree: pl.questions.GrownCells, depth: int,
              rng: np.random.Generator) -> pl.questions.GrownCells:
    """A complete tree of `depth` tests, each inside the box that the tests above it leave.

    Follows from the schema and public coins: records are not asked, so it costs nothing.
    """
    starts = np.cumsum([0, *(0 if _numeric(column) else len(column.categories)
                             for column in tree.bins.schema.features)])
    for _ in range(depth):
        one = some_of(splittable(tree), 1, rng)
        feature = np.where(one.any(axis=1), one.argmax(axis=1), -1)
        cut = np.zeros(tree.count, dtype=np.int64)
        for place, column in enumerate(tree.bins.schema.features):
            leaves = np.flatnonzero(feature == place)
            if _numeric(column):
                cut[leaves] = rng.integers(tree.low[leaves, place] + 1, tree.high[leaves, place])
            else:
                possible = tree.open[leaves, starts[place]:starts[place + 1]]
                cut[leaves] = some_of(possible, 1, rng).argmax(axis=1)
        tree = tree.grow(feature, cut)
    return tree


def _numeric(column: pl.Column) -> bool:
    """Whether a test of this feature is a border, not one category against the rest."""
    return column.kind == "numeric" or bool(column.ordered)


@frozen(eq=False)
class CoinTrees:
    """Public structure; leaves say a drawn label, or noisy counts (of numbers: sum and count).

    Attributes:
        drawn: one label per leaf by the exponential mechanism on class counts.
        votes: how leaves of several trees add up, as in `Forest`.
    """

    relation: Relation
    drawn: bool = False
    votes: str = "mean"

    def node(self, depth: int, epsilon: float) -> pl.Node:
        """Leaves of one tree are disjoint: one mechanism, whatever the depth."""
        if self.drawn:
            return pl.Exponential(2 * epsilon, (0.0, 1.0))
        return laplace(epsilon, self.relation, cells=True)

    def tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins, depth: int,
             epsilon: float, rng: np.random.Generator) -> Tree:
        """Coins, then one question to every leaf, full or empty."""
        cells, mechanism = coin_tree(data.root(bins), depth, rng), self.node(depth, epsilon)
        if isinstance(mechanism, pl.Laplace):
            return Tree(cells, leaf_values(session, data, cells, mechanism, 0.0))
        classes = pl.questions.CategoryCells("", len(data.schema.target.categories))
        drawn = session.release(mechanism, data.choose_label(cells, classes))
        return Tree(cells, np.asarray(np.eye(classes.count)[drawn]))
