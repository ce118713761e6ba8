"""DPBoost, the learner: gradient boosting whose trees are split by noisy best gains.

The algorithm reads like the paper in boosting/best_splits.py. Seed: Kirschte et al., "S-GBDT",
section V and appendix, where DPBoost (Li, Wu, Wen, He) is the baseline, with a grid-less
exponential mechanism, gradient-based data filtering, geometric leaf clipping and a noisy initial
score. Lines, deviations and reasons: docs/papers/dpboost.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve

import privledger as pl
from privledger_learners.boosting.best_splits import (
    DpboostRule,
    Rounds,
    begin,
    choose_shape,
    price,
)
from privledger_learners.boosting.boosted import Boosted, ScoreClassifier
from privledger_learners.boosting.sum_of_trees import Model, Priced, Shape, Start
from privledger_learners.estimator import Relation, check_choice, check_count, check_number
from privledger_learners.published import dpboost_claims
from privledger_learners.scikit import RegressorMixin
from privledger_learners.trees.bin_rule import (
    bought_bins,
    enough_rows,
    public_bins,
    wide_features,
)

PAPER = ("Li, Wu, Wen, He, Privacy-Preserving Gradient Boosting Decision Trees (DPBoost), as the "
         "baseline of Kirschte et al., S-GBDT")
PURE_SHAPES = (Shape(4, 2), Shape(8, 2), Shape(16, 3), Shape(32, 3), Shape(48, 4), Shape(64, 5))
GAUSSIAN_SHAPES = (Shape(32, 3), Shape(64, 3), Shape(64, 4))
"""Little signal to much, found on development sets (docs/papers/dpboost.md). With delta above 0
many trees cost little more than few."""


class _DPBoost(Boosted):
    """Shared by regressor and classifier; see their docstrings."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        n_trees: int | None = None,
        parts: int = 1,
        depth: int | None = None,
        learning_rate: float | None = None,
        gradient_clip: float | None = None,
        gradient_filtering: bool = False,
        geometric: str = "none",
        start_share: float | None = None,
        split_share: float = 0.4,
        count_share: float = 0.15,
        leaf: str = "posterior",
        leaf_width: float | None = None,
        regularization: float = 10.0,
        penalty: float = 1.0,
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
        self.n_trees = n_trees
        self.parts = parts
        self.depth = depth
        self.learning_rate = learning_rate
        self.gradient_clip = gradient_clip
        self.gradient_filtering = gradient_filtering
        self.geometric = geometric
        self.start_share = start_share
        self.split_share = split_share
        self.count_share = count_share
        self.leaf = leaf
        self.leaf_width = leaf_width
        self.regularization = regularization
        self.penalty = penalty
        self.numeric_bins = numeric_bins
        self.bins_share = bins_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic for this plan's mechanisms, beside the sound one."""
        known = self._known(schema)
        priced, floor = self._recipe(known), self._floor(known)
        if floor is not None:
            return floor.claimed(self.delta)
        rule, noise, shape = priced.rule, priced.noise, priced.rule.shapes[-1]
        split, start = rule.split_node(shape, noise), rule.start_nodes(noise)
        leaves = pl.Sequential(rule.leaf_nodes(shape, noise, 0))

        def sound(node: pl.Node, delta: float = self.delta) -> float:
            return pl.epsilon(node, delta, self.relation)

        return dpboost_claims(
            claimed_splits=shape.depth * split.epsilon,
            claimed_leaves=sound(leaves, 0.0) if self.delta == 0 else None,
            claimed=self._published(priced),
            start=sound(pl.Sequential(start)) if start else None,
            splits=sound(pl.Repeat(split, shape.depth)), leaves=sound(leaves),
            whole=sound(priced.plan), delta=self.delta)

    def _published(self, priced: Priced[DpboostRule]) -> float | None:
        """The printed arithmetic for everything: pure epsilon only, and without an initial score.

        Trees on disjoint parts count once for each round of parts.
        """
        rule, noise, shape = priced.rule, priced.noise, priced.rule.shapes[-1]
        if rule.start_nodes(noise) or self.delta:
            return None
        leaves = pl.Sequential(rule.leaf_nodes(shape, noise, 0))
        one = shape.depth * rule.split_node(shape, noise).epsilon + pl.epsilon(
            leaves, 0.0, self.relation)
        return one * shape.trees / rule.parts

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced = self._recipe(self._known(schema))
        leaves = self._leaf_rule(schema, *self._defaults(schema))

        def ask(session: pl.Session) -> Model:
            start = begin(session, data, priced)
            shape = choose_shape(priced.rule.shapes, start.n_hat, priced.noise,
                                 gaussian=priced.rule.gaussian)
            rule, bins = self._bins(session, data, priced, start)
            model = Model.begun(schema, bins, start, shape=shape)
            return Rounds(
                session, evolve(priced, rule=rule), leaves, model, shape,
                model.guarded_scores(data), self.gradient_filtering, self.penalty,
                1.0 if self.geometric == "none" else max(1 - leaves.rate, 0.5)).grow(data)

        grown = self._granted(data, priced.plan, ask, claimed=self._published(priced))
        self.fell_back_ = (self._hopeless(schema, grown.start.n_hat) if priced.rule.start_share
                           else "")
        self._grown(grown)

    def _bins(self, session: pl.Session, data: pl.Dataset, priced: Priced[DpboostRule],
              start: Start) -> tuple[DpboostRule, pl.questions.Bins]:
        """Bins, bought where the rows are enough for that; and the rule that goes on."""
        rule, noise = priced.rule, priced.noise
        known = rule.start_share > 0 or data.schema.rows_for(rule.relation) is not None
        rows = start.n_hat if known else None
        if rows is None or not rule.wide or rows < enough_rows(rule.bins_node(noise)):
            return rule, public_bins(data, self.numeric_bins, rows)
        wide = wide_features(data.schema, self.numeric_bins, self.bins_share)
        return evolve(rule, bought=True), bought_bins(session, data, wide, rule.bins_node(noise))

    def _recipe(self, schema: pl.Schema) -> Priced[DpboostRule]:
        self._check()
        return price(self._rule(schema), self.epsilon, self.delta)

    @staticmethod
    def _defaults(schema: pl.Schema) -> tuple[float, float]:
        """Learning rate and leaf width of the default rule."""
        return (0.6, 0.3) if schema.task == "regression" else (0.8, 1.2)

    def _rule(self, schema: pl.Schema) -> DpboostRule:
        """The priced part of the parameters."""
        regression, gaussian = schema.task == "regression", self.delta > 0
        share, clip = self.start_share, self.gradient_clip
        if share is None:
            share = (0.12 if regression else 0.03) if gaussian else (0.2 if regression else 0.08)
        if clip is None:
            clip = 0.25 if regression else 0.5
        rate = self._leaf_rule(schema, *self._defaults(schema)).rate
        return DpboostRule(
            shapes=self._shapes(), parts=int(self.parts), start_share=float(share),
            split_share=float(self.split_share), count_share=float(self.count_share),
            clip=float(clip), shrink=max(1 - rate, 0.5) if self.geometric == "gradients" else 1.0,
            gaussian=gaussian, regression=regression, relation=self.relation,
            wide=len(wide_features(schema, self.numeric_bins, self.bins_share)),
            bins_share=float(self.bins_share))

    def _shapes(self) -> tuple[Shape, ...]:
        """The candidates of the rule, with whatever was set fixed, each once."""
        found = []
        for shape in GAUSSIAN_SHAPES if self.delta > 0 else PURE_SHAPES:
            trees = shape.trees if self.n_trees is None else self.n_trees
            trees = -(-trees // self.parts) * self.parts
            one = Shape(int(trees), int(shape.depth if self.depth is None else self.depth))
            if one not in found:
                found.append(one)
        return tuple(found)

    def _check(self) -> None:
        check_choice("geometric", self.geometric, ("none", "leaves", "gradients"))
        self._check_boosted()
        check_number("epsilon", self.epsilon, 0, 1e6)
        check_number("delta", self.delta, 0, 1 - 1e-12, open_low=False)
        check_count("parts", self.parts, 1, 10**4)
        if self.numeric_bins is not None:
            check_count("numeric_bins", self.numeric_bins, 2, 65534)
        if self.n_trees is not None:
            check_count("n_trees", self.n_trees, 1, 10**5)
        if self.depth is not None:
            check_count("depth", self.depth, 1, 10)
        check_number("bins_share", self.bins_share, 0, 0.09, open_low=False)
        check_number("split_share", self.split_share, 0, 0.99)
        check_number("regularization", self.regularization, 0, 1e6)
        check_number("penalty", self.penalty, 0, 1e6, open_low=False)
        if not isinstance(self.gradient_filtering, bool):
            raise pl.InvalidValue("gradient_filtering", self.gradient_filtering, "True or False")
        if self.n_trees is not None and self.n_trees % self.parts:
            raise pl.InvalidValue("n_trees", self.n_trees, "a multiple of parts")


class DPBoostRegressor(RegressorMixin, _DPBoost):
    """Differentially private gradient boosting with noisy best splits, for regression.

    Args:
        epsilon, delta: what one `fit` may cost. Delta 0 is pure: Laplace noise on sums, costs
            add up. Above 0: Gaussian noise on sums, priced by the ledger's best accountant.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_trees, depth: None lets the released row estimate choose among a public list.
        parts: 1 gives every tree all records. More: ensembles of that many trees, each on its
            own part by private coins (the paper's arrangement); `n_trees` is a multiple of it.
        learning_rate, leaf_width: None for the rule.
        gradient_clip: bound on the residual over half the target's range; None for the rule.
        gradient_filtering: records beyond the clip take no part in a tree (the paper's GDF),
            instead of being clipped.
        geometric: "none"; "leaves" bounds the released leaf values of tree t by
            clip * (1 - learning_rate)^t (the paper's GLC); "gradients" lowers the clip so.
        start_share: part of the budget for the initial score; None for the rule, 0 for none.
        split_share: part of a tree's budget for its splits, evenly over levels.
        count_share: part of the leaves' budget for counts.
        leaf: "posterior", or "ratio": noisy sum over max(`regularization`, noisy count).
        penalty: added to the record counts in the gain.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for the
            rule: 255 bins of about equal mass, bought, where rows (as the start bought them) and
            epsilon are enough for them, else a public grid.
        bins_share: part of the budget for such bins, where they are bought; 0 never buys them.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of a simulation; no effect on private fits.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        model_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("dpboost-regressor", "boosted trees, noisy best splits, for a number",
                          PAPER, ("add_remove", "replace_one"), ("regression",))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        scores = self._scores(X)
        target = self.model_.bins.schema.target
        return np.asarray(np.clip(self.model_.center + self.model_.scale * scores,
                                  target.lower, target.upper))


class DPBoostClassifier(ScoreClassifier, _DPBoost):
    """Differentially private gradient boosting with noisy best splits, for classes.

    The classes are the schema's category list, never those that occur. Parameters as in
    `DPBoostRegressor`; `gradient_clip` bounds |y - p|, or the norm of the softmax gradient. With
    more than two classes a tree is split for one class, in turn, and its leaves serve all.
    """

    info = pl.LearnerInfo("dpboost-classifier", "boosted trees, noisy best splits, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))


__all__ = ["DPBoostClassifier", "DPBoostRegressor"]
