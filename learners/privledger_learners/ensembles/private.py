"""SPE and SSPE-1: features and labels are both private."""

from __future__ import annotations

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.ensembles.choices import Choices, one_of
from privledger_learners.ensembles.leaves import voting_tree
from privledger_learners.ensembles.medians import toss
from privledger_learners.trees.forest import Forest, Tree
from privledger_learners.trees.grow import laplace

RELATION = "add_remove"


def parts_of(data: pl.Dataset, choices: Choices) -> list[pl.Dataset]:
    """The records of each tree: all of them, or a part by private coins."""
    assert choices.trees is not None
    if not choices.splits:
        return [data] * choices.trees
    parts = data.partition(choices.trees)
    return [parts[place] for place in range(choices.trees)]


def structure(session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins,
              levels: tuple[pl.Exponential, ...], rng: np.random.Generator,
              layered: bool) -> pl.questions.GrownCells:
    """One tree: an attribute per leaf by public coin, its median by the exponential mechanism.

    The range of a median is the public one, narrowed by the cuts released above it.
    """
    tree = data.root(bins)
    for mechanism in levels:
        picked = session.release(mechanism, data.choose(
            tree, "rank", features=toss(tree, rng, layered), what="medians of a level"))
        tree = tree.grow(picked.feature, picked.cut)
    return tree


def labelled_tree(session: pl.Session, data: pl.Dataset, choices: Choices,
                  tree: pl.questions.GrownCells,
                  mechanism: pl.Laplace) -> Tree:
    """Noisy class counts of every leaf, as votes."""
    classes = len(data.schema.target.categories)
    counts = session.release(mechanism, data.query(
        (pl.questions.Ones(),),
        pl.questions.CrossCells(tree, pl.questions.CategoryCells("", classes)),
        "class counts per leaf"))
    return voting_tree(choices, tree, counts.reshape(tree.count, classes), mechanism.scale)


@frozen
class SpeRecipe:
    """Every record has a label: medians, then class counts, on the same records."""

    schema: pl.Schema
    epsilon: float
    choices: Choices

    @property
    def _buys(self) -> bool:
        return not self.choices.known and self.schema.rows_for(RELATION) is None

    @property
    def _count(self) -> pl.Laplace:
        return laplace(self.choices.count * self.epsilon, RELATION, cells=False)

    @property
    def shares(self) -> tuple[float, float]:
        """Epsilon of all medians, and of all leaves."""
        rest = self.epsilon * (1 - 1e-9) * (1 - (self.choices.count if self._buys else 0.0))
        return self.choices.structure * rest, (1 - self.choices.structure) * rest

    def _fitted(self, rows: float) -> Choices:
        return self.choices.fitted(rows, self.epsilon, self.shares[1])

    @property
    def plan(self) -> pl.Node:
        """Row count, then for every tree its levels and its leaves."""
        medians, leaves = self.shares
        rows = self.schema.rows_for(RELATION)
        shapes = self.choices.all_shapes() if rows is None else [self._fitted(rows)]
        trees = one_of([shape.all_trees(pl.Sequential([*shape.levels(medians), shape.leaf(leaves)]))
                        for shape in shapes])
        return pl.Sequential([*([self._count] if self._buys else []), trees])

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """All trees, one after another."""
        rows = float(self.schema.rows_for(RELATION) or 0)
        if self._buys:
            rows = float(session.release(self._count, data.count()))
        shape = self._fitted(rows)
        medians, leaves = self.shares
        levels, noise = shape.levels(medians), shape.leaf(leaves)
        bins = data.bins(shape.numeric_bins)
        trees: list[Tree] = []
        for part in parts_of(data, shape):
            cells = structure(session, part, bins, levels, rng, shape.layered)
            trees.append(labelled_tree(session, part, shape, cells, noise))
        return Forest(tuple(trees), shape.votes)


@frozen
class SemiRecipe:
    """Structure from records without a label, class counts from those with one.

    Attributes:
        linked: whether one person may have a record in both sets; then the two prices add up,
            else the larger counts.
    """

    schema: pl.Schema
    epsilon: float
    choices: Choices
    linked: bool

    @property
    def _buys(self) -> bool:
        return not self.choices.known

    @property
    def _count(self) -> pl.Laplace:
        return laplace(self.choices.count * self._sides[1], RELATION, cells=False)

    @property
    def _sides(self) -> tuple[float, float]:
        """Epsilon of all structures, and of everything that asks labelled records."""
        whole = self.epsilon * (1 - 1e-9)
        if not self.linked:
            return whole, whole
        return self.choices.structure * whole, (1 - self.choices.structure) * whole

    @property
    def shares(self) -> tuple[float, float]:
        """Epsilon of all medians, and of all leaves."""
        medians, labels = self._sides
        return medians, labels * (1 - (self.choices.count if self._buys else 0.0))

    @property
    def plan(self) -> pl.Node:
        """Two parts: a record is in one of them. Linked people are in both: two partitions."""
        medians, leaves = self.shares
        shapes = self.choices.all_shapes()
        trees = one_of([shape.all_trees(pl.Sequential(shape.levels(medians)))
                        for shape in shapes])
        counts = {shape.trees: shape.all_trees(shape.leaf(leaves)) for shape in shapes}
        labelled = pl.Sequential([*([self._count] if self._buys else []),
                                  one_of(list(counts.values()))])
        if not self.linked:
            return pl.Parallel([trees, labelled])
        return pl.Sequential([pl.Parallel([trees, pl.nodes.Public("labelled records: not asked")]),
                              pl.Parallel([pl.nodes.Public("unlabelled records: not asked"),
                                           labelled])])

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """Count the labelled, grow every tree on the unlabelled, ask the labelled for classes."""
        parts = data.partition(pl.questions.LabelledCells())
        others = data.partition(pl.questions.LabelledCells()) if self.linked else parts
        bare, labelled = parts[0], others[1]
        rows = float(session.release(self._count, labelled.count())) if self._buys else 0.0
        medians, leaves = self.shares
        shape = self.choices.fitted(rows, self.epsilon, leaves)
        levels, noise = shape.levels(medians), shape.leaf(leaves)
        bins = data.bins(shape.numeric_bins)
        trees: list[Tree] = []
        for part, known in zip(parts_of(bare, shape), parts_of(labelled, shape), strict=True):
            cells = structure(session, part, bins, levels, rng, shape.layered)
            trees.append(labelled_tree(session, known, shape, cells, noise))
        return Forest(tuple(trees), shape.votes)
