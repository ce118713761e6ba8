"""Pairs held as arrays on a lattice: products and maxima that other pairs are built on.

Sums are by direct convolution of positive numbers, so far tails keep their relative accuracy.
Every rounding adds mass, which keeps the pair dominating.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import evolve, field, frozen

from privledger.accounting.moments import Array
from privledger.accounting.pld.bands import UNIT, Atoms, Bands, no_bands
from privledger.accounting.pld.masses import Masses, discounted, upper_masses
from privledger.accounting.pld.pairs import Pair, bounded_tail
from privledger.accounting.pld.probe import Probe


class TooMuch(Exception):
    """A product that would take too long, or whose losses lie too far apart."""


_MOST_WORK = 5e9  # multiplications
POINTS = 4096
"""Lattice points of a product: each costs one convolution of this length."""


@frozen(eq=False)
class GridPair:
    """P masses at (first + i) * step. Equal only to itself."""

    first: int
    step: float
    p: Array
    infinite: float
    blur: float = 0.0
    tight: bool = field(default=False, init=False)

    @property
    def top(self) -> float:
        """The last grid point, in nats; an infinite loss is no finite one."""
        return (self.first + len(self.p) - 1) * self.step

    def _loss(self) -> Array:
        return self.step * (self.first + np.arange(len(self.p), dtype=np.float64))

    def bands(self, edges: Array) -> Bands:
        """No mass: a grid has atoms only."""
        return no_bands(edges)

    def atoms(self) -> Atoms:
        """One atom a grid point, with the mass that was rounded up to it; see `Pair.atoms`."""
        loss = self._loss()
        with np.errstate(over="ignore"):
            known = float(np.sum(self.p * np.exp(np.minimum(-loss, 700.0))))
        # Masses were rounded up, by no more than this, which hides as much of what is missing.
        hidden = 8 * UNIT * len(loss)
        return Atoms(loss, self.p, self.infinite, max(0.0, 1 - known + hidden), self.blur)

    def probe(self) -> tuple[Array, Array]:
        """At most some 256 places: neighbours are put together; see `Pair.probe`."""
        loss, p = self._loss(), self.p
        width = max(1, len(p) // 256)
        stop = len(p) // width * width
        if stop == 0:
            return loss, p
        mass = np.append(p[:stop].reshape(-1, width).sum(axis=1), p[stop:])
        place = np.append(loss[:stop].reshape(-1, width).mean(axis=1), loss[stop:])
        return place, mass

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from the last grid point on, unknown below it."""
        return bounded_tail(self, edge)


def _span(items: Sequence[tuple[Pair, int]], tail: float) -> tuple[float, float]:
    """Losses between which the sum lies, but for about `tail` of P above."""
    probe = Probe.of(items)
    _, mean, variance = probe.moments(0.0)
    spread = math.sqrt(max(variance, 1e-300))
    log_tail = math.log(max(tail, 1e-300))
    high = min((probe.moments(t / spread)[0] - log_tail) / (t / spread)
               for t in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0))
    low = max(-(probe.moments(-t / spread)[0] + 40.0) / (t / spread)
              for t in (0.5, 1.0, 2.0, 4.0, 8.0))
    most = sum(count * pair.top for pair, count in items)
    low, high = min(low, mean), max(mean + spread, min(high, most))
    # A largest loss that is not far away is kept, so that nothing goes to infinity.
    return low, most if most - low <= 3 * (high - low) else high


def product(items: Sequence[tuple[Pair, int]], tail: float) -> Pair:
    """One pair for all `items` together; about `tail` of P mass goes to infinity."""
    if len(items) == 1 and items[0][1] == 1:
        return items[0][0]
    low, high = _span(items, tail)
    step = max((high - low) / POINTS, 1e-290)
    work = sum(2 * math.log2(1 + count) * (3.0 * POINTS) ** 2 if count > 1 else 3.0 * POINTS**2
               for _, count in items)
    if work > _MOST_WORK or step > 1:
        raise TooMuch
    total = Masses(0, np.ones(1), 0.0)
    for pair, count in items:
        top = min(pair.top, high - low + max(0.0, high))
        single = _span([(pair, 1)], tail / max(1, count))
        first = math.floor(max(single[0], low - high) / step) - 1
        last = max(first + 1, math.ceil(min(single[1], top) / step) + 1)
        one = upper_masses(pair, step, first, last)
        part = _times(one, count, step, low, high)
        total = evolve(_join(total, part, step, low, high),
                       blur=total.blur + count * one.blur)
    return GridPair(total.first, step, total.p, total.infinite, total.blur)


def _join(left: Masses, right: Masses, step: float, low: float, high: float) -> Masses:
    """Product of two pairs; below `low` mass moves up to it, above `high` to infinity."""
    p = np.convolve(left.p, right.p) * (1 + 2 * UNIT * min(len(left.p), len(right.p)))
    first = left.first + right.first
    infinite = left.infinite + right.infinite
    start = math.floor(low / step) - first
    if 0 < start < len(p):
        p[start] += p[:start].sum()
        p, first = p[start:], first + start
    stop = math.ceil(high / step) + 2 - first
    if 0 < stop < len(p):
        infinite += float(p[stop:].sum()) * (1 + 1e-12)
        p = p[:stop]
    return Masses(first, p, infinite)


def _times(masses: Masses, count: int, step: float, low: float, high: float) -> Masses:
    reach = high - low
    result: Masses | None = None
    while count:
        if count & 1:
            result = masses if result is None else _join(
                result, masses, step, low - reach, high + reach)
        count >>= 1
        if count:
            masses = _join(masses, masses, step, low - reach, high + reach)
    assert result is not None
    return result


def largest(pairs: Sequence[Pair], tail: float) -> Pair:
    """A pair whose profile is at least that of each of `pairs`: the maximum of convex curves."""
    if len(pairs) == 1:
        return pairs[0]
    spans = [_span([(pair, 1)], tail) for pair in pairs]
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    step = max((high - low) / (2 * POINTS), 1e-290)
    if step > 1:
        raise TooMuch
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    curves, blur = [], 0.0
    for pair in pairs:
        masses = upper_masses(pair, step, first, last)
        curves.append(_curve(masses, step))
        blur = max(blur, masses.blur)
    highest = np.maximum.reduce([curve for curve, _ in curves]) * (1 + 1e-13)
    infinite = max(rest for _, rest in curves) * (1 + 1e-12)
    gap, back = math.expm1(step), -math.expm1(-step)
    # Slopes times exp(loss), to the right and to the left of each point.
    right = np.append((highest[:-1] - highest[1:]) / gap, 0.0)
    left = np.append(1 - highest[0], (highest[:-1] - highest[1:]) / back)
    p = np.maximum(left - right, 0.0) + 16 * UNIT * highest / back
    return GridPair(first, step, p, infinite, blur)


def _curve(masses: Masses, step: float) -> tuple[Array, float]:
    """H at each lattice point and what is left at infinity."""
    # sum over k' > k of p (1 - exp(x_k - x_k')), by a recursion that adds positive terms only:
    # H_k = H_(k+1) + (exp(step) - 1) exp(x_k) Q(beyond k).
    beyond = math.exp(-step) * np.append(discounted(masses.p, step)[1:], 0.0)
    rise = math.expm1(step) * beyond
    curve = np.cumsum(rise[::-1])[::-1] + masses.infinite
    return curve * (1 + 4 * UNIT * len(curve)), masses.infinite
