"""Where a composition has its mass: rough numbers to choose a tilt, a window and a mesh by.

Nothing here proves anything. What is chosen badly makes a bound loose, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.pairs import Pair

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
