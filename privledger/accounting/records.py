"""What one round costs each record, when records move the query by different amounts.

Record i moves the query by `shares[i]` times the sensitivity that the mechanism is stated for.
Every function takes `shares` (float64, shape (n,), from `check_shares`) and `orders` (strictly
increasing, above 1) and returns bounds in nats of shape (n, len(orders)), float64.

Shares are private, and so is what comes out: no message says a value.
Proofs: docs/proofs/subsampling.md, section "Per record".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import Array
from privledger.accounting.renyi import (
    gaussian_rdp,
    laplace_bounds,
    laplace_rdp,
    pure_bounds,
    sampled_laplace_bounds,
)
from privledger.accounting.subsample import (
    poisson_gaussian_rdp,
    poisson_pure_epsilon,
    sampled_gaussian_bounds,
)
from privledger.errors import InvalidValue
from privledger.rounding import multiply_up, non_negative, positive, probability

# --- Tables of Renyi bounds over a record's share, never below the exact bound.
#
# A table is built once per mechanism and looked up for every record. Two kinds:
#
# - *chords*, for bounds that are convex in the share or in its square and zero at zero: a chord
#   between two upper bounds lies above. The same convexity bounds from below what a chord may
#   add: the function lies above its neighbouring chords, extended. Points are added until that
#   is at most `EXCESS` of the bound.
# - *steps*, for bounds that only grow with the share: the bound at the next larger point.
#
# Proofs: docs/proofs/subsampling.md, section "Per record".

EXCESS = 0.0099
"""Largest part by which a looked-up bound may be above the exact one."""

NEGLIGIBLE = 1e-12
"""The promise on the excess ends where a bound is below this part of the full share's."""

_ROUND = 1.0 + 2.0**-49  # covers eight roundings
_ABOVE_ZERO = 2 * float(np.finfo(np.float64).tiny)  # "above zero", also after a few roundings
_CHUNK = 1 << 17  # numbers at a time: this part of the result stays in the cache
_DEEPEST = 64
_PASSES = 16
_MOST = 1 << 15
_BEYOND = 1.25  # a point right of 1 supports the last chord from below

Indices = NDArray[np.int64]
Evaluate = Callable[[Array, Indices], Array]
"""(points, numbers of orders), both of shape (m,) -> upper bounds in nats, shape (m,)."""


@frozen(eq=False)
class Table:
    """Pieces (points[j], points[j + 1]] of bounds start[j] + slope[j] * (x - points[j]).

    Attributes:
        points: rising from 0 to 1, shape (pieces + 1,).
        start: nats, shape (pieces, orders).
        slope: the same shape, or None where the bound is constant on each piece.
        full: bounds for the full share, shape (orders,); no bound is above them.
        squared: whether x is the square of the share or the share itself.
    """

    points: Array
    start: Array
    slope: Array | None
    full: Array
    squared: bool

    def look_up(self, shares: Array) -> Array:
        """Bounds in nats, shape (len(shares), orders); `shares` must have been checked.

        x is moved up before the look-up, and the table holds room for what follows.
        """
        result = np.empty((len(shares), len(self.full)))
        left, inner = self.points[:-1], self.points[1:-1]
        many = _CHUNK // len(self.full) + 1
        spare = np.empty((min(many, len(shares)), len(self.full)))
        with np.errstate(all="ignore"):
            for begin in range(0, len(shares), many):
                part, rows = shares[begin : begin + many], result[begin : begin + many]
                x = square_up(part) if self.squared else part
                piece = np.searchsorted(inner, x)
                np.take(self.start, piece, axis=0, out=rows, mode="clip")
                if self.slope is not None:
                    rise = spare[: len(part)]
                    np.take(self.slope, piece, axis=0, out=rise, mode="clip")
                    rise *= (x - left[piece])[:, None]
                    rows += rise
                finish(rows, part, self.full)
        return result


def square_up(shares: Array) -> Array:
    """Squares, rounded up and never subnormal."""
    return np.asarray(np.maximum(shares * shares * _ROUND, _ABOVE_ZERO))


def finish(rows: Array, shares: Array, full: Array) -> None:
    """In place: at most the full share's bound, above zero, and zero for a share of zero."""
    np.clip(rows, _ABOVE_ZERO, full, out=rows)
    rows[shares == 0] = 0.0


def multiples(shares: Array, unit: float, row: Array, full: Array) -> Array:
    """(share / unit)^2 * row, rounded up: shape (len(shares), len(row))."""
    result = np.empty((len(shares), len(row)))
    raised, many = row * _ROUND, _CHUNK // len(row) + 1
    with np.errstate(all="ignore"):
        for begin in range(0, len(shares), many):
            part, rows = shares[begin : begin + many], result[begin : begin + many]
            np.multiply(square_up(part / unit)[:, None], raised, out=rows)
            finish(rows, part, full)
    return result


def chord_table(evaluate: Evaluate, least_slope: Array, full: Array, squared: bool) -> Table:
    """A table of chords for bounds that are convex in x and 0 at 0.

    Args:
        evaluate: upper bounds at points in (0, 1.25], close to the exact ones.
        least_slope: a lower bound on the slope at 0 per order; 0 where none is known, and then
            the excess is promised down to `NEGLIGIBLE` only.
        full: bounds at 1, shape (orders,).
    """
    points, values = _ladder(evaluate, least_slope)
    for _ in range(_PASSES):
        excess = _excess(points, values)
        if len(points) > _MOST or not (excess > EXCESS).any():
            break
        points, values = _split(evaluate, points, values, excess)
    points, values = points[:-1], np.maximum.accumulate(values[:-1], axis=0)
    with np.errstate(all="ignore"):
        slope = np.diff(values, axis=0) / np.diff(points)[:, None]
    slope[~np.isfinite(values[:-1])] = 0.0
    return _frozen(points, values[:-1] * _ROUND, slope * _ROUND, full, squared)


def _frozen(points: Array, start: Array, slope: Array | None, full: Array, squared: bool) -> Table:
    for array in (points, start) if slope is None else (points, start, slope):
        array.setflags(write=False)
    return Table(points, start, slope, full, squared)


def _everywhere(evaluate: Evaluate, points: Array, orders: int) -> Array:
    """Bounds at every point and order, shape (points, orders)."""
    column = np.tile(np.arange(orders), len(points))
    return evaluate(np.repeat(points, orders), column).reshape(len(points), orders)


def _ladder(evaluate: Evaluate, least_slope: Array) -> tuple[Array, Array]:
    """Points 0, ..., 1/16, 1/4, 1, 1.25, from where the chord to zero is close enough."""
    length, reached = 6, np.zeros(0, dtype=np.bool_)
    while not reached.any() and length < _DEEPEST:
        length *= 2
        steps: Array = np.ldexp(1.0, -2 * np.arange(min(length, _DEEPEST)))
        values = _everywhere(evaluate, steps, len(least_slope))
        near = values <= (1 + EXCESS) * least_slope * steps[:, None]
        small = (least_slope == 0) & (values <= NEGLIGIBLE * values[0])
        reached = (near | small).all(axis=1)
    last = int(np.argmax(reached)) + 1 if reached.any() else len(steps)
    points = np.concatenate(([0.0], steps[:last][::-1], [_BEYOND]))
    beyond = _everywhere(evaluate, points[-1:], len(least_slope))
    return points, np.vstack((np.zeros_like(beyond), values[:last][::-1], beyond))


def _excess(points: Array, values: Array) -> Array:
    """What each chord may be above the exact bound, relative to it: shape (points - 3, orders).

    For the pieces from the second to the last but one. A convex function lies above the two
    neighbouring chords, extended; chord / support is largest where these two meet.
    """
    with np.errstate(all="ignore"):
        width = np.diff(points)[:, None]
        slope = np.diff(values, axis=0) / width
        before, own, after = slope[:-2], slope[1:-1], slope[2:]
        meeting = np.clip((after - own) / (after - before), 0, 1) * width[1:-1]
        excess = (own - before) * meeting / (values[1:-2] + before * meeting)
    narrow = width[1:-1] < 1e-9 * points[1:-2, None]
    return np.where(narrow | np.isnan(excess), 0.0, excess)


def _split(
    evaluate: Evaluate, points: Array, values: Array, excess: Array
) -> tuple[Array, Array]:
    """New points where a chord is too high. Orders that are close enough keep their chord."""
    most = excess.max(axis=1)
    chosen = np.flatnonzero(most > EXCESS)
    parts = np.clip(np.ceil(np.sqrt(most[chosen] / EXCESS)), 2, 6).astype(np.int64)
    new, piece = _between(points, chosen + 1, parts)
    low, high = values[piece], values[piece + 1]
    with np.errstate(all="ignore"):
        along = (new - points[piece]) / (points[piece + 1] - points[piece])
        added = np.minimum(low + (high - low) * along[:, None], high) * _ROUND
    row, order = np.nonzero(excess[piece - 1] > EXCESS)
    added[row, order] = np.fmin(added[row, order], evaluate(new[row], order))
    return np.insert(points, piece + 1, new), np.insert(values, piece + 1, added, axis=0)


def _between(points: Array, pieces: Indices, parts: Indices) -> tuple[Array, Indices]:
    """Points that cut each of the pieces into equal ratios, and the piece of each."""
    piece = np.repeat(pieces, parts - 1)
    first = np.cumsum(parts - 1) - (parts - 1)
    number = np.arange(len(piece)) - np.repeat(first, parts - 1) + 1
    low, high = points[piece], points[piece + 1]
    return low * (high / low) ** (number / np.repeat(parts, parts - 1)), piece


def step_table(bounds_at: Callable[[Array], Array], full: Array) -> Table:
    """A table of steps for bounds that never fall as the share grows.

    Args:
        bounds_at: shares in (0, 1], shape (m,) -> upper bounds in nats, shape (m, orders). That
            they never fall is for the caller to prove.
        full: bounds at 1, shape (orders,).
    """
    length, reached = 16, False
    while not reached and length < 4 * _DEEPEST:
        length *= 2
        at: Array = np.ldexp(1.0, -np.arange(length)[::-1])
        table = np.vstack((bounds_at(at[:-1]), full))
        reached = bool((table[0] <= NEGLIGIBLE * full).all())
    unneeded = max(0, int((table <= NEGLIGIBLE * full).all(axis=1).sum()) - 1)
    at, table = at[unneeded:], table[unneeded:]
    for _ in range(_PASSES):
        with np.errstate(all="ignore"):
            growth = np.where(table[1:] > NEGLIGIBLE * full, np.log(table[1:] / table[:-1]), 0.0)
        steps = np.nan_to_num(growth.max(axis=1) / np.log1p(EXCESS), posinf=64.0)
        chosen = np.flatnonzero(steps > 1)
        if not len(chosen) or len(at) > _MOST:
            break
        # A few more than needed, as growth is not even.
        parts = np.clip(np.ceil(1.02 * steps[chosen]), 2, 256).astype(np.int64)
        new, piece = _between(at, chosen, parts)
        table = np.insert(table, piece + 1, bounds_at(new), axis=0)
        at = np.insert(at, piece + 1, new)
    rising = np.maximum.accumulate(table, axis=0)
    return _frozen(np.concatenate(([0.0], at)), rising, None, full, False)


_DOWN = 1.0 - 2.0**-49
_TINY, _HUGE = float(np.finfo(np.float64).tiny), 1e308
_PAIRS = 1024  # quadratures at a time


def check_shares(shares: object) -> Array:
    """Shares as a contiguous float64 array of shape (n,), each in [0, 1]; n may be 0.

    Raises:
        InvalidValue: not a one-dimensional array of real numbers, or one of them is outside
            [0, 1] or NaN. The message holds no share.
    """
    rule = "a one-dimensional array of numbers in [0, 1]"
    if not isinstance(shares, np.ndarray) or isinstance(shares, np.ma.MaskedArray):
        raise InvalidValue("shares", type(shares).__name__, rule)
    if shares.dtype.kind not in "fiu" or shares.dtype.itemsize > 8:
        raise InvalidValue("shares", f"an array of {shares.dtype}", rule)
    if shares.ndim != 1:
        raise InvalidValue("shares", f"an array of {shares.ndim} dimensions", rule)
    checked = np.ascontiguousarray(shares, dtype=np.float64)
    if len(checked) and not (checked.min() >= 0 and checked.max() <= 1):  # NaN fails this
        raise InvalidValue("shares", "one of them outside", rule)
    return checked


def gaussian_per_record(
    noise_multiplier: float, shares: Array, orders: tuple[float, ...] = DEFAULT_ORDERS
) -> Array:
    """Gaussian noise: share^2 * order / (2 noise_multiplier^2), exact.

    Raises:
        InvalidValue: a multiplier that is not above zero, or bad shares.

    >>> gaussian_per_record(1.0, np.array([0.0, 0.5]), (2.0,)).round(12).tolist()
    [[0.0], [0.25]]
    """
    noise = positive("noise_multiplier", noise_multiplier)
    orders = check_orders(orders)
    full = gaussian_rdp(noise, orders).as_array()
    return multiples(check_shares(shares), noise, np.array(orders) / 2, full)


def laplace_per_record(
    epsilon: float, shares: Array, orders: tuple[float, ...] = DEFAULT_ORDERS
) -> Array:
    """Laplace noise of scale sensitivity / epsilon: `laplace_rdp(share * epsilon)`, by chords.

    At most 1 % above, down to 1e-12 of the full share's bound.

    Raises:
        InvalidValue: a negative epsilon, or bad shares.
    """
    pure = non_negative("epsilon", epsilon)
    orders, checked = check_orders(orders), check_shares(shares)
    if pure == 0:
        return np.zeros((len(checked), len(orders)))
    return _laplace_table(pure, orders).look_up(checked)


@lru_cache(maxsize=4)
def _laplace_table(pure: float, orders: tuple[float, ...]) -> Table:
    order = np.array(orders)

    def evaluate(share: Array, which: Indices) -> Array:
        return laplace_bounds(np.nextafter(share * pure, np.inf), order[which])

    full = laplace_rdp(pure, orders).as_array()
    return chord_table(evaluate, np.zeros(len(orders)), full, squared=False)


def poisson_gaussian_per_record(
    sampling_rate: float,
    noise_multiplier: float,
    shares: Array,
    orders: tuple[float, ...] = DEFAULT_ORDERS,
) -> Array:
    """`poisson_gaussian_rdp` at noise_multiplier / share, by chords over share^2.

    Args:
        sampling_rate: probability with which each record enters, in [0, 1].
        noise_multiplier: standard deviation / L2 sensitivity, above 0.

    Returns:
        Never below the exact bounds, and at most 1 % above them.

    Raises:
        InvalidValue: a parameter outside its range, or bad shares.
    """
    rate = probability("sampling_rate", sampling_rate, zero=True, one=True)
    noise = positive("noise_multiplier", noise_multiplier)
    orders, checked = check_orders(orders), check_shares(shares)
    if rate == 0:
        return np.zeros((len(checked), len(orders)))
    if rate == 1:
        return gaussian_per_record(noise, checked, orders)
    return _sampled_table(rate, noise, orders).look_up(checked)


@lru_cache(maxsize=4)
def _sampled_table(rate: float, noise: float, orders: tuple[float, ...]) -> Table:
    order = np.array(orders)

    def evaluate(square: Array, which: Indices) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            least = np.clip(noise / np.sqrt(square) * _DOWN, _TINY, _HUGE)
        found = [sampled_gaussian_bounds(rate, least[k : k + _PAIRS], order[which[k : k + _PAIRS]])
                 for k in range(0, len(square), _PAIRS)]
        return np.concatenate(found) if found else np.zeros(0)

    full = poisson_gaussian_rdp(rate, noise, orders).as_array()
    with np.errstate(over="ignore", under="ignore"):
        slope = order * 0.5 * np.square(rate / noise) * _DOWN
    return chord_table(evaluate, slope, full, squared=True)


def poisson_laplace_per_record(
    sampling_rate: float,
    epsilon: float,
    full: RdpCurve,
    shares: Array,
) -> Array:
    """Laplace noise in proportion to the share, on a Poisson sample, by steps.

    Args:
        sampling_rate: probability with which each record enters, in [0, 1].
        epsilon: total L1 sensitivity over scale of all releases on the sample.
        full: bounds that are proved for a share of 1, which costs no more than that; its
            orders are those of the result.

    Returns:
        Never below the exact bounds, and at most 1.2 % above them, down to 1e-12 of the full
        share's.

    Raises:
        InvalidValue: a parameter outside its range, or bad shares.
    """
    rate = probability("sampling_rate", sampling_rate, zero=True, one=True)
    pure = non_negative("epsilon", epsilon)
    orders, checked = full.orders, check_shares(shares)
    if rate == 0 or pure == 0:
        return np.zeros((len(checked), len(orders)))
    if rate == 1:
        return laplace_per_record(pure, checked, orders)
    return _sampled_laplace_table(rate, pure, full).look_up(checked)


_LARGEST_SHIFT = 600.0  # beyond it, and at rates that floats do not hold well: as pure DP
_LEAST_RATE = 1e-100


@lru_cache(maxsize=4)
def _sampled_laplace_table(rate: float, pure: float, full: RdpCurve) -> Table:
    order = np.array(full.orders)

    def by_pure(shares: Array) -> Array:
        sampled = np.array([poisson_pure_epsilon(rate, multiply_up(share, pure))
                            for share in shares.tolist()])
        flat = pure_bounds(np.repeat(sampled, len(order)), np.tile(order, len(sampled)))
        return flat.reshape(len(sampled), len(order))

    def bounds_at(shares: Array) -> Array:
        shift = np.array([multiply_up(share, pure) for share in shares.tolist()])
        return sampled_laplace_bounds(rate, shift, order)

    held = pure <= _LARGEST_SHIFT and _LEAST_RATE <= rate <= 1 - 1e-15
    bounds = bounds_at if held else by_pure
    return step_table(bounds, np.minimum(full.as_array(), bounds(np.ones(1))[0]))
