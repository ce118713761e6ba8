"""The moment of the Poisson-sampled Gaussian, at any order, by certified quadrature.

With s = noise_multiplier, q = sampling_rate, w(x) = x/s - 1/(2 s^2) and u = q expm1(w), the
sampled Gaussian has moment E[(1 + u)^order] for x ~ N(0, 1). Since E[u] = 0 this is 1 + E[F],
F = (1 + u)^order - 1 - order u >= 0, and F is summed without cancellation (`moments`).

Trapezoid rule, step h: on the line Im x = a the integrand of each of the three parts is at
most exp(a^2 / 2) times the one on the real line, and (1 + u)^order is analytic for
|a| < pi s (everywhere, if the order is whole). So the error is at most
2 / (exp(2 pi a / h - a^2 / 2) - ...) of each part [Trefethen, Weideman 2014, Theorem 5.1].
It is added to the result, and so is a bound on every node that is left out:
log phi(x) (1 + u)^order is monotone between its stationary points, of which there are one or
three, so what lies between two windows is at most its length times the larger end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array, log_gain, log_mix

SMALLEST_NOISE = 0.05
"""Below this the quadrature would need very many nodes."""

_EPS = float(np.finfo(np.float64).eps)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ENOUGH = math.log(1e-12)  # what is left out, relative to the result
_ROUNDS = 6


@frozen
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
