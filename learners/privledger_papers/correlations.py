"""Paper 002's truths about a microarray table, for measuring what a private choice finds."""

from __future__ import annotations

import numpy as np
from attrs import define, field
from sklearn.linear_model import Lasso

import privledger as pl
from privledger_papers.tasks import Features, Table


def codes_of(schema: pl.Schema, y: np.ndarray) -> np.ndarray:
    """Places of the classes in the schema's list, or the target itself, centred, shape (n,)."""
    if schema.task == "regression":
        values = y.astype(float)
    else:
        classes = [str(one) for one in schema.target.categories]
        values = np.array([classes.index(str(one)) for one in y], dtype=float)
    return np.asarray(values - values.mean())


@define(eq=False)
class CorrelationLasso:
    """Paper 002's truth: the LASSO at penalty .1 on class codes.

    The paper does not say how it scales. Columns between -1 and 1, codes centred and divided by
    their largest size come nearest to its printed figures.
    """

    schema: pl.Schema
    model: Lasso = field(init=False, factory=lambda: Lasso(alpha=0.1, max_iter=5000))

    def _scaled(self, X: Features, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        table = np.asarray(X, dtype=float)
        low, high = table.min(axis=0), table.max(axis=0)
        wide = np.where(high > low, high - low, 1.0)
        codes = codes_of(self.schema, y)
        return 2 * (table - low) / wide - 1, codes / max(float(np.abs(codes).max()), 1e-300)

    def fit(self, X: Features, y: np.ndarray) -> CorrelationLasso:
        """Fit on the scaled table."""
        self.model.fit(*self._scaled(X, y))
        return self

    def predict(self, X: Features) -> np.ndarray:
        """Scaled codes."""
        return np.asarray(self.model.predict(np.asarray(X, dtype=float)))

    def r2(self, X: Features, y: np.ndarray) -> float:
        """On the rows that it was fitted on, as printed."""
        return float(self.model.score(*self._scaled(X, y)))

    def ranking(self) -> np.ndarray:
        """Features by the size of their coefficients, largest first."""
        return np.argsort(-np.abs(self.model.coef_), kind="stable")


def by_lasso(table: Table) -> np.ndarray:
    """Features by the LASSO's coefficients: the truth of the top-k accuracy."""
    return CorrelationLasso(table.schema).fit(table.X, table.y).ranking()


def by_correlation(table: Table) -> np.ndarray:
    """Features by the size of their correlation with the target: of TOP, GREAT and GOOD."""
    X = np.asarray(table.X, dtype=float)
    X = X - X.mean(axis=0)
    wide = np.sqrt((X**2).sum(axis=0))
    found = np.abs(codes_of(table.schema, table.y) @ X) / np.where(wide > 0, wide, 1.0)
    return np.argsort(-found, kind="stable")


def agreement(metric: str, chosen: set[int], table: Table) -> float:
    """How well k chosen features agree with a truth.

    `top_k_accuracy`: share of the k largest LASSO coefficients. By correlation, 1 or 0: `top` all
    k are the k largest; `great` the largest k/10 are all in, the rest among the largest 11k/10;
    `good` the largest k/100 are all in, the rest among the largest 3k/2.
    """
    k = len(chosen)
    if metric == "top_k_accuracy":
        return len(chosen & set(by_lasso(table)[:k].tolist())) / k
    sure, among = {"top": (k, k), "great": (k // 10, 11 * k // 10),
                   "good": (k // 100, 3 * k // 2)}[metric]
    order = by_correlation(table).tolist()
    return float(set(order[:sure]) <= chosen <= set(order[:among]))
