"""Pairs held as arrays on a lattice: products and maxima that other pairs are built on.

Sums are by direct convolution of positive numbers, so far tails keep their relative accuracy.
Every rounding adds mass, which keeps the pair dominating.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array, by_doubling
from privledger.accounting.pld.masses import Masses, discounted, upper_masses
from privledger.accounting.pld.pairs import UNIT, Atoms, Bands, Pair, bounded_tail, no_bands

# --- Where a composition has its mass: rough numbers to choose a tilt, a window and a mesh by.
#
# Nothing here proves anything. What is chosen badly makes a bound loose, never wrong.

_MANY = 64  # items, beyond which
_THIN = 4  # neighbours are put together


def _thinned(loss: Array, p: Array) -> tuple[Array, Array]:
    """Of each few neighbouring losses their sum of masses at their mean; the last ones stay."""
    order = np.argsort(loss, kind="stable")
    loss, p = loss[order], p[order]
    stop = len(p) // _THIN * _THIN
    mass = p[:stop].reshape(-1, _THIN).sum(axis=1)
    mean = (p * loss)[:stop].reshape(-1, _THIN).sum(axis=1) / np.maximum(mass, 1e-300)
    low, high = loss[:stop:_THIN], loss[_THIN - 1:stop:_THIN]
    return (np.append(np.clip(mean, low, high), loss[stop:]), np.append(mass, p[stop:]))


@frozen(eq=False)
class Probe:
    """Sampled losses of all items, end to end.

    Attributes:
        loss, log_p: shape (total,). starts: where each item begins, shape (items,).
        counts: how often each item runs, shape (items,), float.
    """

    loss: Array
    log_p: Array
    starts: NDArray[np.int64]
    counts: Array

    @classmethod
    def of(cls, items: Sequence[tuple[Pair, float]]) -> Probe:
        """The probes of all (pair, count), end to end; masses that are zero count as exp(-1e6)."""
        parts = [pair.probe() for pair, _ in items]
        if len(items) > _MANY:
            parts = [_thinned(*part) for part in parts]
        sizes = [len(loss) for loss, _ in parts]
        with np.errstate(divide="ignore"):
            log_p = np.maximum(np.log(np.concatenate([p for _, p in parts])), -1e6)
        return cls(np.concatenate([loss for loss, _ in parts]), log_p,
                   np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
                   np.array([float(count) for _, count in items]))

    def _shares(self, tilt: float) -> tuple[Array, Array]:
        """Tilted probabilities within each item, and each item's log moment."""
        exponent = self.log_p + tilt * self.loss
        peak = np.maximum.reduceat(exponent, self.starts)
        sizes = np.diff(np.append(self.starts, len(self.loss)))
        weight = np.exp(exponent - np.repeat(peak, sizes))
        total = np.add.reduceat(weight, self.starts)
        return weight / np.repeat(total, sizes), peak + np.log(total)

    def each(self, tilt: float) -> Array:
        """Log moment generating function of every item, run once, shape (items,)."""
        return self._shares(tilt)[1]

    def log_moments(self, tilts: Array) -> Array:
        """Log moment generating function of the sum at each of `tilts`, shape (n,)."""
        exponent = self.log_p + tilts[:, None] * self.loss
        peak = np.maximum.reduceat(exponent, self.starts, axis=1)
        sizes = np.diff(np.append(self.starts, len(self.loss)))
        weight = np.exp(exponent - np.repeat(peak, sizes, axis=1))
        total = np.add.reduceat(weight, self.starts, axis=1)
        return np.asarray((peak + np.log(total)) @ self.counts)

    def moments(self, tilt: float) -> tuple[float, float, float]:
        """Log moment generating function of the sum at `tilt`, tilted mean and variance."""
        share, log_moment = self._shares(tilt)
        mean = np.add.reduceat(share * self.loss, self.starts)
        square = np.add.reduceat(share * self.loss**2, self.starts)
        return (float(self.counts @ log_moment), float(self.counts @ mean),
                float(self.counts @ np.maximum(square - mean**2, 0.0)))

    def falls(self, tilt: float, first: float, fall: float) -> float:
        """About the frequency from which on the transform of the sum is below exp(-fall)."""
        share, _ = self._shares(tilt)
        found = first
        for _ in range(24):
            turned = np.add.reduceat(share * np.exp(1j * found * self.loss), self.starts)
            size = float(self.counts @ np.log(np.abs(turned) + 1e-300))
            if size < -fall:
                break
            found *= min(2.0, max(1.05, math.sqrt(fall / max(-size, 1e-9)) * 1.02))
        return found

    def without(self, delta: float) -> Probe:
        """The same without the largest losses, whose masses add up to `delta` at most."""
        mass = np.exp(self.log_p) * np.repeat(
            self.counts, np.diff(np.append(self.starts, len(self.loss))))
        order = np.argsort(-self.loss, kind="stable")
        log_p = self.log_p.copy()
        log_p[order[np.cumsum(mass[order]) <= delta]] = -1e6
        return evolve(self, log_p=log_p)

    def top(self) -> float:
        """The largest sampled loss of the sum."""
        return float(self.counts @ np.maximum.reduceat(self.loss, self.starts))

    def added_variance(self, tilt: float, step: float) -> float:
        """What splitting every loss between lattice points adds to the tilted variance."""
        share, _ = self._shares(tilt)
        size = np.abs(self.loss)
        extra = share * np.minimum(step * step / 6, size * step)
        return float(self.counts @ np.add.reduceat(extra, self.starts))

    def log_delta(self, tilt: float) -> tuple[float, float]:
        """Saddle-point estimate of log delta at the tilted mean, and that mean."""
        from scipy.special import erfcx

        log_moment, mean, variance = self.moments(tilt)
        spread = math.sqrt(max(variance, 1e-300) / 2)
        kept = 0.5 * float(erfcx(tilt * spread) - erfcx((tilt + 1) * spread))
        return log_moment - tilt * mean + math.log(max(kept, 1e-300)), mean


def tilt_for_delta(probe: Probe, delta: float) -> float:
    """The tilt whose mean is about the epsilon at `delta`; 0 if that is below the mean."""
    goal = math.log(delta)
    found = _falling(lambda tilt: probe.log_delta(tilt)[0] - goal)
    # An atom of more than delta at the top is found by any tilt: take no more than it needs.
    top, best, reach = probe.top(), found, 0.0
    for power in range(64):
        tilt = found / 2.0**power
        left = (top - probe.moments(tilt)[1]) * tilt
        if left >= 1:
            return tilt
        if left > 2 * reach:
            best, reach = tilt, left
    return best


def tilt_for_epsilon(probe: Probe, epsilon: float) -> float:
    """The tilt whose mean is `epsilon`; 0 if the untilted mean is above it."""
    return _falling(lambda tilt: epsilon - probe.moments(tilt)[1])


def _falling(height: Callable[[float], float]) -> float:
    """Root of a decreasing function of a non-negative number, to about 1 %."""
    if height(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while height(high) > 0 and high < 1e9:
        low, high = high, high * 4
    for _ in range(30):
        if high - low <= 0.01 * high:
            break
        middle = math.sqrt(low * high) if low > 0 else 0.25 * high
        low, high = (middle, high) if height(middle) > 0 else (low, middle)
    return high


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
    return by_doubling(masses, count, lambda one, other: _join(
        one, other, step, low - reach, high + reach))


def largest_step(pairs: Sequence[Pair], tail: float) -> Pair:
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
