"""Certified epsilon and delta of a composition of pairs, one lane (direction) at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attrs import evolve, frozen

from privledger.accounting.moments import Array
from privledger.accounting.pld.between import Gathered, gathered, refined
from privledger.accounting.pld.blended import Blended
from privledger.accounting.pld.compose import Composed, compose
from privledger.accounting.pld.grid import Probe, tilt_for_delta, tilt_for_epsilon
from privledger.accounting.pld.lattice import (
    HARD_SIZE,
    SOFT_SIZE,
    Aim,
    Lattice,
    choose_lattice,
    felt,
    offset_of,
)
from privledger.accounting.pld.masses import Masses, discounted, upper_masses
from privledger.accounting.pld.merged import lower_masses
from privledger.accounting.pld.pairs import AtomPair, BoundedRangePair, Items, Pair

# --- From the composed losses to delta at an epsilon, and to epsilon at a delta.

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
    grid = np.arange(lattice.first, lattice.first + lattice.size, dtype=np.float64)
    grid *= step  # in place, here and below: a page that is touched first costs more than a sum
    start = int(np.searchsorted(grid, lattice.centre - _REACH / tilt)) if tilt else 0
    # Beyond the largest possible sum there is only noise and what wrapped in.
    bounded = composed.highest < lattice.first + lattice.size
    stop = max(composed.highest + 1 - lattice.first, 0) if bounded else lattice.size
    seen = slice(start, stop if start < stop else None)
    grid, tilted = grid[seen], composed.tilted[seen]
    least = -math.inf if composed.whole and not start else float(grid[0])
    most = float(grid[-1]) if bounded else math.inf
    weight = grid - lattice.centre
    weight *= -tilt
    np.exp(weight, out=weight)
    if upper:
        mass = np.maximum(tilted, 0.0)
        mass += composed.error
    else:
        mass = tilted - composed.error
        np.maximum(mass, 0.0, out=mass)
    weight *= mass
    rising = np.cumsum(weight[::-1], out=mass)[::-1]
    falling = discounted(weight, step)
    slack = 4e-16 * (len(grid) + 16 + tilt * abs(lattice.centre))
    sign = 1.0 if upper else -1.0
    log_scale = composed.log_moment - tilt * lattice.centre
    log_scale += sign * composed.log_slack
    log_scale += sign * 4e-16 * (8 + abs(composed.log_moment) + tilt * abs(lattice.centre))
    rising *= 1 + sign * slack
    falling *= 1 - sign * slack
    if upper:
        extra = composed.infinite + composed.beyond
    else:
        # Wrapped mass weighs at most max(exp(-tilt x) (1 - exp(-x))) beyond the band's start.
        heaviest = 1.0 if tilt == 0 else math.exp(tilt * math.log(tilt / (tilt + 1))
                                                  - math.log(tilt + 1))
        far = np.arange(len(grid)) < composed.fair - lattice.first - start
        wrapped = np.where(far, composed.wrapped, composed.around)
        rising -= wrapped * heaviest * np.exp(-tilt * (grid - lattice.centre - step))
        extra = 0.0
    return Profile(grid, rising, falling, log_scale, extra, least, most,
                   composed.offset + sign * composed.blur, upper)


TOLERANCE = 2e-6
_PASSES = 2
_ENOUGH = 10.0  # times the tolerance: what a mesh may add before it is chosen again
_FINE_SIZE = HARD_SIZE
LOWER_TOLERANCE = 1e-6  # of a lower bound, which the mesh costs half as much
_FINEST = 0.01  # share of its tolerance that another mesh may add
_LOST = 1e-7  # share of delta that cutting off the far tail may cost
_RARE = (1e-4, 1e-2)  # the same, of rare losses that
_RULES = 0.01  # add more than this to the log moment
_MOST_PASSES = 12


@frozen
class Found:
    """A bound with the lattice that it was computed on.

    Attributes:
        tight: whether every pair is attained by some neighbours.
        renyi: estimate of what Renyi DP would say, if some pair is not; else infinity.
    """

    value: float
    lattice: Lattice
    tight: bool = True
    renyi: float = math.inf


def _ranges(
    probe: Probe, items: Sequence[tuple[Pair, float]], lattice: Lattice, delta: float
) -> list[tuple[int, int]]:
    """Lattice numbers that each item's masses are computed on."""
    sizes = np.diff(np.append(probe.starts, len(probe.loss)))
    total = float(probe.counts.sum())
    found = []
    for (pair, _), start, size in zip(items, probe.starts, sizes, strict=True):
        order = np.argsort(probe.loss[start:start + size], kind="stable")
        loss = probe.loss[start:start + size][order]
        log_p = probe.log_p[start:start + size][order]
        with np.errstate(under="ignore"):
            above = np.cumsum(np.exp(log_p)[::-1])[::-1] - np.exp(log_p)
            weight = np.exp(log_p + lattice.tilt * loss - np.max(log_p + lattice.tilt * loss))
        below = np.cumsum(weight) / weight.sum()
        enough = above * total <= _LOST * delta
        high = loss[int(np.argmax(enough))] if bool(enough.any()) else loss[-1]
        # To the largest loss, unless it lies so far away that nearly all masses would be zero.
        near = max(2, lattice.size, min(1 / lattice.step, 8.0 * lattice.size)) * lattice.step
        high = pair.top if pair.top <= high + near else float(high)
        low = float(loss[max(0, int(np.argmax(below > 1e-10 / total)) - 1)])
        first = math.floor(low / lattice.step) - 1
        last = max(first + 1, math.ceil(high / lattice.step) + 1)
        found.append((first, min(last, first + 8 * HARD_SIZE)))
    return found


def _upper_sum(probe: Probe, whole: Gathered, lattice: Lattice, delta: float) -> Composed:
    """A sum that dominates; neighbours share the offset of the first of them."""
    if whole.apart(lattice.size):
        whole = Gathered(whole.items, (), whole.items)
        probe = Probe.of(whole.items)
    ranges = _ranges(probe, whole.rough(), lattice, delta)

    def masses(pair: Pair, place: int, offset: float) -> Masses:
        return upper_masses(pair, lattice.step, *ranges[place], offset)

    alone = [(masses(pair, place, offset_of(pair, lattice.step)), count)
             for place, (pair, count) in enumerate(whole.alone)]
    blends, start = [], len(alone)
    for group in whole.between:
        offset = offset_of(group.knots[0], lattice.step)
        blends.append(Blended(
            tuple(masses(pair, start + place, offset) for place, pair in enumerate(group.knots)),
            group.place, group.share, group.count))
        start += len(group.knots)
    return compose(alone, lattice, blends)


def _lower_sum(probe: Probe, items: Items, lattice: Lattice, delta: float) -> Composed:
    ranges = _ranges(probe, items, lattice, delta)
    return compose([
        (lower_masses(pair, lattice.step, first, last, offset_of(pair, lattice.step),
                      lattice.tilt), count)
        for (pair, count), (first, last) in zip(items, ranges, strict=True)], lattice)


def _gather(items: Items, tilt_of: Callable[[Probe], float]) -> tuple[Gathered, Probe, float]:
    """The composition with few pairs, its probe and its tilt; closer where that costs much."""
    whole = gathered(items)
    probe = Probe.of(whole.rough())
    tilt = tilt_of(probe)
    if whole.between:
        better = refined(items, whole, whole.added(probe, tilt), probe.moments(tilt)[1])
        if better is not whole:
            whole, probe = better, Probe.of(better.rough())
    return whole, probe, tilt


def _seen(probe: Probe, tilt: float, delta: float) -> Iterator[tuple[Probe, float]]:
    """Where rare losses rule the tilt: what is left without shares of delta of them.

    Those count as infinite (or not at all, from below): a mesh that holds them is too coarse for
    all others.
    """
    ruled = probe.without(_RARE[0] * delta)
    if ruled.moments(tilt)[0] < probe.moments(tilt)[0] - _RULES:
        for share in _RARE:
            near = probe.without(share * delta)
            yield near, tilt_for_delta(near, (1 - share) * delta)


def epsilon_upper(items: Items, delta: float, tolerance: float = TOLERANCE,
                  soft: int = SOFT_SIZE) -> Found:
    """An epsilon that the composition has at `delta`; infinity if none could be certified."""
    whole, probe, tilt = _gather(items, lambda probe: tilt_for_delta(probe, delta))
    value, lattice, _ = _upper(probe, whole, delta, tilt, tolerance, soft)
    if lattice.added > _ENOUGH * tolerance * value and soft >= SOFT_SIZE:
        for near, other in _seen(probe, tilt, delta):
            found, tried, _ = _upper(near, whole, delta, other, tolerance, soft)
            value, lattice = min((value, lattice), (found, tried), key=lambda one: one[0])
    tight = _tight(items)
    renyi = math.inf if tight else _renyi_estimate(probe, items, tilt, delta)
    return Found(max(0.0, value), lattice, tight, renyi)


def _upper(
    probe: Probe, whole: Gathered, delta: float, tilt: float, tolerance: float, soft: int
) -> tuple[float, Lattice, Aim | None]:
    """Epsilon, where it was found, and what is known of delta there.

    A saddle point guesses badly where rare large losses decide: the mesh is then chosen again
    by the slope that the first pass saw.
    """
    items, coins = whole.rough(), whole.added(probe, tilt)
    tolerance *= 0.5 if whole.between else 1.0  # the coins take their share
    lattice = choose_lattice(probe, items, tilt, tolerance, soft=soft)
    lattice = evolve(lattice, added=lattice.added + coins)
    curve = profile(_upper_sum(probe, whole, lattice, delta), upper=True)
    value = curve.epsilon(delta)
    aim = _aim(curve, value, delta)
    for _ in range(_PASSES):
        if aim is None:
            break
        added = felt(probe, lattice, aim)
        lattice = evolve(lattice, added=added + coins)
        if added <= _ENOUGH * tolerance * aim.epsilon or soft < SOFT_SIZE:
            break
        better = choose_lattice(probe, items, tilt, tolerance, soft=_FINE_SIZE, aim=aim)
        if felt(probe, better, aim) > 0.7 * added:
            break
        curve = profile(_upper_sum(probe, whole, better, delta), upper=True)
        found = curve.epsilon(delta)
        if not found < value:
            break
        value, lattice, aim = found, better, _aim(curve, found, delta)
    return value, lattice, aim


def _aim(curve: Profile, value: float, delta: float) -> Aim | None:
    """What one pass says of the place where delta is met; None if it is not met above zero."""
    slope = curve.slope(value) if 0 < value < math.inf else 0.0
    return Aim(value, math.log(delta), slope) if slope > 0 else None


def epsilon_lower(items: Items, delta: float, tolerance: float = LOWER_TOLERANCE,
                  soft: int = SOFT_SIZE) -> Found:
    """An epsilon below which the composition does not have `delta`; 0 if none is proved."""
    probe = Probe.of(items)
    tilt = tilt_for_delta(probe, delta)
    best = _lower(probe, tilt, items, delta, tolerance, soft)
    if best.lattice.added > _ENOUGH * tolerance * best.value and soft >= SOFT_SIZE:
        for near, other in _seen(probe, tilt, delta):
            best = max(best, _lower(near, other, items, delta, tolerance, soft),
                       key=lambda one: one.value)
    return best


def _lower(probe: Probe, tilt: float, items: Items, delta: float, tolerance: float,
           soft: int) -> Found:
    lattice = choose_lattice(probe, items, tilt, tolerance, soft=soft, both_ends=True)
    best = Found(0.0, lattice)
    for passed in range(_PASSES + 1):
        composed = _lower_sum(probe, items, lattice, delta)
        curve = profile(composed, upper=False)
        value = curve.epsilon(delta)
        if best.value < value < math.inf:
            best = Found(value, lattice)
        aim = _aim(curve, value, delta)
        if aim is None or passed == _PASSES or soft < SOFT_SIZE:
            break
        guessed = felt(probe, lattice, aim)
        added = max(guessed, composed.lost / max(lattice.tilt, aim.slope))
        if added <= _ENOUGH * tolerance * aim.epsilon:
            break
        # Atoms off the lattice cost more than was guessed.
        finer = max(_FINEST, min(1.0, guessed / added)) * tolerance
        lattice = choose_lattice(probe, items, tilt, finer, soft=_FINE_SIZE, both_ends=True,
                                 aim=aim)
        if felt(probe, lattice, aim) > 0.7 * guessed:
            break
    return best


def delta_upper(items: Items, epsilon: float, tolerance: float = TOLERANCE,
                soft: int = SOFT_SIZE) -> Found:
    """A delta that the composition has at `epsilon`.

    As `_seen`, by the delta that the pass before found, until that falls no more.
    """
    whole, probe, tilt = _gather(items, lambda probe: tilt_for_epsilon(probe, epsilon))
    best, seen = math.inf, probe
    for _ in range(_MOST_PASSES):
        guess = math.exp(max(-690.0, min(0.0, seen.log_delta(tilt)[0])))
        tried = choose_lattice(seen, whole.rough(), tilt, tolerance, soft=soft)
        found = profile(_upper_sum(seen, whole, tried, guess), upper=True).delta(epsilon)
        if found < best:
            lattice = tried
        if not found < 0.99 * best:
            break
        best = min(best, found)
        seen, was = probe.without(_RARE[0] * best), tilt
        tilt = tilt_for_epsilon(seen, epsilon)
        if soft < SOFT_SIZE or (tilt <= 1.02 * was
                                and tried.added <= _ENOUGH * tolerance * epsilon):
            break
    tight = _tight(items)
    # Where pairs only dominate, Renyi DP may say less, and is always asked.
    return Found(min(1.0, best), lattice, tight, math.inf if tight else -math.inf)


def _tight(items: Items) -> bool:
    return all(pair.tight for pair, _ in items)


def _renyi_estimate(probe: Probe, items: Items, tilt: float, delta: float) -> float:
    """About what the best order proves; minus infinity if there is no saying.

    A bounded-range pair has variance eta^2/3 or so, its mechanism's curve that of eta^2/4.
    """
    if any(not isinstance(pair, BoundedRangePair | AtomPair) for pair, _ in items
           if not pair.tight) or tilt <= 0:
        return -math.inf
    excess = sum(count * pair.eta**2 / 12 for pair, count in items
                 if isinstance(pair, BoundedRangePair))
    best = math.inf
    for beta in tilt * np.geomspace(0.6, 1.8, 9):
        moment = probe.moments(float(beta))[0] - 0.5 * beta * (beta + 1) * excess
        spent = moment - math.log(delta) - math.log1p(beta)
        best = min(best, spent / beta - math.log1p(1 / beta))
    return float(best)
