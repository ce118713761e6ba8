"""Honest learners of other kinds: labels only, and a selector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import SelectorMixin

import privledger as pl
from cheats.honest import NoisyMean


class PublicCells(ClassifierMixin, BaseEstimator):
    """One noisy label per record; the likeliest per colour. Features and rows are public."""

    info = pl.LearnerInfo("public-cells", "labels", relations=("replace_label",),
                          tasks=("classification",))
    relation = "replace_label"

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = epsilon

    def _leaf(self, schema: pl.Schema) -> pl.RandomizedResponse:
        if schema.task != "classification":
            raise pl.SchemaError("a target with categories is needed")
        classes = len(schema.target.categories)
        noise = classes / (math.exp(self.epsilon) - 1 + classes) * (1 + 1e-9)
        return pl.RandomizedResponse(noise, classes)

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.LabelOnly(self._leaf(schema))

    def claimed(self, schema: pl.Schema) -> tuple[pl.ClaimStep, ...]:
        return ()

    def fit(self, X: pl.Dataset, y: Any = None) -> PublicCells:
        leaf = self._leaf(X.schema)
        with X.ledger.request(pl.nodes.LabelOnly(leaf), X, learner=self.info.name) as session:
            noisy = session.release(leaf, X.labels())
        self._count(X, noisy)
        return self

    def _count(self, data: pl.Dataset, noisy: np.ndarray) -> None:
        colours = data.public_features.arrays[-1].astype(int)
        self.votes_ = np.full((int(colours.max()) + 2, len(data.schema.target.categories)), 0.5)
        np.add.at(self.votes_, (colours, noisy), 1)
        self.features_ = data.public_features.arrays  # public, so it may stay
        self.schema_ = data.schema
        self.classes_ = np.array(data.schema.target.categories)

    def predict_proba(self, X: Any) -> np.ndarray:
        codes = pl.encode_features(X, self.schema_, strict=False).arrays[-1].astype(int)
        votes = self.votes_[np.minimum(codes, len(self.votes_) - 1)]
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class CountsLabels(PublicCells):
    """Cheats: keeps exact numbers of labels, which a custom query saw."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.LabelOnly(pl.Laplace(2 / (self.epsilon * (1 - 1e-9)), 2.0))

    def fit(self, X: pl.Dataset, y: Any = None) -> PublicCells:
        self._leaf(X.schema)
        caught: list[np.ndarray] = []

        def grab(columns: dict[str, Any]) -> Any:
            caught.append(np.array(columns["target"]))
            return np.ones(len(columns["target"]))

        with X.ledger.request(self.plan(X.schema), X) as session:
            session.release(self.plan(X.schema).node, X.custom(grab, 1.0, "counts, it says"))
        self._count(X, np.zeros(X.public_rows, dtype=int))
        self.exact_ = np.bincount(caught[0])
        return self


class NoisyScores(SelectorMixin, BaseEstimator):
    """Keeps the numeric feature with the largest noisy product with the target."""

    info = pl.LearnerInfo("noisy-scores", "one feature", relations=("add_remove",),
                          tasks=("regression", "classification"))

    def __init__(self, epsilon: float = 1.0, schema: Any = None) -> None:
        self.epsilon = epsilon
        self.schema = schema

    def plan(self, schema: pl.Schema) -> pl.Node:
        if any(column.kind != "numeric" or column.missing for column in schema.features):
            raise pl.SchemaError("complete numeric features only")
        count = len(schema.features)
        return pl.Repeat(pl.Laplace(count / (self.epsilon * (1 - 1e-9)), 1.0), count)

    def claimed(self, schema: pl.Schema) -> tuple[pl.ClaimStep, ...]:
        return ()

    def _scorer(self, column: pl.Column, target: pl.Column) -> Any:
        span, names = column.upper - column.lower, len(target.categories)
        low, wide = (0.0, max(names - 1, 1)) if names else (target.lower,
                                                           target.upper - target.lower)

        def score(columns: dict[str, Any]) -> Any:
            return ((columns[column.name] - column.lower) / span - 0.5) * 2 * (
                (columns["target"] - low) / wide * 2 - 1)

        return score

    def fit(self, X: Any, y: Any = None) -> NoisyScores:
        data = X
        if not isinstance(X, pl.Dataset):
            if y is None:
                raise pl.errors.DataError("a target is needed")
            ledger = pl.Ledger.create(None, budget=pl.Budget(self.epsilon))
            data = ledger.protect(X, y, self.schema)
        plan, features = self.plan(data.schema), data.schema.features
        with data.ledger.request(plan, data, learner=self.info.name) as session:
            scores = [session.release(plan.node, data.custom(
                self._scorer(column, data.schema.target), 1.0, "a product of two bounded cells"))
                for column in features]
        self.scores_ = np.array(scores)
        self.n_features_in_ = len(features)
        return self

    def _get_support_mask(self) -> np.ndarray:
        return np.arange(len(self.scores_)) == np.abs(self.scores_).argmax()


class Untagged:
    """The noisy mean with parameters, and without scikit-learn's base classes and tags."""

    info = NoisyMean.info
    __init__ = NoisyMean.__init__
    plan, claimed, fit, predict = (NoisyMean.plan, NoisyMean.claimed, NoisyMean.fit,
                                   NoisyMean.predict)
    _leaf, _guarded, _run = NoisyMean._leaf, NoisyMean._guarded, NoisyMean._run
    _release, _settle = NoisyMean._release, NoisyMean._settle

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name)
                for name in ("epsilon", "delta", "schema", "relation", "random_state")}


class SomeLabels(PublicCells):
    """For tables where some labels are missing: asks the labelled part alone."""

    unlabelled = True

    def plan(self, schema):
        return pl.nodes.LabelOnly(pl.Parallel([self._leaf(schema)] * 2, certificate="index"))

    def fit(self, X, y=None):
        leaf = self._leaf(X.schema)
        labelled = X.partition(pl.questions.LabelledCells())[1]
        with X.ledger.request(self.plan(X.schema), X, learner="some") as session:
            noisy = session.release(leaf, labelled.labels())
        everybody = np.zeros(X.public_rows, dtype=int)
        everybody[X.public_labelled] = noisy
        self._count(X, everybody)
        return self
