"""From Renyi curves to (epsilon, delta) and back; rounded against the one who spends."""

from __future__ import annotations

import math

import numpy as np

from privledger.accounting.curve import RdpCurve
from privledger.accounting.moments import Array
from privledger.accounting.renyi import zcdp_rdp
from privledger.errors import InvalidCurve, InvalidValue
from privledger.rounding import non_negative, number, probability, up

_HIGHEST_ORDER = 1e100  # any order is sound; sums with higher ones leave the floats
_TINY = float(np.finfo(np.float64).tiny)
_ROUNDING = 2e-15  # of the sum of the sizes of the terms: a dozen ulp


def _check_curve(curve: object) -> RdpCurve:
    if not isinstance(curve, RdpCurve):
        raise InvalidCurve("curve", curve, "an RdpCurve")
    return curve


def _distance(bounds: Array) -> Array:
    """An upper bound on the total variation distance, from any Renyi bound.

    Orders above 1 bound the relative entropy; then Pinsker and Bretagnolle-Huber.
    """
    return np.asarray(np.minimum(np.sqrt(0.5 * bounds), np.sqrt(-np.expm1(-bounds))))


def epsilon_from_rdp(curve: RdpCurve, delta: float) -> tuple[float, float]:
    """Smallest epsilon that one order of the curve proves at `delta`, and that order.

    epsilon = bound + log(1 - 1/order) - log(delta order) / (order - 1), and 0 wherever the
    total variation distance is already below delta.

    Args:
        curve: bounds in nats; orders with an infinite bound prove nothing.
        delta: strictly between 0 and 1.

    Returns:
        Epsilon in nats, rounded up and never below 0, infinite if no order has a bound; and
        the order that proves it.

    Raises:
        InvalidValue: delta outside (0, 1).

    References:
        Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Proposition 12; the same as
        Balle et al. 2020 (arXiv:1905.09982v2), Theorem 21.

    >>> epsilon, order = epsilon_from_rdp(RdpCurve((2.0, 8.0), (0.04, 0.16)), 1e-5)
    >>> round(epsilon, 3), order
    (1.374, 8.0)
    """
    bounds, chance = _check_curve(curve).as_array(), probability("delta", delta)
    order = np.array(curve.orders)
    shift, fall = np.log1p(-1 / order), (math.log(chance) + np.log(order)) / (order - 1)
    slack = _ROUNDING * ((-math.log(chance) + np.log(order)) / (order - 1) - shift)
    epsilon = bounds * (1 + _ROUNDING) + shift - fall + slack
    nothing = _distance(bounds) * (1 + 1e-14) <= chance
    epsilon = np.where(nothing, 0.0, np.maximum(epsilon, 0.0))
    best = int(np.argmin(epsilon))
    value = float(epsilon[best])
    return (up(value) if 0 < value < math.inf else value), curve.orders[best]


def delta_from_rdp(curve: RdpCurve, epsilon: float) -> tuple[float, float]:
    """Smallest delta that one order of the curve proves at `epsilon`, and that order.

    log delta = (order - 1) (bound - epsilon + log(1 - 1/order)) - log(order): the inverse of
    `epsilon_from_rdp`, at most the total variation distance, at most 1.

    Args:
        curve: bounds in nats.
        epsilon: nats, at least 0.

    Returns:
        Delta, rounded up, and the order. A curve of zeros gives 0; otherwise a value too
        small for a float is returned as the smallest normal one.

    Raises:
        InvalidValue: epsilon is not a number of at least 0.

    References:
        Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Proposition 12.

    >>> round(delta_from_rdp(RdpCurve((2.0, 8.0), (0.04, 0.16)), 1.374)[0], 7)
    1e-05
    """
    bounds, target = _check_curve(curve).as_array(), non_negative("epsilon", epsilon)
    order = np.array(curve.orders)
    beta, shift = order - 1, np.log1p(-1 / order)
    finite = np.where(np.isinf(bounds), 0.0, bounds)
    with np.errstate(over="ignore"):
        slack = _ROUNDING * (beta * (finite + target - shift) + np.log(order))
        log_delta = beta * (finite - target + shift) - np.log(order)
    # Where floats run out, nothing is proved.
    log_delta = np.where(np.isfinite(slack), log_delta + np.where(np.isfinite(slack), slack, 0.0),
                         0.0)
    delta = np.exp(np.clip(log_delta, -800.0, 0.0))
    delta = np.minimum(delta, _distance(finite) * (1 + 1e-14))
    delta = np.where(np.isinf(bounds), 1.0, delta)
    best = int(np.argmin(delta))
    if bounds[best] == 0:
        return 0.0, curve.orders[best]
    return min(1.0, max(_TINY, up(float(delta[best])))), curve.orders[best]


def rdp_cap(epsilon: float, delta: float, order: float) -> float:
    """Largest Renyi bound at one fixed order that still proves (epsilon, delta), rounded down.

    What a Renyi filter may spend at its declared order. Where even a tiny bound would not
    prove it (epsilon too small for this order and delta), the cap is 0.0: nothing fits, and
    a larger order or delta is needed.

    Args:
        epsilon: nats, at least 0.
        delta: strictly between 0 and 1.
        order: above 1.

    Raises:
        InvalidValue: a parameter outside its range.

    References:
        Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Proposition 12.

    >>> round(rdp_cap(1.0, 1e-5, 16.0), 4)
    0.4818
    """
    target, chance = non_negative("epsilon", epsilon), probability("delta", delta)
    wanted = number("order", order)
    if not wanted > 1:
        raise InvalidValue("order", order, "above 1")
    shift = math.log1p(-1 / wanted)
    fall = (math.log(chance) + math.log(wanted)) / (wanted - 1)
    size = target - shift + (math.log(wanted) - math.log(chance)) / (wanted - 1)
    return max(0.0, target - shift + fall - 4 * _ROUNDING * size)


def epsilon_from_zcdp(rho: float, delta: float) -> float:
    """Smallest epsilon, over 200 orders around the best one, of rho-zCDP at `delta`.

    Args:
        rho: zero-concentrated-DP parameter, at least 0. delta: strictly between 0 and 1.

    References:
        As `epsilon_from_rdp`, with the bound order * rho at every order.

    >>> round(epsilon_from_zcdp(0.01, 1e-6), 4)
    0.6217
    """
    concentrated, chance = non_negative("rho", rho), probability("delta", delta)
    if concentrated == 0:
        return 0.0
    return epsilon_from_rdp(zcdp_rdp(concentrated, _orders_around(concentrated, chance)),
                            chance)[0]


def delta_from_zcdp(rho: float, epsilon: float) -> float:
    """Smallest delta of rho-zCDP at `epsilon`, over 200 orders around the best one."""
    concentrated, target = non_negative("rho", rho), non_negative("epsilon", epsilon)
    if concentrated == 0:
        return 0.0
    best = min(max(0.5 * (target / concentrated + 1), 1.0 + 1e-6), _HIGHEST_ORDER)
    orders = tuple((1 + (best - 1) * np.geomspace(0.1, 10, 200)).tolist())
    return delta_from_rdp(zcdp_rdp(concentrated, orders), target)[0]


def zcdp_cap(epsilon: float, delta: float) -> float:
    """Largest rho that still proves (epsilon, delta), rounded down: a zCDP filter's cap."""
    target, chance = non_negative("epsilon", epsilon), probability("delta", delta)
    low, high = 0.0, max(1.0, target)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= 1e-13 * high:
            break
        low, high = ((middle, high) if epsilon_from_zcdp(middle, chance) <= target
                     else (low, middle))
    return low


def _orders_around(rho: float, delta: float) -> tuple[float, ...]:
    """About 1 + sqrt(log(1/delta) / rho) is best."""
    best = min(math.sqrt(-math.log(delta) / rho), _HIGHEST_ORDER)
    return tuple(np.unique(1 + np.maximum(best * np.geomspace(0.2, 5, 200), 1e-9)).tolist())


# --- Published formulas that do not hold. Shown beside the sound cost; never charged.


def published_sgbdt_epsilon(order: float, bound: float, delta: float) -> float:
    """What S-GBDT prints as its epsilon: (bound + log(1/delta)) / order.

    **This is wrong and too small.** A sound conversion has epsilon itself, not
    order * epsilon, on the left: bound + (log(1/delta) + ...) / (order - 1), see
    `epsilon_from_rdp`. For one Gaussian with noise multiplier 1 at order 1000 and delta 1e-5
    the rule reports .51, while epsilon is 4.38. Kept only to compare a claim with its cost.

    Args:
        order: Renyi order, above 1.
        bound: Renyi bound in nats at this order.
        delta: strictly between 0 and 1.

    Raises:
        InvalidValue: a parameter outside its range.

    References:
        S-GBDT, arXiv:2309.12041, Algorithm 7 line 6 and Theorem 18.

    >>> round(published_sgbdt_epsilon(1000.0, 500.0, 1e-5), 4)
    0.5115
    """
    wanted, spent = number("order", order), non_negative("bound", bound)
    if not wanted > 1:
        raise InvalidValue("order", order, "above 1")
    return (spent - math.log(probability("delta", delta))) / wanted
