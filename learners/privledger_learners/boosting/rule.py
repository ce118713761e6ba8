"""The constants of the default rule, and the plan that follows from them.

Found on development sets that are public; no data set of a user enters. See
docs/papers/s-gbdt.md for which step is free (post-processing) and which is charged.
"""

from __future__ import annotations

import math

from attrs import frozen

import privledger as pl


@frozen
class Rule:
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

    def start_nodes(self, noise: float) -> tuple[pl.Gaussian, ...]:
        """The releases of the initial score, for an overall noise multiplier `noise`."""
        if self.start_share == 0:
            return ()
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
        multiplier = noise * math.sqrt(self.trees / (1 - self.start_share))
        if self.static_noise:
            return pl.Gaussian(multiplier)
        return pl.Gaussian(multiplier, shares=(self.count_share, 1 - self.count_share))

    def round_node(self, noise: float) -> pl.Node:
        """One round: a tree, on a Poisson sample where the rule samples."""
        tree = self.tree_node(noise)
        return tree if self.sampling_rate == 1 else pl.PoissonSample(self.sampling_rate, tree)

    def unfiltered(self, noise: float) -> pl.Node:
        """The whole fit without an individual filter."""
        return pl.Sequential([*self.start_nodes(noise), pl.Repeat(self.round_node(noise),
                                                                  self.trees)])

    def filter_node(self, noise: float, order: float) -> pl.IndividualFilter:
        """The trees behind an individual filter whose cap is what `trees` rounds cost."""
        inside = pl.Repeat(self.round_node(noise), self.trees + self.extra_rounds)
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
        return pl.Sequential([*self.start_nodes(noise), self.filter_node(noise, order)])


@frozen
class Priced:
    """A rule with its noise: what `plan` and `fit` share.

    Attributes:
        noise: overall noise multiplier, 1/mu for full-batch rounds.
        order: Renyi order of a `renyi` filter, else 0.
    """

    rule: Rule
    noise: float
    order: float
    plan: pl.Node


def price(rule: Rule, epsilon: float, delta: float, relation: str) -> Priced:
    """Smallest noise for which the rule's plan costs at most epsilon at delta."""
    noise = pl.calibrate(rule.unfiltered, epsilon, delta, relation)
    order = 0.0
    if rule.individual_filter == "renyi":
        # The order that suits the plain plan; fixed here, before any data.
        found = pl.certify(rule.unfiltered(noise), delta, relation, accountant="rdp").order
        order = 2.0 if found is None else found
    if rule.individual_filter is not None:
        noise = pl.calibrate(lambda z: rule.plan(z, order), epsilon, delta, relation)
    return Priced(rule, noise, order, rule.plan(noise, order))
