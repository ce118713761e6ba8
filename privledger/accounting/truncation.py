"""Poisson samples that are cut off at a size: how often that may happen, and what it costs.

Given the other records in the sample, fewer than the limit leave a Poisson sample; as many or
more make a record that enters take the place of another (docs/proofs/truncated.md).
"""

from __future__ import annotations

import math

import numpy as np

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve
from privledger.accounting.moments import raise_bounds
from privledger.accounting.subsample import poisson_gaussian_rdp
from privledger.rounding import count, positive, probability


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
