"""Where a model would be noise: all of epsilon for the prior, or for the mean of the target.

Whether that is so follows from public facts before the fit, or from a row count that was bought;
docs/which-learner.md has the figures behind the two numbers.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.trees.grow import laplace

Relation = Literal["add_remove", "replace_one", "replace_label"]


@frozen
class Floor:
    """A fit that asks one thing: how large the classes are, or what the mean is.

    Attributes:
        plan: one release, of the histogram of the target or of the sums of (t, 1 - t): both
            move by at most 1 as a record comes, in either norm.
        why: a sentence for the reader of the model.
    """

    schema: pl.Schema
    relation: Relation
    plan: pl.Laplace | pl.Gaussian
    why: str

    @classmethod
    def pure(cls, schema: pl.Schema, relation: Relation, epsilon: float, why: str) -> Floor:
        """All of a pure epsilon."""
        return cls(schema, relation, laplace(epsilon, relation, cells=True), why)

    @classmethod
    def gaussian(cls, schema: pl.Schema, relation: Relation, epsilon: float, delta: float,
                 why: str) -> Floor:
        """In the currency of learners whose plan is Gaussian noise alone."""
        return cls(schema, relation,
                   pl.Gaussian(pl.calibrate(pl.Gaussian, epsilon, delta, relation)), why)

    def shares(self, session: pl.Session, data: pl.Dataset) -> np.ndarray:
        """Class shares in the schema's order, shape (classes,); or of a number scaled to [0, 1]
        by its bounds, shape (1,)."""
        if self.schema.task == "classification":
            held = session.release(self.plan, data.histogram(self.schema.target.name))
        else:
            held = session.release(self.plan, data.query(
                (pl.questions.TargetShares(),), None, "mean of the target"))
        # A little of the noise everywhere: where there is nothing else, shares are even.
        filled = np.maximum(np.asarray(held, dtype=float).ravel(), 0.0) + 0.1 * self._spread
        shares = filled / filled.sum()
        return np.asarray(shares if self.schema.task == "classification" else shares[:1])

    @property
    def _spread(self) -> float:
        return float(self.plan.scale if isinstance(self.plan, pl.Laplace)
                     else self.plan.noise_multiplier)

    def claimed(self, delta: float) -> tuple[pl.ClaimStep, ...]:
        """No paper falls back: the sound cost of one release."""
        return (pl.ClaimStep("everything", "not from a paper", None,
                             pl.epsilon(self.plan, delta, self.relation), delta, self.why),)
