"""MECHANISMS: what each mechanism costs, answers and rests on, a row each.

A type without a row has no price, and is refused. A test holds every row to the union `Mechanism`
and to what the questions take (tests/mechanisms/test_table.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen

from privledger.accounting import (
    Cost,
    RdpCurve,
    Relation,
    bounded_range_rdp,
    gaussian_rdp,
    laplace_currencies,
    laplace_rdp,
    maximum,
    pure_rdp,
    range_currencies,
    response_currencies,
    sequential,
    steps_currencies,
    zcdp_rdp,
)
from privledger.accounting.pld import (
    RHO,
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    amounts,
    both_ways,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    envelope_currency,
    losses_rdp,
    mixture,
    pure_pair,
    response_loss,
    response_pair,
    wide_discrete_mu,
)
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.graph.additive import (
    Asserted,
    AssertedZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
)
from privledger.graph.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
    TopK,
)
from privledger.rounding import as_promised, down, multiply_up, part_up, up

Mechanism = (Laplace | Gaussian | MixtureOfGaussians | DiscreteLaplace | DiscreteGaussian
             | Exponential | PermuteAndFlip | ReportNoisyMax | TopK | SparseVector
             | RandomizedResponse | PartitionSelection | Asserted | AssertedZCDP)

Orders = tuple[float, ...]
Prices = tuple[float, Fraction | float]
"""Squared mu, and rho."""
_LARGEST_SHIFT = 1e3  # of a mixture, in deviations
_LARGEST_LOSS = 600.0  # nats; beyond, masses leave the floating-point range


def _pure(
    epsilon: float, curve: Callable[[], RdpCurve], relation: Relation, pair: LaplacePair
    | BoundedRangePair | AtomPair | None, price: Callable[[], Prices],
    failure: float = 0.0, part: Fraction | None = None,
) -> Cost:
    price = cache(price)  # asked for when needed: a ledger of another filter never does
    known = pair is not None and 1e-12 <= epsilon <= _LARGEST_LOSS
    why = "the pure epsilon lies outside 1e-12 to 600, or has too many losses to list"
    return Cost(relation, epsilon, None, curve, lambda: price()[0],
                both_ways(pair) if pair is not None and known else None, "" if known else why,
                failure, lambda: price()[1], part)


def _thresholds(part: Fraction, relation: Relation, orders: Orders) -> Cost:
    """As Laplace noise of this epsilon, which two candidates attain [docs/proofs/currencies.md]."""
    epsilon = part_up(part)
    return _pure(epsilon, lambda: laplace_rdp(epsilon, orders), relation, LaplacePair(epsilon),
                 lambda: laplace_currencies(epsilon), part=part)


def _bounded(part: Fraction, relation: Relation, orders: Orders) -> Cost:
    eta = part_up(part)

    def price() -> Prices:
        squared, rho = range_currencies(eta)
        return squared, min(part * part / 8, Fraction(rho))

    return _pure(eta, lambda: bounded_range_rdp(eta, orders), relation, BoundedRangePair(eta),
                 price, part=part)


def _laplace(mechanism: Laplace, relation: Relation, orders: Orders) -> Cost:
    part = as_promised(mechanism.l1_sensitivity) / Fraction(mechanism.scale)
    return _thresholds(part, relation, orders)


def _gaussian(mechanism: Gaussian, relation: Relation, orders: Orders) -> Cost:
    mu = up(1 / mechanism.noise_multiplier)
    rho = 1 / (2 * Fraction(mechanism.noise_multiplier) ** 2)

    def curve() -> RdpCurve:
        return gaussian_rdp(mechanism.noise_multiplier, orders)

    if not 1e-12 <= mu <= 1e4:
        return Cost(relation, math.inf, up(mu**2), curve, up(mu**2), zcdp=rho,
                    no_losses="a Gaussian of mu outside 1e-12 to 1e4")
    return Cost(relation, math.inf, up(mu**2), curve, up(mu**2), both_ways(GaussianPair(mu)),
                zcdp=rho)


def _mixture(mechanism: MixtureOfGaussians, relation: Relation, orders: Orders) -> Cost:
    """By Gaussian DP and zCDP as if the amount were always the largest."""
    deviation, most = mechanism.standard_deviation, max(mechanism.sensitivities)
    whole = evolve(_gaussian(Gaussian(down(deviation / most)), relation, orders),
                   zcdp=Fraction(most) ** 2 / (2 * Fraction(deviation) ** 2))
    law = amounts(mechanism.sensitivities, mechanism.probabilities, deviation)
    if len(law.places) == 1:
        return whole
    losses = mixture(law) if 1e-12 <= law.places[-1] <= _LARGEST_SHIFT else None

    def curve() -> RdpCurve:
        return whole.curve if losses is None else RdpCurve.from_array(
            orders, np.minimum(whole.curve.as_array(), losses_rdp(losses, orders)))

    return Cost(relation, math.inf, None, curve, whole.gdp_squared, losses,
                "a mixture of Gaussians of a shift outside 1e-12 to 1e3 deviations",
                zcdp=whole.zcdp)


def _discrete_laplace(mechanism: DiscreteLaplace, relation: Relation, orders: Orders) -> Cost:
    part = as_promised(mechanism.parameter) * mechanism.sensitivity
    epsilon = part_up(part)
    pair = discrete_laplace_pair(mechanism.parameter, mechanism.sensitivity)
    return _pure(epsilon, lambda: pure_rdp(epsilon, orders), relation, pair,
                 lambda: steps_currencies(mechanism.parameter, mechanism.sensitivity), part=part)


def _discrete_gaussian(mechanism: DiscreteGaussian, relation: Relation, orders: Orders) -> Cost:
    rho = (mechanism.sensitivity / Fraction(mechanism.sigma)) ** 2 / 2
    mu = wide_discrete_mu(mechanism.sigma, mechanism.sensitivity)
    wide = mu is not None and 1e-12 <= mu <= 1e4
    pair = GaussianPair(mu, tight=False) if mu is not None and wide else (
        discrete_gaussian_pair(mechanism.sigma, mechanism.sensitivity))
    return Cost(relation, math.inf, None, lambda: zcdp_rdp(part_up(rho), orders),
                up(mu * mu) if mu is not None and wide else math.inf,
                None if pair is None else both_ways(pair),
                "a discrete Gaussian of so large a sensitivity has too many losses to list",
                zcdp=rho)


def _chosen(mechanism: ReportNoisyMax | TopK, relation: Relation, orders: Orders) -> Cost:
    price = _bounded if mechanism.noise == "gumbel" else _thresholds
    return price(as_promised(mechanism.epsilon), relation, orders)


def _sparse_vector(mechanism: SparseVector, relation: Relation, orders: Orders) -> Cost:
    first = up(mechanism.sensitivity / mechanism.threshold_scale)
    each = up(mechanism.sensitivity / mechanism.query_scale) * (1 if mechanism.monotone else 2)
    found = multiply_up(each, float(mechanism.cutoff))
    sensitivity, whole = as_promised(mechanism.sensitivity), mechanism.cutoff * (
        1 if mechanism.monotone else 2)
    part = sensitivity / Fraction(mechanism.threshold_scale) + (
        whole * sensitivity / Fraction(mechanism.query_scale))
    epsilon = part_up(part)

    def curve() -> RdpCurve:
        threshold = laplace_rdp(first, orders).bounds
        every = pure_rdp(epsilon, orders).bounds
        return RdpCurve(orders, tuple(min(one, up(first_bound + found))
                                      for one, first_bound in zip(every, threshold, strict=True)))

    return _pure(epsilon, curve, relation, pure_pair(epsilon, tight=False),
                 lambda: steps_currencies(epsilon, 1), part=part)


def _response(mechanism: RandomizedResponse, relation: Relation, orders: Orders) -> Cost:
    noise, buckets = mechanism.noise_parameter, mechanism.num_buckets
    epsilon = response_loss(noise, buckets)
    if epsilon == 0:
        return Cost.zero(relation, orders)
    pair = response_pair(noise, buckets)
    price = cache(lambda: response_currencies(epsilon, noise, buckets))
    cost = _pure(epsilon, lambda: _response_rdp(pair, epsilon, orders), relation, pair, price)
    known = cost.losses
    return cost if known is None or buckets <= 6 else evolve(
        cost, zcdp=lambda: min(price()[1], envelope_currency(known, RHO)))


def _response_rdp(pair: AtomPair, epsilon: float, orders: Orders) -> RdpCurve:
    """Exact from the two or three losses; at most what any pure mechanism has."""
    pure = pure_rdp(epsilon, orders)
    if len(pair.loss) == 2:
        return pure
    share = pair.p[0] + pair.p[2]
    # The middle answer says nothing: a coin of this epsilon, shown with probability `share`.
    beta = [order - 1 for order in orders]
    bounds = [min(whole, up(math.log1p(share * math.expm1(b * whole)) / b * (1 + 1e-13)))
              if b * whole < 600 else whole
              for b, whole in zip(beta, pure.bounds, strict=True)]
    return RdpCurve(orders, tuple(bounds))


MOST_CASES = 16


def _groups(mechanism: PartitionSelection, relation: Relation, orders: Orders) -> Cost:
    """The dearest case of how many of a person's groups hold no other person."""
    k, alone = mechanism.groups_per_person, mechanism.shown_alone
    if mechanism.noise == "geometric":
        each = part_up(k / Fraction(mechanism.scale))
        return _asserted(Asserted(each, "proved", _any_shown(alone, k)), relation, orders)
    ends = sorted({round(k * step / MOST_CASES) for step in range(MOST_CASES + 1)}
                  if k > MOST_CASES else range(k + 1))
    cases = [(end, end) for end in ends] if k <= MOST_CASES else list(pairwise(ends))
    costs = []
    for least, most in cases:
        parts = [leaf_cost(one, relation, orders) for one in _noise_on(mechanism, k - least)]
        if most:
            parts.append(_failing(_any_shown(alone, most), relation, orders))
        costs.append(sequential(parts))
    return maximum(costs)


def _any_shown(alone: float, groups: int) -> float:
    """Probability, rounded up, with which one of so many groups is published."""
    shown = -math.expm1(groups * math.log1p(-alone)) * (1 + 1e-13)
    return min(1.0, max(1e-300, up(shown)))


def _noise_on(mechanism: PartitionSelection, groups: int) -> list[Laplace | Gaussian]:
    """What counts of so many groups that one person is in cost; nothing for no group."""
    if not groups:
        return []
    if mechanism.noise == "laplace":
        return [Laplace(mechanism.scale, float(groups))]
    return [Gaussian(mechanism.scale / math.sqrt(groups) * (1 - 1e-15))]


def _failing(failure: float, relation: Relation, orders: Orders) -> Cost:
    """Nothing, but for a probability with which nothing is promised."""
    pair = AtomPair((0.0,), ((1 - failure) * (1 + 1e-15),), failure, failure, tight=False)
    return Cost(relation, 0.0, None, RdpCurve.zero(orders), 0.0, both_ways(pair),
                failure=failure, zcdp=0.0)


def _asserted(mechanism: Asserted, relation: Relation, orders: Orders) -> Cost:
    part, epsilon = as_promised(mechanism.epsilon), mechanism.epsilon
    pair = pure_pair(epsilon, mechanism.delta, tight=False)
    return _pure(epsilon, lambda: pure_rdp(epsilon, orders), relation, pair,
                 lambda: steps_currencies(epsilon, 1), mechanism.delta, part)


def _asserted_zcdp(mechanism: AssertedZCDP, relation: Relation, orders: Orders) -> Cost:
    return Cost(relation, math.inf, None, zcdp_rdp(mechanism.rho, orders), math.inf,
                no_losses="zero-concentrated DP bounds Renyi divergences only",
                zcdp=as_promised(mechanism.rho))


# --- The table.


@frozen
class MechanismRow:
    """What holds of every mechanism of one type.

    Attributes:
        price: of one call, for the relation its sensitivity is stated for.
        source: where the price is proved.
        answers: what kind of question takes it; "" for a cost that was asserted, and for what other
            programs draw.
        spread: standard deviation of its noise in units of what one record moves at most; for a
            choice, the difference of two scores that is about large enough to be seen.
        relation: the only one it is stated for, if there is one.
        divides: whether a share of a person's weight costs at most that share of the price
            (docs/proofs/people.md, "Parts").
    """

    price: Callable[[Any, Relation, Orders], Cost]
    source: str
    answers: Literal["sum", "choice", "response", "thresholds", "groups", ""] = ""
    spread: Callable[[Any], float] = lambda _: math.inf
    relation: Relation | None = None
    divides: bool = False


def _of_choice(mechanism: Any) -> float:
    return 2.0 / float(mechanism.epsilon)


MECHANISMS: dict[type, MechanismRow] = {
    Laplace: MechanismRow(
        _laplace, "Mironov 2017 (arXiv:1702.07476v3), Proposition 6; docs/proofs/currencies.md",
        "sum", lambda one: math.sqrt(2.0) * one.scale / one.l1_sensitivity, divides=True),
    Gaussian: MechanismRow(
        _gaussian, "exactly 1/noise_multiplier-GDP: Dong, Roth, Su 2019 (arXiv:1905.02383v3), "
        "Theorem 2.7; docs/proofs/gaussian.md", "sum",
        lambda one: one.noise_multiplier / math.sqrt(max(one.shares, default=1.0)), divides=True),
    MixtureOfGaussians: MechanismRow(
        _mixture, "docs/proofs/relations.md, \"A random amount\"",
        spread=lambda one: one.standard_deviation / max(one.sensitivities),
        relation="add_remove"),
    DiscreteLaplace: MechanismRow(
        _discrete_laplace, "docs/proofs/privacy-loss.md, lemma 7", "sum",
        # Its square is 2 e^a/(e^a - 1)^2, a bit above what is said here.
        lambda one: math.sqrt(2.0) / math.expm1(min(one.parameter, 700.0)) / one.sensitivity),
    DiscreteGaussian: MechanismRow(
        _discrete_gaussian, "Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Theorem 4; "
        "docs/proofs/privacy-loss.md, lemmas 7 and 9", "sum",
        lambda one: one.sigma / one.sensitivity),
    Exponential: MechanismRow(
        lambda one, relation, orders: _bounded(one.range_part, relation, orders),
        "bounded range: Dong, Durfee, Rogers 2020; docs/proofs/bounded-range.md", "choice",
        _of_choice, divides=True),
    PermuteAndFlip: MechanismRow(
        lambda one, relation, orders: _thresholds(as_promised(one.epsilon), relation, orders),
        "docs/proofs/bounded-range.md", "choice", _of_choice, divides=True),
    ReportNoisyMax: MechanismRow(_chosen, "docs/proofs/bounded-range.md", "choice", _of_choice,
                                 divides=True),
    TopK: MechanismRow(_chosen, "docs/proofs/feature-scores.md", "choice", _of_choice,
                       divides=True),
    SparseVector: MechanismRow(
        _sparse_vector, "Lyu, Su, Li 2017 (arXiv:1603.01699), Algorithm 1; "
        "docs/proofs/sparse-vector.md", "thresholds",
        lambda one: math.sqrt(2.0) * max(one.threshold_scale, one.query_scale) / one.sensitivity),
    RandomizedResponse: MechanismRow(
        _response, "its two or three losses, exactly; docs/proofs/currencies.md", "response",
        relation="replace_one"),
    PartitionSelection: MechanismRow(
        _groups, "docs/proofs/partition-selection.md", "groups",
        lambda one: (1.0 if one.noise == "gaussian" else math.sqrt(2.0)) * one.scale,
        relation="add_remove"),
    Asserted: MechanismRow(
        _asserted, "asserted; with a delta by Kairouz, Oh, Viswanath 2015 (arXiv:1311.0776), "
        "section 3"),
    AssertedZCDP: MechanismRow(
        _asserted_zcdp, "asserted; Bun, Steinke 2016 (arXiv:1605.02065v1), Definition 1.1"),
}


def leaf_cost(mechanism: object, relation: Relation, orders: Orders) -> Cost:
    """Cost of one call, for the relation its sensitivity is stated for.

    Raises:
        UnsupportedNode: no row of `MECHANISMS`.
        RelationMismatch: it is stated for another relation.
    """
    name, row = type(mechanism).__name__, MECHANISMS.get(type(mechanism))
    if row is None:
        raise UnsupportedNode(f"no accountant for {name}; it is refused")
    if row.relation not in (None, relation):
        raise RelationMismatch(f"{name} is stated for the {row.relation} relation")
    return row.price(mechanism, relation, orders)


def answering(kind: str) -> tuple[type, ...]:
    """The mechanisms that such questions take."""
    return tuple(kept for kept, row in MECHANISMS.items() if row.answers == kind)
