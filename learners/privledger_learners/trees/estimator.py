"""The frame of every tree learner: guard, plan, request, train; predictions cost nothing."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

import privledger as pl
from privledger_learners.accounted import Accounted
from privledger_learners.guarding import forget_guarded, guard, note_features
from privledger_learners.labels import as_labels, sorted_labels
from privledger_learners.trees.forest import Forest, Tree


class Recipe(Protocol):
    """A priced way to a forest: made from public facts, before data exist.

    Attributes:
        plan: what `train` will spend.
    """

    plan: pl.Node

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """Grow the forest under the grant of `plan`; `rng` makes public choices only."""

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one."""


def _total(steps: tuple[pl.ClaimStep, ...]) -> float | None:
    """What the paper says of the whole: its last step; None where it gives no finite number."""
    found = steps[-1].claimed if steps else None
    return found if found is not None and math.isfinite(found) else None


class TreeLearner(Accounted, BaseEstimator):
    """Shared by classifiers and regressors. A subclass gives `info` and `_recipe(schema)`."""

    info: pl.LearnerInfo
    model_records = (Forest, Tree)
    model_attributes = ("_inferred", "_order")

    def _recipe(self, schema: pl.Schema) -> Recipe:
        raise NotImplementedError

    def _known(self, schema: pl.Schema | None) -> pl.Schema:
        found = schema if schema is not None else self.schema
        if not isinstance(found, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        if found.task not in self.info.tasks:
            raise pl.SchemaError(f"{type(self).__name__} does {self.info.tasks[0]}; the target "
                                 f"column {found.target.name!r} is for {found.task}")
        return found

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`, from public facts only."""
        return self._recipe(self._known(schema)).plan

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one. Never charged."""
        return self._recipe(self._known(schema)).claimed()

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
        recipe = self._recipe(self._known(schema))
        rng = np.random.default_rng(self.random_state)
        with data.ledger.request(recipe.plan, data, learner=self.info.name,
                                 delta=self.delta,
                                 claimed=_total(self.claimed(schema))) as session:
            self.forest_ = recipe.train(session, data, rng)
        self.receipt_ = session.receipt
        self.ledger_ = data.ledger
        self.data_ = data
        self.schema_ = schema
        self.private_ = data.ledger.mode == "private"
        return self

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "forest_")
        note_features(self, X, fitting=False)
        return self.forest_.values(pl.encode_features(X, self.schema_, strict=False))

    def __getstate__(self) -> dict[str, Any]:
        return forget_guarded(super().__getstate__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.mode != "simulation"
        return tags


class TreeClassifier(ClassifierMixin, TreeLearner):
    """Classes are the schema's category list, never those that occur."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit, and note the classes in sorted order, as scikit-learn's scorers expect."""
        super().fit(X, y)
        # scikit-learn's scorers take sorted classes for granted; the schema's order is free.
        self.classes_, self._order = sorted_labels(list(self.schema_.target.categories))
        return self

    fit.__doc__ = TreeLearner.fit.__doc__

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, shape (n, classes), columns as in `classes_`, which is sorted."""
        return self._values(X)[:, self._order]

    def predict(self, X: Any) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,)."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels may be spelled as the schema allows: 1, 1.0 and "1" are the same."""
        return float(super().score(X, as_labels(y, self.classes_), sample_weight))


class TreeRegressor(RegressorMixin, TreeLearner):
    """Leaf values are targets scaled to [0, 1] by their public bounds."""

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        target = self._values(X)[:, 0]
        column = self.schema_.target
        return column.lower + (column.upper - column.lower) * np.clip(target, 0.0, 1.0)
