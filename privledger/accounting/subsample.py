"""Amplification by Poisson sampling, for the add-or-remove-one relation only.

The sample must be drawn afresh for each release and stay secret. Batches of a fixed size or
from a shuffled table are something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import MARGIN, Array, log_gain, log_mix, raise_bounds
from privledger.accounting.renyi import gaussian_rdp
from privledger.errors import InvalidValue
from privledger.rounding import non_negative, positive, probability, up

# --- The moment of the Poisson-sampled Gaussian, at any order, by certified quadrature.
#
# With s = noise_multiplier, q = sampling_rate, w(x) = x/s - 1/(2 s^2) and u = q expm1(w), the
# sampled Gaussian has moment E[(1 + u)^order] for x ~ N(0, 1). Since E[u] = 0 this is 1 + E[F],
# F = (1 + u)^order - 1 - order u >= 0, and F is summed without cancellation (`moments`).
#
# Trapezoid rule, step h: on the line Im x = a the integrand of each of the three parts is at
# most exp(a^2 / 2) times the one on the real line, and (1 + u)^order is analytic for
# |a| < pi s (everywhere, if the order is whole). So the error is at most
# 2 / (exp(2 pi a / h - a^2 / 2) - ...) of each part [Trefethen, Weideman 2014, Theorem 5.1].
# It is added to the result, and so is a bound on every node that is left out:
# log phi(x) (1 + u)^order is monotone between its stationary points, of which there are one or
# three, so what lies between two windows is at most its length times the larger end.

SMALLEST_NOISE = 0.05
"""Below this the quadrature would need very many nodes."""

_EPS = float(np.finfo(np.float64).eps)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ENOUGH = math.log(1e-12)  # what is left out, relative to the result
_ROUNDS = 6


@frozen(eq=False)
class _Pair:
    """The pairs of distributions: q, and for each task a noise s and an order, shape (n,)."""

    rate: float
    noise: Array
    order: Array

    def at(self, tasks: NDArray[np.int64]) -> _Pair:
        """Some of the tasks, in the given order, with repeats."""
        return _Pair(self.rate, self.noise[tasks], self.order[tasks])

    def loss(self, x: Array) -> Array:
        """log(1 - q + q exp(w)), relative to its own size."""
        return log_mix(x / self.noise - 0.5 / self.noise**2, self.rate)

    def share(self, x: Array) -> Array:
        """Posterior probability of having been sampled, q exp(w) / (1 - q + q exp(w))."""
        w = x / self.noise - 0.5 / self.noise**2
        logit = w + math.log(self.rate) - math.log1p(-self.rate)
        return np.asarray(0.5 * (1 + np.tanh(0.5 * logit)))

    def log_weight(self, x: Array, order: Array) -> Array:
        """log of phi(x) (1 + u)^order."""
        return np.asarray(order * self.loss(x) - 0.5 * x * x - _LOG_ROOT_TWO_PI)


def log_moment_minus_one(sampling_rate: float, noise_multiplier: Array, order: Array) -> Array:
    """An upper bound on log E[F] for each pair of noise and order, tight to about 1e-11.

    Needs 1e-100 <= sampling_rate < 1 and SMALLEST_NOISE <= noise_multiplier <= 1e50.
    The two arrays have shape (n,).
    """
    pair = _Pair(sampling_rate, noise_multiplier, order)
    digits = _digits(pair)
    step, error = _step(pair, digits)
    first, last = _modes(pair)
    width = np.sqrt(2 * digits) + 1
    result = np.full(len(order), np.inf)
    todo = np.arange(len(order))
    for _ in range(_ROUNDS):
        part = pair.at(todo)
        windows = _windows(part, first[todo], last[todo], width[todo], step[todo])
        total, left_out = _sum_windows(part, windows, step[todo])
        lost = np.logaddexp(left_out, error[todo])
        result[todo] = np.logaddexp(total, lost)
        todo = todo[left_out > total + _ENOUGH]
        if not len(todo):
            break
        width[todo] *= 1.7
    return result


def _digits(pair: _Pair) -> Array:
    """Nats of accuracy that the trapezoid rule needs: E[F] may be far below 1."""
    spread = np.minimum(1 / pair.noise**2, 600.0)
    log_moment = (np.log(pair.order) + np.log(pair.order - 1) - math.log(2)
                  + 2 * math.log(pair.rate) + np.log(np.expm1(spread)))
    return np.asarray(33 + np.maximum(0.0, -log_moment) + np.log1p(pair.order * pair.rate))


def _step(pair: _Pair, digits: Array) -> tuple[Array, Array]:
    """Step h, and the logarithm of the absolute error it leaves."""
    free = np.sqrt(2 * digits)  # the best a, if nothing is in its way
    strip = np.where(pair.order == np.floor(pair.order), free, 0.999 * math.pi * pair.noise)
    height = np.minimum(free, strip)
    step = 2 * math.pi * height / (digits + height * height / 2)
    # Three parts with integrals E[F] + 1, 1 and at most 2 order q; 8 instead of 2 covers
    # the share that is relative to E[F] and the denominator.
    error = math.log(8.0) - digits + np.log(2 + 2 * pair.order * pair.rate)
    return step, error


def _modes(pair: _Pair) -> tuple[Array, Array]:
    """First and last stationary point of log_weight, each to .05 (equal, if there is one).

    They solve order/s share(x) = x. The difference of the two sides falls, rises between the
    two points where share (1 - share) = s^2 / order, and falls again.
    """
    order, noise = pair.order, pair.noise
    end = order / noise
    bend = noise * noise / order
    root = np.sqrt(np.maximum(0.0, 1 - 4 * bend))
    middle = 0.5 / noise + noise * (math.log1p(-pair.rate) - math.log(pair.rate))
    reach = noise * (2 * np.log1p(root) - np.log(np.minimum(1.0, 4 * bend)))
    low, high = np.clip(middle - reach, 0, end), np.clip(middle + reach, 0, end)

    def rises(x: Array) -> NDArray[np.bool_]:
        return np.asarray(end * pair.share(x) > x)

    none_low = (root == 0) | rises(low)
    none_high = (root == 0) | ~rises(high)
    zero = np.zeros_like(end)
    first = _bisect(rises, np.where(none_low & (root > 0), high, zero),
                    np.where(none_low, end, low))
    last = _bisect(rises, np.where(none_high, zero, high),
                   np.where(none_high & (root > 0), low, end))
    first = np.where(none_low, last, first)
    return first, np.where(none_high, first, last)


def _bisect(rises: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
    """Where `rises` turns false, on an interval on which it does so once."""
    for _ in range(max(1, math.ceil(math.log2(1 + 20 * float(np.max(high - low)))))):
        centre = 0.5 * (low + high)
        above = rises(centre)
        low, high = np.where(above, centre, low), np.where(above, high, centre)
    return np.asarray(0.5 * (low + high))


def _windows(
    pair: _Pair, first: Array, last: Array, width: Array, step: Array
) -> tuple[Array, Array]:
    """Node numbers (from, to) of three windows per order, shape (3, n), in rising order.

    The first holds the terms of order two in q, which matter when E[F] is far below 1.
    """
    def around(mode: Array) -> tuple[Array, Array]:
        share = pair.share(mode)
        flat = 1 - pair.order / pair.noise**2 * share * (1 - share)
        half = width / np.sqrt(np.clip(flat, 1 / 400, 1.0)) + 0.1
        return mode - half, mode + half

    edges = [(-width, 2 / pair.noise + width), around(first), around(last)]
    starts, stops = [], []
    floor = np.full_like(width, -np.inf)
    for low, high in edges:
        start = np.maximum(np.floor(low / step), floor)
        stop = np.maximum(np.ceil(high / step), start - 1)
        floor = np.maximum(floor, stop + 1)
        starts.append(start)
        stops.append(stop)
    return np.array(starts), np.array(stops)


def _sum_windows(
    pair: _Pair, windows: tuple[Array, Array], step: Array
) -> tuple[Array, Array]:
    """log of the sum over all windows, and log of a bound on what they leave out."""
    starts, stops = windows
    sizes = (stops - starts + 1).T.astype(np.int64)  # (n, 3), so that orders stay together
    flat = sizes.ravel()
    begin = np.cumsum(flat) - flat
    inside = np.arange(int(flat.sum())) - np.repeat(begin, flat)
    per_order = sizes.sum(axis=1)
    h = np.repeat(step, per_order)
    x = (np.repeat(starts.T.ravel(), flat) + inside) * h
    values = _log_terms(pair.at(np.repeat(np.arange(len(per_order)), per_order)), x)
    offsets = np.cumsum(per_order) - per_order
    top = np.maximum.reduceat(values, offsets)
    scaled = np.add.reduceat(np.exp(values - np.repeat(top, per_order)), offsets)
    total = top + np.log(scaled) + np.log(step) - _LOG_ROOT_TWO_PI
    return total, _left_out(pair, starts, stops, step)


def _log_terms(pair: _Pair, x: Array) -> Array:
    """log of exp(-x^2 / 2) F(x), moved up by what rounding may have taken."""
    order = pair.order
    loss = pair.loss(x)
    size = np.abs(x) / pair.noise + 0.5 / pair.noise**2
    sensitive = 2 + order * pair.share(x)
    rounding = 8 * _EPS * (16 + 0.5 * x * x + sensitive * size + order * np.abs(loss))
    return np.asarray(loss + log_gain(loss, order - 1) - 0.5 * x * x + rounding)


def _left_out(pair: _Pair, starts: Array, stops: Array, step: Array) -> Array:
    """log of a bound on the nodes between and right of the windows.

    F <= (1 + u)^order where u >= 0, which holds right of the first window. Left of it u < 0,
    where F <= min(order beta u^2, order |u|) and |u| <= q.
    Beyond order / s + 1 the weight falls by at least e per unit.
    """
    floor = np.maximum.accumulate(stops, axis=0)
    largest = np.minimum(np.log(pair.order - 1) + 2 * math.log(pair.rate), math.log(pair.rate))
    total: Array = np.log(pair.order) + largest - 0.5 * (starts[0] * step) ** 2
    for k in range(3):
        left = floor[k] * step
        at_left = pair.log_weight(left, pair.order)
        if k < 2:
            right = np.maximum(starts[k + 1] * step, left)
            at_right = pair.log_weight(right, pair.order)
            length = np.where(stops[k + 1] >= starts[k + 1], right - left, 0.0)
            # Adjacent windows leave nothing between them.
            length = np.where(length <= 1.5 * step, 0.0, length)
            ends = np.maximum(at_left, at_right)
        else:
            length = np.maximum(0.0, pair.order / pair.noise + 1 - left) + 1 + step
            ends = at_left
        with np.errstate(divide="ignore"):
            total = np.logaddexp(total, ends + np.log(length))
    return total


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
