"""SPE, SSPE and PTE, as the paper's Algorithms 2 to 4: what each reserves, beside what it asks.

SPE and SSPE-1 keep features and labels private; in SSPE-2 and PTE features are public, so the
structure is free, and labels alone are private. How a tree is structured: `median_trees`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.ensembles.median_trees import FEW, Choices, public_tree, toss
from privledger_learners.estimator import Relation
from privledger_learners.guarding import among_labelled, labelled
from privledger_learners.published import (
    ensemble_claims,
    label_only_claims,
    spe_claims,
    sspe_claims,
)
from privledger_learners.trees.depth_rule import one_of
from privledger_learners.trees.forest import FLAT, Forest, Tree
from privledger_learners.trees.grow import class_counts, laplace, smoothed_shares

EVERYTHING: Relation = "add_remove"
LABELS: Relation = "replace_label"


def voting_tree(choices: Choices, tree: pl.questions.GrownCells, counts: np.ndarray,
                scale: float) -> Tree:
    """Smoothed class shares, or the noisy counts themselves where smoothing is off.

    Args:
        counts: noisy, shape (leaves, classes).
        scale: of their Laplace noise.
    """
    if not choices.smoothing:
        return Tree(tree, counts)
    return Tree(tree, smoothed_shares(counts, math.sqrt(2) * scale, choices.smoothing))


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
                  tree: pl.questions.GrownCells, mechanism: pl.Laplace) -> Tree:
    """Noisy class counts of every leaf, as votes."""
    counts = class_counts(session, data, tree, mechanism)
    return voting_tree(choices, tree, counts, mechanism.scale)


@frozen
class SpeRecipe:
    """Every record has a label: medians, then class counts, on the same records.

    Attributes:
        least: rows below which leaves say what their root says.
    """

    schema: pl.Schema
    epsilon: float
    choices: Choices
    least: float = 0.0

    @property
    def _buys(self) -> bool:
        return not self.choices.known and self.schema.rows_for(EVERYTHING) is None

    @property
    def _count(self) -> pl.Laplace:
        return laplace(self.choices.count * self.epsilon, EVERYTHING, cells=False)

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
        rows = self.schema.rows_for(EVERYTHING)
        shapes = self.choices.all_shapes() if rows is None else [self._fitted(rows)]
        trees = one_of([shape.all_trees(pl.Sequential([*shape.levels(medians), shape.leaf(leaves)]))
                        for shape in shapes])
        return pl.Sequential([*([self._count] if self._buys else []), trees])

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """All trees, one after another."""
        rows = float(self.schema.rows_for(EVERYTHING) or 0)
        if self._buys:
            rows = float(session.release(self._count, data.count()))
        shape = self._fitted(rows)
        medians, leaves = self.shares
        levels, noise = shape.levels(medians), shape.leaf(leaves)
        bins = data.bins(shape.numeric_bins)
        trees: list[Tree] = []
        said = evolve(shape, smoothing=FLAT) if shape.smoothing and rows < self.least else shape
        for part in parts_of(data, shape):
            cells = structure(session, part, bins, levels, rng, shape.layered)
            trees.append(labelled_tree(session, part, said, cells, noise))
        return Forest(tuple(trees), shape.votes, rows or None)

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one; the last step is the whole."""
        return ensemble_claims("spe", epsilon=self.epsilon, steps=spe_claims(*self.shares),
                               sound=pl.epsilon(self.plan, 0.0, EVERYTHING))


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
        return laplace(self.choices.count * self._sides[1], EVERYTHING, cells=False)

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
        return pl.Sequential([
            pl.Parallel([trees, pl.nodes.Public("labelled records: not asked")]),
            pl.Parallel([pl.nodes.Public("unlabelled records: not asked"), labelled])])

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

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one; the last step is the whole."""
        steps = sspe_claims(*self.shares, epsilon=self.epsilon, linked=self.linked)
        return ensemble_claims("sspe1", epsilon=self.epsilon, steps=steps,
                               sound=pl.epsilon(self.plan, 0.0, EVERYTHING))


@frozen
class PublicRecipe:
    """Median trees on all public features; class counts of the labelled records.

    Attributes:
        second: trees of a second ensemble, on pseudo-labels of every record (PTE); 0 for none.
    """

    schema: pl.Schema
    epsilon: float
    choices: Choices
    second: int = 0

    @property
    def _trees(self) -> Choices:
        # How many trees there are decides the noise, so it must not wait for a row count.
        return evolve(self.choices, trees=self.choices.trees or FEW)

    @property
    def first_trees(self) -> int:
        """Trees that ask for labels."""
        return int(self._trees.trees or 0)

    @property
    def _binary(self) -> bool:
        return len(self.schema.target.categories) == 2

    @property
    def _leaf(self) -> pl.Laplace:
        """Two classes: one count beside public totals. More: a label leaves one, enters another."""
        return self._trees.leaf(self.epsilon, "add_remove" if self._binary else LABELS)

    @property
    def plan(self) -> pl.Node:
        """Noise for every tree's class counts; everything else is free."""
        nodes: list[pl.Node] = [pl.nodes.Public("median trees on public features"),
                                among_labelled(self._trees.all_trees(self._leaf, "index"))]
        if self.second:
            nodes.append(pl.nodes.PostProcess("second ensemble on pseudo-labels"))
        return pl.nodes.LabelOnly(pl.Sequential(nodes))

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """Trees on public features, counts of labels, then pseudo-labels."""
        known = data.public_labelled
        shape = self._trees.fitted(float(known.sum()), self.epsilon,
                                   self.epsilon / self._leaf.l1_sensitivity)
        bins = data.bins(shape.numeric_bins)
        codes = bins.codes(data.public_features)
        places = (rng.integers(self.first_trees, size=len(known)) if shape.splits else None)
        parts = self._parts(data, shape, places)
        trees = []
        for number, part in enumerate(parts):
            cells = public_tree(bins, codes, int(shape.depth or 1), rng, shape.layered)
            mine = known if places is None else known & (places == number)
            totals = np.bincount(cells.assign(codes)[mine], minlength=cells.count)
            trees.append(self._tree(session, part, shape, cells, totals))
        first = Forest(tuple(trees), shape.votes)
        return self._again(first, shape, bins, codes, data, rng) if self.second else first

    def _parts(self, data: pl.Dataset, shape: Choices, places: Any) -> list[pl.Dataset]:
        assert shape.trees is not None
        held = labelled(data)
        if places is None:
            return [held] * shape.trees
        parts = held.partition(pl.questions.IndexCells(places, shape.trees))
        return [parts[number] for number in range(shape.trees)]

    def _tree(self, session: pl.Session, data: pl.Dataset, shape: Choices,
              cells: pl.questions.GrownCells, totals: np.ndarray) -> Tree:
        if self._binary:
            ones = session.release(self._leaf, data.query((pl.questions.ClassIs(1),), cells,
                                                          "records of one class per leaf"))
            ones = ones.reshape(-1)
            counts = np.stack([totals - ones, ones], axis=1)
        else:
            counts = class_counts(session, data, cells, self._leaf)
            # The total is public: what noise added to it is taken away again, for free.
            counts = counts + ((totals - counts.sum(axis=1)) / counts.shape[1])[:, None]
        return voting_tree(shape, cells, counts, self._leaf.scale)

    def _again(self, first: Forest, shape: Choices, bins: pl.questions.Bins,
               codes: tuple[np.ndarray, ...], data: pl.Dataset,
               rng: np.random.Generator) -> Forest:
        """More trees, from the first forest's opinion of the unlabelled records; free."""
        bare = ~data.public_labelled
        chosen = bare if bare.any() else ~bare
        codes = tuple(column[chosen] for column in codes)
        votes = first.values_of(codes)
        guess = np.eye(votes.shape[1])[votes.argmax(axis=1)]
        trees = list(first.trees)
        for _ in range(self.second):
            cells = public_tree(bins, codes, int(shape.depth or 1), rng, shape.layered)
            counts = np.zeros((cells.count, votes.shape[1]))
            np.add.at(counts, cells.assign(codes), guess)
            held = smoothed_shares(counts, 1.0, 1.0) if shape.smoothing else counts
            trees.append(Tree(cells, held))
        return Forest(tuple(trees), shape.votes)

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one; the last step is the whole."""
        return ensemble_claims("pte" if self.second else "sspe2", epsilon=self.epsilon,
                               steps=label_only_claims(self.epsilon, self.first_trees,
                                                       self.second),
                               sound=pl.epsilon(self.plan, 0.0, LABELS))
