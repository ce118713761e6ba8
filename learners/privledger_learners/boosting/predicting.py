"""What every boosted model predicts with: post-processing of released values."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

import privledger as pl
from privledger_learners.accounted import Accounted
from privledger_learners.guarding import forget_guarded, note_features
from privledger_learners.labels import as_labels, sorted_labels


class Boosted(Accounted):
    """Scores from `model_`, and a state without guarded data."""

    model_attributes = ("_inferred", "_order")

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        return self.model_.scores(self._columns(X))

    def _columns(self, X: Any) -> Any:
        note_features(self, X, fitting=False)
        return pl.encode_features(X, self.model_.bins.schema, strict=False)

    def __getstate__(self) -> dict[str, Any]:
        return forget_guarded(super().__getstate__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.mode != "simulation"
        return tags


class ScoreClassifier(ClassifierMixin):
    """Labels and probabilities from scores; the classes are the schema's category list."""

    def _note_classes(self) -> None:
        # scikit-learn's scorers take sorted classes for granted; the schema's order is free.
        labels = list(self.data_.schema.target.categories)
        self.classes_, self._order = sorted_labels(labels)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, shape (n, classes), columns as in `classes_`, which is sorted."""
        scores = self._scores(X)
        found = pl.questions.probabilities(self.model_.loss, scores)
        if found.ndim == 1:
            found = np.stack([1 - found, found], axis=1)
        return found[:, self._order]

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: shape (n,) for two classes, towards `classes_[1]`; else (n, classes)."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return scores if self._order[1] == 1 else -scores
        return scores[:, self._order]

    def predict(self, X: Any) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,)."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[places]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels may be spelled as the schema allows: 1, 1.0 and "1" are the same."""
        return float(super().score(X, as_labels(y, self.classes_), sample_weight))
