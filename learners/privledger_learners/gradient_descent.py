"""Noisy gradient descent of a linear model: what it reserves, then what it asks.

Every look at the rows is a clipped sum with Gaussian noise; all else follows from public facts and
released sums. Full batch by default; with `sampling_rate` below 1 this is DP-SGD (Abadi et al.
2016). The rule and how it was chosen: docs/papers/linear.md.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.boosting.sum_of_trees import (
    RESIDUAL_EDGES,
    loss_of,
    scaling,
    score_width,
)
from privledger_learners.linear_model import (
    MOST_REACH,
    STEEP,
    LinearModel,
    encoding_of,
    fourier_waves,
    log_scaled,
    on_the_range,
    wide_around_zero,
)

MOMENTUM, ROW_CAP, CLIP, TIME = 0.8, 1.5, 0.5, 1.2
SCALE_SHARE, CLIP_SHARE = 0.2, 0.03
MOST_NUMBERS = 4096
WAVES, TURNS = 100, 0.32
WEAK, PLENTY, SLOW = 15.0, 60.0, 300.0
LEAST_SAMPLED = 0.7  # noise multiplier; with less, steps on samples cost far more
LEAST_MEAN = 2.0**-10  # of counts, in half ranges
FAR = 0.5  # on the logarithmic scale around zero: a thirtieth of the range


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

    @classmethod
    def of(cls, schema: pl.Schema, mu: float, *, steps: int = 100, bought_clip: bool = True,
           sampling_rate: float = 1.0) -> LinearRule:
        """The rule for a schema and for the Gaussian-DP parameter of the whole budget."""
        regression = schema.task == "regression"
        return cls(sum(column.kind == "numeric" for column in schema.features), regression, steps,
                   min(max(0.005 / mu, 0.01), 0.15), regression and bought_clip, sampling_rate)

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
        """One gradient of the descent; of a sample, about as much noise less as rows."""
        left = (1 - self.start_share - SCALE_SHARE * (self.numeric > 0)
                - CLIP_SHARE * self.bought_clip)
        whole = noise * math.sqrt(self.steps / left)
        return pl.Gaussian(whole if self.sampling_rate == 1 else math.hypot(
            whole * self.sampling_rate, LEAST_SAMPLED))

    def nodes(self, noise: float) -> tuple[pl.Node, ...]:
        """All releases of a fit with overall noise multiplier `noise`, one after the other."""
        step: pl.Node = self.step_node(noise)
        if self.sampling_rate < 1:
            step = pl.PoissonSample(self.sampling_rate, step)
        return (self.start_node(noise), *([self.scale_node(noise)] if self.numeric else []),
                *([self.clip_node(noise)] if self.bought_clip else []),
                pl.Repeat(step, self.steps))

    def plan(self, noise: float) -> pl.Node:
        """The composition node of a fit."""
        return pl.Sequential(self.nodes(noise))


def columns_of(schema: pl.Schema, hinges: bool = True, waves: int = 0) -> int:
    """Numbers in one gradient: columns of the encoded row times classes."""
    columns = 1 + waves + sum(len(column.categories) or 1 + hinges for column in schema.features)
    return columns * score_width(schema)


def check_width(schema: pl.Schema, hinges: bool, waves: int = 0) -> None:
    """Refuse a schema whose gradients are too long to be one vector."""
    if columns_of(schema, hinges, waves) > MOST_NUMBERS:
        columns = columns_of(schema, hinges, waves) // score_width(schema)
        raise pl.InvalidValue("schema", f"{columns} columns", f"at most {MOST_NUMBERS} columns "
                              "times classes: leave columns out, or hinges=False")


def numeric_sums(schema: pl.Schema, wide: np.ndarray) -> pl.questions.LinearGradient:
    """Numeric columns and their squares, on [-1, 1], and a one: no vector is longer than the
    clip."""
    places = [place for place, column in enumerate(schema.features) if column.kind == "numeric"]
    reach = min(math.sqrt(2 * len(places) + 1), MOST_REACH)
    encoding = pl.questions.RowEncoding(
        [schema.features[place].name for place in places], [0] * len(places),
        np.zeros(len(places)), np.ones(len(places)), [bool(wide[place]) for place in places],
        "square", 1.0, reach, (), STEEP)
    return pl.questions.LinearGradient(encoding, reach)


@frozen
class Descent:
    """One grant's worth of steps: start, scales, clip, then down the gradient.

    Attributes:
        data: the handle that pays. noise: the overall multiplier that `rule` is priced at.
        gradient_clip: bound on a gradient, in lengths of a row; None for the rule.
        log_scale, hinges, waves: how rows are encoded. loss: empty for that of the schema.
    """

    session: pl.Session
    data: pl.Dataset
    rule: LinearRule
    noise: float
    gradient_clip: float | None = None
    log_scale: bool = True
    hinges: bool = True
    waves: int = 0
    loss: str = ""

    def run(self) -> LinearModel:
        """The mean of the weights of the last half of the steps."""
        data, schema, rule = self.data, self.data.schema, self.rule
        center, scale = scaling(schema)
        begin, n_hat = self._begin()
        wide = np.array([self.log_scale and log_scaled(column) for column in schema.features])
        centers, scales = self._scales(wide, n_hat)
        for place in np.flatnonzero(wide & (np.hypot(centers, scales) > FAR)):
            if wide_around_zero(schema.features[place]):  # no range far wider than its values
                wide[place] = False
                centers[place], scales[place] = on_the_range(
                    schema.features[place], centers[place], scales[place])
        width = math.sqrt(len(schema.features) + 1 + 0.5 * self.waves)
        longer = math.sqrt(width**2 + 0.4 * rule.numeric * self.hinges)
        waves = fourier_waves(rule.numeric, self.waves, TURNS)
        encoding = encoding_of(schema, wide, centers, scales, "hinge" if self.hinges else "",
                               ROW_CAP * longer, waves, STEEP)
        loss = self.loss or loss_of(schema)
        if loss == "poisson":  # in units of twice the mean: a score of log(1/2) says it
            center, scale = schema.target.lower, 2 * scale * max(float(begin[0]) + 1, LEAST_MEAN)
            begin = np.array([-math.log(2.0)])
        score = data.score(loss if loss == "poisson" else loss_of(schema), begin, center=center,
                           scale=scale)
        signal = n_hat / self.noise / width
        bound = self._bound(score, signal) if rule.bought_clip else 1.0
        if loss == "huber":  # in units of what is bought: where it goes on as a straight line
            begin, scale, bound = begin / bound, scale * bound, 1.0
            score = data.score(loss, begin, center=center, scale=scale)
        clip = longer * self._clip(signal, bound)
        time = self._time(signal, width)
        rate = (1 - MOMENTUM) * time / rule.steps / (
            (1.0 if rule.regression else 0.25) * longer**2)
        shape = (score_width(schema), encoding.count)
        weights, momentum, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        node, half = rule.step_node(self.noise), rule.steps // 2
        for step in range(rule.steps):
            paying = data if rule.sampling_rate == 1 else data.poisson(rule.sampling_rate)
            found = self.session.release(node, paying.query(
                (pl.questions.LinearGradient(encoding, clip, score),), None, "gradient"))
            momentum = MOMENTUM * momentum + np.reshape(found, shape) / (
                n_hat * rule.sampling_rate)
            weights = weights + rate * momentum
            moves = (rate * momentum).T
            score.add(encoding, moves[:, 0] if len(begin) == 1 else moves)
            if step >= half:
                total += weights
        return LinearModel(schema, centers, scales, wide, self.hinges, encoding.reach, begin,
                           total.T / (rule.steps - half), center, scale, n_hat, waves, loss,
                           STEEP)

    def _time(self, signal: float, width: float) -> float:
        """How long to learn: the more the rows stand out of the noise, the longer."""
        time = float(min(4500.0, TIME * signal**1.35))
        if self.rule.regression and time > SLOW:  # a plane is found by then, its noise is not
            time = math.sqrt(SLOW * time)
        if self.waves:
            return time
        # Where there is little signal, many columns learn little in that time.
        little = min(max(math.log(PLENTY / signal) / math.log(PLENTY / WEAK), 0.0), 1.0)
        return float(time * max(width / 3, 1.0) ** (0.9 * little))

    def _begin(self) -> tuple[np.ndarray, float]:
        """The score without features, shape (width,), and about how many records there are."""
        session, data, schema = self.session, self.data, self.data.schema
        node = self.rule.start_node(self.noise)
        if schema.task == "regression":
            query = data.query((pl.questions.Ones(), pl.questions.ColumnValue(
                "", *scaling(schema))), None, "start")
            many, total = (float(one) for one in session.release(node, query))
            n_hat = max(many, 50.0)
            return np.array([np.clip(total, -n_hat, n_hat) / n_hat]), n_hat
        counts = np.ravel(session.release(node, data.histogram(schema.target.name)))
        counts = counts[: len(schema.target.categories)]
        plain = data.ledger.relation == "add_remove"
        spread = node.noise_multiplier * (1.0 if plain else math.sqrt(2))
        n_hat = max(float(counts.sum()), 50.0)
        filled = np.maximum(counts, 0.0) + spread
        logs = np.log(filled / filled.sum())
        logs = (logs - logs.mean()) / (1 + (len(counts) * spread / n_hat) ** 2)
        return (logs[1:] - logs[:1] if len(counts) == 2 else logs), n_hat

    def _scales(self, wide: np.ndarray, n_hat: float) -> tuple[np.ndarray, np.ndarray]:
        """Center and spread of every feature, from released sums; 0 and 1 of categories."""
        data, schema = self.data, self.data.schema
        centers, scales = np.zeros(len(schema.features)), np.ones(len(schema.features))
        if not self.rule.numeric:
            return centers, scales
        block, node = numeric_sums(schema, wide), self.rule.scale_node(self.noise)
        sums = np.ravel(self.session.release(node, data.query((block,), None, "sums and squares")))
        means, squares = sums[:-1:2] / n_hat, sums[1:-1:2] / n_hat
        error = block.clip * node.noise_multiplier / n_hat * (
            1 if data.ledger.relation == "add_remove" else 2)
        held = np.array([column.kind == "numeric" for column in schema.features])
        centers[held] = np.clip(means, -1.0, 1.0)
        scales[held] = np.sqrt(np.maximum(squares - centers[held] ** 2, 0.0) + 4 * error**2 + 1e-3)
        return centers, scales

    def _clip(self, signal: float, bound: float) -> float:
        """Bound on a gradient, in lengths of a row."""
        if self.gradient_clip is not None:
            return float(self.gradient_clip)
        if not self.rule.bought_clip:
            return CLIP
        return 0.75 * min(max(math.sqrt(signal / 50), 1.0), 2.5) * bound

    def _bound(self, score: pl.questions.Score, signal: float) -> float:
        """Size of a residual that few are beyond."""
        node = self.rule.clip_node(self.noise)
        counts = np.ravel(self.session.release(node, self.data.query(
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
        rows = signal * math.sqrt(len(self.data.schema.features) + 1)
        plenty = min(max((math.log2(max(rows, 2.0)) - 8) / 5, 0.0), 1.0)
        return float(min(1.0, most ** (1 - plenty) * max(size, most) ** plenty))
