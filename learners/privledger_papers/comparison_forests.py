"""Forests of trees by a rule, for comparison rows. NOT PRIVATE."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from privledger_papers.comparison_trees import DEEPEST, Rule, Tree, grow


@define(eq=False)
class RuleForest:
    """Trees by one rule; their leaves' values are averaged.

    Attributes:
        trees: how many. least: records of every leaf. honest: half of the records of a tree
            shape it, the others fill its leaves. classes: the target is one of a few labels.
    """

    rule: Rule
    classes: bool
    trees: int = 100
    least: int = 5
    deepest: int = DEEPEST
    honest: bool = False
    classes_: np.ndarray = field(init=False, factory=lambda: np.zeros(0))
    grown: list[Tree] = field(init=False, factory=list)
    scale: np.ndarray = field(init=False, factory=lambda: np.ones(1))

    def fit(self, X: np.ndarray, y: np.ndarray) -> RuleForest:
        """Grow all trees on the same records, columns scaled to unit range."""
        rng = np.random.default_rng(0)
        if self.classes:
            self.classes_, codes = np.unique(y, return_inverse=True)
            T = np.eye(len(self.classes_))[codes]
        else:
            T = y.astype(float)[:, None]
        wide = np.ptp(X, axis=0)
        self.scale = np.where(wide > 0, wide, 1.0)
        self.grown = [grow(X / self.scale, T, self.rule, rng, least=self.least,
                           deepest=self.deepest, honest=self.honest) for _ in range(self.trees)]
        return self

    def _mean(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(sum(tree.values(X / self.scale) for tree in self.grown)
                          / len(self.grown))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels, or numbers."""
        found = self._mean(X)
        return self.classes_[found.argmax(axis=1)] if self.classes else found[:, 0]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Shares of classes, shape (n, classes)."""
        return self._mean(X)
