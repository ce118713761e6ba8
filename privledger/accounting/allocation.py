"""Renyi bounds of a record in one of several rounds of Gaussian noise, chosen by a private coin.

The likelihood ratio L of both worlds is, under the one without the record, the mean of `steps`
independent ratios X = exp(mu z - mu^2/2). Proofs: docs/proofs/allocation.md.
"""

from __future__ import annotations

import math

import numpy as np

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders
from privledger.accounting.moments import Array, by_doubling, raise_bounds
from privledger.accounting.subsample import poisson_gaussian_rdp
from privledger.rounding import count, positive, probability

HIGHEST = 512
"""Whole orders up to here have their exact moments; beyond them the unsampled Gaussian counts."""

_ROUNDING = 1e-11  # relative error of a sum of positive terms that is kept as a logarithm
_DIGITS = 42.0  # the trapezoid rules are off by exp(-42), relatively
_SLACK = 1e-13  # of a quadrature's sum, relatively


def allocation_rdp(
    steps: int, noise_multiplier: float, orders: tuple[float, ...] = DEFAULT_ORDERS
) -> RdpCurve:
    """A record in exactly one of `steps` rounds, which may depend on earlier outputs.

    Args:
        steps: rounds of one pass, one of which the record's own coin picks.
        noise_multiplier: standard deviation / L2 sensitivity of a round, above 0.

    Returns:
        Bounds in nats for both directions of add-or-remove-one.

    Raises:
        InvalidValue: a parameter outside its range.

    References:
        Feldman, Shenfeld 2025 (arXiv:2502.08202), for the pair of distributions.

    >>> round(allocation_rdp(100, 1.0, (2.0,)).at(2.0), 6)
    0.017037
    """
    rounds = count("steps", steps)
    noise = positive("noise_multiplier", noise_multiplier)
    orders = check_orders(orders)
    order = np.array(orders)
    with np.errstate(over="ignore", under="ignore"):
        plain = np.maximum(order * 0.5 / noise / noise, np.finfo(np.float64).tiny)
    mu = 1 / noise
    if rounds == 1 or not 1e-6 <= mu <= 1e3:
        return RdpCurve.from_array(orders, raise_bounds(plain))
    with_record = np.minimum(raise_bounds(plain), _chords(rounds, mu, order))
    # The geometric mean is at most the arithmetic one: the other direction, roughly.
    rough = raise_bounds(0.5 * mu * mu * (1 + (order - 1) / rounds))
    bounds = [
        top if top >= other else max(top, min(other, reverse_bound(rounds, mu, float(at))))
        for at, top, other in zip(order, with_record, rough, strict=True)]
    return RdpCurve.from_array(orders, np.array(bounds))


def _chords(steps: int, mu: float, order: Array) -> Array:
    """From the mixture to the plain law: whole orders exactly, chords of the log moment between
    them, infinity beyond."""
    within = order[order <= HIGHEST]
    if not len(within):
        return np.full(len(order), math.inf)
    top = max(2, math.ceil(float(within.max())))
    log_moment = np.logaddexp(0.0, log_moments_minus_one(steps, mu, top))
    at = np.minimum(order, float(top))
    low = np.floor(at).astype(np.int64)
    share = at - low
    moment = (1 - share) * log_moment[low] + share * log_moment[np.minimum(low + 1, top)]
    return np.where(order <= HIGHEST, raise_bounds(moment / (order - 1) * (1 + 1e-14)), math.inf)


def log_moments_minus_one(steps: int, mu: float, top: int) -> Array:
    """log of E[L^a] - 1 for a = 0, ..., `top`, rounded up; minus infinity for 0 and 1.

    E[L^a] - 1 = sum over k >= 2 of C(a, k) E[(sum of X - 1)^k] / steps^k, all terms positive.
    """
    from scipy.special import gammaln

    power = _log_power(_log_centred(mu, top), steps)
    k = np.arange(top + 1)
    weight = power + gammaln(k + 1) - k * math.log(steps)
    size = gammaln(top + 1.0) + top * math.log(steps) + np.abs(power)
    weight += 4e-15 * (1 + np.where(np.isfinite(size), size, 0.0))
    found = np.full(top + 1, -math.inf)
    for a in range(2, top + 1):
        choose = gammaln(a + 1.0) - gammaln(k[2:a + 1] + 1.0) - gammaln(a - k[2:a + 1] + 1.0)
        found[a] = np.logaddexp.reduce(weight[2:a + 1] + choose) + _ROUNDING
    return found


def _log_centred(mu: float, top: int) -> Array:
    """log of E[(X - 1)^k] / k! for k = 0, ..., `top`; minus infinity for k = 1.

    With w = exp(mu^2), E[X g(X)] = E[g(w X)] gives the moments one from another, all terms
    positive: y_(k+1) = (w^k - 1) y_k + sum over j < k of C(k, j) w^j (w - 1)^(k - j) y_j.
    """
    from scipy.special import gammaln

    square = mu * mu
    rise = math.log(math.expm1(square)) if square < 30 else square + math.log1p(-math.exp(-square))
    y = np.full(top + 1, -math.inf)
    y[0] = 0.0
    for k in range(1, top):
        j = np.arange(k)
        terms = (gammaln(k + 1.0) - gammaln(j + 1.0) - gammaln(k - j + 1.0) + j * square
                 + (k - j) * rise + y[:k])
        grown = k * square
        own = (math.log(math.expm1(grown)) if grown < 30 else grown) + y[k]
        y[k + 1] = np.logaddexp(np.logaddexp.reduce(terms), own)
    return np.asarray(y - gammaln(np.arange(top + 1) + 1.0))


def _log_power(series: Array, steps: int) -> Array:
    """Coefficients, as logarithms, of the power `steps` of a power series with positive ones."""
    return by_doubling(series, steps, _log_product)


def _log_product(one: Array, other: Array) -> Array:
    size = len(one)
    padded = np.concatenate([np.full(size, -math.inf), other])
    places = size + np.arange(size)[:, None] - np.arange(size)
    return np.asarray(np.logaddexp.reduce(one + padded[places], axis=1))


def reverse_bound(steps: int, mu: float, order: float) -> float:
    """The Renyi divergence of the plain law from the mixture, rounded up.

    E[L^(1 - order)] = integral over u of u^(order - 1) f(u/steps)^(steps - 1) f(w u/steps)
    / Gamma(order), f(s) = E[exp(-s X)], w = exp(mu^2). With u = exp(v) the trapezoid rule is
    off by at most 2 cos(a)^(-order) / (exp(2 pi a/h) - 1), relatively, for every a < pi/2.
    """
    from scipy.special import gammaln

    strip = min(1.0, 6 / math.sqrt(order))
    each = -math.log(math.cos(strip))
    step = 2 * math.pi * strip / (each * order + _DIGITS)
    low = (float(gammaln(order + 1)) - _DIGITS) / order
    beta = order - 1
    further = np.geomspace(0.5, 40 / each, 60)
    least = (beta + further) * 0.5 * mu * mu * (1 + (beta + further) / steps)
    high = float(np.min((gammaln(order + further) - gammaln(order) + least + _DIGITS) / further))
    if not (high < 600 and (high - low) / step < 20_000):
        return math.inf
    v = low + step * np.arange(math.ceil((high - low) / step) + 1)
    laplace = (steps - 1) * _log_transform(np.exp(v) / steps, mu) + _log_transform(
        np.exp(v + mu * mu) / steps, mu)
    terms = order * v + laplace - gammaln(order)
    # Each logarithm is good to a few units of its size.
    terms += 1e-15 * (order * np.abs(v) + float(abs(gammaln(order))) + 8)
    total = float(np.logaddexp.reduce(terms)) + math.log(step) + _SLACK
    # The rule's own error, what lies below the first point and beyond the last one.
    total = float(np.logaddexp(total, math.log(4) - _DIGITS))
    return float(raise_bounds(np.array([max(1e-300, total) / beta]))[0])


def _log_transform(s: Array, mu: float) -> Array:
    """An upper bound on log E[exp(-s X)] for each s >= 0, shape (n,).

    E[1 - exp(-s X)] by the trapezoid rule, from below: off by at most s exp(-41).
    """
    strip = min(1 / mu, 6.0)
    step = 2 * math.pi * strip / (0.5 * strip * strip + _DIGITS)
    z = np.arange(-math.ceil(12 / step), math.ceil(12 / step) + 1) * step
    ratio = np.exp(mu * z - 0.5 * mu * mu)
    weight = step / math.sqrt(2 * math.pi) * np.exp(-0.5 * z * z)
    found = np.empty(len(s))
    with np.errstate(under="ignore", over="ignore"):
        for start in range(0, len(s), 256):
            found[start:start + 256] = -np.expm1(-s[start:start + 256, None] * ratio) @ weight
    least = found * (1 - 2e-13) - 4 * math.exp(-_DIGITS) * s
    return np.asarray(np.log1p(-np.clip(least, 0.0, 1 - 1e-14)) * (1 - 1e-15))


# --- Poisson samples that are cut off at a size: how often that may happen, and what it costs.
#
# Given the other records in the sample, fewer than the limit leave a Poisson sample; as many or
# more make a record that enters take the place of another (docs/proofs/truncated.md).


def full_probability(rate: float, most: int, out_of: int) -> float:
    """At least the chance that `most` or more of `out_of` - 1 records enter: Chernoff's bound,
    times how much of it the first number has, and how fast the chances of larger ones fall.

    Args:
        rate: with which each enters. most: the limit. out_of: records at most, this one among
            them.
    """
    rate = probability("rate", rate, one=True)
    limit, others = count("most", most), count("out_of", out_of) - 1
    if limit > others:
        return 0.0
    share = limit / others
    if share <= rate * (1 + 1e-12):
        return 1.0
    terms = [share * math.log(share / rate)]
    if share < 1:
        terms.append((1 - share) * (math.log1p(-share) - math.log1p(-rate)))
    lost = 1e-15 * sum(map(abs, terms)) + 1e-15 * share
    exponent = others * (sum(terms) - 4 * lost)
    if exponent <= 0:
        return 1.0
    part = _first_and_others(rate, limit, others)
    return max(math.exp(-min(exponent, 690.0)) * part * (1 + 1e-9), 1e-300)


def _first_and_others(rate: float, limit: int, others: int) -> float:
    """Pr(X >= limit) over exp(-others d), X binomial, at most; 1 where nothing better is known.

    By Stirling's formula with Robbins's bounds Pr(X = k) is at most sqrt(n/(2 pi k (n - k))) times
    Chernoff's bound, and beyond k every number is at most r times as likely as the one before.
    """
    if not limit < others:
        return 1.0
    falls = (others - limit) * rate / ((limit + 1) * (1 - rate)) * (1 + 1e-12)
    if not falls < 1:
        return 1.0
    first = math.sqrt(others / (2 * math.pi * limit)) / math.sqrt(others - limit)
    return min(1.0, first / (1 - falls) * (1 + 1e-9))


def truncated_gaussian_rdp(
    rate: float, noise_multiplier: float, full: float,
    orders: tuple[float, ...] = DEFAULT_ORDERS,
) -> RdpCurve:
    """Gaussian noise on a Poisson sample that is full with probability at most `full`.

    Args:
        rate: sampling rate, strictly between 0 and 1. noise_multiplier: of the sum over a sample.
        full: in [0, 1].

    Returns:
        Bounds in nats for both directions of add-or-remove-one.
    """
    noise = positive("noise_multiplier", noise_multiplier)
    share = probability("full", full, zero=True, one=True)
    usual = poisson_gaussian_rdp(rate, noise, orders)
    if share == 0:
        return usual
    dearer = poisson_gaussian_rdp(rate, noise / 2, orders)
    beta = np.array(usual.orders) - 1
    low, high = beta * usual.as_array(), beta * dearer.as_array()
    rises = (1 - share) * np.expm1(np.minimum(low, 30.0)) + share * np.expm1(
        np.minimum(high, 30.0))
    with np.errstate(divide="ignore"):
        large = np.logaddexp(np.log(1 - share) + low, math.log(share) + high)
    log_moment = np.where(high < 30, np.log1p(rises), large + 1e-14 * (1 + np.abs(large)))
    bounds = raise_bounds(np.maximum(log_moment / beta, usual.as_array()))
    return RdpCurve.from_array(usual.orders, np.minimum(bounds, dearer.as_array()))
