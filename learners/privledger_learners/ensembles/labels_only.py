"""SSPE-2 and PTE: features are public, so the structure is free; labels are private."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.ensembles.choices import FEW, Choices
from privledger_learners.ensembles.leaves import voting_tree
from privledger_learners.ensembles.medians import public_tree
from privledger_learners.trees.forest import Forest, Tree
from privledger_learners.trees.smoothing import smoothed_shares

RELATION = "replace_label"
NOTHING = pl.nodes.Public("records without a label: not asked")


def among_labelled(node: pl.Node) -> pl.Node:
    """`node` on the labelled records: on all, or on that part of a table where some have none.

    Which of the two it is, is public; both cost the same.
    """
    return pl.nodes.OneOf([node, pl.Parallel([NOTHING, node], "index")])


def labelled(data: pl.Dataset) -> pl.Dataset:
    """The handle on the records with a label."""
    return data.partition(pl.questions.LabelledCells())[1] if data.unlabelled else data


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
        return self._trees.leaf(self.epsilon, "add_remove" if self._binary else RELATION)

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
        places = rng.integers(shape.trees, size=len(known)) if shape.splits else None
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
              cells: pl.questions.GrownCells,
              totals: np.ndarray) -> Tree:
        if self._binary:
            ones = session.release(self._leaf, data.query((pl.questions.ClassIs(1),), cells,
                                                          "records of one class per leaf"))
            ones = ones.reshape(-1)
            counts = np.stack([totals - ones, ones], axis=1)
        else:
            classes = len(self.schema.target.categories)
            counts = session.release(self._leaf, data.query(
                (pl.questions.Ones(),),
                pl.questions.CrossCells(cells, pl.questions.CategoryCells("", classes)),
                "class counts per leaf")).reshape(cells.count, classes)
            # The total is public: what noise added to it is taken away again, for free.
            counts = counts + ((totals - counts.sum(axis=1)) / classes)[:, None]
        return voting_tree(shape, cells, counts, self._leaf.scale)

    def _again(self, first: Forest, shape: Choices, bins: pl.questions.Bins,
               codes: tuple[np.ndarray, ...],
               data: pl.Dataset, rng: np.random.Generator) -> Forest:
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
