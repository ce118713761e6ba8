"""Record type -> cost. Unknown types are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise

from attrs import evolve

from privledger.accounting import (
    Cost,
    Currencies,
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
    both_ways,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    envelope_currency,
    pure_pair,
    response_loss,
    response_pair,
    wide_discrete_mu,
)
from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.mechanisms.additive import (
    Asserted,
    AssertedZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
)
from privledger.mechanisms.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
    TopK,
)
from privledger.rounding import as_promised, multiply_up, part_up, up

Mechanism = (
    Laplace
    | Gaussian
    | DiscreteLaplace
    | DiscreteGaussian
    | Exponential
    | PermuteAndFlip
    | ReportNoisyMax
    | TopK
    | SparseVector
    | RandomizedResponse
    | PartitionSelection
    | Asserted
    | AssertedZCDP
)

Orders = tuple[float, ...]
_LARGEST_LOSS = 600.0  # nats; beyond, masses leave the floating-point range


@singledispatch
def leaf_cost(mechanism: object, relation: Relation, orders: Orders) -> Cost:
    """Cost of one call, for the relation its sensitivity is stated for."""
    raise UnsupportedNode(f"no accountant for {type(mechanism).__name__}; it is refused")


def _pure(
    epsilon: float, curve: Callable[[], RdpCurve], relation: Relation, pair: LaplacePair
    | BoundedRangePair | AtomPair | None, price: Currencies, failure: float = 0.0,
    part: Fraction | None = None,
) -> Cost:
    known = pair is not None and 1e-12 <= epsilon <= _LARGEST_LOSS
    why = "the pure epsilon lies outside 1e-12 to 600, or has too many losses to list"
    return Cost(relation, epsilon, None, curve, price[0],
                both_ways(pair) if pair is not None and known else None, "" if known else why,
                failure, price[1], part)


def _thresholds(part: Fraction, relation: Relation, orders: Orders) -> Cost:
    """As Laplace noise of this epsilon, which two candidates attain [docs/proofs/currencies.md]."""
    epsilon = part_up(part)
    return _pure(epsilon, lambda: laplace_rdp(epsilon, orders), relation, LaplacePair(epsilon),
                 laplace_currencies(epsilon), part=part)


def _bounded(part: Fraction, relation: Relation, orders: Orders) -> Cost:
    eta = part_up(part)
    cost = _pure(eta, lambda: bounded_range_rdp(eta, orders), relation, BoundedRangePair(eta),
                 range_currencies(eta), part=part)
    return evolve(cost, zcdp=min(part * part / 8, cost.rho))


@leaf_cost.register
def _(mechanism: Laplace, relation: Relation, orders: Orders) -> Cost:
    """Mironov 2017 (arXiv:1702.07476v3), Proposition 6."""
    part = as_promised(mechanism.l1_sensitivity) / Fraction(mechanism.scale)
    return _thresholds(part, relation, orders)


@leaf_cost.register
def _(mechanism: Gaussian, relation: Relation, orders: Orders) -> Cost:
    """Exactly 1/noise_multiplier-GDP; Dong, Roth, Su 2019 (arXiv:1905.02383v3), Theorem 2.7."""
    mu = up(1 / mechanism.noise_multiplier)
    rho = 1 / (2 * Fraction(mechanism.noise_multiplier) ** 2)

    def curve() -> RdpCurve:
        return gaussian_rdp(mechanism.noise_multiplier, orders)

    if not 1e-12 <= mu <= 1e4:
        return Cost(relation, math.inf, up(mu**2), curve, up(mu**2), zcdp=rho,
                    no_losses="a Gaussian of mu outside 1e-12 to 1e4")
    return Cost(relation, math.inf, up(mu**2), curve, up(mu**2), both_ways(GaussianPair(mu)),
                zcdp=rho)


@leaf_cost.register
def _(mechanism: DiscreteLaplace, relation: Relation, orders: Orders) -> Cost:
    """Integer noise: the losses of one integer query, docs/proofs/privacy-loss.md, lemma 7."""
    part = as_promised(mechanism.parameter) * mechanism.sensitivity
    epsilon = part_up(part)
    pair = discrete_laplace_pair(mechanism.parameter, mechanism.sensitivity)
    return _pure(epsilon, lambda: pure_rdp(epsilon, orders), relation, pair,
                 steps_currencies(mechanism.parameter, mechanism.sensitivity), part=part)


@leaf_cost.register
def _(mechanism: DiscreteGaussian, relation: Relation, orders: Orders) -> Cost:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Theorem 4, for the Renyi curve."""
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


@leaf_cost.register
def _(mechanism: Exponential, relation: Relation, orders: Orders) -> Cost:
    """Bounded range: Dong, Durfee, Rogers 2020; docs/proofs/bounded-range.md."""
    return _bounded(mechanism.range_part, relation, orders)


@leaf_cost.register
def _(mechanism: PermuteAndFlip, relation: Relation, orders: Orders) -> Cost:
    return _thresholds(as_promised(mechanism.epsilon), relation, orders)


@leaf_cost.register
def _(mechanism: ReportNoisyMax, relation: Relation, orders: Orders) -> Cost:
    price = _bounded if mechanism.noise == "gumbel" else _thresholds
    return price(as_promised(mechanism.epsilon), relation, orders)


@leaf_cost.register
def _(mechanism: TopK, relation: Relation, orders: Orders) -> Cost:
    price = _bounded if mechanism.noise == "gumbel" else _thresholds
    return price(as_promised(mechanism.epsilon), relation, orders)


@leaf_cost.register
def _(mechanism: SparseVector, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/sparse-vector.md; Lyu, Su, Li 2017 (arXiv:1603.01699), Algorithm 1."""
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
                 steps_currencies(epsilon, 1), part=part)


@leaf_cost.register
def _(mechanism: RandomizedResponse, relation: Relation, orders: Orders) -> Cost:
    if relation != "replace_one":
        raise RelationMismatch("RandomizedResponse is stated for the replace_one relation")
    noise, buckets = mechanism.noise_parameter, mechanism.num_buckets
    epsilon = response_loss(noise, buckets)
    if epsilon == 0:
        return Cost.zero(relation, orders)
    pair = response_pair(noise, buckets)
    price = response_currencies(epsilon, noise, buckets)
    cost = _pure(epsilon, lambda: _response_rdp(pair, epsilon, orders), relation, pair, price)
    known = cost.losses
    return cost if known is None or buckets <= 6 else evolve(
        cost, zcdp=lambda: min(price[1], envelope_currency(known, RHO)))


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


@leaf_cost.register
def _(mechanism: PartitionSelection, relation: Relation, orders: Orders) -> Cost:
    """The dearest case of how many of a person's groups hold nobody else."""
    if relation != "add_remove":
        raise RelationMismatch("PartitionSelection is stated for the add_remove relation")
    k, alone = mechanism.groups_per_person, shown_alone(mechanism)
    ends = sorted({round(k * step / MOST_CASES) for step in range(MOST_CASES + 1)}
                  if k > MOST_CASES else range(k + 1))
    cases = [(end, end) for end in ends] if k <= MOST_CASES else list(pairwise(ends))
    costs = []
    for least, most in cases:
        parts = [leaf_cost(one, relation, orders) for one in _noise_on(mechanism, k - least)]
        if most:
            shown = -math.expm1(most * math.log1p(-alone)) * (1 + 1e-13)
            parts.append(_failing(min(1.0, max(1e-300, up(shown))), relation, orders))
        costs.append(sequential(parts))
    return maximum(costs)


def shown_alone(mechanism: PartitionSelection) -> float:
    """Probability, rounded up, with which a group of one person is published."""
    far = (mechanism.threshold - 1) / mechanism.scale * (1 - 1e-15)
    if mechanism.noise == "laplace":
        return max(1e-300, up(0.5 * math.exp(-far) * (1 + 1e-12)))
    return max(1e-300, up(0.5 * math.erfc(far / math.sqrt(2)) * (1 + 1e-12)))


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


@leaf_cost.register
def _(mechanism: Asserted, relation: Relation, orders: Orders) -> Cost:
    """Kairouz, Oh, Viswanath 2015 (arXiv:1311.0776), section 3, for delta above 0."""
    part, epsilon = as_promised(mechanism.epsilon), mechanism.epsilon
    pair = pure_pair(epsilon, mechanism.delta, tight=False)
    return _pure(epsilon, lambda: pure_rdp(epsilon, orders), relation, pair,
                 steps_currencies(epsilon, 1), mechanism.delta, part)


@leaf_cost.register
def _(mechanism: AssertedZCDP, relation: Relation, orders: Orders) -> Cost:
    """Bun, Steinke 2016 (arXiv:1605.02065v1), Definition 1.1: a Renyi curve and no more."""
    return Cost(relation, math.inf, None, zcdp_rdp(mechanism.rho, orders), math.inf,
                no_losses="zero-concentrated DP bounds Renyi divergences only",
                zcdp=as_promised(mechanism.rho))
