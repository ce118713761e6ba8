"""Renyi curves of the unsampled mechanisms, each rounded up.

Every function takes `orders` (strictly increasing, above 1) and returns an `RdpCurve` in nats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import (
    MARGIN,
    Array,
    excess,
    log_gain,
    log_mix,
    moment_gain,
    raise_bounds,
)
from privledger.errors import InvalidValue
from privledger.rounding import count, non_negative, positive

_LARGE = 600.0  # exponentials beyond this leave the floating-point range


def gaussian_rdp(
    noise_multiplier: float, orders: tuple[float, ...] = DEFAULT_ORDERS
) -> RdpCurve:
    """Gaussian noise: order / (2 noise_multiplier^2), exact.

    Args:
        noise_multiplier: standard deviation / L2 sensitivity, above 0.

    Raises:
        InvalidValue: the multiplier is not a number above zero.

    References:
        Mironov 2017 (arXiv:1702.07476v3), Corollary 3.

    >>> round(gaussian_rdp(2.0, (8.0,)).at(8.0), 9)
    1.0
    """
    noise = positive("noise_multiplier", noise_multiplier)
    orders = check_orders(orders)
    with np.errstate(over="ignore", under="ignore"):
        bounds = np.array(orders) * 0.5 / noise / noise
    tiny = np.finfo(np.float64).tiny  # an underflow may not become "costs nothing"
    return RdpCurve.from_array(orders, raise_bounds(np.maximum(bounds, tiny)))


def zcdp_rdp(zcdp_rho: float, orders: tuple[float, ...] = DEFAULT_ORDERS) -> RdpCurve:
    """zero-concentrated DP: order * zcdp_rho.

    References:
        Bun, Steinke 2016 (arXiv:1605.02065v1), Definition 1.1.
    """
    rho = non_negative("zcdp_rho", zcdp_rho)
    orders = check_orders(orders)
    with np.errstate(over="ignore"):
        return RdpCurve.from_array(orders, raise_bounds(np.array(orders) * rho))


def _below(log_moment_over_beta: Array, epsilon: Array) -> Array:
    """At most the pure bound itself; an underflow may not become "costs nothing"."""
    least = np.where(epsilon > 0, np.finfo(np.float64).tiny, 0.0)
    return np.minimum(raise_bounds(np.maximum(log_moment_over_beta, least)), epsilon)


def laplace_rdp(epsilon: float, orders: tuple[float, ...] = DEFAULT_ORDERS) -> RdpCurve:
    """Laplace noise of scale sensitivity / epsilon, exact.

    With beta = order - 1 the moment is
    [order exp(beta epsilon) + beta exp(-order epsilon)] / (2 order - 1).

    References:
        Mironov 2017 (arXiv:1702.07476v3), Proposition 6.

    >>> round(laplace_rdp(1.0, (2.0,)).at(2.0), 6)
    0.619124
    """
    pure = non_negative("epsilon", epsilon)
    orders = check_orders(orders)
    order = np.array(orders)
    return RdpCurve.from_array(orders, laplace_bounds(np.full(len(order), pure), order))


def laplace_bounds(pure: Array, order: Array) -> Array:
    """`laplace_rdp` for each pair of epsilon >= 0 and order, shapes (n,), without any check."""
    beta = order - 1
    rising = beta * pure
    safe = np.where(rising > _LARGE, 0.0, rising)
    # Both excesses are non-negative; their first-order parts cancel exactly.
    moment = (order * excess(safe) + beta * excess(-order * pure)) / (2 * order - 1)
    large = rising + np.log(order / (2 * order - 1)) + beta / order * np.exp(
        -np.minimum((2 * order - 1) * pure, _LARGE))
    return _below(np.where(rising > _LARGE, large, np.log1p(moment)) / beta, pure)


def pure_rdp(epsilon: float, orders: tuple[float, ...] = DEFAULT_ORDERS) -> RdpCurve:
    """The largest curve any epsilon-DP mechanism can have (randomized response has it).

    References:
        Bun, Steinke 2016 (arXiv:1605.02065v1), Lemma B.4 (losses +-epsilon are the extreme).

    >>> round(pure_rdp(1.0, (2.0,)).at(2.0), 6)
    0.735326
    """
    pure = non_negative("epsilon", epsilon)
    orders = check_orders(orders)
    order = np.array(orders)
    return RdpCurve.from_array(orders, pure_bounds(np.full(len(order), pure), order))


def pure_bounds(pure: Array, order: Array) -> Array:
    """`pure_rdp` for each pair of epsilon >= 0 and order, shapes (n,), without any check."""
    beta = order - 1
    with np.errstate(over="ignore"):  # an infinite product is a large one
        rising, widest = beta * pure, (2 * beta + 1) * pure
    heavy = (rising > _LARGE) | (pure > _LARGE)
    loss = np.where(heavy, 0.0, pure)
    likely = 1 / (1 + np.exp(-loss))
    moment = likely * moment_gain(loss, beta) + np.exp(-loss) * likely * moment_gain(-loss, beta)
    # log[p exp(beta eps) + (1-p) exp(-beta eps)] / beta, all terms of one sign here.
    tails = np.log1p(np.exp(-np.minimum(widest, _LARGE)))
    large = pure - (np.log1p(np.exp(-np.minimum(pure, _LARGE))) - tails) / beta
    return _below(np.where(heavy, np.maximum(large, 0.0), np.log1p(moment) / beta), pure)


def bounded_range_rdp(eta: float, orders: tuple[float, ...] = DEFAULT_ORDERS) -> RdpCurve:
    """Exponential mechanism whose privacy losses span at most `eta`, tight.

    The extreme pair has losses t and t - eta. With a = order and beta = a - 1 its moment is
    [A exp(beta t) - B exp(a t)] / C, where A = 1 - exp(-a eta), B = exp(-eta) - exp(-a eta),
    C = 1 - exp(-eta). This has one stationary point, exp(t) = A beta / (B a), and it is the
    maximum over every real t, so no search and no grid stands between this bound and the
    truth. Second-order flatness makes an error d in t cost only a beta d^2 / 2.

    Raises:
        InvalidValue: `eta` is not a number of at least zero.

    References:
        Dong, Durfee, Rogers 2020 (arXiv:1909.13830v2), section 4 (the extreme pair);
        Cesar, Rogers 2021 (arXiv:2004.07223v3), Lemma 3.4 (order * eta^2 / 8).

    >>> round(bounded_range_rdp(0.1, (2.0,)).at(2.0), 7)
    0.002499
    """
    width = non_negative("eta", eta)
    orders = check_orders(orders)
    order = np.array(orders)
    if width == 0:
        return RdpCurve.zero(orders)
    beta = order - 1
    with np.errstate(over="ignore", under="ignore"):
        concentrated = np.maximum(order * (width * width / 8), np.finfo(np.float64).tiny)
    small = (beta * width <= 1) & (np.full_like(beta, width) <= 1)
    moment = _two_point_moment(min(width, 1.0), np.where(small, beta, 1.0))
    exact = np.where(small, np.log1p(moment) / beta, _two_point_log(width, beta))
    return RdpCurve.from_array(
        orders, _below(np.minimum(exact, concentrated), np.full(1, width)))


def _log_ratio(value: Array) -> Array:
    """log((1 - exp(-value)) / value), to a few ulp of min(value, 1)."""
    small = value < 0.05
    near = np.where(small, value, 0.0)
    far = np.where(small, 1.0, value)
    series = near * (-0.5 + near * (1 / 24 - near**2 / 2880 + near**4 / 181440))
    return np.where(small, series, np.log(-np.expm1(-far)) - np.log(far))


def _two_point_moment(width: float, beta: Array) -> Array:
    """Largest moment minus 1 for width <= 1 and beta * width <= 1."""
    peak = width + _log_ratio((beta + 1) * width) - _log_ratio(beta * width)
    total = -np.expm1(-width)
    likely = -np.expm1(peak - width) / total
    rare = np.exp(peak - width) * -np.expm1(-peak) / total
    return np.asarray(likely * moment_gain(peak, beta) + rare * moment_gain(peak - width, beta))


def _two_point_log(width: float, beta: Array) -> Array:
    """log of the largest moment / beta in closed form, for beta * width > 1 or width > 1."""
    log_first = np.log(-np.expm1(-(beta + 1) * width))
    spread = np.exp(-width) * np.expm1(-beta * width) / np.expm1(-width)
    slack = (np.log1p(spread) - np.log1p(beta)) / beta
    # Two forms of log(beta / order) - log(1 - exp(-beta width)); each cancels where the other
    # does not.
    low = -np.log(width) - _log_ratio(beta * width) - np.log1p(beta)
    high = -np.log1p(1 / beta) - np.log(-np.expm1(-beta * width))
    return np.asarray(width + np.where(beta < 1, low, high) + log_first + slack)


# --- Renyi bounds of Laplace noise on a Poisson sample, for many sizes of the shift at once.
#
# With e the shift in units of the scale, x in [0, e] and z = exp(2x - e), both directions are means
# of convex functions of z under Q (docs/proofs/subsampling.md, "Sampled Laplace"):
#
#     E (1 - q + q z)^order    and    E (1 - q + q z)^(1 - order),
#
# where Q has the mass 1/2 at x = 0, the density exp(-x)/2 between, and exp(-e)/2 at x = e. Every
# band of width d is replaced by its two ends so that its mass and the mean of z stay, which raises
# a convex mean: exp(-x) tanh(d/2) at each point inside, half of that more at the ends.

_BANDS = 32
_MARGIN = 1e-10  # of a moment less 1: roundings of a loss count as often as the order says
_ROWS = 4096


def sampled_laplace_bounds(rate: float, shift: Array, order: Array) -> Array:
    """Upper bounds in nats for both directions, shape (len(shift), len(order)).

    No input is checked.

    Args:
        rate: of the sample, strictly between 0 and 1, at least 1e-100.
        shift: total L1 shift over scale, each above 0 and at most 600.
        order: each above 1.
    """
    parts = [_bounds(rate, shift[start:start + _ROWS], order)
             for start in range(0, len(shift), _ROWS)]
    return np.concatenate(parts) if parts else np.zeros((0, len(order)))


def _bounds(rate: float, shift: Array, order: Array) -> Array:
    place = shift[:, None] * (np.arange(_BANDS + 1) / _BANDS)
    with np.errstate(divide="ignore"):
        log_q = np.log(np.tanh(shift / (2 * _BANDS)))[:, None] - place
    ends = log_q[:, [0, -1]]
    log_q[:, [0, -1]] = np.log(0.5) + np.logaddexp(ends, -place[:, [0, -1]])
    loss = log_mix(2 * place - shift[:, None], rate)
    held = loss != 0
    loss = np.where(held, loss, 1.0)
    log_q = np.where(held, log_q, -np.inf)
    found = np.empty((len(shift), len(order)))
    for column, one in enumerate(order.tolist()):
        beta = np.array(one - 1)
        removed = np.logaddexp.reduce(log_q + loss + log_gain(loss, beta), axis=1)
        added = np.logaddexp.reduce(log_q + _log_turned(loss, one - 1), axis=1)
        log_moment = np.maximum(removed, added) + _MARGIN
        found[:, column] = np.logaddexp(0.0, log_moment) / (one - 1)
    return np.asarray(raise_bounds(found))


def _log_turned(loss: Array, beta: float) -> Array:
    """Log of (z^-beta - 1 + beta (z - 1)) for z = exp(loss); never below it."""
    steep = -beta * loss
    large = (steep > 600.0) | (loss > 600.0)
    known = log_gain(np.where(large, 1.0, -loss), np.array(beta))
    far = np.logaddexp(steep, np.log(beta) + loss)
    return np.where(large, far, known)


# --- Renyi bounds across several steps: two tables that differ in more than one record.
#
# D_o(P, R) <= (o - 1/p)/(o - 1) D_(p o)(P, Q) + D_(1 + p'(o - 1))(Q, R), 1/p + 1/p' = 1
# [Mironov 2017, arXiv:1702.07476v3, Proposition 11]. With p = 1 + (k - 1)(o - 1)/o for a path of
# k steps a zCDP bound rho becomes k^2 rho, exactly (docs/proofs/relations.md).

MOST_STEPS = 64

CurveAt = Callable[[tuple[float, ...]], RdpCurve]


def steps_rdp(curve_at: CurveAt, steps: int, orders: tuple[float, ...]) -> RdpCurve:
    """Renyi bounds for tables `steps` records apart.

    Args:
        curve_at: the curve for one record at any orders above 1, for both directions.
        steps: 1 to 64.

    Raises:
        InvalidValue: `steps` outside its range.
    """
    k = count("steps", steps)
    if k > MOST_STEPS:
        raise InvalidValue("steps", steps, f"at most {MOST_STEPS}")
    order = np.array(check_orders(orders))
    terms = [(np.ones_like(order), order * k)]
    for j in range(k, 1, -1):
        at = order * k / j
        share = at / (1 + at + (j - 1) * (at - 1) - 1)  # 1/p
        terms.append(((at - share) / (at - 1), at + (j - 1) * (at - 1)))
    # A Renyi divergence grows with its order, so an order is rounded up.
    asked = [np.nextafter(place * (1 + 1e-15), np.inf) for _, place in terms]
    grid = tuple(np.unique(np.concatenate(asked)).tolist())
    known = curve_at(grid).as_array()
    total = np.zeros_like(order)
    for (factor, _), place in zip(terms, asked, strict=True):
        total = total + factor * known[np.searchsorted(grid, place)]
    return RdpCurve.from_array(orders, np.where(total == 0, 0.0, total * MARGIN))
