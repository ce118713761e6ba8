"""Certified epsilon and delta of a composition of pairs, one lane (direction) at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, frozen

from privledger.accounting.pld.between import Gathered, gathered, refined
from privledger.accounting.pld.blended import Blended
from privledger.accounting.pld.compose import Composed, compose
from privledger.accounting.pld.lattice import (
    HARD_SIZE,
    SOFT_SIZE,
    Aim,
    Lattice,
    choose,
    felt,
    offset_of,
)
from privledger.accounting.pld.masses import Masses, upper_masses
from privledger.accounting.pld.merged import lower_masses
from privledger.accounting.pld.pairs import AtomPair, BoundedRangePair, Pair
from privledger.accounting.pld.probe import Probe, tilt_for_delta, tilt_for_epsilon
from privledger.accounting.pld.solve import Profile, profile

Items = tuple[tuple[Pair, int], ...]
TOLERANCE = 2e-6
_PASSES = 2
_ENOUGH = 10.0  # times the tolerance: what a mesh may add before it is chosen again
_FINE_SIZE = HARD_SIZE
LOWER_TOLERANCE = 1e-6  # of a lower bound, which the mesh costs half as much
_FINEST = 0.01  # share of its tolerance that another mesh may add
_LOST = 1e-7  # share of delta that cutting off the far tail may cost


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


def epsilon_upper(items: Items, delta: float, tolerance: float = TOLERANCE,
                  soft: int = SOFT_SIZE) -> Found:
    """An epsilon that the composition has at `delta`; infinity if none could be certified."""
    whole, probe, tilt = _gather(items, lambda probe: tilt_for_delta(probe, delta))
    value, lattice, _ = _upper(probe, whole, delta, tilt, tolerance, soft)
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
    lattice = choose(probe, items, tilt, tolerance, soft=soft)
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
        better = choose(probe, items, tilt, tolerance, soft=_FINE_SIZE, aim=aim)
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
    lattice = choose(probe, items, tilt, tolerance, soft=soft, both_ends=True)
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
        lattice = choose(probe, items, tilt, finer, soft=_FINE_SIZE, both_ends=True, aim=aim)
        if felt(probe, lattice, aim) > 0.7 * guessed:
            break
    return best


def delta_upper(items: Items, epsilon: float, tolerance: float = TOLERANCE,
                soft: int = SOFT_SIZE) -> Found:
    """A delta that the composition has at `epsilon`."""
    whole, probe, tilt = _gather(items, lambda probe: tilt_for_epsilon(probe, epsilon))
    guess = math.exp(max(-690.0, min(0.0, probe.log_delta(tilt)[0])))
    lattice = choose(probe, whole.rough(), tilt, tolerance, soft=soft)
    curve: Profile = profile(_upper_sum(probe, whole, lattice, guess), upper=True)
    tight = _tight(items)
    # Where pairs only dominate, Renyi DP may say less, and is always asked.
    return Found(min(1.0, curve.delta(epsilon)), lattice, tight, math.inf if tight else -math.inf)


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
