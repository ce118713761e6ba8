"""Hyper-parameter search that pays for itself: a random number of trials under one ledger.

Papernot and Steinke 2022 (arXiv:2110.03620): of a number of trials drawn from a truncated
negative binomial law and kept secret, the best by a noisy score may be published for little more
than two or three trials, however many were run. What is proved, and from what:
docs/proofs/tuning.md. A fixed number of trials would pay for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

import privledger as pl
from privledger_learners.accounted import Accounted
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_count,
    check_number,
    no_weights,
)
from privledger_learners.guarding import forget_guarded, guard

SCORINGS = {"classification": ("accuracy",),
            "regression": ("neg_mean_squared_error", "neg_mean_absolute_error")}
WHY = "a fitted model's predict treats every row alone"
TRIES = 12


@frozen(eq=False)
class Scoring:
    """What is asked of the held-out records, as one joint release.

    Attributes:
        scoring: as in `PrivateSearchCV`. leaf: its mechanism.
    """

    schema: pl.Schema
    scoring: str
    leaf: pl.Node

    def ask(self, session: pl.Session, held: pl.Dataset, model: Any) -> float:
        """The noisy score of `model`; the larger, the better. Not cut at what is possible:
        models that the noise takes beyond it would all be equal."""
        value = pl.questions.CustomValue(
            Goodness(model, self.schema, self.scoring), 1.0, WHY, 2)
        right, wrong = map(float, session.release(self.leaf, held.query(
            (value,), None, "score of a trial")))
        share = right / max(right + wrong, 1.0)
        if self.scoring == "accuracy":
            return share
        wide = self.schema.target.upper - self.schema.target.lower
        return (share - 1.0) * (wide**2 if self.scoring == "neg_mean_squared_error" else wide)

    def possible(self, score: float) -> float:
        """Cut at the best that there is: beyond it is noise."""
        return min(score, 1.0 if self.scoring == "accuracy" else 0.0)


@frozen(eq=False)
class Goodness:
    """Per row (1, 0) where a model's prediction is right, (0, 1) where it is as wrong as can be.

    A class of a module: the rows may be in another process, which has to load it.

    Attributes:
        model: that was fitted by releases. schema, scoring: as of `Scoring`.
    """

    model: Any
    schema: pl.Schema
    scoring: str

    def __call__(self, columns: dict[str, Any]) -> Any:
        """Two shares per row, shape (n_records, 2)."""
        target = self.schema.target
        found = np.asarray(self.model.predict(decoded(columns, self.schema)))
        truth = columns[target.name]
        if self.scoring == "accuracy":
            labels = np.array([str(label) for label in target.categories])
            error = (found.astype(str) != labels[truth.astype(int)]).astype(float)
        else:
            error = np.clip(np.abs(found - truth) / (target.upper - target.lower), 0.0, 1.0)
            error = error**2 if self.scoring == "neg_mean_squared_error" else error
        return np.stack([1.0 - error, error], axis=1)


def decoded(columns: dict[str, Any], schema: pl.Schema) -> dict[str, Any]:
    """Columns as `predict` takes them: categories by name, None where a cell is missing."""
    found = {}
    for column in schema.features:
        values = columns[column.name]
        if column.kind == "categorical":
            names = np.array([*column.categories, None], dtype=object)
            values = names[np.asarray(values, dtype=int)]  # a missing cell is position -1
        found[column.name] = np.asarray(values)
    return found


@frozen(eq=False)
class Search:
    """A priced search: candidates, what each trial may spend, and the node around them."""

    learners: tuple[Any, ...]
    scoring: Scoring
    node: pl.nodes.Tuning
    shares: tuple[int, int]
    epsilon: float

    def trial(self, data: pl.Dataset, candidate: int) -> tuple[float, Any]:
        """Split by a private coin per record, fit on one part, score on the other."""
        parts = data.partition(self.shares)
        held = parts[1]
        model = clone(self.learners[candidate]).fit(parts[0])
        with held.ledger.request(self.scoring.leaf, held) as session:
            return self.scoring.ask(session, held, model), model


def success_of(mean: float, shape: float) -> float:
    """The `success` of a `Tuning` whose number of trials has about this mean, by bisection."""
    low, high = 1e-9, 1.0 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low * high)
        if expected_trials(middle, shape) > mean:
            low = middle
        else:
            high = middle
    if not abs(expected_trials(high, shape) - mean) <= 1e-6 * mean:
        raise pl.InvalidValue("mean_trials", mean, f"a mean that a law of shape {shape:g} has")
    return high


def expected_trials(success: float, shape: float) -> float:
    """Mean of the truncated negative binomial law."""
    if shape == 0:
        return (1 / success - 1) / math.log(1 / success)
    return shape * (1 / success - 1) / -math.expm1(shape * math.log(success))


def _has(name: str) -> Any:
    def check(search: Any) -> bool:
        found = getattr(search, "best_estimator_", search.estimator)
        return hasattr(found, name)
    return check


class PrivateSearchCV(Accounted, MetaEstimatorMixin, BaseEstimator):
    """The best of a random number of trials of a private learner, for one (epsilon, delta).

    Every trial picks a candidate at random, splits the records by a private coin each, fits on
    one part and scores on the other with noise. Only the best trial is published: its
    parameters, its noisy score and its model. How many trials there were, and what the others
    said, is kept nowhere. (The running time tells something about their number.)

    Args:
        estimator: a learner with `epsilon`, `delta`, `schema` and `plan`; those of its own are
            replaced.
        params: a grid as for scikit-learn's `GridSearchCV`, or, with distributions in it, as for
            `RandomizedSearchCV`: then `n_candidates` are drawn beforehand. Fixed before any
            record is seen.
        epsilon, delta: what one `fit` may cost, all trials and scores included.
        schema: public facts of the table; required unless a guarded Dataset is given.
        mean_trials: how many trials are expected. More cost nothing where trials are pure DP,
            and little else.
        shape: of the law of their number, above -1: 0 is logarithmic, and two trials' price for
            pure learners; 1 is geometric, three trials' price, and rarely as few as one.
        held_out: one record in so many is held out for the score.
        scoring: "accuracy"; "neg_mean_squared_error" or "neg_mean_absolute_error", between the
            target's public bounds. None: the first that fits.
        n_candidates: of distributions.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: of the candidates that are drawn beforehand; never of trials or noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        best_estimator_, best_params_, best_score_: of the best trial. The score has noise, and
            is of a model that was best by it: read it as too good. The best that is possible
            means that on so few records it is noise alone.
        candidates_: all parameters that were possible. trial_epsilon_: what one trial is given.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo(
        "private-search", "hyper-parameters by a random number of scored trials",
        "Papernot and Steinke, Hyperparameter Tuning with Renyi Differential Privacy",
        ("add_remove", "replace_one"), ("classification", "regression"))

    def __init__(
        self,
        estimator: Any,
        params: Any,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        mean_trials: float = 10.0,
        shape: float = 0.0,
        held_out: int = 5,
        scoring: str | None = None,
        n_candidates: int = 20,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.estimator = estimator
        self.params = params
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.mean_trials = mean_trials
        self.shape = shape
        self.held_out = held_out
        self.scoring = scoring
        self.n_candidates = n_candidates
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`: one `Tuning` around a fit and its score."""
        return self._search(schema).node

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """What a search outside the ledger would say, beside what it would cost. Never charged."""
        search = self._search(schema)
        many = len(search.learners)
        return (
            pl.ClaimStep("a grid search of fits that say epsilon each", "scikit-learn",
                         search.epsilon, math.inf, float(self.delta),
                         f"{many} fits, and exact scores on private rows, without a charge"),
            pl.ClaimStep("everything", "Theorem 2", float(self.epsilon),
                         pl.epsilon(search.node, self.delta, self.relation), float(self.delta),
                         "a random number of trials, scored with noise"))

    def fit(self, X: Any, y: Any = None, *, labels: Mapping[str, str] | None = None,
            **named: object) -> PrivateSearchCV:
        """Search under one grant.

        Args:
            X: a guarded `Dataset` (its ledger enforces the budget), or a table; a table is
                put behind a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table.
            labels: what the grant carries, such as {"team": "red"}: caps match it.
            named: `sample_weight` is refused with the reason; there is nothing else.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
            PolicyViolation: the ledger's policy forbids asserted questions; scores are such.
        """
        no_weights(self, named)
        data, schema = guard(self, X, y)
        search = self._search(schema)
        name = getattr(getattr(self.estimator, "info", None), "name", "")
        with data.ledger.request(search.node, data, learner=f"{self.info.name} of {name}",
                                 delta=self.delta, labels=labels) as session:
            best = session.best_of(search.node, len(search.learners), search.trial, why=WHY)
        self.candidates_ = self._candidates()
        self.trial_epsilon_ = search.epsilon
        self.best_index_ = best.candidate
        self.best_score_ = search.scoring.possible(best.score)
        self.best_params_ = self.candidates_[best.candidate]
        self.best_estimator_ = self._released(best.output, data, session)
        self.receipt_, self.ledger_, self.data_ = session.receipt, data.ledger, data
        self.schema_, self.private_ = schema, data.ledger.mode == "private"
        for said in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.best_estimator_, said):
                setattr(self, said, getattr(self.best_estimator_, said))
        return self

    @staticmethod
    def _released(model: Any, data: pl.Dataset, session: pl.Session) -> Any:
        """The best model, with the search's ledger in the place of its trial's."""
        for name, value in (("ledger_", data.ledger), ("data_", data),
                            ("receipt_", session.receipt)):
            if hasattr(model, name):
                setattr(model, name, value)
        return model

    @available_if(_has("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Of the best model. Post-processing: costs nothing."""
        return np.asarray(self._best.predict(X))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Of the best model, shape (n, classes)."""
        return np.asarray(self._best.predict_proba(X))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Of the best model."""
        return np.asarray(self._best.decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """The best model's own `score`, exact: on public rows only."""
        return float(self._best.score(X, y))

    @property
    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _candidates(self) -> list[dict[str, Any]]:
        grids = self.params if isinstance(self.params, list | tuple) else [self.params]
        if any(hasattr(value, "rvs") for grid in grids for value in grid.values()):
            check_count("n_candidates", self.n_candidates, 1, 10_000)
            found = list(ParameterSampler(self.params, self.n_candidates,
                                          random_state=self.random_state))
        else:
            found = list(ParameterGrid(self.params))
        reserved = {"epsilon", "delta", "schema", "relation", "mode", "unaccounted"}
        for name in {name for one in found for name in one} & reserved:
            raise pl.InvalidValue("params", name, "of parameters that the search does not set")
        return found

    def _search(self, schema: pl.Schema | None) -> Search:
        self._check()
        found = schema if schema is not None else self.schema
        if not isinstance(found, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        scoring = SCORINGS[found.task][0] if self.scoring is None else self.scoring
        check_choice("scoring", scoring, SCORINGS[found.task])
        candidates = self._candidates()
        if self.delta != 0:
            return self._largest(found, scoring, candidates)
        given = float(self.epsilon) / (2 + self.shape) * (1 - 1e-9)
        search = self._priced(found, scoring, candidates, given)
        price = _pure(search.node, self.relation)
        if price <= self.epsilon:
            return search
        if not math.isfinite(price):
            raise pl.errors.UnsupportedNode("a candidate has no pure bound: give a delta above 0")
        # In proportion: under replace_one a record may change its part, and costs in both.
        return self._priced(found, scoring, candidates, given * self.epsilon / price * (1 - 1e-9))

    def _largest(self, schema: pl.Schema, scoring: str, candidates: list[dict[str, Any]]) -> Search:
        """The most that one trial may be given: prices grow about as that does."""
        given, best = float(self.epsilon) / 3, None
        for _ in range(TRIES):
            search = self._priced(schema, scoring, candidates, given)
            price = pl.epsilon(search.node, self.delta, self.relation)
            if price <= self.epsilon and (best is None or given > best.epsilon):
                best = search
            if 0.98 * self.epsilon <= price <= self.epsilon:
                break
            given *= min(max(0.99 * self.epsilon / price, 0.05), 3.0)
        if best is None:
            raise pl.errors.UnsupportedNode("no trial fits: a larger epsilon, or fewer trials")
        return best

    def _priced(self, schema: pl.Schema, scoring: str, candidates: list[dict[str, Any]],
                given: float) -> Search:
        learners = tuple(self._learner(schema, one, given) for one in candidates)
        plans = list(dict.fromkeys(learner.plan(schema) for learner in learners))
        trial = plans[0] if len(plans) == 1 else pl.nodes.OneOf(plans)
        pure = math.isfinite(_pure(trial, self.relation))
        leaf = self._leaf(given, pure)
        node = pl.nodes.Tuning(pl.Parallel([trial, leaf], certificate="iid_per_record"),
                         shape=float(self.shape),
                         success=success_of(float(self.mean_trials), float(self.shape)))
        return Search(learners, Scoring(schema, scoring, leaf), node, (self.held_out - 1, 1),
                      given)

    def _learner(self, schema: pl.Schema, params: dict[str, Any], given: float) -> Any:
        held = {"epsilon": given, "delta": float(self.delta), "schema": schema,
                "relation": self.relation, "mode": self.mode, "unaccounted": self.unaccounted}
        known = self.estimator.get_params(deep=False)
        return clone(self.estimator).set_params(
            **{name: value for name, value in held.items() if name in known}, **params)

    def _leaf(self, given: float, pure: bool) -> pl.Node:
        """Noise for shares of right and wrong; held-out records pay nothing else."""
        if pure:
            l1 = 1.0 if self.relation == "add_remove" else 2.0
            return pl.Laplace(l1 / given, l1)
        return pl.Gaussian(pl.calibrate(pl.Gaussian, given, float(self.delta), self.relation))

    def _check(self) -> None:
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0, open_low=False)
        check_number("mean_trials", self.mean_trials, 1.0, 1000.0)
        check_number("shape", self.shape, -0.999, 100.0)
        if 0 < abs(self.shape) < 1e-6:
            raise pl.InvalidValue("shape", self.shape, "0, or at least 1e-6 in size")
        check_count("held_out", self.held_out, 2, 1000)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_choice("mode", self.mode, ("private", "simulation"))
        if not hasattr(self.estimator, "plan"):
            raise pl.InvalidValue("estimator", type(self.estimator).__name__,
                                  "a learner with `plan`")

    def __getstate__(self) -> dict[str, Any]:
        return forget_guarded(super().__getstate__())


def _pure(node: pl.Node, relation: Relation) -> float:
    try:
        return pl.epsilon(node, 0.0, relation)
    except pl.PrivledgerError:
        return math.inf


__all__ = ["PrivateSearchCV"]
