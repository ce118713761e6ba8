"""Several rows, or an exchanged row, on a Poisson sample of any child: one pair from its profile.
And neighbours of neighbours: one power function after another.

With U uniform on [0, 1] and g the power function of a child (without the row against with it), a
test of U mass s has at most g(s) with the row and at least 1 - g(1 - s). Mixed over how many of the
rows are in the sample, this gives the pairs of all three directions (docs/proofs/relations.md,
"Any child"). The upper half of [0, 1] is kept by the distance to 1, so that no tail is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from privledger.accounting.moments import Array
from privledger.accounting.pld.pairs import (
    UNIT,
    AtomPair,
    BoundedRangePair,
    LaplacePair,
    Pair,
)

_MESH = 2000  # tangents of a smooth profile
_MOST = 8000  # tangents of a chain of steps
_LOOSE = 4e-12  # relative error of sums of masses
_MASS = 1e3  # sums of masses are about 1: of more, rounding of tiny ones has taken over
_LEAST = 1e-300  # smaller Q masses lose their digits, and losses beyond 700 have no exponential


class Slopes(NamedTuple):
    """Of a power function, from above: losses that fall, with the Q mass that each holds.

    Attributes:
        loss, q: shape (n,), the masses add up to 1. infinite: P mass without Q mass.
    """

    loss: Array
    q: Array
    infinite: float


_ALL = Slopes(np.zeros(1), np.ones(1), 1.0)
"""Nothing is held: all P mass may be without Q mass."""


def slopes(loss: Array, p: Array, blur: float, infinite: float) -> Slopes:
    """Of a pair with these losses and P masses, which may be off by `blur` nats; Q masses that are
    missing have the least slope, and what has a Q mass too small to hold has none."""
    order = np.argsort(-loss, kind="stable")
    loss, p = loss[order] + blur, p[order]
    with np.errstate(over="ignore"):
        q = p * np.exp(-loss)
    kept = q >= _LEAST
    infinite += float(p[~kept].sum()) * (1 + _LOOSE)
    if not kept.any() or not float(q[kept].sum()) < _MASS or not infinite < 1:
        return _ALL
    loss, q = loss[kept], q[kept]
    total = float(q.sum()) * (1 + UNIT * len(q))
    if total < 1:
        q[-1] += 1 - total
    else:
        q, loss = q / total, loss + math.log(total) * (1 + 1e-12)
    return Slopes(loss + 8 * UNIT * (1 + np.abs(loss)), q, infinite)


def even(pair: Pair) -> Array | None:
    """Places for the tangents of a smooth profile; None for any other pair."""
    if isinstance(pair, LaplacePair | BoundedRangePair):
        return np.linspace(-pair.top, pair.top, _MESH)
    return None


def after(first: Slopes, second: Slopes) -> Slopes:
    """The power function of two steps: of `first`, and then of `second`
    (docs/proofs/relations.md, "Any other release").

    The P masses of the first step are the Q masses of the second. Both sums are widened, each of
    which makes a power function larger.
    """
    if first.infinite >= 1 or second.infinite >= 1:
        return _ALL
    starts = first.infinite + np.cumsum(first.q * np.exp(first.loss)) * (1 + _LOOSE)
    ends = np.cumsum(second.q) * (1 + _LOOSE)
    edges = np.unique(np.concatenate([[0.0, first.infinite], starts, ends, [1.0]]))
    edges = edges[edges <= 1.0]
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    rise = second.loss[np.minimum(np.searchsorted(ends, middle), len(second.loss) - 1)]
    p, seen = width * np.exp(rise), (middle > first.infinite) & (middle < starts[-1])
    place = np.searchsorted(starts, middle[seen])
    found = slopes(first.loss[place] + rise[seen], p[seen], 0.0,
                   second.infinite + float(p[middle <= first.infinite].sum()) * (1 + _LOOSE))
    return _fewer(found)


def _fewer(one: Slopes) -> Slopes:
    """At most `_MOST` tangents: what lies between two that stay is divided among them so that both
    masses stay, which is the polygon of these two."""
    while len(one.loss) > _MOST:
        inside = np.arange(1, len(one.loss) - 1, 2)
        high, loss, low = one.loss[inside - 1], one.loss[inside], one.loss[inside + 1]
        with np.errstate(invalid="ignore", divide="ignore"):  # share of the Q mass
            share = np.exp(loss - high) * (np.expm1(low - loss) / np.expm1(low - high))
        share = np.clip(np.where(high > low, share, 1.0) * (1 + 16 * UNIT), 0.0, 1.0)
        kept, q = np.ones(len(one.loss), dtype=np.bool_), one.q.copy()
        kept[inside] = False
        q[inside - 1] += share * one.q[inside]
        q[inside + 1] += (1 - share) * one.q[inside]
        one = Slopes((one.loss + 8 * UNIT * (1 + np.abs(one.loss)))[kept], q[kept], one.infinite)
    return one


def chained_pair(one: Slopes) -> AtomPair:
    """The pair with this power function."""
    with np.errstate(over="ignore"):
        p = one.q * np.exp(one.loss)
    if not float(p.sum()) < _MASS:
        one, p = _ALL, np.ones(1)
    kept = p > 1e-300
    return AtomPair(tuple(one.loss[kept].tolist()), tuple((p[kept] * (1 + _LOOSE)).tolist()),
                    one.infinite + float(p[~kept].sum()), 0.0, tight=False, raised=4 * _LOOSE)


class _Halves(NamedTuple):
    """Cells of [0, 1/2]: their width, and the loss at u and at 1 - u of each number of steps."""

    width: Array
    upper: list[Array]
    lower: list[Array]


def _halves(known: Sequence[Slopes]) -> _Halves:
    tops = [np.cumsum(one.q) * (1 + _LOOSE) for one in known]
    ends = [np.cumsum(one.q[::-1]) * (1 - _LOOSE) for one in known]
    edges = np.unique(np.concatenate([[0.0, 0.5], *tops, *ends]))
    edges = edges[edges <= 0.5]
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)

    def at(sums: Array, loss: Array) -> Array:
        place = np.searchsorted(sums, middle, side="left")
        return np.asarray(loss[np.minimum(place, len(loss) - 1)])

    return _Halves(width, [at(top, one.loss) for top, one in zip(tops, known, strict=True)],
                   [at(end, one.loss[::-1]) for end, one in zip(ends, known, strict=True)])


def _log_mean(weights: Sequence[float], losses: Sequence[Array]) -> Array:
    """log of the sum of weights times exp(losses), the first of which is 0; weights add up to 1."""
    if max(float(one.max()) for one in losses) < 300.0:
        return np.asarray(np.log1p(np.maximum(
            sum(w * np.expm1(one) for w, one in zip(weights, losses, strict=True)), -1 + UNIT)))
    with np.errstate(divide="ignore"):
        logs = [math.log(w) + one for w, one in zip(weights, losses, strict=True) if w > 0]
    return np.asarray(np.logaddexp.reduce(logs, axis=0))


def shifted_pair(
    kind: Literal["remove", "add", "replace"], weights: Sequence[float],
    known: Sequence[Slopes],
) -> AtomPair:
    """The pair of a direction.

    Args:
        weights: chances that none, one, ... of the rows are in the sample; they add up to 1.
        known: of one row, two rows, ...; one fewer than weights.
    """
    halves = _halves(known)
    none = np.zeros(len(halves.width))
    upper = _log_mean(weights, [none, *halves.upper])
    lower = _log_mean(weights, [none, *halves.lower])
    infinite = math.fsum(w * one.infinite for w, one in zip(weights[1:], known, strict=True))
    width = halves.width
    if kind == "replace":
        loss = np.concatenate([lower - upper, (upper - lower)[::-1]])
        p = np.concatenate([width * np.exp(lower), (width * np.exp(upper))[::-1]])
    elif kind == "remove":
        loss = np.concatenate([lower, upper[::-1]])
        p = np.concatenate([width * np.exp(lower), (width * np.exp(upper))[::-1]])
    else:
        loss = np.concatenate([-upper, -lower[::-1]])
        p = np.concatenate([width, width[::-1]])
    # Either density may be some units in its last place off, as the weights may.
    size = np.abs(upper) + np.abs(lower)
    loss += 8 * UNIT * np.concatenate([size, size[::-1]])
    kept = p > 1e-300
    beyond = float(p[~kept].sum()) + (infinite if kind != "add" else 0.0)
    return AtomPair(tuple(loss[kept].tolist()), tuple((p[kept] * (1 + _LOOSE)).tolist()), beyond,
                    infinite if kind != "remove" else 0.0, tight=False, raised=4 * _LOOSE)
