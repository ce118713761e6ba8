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

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import Array
from privledger.accounting.renyi import (
    gaussian_rdp,
    laplace_bounds,
    laplace_rdp,
    pure_bounds,
)
from privledger.accounting.sampled_laplace import sampled_laplace_bounds
from privledger.accounting.share_table import (
    Indices,
    Table,
    chord_table,
    multiples,
    step_table,
)
from privledger.accounting.subsample import (
    poisson_gaussian_rdp,
    poisson_pure_epsilon,
    sampled_gaussian_bounds,
)
from privledger.errors import InvalidCurve, InvalidValue
from privledger.rounding import multiply_up, non_negative, positive, probability

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


def rising_per_record(
    curve_at: Callable[[float], RdpCurve],
    shares: Array,
    orders: tuple[float, ...] = DEFAULT_ORDERS,
) -> Array:
    """Any mechanism whose bound never falls as the share grows, by steps. Nothing is cached.

    Args:
        curve_at: share in (0, 1] -> curve at `orders`. Called a few thousand times, at points
            that do not depend on the shares.

    Returns:
        Bounds at the next larger point of the table: never below `curve_at`, and at most 1 %
        above it, down to 1e-12 of the full share's bound.

    Raises:
        InvalidCurve: a curve at other orders.
        InvalidValue: bad shares.
    """
    orders, checked = check_orders(orders), check_shares(shares)

    def bounds_at(points: Array) -> Array:
        curves = [curve_at(share) for share in points.tolist()]
        for curve in curves:
            if curve.orders != orders:
                raise InvalidCurve("orders", curve.orders[:8], "those asked for")
        return np.array([curve.as_array() for curve in curves])

    return step_table(bounds_at, bounds_at(np.ones(1))[0]).look_up(checked)
