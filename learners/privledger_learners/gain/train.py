"""Training: ask the session, turn answers into trees, repeat. Holds no rows."""

from __future__ import annotations

import math

import numpy as np
from attrs import define, field, frozen

import privledger as pl
from privledger_learners.boosting.leaves import posterior_values, ratio_values
from privledger_learners.boosting.start import class_prior, mean_estimate
from privledger_learners.boosting.train import loss_of, scaling
from privledger_learners.gain.rule import Priced, Shape


@frozen
class Shaping:
    """How answers become leaf values; none of it is charged.

    Attributes:
        rate: learning rate.
        width: prior standard deviation of a leaf value, in units of the clip (regression) or
            of the score (classification).
        leaf: `posterior`, or `ratio`: noisy sum over noisy count plus `regularization`.
        filtered: records beyond the clip take no part in a tree, instead of being clipped.
        bound_shrink: factor of the bound on leaf values from tree to tree (1: no such bound).
        penalty: added to the counts in the gain.
    """

    rate: float
    width: float
    leaf: str
    regularization: float
    penalty: float
    filtered: bool
    bound_shrink: float


@frozen(eq=False)
class Start:
    """What training begins with: scores, shape (width,), and the row estimate."""

    score: np.ndarray
    n_hat: float


@define(eq=False)
class Model:
    """Released values only.

    Attributes:
        loss: `squared`, `logistic` or `softmax`.
        start: shape (width,), on the score's scale.
        center, scale: target = center + scale * score (regression).
        trees: leaves and their values, in order of release.
        shape: trees and depth that ran.
    """

    loss: str
    bins: pl.questions.Bins
    start: Start
    center: float
    scale: float
    shape: Shape
    trees: list[tuple[pl.questions.GrownCells, np.ndarray]] = field(factory=list)

    def scores(self, columns: object) -> np.ndarray:
        """Scores of encoded rows the caller owns, shape (n,) or (n, classes)."""
        codes = self.bins.codes(columns)  # type: ignore[arg-type]
        n = len(codes[0])
        wide = len(self.start.score) > 1
        total = np.tile(self.start.score, (n, 1)) if wide else np.full(n, self.start.score[0])
        for cells, values in self.trees:
            total += values.take(cells.assign(codes), axis=0)
        return total


def deviation(node: pl.Node, clip: float) -> float:
    """Standard deviation of the noise on a block of sums with this clip."""
    if isinstance(node, pl.Gaussian):
        return float(node.noise_multiplier) * clip
    return math.sqrt(2) * float(node.scale)


def begin(session: pl.Session, data: pl.Dataset, priced: Priced) -> Start:
    """Buy and evaluate the initial score; with no share for it, start at the middle."""
    rule, schema = priced.rule, data.schema
    nodes = rule.start_nodes(priced.noise)
    classes = 1 if rule.regression else len(schema.target.categories)
    width = 1 if classes <= 2 else classes
    center, scale = scaling(schema)
    if not nodes:
        return Start(np.zeros(width), float(schema.rows_for(data.ledger.relation) or 1000))
    if not rule.regression:
        counts = session.release(nodes[0], data.histogram(schema.target.name))
        score = np.log(class_prior(counts, deviation(nodes[0], 1.0)))
        score = np.array([score[1] - score[0]]) if width == 1 else score
        return Start(score, max(float(counts.sum()), 50.0))
    count = session.release(nodes[0], data.count())
    value = pl.questions.ColumnValue("", center, scale)
    total = session.release(nodes[1], data.query((value,), None, "sum of the target"))
    n_hat, mean, _ = mean_estimate(float(count), float(total), deviation(nodes[0], 1.0),
                                   deviation(nodes[1], 1.0))
    return Start(np.array([mean]), max(n_hat, 20.0))


def choose_shape(shapes: tuple[Shape, ...], n_hat: float, noise: float, *,
                 gaussian: bool = False) -> Shape:
    """Trees and depth by released signal over noise; `shapes` go from little to much."""
    if len(shapes) == 1:
        return shapes[0]
    first, step = (6.0, 2.0) if gaussian else (8.4, 1.6)
    level = (math.log2(max(n_hat / noise, 1.0)) - first) / step
    return shapes[int(min(max(round(level), 0), len(shapes) - 1))]


def train(session: pl.Session, data: pl.Dataset, priced: Priced, shaping: Shaping,
          bins: pl.questions.Bins) -> Model:
    """Grow the trees of one grant."""
    start = begin(session, data, priced)
    center, scale = scaling(data.schema)
    shape = choose_shape(priced.rule.shapes, start.n_hat, priced.noise,
                         gaussian=priced.rule.gaussian)
    model = Model(loss_of(data.schema), bins, start, center, scale, shape)
    score = data.score(model.loss, start.score, center=center, scale=scale)
    grow = Grower(session, priced, shaping, model, score)
    parts = priced.rule.parts
    for number in range(shape.trees):
        if parts == 1:
            grow.one(data, number, number)
            continue
        if number % parts == 0:
            partition = data.partition(parts)  # fresh coins for every ensemble
        grow.one(partition[number % parts], number, number % parts)
    return model


@define(eq=False)
class Grower:
    """One grant's worth of trees."""

    session: pl.Session
    priced: Priced
    shaping: Shaping
    model: Model
    score: pl.questions.Score

    def one(self, data: pl.Dataset, number: int, place: int) -> None:
        """Release one tree and add its values to the model and to the guarded scores.

        Args:
            number: of the tree in the fit; place: within its ensemble.
        """
        clip = self.priced.rule.clip_of(place)
        cells = self._splits(data, number, clip)
        values = self._leaves(data, cells, clip, place)
        self.score.add(cells, values)
        self.model.trees.append((cells, values))

    def _splits(self, data: pl.Dataset, number: int, clip: float) -> pl.questions.GrownCells:
        """The complete tree, level by level."""
        rule, shape, classes = self.priced.rule, self.model.shape, self.score.width
        # A softmax tree is split for one class, in turn; its leaves serve all.
        coordinate = number % classes if classes > 1 else None
        gradient = self.score.gradient(clip, filtered=self.shaping.filtered, coordinate=coordinate)
        node, cells = rule.split_node(shape, self.priced.noise), data.root(self.model.bins)
        for _ in range(shape.depth):
            found = self.session.release(node, data.choose(
                cells, "gain", among="both", gradient=gradient, penalty=self.shaping.penalty,
                what="split by gain"))
            cells = cells.grow(found.feature, found.cut)
        return cells

    def _leaves(self, data: pl.Dataset, cells: pl.questions.GrownCells, clip: float,
                place: int) -> np.ndarray:
        """Leaf values from noisy counts and noisy sums of gradients."""
        rule, shaping, loss = self.priced.rule, self.shaping, self.model.loss
        nodes = rule.leaf_nodes(self.model.shape, self.priced.noise, place)
        filtered = shaping.filtered
        mass = self.score.hessian(clip if filtered else None)
        H = self.session.release(nodes[0], data.query((mass,), cells, "leaf counts"))
        gradient = self.score.gradient(clip, filtered=filtered)
        S = self.session.release(nodes[1], data.query((gradient,), cells, "leaf gradients"))
        H = np.atleast_1d(H)
        bound = math.inf
        if shaping.bound_shrink < 1:
            bound = rule.clip_of(0) * shaping.bound_shrink**place
        classes = len(self.model.start.score)
        h_max = {"squared": 1.0, "logistic": 0.25}.get(loss, (1 - 1 / classes) / 2)
        if shaping.leaf == "ratio":
            values = ratio_values(h_max * H, S, rate=shaping.rate, clip=clip / h_max,
                                  regularization=shaping.regularization)
            return np.clip(values, -shaping.rate * bound / h_max, shaping.rate * bound / h_max)
        expected = self.model.start.n_hat / rule.parts / cells.count
        weight = expected**2 / (expected**2 + deviation(nodes[0], 1.0) ** 2)
        held = np.maximum(expected + weight * (H - expected), 0.02 * expected)
        unsure = np.full(len(held), (1 - weight) * expected**2)
        tau = shaping.width * clip if loss == "squared" else shaping.width
        extra = 0.25 * clip * clip if loss == "squared" else 1.0
        values = posterior_values(h_max * held, h_max**2 * unsure, S,
                                  sd_s=deviation(nodes[1], clip), tau=tau, rate=shaping.rate,
                                  extra=extra, correlation=0.0)
        return np.clip(values, -shaping.rate * bound / h_max, shaping.rate * bound / h_max)
