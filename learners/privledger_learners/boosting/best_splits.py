"""DPBoost, the algorithm: what is reserved, then what is asked, tree by tree.

Li, Wu, Wen, He, as the baseline of Kirschte et al., "S-GBDT", section V and appendix: every
leaf of a level is cut by an exponential mechanism on the gain. Lines of the paper, deviations
and proofs: docs/papers/dpboost.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import define, evolve, frozen

import privledger as pl
from privledger_learners.boosting.leaf_values import LeafRule
from privledger_learners.boosting.sum_of_trees import (
    Model,
    Priced,
    Shape,
    Start,
    class_prior,
    class_scores,
    mean_estimate,
    scaling,
    score_width,
)
from privledger_learners.estimator import Relation

Noise = pl.Laplace | pl.Gaussian
GAIN_CHANGE = (-1.0, 1 / 3)
"""How a record moves the gain, in units of its sensitivity (docs/proofs/split-scores.md)."""


@frozen
class DpboostRule:
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
        wide: features whose quantiles may be bought; 0 where they never are.
        bins_share: part of the budget for them, where they are bought.
        bought: whether they are.

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
    relation: Relation
    wide: int = 0
    bins_share: float = 0.0
    bought: bool = False

    def epsilon_of(self, share: float, noise: float) -> float:
        """Pure epsilon, or mu, of a release with this share of a budget of 1 / noise."""
        return math.sqrt(share) / noise if self.gaussian else share / noise

    def sums(self, share: float, noise: float, sensitivity: float) -> Noise:
        """A release of sums whose sensitivity is `sensitivity` (L1, under Laplace noise)."""
        strength = self.epsilon_of(share, noise)
        if self.gaussian:
            return pl.Gaussian(1 / strength)
        return pl.Laplace(sensitivity / strength, sensitivity)

    def start_nodes(self, noise: float) -> tuple[Noise, ...]:
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
        rest = 1 - self.start_share - (self.bins_share if self.bought else 0.0)
        return rest * self.parts / shape.trees

    def bins_node(self, noise: float) -> Noise:
        """One feature's histogram: every record is in each of `wide` of them."""
        twice = 1.0 if self.relation == "add_remove" else 2.0
        return self.sums(self.bins_share / self.wide, noise, twice)

    def split_node(self, shape: Shape, noise: float) -> pl.Exponential:
        """The choice of one cut in every leaf of a level."""
        share = self.tree_share(shape) * self.split_share / shape.depth
        bounded = self.epsilon_of(share, noise)
        if self.gaussian:
            bounded *= 2  # bounded range eta costs eta^2 / 8, where mu costs mu^2 / 2
        low, high = GAIN_CHANGE
        return pl.Exponential(bounded * 2 / (high - low), GAIN_CHANGE)

    def leaf_nodes(self, shape: Shape, noise: float, tree: int) -> tuple[Noise, Noise]:
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
        bodies: list[pl.Node] = [self.body(shape, noise) for shape in self.shapes]
        if self.wide:
            bins, buying = pl.Repeat(self.bins_node(noise), self.wide), evolve(self, bought=True)
            bodies += [pl.Sequential([bins, buying.body(shape, noise)]) for shape in self.shapes]
        trees = bodies[0] if len(bodies) == 1 else pl.nodes.OneOf(bodies)
        return pl.Sequential([*self.start_nodes(noise), trees])


@lru_cache(maxsize=64)
def price(rule: DpboostRule, epsilon: float, delta: float) -> Priced[DpboostRule]:
    """Smallest noise for which the rule's plan costs at most epsilon at delta."""
    noise = pl.calibrate(rule.plan, epsilon, delta, rule.relation)
    return Priced(rule, noise, rule.plan(noise))


def deviation(node: Noise, clip: float) -> float:
    """Standard deviation of the noise on a block of sums with this clip."""
    if isinstance(node, pl.Gaussian):
        return float(node.noise_multiplier) * clip
    return math.sqrt(2) * float(node.scale)


def begin(session: pl.Session, data: pl.Dataset, priced: Priced[DpboostRule]) -> Start:
    """Buy and evaluate the initial score; with no share for it, start at the middle."""
    rule, schema = priced.rule, data.schema
    nodes = rule.start_nodes(priced.noise)
    if not nodes:
        rows = float(schema.rows_for(data.ledger.relation) or 1000)
        return Start(np.zeros(score_width(schema)), rows, rule.clip)
    if not rule.regression:
        counts = session.release(nodes[0], data.histogram(schema.target.name))
        prior = class_prior(counts, deviation(nodes[0], 1.0))
        return Start(class_scores(prior), max(float(counts.sum()), 50.0), rule.clip)
    count = session.release(nodes[0], data.count())
    value = pl.questions.ColumnValue("", *scaling(schema))
    total = session.release(nodes[1], data.query((value,), None, "sum of the target"))
    n_hat, mean, _ = mean_estimate(float(count), float(total), deviation(nodes[0], 1.0),
                                   deviation(nodes[1], 1.0))
    return Start(np.array([mean]), max(n_hat, 20.0), rule.clip)


def choose_shape(shapes: tuple[Shape, ...], n_hat: float, noise: float, *,
                 gaussian: bool = False) -> Shape:
    """Trees and depth by released signal over noise; `shapes` go from little to much."""
    if len(shapes) == 1:
        return shapes[0]
    first, step = (6.0, 2.0) if gaussian else (8.4, 1.6)
    level = (math.log2(max(n_hat / noise, 1.0)) - first) / step
    return shapes[int(min(max(round(level), 0), len(shapes) - 1))]


@define(eq=False)
class Rounds:
    """One grant's worth of trees: levels by gain, then noisy leaves.

    Attributes:
        score: of the guarded rows under the model so far. shape: trees and depth that run.
        filtered: records beyond the clip take no part in a tree, instead of being clipped.
        penalty: added to the counts in the gain.
        bound_shrink: factor of the bound on leaf values from tree to tree (1: no such bound).
    """

    session: pl.Session
    priced: Priced[DpboostRule]
    leaves: LeafRule
    model: Model
    shape: Shape
    score: pl.questions.Score
    filtered: bool
    penalty: float
    bound_shrink: float

    def grow(self, data: pl.Dataset) -> Model:
        """All trees: each on all records, or an ensemble after the other on its parts."""
        parts = self.priced.rule.parts
        for number in range(self.shape.trees):
            if parts == 1:
                self.one(data, number, number)
                continue
            if number % parts == 0:
                partition = data.partition(parts)  # fresh coins for every ensemble
            self.one(partition[number % parts], number, number % parts)
        return self.model

    def one(self, data: pl.Dataset, number: int, place: int) -> None:
        """Release one tree and add its values to the model and to the guarded scores.

        Args:
            number: of the tree in the fit; place: within its ensemble.
        """
        clip = self.priced.rule.clip_of(place)
        cells = self._splits(data, number, clip)
        values = self._leaves(data, cells, clip, place)
        self.score.add(cells, values)
        self.model.trees.append((cells, values))

    def _splits(self, data: pl.Dataset, number: int, clip: float) -> pl.questions.GrownCells:
        """The complete tree, level by level."""
        rule, shape, classes = self.priced.rule, self.shape, self.score.width
        # A softmax tree is split for one class, in turn; its leaves serve all.
        coordinate = number % classes if classes > 1 else None
        gradient = self.score.gradient(clip, filtered=self.filtered, coordinate=coordinate)
        node, cells = rule.split_node(shape, self.priced.noise), data.root(self.model.bins)
        for _ in range(shape.depth):
            found = self.session.release(node, data.choose(
                cells, "gain", among="both", gradient=gradient, penalty=self.penalty,
                what="split by gain"))
            cells = cells.grow(found.feature, found.cut)
        return cells

    def _leaves(self, data: pl.Dataset, cells: pl.questions.GrownCells, clip: float,
                place: int) -> np.ndarray:
        """Leaf values from noisy counts and noisy sums of gradients."""
        rule, leaves = self.priced.rule, self.leaves
        nodes = rule.leaf_nodes(self.shape, self.priced.noise, place)
        mass = self.score.hessian(clip if self.filtered else None)
        H = np.atleast_1d(self.session.release(nodes[0], data.query((mass,), cells,
                                                                    "leaf counts")))
        gradient = self.score.gradient(clip, filtered=self.filtered)
        S = self.session.release(nodes[1], data.query((gradient,), cells, "leaf gradients"))
        bound = math.inf
        if self.bound_shrink < 1:
            bound = leaves.rate * (rule.clip_of(0) * self.bound_shrink**place) / leaves.most_mass
        if leaves.ratio:
            values = leaves.divided(leaves.most_mass * H, S, clip / leaves.most_mass)
            return np.asarray(np.clip(values, -bound, bound))
        expected = self.model.start.n_hat / rule.parts / cells.count
        weight = expected**2 / (expected**2 + deviation(nodes[0], 1.0) ** 2)
        held = np.maximum(expected + weight * (H - expected), 0.02 * expected)
        unsure = np.full(len(held), (1 - weight) * expected**2)
        values = leaves.posterior(leaves.most_mass * held, leaves.most_mass**2 * unsure, S,
                                  clip=clip, sd_s=deviation(nodes[1], clip)).values
        return np.asarray(np.clip(values, -bound, bound))
