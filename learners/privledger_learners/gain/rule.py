"""What a DPBoost fit reserves: every release and its noise, from public facts only.

Lines of the paper, deviations and proofs: docs/papers/dpboost.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

from attrs import frozen

import privledger as pl

GAIN_CHANGE = (-1.0, 1 / 3)
"""How a record moves the gain, in units of its sensitivity (docs/proofs/split-scores.md)."""


@frozen
class Shape:
    """How many trees of which depth."""

    trees: int
    depth: int


@frozen
class Rule:
    """Everything that fixes a fit before data exist.

    Attributes:
        shapes: what may run, from little signal to much; the released row estimate decides.
        parts: trees of one ensemble, each on its own part; 1 gives every tree all records.
        start_share: part of the budget for the initial score; 0 starts at the middle.
        split_share: part of a tree's budget for its splits, evenly over levels.
        count_share: part of a tree's leaves for counts.
        clip: gradient clip, on the score's scale.
        shrink: factor of the clip from tree to tree (1 keeps it).
        gaussian: Gaussian noise where sums are released, else Laplace.
        regression: which of the two start releases is used.
        relation: neighbouring relation.

    Shares are of epsilon under Laplace noise, of squared mu under Gaussian noise: that is what
    adds up.
    """

    shapes: tuple[Shape, ...]
    parts: int
    start_share: float
    split_share: float
    count_share: float
    clip: float
    shrink: float
    gaussian: bool
    regression: bool
    relation: str

    def epsilon_of(self, share: float, noise: float) -> float:
        """Pure epsilon, or mu, of a release with this share of a budget of 1 / noise."""
        return math.sqrt(share) / noise if self.gaussian else share / noise

    def sums(self, share: float, noise: float, sensitivity: float) -> pl.Node:
        """A release of sums whose sensitivity is `sensitivity` (L1, under Laplace noise)."""
        strength = self.epsilon_of(share, noise)
        if self.gaussian:
            return pl.Gaussian(1 / strength)
        return pl.Laplace(sensitivity / strength, sensitivity)

    def start_nodes(self, noise: float) -> tuple[pl.Node, ...]:
        """Releases of the initial score: count and sum, or the histogram of classes."""
        share, twice = self.start_share, 1.0 if self.relation == "add_remove" else 2.0
        if share == 0:
            return ()
        if not self.regression:
            return (self.sums(share, noise, twice),)
        return (self.sums(0.25 * share, noise, 1.0), self.sums(0.75 * share, noise, twice))

    def clip_of(self, tree: int) -> float:
        """Gradient clip of tree `tree` of an ensemble, counted from 0."""
        return self.clip * self.shrink**tree

    def tree_share(self, shape: Shape) -> float:
        """Part of the budget that one tree costs: trees on disjoint parts cost it together."""
        return (1 - self.start_share) * self.parts / shape.trees

    def split_node(self, shape: Shape, noise: float) -> pl.Exponential:
        """The choice of one cut in every leaf of a level."""
        share = self.tree_share(shape) * self.split_share / shape.depth
        bounded = self.epsilon_of(share, noise)
        if self.gaussian:
            bounded *= 2  # bounded range eta costs eta^2 / 8, where mu costs mu^2 / 2
        low, high = GAIN_CHANGE
        return pl.Exponential(bounded * 2 / (high - low), GAIN_CHANGE)

    def leaf_nodes(self, shape: Shape, noise: float, tree: int) -> tuple[pl.Node, pl.Node]:
        """The releases of the leaves: counts, and sums of gradients."""
        share = self.tree_share(shape) * (1 - self.split_share)
        twice = 1.0 if self.relation == "add_remove" else 2.0
        return (self.sums(share * self.count_share, noise, twice),
                self.sums(share * (1 - self.count_share), noise, twice * self.clip_of(tree)))

    def tree_node(self, shape: Shape, noise: float, tree: int) -> pl.Node:
        """One tree: its levels, then its leaves."""
        return pl.Sequential([pl.Repeat(self.split_node(shape, noise), shape.depth),
                              *self.leaf_nodes(shape, noise, tree)])

    def body(self, shape: Shape, noise: float) -> pl.Node:
        """All trees of one shape."""
        if self.parts == 1:
            if self.shrink == 1:
                return pl.Repeat(self.tree_node(shape, noise, 0), shape.trees)
            return pl.Sequential([self.tree_node(shape, noise, t) for t in range(shape.trees)])
        ensemble = pl.Parallel([self.tree_node(shape, noise, t) for t in range(self.parts)],
                               "iid_per_record")
        return pl.Repeat(ensemble, shape.trees // self.parts)

    def plan(self, noise: float) -> pl.Node:
        """The composition node of a fit."""
        bodies = [self.body(shape, noise) for shape in self.shapes]
        trees = bodies[0] if len(bodies) == 1 else pl.nodes.OneOf(bodies)
        return pl.Sequential([*self.start_nodes(noise), trees])


@frozen
class Priced:
    """A rule with its noise: what `plan` and `fit` share."""

    rule: Rule
    noise: float
    plan: pl.Node


@lru_cache(maxsize=64)
def price(rule: Rule, epsilon: float, delta: float, relation: str) -> Priced:
    """Smallest noise for which the rule's plan costs at most epsilon at delta."""
    noise = pl.calibrate(rule.plan, epsilon, delta, relation)
    return Priced(rule, noise, rule.plan(noise))
