"""What is not private, for comparison: references of the papers, marked as such."""

from __future__ import annotations

import numpy as np
from attrs import define, field
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import privledger as pl
from privledger_papers.comparison_forests import RuleForest
from privledger_papers.comparison_rules import bernoulli, denil, medians, nearness
from privledger_papers.comparison_trees import Rule
from privledger_papers.correlations import CorrelationLasso
from privledger_papers.forms import CHOICES, TREES, Form, Maker
from privledger_papers.published_cells import Cell
from privledger_papers.tasks import Features, Table


@define(eq=False)
class Encoded:
    """A scikit-learn estimator on the numbers that `privledger` encodes a table as."""

    schema: pl.Schema
    estimator: BaseEstimator | RuleForest
    classes_: np.ndarray = field(init=False, factory=lambda: np.zeros(0))

    def _matrix(self, X: Features) -> np.ndarray:
        columns = pl.encode_features(X, self.schema, strict=False)
        table = np.stack([np.asarray(array, dtype=float) for array in columns.arrays], axis=1)
        return np.asarray(np.nan_to_num(table, nan=-1.0))

    def fit(self, X: Features, y: np.ndarray) -> Encoded:
        """Fit on the encoded features."""
        target = y.astype(float) if self.schema.task == "regression" else y.astype(str)
        self.estimator.fit(self._matrix(X), target)
        self.classes_ = getattr(self.estimator, "classes_", self.classes_)
        return self

    def predict(self, X: Features) -> np.ndarray:
        """The estimator's predictions."""
        return np.asarray(self.estimator.predict(self._matrix(X)))

    def predict_proba(self, X: Features) -> np.ndarray:
        """The estimator's probabilities."""
        return np.asarray(self.estimator.predict_proba(self._matrix(X)))


def _forest(classifier: type, regressor: type, trees: int, least: int = 1) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        count = int(cell.options.get("trees", trees))
        options: dict[str, int] = {"n_estimators": count, "min_samples_leaf": least,
                                      "random_state": 0}
        if cell.paper == "000":
            options |= {"max_features": min(CHOICES, len(table.schema.features)),
                        "max_depth": int(cell.options["depth"])}
        kind = regressor if table.regression else classifier
        return Form(Encoded(table.schema, kind(**options)), False)
    return make


def _grown(rule: Rule, *, honest: bool = False) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        return Form(Encoded(table.schema, RuleForest(rule, True, honest=honest)), False,
                    "by its definition; docs/papers/baselines.md")
    return make


def _median(cell: Cell, table: Table) -> Form:
    forest = RuleForest(medians(min(CHOICES, len(table.schema.features))), not table.regression,
                        int(cell.options.get("trees", TREES)), 1, int(cell.options["depth"]))
    return Form(Encoded(table.schema, forest), False)


def _boosting(cell: Cell, table: Table) -> Form:
    kind = (HistGradientBoostingRegressor if table.regression
            else HistGradientBoostingClassifier)
    return Form(Encoded(table.schema, kind(random_state=0)), False)


def _lasso(cell: Cell, table: Table) -> Form:
    return Form(CorrelationLasso(table.schema), False)


_RANDOM = RandomForestClassifier, RandomForestRegressor
COMPARISONS: dict[tuple[str, str], Maker] = {
    ("000", "RF"): _forest(*_RANDOM, TREES, 5),
    ("000", "ERT"): _forest(ExtraTreesClassifier, ExtraTreesRegressor, TREES, 5),
    ("001", "RF"): _forest(*_RANDOM, 100), ("004", "Breiman"): _forest(*_RANDOM, 100, 5),
    ("000", "Median"): _median,
    ("004", "Denil14"): _grown(denil, honest=True), ("004", "BRF"): _grown(bernoulli, honest=True),
    ("004", "CompRF-C"): _grown(nearness(classes=False)),
    ("004", "CompRF-I"): _grown(nearness(classes=True)),
    ("002", "LASSO, not private, penalty .1"): _lasso,
    ("003", "non-private GBDT"): _boosting,
}
"""By paper and system."""
