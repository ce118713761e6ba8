"""A forest on soft labels: class shares from answers of known likelihood."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from attrs import define, field
from sklearn.ensemble import RandomForestRegressor


def positive_shares(shares: np.ndarray) -> np.ndarray:
    """Rows that add up to one, no class ruled out."""
    held = np.maximum(shares, 0.0) + 1e-3
    return held / held.sum(axis=1, keepdims=True)


def posterior(prior: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
    """Class shares of each record given its answer."""
    both = prior * likelihoods
    return both / both.sum(axis=1, keepdims=True)


def first_guess(likelihoods: np.ndarray) -> np.ndarray:
    """Targets before anything is known: without bias where all answered among all classes.

    Such an answer is the class with chance a and each other one with b, a + (k - 1) b = 1, so
    (one-hot - b) / (a - b) is the class on average. A list of candidates has no such estimate:
    there every class is taken as equally likely beforehand.
    """
    if not np.isclose(likelihoods.sum(axis=1), 1.0).all():
        return posterior(np.ones(likelihoods.shape), likelihoods)
    low = likelihoods.min(axis=1, keepdims=True)
    span = likelihoods.max(axis=1, keepdims=True) - low
    found: np.ndarray = ((likelihoods - low) / span - low) / span
    return found


def least_leaf(likelihoods: np.ndarray) -> int:
    """Records per leaf: the less an answer says, the more of them; from 3 to 200."""
    spread = likelihoods.max(axis=1) - likelihoods.min(axis=1)
    return int(np.clip(round(2.5 / max(float(spread.min()), 1e-9)), 3, 200))


@define(eq=False)
class SoftForest:
    """Random forest regression on class shares, refined by its own out-of-bag opinion.

    Attributes:
        trees: of each forest. rounds: how often shares are estimated anew; the first round
            takes every class as equally likely beforehand.
        random_state: seed of the forest's public randomness, or None.
    """

    trees: int
    rounds: int
    random_state: int | None = None
    soft: np.ndarray = field(init=False, factory=lambda: np.zeros((0, 0)))
    _model: Any = field(init=False, default=None)

    def fit(self, table: np.ndarray, likelihoods: np.ndarray) -> SoftForest:
        """Fit; afterwards `soft` holds the records' class shares given answer and features."""
        targets = first_guess(likelihoods)
        for _ in range(self.rounds):
            self._model = RandomForestRegressor(
                self.trees, min_samples_leaf=least_leaf(likelihoods), max_features=1 / 3,
                oob_score=True, random_state=self.random_state)
            with warnings.catch_warnings():
                # A record in every bag has no out-of-bag opinion; it counts as unknown below.
                warnings.simplefilter("ignore")
                self._model.fit(table, targets)
            guess = self._model.oob_prediction_.reshape(likelihoods.shape)
            targets = posterior(positive_shares(np.nan_to_num(guess, nan=0.0)), likelihoods)
        self.soft = targets
        return self

    def shares(self, table: np.ndarray) -> np.ndarray:
        """Class shares of other records, shape (n, classes)."""
        found: np.ndarray = positive_shares(self._model.predict(table).reshape(len(table), -1))
        return found
