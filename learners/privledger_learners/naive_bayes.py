"""Naive Bayes and nearest centroid: sums of the features in every class, asked once.

A number is Gaussian in each class, a category multinomial, and features are independent given the
class (Bishop, Pattern Recognition and Machine Learning, section 8.2.2). Nearest centroid has one
spread for all classes and no priors (Hastie, Tibshirani, Friedman, section 18.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.estimator import LabelClassifier
from privledger_learners.guarding import note_features
from privledger_learners.released_sums import _OfSums, numeric_features, scaled_numbers
from privledger_learners.scikit import check_is_fitted


@frozen(eq=False)
class ClassMoments:
    """Released values only, class by class.

    Attributes:
        base: log of the prior, shape (classes,). means, spreads: mean and variance of every
            number on [-1, 1], shape (classes, numbers).
        tables: what a category adds to the log of a class, shape (classes, categories of all).
    """

    schema: pl.Schema
    base: np.ndarray
    means: np.ndarray
    spreads: np.ndarray
    tables: np.ndarray

    def logs(self, X: object) -> np.ndarray:
        """Log of every class of every row, but for a constant, shape (n, classes). A missing
        value adds nothing."""
        numbers = scaled_numbers(X, self.schema)
        found = np.tile(self.base, (len(numbers), 1))
        for column, mean, spread in zip(numbers.T, self.means.T, self.spreads.T, strict=True):
            found += np.nan_to_num(-np.square(column[:, None] - mean) / (2 * spread)
                                   - np.log(spread) / 2, nan=0.0)
        held, place = pl.encode_features(X, self.schema, strict=False), 0
        for codes, feature in zip(held.arrays, self.schema.features, strict=True):
            many = len(feature.categories) if feature.kind == "categorical" else 0
            for code in range(many):
                found[codes == code] += self.tables[:, place + code]
            place += many
        return found


class _FromClassSums(LabelClassifier, _OfSums):
    """Shared by both; see their docstrings. Attributes: model_: released values only."""

    model_: ClassMoments
    model_records = (ClassMoments,)
    floors: Mapping[str, float] = {"classification": 20.0}

    def _blocks(self, schema: pl.Schema) -> list[pl.questions.RowValues
                                                 | pl.questions.LinearGradient]:
        """(1, numbers, squares), and one column for each category and a one: no row is longer
        than its clip."""
        numbers = numeric_features(schema)
        listed = [column for column in schema.features if column.kind == "categorical"]
        found: list[pl.questions.RowValues | pl.questions.LinearGradient] = []
        if numbers:
            found.append(pl.questions.RowValues(numbers, math.sqrt(1 + 2 * len(numbers)),
                                                "squares"))
        if listed:
            many, reach = len(listed), math.sqrt(1 + len(listed))
            found.append(pl.questions.LinearGradient(pl.questions.RowEncoding(
                [column.name for column in listed], [len(one.categories) for one in listed],
                np.zeros(many), np.ones(many), [False] * many, reach=reach), reach))
        return found

    def _plan_of(self, schema: pl.Schema, noise: float) -> pl.Gaussian:
        squares = [block.clip**2 for block in self._blocks(schema)]  # equal noise everywhere
        shares = tuple(one / sum(squares) * (1 - 1e-12) for one in squares)
        return pl.Gaussian(noise, shares=shares if len(shares) > 1 else ())

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced, blocks = self._recipe(schema), self._blocks(schema)
        found = self._granted(data, priced.plan, lambda session: session.release(
            priced.plan, data.query(blocks, data.cells(schema.target.name), "sums in classes")))
        sums = [np.asarray(one) for one in (found if len(blocks) > 1 else [found])]
        noise = priced.noise * self._change * math.sqrt(sum(one.clip**2 for one in blocks))
        many = len(numeric_features(schema))
        found_counts = np.mean([one[:, 0 if place < (many > 0) else -1]
                                for place, one in enumerate(sums)], axis=0)
        counts = np.maximum(found_counts, 0.0)
        numbers = sums[0][:, 1:] if many else np.zeros((len(counts), 0))
        listed = sums[-1][:, :-1] if len(blocks) > (many > 0) else np.zeros((len(counts), 0))
        self.fell_back_ = self._hopeless(schema, float(found_counts.sum()))
        self.model_ = self._model(schema, counts, numbers[:, :many], numbers[:, many:], listed,
                                  noise)
        if self.fell_back_:
            self.model_ = evolve(self.model_, means=0 * self.model_.means,
                                 spreads=np.ones_like(self.model_.means),
                                 tables=0 * self.model_.tables)

    def _model(self, schema: pl.Schema, counts: np.ndarray, sums: np.ndarray,
               squares: np.ndarray, listed: np.ndarray, noise: float) -> ClassMoments:
        raise NotImplementedError

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        many, classes = len(numeric_features(data.schema)), len(shares)
        listed = sum(len(column.categories) for column in data.schema.features)
        self.model_ = ClassMoments(data.schema, np.log(shares), np.zeros((classes, many)),
                                   np.ones((classes, many)), np.zeros((classes, listed)))

    def _shares(self, X: object) -> np.ndarray:
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        return np.asarray(pl.questions.probabilities("softmax", self.model_.logs(X)))


class NaiveBayesClassifier(_FromClassSums):
    """Differentially private naive Bayes for numbers and categories, from one release.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        model_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("naive-bayes-classifier", "naive Bayes from one release of sums", "",
                          ("add_remove", "replace_one"), ("classification",))

    def _model(self, schema: pl.Schema, counts: np.ndarray, sums: np.ndarray,
               squares: np.ndarray, listed: np.ndarray, noise: float) -> ClassMoments:
        filled = np.maximum(counts, noise)[:, None]
        means = np.clip(sums / filled, -1.0, 1.0)
        within = spread_within(filled, means, squares, noise)
        # The noisier a class's own spread, the more that of all classes counts.
        own = within**2 / (within**2 + (noise / filled) ** 2)
        spreads = own * np.maximum(squares / filled - means**2, 0.1 * within) + (1 - own) * within
        tables = np.zeros_like(listed)
        for place, many in categories_of(schema):
            part = np.maximum(listed[:, place : place + many], 0.0) + 1 + noise
            tables[:, place : place + many] = np.log(part / part.sum(axis=1, keepdims=True))
        return ClassMoments(schema, np.log(counts + 1 + noise), means, spreads, tables)


class NearestCentroidClassifier(_FromClassSums):
    """Differentially private nearest centroid; parameters as `NaiveBayesClassifier`.

    Distances are in standard deviations within classes; a category is a column of zeros and ones.
    """

    info = pl.LearnerInfo("nearest-centroid-classifier", "nearest centroid from one release of "
                          "sums", "", ("add_remove", "replace_one"), ("classification",))

    def _model(self, schema: pl.Schema, counts: np.ndarray, sums: np.ndarray,
               squares: np.ndarray, listed: np.ndarray, noise: float) -> ClassMoments:
        filled = np.maximum(counts, noise)[:, None]
        n = float(filled.sum())
        means = np.clip(sums / filled, -1.0, 1.0)
        shares = np.clip(listed / filled, 0.0, 1.0)
        apart = (filled * shares * (1 - shares)).sum(axis=0) / n
        apart += noise * math.sqrt(len(counts)) / n + 1e-3
        # |x - m|^2 of zeros and ones is m^2 in all and 1 - 2 m at the one.
        base = -(shares**2 / apart).sum(axis=1) / 2
        return ClassMoments(schema, base, means, np.tile(
            spread_within(filled, means, squares, noise), (len(counts), 1)),
            (2 * shares - 1) / (2 * apart))


def spread_within(filled: np.ndarray, means: np.ndarray, squares: np.ndarray,
                  noise: float) -> np.ndarray:
    """Variance of every number within classes, over all of them, not below what noise leaves
    unknown; shape (numbers,)."""
    n = float(filled.sum())
    found = (squares.sum(axis=0) - (filled * means**2).sum(axis=0)) / n
    return np.asarray(np.maximum(found, noise * math.sqrt(len(filled)) / n + 1e-4))


def categories_of(schema: pl.Schema) -> list[tuple[int, int]]:
    """First column and number of columns of every categorical feature, side by side."""
    found, place = [], 0
    for column in schema.features:
        if column.kind == "categorical":
            found.append((place, len(column.categories)))
            place += len(column.categories)
    return found


__all__ = ["NaiveBayesClassifier", "NearestCentroidClassifier"]
