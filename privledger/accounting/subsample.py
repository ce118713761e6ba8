"""Amplification by Poisson sampling, for the add-or-remove-one relation only.

The sample must be drawn afresh for each release and stay secret. Batches of a fixed size or
from a shuffled table are something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import MARGIN, Array, raise_bounds
from privledger.accounting.renyi import gaussian_rdp
from privledger.accounting.sampled import SMALLEST_NOISE, log_moment_minus_one
from privledger.errors import InvalidValue
from privledger.rounding import non_negative, positive, probability, up

_SUMMED_TO = 256  # highest whole order at which the generic bound is summed term by term


def poisson_pure_epsilon(sampling_rate: float, epsilon: float) -> float:
    """Pure epsilon of an epsilon-DP mechanism on a Poisson sample, rounded up.

    References:
        Balle, Barthe, Gaboardi 2018 (arXiv:1807.01647v2), Theorem 8 with delta = 0.

    >>> round(poisson_pure_epsilon(0.01, 1.0), 6)
    0.017037
    """
    rate = probability("sampling_rate", sampling_rate, zero=True, one=True)
    pure = non_negative("epsilon", epsilon)
    if rate == 0 or pure == 0:
        return 0.0
    if rate == 1:
        return pure
    if pure < 30:
        value = math.log1p(rate * math.expm1(pure))
    else:
        value = pure + math.log(rate + (1 - rate) * math.exp(-pure))
        # log(rate) may cancel pure: its rounding counts in full.
        value += 4e-16 * (pure + abs(math.log(rate)))
    return min(pure, up(max(value, 2.3e-308) * MARGIN))


def poisson_gaussian_rdp(
    sampling_rate: float, noise_multiplier: float, orders: tuple[float, ...] = DEFAULT_ORDERS
) -> RdpCurve:
    """The sampled Gaussian mechanism, exact at every order, rounded up by about 1e-11.

    Args:
        sampling_rate: probability with which each record enters, in [0, 1].
        noise_multiplier: standard deviation / L2 sensitivity, above 0.

    Returns:
        Bounds for both directions of add-or-remove-one. Noise below .05 gets the bound by
        Minkowski's inequality instead, which is close there.

    Raises:
        InvalidValue: a parameter outside its range.

    References:
        Mironov, Talwar, Zhang 2019 (arXiv:1908.10530v1), Theorems 4, 5 and section 3.3.

    >>> round(poisson_gaussian_rdp(0.01, 1.0, (2.0,)).at(2.0), 8)
    0.00017181
    """
    rate = probability("sampling_rate", sampling_rate, zero=True, one=True)
    noise = positive("noise_multiplier", noise_multiplier)
    orders = check_orders(orders)
    if rate == 0:
        return RdpCurve.zero(orders)
    if rate == 1:
        return gaussian_rdp(noise, orders)
    order = np.array(orders)
    return RdpCurve.from_array(
        orders, sampled_gaussian_bounds(rate, np.full(len(order), noise), order))


def sampled_gaussian_bounds(sampling_rate: float, noise: Array, order: Array) -> Array:
    """`poisson_gaussian_rdp` for each pair of noise multiplier and order, without any check.

    Args:
        sampling_rate: strictly between 0 and 1.
        noise: noise multipliers above 0, shape (n,).
        order: orders above 1, shape (n,).

    Returns:
        Bounds in nats, shape (n,).
    """
    with np.errstate(over="ignore", under="ignore"):
        whole = np.maximum(order * 0.5 / noise / noise, np.finfo(np.float64).tiny)
    bounds = np.minimum(raise_bounds(whole), _minkowski(sampling_rate, noise, order))
    exact = (noise >= SMALLEST_NOISE) & (noise <= 1e50) & (sampling_rate >= 1e-100)
    if exact.any():
        log_moment = log_moment_minus_one(sampling_rate, noise[exact], order[exact])
        moment = raise_bounds(np.logaddexp(0.0, log_moment) / (order[exact] - 1))
        bounds[exact] = np.minimum(bounds[exact], moment)
    return bounds


def _log_mixture(rate: float, exponent: Array) -> Array:
    """log(1 - rate + rate exp(exponent)) for exponent >= 0, moved up."""
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 30.0)))
    big = np.maximum(exponent, 30.0)
    with np.errstate(under="ignore"):
        large = big + np.log(rate + (1 - rate) * np.exp(-np.minimum(big, 700.0)))
    large = large + 4e-16 * (big + abs(math.log(rate)))
    return raise_bounds(np.where(exponent > 30.0, large, small))


def _minkowski(rate: float, noise: Array, order: Array) -> Array:
    """The norm of a mixture is at most the mixture of the norms."""
    with np.errstate(over="ignore", under="ignore"):
        norm = raise_bounds((order - 1) * 0.5 / noise / noise)
        norm = np.maximum(norm, np.finfo(np.float64).tiny)
        finite = np.where(np.isinf(norm), 1.0, norm)
        bounds = order / (order - 1) * _log_mixture(rate, finite)
        return np.where(np.isinf(norm), np.inf, raise_bounds(bounds))


def poisson_generic_rdp(
    sampling_rate: float,
    curve_at_integers: Callable[[int], float],
    orders: tuple[float, ...] = DEFAULT_ORDERS,
) -> RdpCurve:
    """Any mechanism on a Poisson sample, from its own Renyi bounds at whole orders.

    Whole orders up to 256 use the sum with factor 3; between them the chord of
    (order - 1) * bound; above, and wherever it is smaller, the convexity bound
    log(1 - q + q exp(beta bound)) / beta at the next whole order. Never above the
    mechanism's own bound there.

    Args:
        curve_at_integers: Renyi bound in nats at a whole order >= 2; infinity where none.

    Raises:
        InvalidValue: a parameter outside its range, or a bound that is negative or NaN.

    References:
        Zhu, Wang 2019 (ICML, PMLR 97:7634), Theorem 6.
    """
    rate = probability("sampling_rate", sampling_rate, zero=True, one=True)
    orders = check_orders(orders)
    if rate == 0:
        return RdpCurve.zero(orders)
    needed = [math.ceil(order) for order in orders]
    top = min(_SUMMED_TO, max(needed))
    own = {whole: _own_bound(curve_at_integers, whole)
           for whole in {*range(2, top + 1), *needed}}
    if rate == 1:
        return RdpCurve.from_array(orders, np.array([own[whole] for whole in needed]))
    best = {1: 0.0, **{whole: _best(rate, whole, own, top) for whole in own}}
    bounds = [_between(order, best) for order in orders]
    return RdpCurve.from_array(orders, raise_bounds(np.array(bounds)))


def _own_bound(curve_at_integers: Callable[[int], float], whole: int) -> float:
    value = float(curve_at_integers(whole))
    if not value >= 0:
        raise InvalidValue("bound", value, "zero or above at every whole order")
    return value


def _best(rate: float, whole: int, own: dict[int, float], top: int) -> float:
    bound = own[whole]
    if bound == math.inf or bound == 0:
        return bound
    beta = whole - 1
    mixture = float(_log_mixture(rate, np.array([beta * bound * MARGIN]))[0])
    smallest = min(bound, up(mixture / beta))
    if whole <= top:
        smallest = min(smallest, _summed(rate, whole, own))
    return smallest


def _summed(rate: float, whole: int, own: dict[int, float]) -> float:
    """Theorem 6 with the binomial identity subtracted, so that small sums keep their digits."""
    from scipy.special import gammaln

    k = np.arange(2, whole + 1)
    exponent = (k - 1) * np.array([own[int(j)] for j in k])
    if not np.isfinite(exponent).all():
        return math.inf
    log_binomial = gammaln(whole + 1) - gammaln(k + 1) - gammaln(whole - k + 1)
    weight = log_binomial + k * math.log(rate) + (whole - k) * math.log1p(-rate)
    rise = np.expm1(np.minimum(exponent, 600.0))
    with np.errstate(divide="ignore"):
        factor = np.log(np.where(k == 2, rise, 2 + 3 * rise))
    factor = np.where(exponent > 600, exponent + math.log(3), factor)
    # gammaln and the two logarithms are good to a few ulp of their size.
    size = np.abs(weight) + exponent + 4 * gammaln(whole + 1) + k * abs(math.log(rate))
    log_sum = np.logaddexp.reduce(weight + factor + 2e-15 * (1 + size))
    return float(raise_bounds(np.atleast_1d(np.logaddexp(0.0, log_sum) / (whole - 1)))[0])


def _between(order: float, best: dict[int, float]) -> float:
    high, low = math.ceil(order), math.floor(order)
    if high == low or low not in best or best[high] == math.inf or best[low] == math.inf:
        return best[high]
    share = order - low
    moment = (1 - share) * (low - 1) * best[low] + share * (high - 1) * best[high]
    return min(best[high], moment / (order - 1))
