"""From the composed losses to delta at an epsilon, and to epsilon at a delta."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from privledger.accounting.moments import Array
from privledger.accounting.pld.compose import Composed
from privledger.accounting.pld.masses import discounted

_REACH = 300.0  # weights beyond exp(300) are left out: the answer lies above them


@frozen(eq=False)
class Profile:
    """Suffix sums that give delta on each band of the window.

    delta(eps) = scale (rising[i] - exp(eps - grid[i]) falling[i]) + extra on the band that
    ends at grid[i]: `rising` bounds the sum of masses from there on, `falling` the sum of
    masses times exp(grid[i] - loss). `least` is where the first band begins: minus infinity
    if no sum lies below the window. `most` is an epsilon at which only `extra` is left:
    infinity if the window ends before the sums do. `shift` is the offset of all sums and what
    rounding may have moved them by, in the direction that counts: H_a of a pair whose losses
    moved up by b is at most H_(a exp(-b)) of the pair before. `upper`: which bound it is.
    """

    grid: Array
    rising: Array
    falling: Array
    log_scale: float
    extra: float
    least: float
    most: float
    shift: float = 0.0
    upper: bool = True

    def log_scaled(self, delta: float) -> float:
        """log((delta - extra) / scale); minus infinity if extra alone passes delta."""
        left = delta - self.extra
        return math.log(left) - self.log_scale if left > 0 else -math.inf

    def delta(self, epsilon: float) -> float:
        """delta at `epsilon`; 1 where the window does not reach."""
        epsilon -= self.shift
        if epsilon < self.least:
            return 1.0
        place = int(np.searchsorted(self.grid, epsilon, side="left"))
        if place >= len(self.grid):
            return self.extra
        value = self.rising[place] - math.exp(epsilon - self.grid[place]) * self.falling[place]
        if not value > 0:
            return self.extra
        return self.extra + math.exp(min(self.log_scale + math.log(value), 1.0))

    def slope(self, epsilon: float) -> float:
        """How fast log delta falls at `epsilon`, per nat; 0 where the window does not reach."""
        place = int(np.searchsorted(self.grid, epsilon - self.shift, side="left"))
        if place >= len(self.grid):
            return 0.0
        fall = math.exp(epsilon - self.shift - self.grid[place]) * float(self.falling[place])
        rest = float(self.rising[place]) - fall
        return fall / rest if rest > 0 else 0.0

    def epsilon(self, delta: float) -> float:
        """Where delta is met; infinity if nowhere on the window."""
        return self._crossing(delta) + self.shift

    def _crossing(self, delta: float) -> float:
        aim = self.log_scaled(delta)
        if aim == -math.inf:
            return math.inf
        goal = math.exp(min(aim, 700.0))
        met = self.rising - self.falling <= goal
        place = int(np.argmax(met))
        if not self.upper and not met.all():
            # It may be worse further down: what it says above holds all the same.
            place = int(np.flatnonzero(~met)[-1]) + 1
        if place == len(met) or not met[place]:
            return self.most
        # Rounding makes the two bands differ a little at their common end, which was not met.
        least = float(self.grid[place - 1]) if place else self.least
        rest = self.rising[place] - goal
        if not (rest > 0 and self.falling[place] > 0):
            return least
        return max(least, float(self.grid[place] + math.log(rest / self.falling[place])))


def profile(composed: Composed, *, upper: bool) -> Profile:
    """Suffix sums rounded up (`upper`) or down."""
    lattice = composed.lattice
    tilt, step = lattice.tilt, lattice.step
    grid = step * (lattice.first + np.arange(lattice.size, dtype=np.float64))
    offset = grid - lattice.centre
    # Beyond the largest possible sum there is only noise and what wrapped in.
    possible = lattice.first + np.arange(lattice.size) <= composed.highest
    seen = (tilt * offset >= -_REACH) & possible
    if not bool(seen.any()):
        seen = tilt * offset >= -_REACH
    least = -math.inf if composed.whole and bool(seen[0]) else float(grid[seen][0])
    bounded = composed.highest < lattice.first + lattice.size
    most = float(grid[seen][-1]) if bounded else math.inf
    wrapped = np.where(lattice.first + np.flatnonzero(seen) < composed.fair,
                       composed.wrapped, composed.around)
    grid, offset, tilted = grid[seen], offset[seen], composed.tilted[seen]
    mass = np.maximum(tilted, 0.0) + composed.error if upper else np.maximum(
        tilted - composed.error, 0.0)
    weight = mass * np.exp(-tilt * offset)
    rising = np.cumsum(weight[::-1])[::-1]
    falling = discounted(weight, step)
    slack = 4e-16 * (len(grid) + 16 + tilt * abs(lattice.centre))
    sign = 1.0 if upper else -1.0
    log_scale = composed.log_moment - tilt * lattice.centre
    log_scale += sign * composed.log_slack
    log_scale += sign * 4e-16 * (8 + abs(composed.log_moment) + tilt * abs(lattice.centre))
    rising, falling = rising * (1 + sign * slack), falling * (1 - sign * slack)
    if upper:
        extra = composed.infinite + composed.beyond
    else:
        # Wrapped mass weighs at most max(exp(-tilt x) (1 - exp(-x))) beyond the band's start.
        most = 1.0 if tilt == 0 else math.exp(tilt * math.log(tilt / (tilt + 1))
                                              - math.log(tilt + 1))
        rising = rising - wrapped * most * np.exp(-tilt * (offset - step))
        extra = 0.0
    return Profile(grid, rising, falling, log_scale, extra, least, most,
                   composed.offset + sign * composed.blur, upper)

