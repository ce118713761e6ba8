"""Fitted trees: released cuts and released leaf values, nothing else; and who predicts by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import LabelClassifier, PrivateLearner
from privledger_learners.guarding import note_features
from privledger_learners.importances import importances
from privledger_learners.scikit import RegressorMixin, check_is_fitted

FLOORS: Mapping[str, float] = {"classification": 20.0, "regression": 150.0}
"""Rows times epsilon below which leaves say no more than their root (docs/which-learner.md)."""
FLAT = 1e12
"""A strength of smoothing with which every leaf says what its root says."""


@frozen(eq=False)
class Tree:
    """A grown tree and what its leaves say.

    Attributes:
        cells: the tree. values: shape (leaves, k): class shares or counts, or a scaled mean.
    """

    cells: pl.questions.GrownCells
    values: np.ndarray


@frozen(eq=False)
class Forest:
    """Trees on the same public bins, and how their votes add up.

    Attributes:
        votes: `mean` of the leaf values; `log`: the product of class shares, normalised;
            `counts`: shares of the summed noisy counts, none below zero.
        rows: that the depth follows from, declared or bought; None where it is unknown.
    """

    trees: tuple[Tree, ...]
    votes: str = "mean"
    rows: float | None = None

    def values(self, columns: Any) -> np.ndarray:
        """Combined leaf values of every record, shape (n, k)."""
        return self.values_of(self.trees[0].cells.bins.codes(columns))

    def values_of(self, codes: tuple[Any, ...]) -> np.ndarray:
        """The same from bin codes, one array per feature."""
        total: Any = 0.0
        for tree in self.trees:
            values = np.log(tree.values) if self.votes == "log" else tree.values
            total = total + values[tree.cells.assign(codes)]
        if self.votes == "mean":
            return np.asarray(total / len(self.trees))
        held = (np.maximum(total, 0.0) + 1e-12 if self.votes == "counts"
                else np.exp(total - total.max(axis=1, keepdims=True)))
        return np.asarray(held / held.sum(axis=1, keepdims=True))


class Recipe(Protocol):
    """A priced way to a forest: made from public facts, before data exist."""

    @property
    def plan(self) -> pl.Node:
        """What `train` will spend."""

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """Grow the forest under the grant of `plan`; `rng` makes public choices only."""

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one."""


def _total(steps: tuple[pl.ClaimStep, ...]) -> float | None:
    """What the paper says of the whole: its last step; None where it gives no finite number."""
    found = steps[-1].claimed if steps else None
    return found if found is not None and math.isfinite(found) else None


class TreeLearner(PrivateLearner):
    """Shared by classifiers and regressors whose recipe grows a `Forest`.

    Attributes:
        forest_: released values only. schema_: public facts of the table it was grown on.
    """

    model_records = (Forest, Tree)
    floors: Mapping[str, float] = FLOORS
    depth: int | None

    def _recipe(self, schema: pl.Schema) -> Recipe:
        raise NotImplementedError

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic at this plan's noise, beside the sound one. Never charged."""
        known = self._known(schema)
        recipe, floor = self._recipe(known), self._floor(known)
        return recipe.claimed() if floor is None else floor.claimed(float(self.delta))

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """A depth that was asked for is what is grown."""
        return super()._hopeless(schema, rows) if self.depth is None else ""

    def _least(self, schema: pl.Schema) -> float:
        """From how many rows on leaves say more than their root."""
        return self.floors[schema.task] / self.epsilon if self.depth is None else 0.0

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        self.forest_ = Forest((Tree(data.root(data.bins(2)), shares[None, :]),))
        self.schema_ = data.schema

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        recipe = self._recipe(self._known(schema))
        rng = np.random.default_rng(self.random_state)
        self.forest_ = self._granted(data, recipe.plan,
                                     lambda session: recipe.train(session, data, rng),
                                     claimed=_total(recipe.claimed()))
        self.schema_ = schema
        self.fell_back_ = self._hopeless(schema, self.forest_.rows)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much the answer hangs on each feature, shape (features,). Costs nothing.

        Of the released model over public points, see `importances`: no row is looked at.
        """
        check_is_fitted(self, "forest_")
        return importances(self.forest_.values_of, self.forest_.trees[0].cells.bins)

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "forest_")
        note_features(self, X, fitting=False)
        return self.forest_.values(pl.encode_features(X, self.schema_, strict=False))


class TreeClassifier(LabelClassifier, TreeLearner):
    """A forest whose leaves say class shares."""

    def _shares(self, X: Any) -> np.ndarray:
        return self._values(X)


class TreeRegressor(RegressorMixin, TreeLearner):
    """Leaf values are targets scaled to [0, 1] by their public bounds."""

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        target = self._values(X)[:, 0]
        column = self.schema_.target
        return np.asarray(column.lower + (column.upper - column.lower) * np.clip(target, 0.0, 1.0))
