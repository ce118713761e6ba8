"""Training: ask the session, turn answers into trees, repeat. Holds no rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import define, frozen

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
    depth_offset: float = 1.0
    one_first: float = 0.50
    one_last: float = 0.10
    gain_weight: float = 0.85
    ordered: float = 0.50
    neighbour: float = 0.30
    trust: float = 2.0
    sampling: float = 1.0


@define(eq=False)
class Model:
    """Released values only.

    Attributes:
        loss: `squared`, `logistic` or `softmax`.
        start: shape (width,).
        trees: cells and leaf values, in order of release.
        shapes: what released answers taught about the features.
    """

    loss: str
    bins: pl.Bins
    start: Start
    center: float
    scale: float
    trees: list[tuple[pl.TreeCells, np.ndarray]]
    shapes: Shapes

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
        rows = data.schema.public_rows or 1000
        return Start(np.zeros(width), float(rows), rule.clip or shaping.default_clip)
    if rule.regression:
        return _begin_regression(session, data, priced, nodes, shaping)
    name = data.schema.target.name
    counts = session.release(nodes[0], data.histogram(name))
    prior = class_prior(counts, nodes[0].noise_multiplier)
    score = np.log(prior)
    if width == 1:
        score = np.array([score[1] - score[0]])
    return Start(score, max(float(counts.sum()), 50.0), rule.clip or shaping.default_clip)


def _begin_regression(session: pl.Session, data: pl.Dataset, priced: Priced,
                      nodes: tuple[pl.Gaussian, ...], shaping: Shaping) -> Start:
    center, scale = scaling(data.schema)
    name = data.schema.target.name
    pair = data.query((pl.Ones(), pl.ColumnValue("", center, scale)), None, f"start of {name}")
    count, total = session.release(nodes[0], pair)
    unit = nodes[0].noise_multiplier
    n_hat, mean = mean_estimate(float(count), float(total), unit * math.sqrt(3),
                                unit * math.sqrt(1.5))
    clip = priced.rule.clip
    if clip is None:
        score = data.score("squared", [mean], center=center, scale=scale)
        cells = pl.ResidualCells(score, RESIDUAL_EDGES)
        histogram = session.release(nodes[1], data.query((pl.Ones(),), cells, "residuals"))
        clip = regression_clip(histogram, nodes[1].noise_multiplier, n_hat, 1 / priced.noise)
    return Start(np.array([mean]), max(n_hat, 20.0), clip)


def train(session: pl.Session, data: pl.Dataset, start_data: pl.Dataset, priced: Priced,
          shaping: Shaping, bins: pl.Bins, rng: np.random.Generator, *, rollover: bool,
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
    score: pl.Score

    def shapes(self, rounds: int) -> Iterator[tuple[list[pl.Test], int]]:
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

    def one(self, tests: list[pl.Test], leaves: int, rollover: int) -> None:
        """Release one tree and add its values to the model and to the guarded scores."""
        rule, shapes = self.priced.rule, self.model.shapes
        node = rule.tree_node(self.priced.noise)
        cells = pl.TreeCells(self.model.bins, tests, leaves)
        handle = self.data if rule.sampling_rate == 1 else self.data.poisson(rule.sampling_rate)
        clip = self.model.start.clip
        gradient = self.score.gradient(clip)
        unit = node.noise_multiplier
        if rule.static_noise:
            S = self.session.release(node, handle.query((gradient,), cells, "tree"),
                                     rollover=rollover)
            sd_h, sd_s = math.inf, clip * unit
            H = np.full(leaves, self.model.start.n_hat * rule.sampling_rate / leaves)
        else:
            blocks = (self.score.hessian(), gradient)
            H, S = self.session.release(node, handle.query(blocks, cells, "tree"),
                                        rollover=rollover)
            sd_h = unit / math.sqrt(rule.count_share)
            sd_s = clip * unit / math.sqrt(1 - rule.count_share)
        H, S = np.atleast_1d(H) / rule.sampling_rate, np.asarray(S) / rule.sampling_rate
        sd_h, sd_s = sd_h / rule.sampling_rate, sd_s / rule.sampling_rate
        S = S.reshape(leaves, -1)
        S = S[:, 0] if S.shape[1] == 1 else S
        alone = len(tests) == 1 and self.shaping.splits == "adaptive"
        ordered = alone and not shapes.features[tests[0].feature].categorical
        values = self._values(H, S, sd_s, clip, ordered)
        self.score.add(cells, values)
        self.model.trees.append((cells, values))
        if alone:
            known = max(float(H.sum()), 1.0) if len(self.model.trees) > 1 else \
                self.model.start.n_hat
            shapes.learn(tests[0].feature, tests[0].table, H, S, values, min(sd_h, 1e12), sd_s,
                         known, self.shaping.trust)

    def _values(self, H: np.ndarray, S: np.ndarray, sd_s: float, clip: float,
                ordered: bool) -> np.ndarray:
        shaping, loss = self.shaping, self.model.loss
        if shaping.leaf == "ratio":
            return ratio_values(H, S, rate=shaping.rate, regularization=shaping.regularization,
                                clip=clip)
        classes = len(self.model.start.score)
        h_max = {"squared": 1.0, "logistic": 0.25}.get(loss, (1 - 1 / classes) / 2)
        tau = shaping.width * clip if loss == "squared" else shaping.width
        extra = shaping.sampling * (0.25 * clip * clip if loss == "squared" else 1.0)
        return posterior_values(H, S, h_max=h_max, sd_s=sd_s, tau=tau, rate=shaping.rate,
                                extra=extra,
                                correlation=shaping.neighbour if ordered else 0.0)
