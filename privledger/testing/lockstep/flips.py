"""The exact law of permute-and-flip, over candidates or over classes of equal candidates.

A candidate arrives at a uniform time t and is taken unless it fails its own coin a_i =
exp(score - best) or an earlier one was taken: p_i = a_i integral over t of the product over
the others of (1 - a_j t). Gauss and Legendre's rule on panels that double in length: 32 nodes
each integrate a product of 64 factors exactly, and longer ones to 1e-12 (tests: mpmath).
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np

from privledger.testing.lockstep.kept import Floats

_NODES = 32
_FAR = 800.0  # what is left of the product where the expected number of heads is this large
_CELLS = 1 << 21


def log_flips(exponents: Floats, log_sizes: Floats) -> Floats:
    """Log-probability of one member of every class, shape (classes,).

    Args:
        exponents: rate * (score - best) of each class, at most zero, the largest zero.
        log_sizes: logs of how many members each class has, at most 690 together.
    """
    heads = float(np.logaddexp.reduce(exponents + log_sizes))
    times, log_weights = _panels(max(0, math.ceil(heads / math.log(2))), heads)
    left = np.zeros(len(times))
    for part in _parts(len(exponents), len(times)):
        fails = _log_fails(exponents[part], times)
        left -= np.exp(log_sizes[part, None] + fails).sum(axis=0)
    found = np.empty(len(exponents))
    for part in _parts(len(exponents), len(times)):
        fails = np.exp(_log_fails(exponents[part], times))
        found[part] = _log_sum(left + fails + log_weights)
    result: Floats = found + exponents
    return result


def _log_sum(logs: Floats) -> Floats:
    """log of the sum of exp along the last axis."""
    most = logs.max(axis=1)
    found: Floats = most + np.log(np.exp(logs - most[:, None]).sum(axis=1))
    return found


def _parts(classes: int, nodes: int) -> list[slice]:
    step = max(1, _CELLS // nodes)
    return [slice(first, first + step) for first in range(0, classes, step)]


def _log_fails(exponents: Floats, times: Floats) -> Floats:
    """log(-log(1 - a t)), shape (classes, nodes); also where a t is below the floats."""
    log_heads = exponents[:, None] + np.log(times)
    small = log_heads < -40.0  # -log(1 - x) is x there, to the last bit
    with np.errstate(under="ignore"):
        exact = np.log(-np.log1p(-np.exp(np.where(small, -1.0, log_heads))))
    result: Floats = np.where(small, log_heads, exact)
    return result


@cache
def _panel() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _panels(halvings: int, heads: float) -> tuple[Floats, Floats]:
    """Times from 0 to 1 and the logs of their weights."""
    ends = [0.0, *(2.0**-power for power in range(halvings + 1, -1, -1))]
    nodes, weights = _panel()
    kept = [(low, high) for low, high in pairwise(ends)
            if low == 0 or math.log(low) + heads <= math.log(_FAR)]
    times = np.concatenate([low + (high - low) * nodes for low, high in kept])
    return times, np.log(np.concatenate([(high - low) * weights for low, high in kept]))
