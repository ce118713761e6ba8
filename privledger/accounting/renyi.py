"""Renyi curves of the unsampled mechanisms, each rounded up.

Every function takes `orders` (strictly increasing, above 1) and returns an `RdpCurve` in nats.
"""

from __future__ import annotations

import numpy as np

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import Array, excess, gain, raise_bounds
from privledger.rounding import non_negative, positive

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
    moment = likely * gain(loss, beta) + np.exp(-loss) * likely * gain(-loss, beta)
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
    return np.asarray(likely * gain(peak, beta) + rare * gain(peak - width, beta))


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
