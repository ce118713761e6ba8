"""What a fitted model reaches, in the metric of a cell."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from privledger_papers.correlations import agreement
from privledger_papers.published_cells import Cell
from privledger_papers.tasks import Features, Table

RANKED = ("top_k_accuracy", "top", "great", "good")
"""Metrics of chosen features, without a split."""


class Fitted(Protocol):
    """Predicts: labels, or numbers in the target's unit, shape (n,)."""

    def predict(self, X: Features) -> np.ndarray:
        """One prediction per row."""


def width_of(cell: Cell, table: Table) -> float:
    """What the paper divides its target by: the range of the values that occur.

    For comparing test errors only: learners see the schema's public bounds.
    """
    values = table.y.astype(float)
    least = 0.0 if cell.data == "Parkinsons" else float(values.min())
    return float(values.max()) - least


def measured(cell: Cell, table: Table, model: Fitted, X: Features, y: np.ndarray) -> float:
    """The metric of a cell on test rows."""
    if cell.metric == "mean_nodes":
        return float(model.nodes)  # type: ignore[attr-defined]  # only asked of forms that have it
    if cell.metric == "r2" and not table.regression:
        return float(model.r2(X, y))  # type: ignore[attr-defined]  # the LASSO on class codes
    if cell.metric in RANKED:
        return agreement(cell.metric, set(model.selected_.tolist()), table)  # type: ignore[attr-defined]
    if cell.metric == "soft_score_1_minus_mean_abs":
        return _soft(model, X, y)
    found = model.predict(X)
    if not table.regression:
        right = float(np.mean(_texts(found) == _texts(y)))
        return {"accuracy": right, "accuracy_percent": 100 * right,
                "test_error_percent": 100 * (1 - right)}[cell.metric]
    off = np.asarray(found, dtype=float) - y.astype(float)
    if cell.metric == "r2":
        return 1 - float(np.mean(off**2)) / max(float(np.var(y.astype(float))), 1e-300)
    return float(np.mean((off / width_of(cell, table)) ** 2))


def of_one_class(cell: Cell, score: float, y: np.ndarray) -> bool | None:
    """Whether a score is the share of a class among test labels, or what is left of it."""
    if cell.metric not in ("accuracy", "accuracy_percent", "test_error_percent"):
        return None
    shares = np.unique(_texts(y), return_counts=True)[1] / len(y)
    right = score if cell.metric == "accuracy" else score / 100
    if cell.metric == "test_error_percent":
        right = 1 - right
    return bool(np.any(np.abs(shares - right) < 0.5 / len(y)))


def _texts(labels: np.ndarray) -> np.ndarray:
    return np.array([str(int(one)) if isinstance(one, float) and one == int(one) else str(one)
                     for one in np.asarray(labels, dtype=object)])


def _soft(model: Fitted, X: Features, y: np.ndarray) -> float:
    """1 - mean |probability - label| of two classes."""
    shares = model.predict_proba(X)  # type: ignore[attr-defined]  # classifiers only
    second = _texts(y) == _texts(np.array([model.classes_[1]], dtype=object))[0]  # type: ignore[attr-defined]
    return float(1 - np.mean(np.abs(shares[:, 1] - second)))
