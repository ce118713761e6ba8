"""Prices of nodes that change what a neighbour is, or how often something ran; and of samples."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from fractions import Fraction

import numpy as np
from attrs import evolve

from privledger.accounting import (
    DEFAULT_ORDERS,
    Cost,
    RdpCurve,
    Relation,
    allocation_rdp,
    delta_at,
    full_probability,
    poisson_gaussian_rdp,
    poisson_generic_rdp,
    poisson_pure_epsilon,
    pure_rdp,
    steps_currencies,
    truncated_gaussian_rdp,
)
from privledger.accounting.pld import (
    LEAST_RATE,
    RHO,
    SQUARED_MU,
    GaussianPair,
    Losses,
    MixturePair,
    allocated,
    both_ways,
    discrete_laplace_pair,
    envelope_currency,
    fixed_size,
    gaussian_shift,
    grouped,
    laplace_shift,
    losses_rdp,
    poisson,
    pure_pair,
    replaced,
    sampled_pure,
    truncated,
)
from privledger.accounting.renyi import MOST_STEPS, sampled_laplace_bounds, steps_rdp
from privledger.accounting.tuning import (
    negative_binomial_pure,
    negative_binomial_rdp,
    poisson_pure,
    poisson_rdp,
)
from privledger.errors import UnsupportedNode
from privledger.graph.additive import Gaussian
from privledger.graph.fold import Orders, cost_of, fold
from privledger.graph.nodes import (
    AsReplaceOne,
    Correlated,
    FixedSizeSample,
    Group,
    IndividualFilter,
    LabelOnly,
    Node,
    Parallel,
    PoissonSample,
    RandomAllocation,
    TruncatedPoissonSample,
    Tuning,
    below,
    holds,
)
from privledger.rounding import down, multiply_up, part_up, up


@fold.register
def _(node: Group, relation: Relation, orders: Orders) -> Cost:
    """k rows: pure k epsilon, Gaussian DP k mu, Renyi by k triangle inequalities."""
    inner = cost_of(node.node, relation, orders)
    if node.rows == 1:
        return inner
    one = _by_rows(node.node, inner)
    return _several(node.node, inner, node.rows, relation, relation, orders, "a group of rows",
                    one and grouped(one, node.rows))


@fold.register
def _(node: AsReplaceOne, relation: Relation, orders: Orders) -> Cost:
    """One removal and one addition: two steps [docs/proofs/relations.md]."""
    return replaced_cost(node.node, cost_of(node.node, "add_remove", orders), orders)


def _by_rows(node: Node, inner: Cost) -> Losses | None:
    """Losses that say what several rows lose at once; none of correlated noise on samples, whose
    rows may be of two groups [docs/proofs/correlated.md]."""
    overlaps = any(isinstance(one, Correlated) and one.rate < 1 for one in below(node))
    return None if overlaps else inner.losses


def replaced_cost(node: Node, inner: Cost, orders: Orders) -> Cost:
    """Of `AsReplaceOne(node)`, where `inner` is what `node` costs under add_remove.

    Raises:
        UnsupportedNode: no proof at hand for this node.
    """
    one = _by_rows(node, inner)
    return _several(node, inner, 2, "add_remove", "replace_one", orders,
                    "a change of relation", one and replaced(one))


@fold.register
def _(node: LabelOnly, relation: Relation, orders: Orders) -> Cost:
    """Every rule that is used for a replaced record holds for a changed label
    [docs/proofs/relations.md]; samples of a fixed size are not shown to."""
    return evolve(cost_of(node.node, "replace_one", orders), relation="replace_label")


def _several(
    child: Node, inner: Cost, steps: int, stated: Relation, relation: Relation, orders: Orders,
    what: str, losses: Losses | None,
) -> Cost:
    if holds(child, IndividualFilter):
        raise UnsupportedNode(f"{what} around an individual filter has no proof here")
    if inner.failure:
        raise UnsupportedNode(f"{what} around a cost with delta is not priced here")
    part = None if inner.pure_part is None else inner.pure_part * steps
    pure = math.inf if part is None else part_up(part)
    exact = None if inner.mu_squared is None else multiply_up(
        inner.gdp_squared, float(steps) ** 2)

    def curve() -> RdpCurve:
        best = np.full(len(orders), math.inf)
        if exact is not None:
            best = np.array([multiply_up(exact / 2, order) for order in orders])
        elif known is not None and isinstance(known.remove, MixturePair):
            best = np.minimum(losses_rdp(known, orders), multiply_up(squared() / 2, 1.0)
                              * np.array(orders) * (1 + 1e-15))
        elif steps <= MOST_STEPS:
            best = steps_rdp(lambda at: cost_of(child, stated, at).curve, steps,
                             orders).as_array()
        if math.isfinite(pure):
            best = np.minimum(best, pure_rdp(pure, orders).as_array())
        return RdpCurve.from_array(orders, best)

    known = _several_losses(exact, inner.pure, steps, losses)

    def priced(which: int) -> float:
        """All of it as so many steps of pure DP, or release by release."""
        whole = steps_currencies(inner.pure, steps)[which] if inner.pure < math.inf else math.inf
        return whole if known is None else min(whole, envelope_currency(known, which))

    def squared() -> float:
        """Square roots add up from step to step; or less."""
        return min(multiply_up(inner.gdp_squared, float(steps) ** 2), priced(SQUARED_MU))

    def rho() -> Fraction | float:
        return min(inner.rho * steps**2, _fraction(priced(RHO)))

    return Cost(relation, pure, exact, curve, squared if exact is None else exact, known,
                f"{what} has no dominating pairs here around what is inside",
                zcdp=rho if exact is None else inner.rho * steps**2, part=part)


def _fraction(rho: float) -> Fraction | float:
    return Fraction(rho) if rho < math.inf else rho


def _several_losses(
    exact: float | None, pure: float, steps: int, known: Losses | None,
) -> Losses | None:
    """Release by release where that is proved; else of the whole, as far as it is pure."""
    if exact is not None and 1e-24 <= exact <= 1e8:
        return both_ways(GaussianPair(up(math.sqrt(exact))))
    if known is not None:
        return known
    if 1e-12 <= pure <= 600 and (most := multiply_up(pure, float(steps))) <= 600:
        return both_ways(discrete_laplace_pair(pure, steps, tight=False)
                         or pure_pair(most, tight=False))
    return None


@fold.register
def _(node: Tuning, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/tuning.md; Papernot, Steinke 2022 (arXiv:2110.03620v2).

    The theorem's second order is free: any that is known serves, whichever were asked for.
    """
    known = tuple(sorted({*orders, *DEFAULT_ORDERS}))
    inner = cost_of(node.node, relation, known)
    if inner.failure:
        raise UnsupportedNode("tuning around a cost with delta is not priced here")
    if inner.pure == 0:
        return Cost.zero(relation, orders)
    pure = math.inf
    if node.distribution == "poisson":
        if math.isfinite(inner.pure):
            pure = poisson_pure(inner.pure, node.mean)
        curve = poisson_rdp(inner.curve, node.mean, lambda epsilon: _delta(inner, epsilon))
    else:
        if math.isfinite(inner.pure):
            pure = negative_binomial_pure(inner.pure, node.shape)
        curve = negative_binomial_rdp(inner.curve, node.shape, node.success)
    bounds = curve.as_array()[np.searchsorted(known, orders)]
    if math.isfinite(pure):
        bounds = np.minimum(bounds, pure_rdp(pure, orders).as_array())
    losses = both_ways(pure_pair(pure, tight=False)) if 1e-12 <= pure <= 600 else None
    return Cost(relation, pure, None, RdpCurve.from_array(orders, bounds), losses=losses,
                no_losses="tuning has a Renyi bound only")


def _delta(trial: Cost, epsilon: float) -> float:
    """The smaller of what pure DP and Renyi DP say of one trial."""
    found = []
    for accountant in ("pure", "rdp"):
        with suppress(UnsupportedNode):
            found.append(delta_at(trial, epsilon, accountant).delta)
    return min(found, default=1.0)


# --- Prices of nodes that run on a random sample: imported by `fold`, which they register with.

_SMALLEST = sys.float_info.min  # of a rate


def _one_sample(node: PoissonSample) -> PoissonSample:
    """A sample of a sample is one sample: docs/proofs/subsampling.md, "Samples of samples"."""
    rate, child = node.rate, node.node
    while isinstance(child, PoissonSample):
        if child.rate < 1:
            rate = max(multiply_up(rate, child.rate), _SMALLEST)
        child = child.node
    return node if child is node.node else PoissonSample(min(rate, 1.0), child)


@fold.register
def _(node: PoissonSample, relation: Relation, orders: Orders) -> Cost:
    """Exact for Gaussians (they merge into one on the same sample) and by pairs otherwise."""
    node = _one_sample(node)
    inner = cost_of(node.node, relation, orders)
    if node.rate == 1 or inner.mu_squared == 0:
        return inner
    losses = None if inner.losses is None else poisson(node.rate, inner.losses)
    if node.rate < LEAST_RATE or 1 - node.rate < 1e-15:
        losses = None
    pure = math.inf
    if math.isfinite(inner.pure):
        pure = poisson_pure_epsilon(node.rate, inner.pure)

    def curve() -> RdpCurve:
        mu = gaussian_shift(inner.losses)
        if inner.mu_squared is not None:
            mu = math.sqrt(inner.mu_squared)
        if mu is not None:
            return poisson_gaussian_rdp(node.rate, down(1 / mu), orders)
        return _sampled_curve(node, inner, pure, losses, orders)

    def priced(which: int) -> float:
        """By the losses inside, or what a coin says of them on a sample; and by pure DP."""
        found = math.inf if losses is None else envelope_currency(losses, which)
        if found == math.inf:
            found = sampled_pure(node.rate, inner.pure, which)
        return min(found, steps_currencies(pure, 1)[which])

    # A sample is no worse than the whole table, as a Gaussian-DP statement too.
    sampled = pure < math.inf
    return Cost(relation, pure, None, curve,
                (lambda: min(inner.gdp_squared, priced(SQUARED_MU))) if sampled
                else inner.gdp_squared, losses,
                inner.no_losses or "the sampling rate is too close to 0 or 1",
                min(1.0, inner.failure * node.rate * (1 + 1e-15)),
                (lambda: min(inner.rho, _fraction(priced(RHO)))) if sampled else inner.rho)


def _gdp(pure: float, inner: Cost) -> float:
    return min(inner.gdp_squared, _amplified(pure).gdp_squared)


def _zcdp(pure: float, inner: Cost) -> Fraction | float:
    return inner.rho if pure == math.inf else min(inner.rho, _amplified(pure).rho)


def _amplified(pure: float) -> Cost:
    return Cost("add_remove", pure, None, RdpCurve.zero())


def _sampled_curve(
    node: PoissonSample, inner: Cost, pure: float, losses: Losses | None, orders: Orders
) -> RdpCurve:
    """The smallest of what is proved; the generic bound only where nothing else is."""
    if losses is not None and not inner.failure:
        by_pairs = losses_rdp(losses, orders)
        shift = laplace_shift(inner.losses)
        if shift is not None:
            by_pairs = np.minimum(by_pairs, sampled_laplace_bounds(
                node.rate, np.array([shift]), np.array(orders))[0])
        if np.isfinite(by_pairs).all():
            return RdpCurve.from_array(orders, np.minimum(by_pairs, inner.curve.as_array()))
    generic = poisson_generic_rdp(
        node.rate,
        lambda order: cost_of(node.node, "add_remove", (float(order),)).curve.bounds[0],
        orders,
    )
    return generic if pure == math.inf else RdpCurve.from_array(
        orders, np.minimum(generic.as_array(), pure_rdp(pure, orders).as_array()))


def _check_rows(node: FixedSizeSample) -> None:
    """What runs inside may depend neither on positions nor on another number of rows."""
    inside = list(below(node.node))
    if any(isinstance(one, Parallel) and one.certificate == "index" for one in inside):
        raise UnsupportedNode("parts by index inside a sample of fixed size: leaving one row out "
                              "moves all others")
    nested = [one for one in inside if isinstance(one, FixedSizeSample)]
    if any(one.out_of != node.size for one in nested) or (
            nested and holds(node.node, Parallel)):
        raise UnsupportedNode(f"the outer sample hands on {node.size} rows: a sample inside it "
                              "must be drawn out of as many, and not within parts")


@fold.register
def _(node: FixedSizeSample, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/fixed-size.md."""
    _check_rows(node)
    inner = cost_of(node.node, relation, orders)
    if node.size == node.out_of or inner.mu_squared == 0:
        return inner
    rate = math.nextafter(node.size / node.out_of, 1.0)
    losses = None if inner.losses is None else fixed_size(rate, inner.losses)
    pure = poisson_pure_epsilon(rate, inner.pure) if math.isfinite(inner.pure) else math.inf

    def curve() -> RdpCurve:
        best = inner.curve.as_array()
        if losses is not None and not inner.failure:
            best = np.minimum(best, losses_rdp(losses, orders))
        if pure < math.inf:
            best = np.minimum(best, pure_rdp(pure, orders).as_array())
        return RdpCurve.from_array(orders, best)

    return Cost(relation, pure, None, curve,
                inner.gdp_squared if pure == math.inf else _gdp(pure, inner), losses,
                inner.no_losses, min(1.0, inner.failure * rate * (1 + 1e-15)),
                _zcdp(pure, inner))


@fold.register
def _(node: RandomAllocation, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/allocation.md."""
    inner = cost_of(node.node, relation, orders)
    if inner.failure or any(isinstance(one, PoissonSample | Tuning) for one in below(node.node)):
        raise UnsupportedNode("a random allocation of what has a delta of its own, or runs on a "
                              "sample or many times, has no proof here")
    if node.steps == 1 or inner.mu_squared == 0 or inner.pure == 0:
        return inner
    mu = None if inner.mu_squared is None else up(math.sqrt(inner.mu_squared))
    one = inner.losses if mu is None else both_ways(GaussianPair(mu))
    losses = None if one is None else allocated(node.steps, one)

    def curve() -> RdpCurve:
        if mu is not None:
            return allocation_rdp(node.steps, down(1 / mu), orders)
        best = inner.curve.as_array()
        return RdpCurve.from_array(orders, best if losses is None else np.minimum(
            best, losses_rdp(losses, orders)))

    # A mean over the rounds is no worse than knowing the round, as a Gaussian-DP statement too.
    return Cost(relation, inner.pure, None, curve, inner.gdp_squared, losses,
                inner.no_losses or "this many rounds, or this much or little noise, is outside the "
                "table of an allocation", zcdp=inner.rho)


@fold.register
def _(node: TruncatedPoissonSample, relation: Relation, orders: Orders) -> Cost:
    """docs/proofs/truncated.md: proved for unsampled Gaussian noise only."""
    inner = cost_of(node.node, relation, orders)
    if inner.mu_squared is None or inner.failure:
        raise UnsupportedNode("a truncated sample, of anything but unsampled Gaussian noise, "
                              "has no proof here")
    full = full_probability(node.rate, node.most, node.out_of)
    if full == 0 or inner.mu_squared == 0:
        return cost_of(PoissonSample(node.rate, node.node), relation, orders)
    mu = up(math.sqrt(inner.mu_squared))
    # In a full sample a record that enters takes the place of another: twice the shift.
    squared = multiply_up(4.0, inner.gdp_squared)
    if node.rate == 1 or node.rate < LEAST_RATE or 1 - node.rate < 1e-15:
        return cost_of(Gaussian(down(1 / multiply_up(2.0, mu))), relation, orders)
    return Cost(relation, math.inf, None,
                lambda: truncated_gaussian_rdp(node.rate, down(1 / mu), full, orders),
                squared, truncated(node.rate, full, mu),
                "so much or so little noise has no dominating pair here")
