"""Tables of Renyi bounds over a record's share, never below the exact bound.

A table is built once per mechanism and looked up for every record. Two kinds:

- *chords*, for bounds that are convex in the share or in its square and zero at zero: a chord
  between two upper bounds lies above. The same convexity bounds from below what a chord may
  add: the function lies above its neighbouring chords, extended. Points are added until that
  is at most `EXCESS` of the bound.
- *steps*, for bounds that only grow with the share: the bound at the next larger point.

Proofs: docs/proofs/subsampling.md, section "Per record".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array

EXCESS = 0.0099
"""Largest part by which a looked-up bound may be above the exact one."""

NEGLIGIBLE = 1e-12
"""The promise on the excess ends where a bound is below this part of the full share's."""

_ROUND = 1.0 + 2.0**-49  # covers eight roundings
_TINY = 2 * float(np.finfo(np.float64).tiny)  # "above zero", also after a few roundings
_CHUNK = 1 << 17  # numbers at a time: this part of the result stays in the cache
_DEEPEST = 64
_PASSES = 16
_MOST = 1 << 15
_BEYOND = 1.25  # a point right of 1 supports the last chord from below

Indices = NDArray[np.int64]
Evaluate = Callable[[Array, Indices], Array]
"""(points, numbers of orders), both of shape (m,) -> upper bounds in nats, shape (m,)."""


@frozen(eq=False)
class Table:
    """Pieces (points[j], points[j + 1]] of bounds start[j] + slope[j] * (x - points[j]).

    Attributes:
        points: rising from 0 to 1, shape (pieces + 1,).
        start: nats, shape (pieces, orders).
        slope: the same shape, or None where the bound is constant on each piece.
        full: bounds for the full share, shape (orders,); no bound is above them.
        squared: whether x is the square of the share or the share itself.
    """

    points: Array
    start: Array
    slope: Array | None
    full: Array
    squared: bool

    def look_up(self, shares: Array) -> Array:
        """Bounds in nats, shape (len(shares), orders); `shares` must have been checked.

        x is moved up before the look-up, and the table holds room for what follows.
        """
        result = np.empty((len(shares), len(self.full)))
        left, inner = self.points[:-1], self.points[1:-1]
        many = _CHUNK // len(self.full) + 1
        spare = np.empty((min(many, len(shares)), len(self.full)))
        with np.errstate(all="ignore"):
            for begin in range(0, len(shares), many):
                part, rows = shares[begin : begin + many], result[begin : begin + many]
                x = square_up(part) if self.squared else part
                piece = np.searchsorted(inner, x)
                np.take(self.start, piece, axis=0, out=rows, mode="clip")
                if self.slope is not None:
                    rise = spare[: len(part)]
                    np.take(self.slope, piece, axis=0, out=rise, mode="clip")
                    rise *= (x - left[piece])[:, None]
                    rows += rise
                finish(rows, part, self.full)
        return result


def square_up(shares: Array) -> Array:
    """Squares, rounded up and never subnormal."""
    return np.asarray(np.maximum(shares * shares * _ROUND, _TINY))


def finish(rows: Array, shares: Array, full: Array) -> None:
    """In place: at most the full share's bound, above zero, and zero for a share of zero."""
    np.clip(rows, _TINY, full, out=rows)
    rows[shares == 0] = 0.0


def multiples(shares: Array, unit: float, row: Array, full: Array) -> Array:
    """(share / unit)^2 * row, rounded up: shape (len(shares), len(row))."""
    result = np.empty((len(shares), len(row)))
    raised, many = row * _ROUND, _CHUNK // len(row) + 1
    with np.errstate(all="ignore"):
        for begin in range(0, len(shares), many):
            part, rows = shares[begin : begin + many], result[begin : begin + many]
            np.multiply(square_up(part / unit)[:, None], raised, out=rows)
            finish(rows, part, full)
    return result


def chord_table(evaluate: Evaluate, least_slope: Array, full: Array, squared: bool) -> Table:
    """A table of chords for bounds that are convex in x and 0 at 0.

    Args:
        evaluate: upper bounds at points in (0, 1.25], close to the exact ones.
        least_slope: a lower bound on the slope at 0 per order; 0 where none is known, and then
            the excess is promised down to `NEGLIGIBLE` only.
        full: bounds at 1, shape (orders,).
    """
    points, values = _ladder(evaluate, least_slope)
    for _ in range(_PASSES):
        excess = _excess(points, values)
        if len(points) > _MOST or not (excess > EXCESS).any():
            break
        points, values = _split(evaluate, points, values, excess)
    points, values = points[:-1], np.maximum.accumulate(values[:-1], axis=0)
    with np.errstate(all="ignore"):
        slope = np.diff(values, axis=0) / np.diff(points)[:, None]
    slope[~np.isfinite(values[:-1])] = 0.0
    return _frozen(points, values[:-1] * _ROUND, slope * _ROUND, full, squared)


def _frozen(points: Array, start: Array, slope: Array | None, full: Array, squared: bool) -> Table:
    for array in (points, start) if slope is None else (points, start, slope):
        array.setflags(write=False)
    return Table(points, start, slope, full, squared)


def _everywhere(evaluate: Evaluate, points: Array, orders: int) -> Array:
    """Bounds at every point and order, shape (points, orders)."""
    column = np.tile(np.arange(orders), len(points))
    return evaluate(np.repeat(points, orders), column).reshape(len(points), orders)


def _ladder(evaluate: Evaluate, least_slope: Array) -> tuple[Array, Array]:
    """Points 0, ..., 1/16, 1/4, 1, 1.25, from where the chord to zero is close enough."""
    length, reached = 6, np.zeros(0, dtype=np.bool_)
    while not reached.any() and length < _DEEPEST:
        length *= 2
        steps: Array = np.ldexp(1.0, -2 * np.arange(min(length, _DEEPEST)))
        values = _everywhere(evaluate, steps, len(least_slope))
        near = values <= (1 + EXCESS) * least_slope * steps[:, None]
        small = (least_slope == 0) & (values <= NEGLIGIBLE * values[0])
        reached = (near | small).all(axis=1)
    last = int(np.argmax(reached)) + 1 if reached.any() else len(steps)
    points = np.concatenate(([0.0], steps[:last][::-1], [_BEYOND]))
    beyond = _everywhere(evaluate, points[-1:], len(least_slope))
    return points, np.vstack((np.zeros_like(beyond), values[:last][::-1], beyond))


def _excess(points: Array, values: Array) -> Array:
    """What each chord may be above the exact bound, relative to it: shape (points - 3, orders).

    For the pieces from the second to the last but one. A convex function lies above the two
    neighbouring chords, extended; chord / support is largest where these two meet.
    """
    with np.errstate(all="ignore"):
        width = np.diff(points)[:, None]
        slope = np.diff(values, axis=0) / width
        before, own, after = slope[:-2], slope[1:-1], slope[2:]
        meeting = np.clip((after - own) / (after - before), 0, 1) * width[1:-1]
        excess = (own - before) * meeting / (values[1:-2] + before * meeting)
    narrow = width[1:-1] < 1e-9 * points[1:-2, None]
    return np.where(narrow | np.isnan(excess), 0.0, excess)


def _split(
    evaluate: Evaluate, points: Array, values: Array, excess: Array
) -> tuple[Array, Array]:
    """New points where a chord is too high. Orders that are close enough keep their chord."""
    most = excess.max(axis=1)
    chosen = np.flatnonzero(most > EXCESS)
    parts = np.clip(np.ceil(np.sqrt(most[chosen] / EXCESS)), 2, 6).astype(np.int64)
    new, piece = _between(points, chosen + 1, parts)
    low, high = values[piece], values[piece + 1]
    with np.errstate(all="ignore"):
        along = (new - points[piece]) / (points[piece + 1] - points[piece])
        added = np.minimum(low + (high - low) * along[:, None], high) * _ROUND
    row, order = np.nonzero(excess[piece - 1] > EXCESS)
    added[row, order] = np.fmin(added[row, order], evaluate(new[row], order))
    return np.insert(points, piece + 1, new), np.insert(values, piece + 1, added, axis=0)


def _between(points: Array, pieces: Indices, parts: Indices) -> tuple[Array, Indices]:
    """Points that cut each of the pieces into equal ratios, and the piece of each."""
    piece = np.repeat(pieces, parts - 1)
    first = np.cumsum(parts - 1) - (parts - 1)
    number = np.arange(len(piece)) - np.repeat(first, parts - 1) + 1
    low, high = points[piece], points[piece + 1]
    return low * (high / low) ** (number / np.repeat(parts, parts - 1)), piece


def step_table(bounds_at: Callable[[Array], Array], full: Array) -> Table:
    """A table of steps for bounds that never fall as the share grows.

    Args:
        bounds_at: shares in (0, 1], shape (m,) -> upper bounds in nats, shape (m, orders). That
            they never fall is for the caller to prove.
        full: bounds at 1, shape (orders,).
    """
    length, reached = 16, False
    while not reached and length < 4 * _DEEPEST:
        length *= 2
        at: Array = np.ldexp(1.0, -np.arange(length)[::-1])
        table = np.vstack((bounds_at(at[:-1]), full))
        reached = bool((table[0] <= NEGLIGIBLE * full).all())
    unneeded = max(0, int((table <= NEGLIGIBLE * full).all(axis=1).sum()) - 1)
    at, table = at[unneeded:], table[unneeded:]
    for _ in range(_PASSES):
        with np.errstate(all="ignore"):
            growth = np.where(table[1:] > NEGLIGIBLE * full, np.log(table[1:] / table[:-1]), 0.0)
        steps = np.nan_to_num(growth.max(axis=1) / np.log1p(EXCESS), posinf=64.0)
        chosen = np.flatnonzero(steps > 1)
        if not len(chosen) or len(at) > _MOST:
            break
        # A few more than needed, as growth is not even.
        parts = np.clip(np.ceil(1.02 * steps[chosen]), 2, 256).astype(np.int64)
        new, piece = _between(at, chosen, parts)
        table = np.insert(table, piece + 1, bounds_at(new), axis=0)
        at = np.insert(at, piece + 1, new)
    rising = np.maximum.accumulate(table, axis=0)
    return _frozen(np.concatenate(([0.0], at)), rising, None, full, False)
