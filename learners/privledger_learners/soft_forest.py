"""A forest on soft labels: class shares from answers of known likelihood, on public features."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor


def positive_shares(shares: np.ndarray) -> np.ndarray:
    """Rows that add up to one, no class ruled out."""
    held = np.maximum(shares, 0.0) + 1e-3
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def posterior(prior: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
    """Class shares of each record given its answer."""
    both = prior * likelihoods
    return np.asarray(both / both.sum(axis=1, keepdims=True))


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


@frozen(eq=False)
class Boughs:
    """A fitted forest as arrays, so that it can be kept in a file: its trees one after another.

    Attributes:
        roots: first node of each tree, shape (trees,).
        left, right: nodes below, -1 at a leaf; feature, threshold: at most goes left; each of
            shape (nodes,).
        values: shape (nodes, outputs).
    """

    roots: np.ndarray
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, forest: RandomForestRegressor) -> Boughs:
        """The trees of a forest that was fitted on a table without gaps."""
        trees = [one.tree_ for one in forest.estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
        left, right = (np.concatenate([
            np.where(side >= 0, side + start, -1).astype(np.int32)
            for side, start in zip(sides, starts, strict=True)])
            for sides in ([tree.children_left for tree in trees],
                          [tree.children_right for tree in trees]))
        return cls(starts.astype(np.int32), left, right,
                   np.concatenate([tree.feature for tree in trees]).astype(np.int32),
                   np.concatenate([tree.threshold for tree in trees]),
                   np.concatenate([tree.value[:, :, 0] for tree in trees]))

    def predict(self, table: np.ndarray) -> np.ndarray:
        """Mean of the trees' values, shape (n, outputs); the same as the forest's."""
        held = np.asarray(table, dtype=np.float32)  # as scikit-learn's trees see it
        total = np.zeros((len(held), self.values.shape[1]))
        for root in self.roots:
            at = np.full(len(held), root)
            going = np.flatnonzero(self.left[at] >= 0)
            while len(going):
                here = at[going]
                goes_left = held[going, self.feature[here]] <= self.threshold[here]
                at[going] = np.where(goes_left, self.left[here], self.right[here])
                going = going[self.left[at[going]] >= 0]
            total += self.values[at]
        return total / len(self.roots)


@define(eq=False)
class SoftForest:
    """Random forest regression on class shares, refined by its own out-of-bag opinion.

    Attributes:
        trees: of each forest. rounds: how often shares are estimated anew; the first round
            takes every class as equally likely beforehand.
        random_state: seed of the forest's public randomness, or None.
        boughs: the fitted forest. soft: what `fit` thinks of its own records; not kept.
    """

    trees: int
    rounds: int
    random_state: int | None = None
    boughs: Boughs | None = None
    soft: np.ndarray = field(init=False, factory=lambda: np.zeros((0, 0)))

    def fit(self, table: np.ndarray, likelihoods: np.ndarray) -> SoftForest:
        """Fit; afterwards `soft` holds the records' class shares given answer and features."""
        from sklearn.ensemble import RandomForestRegressor

        targets = first_guess(likelihoods)
        for _ in range(self.rounds):
            model = RandomForestRegressor(
                self.trees, min_samples_leaf=least_leaf(likelihoods), max_features=1 / 3,
                oob_score=True, random_state=self.random_state)
            with warnings.catch_warnings():
                # A record in every bag has no out-of-bag opinion; it counts as unknown below.
                warnings.simplefilter("ignore")
                model.fit(table, targets)
            guess = model.oob_prediction_.reshape(likelihoods.shape)
            targets = posterior(positive_shares(np.nan_to_num(guess, nan=0.0)), likelihoods)
        self.soft, self.boughs = targets, Boughs.of(model)
        return self

    def shares(self, table: np.ndarray) -> np.ndarray:
        """Class shares of other records, shape (n, classes)."""
        assert self.boughs is not None
        return positive_shares(self.boughs.predict(table))


def numbers(columns: Any, *, one_hot: bool) -> np.ndarray:
    """Features of every record, shape (n, columns); missing cells lie below all others.

    Args:
        columns: encoded features. one_hot: numbers scaled to [0, 1] by their public bounds and
            a column per category, as linear models need; else categories by position.
    """
    parts = []
    for column, array in zip(columns.schema.features, columns.arrays, strict=True):
        values = np.asarray(array, dtype=float)
        if column.kind == "numeric":
            scaled = (values - column.lower) / (column.upper - column.lower)
            parts.append(np.nan_to_num(scaled, nan=-1.0)[:, None])
        elif one_hot:
            parts.append((values[:, None] == np.arange(len(column.categories))).astype(float))
        else:
            parts.append(values[:, None])
    return np.concatenate(parts, axis=1)
