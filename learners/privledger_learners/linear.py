"""Linear models by noisy gradient descent: parameters, what they reserve, and what they ask.

Every look at the rows is a clipped sum with Gaussian noise; all else follows from public facts and
released sums. Full batch by default; with `sampling_rate` below 1 this is DP-SGD (Abadi et al.
2016). The rule and how it was chosen: docs/papers/linear.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from attrs import field, frozen
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

import privledger as pl
from privledger_learners.boosting.sum_of_trees import (
    RESIDUAL_EDGES,
    Priced,
    class_scores,
    loss_of,
    scaling,
    score_width,
)
from privledger_learners.estimator import (
    LabelClassifier,
    PrivateLearner,
    Relation,
    check_choice,
    check_count,
    check_number,
)
from privledger_learners.floor import Floor
from privledger_learners.guarding import note_features

MOMENTUM, ROW_CAP, CLIP, ONE_HOT = 0.8, 1.5, 0.5, 1.4
SCALE_SHARE, CLIP_SHARE = 0.2, 0.03
MOST_REACH, MOST_NUMBERS = 64.0, 4096


@frozen
class LinearRule:
    """Everything that fixes a fit before data exist.

    Attributes:
        numeric: how many numeric features. regression: which of the two starts is asked.
        steps: of the descent. start_share: part of mu squared for the start.
        bought_clip: whether the clip is bought, from a histogram of residuals.
        sampling_rate: Poisson rate of a step; 1 for full batch.
    """

    numeric: int
    regression: bool
    steps: int
    start_share: float
    bought_clip: bool
    sampling_rate: float = 1.0

    def start_node(self, noise: float) -> pl.Gaussian:
        """Sizes of the classes; or the number of records and the sum of the target."""
        shares = (0.5, 0.5) if self.regression else ()
        return pl.Gaussian(noise / math.sqrt(self.start_share), shares=shares)

    def scale_node(self, noise: float) -> pl.Gaussian:
        """Sums of the numeric columns and of their squares."""
        return pl.Gaussian(noise / math.sqrt(SCALE_SHARE))

    def clip_node(self, noise: float) -> pl.Gaussian:
        """The histogram of residuals."""
        return pl.Gaussian(noise / math.sqrt(CLIP_SHARE))

    def step_node(self, noise: float) -> pl.Gaussian:
        """One gradient of the descent."""
        left = (1 - self.start_share - SCALE_SHARE * (self.numeric > 0)
                - CLIP_SHARE * self.bought_clip)
        return pl.Gaussian(noise * math.sqrt(self.steps / left))

    def plan(self, noise: float) -> pl.Node:
        """The composition node of a fit with overall noise multiplier `noise`."""
        step: pl.Node = self.step_node(noise)
        if self.sampling_rate < 1:
            step = pl.PoissonSample(self.sampling_rate, step)
        return pl.Sequential([
            self.start_node(noise), *([self.scale_node(noise)] if self.numeric else []),
            *([self.clip_node(noise)] if self.bought_clip else []), pl.Repeat(step, self.steps)])


@frozen(eq=False)
class LinearModel:
    """Released values only: score = start + weights x encoded row.

    Attributes:
        schema: of the table. centers, scales: of every feature. wide: on a logarithmic scale.
        hinges: whether there is a second column for every number. reach: of a row's vector.
        start: shape (width,). weights: shape (columns, width).
        center, scale: target = center + scale x score (regression).
    """

    schema: pl.Schema
    centers: np.ndarray
    scales: np.ndarray
    wide: np.ndarray
    hinges: bool
    reach: float
    start: np.ndarray
    weights: np.ndarray
    center: float = 0.0
    scale: float = 1.0
    n_hat: float = field(default=0.0, metadata={"model": False})

    def scores(self, X: object) -> np.ndarray:
        """Scores of rows that the caller owns, shape (n,) or (n, classes)."""
        encoding = encoding_of(self.schema, self.wide, self.centers, self.scales,
                               "hinge" if self.hinges else "", self.reach)
        columns = pl.encode_features(X, self.schema, strict=False)
        # Whole steps on both sides: exact, so the same for any batch and on any machine.
        exact = encoding.vectors(columns) @ np.rint(self.weights * 2.0**16)
        found = self.start + exact * 2.0**-16
        return np.asarray(found[:, 0] if found.shape[1] == 1 else found)


def encoding_of(schema: pl.Schema, wide: np.ndarray, centers: np.ndarray, scales: np.ndarray,
                beside: str, reach: float) -> pl.questions.RowEncoding:
    """The public map from a row to its vector, for all features of a schema."""
    return pl.questions.RowEncoding(
        [column.name for column in schema.features],
        [len(column.categories) for column in schema.features], centers, scales,
        [bool(one) for one in wide], beside, ONE_HOT, min(reach, MOST_REACH))


def wide_range(column: pl.Column) -> bool:
    """A one-sided range that is wide, but for bytes, is read on a logarithmic scale."""
    return (column.kind == "numeric" and column.lower == 0 and column.upper >= 50
            and column.upper != 255)


def numeric_sums(schema: pl.Schema, wide: np.ndarray) -> pl.questions.LinearGradient:
    """Numeric columns and their squares, on [-1, 1], and a one: no vector is longer than the
    clip."""
    places = [place for place, column in enumerate(schema.features) if column.kind == "numeric"]
    reach = min(math.sqrt(2 * len(places) + 1), MOST_REACH)
    encoding = pl.questions.RowEncoding(
        [schema.features[place].name for place in places], [0] * len(places),
        np.zeros(len(places)), np.ones(len(places)), [bool(wide[place]) for place in places],
        "square", 1.0, reach)
    return pl.questions.LinearGradient(encoding, reach)


class _Linear(PrivateLearner):
    """Shared by regressor and classifier; see their docstrings.

    Attributes:
        model_: released values only.
    """

    model_: LinearModel
    model_records = (LinearModel,)
    floors: Mapping[str, float] = {"classification": 20.0, "regression": 50.0}

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        n_steps: int = 100,
        gradient_clip: float | None = None,
        sampling_rate: float = 1.0,
        log_scale: bool = True,
        hinges: bool = True,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.n_steps = n_steps
        self.gradient_clip = gradient_clip
        self.sampling_rate = sampling_rate
        self.log_scale = log_scale
        self.hinges = hinges
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _check(self) -> None:
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0)
        check_count("n_steps", self.n_steps, 2, 10**5)
        check_number("sampling_rate", self.sampling_rate, 0.0, 1.0)
        if self.gradient_clip is not None:
            check_number("gradient_clip", self.gradient_clip, 0.0, 1e3)
        for name in ("log_scale", "hinges"):
            if type(getattr(self, name)) is not bool:
                raise pl.InvalidValue(name, getattr(self, name), "True or False")
        if self.sampling_rate < 1 and self.relation != "add_remove":
            raise pl.errors.RelationMismatch("sampled steps are priced under add_remove only")

    def _recipe(self, schema: pl.Schema) -> Priced[LinearRule]:
        self._check()
        columns = 1 + sum(len(column.categories) or 1 + self.hinges for column in schema.features)
        if columns * score_width(schema) > MOST_NUMBERS:
            raise pl.InvalidValue("schema", f"{columns} columns", f"at most {MOST_NUMBERS} columns "
                                  "times classes: leave columns out, or hinges=False")
        mu = 1 / pl.calibrate(pl.Gaussian, self.epsilon, self.delta, self.relation)
        regression = schema.task == "regression"
        rule = LinearRule(
            sum(column.kind == "numeric" for column in schema.features), regression,
            int(self.n_steps), min(max(0.005 / mu, 0.01), 0.15),
            regression and self.gradient_clip is None, float(self.sampling_rate))
        noise = pl.calibrate(rule.plan, self.epsilon, self.delta, self.relation)
        return Priced(rule, noise, rule.plan(noise))

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """No paper's price is claimed: the sound cost of the plan."""
        known = self._known(schema)
        floor = self._floor(known)
        if floor is not None:
            return floor.claimed(self.delta)
        return (pl.ClaimStep("everything", "not from a paper", None, pl.epsilon(
            self._recipe(known).plan, self.delta, self.relation), self.delta,
            "Gaussian sums of clipped vectors, one after the other"),)

    def _floor_of(self, schema: pl.Schema, why: str) -> Floor:
        return Floor.gaussian(schema, self.relation, float(self.epsilon), float(self.delta), why)

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        schema, features = data.schema, len(data.schema.features)
        start = (class_scores(shares) if schema.task == "classification" else 2 * shares - 1)
        blank = encoding_of(schema, np.zeros(features, bool), np.zeros(features),
                            np.ones(features), "", 1.0)
        self._keep(LinearModel(
            schema, np.zeros(features), np.ones(features), np.zeros(features, bool), False, 1.0,
            start, np.zeros((blank.count, len(start))), *scaling(schema)))

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced = self._recipe(self._known(schema))
        model = self._granted(data, priced.plan,
                              lambda session: self._descend(session, data, priced))
        self.fell_back_ = self._hopeless(schema, model.n_hat)
        self._keep(model)

    def _keep(self, model: LinearModel) -> None:
        """Keep the model; where it fell back without weights, which are paid for and noise."""
        if self.fell_back_:
            model.weights[:] = 0.0
        self.model_ = model

    def _descend(self, session: pl.Session, data: pl.Dataset,
                 priced: Priced[LinearRule]) -> LinearModel:
        """Start, scales, clip, then steps down the gradient; the mean of the last half."""
        schema, rule, noise = data.schema, priced.rule, priced.noise
        center, scale = scaling(schema)
        begin, n_hat = self._begin(session, data, rule.start_node(noise))
        wide = np.array([self.log_scale and wide_range(column) for column in schema.features])
        centers, scales = self._scales(session, data, rule, noise, wide, n_hat)
        width = math.sqrt(len(schema.features) + 1)
        longer = math.sqrt(width**2 + 0.4 * rule.numeric * self.hinges)
        encoding = encoding_of(schema, wide, centers, scales, "hinge" if self.hinges else "",
                               ROW_CAP * longer)
        score = data.score(loss_of(schema), begin, center=center, scale=scale)
        signal = n_hat / noise
        clip = self._clip(session, data, rule, noise, score, signal / width) * longer
        time = min(4500.0, 1.2 * (signal / width) ** 1.35)
        rate = (1 - MOMENTUM) * time / rule.steps / (
            (1.0 if rule.regression else 0.25) * longer**2)
        shape = (score_width(schema), encoding.count)
        weights, momentum, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        node, half = rule.step_node(noise), rule.steps // 2
        for step in range(rule.steps):
            paying = data if rule.sampling_rate == 1 else data.poisson(rule.sampling_rate)
            found = session.release(node, paying.query(
                (pl.questions.LinearGradient(encoding, clip, score),), None, "gradient"))
            momentum = MOMENTUM * momentum + np.reshape(found, shape) / (
                n_hat * rule.sampling_rate)
            weights = weights + rate * momentum
            moves = (rate * momentum).T
            score.add(encoding, moves[:, 0] if len(begin) == 1 else moves)
            if step >= half:
                total += weights
        return LinearModel(schema, centers, scales, wide, self.hinges, encoding.reach, begin,
                           total.T / (rule.steps - half), center, scale, n_hat)

    def _begin(self, session: pl.Session, data: pl.Dataset,
               node: pl.Gaussian) -> tuple[np.ndarray, float]:
        """The score without features, shape (width,), and about how many records there are."""
        schema = data.schema
        if schema.task == "regression":
            query = data.query((pl.questions.Ones(), pl.questions.ColumnValue(
                "", *scaling(schema))), None, "start")
            many, total = (float(one) for one in session.release(node, query))
            n_hat = max(many, 50.0)
            return np.array([np.clip(total, -n_hat, n_hat) / n_hat]), n_hat
        counts = np.ravel(session.release(node, data.histogram(schema.target.name)))
        counts = counts[: len(schema.target.categories)]
        spread = node.noise_multiplier * (1.0 if self.relation == "add_remove" else math.sqrt(2))
        n_hat = max(float(counts.sum()), 50.0)
        filled = np.maximum(counts, 0.0) + spread
        logs = np.log(filled / filled.sum())
        logs = (logs - logs.mean()) / (1 + (len(counts) * spread / n_hat) ** 2)
        return (logs[1:] - logs[:1] if len(counts) == 2 else logs), n_hat

    def _scales(self, session: pl.Session, data: pl.Dataset, rule: LinearRule, noise: float,
                wide: np.ndarray, n_hat: float) -> tuple[np.ndarray, np.ndarray]:
        """Center and spread of every feature, from released sums; 0 and 1 of categories."""
        schema = data.schema
        centers, scales = np.zeros(len(schema.features)), np.ones(len(schema.features))
        if not rule.numeric:
            return centers, scales
        block, node = numeric_sums(schema, wide), rule.scale_node(noise)
        sums = np.ravel(session.release(node, data.query((block,), None, "sums and squares")))
        means, squares = sums[:-1:2] / n_hat, sums[1:-1:2] / n_hat
        error = block.clip * node.noise_multiplier / n_hat * (
            1 if self.relation == "add_remove" else 2)
        held = np.array([column.kind == "numeric" for column in schema.features])
        centers[held] = np.clip(means, -1.0, 1.0)
        scales[held] = np.sqrt(np.maximum(squares - centers[held] ** 2, 0.0) + 4 * error**2 + 1e-3)
        return centers, scales

    def _clip(self, session: pl.Session, data: pl.Dataset, rule: LinearRule, noise: float,
              score: pl.questions.Score, signal: float) -> float:
        """Bound on a gradient, in lengths of a row."""
        if self.gradient_clip is not None:
            return float(self.gradient_clip)
        if not rule.bought_clip:
            return CLIP
        node = rule.clip_node(noise)
        counts = np.ravel(session.release(node, data.query(
            (pl.questions.Ones(),), pl.questions.ResidualCells(score, RESIDUAL_EDGES),
            "residuals")))
        edges = np.array([*RESIDUAL_EDGES, RESIDUAL_EDGES[-1]])
        above = np.concatenate([[0.0], np.cumsum(np.maximum(counts, 0.0))])
        above = above / max(above[-1], 1.0)
        place = min(int(np.searchsorted(above[1:], 0.8)), len(edges) - 1)
        part = (0.8 - above[place]) / max(above[place + 1] - above[place], 1e-9)
        most = float(edges[place] * 2.0 ** (min(max(part, 0.0), 1.0) - 1))
        sure = np.where(counts > 2 * node.noise_multiplier, counts, 0.0)
        middles = np.concatenate([[edges[0] / 2], (edges[:-2] + edges[1:-1]) / 2, [1.2]])
        size = math.sqrt(float(sure @ middles**2) / max(float(sure.sum()), 1.0))
        rows = signal * math.sqrt(len(data.schema.features) + 1)
        plenty = min(max((math.log2(max(rows, 2.0)) - 8) / 5, 0.0), 1.0)
        bound = min(1.0, most ** (1 - plenty) * max(size, most) ** plenty)
        return float(0.75 * min(max(math.sqrt(signal / 50), 1.0), 2.5) * bound)

    def _scores(self, X: object) -> np.ndarray:
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        return self.model_.scores(X)

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the encoded columns, shape (columns,) or (classes, columns), without the
        constant: standardised numbers (each with its hinge beside it) and categories."""
        check_is_fitted(self, "model_")
        found = self.model_.weights[:-1].T
        return np.asarray(found[0] if len(found) == 1 else found)

    @property
    def intercept_(self) -> np.ndarray:
        """Score of a row of zeros, shape (1,) or (classes,)."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.start + self.model_.weights[-1])


class LinearRegressor(RegressorMixin, _Linear):
    """Differentially private linear regression by noisy gradient descent on clipped gradients.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_steps: of the descent; their number is part of the plan.
        gradient_clip: bound on a record's gradient, in lengths of a typical row; None for the
            rule: bought for a number, .5 for classes.
        sampling_rate: Poisson rate of a step; below 1 this is DP-SGD.
        log_scale: numbers of a one-sided range of 50 or more are read on a logarithmic scale.
        hinges: a second column |u| for every standardised number u.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        coef_, intercept_: of the encoded columns. model_: released values only.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("linear-regressor", "noisy gradient descent on a linear model, for a "
                          "number", "", ("add_remove", "replace_one"), ("regression",))

    def predict(self, X: object) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        scaled = np.clip(self._scores(X), -1, 1)
        return np.asarray(self.model_.center + self.model_.scale * scaled)


class LinearClassifier(LabelClassifier, _Linear):
    """Differentially private logistic or softmax regression; parameters as `LinearRegressor`."""

    info = pl.LearnerInfo("linear-classifier", "noisy gradient descent on a linear model, for "
                          "classes", "", ("add_remove", "replace_one"), ("classification",))

    def _shares(self, X: object) -> np.ndarray:
        found = np.asarray(pl.questions.probabilities(loss_of(self.model_.schema),
                                                      self._scores(X)))
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    def decision_function(self, X: object) -> np.ndarray:
        """Scores: shape (n,) for two classes, towards `classes_[1]`; else (n, classes)."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return scores if self._order[1] == 1 else -scores
        return np.asarray(scores[:, self._order])


__all__ = ["LinearClassifier", "LinearRegressor"]
