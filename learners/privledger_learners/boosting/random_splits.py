"""S-GBDT, the algorithm: what is reserved, then what is asked, tree by tree.

Kirschte, Peinemann, Stock, Cotrini, Mohammadi, "S-GBDT: Frugal Differentially Private Gradient
Boosting Decision Trees": random splits, joint noisy leaves, individual filters. Its lines,
deviations and the reasons for them are in docs/papers/s-gbdt.md. What follows from released
values only is free: `feature_memory`, `leaf_values`, `sum_of_trees`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from attrs import define, evolve, field, frozen

import privledger as pl
from privledger_learners.boosting.feature_memory import FeatureMemory, Tests
from privledger_learners.boosting.leaf_values import Beliefs, Clip, LeafRule
from privledger_learners.boosting.sum_of_trees import (
    RESIDUAL_EDGES,
    Model,
    Priced,
    Start,
    class_prior,
    class_scores,
    mean_estimate,
    mean_square,
    regression_clip,
    scaling,
    score_width,
)
from privledger_learners.estimator import Relation
from privledger_learners.gradient_descent import Descent, LinearRule
from privledger_learners.linear_model import LinearModel

CLIP_FACTOR, NEIGHBOUR = 0.7, 0.60


@frozen
class SgbdtRule:
    """Everything that fixes a fit before data exist.

    Attributes:
        trees: rounds that the noise is calibrated for.
        extra_rounds: further rounds under an individual filter.
        start_share: part of mu squared for the initial score; 0 starts at the middle.
        count_share: part of each tree's mu squared for the count (hessian); the paper's r1.
        clip: gradient clip, on the scaled target; None lets the initial score choose
            (regression only, bought inside `start_share`).
        sampling_rate: Poisson rate of the trees; 1 for full batch.
        static_noise: no count is released (the paper's static leaf noise ablation).
        individual_filter: None, "gdp" or "renyi".
        regression: which of the two start releases is used.
        wide: positions of the features whose ranges are bought, each by a histogram of its own.
        range_share: part of mu squared for all of those.
        linear, linear_share: the linear model that the trees begin on, which buys the initial
            score, and its part of mu squared; None and 0 for none.
    """

    trees: int
    start_share: float
    count_share: float
    clip: float | None
    regression: bool
    sampling_rate: float = 1.0
    extra_rounds: int = 0
    static_noise: bool = False
    individual_filter: str | None = None
    wide: tuple[int, ...] = ()
    range_share: float = 0.0
    linear: LinearRule | None = None
    linear_share: float = 0.0

    def linear_noise(self, noise: float) -> float:
        """The overall multiplier at which the linear model is priced."""
        return noise / math.sqrt(self.linear_share)

    def range_node(self, noise: float) -> pl.Gaussian:
        """The histogram of one wide feature."""
        return pl.Gaussian(noise * math.sqrt(len(self.wide) / self.range_share))

    def before_nodes(self, noise: float) -> tuple[pl.Node, ...]:
        """Everything that comes before the first tree."""
        ranges = (pl.Repeat(self.range_node(noise), len(self.wide)),) if self.wide else ()
        linear = () if self.linear is None else self.linear.nodes(self.linear_noise(noise))
        return (*ranges, *linear, *self.start_nodes(noise))

    def start_nodes(self, noise: float) -> tuple[pl.Gaussian, ...]:
        """The releases of the initial score, for an overall noise multiplier `noise`."""
        if self.start_share == 0:
            return ()
        if self.linear is not None:  # the histogram of its residuals, for the clip
            return (pl.Gaussian(noise / math.sqrt(self.start_share)),)
        if not self.regression:
            return (pl.Gaussian(noise / math.sqrt(self.start_share)),)
        pair, residual = self._start_split()
        nodes = [pl.Gaussian(noise / math.sqrt(pair), shares=(1 / 3, 2 / 3))]
        if residual:
            nodes.append(pl.Gaussian(noise / math.sqrt(residual)))
        return tuple(nodes)

    def _start_split(self) -> tuple[float, float]:
        """(count and sum, residual histogram): the histogram is bought only for the clip."""
        if self.clip is not None:
            return self.start_share, 0.0
        return 0.8 * self.start_share, 0.2 * self.start_share

    def tree_node(self, noise: float) -> pl.Gaussian:
        """One tree: joint release of count and clipped gradient sum for all leaves."""
        left = 1 - self.start_share - self.range_share - self.linear_share
        multiplier = noise * math.sqrt(self.trees / left)
        if self.static_noise:
            return pl.Gaussian(multiplier)
        return pl.Gaussian(multiplier, shares=(self.count_share, 1 - self.count_share))

    def round_node(self, noise: float) -> pl.Node:
        """One round: a tree, on a Poisson sample where the rule samples."""
        tree = self.tree_node(noise)
        return tree if self.sampling_rate == 1 else pl.PoissonSample(self.sampling_rate, tree)

    def unfiltered(self, noise: float) -> pl.Node:
        """The whole fit without an individual filter."""
        return pl.Sequential([*self.before_nodes(noise), pl.Repeat(self.round_node(noise),
                                                                   self.trees)])

    def every_round(self, noise: float) -> pl.Repeat:
        """All rounds that a fit behind a filter may ask for, the extra ones too."""
        return pl.Repeat(self.round_node(noise), self.trees + self.extra_rounds)

    def in_scope(self, noise: float, scope: pl.IndividualFilter) -> pl.IndividualFilter:
        """A whole fit behind the filter of a scope, which pays for the initial score, too."""
        inside = pl.Sequential([*self.before_nodes(noise), self.every_round(noise)])
        return evolve(scope, node=inside)

    def noise_under(self, scope: pl.IndividualFilter, share: float) -> float:
        """Noise by which a fit without extra rounds takes `share` of every record's cap."""
        most = share * scope.cap
        if scope.kind == "gdp":
            return 1 / math.sqrt(most)
        low, high = 1e-3, 1e9
        while high > low * (1 + 1e-10):
            noise = math.sqrt(low * high)
            fits = float(pl.rdp(self.unfiltered(noise), [scope.order])[0]) <= most
            low, high = (low, noise) if fits else (noise, high)
        return high

    def filter_node(self, noise: float, order: float) -> pl.IndividualFilter:
        """The trees behind an individual filter whose cap is what `trees` rounds cost."""
        inside = self.every_round(noise)
        if self.individual_filter == "gdp":
            cap = self.trees / self.tree_node(noise).noise_multiplier ** 2
            return pl.IndividualFilter("gdp", cap * (1 + 1e-12), node=inside)
        regular = pl.Repeat(self.round_node(noise), self.trees)
        cap = float(pl.rdp(regular, [order])[0])
        return pl.IndividualFilter("renyi", cap, order=order, node=inside)

    def plan(self, noise: float, order: float = 0.0) -> pl.Node:
        """The composition node of a fit with overall noise multiplier `noise`."""
        if self.individual_filter is None:
            return self.unfiltered(noise)
        return pl.Sequential([*self.before_nodes(noise), self.filter_node(noise, order)])


def price(rule: SgbdtRule, epsilon: float, delta: float,
          relation: Relation) -> Priced[SgbdtRule]:
    """Smallest noise for which the rule's plan costs at most epsilon at delta."""
    noise = pl.calibrate(rule.unfiltered, epsilon, delta, relation)
    order = 0.0
    if rule.individual_filter == "renyi":
        # The order that suits the plain plan; fixed here, before any data.
        found = pl.certify(rule.unfiltered(noise), delta, relation, accountant="rdp").order
        order = 2.0 if found is None else found
    if rule.individual_filter is not None:
        noise = pl.calibrate(lambda z: rule.plan(z, order), epsilon, delta, relation)
    return Priced(rule, noise, rule.plan(noise, order), order)


def begin_linear(session: pl.Session, data: pl.Dataset, priced: Priced[SgbdtRule],
                 default_clip: float) -> tuple[Start, LinearModel]:
    """Buy a linear model, and for a number the clip of what it leaves."""
    rule, noise = priced.rule, priced.noise
    assert rule.linear is not None
    linear = Descent(session, data, rule.linear, rule.linear_noise(noise)).run()
    n_hat, clip, square = linear.n_hat, rule.clip or default_clip, 0.1
    for node in rule.start_nodes(noise):
        score = linear.added(data.score("squared", linear.start, center=linear.center,
                                        scale=linear.scale))
        cells = pl.questions.ResidualCells(score, RESIDUAL_EDGES)
        histogram = session.release(node, data.query((pl.questions.Ones(),), cells, "residuals"))
        clip = regression_clip(histogram, node.noise_multiplier, n_hat, 1 / noise, CLIP_FACTOR)
        square = mean_square(histogram)
    total = n_hat
    if not rule.regression:
        first = linear.start
        prior = np.asarray(pl.questions.probabilities(
            "softmax", np.array([[0.0, first[0]]]) if len(first) == 1 else first[None]))[0]
        total = n_hat * float(1 - np.square(prior).sum()) / (1 - 1 / len(prior))
    return Start(linear.start, n_hat, clip, 1e-4, total, (0.3 * total) ** 2, square), linear


def begin(session: pl.Session, data: pl.Dataset, priced: Priced[SgbdtRule],
          default_clip: float) -> Start:
    """Buy and evaluate the initial score; with no share for it, start at the middle."""
    rule, schema, width = priced.rule, data.schema, score_width(data.schema)
    nodes, clip = rule.start_nodes(priced.noise), rule.clip or default_clip
    if not nodes:
        rows = float(schema.rows_for(data.ledger.relation) or 1000)
        return Start(np.zeros(width), rows, clip, 0.1, rows, rows**2)
    if rule.regression:
        return _begin_regression(session, data, priced, nodes)
    counts = session.release(nodes[0], data.histogram(schema.target.name))
    sd = nodes[0].noise_multiplier
    prior = class_prior(counts, sd)
    classes, n_hat = len(prior), max(float(counts.sum()), 50.0)
    each = float(1 - np.square(prior).sum()) / (1 - 1 / classes)  # hessian mass of a record
    return Start(class_scores(prior), n_hat, clip, 0.0, n_hat * each,
                 each**2 * classes * sd**2 + (0.1 * n_hat * each) ** 2)


def _begin_regression(session: pl.Session, data: pl.Dataset, priced: Priced[SgbdtRule],
                      nodes: tuple[pl.Gaussian, ...]) -> Start:
    center, scale = scaling(data.schema)
    name = data.schema.target.name
    both = (pl.questions.Ones(), pl.questions.ColumnValue("", center, scale))
    pair = data.query(both, None, f"start of {name}")
    count, total = session.release(nodes[0], pair)
    unit = nodes[0].noise_multiplier
    n_hat, mean, variance = mean_estimate(float(count), float(total), unit * math.sqrt(3),
                                          unit * math.sqrt(1.5))
    clip, square = priced.rule.clip, 0.1
    if clip is None:
        score = data.score("squared", [mean], center=center, scale=scale)
        cells = pl.questions.ResidualCells(score, RESIDUAL_EDGES)
        histogram = session.release(nodes[1], data.query((pl.questions.Ones(),), cells,
                                                         "residuals"))
        clip = regression_clip(histogram, nodes[1].noise_multiplier, n_hat, 1 / priced.noise,
                               CLIP_FACTOR)
        square = mean_square(histogram)
    return Start(np.array([mean]), max(n_hat, 20.0), clip, variance, n_hat, 3 * unit**2, square)


@define(eq=False)
class Rounds:
    """One grant's worth of trees: ask for noisy sums, turn them into leaf values, repeat.

    Attributes:
        data: the handle that pays, filtered or not. memory: which tests come next.
        score: of the guarded rows under the model so far.
        adaptive: tests follow from what was released, else uniform as in the paper.
        clip: bound of each round's gradients.
    """

    session: pl.Session
    data: pl.Dataset
    priced: Priced[SgbdtRule]
    leaves: LeafRule
    model: Model
    memory: FeatureMemory
    score: pl.questions.Score
    beliefs: Beliefs
    adaptive: bool
    clip: Clip
    node: pl.Gaussian = field(init=False)  # of every tree

    def __attrs_post_init__(self) -> None:
        self.node = self.priced.rule.tree_node(self.priced.noise)

    def grow(self, schedule: Iterable[Tests], rollover: bool) -> Model:
        """All trees of the schedule, one after another: the tests of one may follow from the last.

        Args:
            rollover: scale each record's part down to what it can still pay.
        """
        rounds = self.priced.rule.trees + self.priced.rule.extra_rounds
        for number, (tests, leaves) in enumerate(schedule):
            self.one(tests, leaves, rounds - number if rollover else 0)
        self.model.left = self.clip.left
        return self.model

    def one(self, tests: list[pl.questions.Test], leaves: int, rollover: int) -> None:
        """Release one tree and add its values to the model and to the guarded scores.

        Args:
            rollover: rounds over which a record's part may be scaled down; 0 ejects it.
        """
        cells = pl.questions.TreeCells(self.model.bins, tests, leaves)  # type: ignore[arg-type]  # a converter
        H, S, sd_h, sd_s = self._ask(cells, rollover)
        alone = len(tests) == 1 and self.adaptive
        if self.leaves.ratio:
            values = self.leaves.divided(H, S, self.clip.now)
        else:
            values, S = self._posterior(tests, H, S, sd_h, sd_s, alone)
        self.score.add(cells, values)
        self.model.trees.append((cells, values))
        if alone:
            self.memory.learn(tests[0].feature, tests[0].table, S, values, sd_s)

    def _ask(self, cells: pl.questions.TreeCells,
             rollover: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        """H and S per leaf, scaled up by the sampling rate, and their standard deviations."""
        rule, node = self.priced.rule, self.node
        handle = self.data if rule.sampling_rate == 1 else self.data.poisson(rule.sampling_rate)
        clip, rate = self.clip.now, rule.sampling_rate
        gradient = self.score.gradient(clip)
        unit = node.noise_multiplier / rate
        if rule.static_noise:
            S = self.session.release(node, handle.query((gradient,), cells, "tree"),
                                     rollover=rollover)
            H = np.full(cells.count, self.beliefs.total / cells.count * rate)
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
        leaves, beliefs, clip = self.leaves, self.beliefs, self.clip.now
        beliefs.follow_total(H, sd_h)
        mass, unsure = self.memory.mass(tests, H, beliefs.total, sd_h, alone=alone)
        mass, unsure = leaves.most_mass * mass, leaves.most_mass**2 * unsure
        shift = 0.0
        if not beliefs.curved:
            shift = beliefs.follow_intercept(mass, unsure, S, sd_s, leaves.spread(clip))
            S = S - mass * shift
        ordered = alone and not self.memory.features[tests[0].feature].categorical
        found = leaves.posterior(mass, unsure, S, clip=clip, sd_s=sd_s, scale=self.clip.first,
                                 correlation=NEIGHBOUR if ordered else 0.0)
        self.clip.follow(mass, S, found, sd_s)
        return found.values + shift, S
