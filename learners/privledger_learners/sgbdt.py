"""S-GBDT: gradient boosting with random splits, joint noisy leaves and individual filters.

Seed: Kirschte, Peinemann, Stock, Cotrini, Mohammadi, "S-GBDT: Frugal Differentially Private
Gradient Boosting Decision Trees". Algorithm lines, deviations and the reasons for them are in
docs/papers/s-gbdt.md; why each step costs what it costs is in docs/proofs/.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import privledger as pl
from privledger_learners.boosting.params import check_params, make_rule, make_shaping
from privledger_learners.boosting.predicting import Boosted, ScoreClassifier
from privledger_learners.boosting.rule import Priced, price
from privledger_learners.boosting.start import Start
from privledger_learners.boosting.train import Model, train
from privledger_learners.claims import sgbdt_claims, sgbdt_total
from privledger_learners.guarding import guard
from privledger_learners.owned import made_for

PAPER = "Kirschte et al., S-GBDT: Frugal Differentially Private Gradient Boosting Decision Trees"


class _SGBDT(Boosted, BaseEstimator):
    """Shared by regressor and classifier; see their docstrings."""

    model_records = (Model, Start)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        n_trees: int = 200,
        learning_rate: float | None = None,
        depth: int | None = None,
        gradient_clip: float | None = None,
        start_share: float | None = None,
        count_share: float = 0.12,
        leaf_width: float | None = None,
        sampling_rate: float = 1.0,
        individual_filter: str | None = None,
        extra_rounds: int = 0,
        rollover: bool = False,
        scope: pl.Scope | None = None,
        stream_share: float = 0.3,
        static_noise: bool = False,
        splits: str = "adaptive",
        leaf: str = "posterior",
        regularization: float = 50.0,
        numeric_weight: float = 1.0,
        numeric_bins: int = 1024,
        relation: str = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.depth = depth
        self.gradient_clip = gradient_clip
        self.start_share = start_share
        self.count_share = count_share
        self.leaf_width = leaf_width
        self.sampling_rate = sampling_rate
        self.individual_filter = individual_filter
        self.extra_rounds = extra_rounds
        self.rollover = rollover
        self.scope = scope
        self.stream_share = stream_share
        self.static_noise = static_noise
        self.splits = splits
        self.leaf = leaf
        self.regularization = regularization
        self.numeric_weight = numeric_weight
        self.numeric_bins = numeric_bins
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`, from public facts only."""
        return self._priced(schema if schema is not None else self.schema).plan

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic at this plan's noise, beside the sound one. Never charged."""
        priced = self._priced(schema if schema is not None else self.schema)
        return sgbdt_claims(priced, self.delta, self.relation)

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
        self._train(data, priced, None, covers_start=False, scope=self.scope)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Any:
        """Train on a stream: later calls bring new records, each with an untouched budget.

        The first call opens an individual Gaussian-DP filter of (epsilon, delta) and spends
        `stream_share` of it; every later call may spend what is left of each record. Contents
        of the calls must be different people.
        """
        if not hasattr(self, "stream_scope_"):
            data, schema = guard(self, X, y)
            mu_squared = 1 / pl.calibrate(pl.Gaussian, self.epsilon, self.delta,
                                          self.relation) ** 2
            self.stream_scope_ = data.ledger.open_scope(pl.IndividualFilter("gdp", mu_squared))
            share, model = self.stream_share, None
        else:
            data, schema = self._grown(X, y)
            model = getattr(self, "model_", None)
            share = self.stream_share if model is None else 1.0
        self.data_ = data  # before training: if it fails, these records are known already
        self._unfinished = True
        cap = self.stream_scope_.node.cap
        rule = make_rule(self, schema, individual_filter=None,
                         start_share=None if model is None else 0.0)
        noise = 1 / np.sqrt(share * cap)
        inside = rule.unfiltered(noise)
        plan = pl.IndividualFilter("gdp", cap, node=inside)
        priced = Priced(rule, noise, 0.0, plan)
        self._train(data, priced, model, covers_start=True, scope=self.stream_scope_)
        self._unfinished = False
        return self

    def _grown(self, X: Any, y: Any) -> tuple[pl.Dataset, pl.Schema]:
        if isinstance(X, pl.Dataset):
            return X, X.schema
        if getattr(self, "_unfinished", False):
            raise pl.NotGranted("the last call failed after its records were guarded: go on with "
                                "partial_fit(model.data_), or they would be counted twice")
        if not hasattr(self, "data_"):
            raise pl.NotGranted("this model was unpickled: its guarded records are gone; pass the "
                                "Dataset that ledger.append returns")
        grown = made_for(self.data_).append(self.data_, X, y)
        return grown, grown.schema

    def _priced(self, schema: pl.Schema | None) -> Priced:
        if not isinstance(schema, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        check_params(self)
        rule = make_rule(self, schema)
        if self.scope is None:
            return price(rule, self.epsilon, self.delta, self.relation)
        plain = price(make_rule(self, schema, individual_filter=None), self.epsilon, self.delta,
                      self.relation)
        node = self.scope.node
        plan = pl.IndividualFilter(node.kind, node.cap, node.order, plain.plan)
        return Priced(plain.rule, plain.noise, 0.0, plan)

    def _train(self, data: pl.Dataset, priced: Priced, model: Model | None, *,
               covers_start: bool, scope: pl.Scope | None) -> None:
        schema = data.schema
        shaping = make_shaping(self, schema)
        bins = model.bins if model is not None else data.bins(self.numeric_bins)
        rng = np.random.default_rng(self.random_state)
        claimed = sgbdt_total(priced, self.delta) if scope is None else None
        with data.ledger.request(priced.plan, data, learner=self.info.name, delta=self.delta,
                                 scope=scope, claimed=claimed) as session:
            handle = data
            if scope is not None:
                handle = session.filtered()
            elif priced.rule.individual_filter is not None:
                handle = session.filtered(priced.rule.filter_node(priced.noise, priced.order))
            self.model_ = train(
                session, handle, handle if scope is not None else data, priced, shaping, bins,
                rng, rollover=self.rollover or covers_start, model=model)
        self.receipt_ = session.receipt
        self.ledger_ = data.ledger
        self.data_ = data
        self.private_ = data.ledger.mode == "private"
        self.n_trees_ = len(self.model_.trees)


class SGBDTRegressor(RegressorMixin, _SGBDT):
    """Differentially private gradient boosting for regression.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_trees: trees the noise is calibrated for.
        learning_rate, leaf_width, depth: None for the rule.
        gradient_clip: bound on the scaled residual; None buys it with the initial score.
        start_share: part of mu squared for the initial score; None for the rule, 0 for none.
        count_share: part of a tree's mu squared for leaf counts (the paper's r1).
        sampling_rate: Poisson rate per tree; 1 is full batch, with an exact closed form.
        individual_filter: None, "gdp" (full batch) or "renyi".
        extra_rounds: rounds after `n_trees`, for records with budget left (needs a filter).
        rollover: scale a record's part down instead of ejecting it (needs a filter).
        scope: draw on a ledger's filter scope, shared with other learners.
        static_noise: release no counts (ablation).
        splits, leaf: "adaptive" and "posterior", or the paper's "random" and "ratio".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: public choices of splits only; never noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        model_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("sgbdt-regressor", "gradient boosting on noisy leaf sums, for a number",
                          PAPER, ("add_remove", "replace_one"), ("regression",))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        scaled = np.clip(self._scores(X), -1, 1)
        return self.model_.center + self.model_.scale * scaled


class SGBDTClassifier(ScoreClassifier, _SGBDT):
    """Differentially private gradient boosting for two or more classes.

    The classes are the schema's category list, never those that occur. Parameters as in
    `SGBDTRegressor`; `gradient_clip` bounds |y - p|, or the L2 norm of the softmax gradient.
    """

    info = pl.LearnerInfo("sgbdt-classifier", "gradient boosting on noisy leaf sums, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit, and note the schema's classes as `classes_`; see `SGBDTRegressor.fit`."""
        super().fit(X, y)
        self._note_classes()
        return self

    fit.__doc__ = _SGBDT.fit.__doc__

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Any:
        """Go on with more records; see `SGBDTRegressor.partial_fit`. `classes` is not needed."""
        super().partial_fit(X, y, classes)
        self._note_classes()
        return self

    partial_fit.__doc__ = _SGBDT.partial_fit.__doc__


__all__ = ["SGBDTClassifier", "SGBDTRegressor"]
