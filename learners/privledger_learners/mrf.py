"""Multinomial random forests: splits by exponential mechanisms, labels drawn once per leaf.

Li et al., "Multinomial Random Forest: Toward Consistency and Privacy-Preservation". Line by
line: docs/papers/mrf.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_common,
    check_count,
    check_depth,
    check_number,
)
from privledger_learners.published import mrf_claims
from privledger_learners.trees.bin_rule import BinRule, bin_rule
from privledger_learners.trees.depth_rule import DepthRule, Grown, fair_depth, scale_within
from privledger_learners.trees.forest import FLAT, Forest, Tree, TreeClassifier
from privledger_learners.trees.grow import geometric, grow, laplace, leaf_values, monotone

PAPER = "Li et al., Multinomial Random Forest: Toward Consistency and Privacy-Preservation"
JOINT_RATIO = 1.1
COUNT_SHARE = 0.05
STRUCTURE = 0.8
SMOOTHING = 1.0


@frozen
class MultinomialRecipe:
    """A forest of `trees` trees on the same records, each with coins of its own.

    Attributes:
        feature, cut, leaves: pure epsilon of all feature choices of a tree, of all its cuts and
            of its leaves, per unit of `factor`. `joint` has no feature part. Where bins are
            bought each gives its share for them.
        count: of the row count, once, per unit of `factor`; 0 if not bought.
        depth: fixed, or None: from the number of rows.
        rows: a number of rows that may be used: expected, or public under replace_one.
        bins: how finely features are cut.
        least: rows, where a row count is bought, below which leaves say what their root says.
        literal: the budgets are the paper's B1, B2, B3.
    """

    schema: pl.Schema
    relation: Relation
    delta: float
    variant: str
    impurity: str
    labels: str
    halves: bool
    trees: int
    feature: float
    cut: float
    leaves: float
    count: float
    depth: int | None
    max_depth: int
    per_leaf: float
    rows: int | None
    bins: BinRule
    least: float = 0.0
    factor: float = 1.0
    literal: bool = False

    @property
    def plan(self) -> pl.Node:
        """What a fit reserves: the plan at the factor that makes it cost the budget."""
        return self.plan_at(self.factor)

    def plan_at(self, factor: float) -> pl.Node:
        """Row count, then the trees one after another, of one of the possible depths."""
        return pl.Sequential(self._rule(factor).nodes(
            [], lambda form: self._forest(form, factor)))

    def _forest(self, form: Grown, factor: float) -> pl.Node:
        trees = pl.Repeat(self.tree_node(form.depth, self._left(form, factor)), self.trees)
        return (pl.Sequential([self.bins.node(self._grown(factor)), trees]) if form.buys
                else trees)

    def _left(self, form: Grown, factor: float) -> float:
        return factor * (self.bins.left if form.buys else 1.0)

    def _grown(self, factor: float) -> float:
        """Pure epsilon of everything but the row count."""
        return factor * (1.0 - self.count)

    def _rule(self, factor: float) -> DepthRule:
        noise = laplace(factor * self.count, self.relation, cells=False) if self.count else None
        return DepthRule(self.depth, self.rows, self.max_depth,
                         lambda rows: self._depth(rows, factor), noise, self.bins)

    def tree_node(self, depth: int, factor: float) -> pl.Node:
        """One tree: structure and leaves on two parts of the records, or one after another."""
        levels = [node for level in self._levels(depth, factor) for node in level]
        leaf = self._leaf_mechanism(factor)
        if self.halves:
            return pl.Parallel([pl.Sequential(levels), leaf], "iid_per_record")
        return pl.Sequential([*levels, leaf])

    def _levels(self, depth: int, factor: float) -> list[tuple[Any, ...]]:
        if self.variant == "joint":
            total = factor * self.cut * self._more(depth)
            return [(mechanism,) for mechanism in monotone(geometric(total, depth, JOINT_RATIO))]
        spare = factor * self._more(2 * depth) / depth
        level = pl.Exponential(self.feature * spare), pl.Exponential(self.cut * spare)
        return [level] * depth

    def structure_epsilons(self) -> tuple[float, float]:
        """Pure epsilon of all feature choices and of all cuts of one tree, the deepest."""
        depth = self.max_depth if self.depth is None else self.depth
        more = self.factor * self._more(depth if self.variant == "joint" else 2 * depth)
        return more * self.feature, more * self.cut

    def _more(self, choices: int) -> float:
        """With delta above zero costs add up as squares: the choices of one half, taken
        together, then cost what the leaves of the other half cost."""
        return math.sqrt(choices) if self.halves and self.delta and not self.literal else 1.0

    def _leaf_mechanism(self, factor: float) -> Any:
        if self.labels == "counts":
            return laplace(factor * self.leaves, self.relation, cells=True)
        return pl.Exponential(2 * factor * self.leaves, (0.0, 1.0))

    def _depth(self, rows: float, factor: float) -> int:
        return fair_depth(rows / 2 if self.halves else rows, factor * self.leaves, self.per_leaf,
                          self.max_depth)

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """Trees one after another; structure and leaves by a fresh coin per record and tree."""
        rule = self._rule(self.factor)
        rows = rule.known_rows(session, data)
        form = rule.form(rows)
        bins = self.bins.chosen(session, data, rows, self._grown(self.factor))
        smoothing = FLAT if rows is not None and rows < self.least else SMOOTHING
        return Forest(tuple(self._tree(session, data, bins, form, smoothing)
                            for _ in range(self.trees)), rows=rows)

    def _tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins,
              form: Grown, smoothing: float) -> Tree:
        structure = estimation = data
        if self.halves:
            parts = data.partition(2)
            structure, estimation = parts[0], parts[1]
        classes = pl.questions.CategoryCells("", len(self.schema.target.categories))
        left = self._left(form, self.factor)
        levels = self._levels(form.depth, left)
        if self.variant == "joint":
            tree = grow(session, structure.root(bins), [level[0] for level in levels],
                        lambda cells: structure.choose(cells, "squared_error", among="both",
                                                       labels=classes))
        else:
            tree = structure.root(bins)
            for by_feature, by_cut in levels:
                found = session.release(by_feature, structure.choose(
                    tree, self.impurity, among="features", labels=classes))
                picked = session.release(by_cut, structure.choose(
                    tree, self.impurity, features=found.feature, labels=classes))
                tree = tree.grow(picked.feature, picked.cut)
        values = self._leaf_values(session, estimation, tree, classes, left,
                                   smoothing)
        return Tree(tree, values)

    def _leaf_values(self, session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
                     classes: pl.questions.CategoryCells, factor: float,
                     smoothing: float) -> np.ndarray:
        mechanism = self._leaf_mechanism(factor)
        if self.labels == "counts":
            return leaf_values(session, data, tree, mechanism, smoothing)
        drawn = session.release(mechanism, data.choose_label(tree, classes))
        return np.asarray(np.eye(classes.count)[drawn])

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the cost of its own steps and of what runs here."""
        feature, cut = self.structure_epsilons()
        return mrf_claims(
            feature=feature, cut=cut, leaves=self.factor * self.leaves, trees=self.trees,
            halves=self.halves, multinomial=self.variant == "multinomial", delta=self.delta,
            sound=pl.epsilon(self.plan, self.delta, self.relation))


class MultinomialForestClassifier(TreeClassifier):
    """A forest whose splits and labels are drawn by exponential mechanisms.

    Args:
        epsilon, delta: what one `fit`, the whole forest, may cost, in nats and as a
            probability. With delta above zero the trees are composed by the ledger's accountants.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `multinomial`: the paper's two draws per split, feature and then cut, by
            impurity falls scaled to [0, 1]. `joint`: one draw of both by squared errors, which
            costs half per unit of score and does not forget how much a split is worth.
        n_trees: None for one joint tree, or a hundred multinomial ones.
        depth: None for the rule: from the row count, public or bought, at most `max_depth`,
            such that a leaf holds `per_leaf` noise scales.
        impurity: `gini` or `entropy`, for `multinomial`.
        labels: `drawn`: one label per leaf by the exponential mechanism on class counts.
            `counts`: noisy class counts, smoothed for free. None for counts where `joint`.
        halves: structure and leaves use two parts of the records, by a fresh coin per record
            and tree; otherwise they share the tree's budget. None for halves where
            `multinomial`.
        b1, b2, b3: the paper's budgets of a feature choice, a cut choice and the leaves; all or
            none. Then `epsilon` is only the limit that the whole plan must keep.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for the
            rule: 255 bins of about equal mass, bought, where rows (declared, or bought for the
            depth) and epsilon are enough for them, else a public grid.
        bins_share: part of epsilon for such bins, where they are bought; 0 never buys them.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("multinomial-forest-classifier", "features, cuts and labels drawn by "
                          "exponential mechanisms", PAPER, ("add_remove", "replace_one"),
                          ("classification",))

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        variant: str = "joint",
        n_trees: int | None = None,
        depth: int | None = None,
        max_depth: int = 10,
        impurity: str = "gini",
        labels: str | None = None,
        halves: bool | None = None,
        b1: float | None = None,
        b2: float | None = None,
        b3: float | None = None,
        per_leaf: float = 20.0,
        numeric_bins: int | None = None,
        bins_share: float = 0.02,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.variant = variant
        self.n_trees = n_trees
        self.depth = depth
        self.max_depth = max_depth
        self.impurity = impurity
        self.labels = labels
        self.halves = halves
        self.b1 = b1
        self.b2 = b2
        self.b3 = b3
        self.per_leaf = per_leaf
        self.numeric_bins = numeric_bins
        self.bins_share = bins_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _recipe(self, schema: pl.Schema) -> MultinomialRecipe:
        self._check()
        joint = self.variant == "joint"
        halves = self.halves if self.halves is not None else not joint
        trees = self.n_trees if self.n_trees is not None else 1 if joint else 100
        labels = self.labels if self.labels is not None else "counts" if joint else "drawn"
        rows = schema.rows_for(self.relation)
        count = COUNT_SHARE if self.depth is None and rows is None else 0.0
        tree = (1.0 - count) / trees
        structure, leaves = ((tree, tree) if halves else
                             (STRUCTURE * tree, (1.0 - STRUCTURE) * tree))
        feature = 0.0 if joint else structure / 2
        recipe = MultinomialRecipe(
            schema, self.relation, float(self.delta), self.variant, self.impurity, labels, halves,
            trees, feature, structure - feature, leaves, count, self.depth, self.max_depth,
            self.per_leaf, rows,
            bin_rule(schema, self.numeric_bins, self.bins_share,
                     float(self.epsilon) * (1.0 - count), self.relation), self._least(schema))
        if self.b1 is not None and self.b2 is not None and self.b3 is not None:
            depth = float(self.depth or 0)
            return evolve(recipe, feature=depth * self.b1, cut=depth * self.b2, leaves=self.b3,
                          literal=True)
        return evolve(recipe, factor=scale_within(recipe.plan_at, float(self.epsilon),
                                                  float(self.delta), self.relation))

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """The paper's form draws labels, and knows no root."""
        return super()._hopeless(schema, rows) if self.variant == "joint" else ""

    def _check(self) -> None:
        check_common(self)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_choice("variant", self.variant, ("multinomial", "joint"))
        check_choice("impurity", self.impurity, ("gini", "entropy"))
        check_choice("labels", self.labels, (None, "drawn", "counts"))
        check_choice("halves", self.halves, (None, True, False))
        if self.n_trees is not None:
            check_count("n_trees", self.n_trees, 1, 1000)
        check_depth(self.depth)
        check_count("max_depth", self.max_depth, 1, 14)
        check_number("bins_share", self.bins_share, 0.0, 0.4, open_low=False)
        check_number("per_leaf", self.per_leaf, 0.0, 1e6)
        given = [self.b1, self.b2, self.b3]
        if given != [None, None, None]:
            for name, value in zip(("b1", "b2", "b3"), given, strict=True):
                check_number(name, value, 0.0, 1e6)
            if self.depth is None or self.variant == "joint":
                raise pl.InvalidValue("b1, b2, b3", "given", "with a fixed depth and the "
                                      "multinomial variant only")


__all__ = ["MultinomialForestClassifier"]
