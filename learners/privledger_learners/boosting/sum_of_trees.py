"""A boosted model, a sum of trees on an initial score; and what is read off the start releases."""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar

import numpy as np
from attrs import define, field, frozen

import privledger as pl
from privledger_learners.boosting.feature_memory import FeatureMemory
from privledger_learners.linear_model import LinearModel

R = TypeVar("R")
Cells = pl.questions.TreeCells | pl.questions.GrownCells

RESIDUAL_EDGES = tuple(2.0**k for k in range(-7, 1))
"""Public edges of the histogram of |y - f0|; y is scaled to [-1, 1]."""


@frozen
class Priced(Generic[R]):
    """A rule with the smallest noise that keeps its plan within a budget.

    Attributes:
        rule: everything that fixes a fit before data exist.
        noise: overall: 1 / epsilon under Laplace noise, 1 / mu under Gaussian.
        plan: what `fit` reserves.
        order: Renyi order of an individual `renyi` filter, else 0.
    """

    rule: R
    noise: float
    plan: pl.Node
    order: float = 0.0


@frozen
class Shape:
    """How many trees of which depth; both public."""

    trees: int
    depth: int


@frozen(eq=False)
class Start:
    """What training begins with.

    Attributes:
        score: shape (1,) or (classes,).
        n_hat: released estimate of the number of records, at least 20.
        clip: gradient clip.
        variance: of the starting mean (regression), on the scaled target.
        total: estimated hessian mass of all records at the start, and its variance.
        square: estimated mean square of the residuals (regression), on the scaled target.
    """

    score: np.ndarray
    n_hat: float
    clip: float = 0.0
    variance: float = 0.0
    total: float = 0.0
    total_variance: float = 0.0
    square: float = 0.1


@define(eq=False)
class Model:
    """Released values only: score = start + the value of the leaf that each tree puts a row in.

    Attributes:
        loss: `squared`, `logistic` or `softmax`.
        center, scale: target = center + scale * score (regression).
        trees: cells and leaf values, in order of release.
        shape: trees and depth that ran, where released values decided; else None.
        memory: what released answers taught about the features, for more trees; None in a
            model that was read from a file.
        left: share of the squared residuals that the trees leave, as far as is known, for more.
        linear: what the trees begin on, in place of the start; None for the start alone.
    """

    loss: str
    bins: pl.questions.Bins
    start: Start
    center: float
    scale: float
    trees: list[tuple[Cells, np.ndarray]] = field(factory=list)
    shape: Shape | None = None
    memory: FeatureMemory | None = field(default=None, metadata={"model": False})
    left: float = field(default=1.0, metadata={"model": False})
    linear: LinearModel | None = None

    @classmethod
    def begun(cls, schema: pl.Schema, bins: pl.questions.Bins, start: Start, **held: Any) -> Model:
        """A model without trees, of the loss and scale that the schema's target asks for."""
        return cls(loss_of(schema), bins, start, *scaling(schema), **held)

    def scores(self, columns: Any) -> np.ndarray:
        """Scores of encoded rows the caller owns, shape (n,) or (n, classes)."""
        return self._grown(self.bins.codes(columns),
                           None if self.linear is None else self.linear.scores(columns))

    def scores_of(self, codes: tuple[np.ndarray, ...]) -> np.ndarray:
        """The same from bin codes, one array per feature."""
        return self._grown(codes, None if self.linear is None else self.linear.scores_of(
            codes, self.bins))

    def _grown(self, codes: tuple[np.ndarray, ...], total: np.ndarray | None) -> np.ndarray:
        """The trees on top of scores, or of the start where there are none."""
        if total is None:
            n, first = len(codes[0]), self.start.score
            total = np.tile(first, (n, 1)) if len(first) > 1 else np.full(n, first[0])
        for cells, values in self.trees:
            total += values.take(cells.assign(codes), axis=0)
        return total

    def guarded_scores(self, data: pl.Dataset) -> pl.questions.Score:
        """The same of guarded rows, kept inside the guard, for the trees to come."""
        score = data.score(self.loss, self.start.score, center=self.center, scale=self.scale)
        if self.linear is not None:
            self.linear.added(score)
        for cells, values in self.trees:
            score.add(cells, values)
        return score


def loss_of(schema: pl.Schema) -> str:
    """Squared for a number, logistic for two classes, softmax for more."""
    if schema.task == "regression":
        return "squared"
    return "logistic" if len(schema.target.categories) == 2 else "softmax"


def scaling(schema: pl.Schema) -> tuple[float, float]:
    """Middle and half width of the target's public bounds."""
    if schema.task == "classification":
        return 0.0, 1.0
    target = schema.target
    return (target.lower + target.upper) / 2, (target.upper - target.lower) / 2


def score_width(schema: pl.Schema) -> int:
    """Scores of a row: one per class where there are more than two, else one."""
    classes = 1 if schema.task == "regression" else len(schema.target.categories)
    return 1 if classes <= 2 else classes


def class_scores(prior: np.ndarray) -> np.ndarray:
    """Log-odds of the second of two classes, or log-shares of more, shape (width,)."""
    score = np.log(prior)
    return np.array([score[1] - score[0]]) if len(prior) <= 2 else score


def mean_estimate(
    count: float, total: float, sd_count: float, sd_sum: float
) -> tuple[float, float, float]:
    """Records, mean of y in [-1, 1] and its variance, from a noisy count and a noisy sum.

    Far above the noise the plain ratio; otherwise posterior means under a log-uniform prior
    on the number of records and a uniform prior on the mean.
    """
    if count > 30 * sd_count and count > 30 * sd_sum:
        mean_ratio = float(np.clip(total / count, -0.99, 0.99))
        return count, mean_ratio, (sd_sum / count) ** 2 + (mean_ratio * sd_count / count) ** 2
    n = np.exp(np.linspace(math.log(20), math.log(2e7), 240))[:, None]
    mean = np.linspace(-0.99, 0.99, 67)[None, :]
    fit = -0.5 * ((n - count) / sd_count) ** 2 - 0.5 * ((n * mean - total) / sd_sum) ** 2
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    centre = float((weight * mean).sum())
    return float((weight * n).sum()), centre, float((weight * (mean - centre) ** 2).sum())


def regression_clip(histogram: np.ndarray, sd: float, n_hat: float, mu: float,
                    factor: float) -> float:
    """Gradient clip from the noisy histogram of |y - f0|.

    Near the 80 % quantile when noise dominates, near the root mean square when it does not.
    """
    upper = np.array([*RESIDUAL_EDGES, 2.0])
    lower = np.concatenate([[0.0], upper[:-1]])
    positive = np.maximum(histogram, 0)
    cumulated = np.cumsum(positive) / max(positive.sum(), 1e-9)
    place = min(int(np.searchsorted(cumulated, 0.8)), len(upper) - 1)
    before = cumulated[place - 1] if place else 0.0
    inside = (0.8 - before) / max(cumulated[place] - before, 1e-9)
    quantile = lower[place] + (upper[place] - lower[place]) * min(max(inside, 0.0), 1.0)
    sure = np.where(histogram > 2 * sd, histogram, 0)
    spread = quantile
    if sure.sum() > 0:
        spread = math.sqrt(float((sure * ((lower + upper) / 2) ** 2).sum() / sure.sum()))
    weight = min(max((math.log2(max(n_hat * mu, 1.0)) - 8) / 5, 0.0), 1.0)
    clip = factor * quantile ** (1 - weight) * max(spread, quantile) ** weight
    return min(max(float(clip), 0.01), 1.0)


def mean_square(histogram: np.ndarray) -> float:
    """Mean of (y - f0)^2 by the noisy histogram of |y - f0|, each at the middle of its bin."""
    edges = np.array([0.0, *RESIDUAL_EDGES, 2.0])
    positive = np.maximum(histogram, 0)
    middles = (edges[:-1] + edges[1:]) / 2
    return max(float(positive @ middles**2) / max(float(positive.sum()), 1e-9), 1e-4)


def class_prior(histogram: np.ndarray, sd: float) -> np.ndarray:
    """Class probabilities from a noisy histogram, shape (classes,)."""
    prior = np.maximum(histogram, 0) + 0.5 * sd + 1
    return np.asarray(prior / prior.sum())


def tree_depth(n_hat: float, mu: float, offset: float, least: int, most: int) -> int:
    """Depth of mixed trees: half a level for every doubling of signal over noise."""
    return int(np.clip(round(math.log2(max(n_hat * mu, 1.0)) / 2 - offset), least, most))
