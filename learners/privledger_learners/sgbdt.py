"""S-GBDT, the learner: parameters, what they reserve, and streams of late arrivals.

The algorithm reads like the paper in boosting/random_splits.py. Seed: Kirschte et al.; lines,
deviations and reasons: docs/papers/s-gbdt.md, proofs: docs/proofs/.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from attrs import evolve

import privledger as pl
from privledger_learners.boosting.boosted import Boosted, ScoreClassifier
from privledger_learners.boosting.bought_ranges import (
    RANGE_SHARE,
    bought_bins,
    log_bins,
    wide_features,
)
from privledger_learners.boosting.class_weights import check_weights, default_clip, weights_of
from privledger_learners.boosting.feature_memory import FeatureMemory, Tests
from privledger_learners.boosting.leaf_values import Beliefs, Clip, LeafRule
from privledger_learners.boosting.random_splits import Rounds, SgbdtRule, begin, begin_linear, price
from privledger_learners.boosting.sum_of_trees import (
    Model,
    Priced,
    Start,
    class_scores,
    tree_depth,
)
from privledger_learners.class_numbers import Weights
from privledger_learners.estimator import Relation, check_choice, check_count, check_number
from privledger_learners.floor import Floor
from privledger_learners.gradient_descent import CLIP_SHARE, LinearRule, check_width
from privledger_learners.guarding import guard, made_for
from privledger_learners.published import published_epsilon, sgbdt_claims
from privledger_learners.scikit import RegressorMixin

PAPER = "Kirschte et al., S-GBDT: Frugal Differentially Private Gradient Boosting Decision Trees"
DEPTH_OFFSET, START_STEPS = 1.0, 50


class _SGBDT(Boosted):
    """Shared by regressor and classifier; see their docstrings."""

    # Leaves are posterior means: where there is little signal, they say little by themselves.
    floors: Mapping[str, float] = {"classification": 20.0, "regression": 50.0}

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
        falling_clip: bool | None = None,
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
        class_weight: Weights = None,
        splits: str = "adaptive",
        leaf: str = "posterior",
        regularization: float = 50.0,
        numeric_weight: float = 1.0,
        numeric_bins: int = 1024,
        ranges: str = "public",
        start: str = "mean",
        linear_share: float = 0.25,
        relation: Relation = "add_remove",
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
        self.falling_clip = falling_clip
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
        self.class_weight = class_weight
        self.splits = splits
        self.leaf = leaf
        self.regularization = regularization
        self.numeric_weight = numeric_weight
        self.numeric_bins = numeric_bins
        self.ranges = ranges
        self.start = start
        self.linear_share = linear_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic at this plan's noise, beside the sound one. Never charged."""
        known = self._known(schema)
        priced, floor = self._recipe(known), self._floor(known)
        if floor is not None:
            return floor.claimed(self.delta)
        rule, start = priced.rule, priced.rule.before_nodes(priced.noise)
        trees = pl.Repeat(rule.round_node(priced.noise), rule.trees)

        def sound(node: pl.Node) -> float:
            return pl.epsilon(node, self.delta, self.relation)

        return sgbdt_claims(claimed=self._published(priced), trees=sound(trees),
                            start=sound(pl.Sequential(start)) if start else None,
                            whole=sound(priced.plan), delta=self.delta)

    def _published(self, priced: Priced[SgbdtRule]) -> float:
        """What Algorithm 7 would report for this plan's own noise."""
        rule = priced.rule
        mu_squared = 1 / rule.tree_node(priced.noise).noise_multiplier ** 2
        return published_epsilon(rule.sampling_rate, mu_squared, rule.trees, self.delta)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        self._train(data, self._recipe(self._known(schema)), None, covers_start=False,
                    scope=self.scope)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Train on a stream: later calls bring new records, each with an untouched budget.

        The first call opens an individual filter of (epsilon, delta) and spends `stream_share`
        of it; every later call may spend what is left of each record. The filter adds up
        Gaussian-DP parameters, or Renyi bounds where `individual_filter` is "renyi". Contents
        of the calls must be different people.
        """
        if self.scope is not None:
            raise pl.InvalidValue("scope", "given", "None in partial_fit, which opens its own")
        if not hasattr(self, "stream_scope_"):
            self._check(filtered=True)
            data, schema = guard(self, X, y)
            self._known(schema)
            self.stream_scope_ = data.ledger.open_scope(self._stream_filter(schema))
            share, model = self.stream_share, None
        else:
            data, schema = self._appended(X, y)
            model = getattr(self, "model_", None)
            share = self.stream_share if model is None else 1.0
        self.data_ = data  # before training: if it fails, these records are known already
        self._unfinished = True
        self._known(schema)
        rule = self._rule(schema, individual_filter=None,
                          start_share=None if model is None else 0.0)
        node = self.stream_scope_.node
        noise = rule.noise_under(node, share)
        self._train(data, Priced(rule, noise, rule.in_scope(noise, node)), model,
                    covers_start=True, scope=self.stream_scope_)
        self._unfinished = False
        self._note_classes(schema)
        return self

    def _stream_filter(self, schema: pl.Schema) -> pl.IndividualFilter:
        """What a stream opens: the largest cap on each record that (epsilon, delta) pays for."""
        if self.individual_filter != "renyi":
            noise = pl.calibrate(pl.Gaussian, self.epsilon, self.delta, self.relation)
            return pl.IndividualFilter("gdp", 1 / noise ** 2)
        order = price(self._rule(schema), self.epsilon, self.delta, self.relation).order
        noise = pl.calibrate(lambda z: pl.IndividualFilter("renyi", 1 / z, order), self.epsilon,
                             self.delta, self.relation)
        return pl.IndividualFilter("renyi", 1 / noise, order)

    def _appended(self, X: Any, y: Any) -> tuple[pl.Dataset, pl.Schema]:
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

    def _recipe(self, schema: pl.Schema) -> Priced[SgbdtRule]:
        self._check()
        rule = self._rule(schema)
        if self.scope is None:
            return price(rule, self.epsilon, self.delta, self.relation)
        plain = price(evolve(rule, individual_filter=None), self.epsilon, self.delta,
                      self.relation)
        return Priced(plain.rule, plain.noise, plain.rule.in_scope(plain.noise, self.scope.node))

    def _rule(self, schema: pl.Schema, **changes: Any) -> SgbdtRule:
        """The priced part of the parameters."""
        regression = schema.task == "regression"
        linear, linear_share = self._linear_rule(schema)
        share = changes.get("start_share")
        if share is None:
            share = self.start_share
        if share is None:
            share = 0.12 if regression else 0.03
        if linear is not None:  # it buys all but the clip of what it leaves
            share = CLIP_SHARE if regression and self.gradient_clip is None else 0.0
        clip = self.gradient_clip
        if self.falling_clip and not regression:
            raise pl.InvalidValue("falling_clip", True, "False or None for classes")
        check_weights(self.class_weight, schema, bought=self.start_share != 0)
        if clip is None and not regression:
            clip = default_clip(schema, weighed=self.class_weight is not None)
        first = changes.get("start_share") is None  # later parts of a stream go on with its bins
        wide = wide_features(schema) if self.ranges == "bought" and first else ()
        return SgbdtRule(
            trees=int(self.n_trees), start_share=float(share),
            count_share=float(self.count_share), clip=clip, regression=regression,
            sampling_rate=float(self.sampling_rate), extra_rounds=int(self.extra_rounds),
            static_noise=bool(self.static_noise),
            individual_filter=changes.get("individual_filter", self.individual_filter),
            wide=wide, range_share=RANGE_SHARE if wide else 0.0, linear=linear,
            linear_share=linear_share)

    def _linear_rule(self, schema: pl.Schema) -> tuple[LinearRule | None, float]:
        """The linear model that the trees begin on, and its part of mu squared."""
        if self.start != "linear":
            return None, 0.0
        check_width(schema, hinges=True)
        mu = 1 / pl.calibrate(pl.Gaussian, self.epsilon, self.delta, self.relation)
        return LinearRule.of(schema, mu, steps=START_STEPS), float(self.linear_share)

    def _train(self, data: pl.Dataset, priced: Priced[SgbdtRule], model: Model | None, *,
               covers_start: bool, scope: pl.Scope | None) -> None:
        """Grow the trees of one grant, under the ledger's scope where there is one.

        Args:
            model: go on with this one (late arrivals); its initial score is kept.
            covers_start: the filter of the scope pays for the initial score, too.
        """
        rule = priced.rule

        def ask(session: pl.Session) -> Model:
            paying = data
            if scope is not None:
                paying = session.filtered()
            elif rule.individual_filter is not None:
                paying = session.filtered(rule.filter_node(priced.noise, priced.order))
            begun = model
            if begun is None:
                whole = paying if scope is not None else data
                bins = data.bins(self.numeric_bins)
                if self.ranges == "log":
                    bins = log_bins(data, self.numeric_bins)
                elif rule.wide:
                    bins = bought_bins(session, whole, rule.range_node(priced.noise), rule.wide,
                                       self.numeric_bins)
                clip, linear = default_clip(data.schema), None
                if rule.linear is None:
                    start = begin(session, whole, priced, clip)
                else:
                    start, linear = begin_linear(session, whole, priced, clip)
                begun = Model.begun(data.schema, bins, start, linear=linear,
                                    memory=FeatureMemory.blank(
                                        bins, np.random.default_rng(self.random_state)))
            return self._grow(session, paying, priced, begun, self.rollover or covers_start)

        grown = self._granted(data, priced.plan, ask, scope=scope,
                              claimed=self._published(priced) if scope is None else None)
        self.fell_back_ = "" if covers_start else self._hopeless(data.schema, grown.start.n_hat)
        self._grown(grown)

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """A filter or a scope of the caller's own is for the trees that it was made for."""
        plain = self.scope is None and self.individual_filter is None and self.start_share != 0
        return super()._hopeless(schema, rows) if plain else ""

    def _floor_of(self, schema: pl.Schema, why: str) -> Floor:
        return Floor.gaussian(schema, self.relation, float(self.epsilon), float(self.delta), why)

    def _grow(self, session: pl.Session, paying: pl.Dataset, priced: Priced[SgbdtRule],
              model: Model, rollover: bool) -> Model:
        memory, start = model.memory, model.start
        assert memory is not None  # a model from a file has none, and no data to go on with
        leaves = self._leaves(paying.schema, start.n_hat / priced.noise)
        curved = leaves.loss != "squared"
        clip = Clip(start.clip, start.n_hat * start.square, self._falls(not curved), model.left)
        rounds = Rounds(
            session, paying, priced, leaves, model, memory, model.guarded_scores(paying),
            Beliefs(curved, start.total, start.total_variance, start.variance),
            self.splits == "adaptive", clip)
        return rounds.grow(self._schedule(memory, start, priced), rollover)

    def _leaves(self, schema: pl.Schema, signal: float) -> LeafRule:
        """The free part; on a score's scale leaves are a little narrower where signal is plenty."""
        if schema.task == "regression":
            return self._leaf_rule(schema, 0.60, 0.20)
        plenty = min(max(math.log2(max(signal, 1.0)) - 9, 0.0), 2.0)
        return self._leaf_rule(schema, 0.45, 1.00 * (1 - 0.1 * plenty))

    def _falls(self, regression: bool) -> bool:
        """Whether the clip falls: by default where it is bought and leaves are posterior means."""
        if self.falling_clip is not None:
            return self.falling_clip
        return regression and self.gradient_clip is None and self.leaf == "posterior"

    def _schedule(self, memory: FeatureMemory, start: Start,
                  priced: Priced[SgbdtRule]) -> Iterable[Tests]:
        rounds = priced.rule.trees + priced.rule.extra_rounds
        depth = self.depth if self.depth is not None else tree_depth(
            start.n_hat, 1 / priced.noise, DEPTH_OFFSET, 2, 6)
        if self.splits == "adaptive":
            return memory.schedule(rounds, depth)
        return (memory.random_tree(depth, self.numeric_weight) for _ in range(rounds))

    def _check(self, *, filtered: bool = False) -> None:
        """Every parameter.

        Args:
            filtered: whether a stream's own filter pays.
        """
        check_choice("individual_filter", self.individual_filter, (None, "gdp", "renyi"))
        check_choice("splits", self.splits, ("adaptive", "random"))
        check_choice("ranges", self.ranges, ("public", "log", "bought"))
        check_choice("start", self.start, ("mean", "linear"))
        check_number("linear_share", self.linear_share, 0, 0.9)
        self._check_boosted()
        check_count("numeric_bins", self.numeric_bins, 2, 65534)
        check_count("n_trees", self.n_trees, 1)
        check_count("extra_rounds", self.extra_rounds, 0)
        if self.depth is not None:
            check_count("depth", self.depth, 1, 12)
        check_number("sampling_rate", self.sampling_rate, 0, 1)
        check_number("stream_share", self.stream_share, 0, 1)
        check_number("regularization", self.regularization, 0, 1e12)
        check_number("numeric_weight", self.numeric_weight, 0, 1e6)
        if self.falling_clip is not None and type(self.falling_clip) is not bool:
            raise pl.InvalidValue("falling_clip", self.falling_clip, "True, False or None")
        if self.falling_clip and self.leaf == "ratio":
            raise pl.InvalidValue("falling_clip", True, "False or None with leaf='ratio'")
        kind = self.individual_filter if self.scope is None else self.scope.node.kind
        if self.individual_filter not in (None, kind):
            raise pl.InvalidValue("individual_filter", self.individual_filter,
                                  f"None or {kind}, which is the filter of the scope")
        if filtered and kind is None:
            kind = "gdp"
        filtered = kind is not None
        if self.start == "linear" and (filtered or self.start_share is not None):
            raise pl.InvalidValue("start", "linear", "mean under a filter, in a stream, or with a "
                                  "start_share of its own")
        if (self.extra_rounds or self.rollover) and not filtered:
            raise pl.InvalidValue("individual_filter", None,
                                  "gdp or renyi when extra_rounds or rollover is set")
        if kind == "gdp" and self.sampling_rate != 1:
            name = "individual_filter" if self.scope is None else "scope"
            raise pl.InvalidValue(name, kind, "renyi when sampling_rate is below 1")
        if filtered and self.relation != "add_remove":
            raise pl.errors.RelationMismatch("individual filters are proved for add_remove only")
        if self.leaf == "ratio" and self.static_noise:
            raise pl.InvalidValue("leaf", "ratio",
                                  "posterior with static_noise: no count is released")


class SGBDTRegressor(RegressorMixin, _SGBDT):
    """Differentially private gradient boosting for regression.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_trees: trees the noise is calibrated for.
        learning_rate, leaf_width, depth: None for the rule.
        gradient_clip: bound on the scaled residual; None buys it with the initial score.
        falling_clip: whether the bound falls with what the released trees leave to explain, down
            to .32 of the first (free: the noise falls with it); None: where the bound is bought.
        start_share: part of mu squared for the initial score; None for the rule, 0 for none.
        count_share: part of a tree's mu squared for leaf counts (the paper's r1).
        sampling_rate: Poisson rate per tree; 1 is full batch, with an exact closed form.
        individual_filter: None, "gdp" (full batch) or "renyi".
        extra_rounds: rounds after `n_trees`, for records with budget left (needs a filter).
        rollover: scale a record's part down instead of ejecting it (needs a filter).
        scope: draw on a ledger's filter scope, shared with other learners.
        static_noise: release no counts (ablation). class_weight: for `SGBDTClassifier`.
        splits, leaf: "adaptive" and "posterior", or the paper's "random" and "ratio".
        ranges: "public", or "bought": .04 of mu squared for where the records of each numeric
            feature lie, which pays where public bounds are many times wider; or "log": free, bins
            of wide ranges, one-sided or around zero, are even on a logarithmic scale.
        start: "mean", or "linear": trees begin on a linear model of noisy gradient descent, which
            `linear_share` of mu squared buys. Pays on many columns; not under a filter.
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
        return np.asarray(self.model_.center + self.model_.scale * scaled)


class SGBDTClassifier(ScoreClassifier, _SGBDT):
    """Differentially private gradient boosting for two or more classes.

    The classes are the schema's category list, never those that occur. Parameters as in
    `SGBDTRegressor`; `gradient_clip` bounds |y - p| (.28), or the L2 norm of the softmax
    gradient (.4). `falling_clip` is for squared residuals: it has no use here.

    Args:
        class_weight: None, or how much a record of each class counts in labels and probabilities:
            public numbers in the schema's order, or a dict by class, or "balanced", one over the
            class's size as the initial score buys it. Free: released scores move, no price does.
            Two classes without a `gradient_clip` of one's own then have .95.

    Attributes:
        class_weight_: of each class in the schema's order, the largest 1; where it was asked for.
    """

    info = pl.LearnerInfo("sgbdt-classifier", "gradient boosting on noisy leaf sums, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))

    def _grown(self, model: Model) -> None:
        super()._grown(model)
        self.__dict__.pop("class_weight_", None)  # of an earlier fit
        weights = weights_of(self.class_weight, model)
        if weights is not None and model.trees:  # a prior alone says the largest class
            self.class_weight_ = weights

    def _scores(self, X: object) -> np.ndarray:
        scores, weights = super()._scores(X), getattr(self, "class_weight_", None)
        if weights is None:
            return scores
        moved = class_scores(weights)
        return np.asarray(scores + (moved[0] if scores.ndim == 1 else moved))


__all__ = ["SGBDTClassifier", "SGBDTRegressor"]
