"""Principal components of a noisy covariance matrix (Dwork et al. 2014, Analyze Gauss).

Sums, squares and products of the numeric columns are released once; components are its
eigenvectors.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation, check_count
from privledger_learners.guarding import note_features
from privledger_learners.released_sums import _OfFeatures, along, numeric_features, symmetric
from privledger_learners.scikit import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    check_is_fitted,
)


@frozen(eq=False)
class Components:
    """Released values only, in columns scaled to [-1, 1].

    Attributes:
        mean: shape (numbers,). directions: unit vectors, shape (components, numbers).
        variances: along them, not below zero, shape (components,). total: of all directions.
    """

    schema: pl.Schema
    mean: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    total: float


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _OfFeatures):
    """Differentially private principal components of the numeric features.

    Every column is scaled to [-1, 1] by its public bounds first, so components do not depend on
    units; a missing number stands in the middle. At most 62 columns.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_components: how many are kept, at most the numeric features; None for all.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        components_, explained_variance_, explained_variance_ratio_, mean_: as scikit-learn's, of
            the scaled columns. model_: released values only.
        noise_: standard deviation of the noise in an entry of the covariance matrix.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("pca", "principal components of one release of sums", "",
                          ("add_remove", "replace_one"), ())
    model_: Components
    model_records = (Components,)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        n_components: int | None = None,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        super().__init__(epsilon, delta, schema, relation=relation, mode=mode,
                         random_state=random_state, unaccounted=unaccounted)
        self.n_components = n_components

    def _asked(self, schema: pl.Schema) -> pl.questions.RowValues:
        names = numeric_features(schema)
        return pl.questions.RowValues(
            names, math.sqrt((len(names) + 1) * (len(names) + 2) / 2), "products")

    def _plan_of(self, schema: pl.Schema, noise: float) -> pl.Gaussian:
        many = len(self._asked(schema).names)
        if self.n_components is not None:
            check_count("n_components", self.n_components, 1, many)
        return pl.Gaussian(noise)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced, block = self._recipe(schema), self._asked(schema)
        sums = symmetric(np.ravel(self._granted(data, priced.plan, lambda session: session.release(
            priced.plan, data.query((block,), None, "sums of products")))))
        rows = max(float(sums[0, 0]), 20.0)
        mean = np.clip(sums[0, 1:] / rows, -1, 1)
        values, vectors = np.linalg.eigh(sums[1:, 1:] / rows - np.outer(mean, mean))
        order = np.argsort(values)[::-1][: self.n_components]
        directions = vectors.T[order]
        # A direction and its opposite are one: the largest entry is positive.
        largest = np.abs(directions).argmax(axis=1)[:, None]
        directions = directions * np.sign(np.take_along_axis(directions, largest, axis=1))
        self.model_ = Components(schema, mean, directions, np.maximum(values[order], 0.0),
                                 float(np.maximum(values, 0.0).sum()))
        self.noise_ = priced.noise * block.clip * self._change / rows

    def transform(self, X: object) -> np.ndarray:
        """Rows along the components, shape (n, components). Costs nothing."""
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        return along(X, self.model_.schema, self.model_.directions, self.model_.mean)

    def inverse_transform(self, X: np.ndarray) -> np.ndarray:
        """Back to the columns scaled to [-1, 1], shape (n, numbers)."""
        check_is_fitted(self, "model_")
        return np.asarray(np.asarray(X) @ self.model_.directions + self.model_.mean)

    @property
    def components_(self) -> np.ndarray:
        """Unit vectors, shape (components, numbers)."""
        check_is_fitted(self, "model_")
        return self.model_.directions

    @property
    def mean_(self) -> np.ndarray:
        """Of the scaled columns, shape (numbers,)."""
        check_is_fitted(self, "model_")
        return self.model_.mean

    @property
    def explained_variance_(self) -> np.ndarray:
        """Along each component, shape (components,)."""
        check_is_fitted(self, "model_")
        return self.model_.variances

    @property
    def explained_variance_ratio_(self) -> np.ndarray:
        """The same over the sum of all that are not negative."""
        return np.asarray(self.explained_variance_ / max(self.model_.total, 1e-12))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


__all__ = ["PrivatePCA"]
