"""A private score: a coin holds records out, and how a fitted model does on them is released.

Price and law: docs/proofs/score.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from attrs import field, frozen

from privledger.accounting import Relation, check_relation
from privledger.errors import InvalidValue, PrivledgerError, RelationMismatch
from privledger.graph import Node, Parallel, calibrate, epsilon
from privledger.graph.additive import Gaussian, Laplace
from privledger.plugins.intervals import (
    MOMENTS,
    NORMAL,
    Floats,
    Shares,
    entry_sd,
    mean_intervals,
)
from privledger.rounding import number, positive
from privledger.tables.schema import Schema

if TYPE_CHECKING:
    from privledger.guard.dataset import Dataset

WHY = "a fitted model's predict treats every row alone"
FINEST = 1000
Model: TypeAlias = Any
"""A learner, of any package: with `plan`, `fit` and `predict`."""


@frozen
class Estimate:
    """One figure of a private score, with two intervals, both of 95 %.

    Attributes:
        name: `accuracy`, `rmse` or `mae` (the latter two in the target's own unit).
        value: from released sums. noise: low and high, of the noise alone: where the figure of
            these very held-out records lies. both: of noise and sample: where that of all such
            records lies; approximate for few records. None where nothing can be said.
    """

    name: str
    value: float
    noise: tuple[float, float] | None
    both: tuple[float, float] | None


@frozen
class PrivateScore:
    """What a private score says of a fitted model.

    Attributes:
        estimates: the figures. records: about how many were held out; a released number.
        share: of the records, that were held out. epsilon: of the score alone.
    """

    estimates: tuple[Estimate, ...]
    records: float
    share: float
    epsilon: float

    def as_dict(self) -> dict[str, object]:
        """The score and its intervals as JSON values."""
        return {"holdout": self.share, "epsilon": self.epsilon, "records_about": self.records,
                "scores": {one.name: {"value": one.value, "noise": one.noise,
                                      "noise_and_sample": one.both} for one in self.estimates}}


@frozen
class Holdout:
    """Which share of records is held out for a private score, and what that may cost.

    Attributes:
        share: of the records, or people, by a private coin each; a fraction of 1,000ths at most.
        epsilon: of the score, at the fit's delta; None for as much as the fit's, which costs
            nothing beside it under add_remove.
    """

    share: float = field(default=0.2)
    epsilon: float | None = None

    def __attrs_post_init__(self) -> None:
        number("holdout", self.share)
        if not 1 / FINEST <= self.share <= 1 - 1 / FINEST:
            raise InvalidValue("holdout", self.share, "a share from 0.001 to 0.999")
        if self.epsilon is not None:
            positive("holdout epsilon", self.epsilon)

    @staticmethod
    def of(value: object) -> Holdout:
        """A share, or a `Holdout` as it is."""
        return value if type(value) is Holdout else Holdout(number("holdout", value))

    @property
    def weights(self) -> tuple[int, int]:
        """Of the coin: training, held out."""
        held = Fraction(self.share).limit_denominator(FINEST)
        return held.denominator - held.numerator, held.numerator

    def plan(self, learner: Model, schema: Schema, relation: str | None = None) -> Parallel:
        """What `fit` reserves: the learner's own plan on one part, the score on the other."""
        known = check_relation(relation or getattr(learner, "relation", "add_remove"))
        if known == "replace_label":
            raise RelationMismatch("a private score holds records out, and a learner of labels "
                                   "works on all of them: score it on public rows")
        plan, delta = learner.plan(schema), float(getattr(learner, "delta", 0.0))
        return Parallel([plan, self._leaf(plan, delta, known)], certificate="iid_per_record")

    def _leaf(self, plan: Node, delta: float, relation: Relation) -> Node:
        """Noise for shares of right and wrong, of L1 norm 1: Laplace beside a pure fit, else
        Gaussian, which is what such a fit is made of."""
        pure = _price(plan, 0.0, relation)
        asked = self.epsilon or (pure if math.isfinite(pure) else _price(plan, delta, relation))
        if math.isfinite(pure):
            moved = 1.0 if relation == "add_remove" else 2.0
            return Laplace(moved / asked * (1 + 2.0**-50), moved)
        return Gaussian(calibrate(Gaussian, asked, delta, relation))

    def fit(self, learner: Model, data: Dataset, *, fit: Callable[[Dataset], Model] | None = None,
            **named: Any) -> tuple[Model, PrivateScore]:
        """Fit on one part, score on the other, under one grant.

        Args:
            learner: with `plan`, `fit`, `predict`. data: a guarded table.
            fit: in place of the learner's own `fit`. named: as in `Ledger.request`.

        Returns:
            The fitted learner, and its score.
        """
        schema, delta = data.schema, float(getattr(learner, "delta", 0.0))
        from privledger.questions.blocks import CustomValue  # a list of learners needs none

        # Refuse what could be fitted and not scored, before anything is reserved.
        if data.unlabelled:
            raise InvalidValue("holdout", "given", "left out where records may lack a label")
        if not hasattr(learner, "predict"):
            raise InvalidValue("holdout", "given", "left out for a learner that predicts nothing")
        node = self.plan(learner, schema, data.ledger.relation)
        figures = FIGURES[schema.task]
        with data.ledger.request(node, data, learner=learner.info.name, delta=delta,
                                 **named) as session:
            parts = data.partition(self.weights)
            found = (fit or learner.fit)(session.within(node, parts[0]))
            fitted = learner if found is None else found
            block = CustomValue(Goodness(fitted, schema), 1.0, WHY, len(figures[0].shares.values))
            sums = session.release(node.nodes[1], parts[1].query((block,), None, "private score"))
        for name, value in (("ledger_", data.ledger), ("data_", data),
                            ("receipt_", session.receipt)):
            if hasattr(fitted, name):
                setattr(fitted, name, value)
        spent = _price(node.nodes[1], delta, check_relation(data.ledger.relation))
        told = np.asarray(sums, dtype=np.float64)
        noise = score_noise(node.nodes[1], data.ledger.relation)
        return fitted, PrivateScore(
            tuple(one.estimate(told, schema, noise) for one in figures),
            float(told.sum()), self.weights[1] / sum(self.weights), spent)


def _price(node: Node, delta: float, relation: Relation) -> float:
    try:
        return epsilon(node, delta, relation)
    except PrivledgerError:
        return math.inf


@frozen(eq=False)
class Goodness:
    """Shares of every row, at least 0 and together 1: (right, wrong) for a class; for a number
    (u^2, 2u(1-u), (1-u)^2), u the error over the width of the target's public range.

    A class of a module: the rows may be in another process, which has to load it.
    """

    model: Model
    schema: Schema

    def __call__(self, columns: dict[str, Any]) -> Floats:
        """Shape (n_records, width)."""
        target = self.schema.target
        found = np.asarray(self.model.predict(decoded(columns, self.schema)))
        truth = columns[target.name]
        if self.schema.task == "classification":
            labels = np.array([str(label) for label in target.categories])
            right = found.astype(str) == labels[truth.astype(int)]
            return np.stack([right, ~right], axis=1).astype(np.float64)
        off = np.clip(np.abs(found - truth) / (target.upper - target.lower), 0.0, 1.0)
        return np.stack([off**2, 2 * off * (1 - off), (1 - off) ** 2], axis=1)


def decoded(columns: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Columns as `predict` takes them: categories by name, None where a cell is missing."""
    found = {}
    for column in schema.features:
        values = columns[column.name]
        if column.kind == "categorical":
            names = np.array([*column.categories, None], dtype=object)
            values = names[np.asarray(values, dtype=int)]  # a missing cell is position -1
        found[column.name] = np.asarray(values)
    return found


def score_noise(leaf: Node, relation: str) -> tuple[float, str]:
    """Scale and kind of the noise that one sum of shares was released with."""
    if isinstance(leaf, Laplace):
        return leaf.scale, "laplace"
    assert isinstance(leaf, Gaussian)
    return leaf.noise_multiplier * (1.0 if relation == "add_remove" else 2.0), "gaussian"


@frozen
class ScoreFigure:
    """One mean of shares, what it is called, and how it is shown."""

    name: str
    shares: Shares
    scaled: Callable[[float, Schema], float] = lambda share, _: share

    def estimate(self, sums: Floats, schema: Schema, noise: tuple[float, str]) -> Estimate:
        """From released sums; without intervals if there may have been no record at all."""
        some = float(sums.sum()) > NORMAL * entry_sd(*noise) * math.sqrt(len(sums))
        ends = []
        for sampling in (False, True):
            (share,), (low,), (high,) = mean_intervals(sums[None, :], *noise, sampling=sampling,
                                                       shares=self.shares)
            ends.append((self.scaled(float(low), schema), self.scaled(float(high), schema))
                        if some else None)
        return Estimate(self.name, self.scaled(float(share), schema), *ends)


def _of_range(share: float, schema: Schema) -> float:
    return share * float(schema.target.upper - schema.target.lower)


FIGURES = {
    "classification": (
        ScoreFigure("accuracy", Shares((1.0, 0.0),
                                       lambda m: np.stack([(1 - m)**2, m**2], axis=1))),),
    "regression": (
        # u^4 <= u^2: an upper bound of the spread of squared errors.
        ScoreFigure("rmse", Shares((1.0, 0.0, 0.0),
                                   lambda m: np.stack([(1 - m)**2, m**2, m**2], axis=1)),
                    lambda share, schema: _of_range(math.sqrt(share), schema)),
        ScoreFigure("mae", MOMENTS, _of_range))}
