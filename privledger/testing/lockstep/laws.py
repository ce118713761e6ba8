"""Exact losses of one draw on two tables, from what a lock keeps of it.

Every number here is a supremum over all outcomes, rounded down: a loss that is shown is there,
up to `TOLERANCE` of the price it is compared with. docs/proofs/lockstep.md, premise P3.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.testing.lockstep.kept import Chosen, ChosenSet, Floats, Ints, Responses

# The exact law of permute-and-flip, over candidates or over classes of equal candidates.
#
# A candidate arrives at a uniform time t and is taken unless it fails its own coin a_i =
# exp(score - best) or an earlier one was taken: p_i = a_i integral over t of the product over
# the others of (1 - a_j t). Gauss and Legendre's rule on panels that double in length: 32 nodes
# each integrate a product of 64 factors exactly, and longer ones to 1e-12 (tests: mpmath).

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


# The exact law of the canonical Lipschitz mechanism, and the sets on which two laws meet.
#
# On one table a set's probability depends on its first missing number h + 1 and its worst number
# t alone (docs/proofs/top-k.md). On two tables orders differ: a set has a class in each, and
# which two classes meet in some set follows from who must be inside and who outside.

MOST_PAIRS = 1 << 24
_SET_CELLS = 1 << 20


@frozen(eq=False)
class SetLaw:
    """Law of the drawn set on one table.

    Attributes:
        scores: of every candidate, shape (d,).
        log_p: log-probability of a single set whose first missing number is h + 1 and whose
            worst is t, at [h, t]; -inf where there is none. Shape (k + 1, d + 1).
        far: how far each lies below the best, in nats, same shape.
    """

    scores: Floats
    log_p: Floats
    far: Floats


def set_log_laws(draw: ChosenSet) -> SetLaw:
    """All classes of one draw. See `SetLaw`."""
    d, k = len(draw.scores), draw.k
    ranked = np.sort(draw.scores)[::-1]
    inside = (ranked[:k] - ranked[k - 1]) * (draw.rate * (1 - draw.gamma))
    outside = (ranked[k - 1] - ranked[k:]) * (draw.rate * draw.gamma)
    first = float(ranked[k - 1] - ranked[k]) * (draw.rate * (1 - draw.gamma))
    h, t = (axis.ravel() for axis in np.meshgrid(np.arange(k), np.arange(k + 1, d + 1),
                                                 indexing="ij"))
    utility = np.append(-inside[h] - outside[t - k - 1], first)
    sizes = np.append(_log_choose(t - h - 2, k - h - 1), 0.0)
    exponents = utility - utility.max()
    if draw.noise == "gumbel":
        logs = exponents - np.logaddexp.reduce(exponents + sizes)
    else:
        logs = log_flips(exponents, sizes)
    log_p, far = np.full((k + 1, d + 1), -np.inf), np.zeros((k + 1, d + 1))
    h, t = np.append(h, k), np.append(t, k)
    log_p[h, t], far[h, t] = logs, -exponents
    return SetLaw(draw.scores, log_p, far)


def _log_choose(n: Ints, k: Ints) -> Floats:
    from scipy.special import gammaln

    found: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return found


def sets_met(p: SetLaw, q: SetLaw, k: int) -> tuple[Floats, Floats, bool]:
    """Every value that log p(Y)/q(Y) takes on a set Y of k candidates.

    Returns:
        The values and how far the sets lie below both best, shape (kinds,); and whether all
        kinds of sets were looked at.
    """
    rank_p = np.argsort(np.lexsort((-q.scores, -p.scores)))
    rank_q = np.argsort(np.lexsort((rank_p, -q.scores)))  # as few swaps as scores allow
    d = len(rank_p)
    missing, must = _ends(rank_p, rank_q, k)
    worst, banned = _ends(d - 1 - rank_p, d - 1 - rank_q, d - k)
    whole = len(missing) * len(worst) <= MOST_PAIRS
    if not whole:
        kept = np.linspace(0, len(missing) - 1, max(1, MOST_PAIRS // len(worst))).astype(int)
        missing, must = missing[kept], must[kept]
    values, depths = [np.zeros(0)], [np.zeros(0)]
    step = max(1, _SET_CELLS // len(worst))
    for at in range(0, len(missing), step):
        part = slice(at, at + step)
        o, i = np.nonzero(_feasible(missing[part], must[part], worst, banned, k))
        out, last = missing[part][o], worst[i]
        own = rank_p[out[:, 0]], rank_p[last[:, 0]] + 1
        other = rank_q[out[:, 1]], rank_q[last[:, 1]] + 1
        values.append(p.log_p[own] - q.log_p[other])
        depths.append(p.far[own] + q.far[other])
    return np.concatenate(values), np.concatenate(depths), whole


def _ends(rank_p: Ints, rank_q: Ints, most: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Pairs (first missing in p's order, first missing in q's), shape (pairs, 2), and who must
    then be inside, shape (pairs, d). Turned round: the worst that are inside."""
    x, y = np.nonzero((rank_p[None, :] >= rank_p[:, None]) & (rank_q[:, None] >= rank_q[None, :])
                      & (rank_p[:, None] <= most) & (rank_q[None, :] <= most))
    must = (rank_p[None, :] < rank_p[x, None]) | (rank_q[None, :] < rank_q[y, None])
    kept = must.sum(axis=1) <= most
    return np.stack([x[kept], y[kept]], axis=1), must[kept]


def _feasible(missing: Ints, must: NDArray[np.bool_], worst: Ints, banned: NDArray[np.bool_],
              k: int) -> NDArray[np.bool_]:
    """Which pairs of first missing and pairs of worst belong to a set of k candidates."""
    d = must.shape[1]
    clash = must.astype(np.float32) @ banned.astype(np.float32).T > 0
    for one in range(2):
        for other in range(2):
            clash |= missing[:, one, None] == worst[None, :, other]
    inside = _with(must, worst)
    outside = _with(banned, missing).T
    found: NDArray[np.bool_] = ~clash & (inside <= k) & (outside <= d - k)
    return found


def _with(held: NDArray[np.bool_], more: Ints) -> Ints:
    """How many candidates are in each set of `held` together with each pair of `more`."""
    count = held.sum(axis=1)[:, None] + ~held[:, more[:, 0]]
    found: Ints = count + (~held[:, more[:, 1]] & (more[:, 0] != more[:, 1])[None, :])
    return found


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


def response_law(draw: Responses) -> float:
    """Log ratio of one answer when its code changes: log (1 - p + p/m) / (p/m)."""
    p, m = draw.noise_parameter, draw.buckets
    if not (0 <= p <= 1 and m >= 1):
        return math.inf
    if p == 0:
        return math.inf
    return max(0.0, math.log1p(m * (1 - p) / p) * (1 - 2.0**-50))


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
