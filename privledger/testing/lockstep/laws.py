"""Exact losses of one draw on two tables, from what a lock keeps of it.

Every number here is a supremum over all outcomes, rounded down: a loss that is shown is there,
up to `TOLERANCE` of the price it is compared with. docs/proofs/lockstep.md, premise P3.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.testing.lockstep.flips import log_flips
from privledger.testing.lockstep.kept import Chosen, ChosenSet, Floats, Ints, Responses
from privledger.testing.lockstep.subsets import MOST_PAIRS, set_log_laws, sets_met

Whole: TypeAlias = NDArray[np.int64] | NDArray[np.object_]

TOLERANCE = 1e-9
"""Of a ratio of loss to price; floats are right to far less (tests: mpmath)."""

_ROUNDING = 2.0**-50  # of an exponent: a difference, a product, a sum
_QUADRATURE = 1e-11  # of a log-probability of permute-and-flip


@frozen(eq=False)
class Loss:
    """What one draw says about which table it saw, shape (segments,) each, nats.

    Attributes:
        up: sup over outcomes of log p_A / p_B. down: of log p_B / p_A.
        width: up + down, the range of the log ratio.
        aligned: whether both draws have the same outcomes at all; if not, the loss is infinite.
        why: what is not aligned, in a few words; or that not all outcomes were compared.
    """

    up: Floats
    down: Floats
    width: Floats
    aligned: bool = True
    why: str = ""

    @property
    def pure(self) -> float:
        """Of the whole release, either way: segments are drawn independently."""
        return max(float(self.up.sum()), float(self.down.sum()))

    @property
    def range(self) -> float:
        """Range of the log ratio of the whole release."""
        return float(self.width.sum())


@frozen
class Shift:
    """How far two answers lie apart, in units of their own noise.

    Attributes:
        l1: sum of |difference| / scale, what Laplace noise pays in nats.
        l2: root of the sum of squares, what Gaussian noise pays as mu.
    """

    l1: float
    l2: float


def ratio(loss: float, price: float) -> float:
    """Loss over price, with the tolerance on the side of the price. Infinite if NaN."""
    if not (loss >= 0 and price > 0):
        return 0.0 if loss == 0 else math.inf
    return loss / (price * (1 + TOLERANCE))


def selection_loss(a: Chosen, b: Chosen) -> Loss:
    """One candidate of every segment, on two tables.

    Candidates of the exponential mechanism are runs of equal outcomes in a public order: an
    outcome is a unit of weight at its place in the segment. Runs may differ, their total not.
    Permute-and-flip has one outcome per candidate.
    """
    why = _not_aligned(a, b)
    if why:
        return _apart(why, max(len(a.starts), len(b.starts)) - 1)
    if a.law == "exponential":
        return _exponential_loss(a, b)
    up, down = np.zeros(len(a.starts) - 1), np.zeros(len(a.starts) - 1)
    for s in range(len(up)):
        own = slice(int(a.starts[s]), int(a.starts[s + 1]))
        one, other = (_exponents(draw.scores[own], draw.rate) for draw in (a, b))
        if np.array_equal(one, other):
            continue
        ratio_ = log_flips(one, np.zeros(len(one))) - log_flips(other, np.zeros(len(other)))
        slack = _QUADRATURE - _ROUNDING * (one + other)
        up[s], down[s] = np.max(ratio_ - slack), np.max(-ratio_ - slack)
    return _loss(up, down)


def set_loss(a: ChosenSet, b: ChosenSet) -> Loss:
    """A set of k of d candidates, on two tables; over all sets that the tables tell apart."""
    same = (len(a.scores) == len(b.scores), a.k == b.k, a.rate == b.rate, a.noise == b.noise,
            a.gamma == b.gamma)
    if not all(same):
        return _apart("the sets are not drawn alike", 1)
    if not (np.isfinite(a.scores).all() and np.isfinite(b.scores).all()):
        return _apart("a score is not a number", 1)
    p, q = set_log_laws(a), set_log_laws(b)
    gap, far, whole = sets_met(p, q, a.k)
    slack = _QUADRATURE + _ROUNDING * far
    why = "" if whole else f"some sets only: more than {MOST_PAIRS} kinds"
    return _loss(np.array([np.max(gap - slack)]), np.array([np.max(-gap - slack)]), why)


def response_loss(draw: Responses) -> float:
    """Log ratio of one answer when its code changes: log (1 - p + p/m) / (p/m)."""
    p, m = draw.noise_parameter, draw.buckets
    if not (0 <= p <= 1 and m >= 1):
        return math.inf
    if p == 0:
        return math.inf
    return max(0.0, math.log1p(m * (1 - p) / p) * (1 - 2.0**-50))


def additive_shift(a: object, b: object, scale: object, grid: object = 1.0) -> Shift:
    """Distance of two un-noised answers.

    Args:
        a, b: answers before noise, of one shape. scale: sigma or b of each number, in grid
            steps. grid: length of a step, in units of the answers; a number or one for each.

    Returns:
        Both norms; infinite if shapes differ, or anything is not a number.
    """
    one, other = (np.asarray(side, dtype=np.float64).ravel() for side in (a, b))
    if one.shape != other.shape:
        return Shift(math.inf, math.inf)
    with np.errstate(all="ignore"):
        unit = np.atleast_1d(np.asarray(scale, dtype=np.float64)
                             * np.asarray(grid, dtype=np.float64))
        shift = np.abs(one - other) / unit.ravel()
    shift[one == other] = 0.0
    if not np.isfinite(shift).all():
        return Shift(math.inf, math.inf)
    return Shift(math.fsum(shift), math.sqrt(math.fsum(shift * shift)))


def _apart(why: str, segments: int) -> Loss:
    endless = np.full(segments, math.inf)
    return Loss(endless, endless, endless, False, why)


def _loss(up: Floats, down: Floats, why: str = "") -> Loss:
    # A sup of log ratios of two laws is never negative: only rounding down made it so.
    up, down = np.maximum(up, 0.0), np.maximum(down, 0.0)
    return Loss(up, down, up + down, True, why)


def _not_aligned(a: Chosen, b: Chosen) -> str:
    if a.law != b.law or a.rate != b.rate:
        return "the segments are not drawn alike"
    if len(a.starts) != len(b.starts):
        return "the number of segments differs"
    for draw in (a, b):
        if not np.isfinite(draw.scores).all():
            return "a score is not a number"
        if len(draw.scores) != draw.starts[-1] or not (np.diff(draw.starts) > 0).all():
            return "a segment has no candidate"
    if a.law == "permute_and_flip":
        return "" if np.array_equal(a.starts, b.starts) else "the number of candidates differs"
    one, other = (np.add.reduceat(_whole(draw.weights), draw.starts[:-1]) for draw in (a, b))
    return "" if np.array_equal(one, other) else "the total weight of a segment differs"


def _whole(weights: Ints) -> Whole:
    """Weights whose sums are exact: beyond 64 bits as Python's own numbers."""
    if float(weights.astype(np.float64).sum()) < 2.0**62:
        return weights.astype(np.int64)
    return weights.astype(object)


def _exponents(scores: Floats, rate: float) -> Floats:
    """rate * (score - best), at most zero."""
    with np.errstate(over="ignore"):
        found: Floats = np.maximum((scores - scores.max()) * rate, -1e300)
    return found


def _exponential_loss(a: Chosen, b: Chosen) -> Loss:
    sides = [_densities(draw) for draw in (a, b)]
    ends = np.unique(np.concatenate([sides[0][0], sides[1][0]]))
    (log_p, far_p), (log_q, far_q) = (
        (side[1][np.searchsorted(side[0], ends)], side[2][np.searchsorted(side[0], ends)])
        for side in sides)
    gap, slack = log_p - log_q, far_p + far_q
    # Segments end at the same cumulative weights in both.
    borders = np.searchsorted(ends, sides[0][0][a.starts[1:] - 1])
    begins = np.concatenate([[0], borders[:-1] + 1])
    return _loss(np.maximum.reduceat(gap - slack, begins),
                 np.maximum.reduceat(-gap - slack, begins))


def _densities(draw: Chosen) -> tuple[Whole, Floats, Floats]:
    """Cumulative weight, log-probability of a unit of weight, and its error, per candidate."""
    begins, sizes = draw.starts[:-1], np.diff(draw.starts)
    best = np.repeat(np.maximum.reduceat(draw.scores, begins), sizes)
    with np.errstate(over="ignore"):
        far = np.maximum((draw.scores - best) * draw.rate, -1e300)
    mass = np.exp(far) * draw.weights.astype(np.float64)
    total = np.log(np.add.reduceat(mass, begins))
    error = np.repeat(_ROUNDING * (sizes + np.abs(total) + 4.0), sizes) - _ROUNDING * far
    ends: Whole = np.add.accumulate(_whole(draw.weights))
    return ends, far - np.repeat(total, sizes), error
