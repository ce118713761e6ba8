"""Renyi bounds of Laplace noise on a Poisson sample, for many sizes of the shift at once.

With e the shift in units of the scale, x in [0, e] and z = exp(2x - e), both directions are means
of convex functions of z under Q (docs/proofs/subsampling.md, "Sampled Laplace"):

    E (1 - q + q z)^order    and    E (1 - q + q z)^(1 - order),

where Q has the mass 1/2 at x = 0, the density exp(-x)/2 between, and exp(-e)/2 at x = e. Every
band of width d is replaced by its two ends so that its mass and the mean of z stay, which raises
a convex mean: exp(-x) tanh(d/2) at each point inside, half of that more at the ends.
"""

from __future__ import annotations

import numpy as np

from privledger.accounting.moments import Array, log_gain, log_mix, raise_bounds

_BANDS = 32
_MARGIN = 1e-10  # of a moment less 1: roundings of a loss count as often as the order says
_ROWS = 4096


def sampled_laplace_bounds(rate: float, shift: Array, order: Array) -> Array:
    """Upper bounds in nats for both directions, shape (len(shift), len(order)).

    No input is checked.

    Args:
        rate: of the sample, strictly between 0 and 1, at least 1e-100.
        shift: total L1 shift over scale, each above 0 and at most 600.
        order: each above 1.
    """
    parts = [_bounds(rate, shift[start:start + _ROWS], order)
             for start in range(0, len(shift), _ROWS)]
    return np.concatenate(parts) if parts else np.zeros((0, len(order)))


def _bounds(rate: float, shift: Array, order: Array) -> Array:
    place = shift[:, None] * (np.arange(_BANDS + 1) / _BANDS)
    with np.errstate(divide="ignore"):
        log_q = np.log(np.tanh(shift / (2 * _BANDS)))[:, None] - place
    ends = log_q[:, [0, -1]]
    log_q[:, [0, -1]] = np.log(0.5) + np.logaddexp(ends, -place[:, [0, -1]])
    loss = log_mix(2 * place - shift[:, None], rate)
    held = loss != 0
    loss = np.where(held, loss, 1.0)
    log_q = np.where(held, log_q, -np.inf)
    found = np.empty((len(shift), len(order)))
    for column, one in enumerate(order.tolist()):
        beta = np.array(one - 1)
        removed = np.logaddexp.reduce(log_q + loss + log_gain(loss, beta), axis=1)
        added = np.logaddexp.reduce(log_q + _log_turned(loss, one - 1), axis=1)
        log_moment = np.maximum(removed, added) + _MARGIN
        found[:, column] = np.logaddexp(0.0, log_moment) / (one - 1)
    return np.asarray(raise_bounds(found))


def _log_turned(loss: Array, beta: float) -> Array:
    """Log of (z^-beta - 1 + beta (z - 1)) for z = exp(loss); never below it."""
    steep = -beta * loss
    large = (steep > 600.0) | (loss > 600.0)
    known = log_gain(np.where(large, 1.0, -loss), np.array(beta))
    far = np.logaddexp(steep, np.log(beta) + loss)
    return np.where(large, far, known)
