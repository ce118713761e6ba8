"""Renyi divergences of mechanisms that run on a random sample."""

from __future__ import annotations

import math

from .leaves import Curve
from .reading import NoPrice

DIGITS = 60.0
MOST_POINTS = 200_000
MOST_MOMENTS = 96


def excess(loss: float, order: float) -> float:
    """log of (1 + u)^order - 1 - order u, for loss = log(1 + u); minus infinity for 0."""
    high = order * loss
    if abs(loss) * order < 0.05:
        value = sum((order**k - order) * loss**k / math.factorial(k) for k in range(2, 14))
    elif high > 40:
        share = order * math.expm1(loss) if loss < 700 else math.inf
        return high + (math.log1p(-(1 + share) * math.exp(-high)) if share < math.inf else 0.0)
    else:
        value = math.expm1(high) - order * math.expm1(loss)
    return math.log(value) if value > 0 else -math.inf


def sampled_gaussian(rate: float, noise: float, order: float) -> float:
    """The trapezoid rule on the whole line, whose error falls with exp(-2 pi a / step).

    Mironov, Talwar, Zhang 2019 (arXiv:1908.10530) for the pair of distributions.
    """
    if not 0.02 <= noise <= 1e6 or not rate > 1e-12:
        raise NoPrice("a sample of a Gaussian with so much or so little noise")
    free = math.sqrt(2 * DIGITS)
    height = free if order == int(order) else min(free, 0.99 * math.pi * noise)
    step = 2 * math.pi * height / (DIGITS + height * height / 2)
    low, high = -free - 1, max(order, 2.0) / noise + free + 1
    if (high - low) / step > MOST_POINTS:
        raise NoPrice("a sample of a Gaussian at so high an order")
    logs = []
    for place in range(math.floor(low / step), math.ceil(high / step) + 1):
        x = place * step
        w = x / noise - 0.5 / noise**2
        loss = math.log1p(rate * math.expm1(w)) if w < 500 else w + math.log(rate)
        logs.append(excess(loss, order) - x * x / 2)
    top = max(logs)
    log_moment = top + math.log(math.fsum(math.exp(value - top) for value in logs)) + math.log(
        step) - math.log(math.sqrt(2 * math.pi))
    whole = math.log1p(math.exp(log_moment)) if log_moment < 40 else log_moment
    return whole / (order - 1)


def sampled_moments(rate: float, curve: Curve, order: float) -> float:
    """From the Renyi divergences of what runs, at whole orders; else the one below counts.

    The moment of (1 - q) Q + q P is a binomial sum of the moments of P against Q.
    """
    top = math.floor(order)
    if top < 2:
        return 0.0
    if top > 4096:
        raise NoPrice("a sample at so high an order")
    logs = []
    for k in range(2, top + 1):
        moment = (k - 1) * curve(float(k))
        if moment == math.inf:
            return math.inf
        choose = math.lgamma(top + 1) - math.lgamma(k + 1) - math.lgamma(top - k + 1)
        weight = choose + k * math.log(rate) + (top - k) * math.log1p(-rate)
        if moment > 0:
            logs.append(weight + (moment if moment > 40 else math.log(math.expm1(moment))))
    if not logs:
        return 0.0
    largest = max(logs)
    total = largest + math.log(math.fsum(math.exp(value - largest) for value in logs))
    return (math.log1p(math.exp(total)) if total < 40 else total) / (top - 1)


def allocated_gaussian(steps: int, squared: float, order: float) -> float:
    """A record in one of several Gaussian rounds: from the mixture to the plain law, at the whole
    order below. order! / steps^order times a coefficient of a power of the series of the moments
    exp(mu^2 k (k - 1)/2)/k!; all terms are positive.
    """
    top = min(math.floor(order), MOST_MOMENTS)
    if top < 2:
        return 0.0
    whole = steps
    series = [squared * k * (k - 1) / 2 - math.lgamma(k + 1) for k in range(top + 1)]
    found: list[float] | None = None
    while steps:
        if steps & 1:
            found = series if found is None else product_of(found, series)
        steps >>= 1
        series = product_of(series, series) if steps else series
    log_moment = (found or series)[top] + math.lgamma(top + 1) - top * math.log(whole)
    return max(0.0, log_moment) / (top - 1)


def product_of(one: list[float], other: list[float]) -> list[float]:
    """Coefficients of the product of two power series, all as logarithms."""
    found = []
    for n in range(len(one)):
        terms = [one[k] + other[n - k] for k in range(n + 1)]
        largest = max(terms)
        found.append(largest + math.log(math.fsum(math.exp(term - largest) for term in terms)))
    return found


def full_chance(rate: float, most: int, out_of: int) -> float:
    """A bound on the chance that as many of the other records are in a sample: Chernoff's, times
    what Stirling's formula leaves of it, over one less how fast the chances fall."""
    others = out_of - 1
    if most > others:
        return 0.0
    share = most / others
    if share <= rate:
        return 1.0
    distance = share * math.log(share / rate)
    if share < 1:
        distance += (1 - share) * math.log((1 - share) / (1 - rate))
    part, falls = 1.0, (others - most) * rate / ((most + 1) * (1 - rate))
    if most < others and falls < 1:
        part = min(1.0, math.sqrt(others / (2 * math.pi * most * (others - most))) / (1 - falls))
    return max(math.exp(-min(690.0, others * max(0.0, distance))) * part, 1e-300)
