"""The exact law of the canonical Lipschitz mechanism, and the sets on which two laws meet.

On one table a set's probability depends on its first missing number h + 1 and its worst number
t alone (docs/proofs/top-k.md). On two tables orders differ: a set has a class in each, and
which two classes meet in some set follows from who must be inside and who outside.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.testing.lockstep.flips import log_flips
from privledger.testing.lockstep.kept import ChosenSet, Floats, Ints

MOST_PAIRS = 1 << 24
_CELLS = 1 << 20


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
    step = max(1, _CELLS // len(worst))
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
