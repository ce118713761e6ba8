"""What every boosted model predicts with: post-processing of released values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import privledger as pl
from privledger_learners.boosting.leaf_values import LeafRule
from privledger_learners.boosting.sum_of_trees import (
    Model,
    Shape,
    Start,
    class_scores,
    loss_of,
)
from privledger_learners.estimator import (
    LabelClassifier,
    PrivateLearner,
    Relation,
    check_choice,
    check_number,
)
from privledger_learners.guarding import note_features
from privledger_learners.importances import importances
from privledger_learners.linear_model import LinearModel
from privledger_learners.scikit import check_is_fitted

FLOORS: Mapping[str, float] = {"classification": 20.0, "regression": 150.0}
"""Rows times epsilon below which trees add noise only (docs/which-learner.md)."""


class Boosted(PrivateLearner):
    """A learner that adds up trees.

    Attributes:
        model_: released values only. n_trees_: how many trees it has.
    """

    leaf: str
    learning_rate: float | None
    leaf_width: float | None
    gradient_clip: float | None
    start_share: float | None
    count_share: float
    regularization: float
    relation: Relation
    model_: Model
    model_records = (Model, Shape, Start, LinearModel)
    floors: Mapping[str, float] = FLOORS

    def _check_boosted(self) -> None:
        """Raise `InvalidValue` for a parameter that can never be right, of those all have."""
        check_choice("leaf", self.leaf, ("posterior", "ratio"))
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        for name in ("learning_rate", "gradient_clip", "leaf_width"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0, 100)
        if self.start_share is not None:
            check_number("start_share", self.start_share, 0, 0.9, open_low=False)
        check_number("count_share", self.count_share, 0, 0.99)

    def _leaf_rule(self, schema: pl.Schema, rate: float, width: float) -> LeafRule:
        """The free part, with `rate` and `width` where the parameters leave them to the rule."""
        return LeafRule(
            rate=rate if self.learning_rate is None else self.learning_rate,
            width=width if self.leaf_width is None else self.leaf_width,
            ratio=self.leaf == "ratio", regularization=self.regularization,
            loss=loss_of(schema), classes=max(len(schema.target.categories), 1))

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """Leaves as the paper has them are not drawn to anything."""
        return super()._hopeless(schema, rows) if self.leaf == "posterior" else ""

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        classes = data.schema.task == "classification"
        score = class_scores(shares) if classes else 2 * shares - 1
        self._grown(Model.begun(data.schema, data.bins(2), Start(score, 0.0)))

    def _grown(self, model: Model) -> None:
        """Keep the model; where it fell back without the trees, which are paid for and noise."""
        if getattr(self, "fell_back_", ""):
            model.trees.clear()
            model.linear = None
        self.model_ = model
        self.n_trees_ = len(model.trees)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much the score hangs on each feature, shape (features,). Costs nothing.

        Of the released model over public points, see `importances`: no row is looked at.
        """
        check_is_fitted(self, "model_")
        return importances(self.model_.scores_of, self.model_.bins)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        return self.model_.scores(pl.encode_features(X, self.model_.bins.schema, strict=False))


class ScoreClassifier(LabelClassifier, Boosted):
    """Labels and probabilities from scores; the classes are the schema's category list."""

    def _shares(self, X: Any) -> np.ndarray:
        found = np.asarray(pl.questions.probabilities(self.model_.loss, self._scores(X)))
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: shape (n,) for two classes, towards `classes_[1]`; else (n, classes)."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return scores if self._order[1] == 1 else -scores
        return np.asarray(scores[:, self._order])

    def predict(self, X: Any) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,)."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])
