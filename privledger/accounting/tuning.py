"""The best of a random number of runs: private selection and hyper-parameter search.

Theorems and preconditions: docs/proofs/tuning.md; Papernot, Steinke 2022 (arXiv:2110.03620v2),
Theorems 2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privledger.accounting.curve import RdpCurve
from privledger.accounting.moments import Array, raise_bounds
from privledger.rounding import up


def negative_binomial_mean(shape: float, success: float) -> float:
    """Mean number of trials, truncated at one; shape 0 is the logarithmic distribution."""
    if shape == 0:
        return up((1 / success - 1) / math.log(1 / success) * (1 + 1e-14))
    if shape == 1:
        return up(1 / success)
    log_success = math.log(success)
    # (1 - success) shape / (success (1 - success^shape)), without cancellation for small shape.
    falling = -math.expm1(shape * log_success)
    return up(shape * -math.expm1(log_success) / (success * falling) * (1 + 1e-14))


def negative_binomial_rdp(one: RdpCurve, shape: float, success: float) -> RdpCurve:
    """rho + log(mean) / (order - 1) + (1 + shape) min over h >= 1 of
    (1 - 1/h) rho(h) + log(1/success) / h.

    Args:
        one: curve of a single trial, for both directions.
        shape: above -1. success: in (0, 1).
    """
    order, bound = np.array(one.orders), one.as_array()
    cost = math.log(1 / success)
    with np.errstate(invalid="ignore"):
        choices = (1 - 1 / order) * bound + cost / order
    choices = np.where(np.isfinite(bound), choices, np.inf)
    extra = (1 + shape) * min(cost, float(np.min(choices)))
    spread = math.log(negative_binomial_mean(shape, success)) / (order - 1)
    return _monotone(one, bound + spread + extra)


def poisson_rdp(one: RdpCurve, mean: float, delta_at: Callable[[float], float]) -> RdpCurve:
    """rho + max(0, mean delta + log(mean) / (order - 1)), delta of one trial at log(o / (o - 1)).

    Args:
        delta_at: epsilon -> delta of a single trial.
    """
    order, bound = np.array(one.orders), one.as_array()
    deltas = np.array([delta_at(math.log1p(1 / (o - 1))) for o in one.orders])
    extra = np.maximum(0.0, mean * deltas + math.log(mean) / (order - 1))
    return _monotone(one, bound + extra)


def _monotone(one: RdpCurve, bounds: Array) -> RdpCurve:
    """A bound at a higher order holds at a lower one."""
    best = np.minimum.accumulate(bounds[::-1])[::-1]
    return RdpCurve.from_array(one.orders, raise_bounds(best))


def negative_binomial_pure(epsilon: float, shape: float) -> float:
    """(2 + shape) epsilon, rounded up: the pure cost of that many trials."""
    return up((2 + shape) * epsilon * (1 + 1e-15))


def poisson_pure(epsilon: float, mean: float) -> float:
    """epsilon + mean tanh(epsilon / 2), rounded up: the pure cost of that many trials."""
    return up((epsilon + mean * math.tanh(epsilon / 2)) * (1 + 1e-14))
