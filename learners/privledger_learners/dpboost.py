"""DPBoost: gradient boosting whose trees are split by an exponential mechanism on the gain.

Seed: Kirschte et al., "S-GBDT", section V and appendix, where DPBoost (Li, Wu, Wen, He) is the
baseline, with a grid-less exponential mechanism, gradient-based data filtering, geometric leaf
clipping and a noisy initial score. Lines, deviations and reasons: docs/papers/dpboost.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import privledger as pl
from privledger_learners.boosting.predicting import Boosted, ScoreClassifier
from privledger_learners.claims import dpboost_claims, dpboost_total
from privledger_learners.gain.params import check_params, make_rule, make_shaping
from privledger_learners.gain.rule import Priced, Shape, price
from privledger_learners.gain.train import Model, Start, train
from privledger_learners.guarding import guard

PAPER = ("Li, Wu, Wen, He, Privacy-Preserving Gradient Boosting Decision Trees (DPBoost), as the "
         "baseline of Kirschte et al., S-GBDT")


class _DPBoost(Boosted, BaseEstimator):
    """Shared by regressor and classifier; see their docstrings."""

    model_records = (Model, Shape, Start)

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
        numeric_bins: int = 65534,
        relation: str = "add_remove",
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
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`, from public facts only."""
        return self._priced(schema if schema is not None else self.schema).plan

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic for this plan's mechanisms, beside the sound one."""
        priced = self._priced(schema if schema is not None else self.schema)
        return dpboost_claims(priced, self.delta, self.relation)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` (its ledger enforces the budget), or a table; a table is
                put behind a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        data, schema = guard(self, X, y)
        priced = self._priced(schema)
        shaping, bins = make_shaping(self, schema), data.bins(self.numeric_bins)
        with data.ledger.request(priced.plan, data, learner=self.info.name,
                                 delta=self.delta,
                                 claimed=dpboost_total(priced, self.delta,
                                                       self.relation)) as session:
            self.model_ = train(session, data, priced, shaping, bins)
        self.receipt_ = session.receipt
        self.ledger_ = data.ledger
        self.data_ = data
        self.private_ = data.ledger.mode == "private"
        self.n_trees_ = len(self.model_.trees)
        return self

    def _priced(self, schema: pl.Schema | None) -> Priced:
        if not isinstance(schema, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        check_params(self)
        return price(make_rule(self, schema), self.epsilon, self.delta, self.relation)


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
        numeric_bins: cuts per numeric feature, on public bounds.
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
        return np.clip(self.model_.center + self.model_.scale * scores, target.lower, target.upper)


class DPBoostClassifier(ScoreClassifier, _DPBoost):
    """Differentially private gradient boosting with noisy best splits, for classes.

    The classes are the schema's category list, never those that occur. Parameters as in
    `DPBoostRegressor`; `gradient_clip` bounds |y - p|, or the norm of the softmax gradient. With
    more than two classes a tree is split for one class, in turn, and its leaves serve all.
    """

    info = pl.LearnerInfo("dpboost-classifier", "boosted trees, noisy best splits, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit, and note the schema's classes as `classes_`; see `DPBoostRegressor.fit`."""
        super().fit(X, y)
        self._note_classes()
        return self

    fit.__doc__ = _DPBoost.fit.__doc__


__all__ = ["DPBoostClassifier", "DPBoostRegressor"]
