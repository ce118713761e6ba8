"""Training: ask the session, turn answers into trees, repeat. Holds no rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import define, field, frozen

import privledger as pl
from privledger_learners.boosting.leaves import posterior_values, ratio_values
from privledger_learners.boosting.rule import Priced
from privledger_learners.boosting.shapes import Shapes
from privledger_learners.boosting.start import (
    RESIDUAL_EDGES,
    Start,
    class_prior,
    mean_estimate,
    regression_clip,
    tree_depth,
)


@frozen
class Shaping:
    """How answers become leaf values and trees; none of it is charged.

    Attributes:
        rate: learning rate.
        width: prior standard deviation of a leaf value, in units of the clip (regression) or
            of the score (classification).
        depth: depth of mixed trees, or None for the rule.
        splits: `adaptive`, or `random` as in the paper.
        leaf: `posterior`, or `ratio` as in the paper.
        regularization: smallest count of a `ratio` leaf.
    """

    rate: float
    width: float
    depth: int | None
    splits: str
    leaf: str
    regularization: float
    numeric_weight: float
    default_clip: float
    fixed_width: bool
    clip_factor: float = 0.7
    depth_offset: float = 1.0
    one_first: float = 0.70
    one_last: float = 0.30
    gain_weight: float = 0.85
    ordered: float = 0.50
    neighbour: float = 0.60
    trust: float = 1.0
    trust_mixed: float = 0.5
    sampling: float = 1.0
    drift: float = 0.03
    unclipped: float = 0.80


@define(eq=False)
class Model:
    """Released values only.

    Attributes:
        loss: `squared`, `logistic` or `softmax`.
        start: shape (width,).
        trees: cells and leaf values, in order of release.
        shapes: what released answers taught about the features, for more trees; None in a
            model that was read from a file.
    """

    loss: str
    bins: pl.questions.Bins
    start: Start
    center: float
    scale: float
    trees: list[tuple[pl.questions.TreeCells, np.ndarray]]
    shapes: Shapes | None = field(default=None, metadata={"model": False})

    def scores(self, columns: object) -> np.ndarray:
        """Scores of encoded rows the caller owns, shape (n,) or (n, classes)."""
        codes = self.bins.codes(columns)  # type: ignore[arg-type]
        n = len(codes[0])
        wide = len(self.start.score) > 1
        total = np.tile(self.start.score, (n, 1)) if wide else np.full(n, self.start.score[0])
        for cells, values in self.trees:
            total += values.take(cells.assign(codes), axis=0)
        return total


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


def begin(session: pl.Session, data: pl.Dataset, priced: Priced, shaping: Shaping) -> Start:
    """Buy and evaluate the initial score; with no share for it, start at the middle."""
    rule = priced.rule
    nodes = rule.start_nodes(priced.noise)
    classes = 1 if rule.regression else len(data.schema.target.categories)
    width = 1 if classes <= 2 else classes
    if not nodes:
        rows = float(data.schema.rows_for(data.ledger.relation) or 1000)
        return Start(np.zeros(width), rows, rule.clip or shaping.default_clip, 0.1, rows,
                     rows**2)
    if rule.regression:
        return _begin_regression(session, data, priced, nodes, shaping)
    name = data.schema.target.name
    counts = session.release(nodes[0], data.histogram(name))
    sd = nodes[0].noise_multiplier
    prior = class_prior(counts, sd)
    score = np.log(prior)
    if width == 1:
        score = np.array([score[1] - score[0]])
    n_hat = max(float(counts.sum()), 50.0)
    each = float(1 - np.square(prior).sum()) / (1 - 1 / classes)  # hessian mass of a record
    return Start(score, n_hat, rule.clip or shaping.default_clip, 0.0, n_hat * each,
                 each**2 * classes * sd**2 + (0.1 * n_hat * each) ** 2)


def _begin_regression(session: pl.Session, data: pl.Dataset, priced: Priced,
                      nodes: tuple[pl.Gaussian, ...], shaping: Shaping) -> Start:
    center, scale = scaling(data.schema)
    name = data.schema.target.name
    pair = data.query((pl.questions.Ones(), pl.questions.ColumnValue("", center, scale)), None,
                      f"start of {name}")
    count, total = session.release(nodes[0], pair)
    unit = nodes[0].noise_multiplier
    n_hat, mean, variance = mean_estimate(float(count), float(total), unit * math.sqrt(3),
                                          unit * math.sqrt(1.5))
    clip = priced.rule.clip
    if clip is None:
        score = data.score("squared", [mean], center=center, scale=scale)
        cells = pl.questions.ResidualCells(score, RESIDUAL_EDGES)
        histogram = session.release(nodes[1],
                                    data.query((pl.questions.Ones(),), cells, "residuals"))
        clip = regression_clip(histogram, nodes[1].noise_multiplier, n_hat, 1 / priced.noise,
                               shaping.clip_factor)
    return Start(np.array([mean]), max(n_hat, 20.0), clip, variance, n_hat, 3 * unit**2)


def train(session: pl.Session, data: pl.Dataset, start_data: pl.Dataset, priced: Priced,
          shaping: Shaping, bins: pl.questions.Bins, rng: np.random.Generator, *, rollover: bool,
          model: Model | None = None) -> Model:
    """Grow the trees of one grant; `data` is the handle that pays (filtered or not).

    Args:
        start_data: handle for the initial score, outside the filter if the filter does not
            cover it.
        rollover: scale each record's part down to what it can still pay.
        model: go on with this model (late arrivals); its initial score is kept.
    """
    loss = loss_of(data.schema)
    if model is None:
        start = begin(session, start_data, priced, shaping)
        center, scale = scaling(data.schema)
        model = Model(loss, bins, start, center, scale, [], Shapes.blank(bins, rng))
    score = data.score(loss, model.start.score, center=model.center, scale=model.scale)
    for cells, values in model.trees:
        score.add(cells, values)
    grow = Grower(session, data, priced, shaping, model, score)
    rounds = priced.rule.trees + priced.rule.extra_rounds
    for number, (tests, leaves) in enumerate(grow.shapes(rounds)):
        grow.one(tests, leaves, rounds - number if rollover else 0)
    return model


@define(eq=False)
class Grower:
    """One grant's worth of trees."""

    session: pl.Session
    data: pl.Dataset
    priced: Priced
    shaping: Shaping
    model: Model
    score: pl.questions.Score
    total: float = field(init=False)
    total_variance: float = field(init=False)
    variance: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        start = self.model.start
        self.total, self.total_variance = start.total, start.total_variance
        self.variance = start.variance

    def shapes(self, rounds: int) -> Iterator[tuple[list[pl.questions.Test], int]]:
        """Tree after tree: every feature alone once, then ever more mixed ones."""
        shaping, shapes, start = self.shaping, self.model.shapes, self.model.start
        depth = shaping.depth if shaping.depth is not None else tree_depth(
            start.n_hat, 1 / self.priced.noise, shaping.depth_offset, 2, 6)
        if shaping.splits == "random":
            for _ in range(rounds):
                yield shapes.random_tree(depth, shaping.numeric_weight)
            return
        n = len(shapes.features)
        leaves = max(4, 1 << depth)
        first = [int(j) for j in shapes.rng.permutation(n)[: min(n, rounds // 2)]
                 if not shapes.visits[j]]
        for number in range(rounds):
            if number < len(first):
                yield shapes.one_feature(first[number], leaves)
                continue
            weights = shapes.weights(shaping.gain_weight)
            done = (number - len(first)) / max(rounds - len(first) - 1, 1)
            alone = shaping.one_first + (shaping.one_last - shaping.one_first) * done
            if n == 1 or shapes.rng.random() < alone:
                yield shapes.one_feature(shapes.choose(weights), leaves)
            else:
                yield shapes.mixed(weights, depth, shaping.ordered)

    def one(self, tests: list[pl.questions.Test], leaves: int, rollover: int) -> None:
        """Release one tree and add its values to the model and to the guarded scores."""
        cells = pl.questions.TreeCells(self.model.bins, tests, leaves)
        H, S, sd_h, sd_s = self._ask(cells, rollover)
        alone = len(tests) == 1 and self.shaping.splits == "adaptive"
        if self.shaping.leaf == "ratio":
            clip = self.model.start.clip
            values = ratio_values(H, S, rate=self.shaping.rate, clip=clip,
                                  regularization=self.shaping.regularization)
        else:
            values, S = self._posterior(tests, H, S, sd_h, sd_s, alone)
        self.score.add(cells, values)
        self.model.trees.append((cells, values))
        if alone:
            self.model.shapes.learn(tests[0].feature, tests[0].table, S, values, sd_s)

    def _ask(self, cells: pl.questions.TreeCells,
             rollover: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        """H and S per leaf, scaled up by the sampling rate, and their standard deviations."""
        rule = self.priced.rule
        node = rule.tree_node(self.priced.noise)
        handle = self.data if rule.sampling_rate == 1 else self.data.poisson(rule.sampling_rate)
        clip, rate = self.model.start.clip, rule.sampling_rate
        gradient = self.score.gradient(clip)
        unit = node.noise_multiplier / rate
        if rule.static_noise:
            S = self.session.release(node, handle.query((gradient,), cells, "tree"),
                                     rollover=rollover)
            H = np.full(cells.count, self.total / cells.count * rate)
            sd_h, sd_s = 1e9, clip * unit
        else:
            blocks = (self.score.hessian(), gradient)
            H, S = self.session.release(node, handle.query(blocks, cells, "tree"),
                                        rollover=rollover)
            sd_h = unit / math.sqrt(rule.count_share)
            sd_s = clip * unit / math.sqrt(1 - rule.count_share)
        S = np.asarray(S).reshape(cells.count, -1) / rate
        return np.atleast_1d(H) / rate, S[:, 0] if S.shape[1] == 1 else S, sd_h, sd_s

    def _posterior(self, tests: list[pl.questions.Test], H: np.ndarray, S: np.ndarray, sd_h: float,
                   sd_s: float, alone: bool) -> tuple[np.ndarray, np.ndarray]:
        """Leaf values, and S without the shift of the intercept."""
        shaping, shapes, loss = self.shaping, self.model.shapes, self.model.loss
        clip = self.model.start.clip
        self._follow_total(H, sd_h)
        if alone:
            mass, unsure = shapes.mass_alone(tests[0].feature, tests[0].table, H, self.total, sd_h,
                                             shaping.trust)
        else:
            mass, unsure = shapes.mass_mixed(tests, H, self.total, sd_h, shaping.trust_mixed)
        classes = len(self.model.start.score)
        h_max = {"squared": 1.0, "logistic": 0.25}.get(loss, (1 - 1 / classes) / 2)
        mass, unsure = h_max * mass, h_max**2 * unsure
        tau = shaping.width * clip if loss == "squared" else self._class_width()
        extra = shaping.sampling * (0.25 * clip * clip if loss == "squared" else 1.0)
        shift = 0.0
        if loss == "squared":
            shift = self._follow_intercept(mass, unsure, S, sd_s, extra)
            S = S - mass * shift
        ordered = alone and not shapes.features[tests[0].feature].categorical
        values = posterior_values(mass, unsure, S, sd_s=sd_s, tau=tau, rate=shaping.rate,
                                  extra=extra, correlation=shaping.neighbour if ordered else 0.0)
        return values + shift, S

    def _class_width(self) -> float:
        """Prior width of a leaf on the score's scale: a little less where signal is plenty."""
        width = self.shaping.width
        if self.shaping.fixed_width:
            return width
        signal = math.log2(max(self.model.start.n_hat / self.priced.noise, 1.0))
        return width * (1 - 0.1 * min(max(signal - 9, 0.0), 2.0))

    def _follow_total(self, H: np.ndarray, sd_h: float) -> None:
        """Kalman filter for the total mass; under a curved loss it drifts from tree to tree."""
        if self.model.loss != "squared":
            self.total_variance += (self.shaping.drift * self.total) ** 2
        weight = self.total_variance / (self.total_variance + len(H) * sd_h**2)
        self.total = max(self.total + weight * (float(H.sum()) - self.total), 1.0)
        self.total_variance *= 1 - weight

    def _follow_intercept(self, mass: np.ndarray, unsure: np.ndarray, S: np.ndarray, sd_s: float,
                          extra: float) -> float:
        """Kalman filter for the error of the starting mean, from the sum of S over the leaves."""
        slope = self.shaping.unclipped * float(mass.sum())
        noise = len(S) * sd_s**2 + extra * slope + float(unsure.sum()) * self.variance
        weight = slope * self.variance / (slope**2 * self.variance + noise)
        self.variance *= 1 - weight * slope
        return weight * float(S.sum())
