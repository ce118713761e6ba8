"""Linear regression from noisy sums of products, with intervals that include the noise.

The normal equations A b = c of (1, columns, target) are released once. Errors of the noise in A and
c go to the coefficients in first order (Fuller, Measurement Error Models, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.boosting.sum_of_trees import scaling
from privledger_learners.estimator import check_number
from privledger_learners.guarding import note_features
from privledger_learners.released_sums import _OfSums, along, symmetric
from privledger_learners.scikit import RegressorMixin, check_is_fitted

FAR = 4.0
"""Equations are solved as they are where their smallest eigenvalue is so many times the noise."""


@frozen(eq=False)
class NormalEquations:
    """Released values only, in columns and target scaled to [-1, 1], the constant first.

    Attributes:
        weights: shape (1 + features,). covariance: of their errors; all infinite where noise was
            too large for one. noise_covariance: the noise's part of it.
    """

    schema: pl.Schema
    weights: np.ndarray
    covariance: np.ndarray
    noise_covariance: np.ndarray


def solved(gram: np.ndarray, cross: np.ndarray, square: float,
           noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, covariance of their errors, the noise's part of it.

    Args:
        gram, cross, square: X'X, X'y and y'y, each entry with noise of standard deviation `noise`.
    """
    many, rows = len(cross), max(float(gram[0, 0]), 1.0)
    values, vectors = np.linalg.eigh(gram)
    least = FAR * noise * math.sqrt(many)
    if values[0] < least:  # directions that hold little but noise are shrunk to zero
        middle = gram[0] / rows
        inner = gram - rows * np.outer(middle, middle)
        values, vectors = np.linalg.eigh(inner[1:, 1:])
        kept = np.maximum(values, 0.0)
        slopes = vectors @ (kept / (kept**2 + least**2 + 1e-9) * (
            vectors.T @ (cross - cross[0] * middle)[1:]))
        start = float(np.clip(cross[0] / rows, -1, 1)) - float(middle[1:] @ slopes)
        unknown = np.full((many, many), math.inf)
        return np.concatenate([[start], slopes]), unknown, unknown
    inverse = (vectors / values) @ vectors.T
    weights = inverse @ cross
    left = max(square - 2 * float(weights @ cross) + float(weights @ gram @ weights), 0.0)
    # Noise of A b - c: entries of A are symmetric, so two equations share one of them.
    shared = np.outer(weights, weights)
    of_noise = noise**2 * ((1 + weights @ weights) * np.eye(many) + shared - np.diag(
        np.diag(shared)))
    by_noise = inverse @ of_noise @ inverse
    return weights, by_noise + left / max(rows - many, 1.0) * inverse, by_noise


class LeastSquaresRegressor(RegressorMixin, _OfSums):
    """Differentially private linear regression on numeric columns, from one release.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        coef_, intercept_: in the units of the columns. standard_errors_: of the intercept and
            the coefficients; infinite where noise was too large. model_: released values only.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("least-squares-regressor", "linear regression from one release of sums",
                          "", ("add_remove", "replace_one"), ("regression",))
    model_: NormalEquations
    model_records = (NormalEquations,)
    floors: Mapping[str, float] = {"regression": 50.0}

    def _plan_of(self, schema: pl.Schema, noise: float) -> pl.Gaussian:
        for column in schema.features:
            if column.kind != "numeric":
                raise pl.SchemaError(f"column {column.name!r} is not numeric: take "
                                     "LinearRegressor, or data.select(...) the numeric columns")
        self._asked(schema)
        return pl.Gaussian(noise)

    def _asked(self, schema: pl.Schema) -> pl.questions.RowValues:
        many = len(schema.features) + 1
        return pl.questions.RowValues([*(column.name for column in schema.features), ""],
                                      math.sqrt((many + 1) * (many + 2) / 2), "products")

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced, block = self._recipe(schema), self._asked(schema)
        sums = symmetric(np.ravel(self._granted(data, priced.plan, lambda session: session.release(
            priced.plan, data.query((block,), None, "sums of products")))))
        self.fell_back_ = self._hopeless(schema, float(sums[0, 0]))
        self.model_ = NormalEquations(schema, *solved(
            sums[:-1, :-1], sums[:-1, -1], float(sums[-1, -1]),
            priced.noise * self._change * block.clip))
        if self.fell_back_:
            mean = float(np.clip(sums[0, -1] / max(sums[0, 0], 50.0), -1, 1))
            self._settle_for(np.array([(1 + mean) / 2]), data)

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        many = len(data.schema.features) + 1
        unknown = np.full((many, many), math.inf)
        self.model_ = NormalEquations(data.schema, np.concatenate(
            [2 * shares - 1, np.zeros(many - 1)]), unknown, unknown)

    def predict(self, X: object) -> np.ndarray:
        """Predictions in the target's unit, within its bounds, shape (n,). Costs nothing."""
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        weights, (middle, half) = self.model_.weights, scaling(self.model_.schema)
        found = weights[0] + along(X, self.model_.schema, weights[None, 1:])[:, 0]
        return np.asarray(middle + half * np.clip(found, -1, 1))

    def _in_units(self) -> tuple[np.ndarray, np.ndarray]:
        """Offset, and the matrix that takes weights to intercept and coefficients."""
        check_is_fitted(self, "model_")
        schema, (middle, half) = self.model_.schema, scaling(self.model_.schema)
        turn = np.diag([half, *(2 * half / (one.upper - one.lower) for one in schema.features)])
        turn[0, 1:] = [-half * (one.upper + one.lower) / (one.upper - one.lower)
                       for one in schema.features]
        return np.array([middle] + [0.0] * len(schema.features)), turn

    @property
    def coef_(self) -> np.ndarray:
        """Change of the target per unit of each column, shape (features,)."""
        _, turn = self._in_units()
        return np.asarray((turn @ self.model_.weights)[1:])

    @property
    def intercept_(self) -> float:
        """The prediction where every column is zero."""
        offset, turn = self._in_units()
        return float((offset + turn @ self.model_.weights)[0])

    @property
    def standard_errors_(self) -> np.ndarray:
        """Of the intercept and the coefficients, those of records and of noise together, shape
        (1 + features,)."""
        return self._errors(self.model_.covariance)

    def _errors(self, covariance: np.ndarray) -> np.ndarray:
        _, turn = self._in_units()
        if not np.isfinite(covariance).all():
            return np.full(len(turn), math.inf)
        return np.asarray(np.sqrt(np.maximum(np.diag(turn @ covariance @ turn.T), 0.0)))

    @property
    def noise_errors_(self) -> np.ndarray:
        """The noise's part of `standard_errors_`: what a larger epsilon would take away."""
        return self._errors(self.model_.noise_covariance)

    def intervals(self, confidence: float = 0.95) -> np.ndarray:
        """Intervals of the intercept and the coefficients, shape (1 + features, 2).

        They hold for the line that fits the population best, to first order in the noise;
        records are taken as independent, with errors of one size.
        """
        from scipy.special import ndtri

        check_number("confidence", confidence, 0.0, 1 - 1e-9)
        middle = np.array([self.intercept_, *self.coef_])[:, None]
        reach = float(ndtri((1 + confidence) / 2)) * self.standard_errors_
        return np.asarray(middle + np.outer(reach, [-1.0, 1.0]))


__all__ = ["LeastSquaresRegressor"]
