"""Gaussian DP in closed form: mu = 1 / noise_multiplier, composed as the root of summed squares.

    delta(mu, epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

With a = epsilon/mu - mu/2, b = a + mu and the Mills ratio R(t) = Phi(-t) / phi(t) this is
phi(a) (R(a) - R(b)); for small mu the difference is the integral of 1 - t R(t), which is
positive, so nothing cancels.

References:
    Balle, Wang 2018 (arXiv:1805.06530v2), Theorem 8; Dong, Roth, Su 2019
    (arXiv:1905.02383v3), Corollaries 2.13 and 3.3.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import cache

import numpy as np

from privledger.accounting.moments import Array
from privledger.rounding import down, non_negative, probability, up

_ROOT_HALF = math.sqrt(0.5)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_TINY = sys.float_info.min
_HUGE_MU = 1e6  # beyond it one term of delta is all that a float can see


@cache
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(14)
    return nodes, weights


def _mills(value: float) -> float:
    from scipy.special import erfcx

    return _ROOT_HALF_PI * float(erfcx(value * _ROOT_HALF))


def _mills_drop(a: float, b: float) -> float:
    """R(a) - R(b) for a < b, a > -30."""
    from scipy.special import erfcx

    if b - a > 1:
        return _mills(a) - _mills(b)
    nodes, weights = _legendre()
    half = 0.5 * (b - a)
    t = 0.5 * (a + b) + half * nodes
    return half * float(np.dot(weights, _mills_slope(t, erfcx(t * _ROOT_HALF))))


def _mills_slope(t: Array, scaled: Array) -> Array:
    """1 - t R(t): a continued fraction where the two terms nearly cancel."""
    near: Array = 1 - t * _ROOT_HALF_PI * scaled
    if not np.any(t > 6.0):
        return near  # the fraction takes sixty passes, and gains nothing
    far = np.maximum(t, 6.0)
    # R(t) = 1/(t + 1/(t + 2/(t + ...))) gives 1 - t R = c/(t + c), c = 1/(t + 2/(t + ...)).
    tail = far
    for k in range(60, 1, -1):
        tail = far + k / tail
    fraction = 1 / (1 + far * tail)
    return np.where(t > 6.0, fraction, near)


def _log_delta(a: float, b: float) -> float:
    """log delta from the two ends; minus infinity where a float cannot hold it."""
    from scipy.special import ndtr

    if a < -1:
        upper = float(ndtr(-a))
        rest = math.exp(-0.5 * a * a - _LOG_ROOT_TWO_PI) * _mills(b) if a > -38 else 0.0
        return math.log(upper - rest)
    return math.log(_mills_drop(a, b)) - 0.5 * a * a - _LOG_ROOT_TWO_PI


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Smallest delta of a mu-GDP mechanism at `epsilon`, rounded up by about 1e-12.

    Args:
        mu: Gaussian-DP parameter, at least 0.
        epsilon: nats, at least 0.

    Returns:
        A probability. A value too small for a float is returned as the smallest normal one.

    Raises:
        InvalidValue: a parameter is not a number of at least 0.

    >>> round(delta_from_mu(1.0, 1.0), 9)
    0.126936738
    """
    shift, target = non_negative("mu", mu), non_negative("epsilon", epsilon)
    if shift == 0:
        return 0.0
    # Exact, because a = epsilon/mu - mu/2 may cancel and its square is exponentiated.
    exact = Fraction(target) / Fraction(shift) - Fraction(shift) / 2
    if exact > 40:
        return _TINY
    a, half_square = float(exact), float(exact * exact / 2) if exact > -1e6 else 0.0
    if a < -40:
        return 1.0
    b = float(exact + Fraction(shift))
    if a < -1:
        from scipy.special import ndtr

        value = float(ndtr(-a)) - math.exp(-half_square - _LOG_ROOT_TWO_PI) * _mills(b)
    elif b > 1e15:
        value = math.exp(-half_square - _LOG_ROOT_TWO_PI) * _mills(a)
    elif 0 < shift < 1:
        value = _narrow(a, shift) * math.exp(-half_square - _LOG_ROOT_TWO_PI)
    else:
        value = math.exp(-half_square - _LOG_ROOT_TWO_PI) * (_mills(a) - _mills(b))
    return min(1.0, max(_TINY, up(value * (1 + 5e-13))))


def _narrow(a: float, mu: float) -> float:
    """R(a) - R(a + mu) for mu below 1; mu itself is used, since b - a would lose its digits."""
    from scipy.special import erfcx

    nodes, weights = _legendre()
    t = a + 0.5 * mu * (1 + nodes)
    return 0.5 * mu * float(np.dot(weights, _mills_slope(t, erfcx(t * _ROOT_HALF))))


def _log_delta_at(mu: float, centre: float) -> float:
    """log delta with centre = epsilon / mu."""
    a = centre - 0.5 * mu
    if mu < 1:
        return math.log(_narrow(a, mu)) - 0.5 * a * a - _LOG_ROOT_TWO_PI
    return _log_delta(a, centre + 0.5 * mu)


def _slack(a: float) -> float:
    """What rounding may have changed in a computed log delta."""
    return 4e-15 + 4e-16 * a * a


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Smallest epsilon of a mu-GDP mechanism at `delta`, rounded up; never below 0.

    Args:
        mu: Gaussian-DP parameter, at least 0.
        delta: strictly between 0 and 1.

    Raises:
        InvalidValue: a parameter outside its range.

    >>> round(epsilon_from_mu(1.0, 1e-6), 9)
    4.886554117
    """
    from scipy.special import ndtri

    shift, chance = non_negative("mu", mu), probability("delta", delta)
    if shift == 0 or _TINY + shift * 0.39894228040143276 * (1 + 1e-15) <= chance:
        return 0.0  # delta(0) = 2 Phi(mu/2) - 1 <= mu phi(0)
    quantile = -float(ndtri(chance))
    # delta < Phi(-a), so this epsilon is always enough.
    enough = 0.5 * shift + quantile + 4e-15 * (1 + abs(quantile))
    if enough <= 0:
        return 0.0
    if shift > _HUGE_MU:
        return up(shift * enough * (1 + 4e-16))
    centre = _newton_centre(shift, math.log(chance), enough)
    return 0.0 if centre <= 0 else up(shift * centre * (1 + 1e-15))


def _newton_centre(mu: float, target: float, start: float) -> float:
    """Solve log delta = target for epsilon / mu, from the right.

    log delta is concave in epsilon (a convolution of log-concave functions), so every Newton
    step from the right stays on the right: each iterate is already a valid epsilon.
    """
    centre = start
    for _ in range(80):
        a = centre - 0.5 * mu
        log_delta = _log_delta_at(mu, centre)
        log_slope = math.log(mu) + _log_mills_phi(centre + 0.5 * mu, a) - log_delta
        slack = _slack(a)
        move = (target - slack - log_delta) * math.exp(-log_slope)
        if not move > 4e-16 * centre:
            # Close to zero or at the noise floor: step out by the slack once.
            extra = (slack + max(0.0, log_delta + slack - target)) * math.exp(-log_slope)
            return min(start, centre + extra)
        if centre - move <= 0:
            at_zero = _log_delta_at(mu, 0.0)
            if at_zero + _slack(0.5 * mu) <= target:
                return 0.0
            centre *= 0.5
            if centre < 1e-300 or _log_delta_at(mu, centre) > target:
                return min(start, centre * 2)
            continue
        centre -= move
    return centre


def _log_mills_phi(b: float, a: float) -> float:
    """log of phi(a) R(b), which is -d delta / d epsilon."""
    return math.log(_mills(b)) - 0.5 * a * a - _LOG_ROOT_TWO_PI


def mu_from_epsilon_delta(epsilon: float, delta: float) -> float:
    """Largest mu whose guarantee at `delta` is at most `epsilon`, rounded down.

    Args:
        epsilon: nats, at least 0.
        delta: strictly between 0 and 1.

    Raises:
        InvalidValue: a parameter outside its range.

    >>> round(mu_from_epsilon_delta(1.0, 1e-6), 6)
    0.236704
    """
    from scipy.special import ndtri

    target, chance = non_negative("epsilon", epsilon), probability("delta", delta)
    quantile = -float(ndtri(chance))
    root = math.hypot(quantile, math.sqrt(2 * target)) if target < 1e300 else math.sqrt(target)
    # Phi(-a) = delta here, and delta(mu, epsilon) is below it.
    proved = 2 * target / (root + quantile) if quantile > 0 else root - quantile
    proved *= 1 - 1e-14
    if proved > _HUGE_MU:
        return proved
    low = max(proved, chance * 2.5066282746310002 * (1 - 1e-15))  # delta <= epsilon 0 one
    return down(_newton_mu(target, math.log(chance), low) * (1 - 2e-15))


def _newton_mu(epsilon: float, target: float, low: float) -> float:
    """Solve log delta = target for log mu, keeping `low` on the side that meets it."""
    high = math.inf
    guess = low
    for _ in range(200):
        a = epsilon / guess - 0.5 * guess
        log_delta = _log_delta_at(guess, epsilon / guess) if a < 1e8 else -math.inf
        met = log_delta + _slack(a) <= target
        low, high = (guess, high) if met else (low, guess)
        if high - low <= 2e-15 * low:
            break
        log_slope = math.log(guess) - 0.5 * a * a - _LOG_ROOT_TWO_PI - log_delta
        step = (target - 1.5 * _slack(a) - log_delta) * math.exp(min(-log_slope, 300.0))
        guess = guess * math.exp(max(-1.0, min(1.0, step))) if step == step else high
        if high < math.inf and not low < guess < high:
            guess = 0.5 * (low + high)
        elif guess <= low:
            guess = low * (1 + 1e-14)
        if met and 0 <= step < 1e-14:
            break
    return low


def mu_from_pure(epsilon: float) -> float:
    """Smallest mu for which every epsilon-DP mechanism is mu-GDP, rounded up.

    2 Phi^-1(exp(epsilon) / (1 + exp(epsilon))): the two trade-off curves touch where both
    errors are 1 / (1 + exp(epsilon)), and the Gaussian one is convex.

    References:
        Dong, Roth, Su 2019 (arXiv:1905.02383v3), Proposition 2.5 for the curve of pure DP.

    >>> round(mu_from_pure(1.0), 9)
    1.232035385
    """
    from scipy.special import erfinv, ndtri_exp

    pure = non_negative("epsilon", epsilon)
    if pure == 0:
        return 0.0
    if pure < 1:
        value = math.sqrt(8) * float(erfinv(math.tanh(0.5 * pure)))
    else:
        value = -2 * float(ndtri_exp(-(pure + math.log1p(math.exp(-pure)))))
    return up(value * (1 + 2e-14))
