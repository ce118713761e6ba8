"""A noisy mean: the smallest honest learner. Cheats override one step of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import privledger as pl


class NoisyMean(RegressorMixin, BaseEstimator):
    """Predicts one noisy mean for everybody. Two releases: sum and count, together and again."""

    info = pl.LearnerInfo("noisy-mean", "one number", relations=(
        "add_remove", "replace_one"), tasks=("regression",))

    def __init__(self, epsilon: float = 1.0, delta: float = 0.0, schema: Any = None,
                 relation: str = "add_remove", random_state: int | None = None) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.relation = relation
        self.random_state = random_state

    def _leaf(self) -> pl.Node:
        # Half of epsilon each. A sum in half-ranges moves by 1, or by 2 if a record is replaced.
        sensitivity = 1.0 if self.relation == "add_remove" else 2.0
        return pl.Laplace(2 * sensitivity / (self.epsilon * (1 - 1e-9)), sensitivity)

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Repeat(self._leaf(), 2)

    def claimed(self, schema: pl.Schema) -> tuple[pl.ClaimStep, ...]:
        return ()

    def _guarded(self, X: Any, y: Any) -> pl.Dataset:
        if isinstance(X, pl.Dataset):
            return X
        ledger = pl.Ledger.create(None, budget=pl.Budget(self.epsilon, self.delta),
                                  relation=self.relation)
        if y is None:
            raise pl.errors.DataError("a target is needed")
        return ledger.protect(X, y, self.schema)

    def fit(self, X: Any, y: Any = None) -> Any:
        data = self._guarded(X, y)
        target = data.schema.target
        if target.kind != "numeric":
            raise pl.SchemaError("a numeric target is needed")
        self._run(data, self.plan(data.schema), target)
        self.n_features_in_ = len(data.schema.features)
        return self

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        with data.ledger.request(plan, data, learner=self.info.name, delta=self.delta) as session:
            self._release(session, data, target)

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        total = session.release(self._leaf(), data.sum(target.name))
        count = session.release(self._leaf(), data.count())
        self._settle(total, count, target)

    def _settle(self, total: float, count: float, target: pl.Column) -> None:
        middle, half = (target.lower + target.upper) / 2, (target.upper - target.lower) / 2
        self.mean_ = float(middle + half * np.clip(total / max(count, 1.0), -1, 1))

    def predict(self, X: Any) -> np.ndarray:
        rows = len(next(iter(X.values()))) if isinstance(X, dict) else len(X)
        return np.full(rows, self.mean_)
