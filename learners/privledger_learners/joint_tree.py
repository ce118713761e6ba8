"""JointTree: one joint exponential mechanism per level over attribute and cut.

Not from a paper; the design and its proofs: docs/papers/joint-tree.md, docs/proofs/
split-scores.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_common,
    check_count,
    check_depth,
    check_number,
)
from privledger_learners.trees.bin_rule import BinRule, bin_rule
from privledger_learners.trees.depth_rule import DepthRule, Grown, fair_depth, scales_per_leaf
from privledger_learners.trees.forest import Forest, Tree, TreeClassifier, TreeRegressor
from privledger_learners.trees.grow import (
    geometric,
    grow,
    laplace,
    leaf_values,
    monotone,
    quantile_classes,
)

LEVEL_RATIO = 1.1


@frozen
class JointRecipe:
    """Epsilon in four parts: row count, target quantiles, structure, leaves.

    Attributes:
        count, quantiles: pure epsilon, 0 if not bought.
        structure: pure epsilon of all levels, and of the bins where they are bought.
        bins: how finely features are cut.
        depth: fixed, or None: from the number of rows, at most `max_depth`.
        rows: a number of rows that may be used: expected, or public under replace_one.
    """

    schema: pl.Schema
    relation: Relation
    count: float
    quantiles: float
    structure: float
    leaves: float
    depth: int | None
    max_depth: int
    rows: int | None
    bins: BinRule
    smoothing: float

    @property
    def plan(self) -> pl.Node:
        """Row count, histograms of target and features, a mechanism per level, leaves."""
        target = ([laplace(self.quantiles, self.relation, cells=True)] if self.quantiles else [])
        grown = self._rule.nodes(target, lambda form: pl.Sequential([
            *([self.bins.node(self.structure)] if form.buys else []), *self._levels(form)]))
        return pl.Sequential([*grown, self._leaf_noise()])

    @property
    def _rule(self) -> DepthRule:
        noise = laplace(self.count, self.relation, cells=False) if self.count else None
        return DepthRule(self.depth, self.rows, self.max_depth, self._depth, noise, self.bins)

    def _levels(self, form: Grown) -> tuple[pl.Exponential, ...]:
        spent = self.structure * (self.bins.left if form.buys else 1.0)
        return monotone(geometric(spent, form.depth, LEVEL_RATIO))

    def _leaf_noise(self) -> pl.Laplace:
        return laplace(self.leaves, self.relation, cells=True)

    def _depth(self, rows: float) -> int:
        return fair_depth(rows, self.leaves, scales_per_leaf(self.schema.task),
                          self.max_depth)

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """One tree on all records."""
        rows = self._rule.known_rows(session, data)
        form, labels = self._rule.form(rows), self._labels(session, data)
        bins = self.bins.chosen(session, data, rows, self.structure)
        tree = grow(session, data.root(bins), self._levels(form),
                    lambda cells: data.choose(cells, "squared_error", among="both",
                                              labels=labels))
        values = leaf_values(session, data, tree, self._leaf_noise(), self.smoothing)
        return Forest((Tree(tree, values),))

    def _labels(self, session: pl.Session, data: pl.Dataset) -> Any:
        if self.schema.task == "classification":
            return pl.questions.CategoryCells("", len(self.schema.target.categories))
        return quantile_classes(session, data,
                                laplace(self.quantiles, self.relation, cells=True))

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """No paper claims anything: the sound cost of each part."""
        total = pl.epsilon(self.plan, 0.0, self.relation)
        return (pl.ClaimStep("everything", "not from a paper", None, total, 0.0,
                             "levels and leaves add up; leaves of one level are disjoint"),)


class _JointTree:
    """Shared by classifier and regressor; see their docstrings."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        depth: int | None = None,
        max_depth: int = 10,
        structure_share: float = 0.7,
        count_share: float = 0.05,
        quantile_share: float = 0.05,
        smoothing: float = 4.0,
        numeric_bins: int | None = None,
        bins_share: float = 0.03,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.depth = depth
        self.max_depth = max_depth
        self.structure_share = structure_share
        self.count_share = count_share
        self.quantile_share = quantile_share
        self.smoothing = smoothing
        self.numeric_bins = numeric_bins
        self.bins_share = bins_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _recipe(self, schema: pl.Schema) -> JointRecipe:
        self._check()
        epsilon = float(self.epsilon)
        rows = schema.rows_for(self.relation)
        buys_count = self.depth is None and rows is None
        count = self.count_share * epsilon if buys_count else 0.0
        quantiles = self.quantile_share * epsilon if schema.task == "regression" else 0.0
        rest = epsilon * (1 - 1e-9) - count - quantiles
        structure = self.structure_share * rest
        return JointRecipe(schema, self.relation, count, quantiles, structure, rest - structure,
                           self.depth, self.max_depth, rows,
                           bin_rule(schema, self.numeric_bins, self.bins_share, structure,
                                    self.relation), self.smoothing)

    def _check(self) -> None:
        check_common(self)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_depth(self.depth)
        check_count("max_depth", self.max_depth, 1, 14)
        check_number("structure_share", self.structure_share, 0.0, 0.99)
        check_number("count_share", self.count_share, 0.0, 0.5)
        check_number("quantile_share", self.quantile_share, 0.0, 0.4)
        check_number("bins_share", self.bins_share, 0.0, 0.4, open_low=False)
        check_number("smoothing", self.smoothing, 0.0, 1e3, open_low=False)


class JointTreeClassifier(_JointTree, TreeClassifier):
    """A tree whose every level is one exponential mechanism over attributes and cuts.

    Scores are squared errors of one-hot labels; leaves hold noisy class counts, smoothed from
    the root down. Pure DP: `delta` may stay 0.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability.
        schema: public facts of the table; required unless a guarded Dataset is given.
        depth: None for the rule: from the row count, public or bought, at most `max_depth`.
        structure_share: part of epsilon for the levels; the rest goes to the leaves.
        count_share: part of epsilon for the row count, where the depth needs it.
        smoothing: how strongly a leaf is drawn to the node above it; 0 for not at all.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for the
            rule: 255 bins of about equal mass, bought, where rows (declared, or bought for the
            depth) and epsilon are enough for them, else a public grid.
        bins_share: part of the levels' epsilon for such bins, where they are bought; 0 never
            buys them.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("joint-tree-classifier", "one joint choice of attribute and cut per "
                          "level, for classes", "", ("add_remove", "replace_one"),
                          ("classification",))


class JointTreeRegressor(_JointTree, TreeRegressor):
    """The same for a number: structure from quantile classes of the target, leaves from sums.

    Args:
        quantile_share: part of epsilon for a histogram of the target, which gives the classes.

    Other parameters as in `JointTreeClassifier`.
    """

    info = pl.LearnerInfo("joint-tree-regressor", "one joint choice of attribute and cut per "
                          "level, for a number", "", ("add_remove", "replace_one"),
                          ("regression",))


__all__ = ["JointTreeClassifier", "JointTreeRegressor"]
