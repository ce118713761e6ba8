"""A private score: a coin holds records out, and how a fitted model does on them is released.

Price and law: docs/proofs/score.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from attrs import field, frozen

from privledger.accounting import Relation, check_relation
from privledger.errors import InvalidValue, PrivledgerError, RelationMismatch
from privledger.graph import Node, Parallel, calibrate, epsilon
from privledger.graph.additive import Gaussian, Laplace
from privledger.ledger.events import Estimate, PrivateScore
from privledger.plugins.intervals import (
    MOMENTS,
    NORMAL,
    Floats,
    Shares,
    area_intervals,
    entry_sd,
    mean_intervals,
)
from privledger.rounding import number, positive
from privledger.tables.schema import Schema

if TYPE_CHECKING:
    from privledger.guard.dataset import Dataset

WHY = "a fitted model's predict treats every row alone"
FINEST = 1000
MOST_CLASSES, MOST_LISTED = 1000, 20
"""Classes that are told apart, and that have figures of their own."""
Model: TypeAlias = Any
"""A learner, of any package: with `plan`, `fit` and `predict`."""


@frozen
class Holdout:
    """Which share of records is held out for a private score, and what that may cost.

    Attributes:
        share: of the records, or people, by a private coin each; a fraction of 1,000ths at most.
        epsilon: of the score, at the fit's delta; None for as much as the fit's, which costs
            nothing beside it under add_remove.
        detail: of a classifier, buy counts by true class, by whether it was right, and with two
            classes by how probable it called its answer: recalls, balanced accuracy, precisions
            and the area under the ROC curve, from the one release. False: accuracy alone, with
            less noise. None: detail, unless the schema's own number of rows says that its noise
            would be more than the spread of the sample.
    """

    share: float = field(default=0.2)
    epsilon: float | None = None
    detail: bool | None = None

    def __attrs_post_init__(self) -> None:
        number("holdout", self.share)
        if not 1 / FINEST <= self.share <= 1 - 1 / FINEST:
            raise InvalidValue("holdout", self.share, "a share from 0.001 to 0.999")
        if self.epsilon is not None:
            positive("holdout epsilon", self.epsilon)
        if self.detail is not None and type(self.detail) is not bool:
            raise InvalidValue("detail", self.detail, "True, False or None")

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
        with data.ledger.request(node, data, learner=learner.info.name, delta=delta,
                                 **named) as session:
            parts = data.partition(self.weights)
            found = (fit or learner.fit)(session.within(node, parts[0]))
            fitted = learner if found is None else found
            noise = score_noise(node.nodes[1], data.ledger.relation)
            goodness = Goodness(fitted, schema, *self._layout(fitted, schema, noise))
            block = CustomValue(goodness, 1.0, WHY, goodness.width)
            sums = session.release(node.nodes[1], parts[1].query((block,), None, "private score"))
            told = np.asarray(sums, dtype=np.float64).ravel()
            score = PrivateScore(goodness.estimates(told, noise), float(told.sum()),
                                 self.weights[1] / sum(self.weights),
                                 _price(node.nodes[1], delta, check_relation(
                                     data.ledger.relation)))
            session.note_score(score)
        for name, value in (("ledger_", data.ledger), ("data_", data),
                            ("receipt_", session.receipt)):
            if hasattr(fitted, name):
                setattr(fitted, name, value)
        return fitted, score

    def _layout(self, model: Model, schema: Schema, noise: tuple[float, str]) -> tuple[bool, int]:
        """Whether classes are told apart, and how many intervals half of the probabilities of two
        classes have. Of public facts: any choice costs the same."""
        classes = len(schema.target.categories) if schema.task == "classification" else 0
        if not 2 <= classes <= MOST_CLASSES or self.detail is False:
            return False, 1
        rows = None if schema.declared_rows is None else schema.declared_rows * self.share
        halves = 1
        if classes == 2 and hasattr(model, "predict_proba"):
            halves = 4 if rows is None else round(min(max(
                math.sqrt(rows / entry_sd(*noise)) / 6, 2), 16))
        wide = entry_sd(*noise) * math.sqrt(classes * halves)
        if self.detail is None and rows is not None and wide > math.sqrt(rows) / 2:
            return False, 1
        return True, halves


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

    Attributes:
        detail: one place for each class, right or wrong, and interval of probability.
        halves: intervals of the probability of what a model of two classes predicts.
    """

    model: Model
    schema: Schema
    detail: bool = False
    halves: int = 1

    @property
    def width(self) -> int:
        """Numbers of a row."""
        if self.detail:
            return 2 * self.halves * len(self.schema.target.categories)
        return 2 if self.schema.task == "classification" else 3

    def __call__(self, columns: dict[str, Any]) -> Floats:
        """Shape (n_records, width)."""
        target, rows = self.schema.target, decoded(columns, self.schema)
        found = np.asarray(self.model.predict(rows))
        truth = columns[target.name]
        if self.schema.task == "classification":
            labels = np.array([str(label) for label in target.categories])
            wrong = found.astype(str) != labels[truth.astype(int)]
            place = 2 * truth.astype(int) + wrong if self.detail else wrong.astype(int)
            if self.halves > 1:
                sure = np.max(np.asarray(self.model.predict_proba(rows), dtype=float), axis=1)
                cell = np.nan_to_num(self.halves * (2 * sure - 1)).astype(int)
                place = place * self.halves + np.clip(cell, 0, self.halves - 1)
            return np.asarray(np.eye(self.width)[place])
        off = np.clip(np.abs(found - truth) / (target.upper - target.lower), 0.0, 1.0)
        return np.stack([off**2, 2 * off * (1 - off), (1 - off) ** 2], axis=1)

    def estimates(self, sums: Floats, noise: tuple[float, str]) -> tuple[Estimate, ...]:
        """Every figure that the released sums say, with its intervals."""
        if not self.detail:
            return tuple(one.estimate(sums, self.schema, noise)
                         for one in FIGURES[self.schema.task])
        table = sums.reshape(-1, 2, self.halves)  # by class, right and wrong, probability
        labels = [str(label) for label in self.schema.target.categories]
        found = [hits("accuracy", table, noise)]
        recalls = [hits(f"recall of {label}", one, noise)
                   for label, one in zip(labels, table, strict=True)]
        if all(one.noise for one in recalls):
            found.append(balanced(recalls))
        if len(labels) == 2:
            if self.halves > 1 and all(one.noise for one in recalls):
                found.append(area(table, noise))
            recalls += [hits(f"precision of {label}", np.stack([table[place, 0],
                                                               table[1 - place, 1]]), noise)
                        for place, label in enumerate(labels)]
        if len(labels) <= MOST_LISTED:  # where there may be no record, nothing is said
            found += [one for one in recalls if one.noise]
        return tuple(found)


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
    scaled: Callable[[float, Schema | None], float] = lambda share, _: share

    def estimate(self, sums: Floats, schema: Schema | None, noise: tuple[float, str]) -> Estimate:
        """From released sums; without intervals if there may have been no record at all."""
        some = float(sums.sum()) > NORMAL * entry_sd(*noise) * math.sqrt(len(sums))
        ends = []
        for sampling in (False, True):
            (share,), (low,), (high,) = mean_intervals(sums[None, :], *noise, sampling=sampling,
                                                       shares=self.shares)
            ends.append((self.scaled(float(low), schema), self.scaled(float(high), schema))
                        if some else None)
        return Estimate(self.name, self.scaled(float(share), schema), *ends)


def _of_range(share: float, schema: Schema | None) -> float:
    assert schema is not None
    return share * float(schema.target.upper - schema.target.lower)


def hits(name: str, table: Floats, noise: tuple[float, str]) -> Estimate:
    """The share of the right among counts of (..., right or wrong, interval)."""
    rest = table.shape[-1]
    values = np.broadcast_to(np.array([1.0, 0.0])[:, None], (2, rest))
    wide = tuple(np.broadcast_to(values, table.shape).ravel().tolist())
    shares = Shares(wide, lambda m: np.where(np.array(wide) > 0, ((1 - m)**2)[:, None],
                                             (m**2)[:, None]))
    return ScoreFigure(name, shares).estimate(table.ravel(), None, noise)


def balanced(recalls: Sequence[Estimate]) -> Estimate:
    """The mean of recalls. Half widths are added as those of independent figures are
    [Zou and Donner 2008]: approximate."""
    value = math.fsum(one.value for one in recalls) / len(recalls)
    ends = []
    for kind in ("noise", "both"):
        far = [math.hypot(*(one.value - getattr(one, kind)[end] for one in recalls))
               / len(recalls) for end in (0, 1)]
        ends.append((max(value - far[0], 0.0), min(value + far[1], 1.0)))
    return Estimate("balanced accuracy", value, *ends)


def area(table: Floats, noise: tuple[float, str]) -> Estimate:
    """Under the ROC curve, by intervals of the probability of the second class."""
    first = np.concatenate([table[0, 0, ::-1], table[0, 1]])
    second = np.concatenate([table[1, 1, ::-1], table[1, 0]])
    ends = [area_intervals(second, first, *noise, sampling=both) for both in (False, True)]
    return Estimate("auc", ends[0][0], *(one[1:] for one in ends))


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
