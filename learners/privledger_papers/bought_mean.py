"""DPMean of paper 003: a noisy sum over a noisy count, for every row."""

from __future__ import annotations

import numpy as np
from attrs import define, field

import privledger as pl
from privledger_papers.tasks import Features


@define(eq=False)
class BoughtMean:
    """Predicts the target's mean, bought for epsilon under add-or-remove.

    Attributes:
        ledger_: what was charged. mean: in the target's unit.
    """

    epsilon: float
    schema: pl.Schema
    ledger_: pl.Ledger = field(init=False)
    mean: float = field(init=False, default=0.0)

    def fit(self, X: Features, y: np.ndarray) -> BoughtMean:
        """Sums of (t, 1 - t), t the target scaled to [0, 1]: a record adds one to both."""
        self.ledger_ = pl.Ledger.create(None, budget=pl.Budget(self.epsilon, 0.0))
        data = self.ledger_.protect(X, y, self.schema)
        noise = pl.Laplace(pl.calibrate(pl.Laplace, self.epsilon, 0.0))
        with self.ledger_.request(noise, data, learner="dp-mean") as session:
            held = session.release(noise, data.query(
                (pl.questions.TargetShares(),), None, "mean of the target"))
        part = np.maximum(np.asarray(held, dtype=float).ravel(), 0.5)
        low, high = self.schema.target.lower, self.schema.target.upper
        self.mean = float(low + (high - low) * part[0] / part.sum())
        return self

    def predict(self, X: Features) -> np.ndarray:
        """The same number for every row, shape (n,)."""
        first = X if isinstance(X, np.ndarray) else next(iter(X.values()))
        return np.full(len(first), self.mean)
