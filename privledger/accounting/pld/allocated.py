"""A record in one of several rounds, chosen by a coin: its dominating pair.

With one round in `steps`, the likelihood ratio of both worlds is the mean of as many independent
ratios of one round: lognormal for Gaussian noise, else those of any dominating pair. Its law is
held on a grid of ratios, where every mass is shared by the two points next to it so that the mean
stays: that raises the profile in both directions (docs/proofs/allocation.md). All sums are of
positive numbers, so tails keep their digits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.pairs import UNIT, Atoms, Bands, Pair, bounded_tail

MOST_STEPS = 1 << 20
"""Rounds with a distribution of losses here: with more, the unsampled Gaussian counts."""

SMALLEST_MU, LARGEST_MU = 1e-2, 5.0
_FINE = 1 / 215  # of the deviation and of the way from the mean: how far grid points are apart
_APART = 3.0  # the same, of the place itself: quadrature sees smooth cells only
_REACH, _FARTHER = 8.5, 11.5  # deviations of the logarithm of one ratio that are kept
_SHORT = 16 * UNIT  # P mass that ratios have less than 1 for certain
_FEW = 1e-17  # Q mass of the least ratios of a list, which share what is next to the last
_NOTHING = 1e-15  # Q mass of the ratio 0 in a block
_RARE = 1e-30  # P mass that each stage may give up at its upper end
ROWS = 16
"""Of a table of sums at a time."""
_ONE = 5e-12  # relative error of the masses of a single ratio: tests compare them with mpmath


@frozen(eq=False)
class Law:
    """Of a sum of ratios under Q: `mass` at `place`, both of shape (n,), places rising, from 0 if
    not bounded.

    Attributes:
        variance: of one round's ratio, about. bounded: ratios lie between the first and last place.
        lost_p, lost_q: bounds on what was left out, of the whole run's P and Q mass.
        grown: bound on the logarithm of what rounding may have taken from a mass.
        stages: sums that were rounded to a grid one after another.
    """

    place: Array
    mass: Array
    lost_p: float
    lost_q: float
    grown: float
    stages: int
    variance: float = 1.0
    bounded: bool = False


@frozen
class Ratios:
    """One round from above: dP/dQ, falling, and the Q masses that it has.

    Attributes:
        infinite: P mass without Q mass. blur: nats by which a ratio may be too small.
    """

    ratio: tuple[float, ...]
    mass: tuple[float, ...]
    infinite: float
    blur: float

    @classmethod
    def of(cls, loss: Array, q: Array, infinite: float, least: float) -> Ratios:
        """Of tangents of a profile, with Q masses of 1 together and no ratio below `least`.

        The power function of the tangents may pass 1. So may not what a record does: the tangents
        count up to the line of slope `least` that ends at 1, less `_SHORT`; then all is `least`.
        """
        far = 0 if least else int(np.count_nonzero(np.cumsum(np.exp(loss) * q) <= _RARE))
        infinite, loss, q = infinite + (_RARE if far else 0.0), loss[far:], q[far:]
        ratio, short = np.exp(loss), 1 - infinite - _SHORT
        rest = np.cumsum(q[::-1])[::-1]
        sums = np.cumsum(ratio * q)
        whole = int(np.count_nonzero(sums + least * (rest - q) <= short))
        before = math.fsum(ratio[:whole] * q[:whole])
        left = max(0.0, 1 - math.fsum(q[:whole])) + UNIT
        top = float(ratio[whole]) if whole < len(q) else least
        part = (short - before - least * left) / (top - least) if top > least else 0.0
        part = min(max(0.0, part * (1 - 8 * UNIT)), left)
        ends = [one for one in ((top, part), (least, left - part)) if one[1] > 0]
        return cls((*ratio[:whole].tolist(), *(one for one, _ in ends)),
                   (*q[:whole].tolist(), *(one for _, one in ends)), infinite,
                   2 * _SHORT / max(1 - least, _SHORT))


def allocation_grid(mean: float, deviation: float, low: float, high: float, fine: float,
                    first: float = 0.0) -> Array:
    """Rising places from `low` to `high` with `first` before them, dense about the mean."""
    places = [mean]
    for end, sign in ((high, 1), (low, -1)):
        at, found = mean, []
        while (end - at) * sign > 0:
            width = fine * min(deviation + abs(at - mean), _APART * at)
            at += sign * width
            found.append(at if (end - at) * sign > 0 else end)
        places = places + found if sign > 0 else found[::-1] + places
    return np.array([first, *places] if first < places[0] else places)


def fine_for(variance: float) -> float:
    """How far apart grid points are, relatively: wider where one ratio is wide itself."""
    return _FINE * max(1.0, math.sqrt(math.log1p(variance)))


def _shared(grid: Array, at: Array, mass: Array) -> Array:
    """Each mass to the two grid points next to it, so that its mean stays; shape of `grid`."""
    left = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(grid) - 2)
    width = grid[left + 1] - grid[left]
    up = mass * ((at - grid[left]) / width)
    down = mass * ((grid[left + 1] - at) / width)
    return np.asarray(np.bincount(left + 1, np.maximum(up, 0.0), len(grid))
                      + np.bincount(left, np.maximum(down, 0.0), len(grid)), dtype=np.float64)


def single_grid(mu: float, far: bool = False) -> Array:
    """The grid of a single ratio; with `far`, 7e-31 of the P mass lies beyond, else 1e-17."""
    low = math.exp(-_REACH * mu - 0.5 * mu * mu)
    high = math.exp((_FARTHER if far else _REACH) * mu + 0.5 * mu * mu)
    variance = math.expm1(mu * mu)
    return allocation_grid(1.0, math.sqrt(variance), low, high, fine_for(variance))


def _one(mu: float, steps: int, far: bool = False) -> Law:
    """One ratio exp(mu z - mu^2/2), z normal: by quadrature within each cell of the grid."""
    from scipy.special import ndtr

    grid, reach = single_grid(mu, far), _FARTHER if far else _REACH
    nodes, weights = np.polynomial.legendre.leggauss(10)
    left, width = grid[1:-1, None], np.diff(grid[1:])[:, None]
    share = 0.5 * (1 + nodes)
    x = left + width * share
    z = np.log(x) / mu + 0.5 * mu
    cell = 0.5 * weights * width * np.exp(-0.5 * z * z) / (x * mu * math.sqrt(2 * math.pi))
    mass = np.zeros(len(grid))
    mass[2:] += (cell * share).sum(axis=1)
    mass[1:-1] += (cell * (1 - share)).sum(axis=1)
    # Below the grid: all at 0 and at its first point, so that the mean stays or grows.
    under = float(ndtr(-_REACH)) * (1 + _ONE)
    mass[0] += under
    mass[1] += under
    # Above it: Q mass, and P mass where this round has the record, are lost.
    over_p, over_q = float(ndtr(-reach)), float(ndtr(-reach - mu))
    return Law(grid, mass * (1 + _ONE), (over_p + steps * over_q) * (1 + 1e-9),
               steps * over_q * (1 + 1e-9), 0.0, 1, math.expm1(mu * mu))


def _listed(one: Ratios) -> Law:
    """Those of a list, shared between the points of a grid; all lie between its ends."""
    at, mass = np.array(one.ratio), np.array(one.mass)
    variance = max(float(mass @ np.minimum(at - 1, 1e150) ** 2), 1e-300)
    low, high = float(at.min()), float(at.max())
    if not high > 0:  # all that P does is infinite: a round is no better than no allocation
        raise TooMuch
    seen = (at > 0) & (np.cumsum(mass[::-1])[::-1] > _FEW)
    grid = allocation_grid(1.0, math.sqrt(variance), float(at[seen].min()), high,
                           fine_for(variance), low)
    return Law(grid, _shared(grid, at, mass), one.infinite, 0.0, 0.0, 1, variance, low > 0)


def _sum(one: Law, other: Law, rounds: tuple[int, int], steps: int) -> Law:
    """The law of the sum of both, which are of so many `rounds`, on a grid of its own."""
    total = sum(rounds)
    # Sums with a first point count only where it is not next to nothing.
    first = int(one.mass[0] < _NOTHING and not one.bounded)
    grid = allocation_grid(float(total), math.sqrt(total * one.variance),
                           max(float(one.place[first] + other.place[first]),
                               float(one.place[1]) if not one.bounded else 0.0, 1e-300),
                           float(one.place[-1] + other.place[-1]), fine_for(one.variance),
                           float(one.place[0] + other.place[0]))
    mass = np.zeros(len(grid))
    for start in range(0, len(one.place), ROWS):
        check_time()
        first = start if one is other else 0  # a sum with itself: each pair once, counted twice
        at = one.place[start:start + ROWS, None] + other.place[first:]
        weight = one.mass[start:start + ROWS, None] * other.mass[first:]
        if one is other:
            weight[:, ROWS:] *= 2
        mass += _shared(grid, at.ravel(), weight.ravel())
    # One bin adds up at most so many products.
    grown = one.grown + other.grown + 2 * UNIT * (ROWS * len(other.place) + len(one.place) + 8)
    return _cut(Law(grid, mass, 0.0, 0.0, grown, max(one.stages, other.stages) + 1,
                    one.variance, one.bounded), total, steps)


def _cut(law: Law, rounds: int, steps: int) -> Law:
    """Without the upper end that hardly ever happens, in any block of so many rounds; of bounded
    ratios it is shared between the last point and the rest, so that nothing is lost."""
    every = law.mass
    p = law.place * every / rounds
    blocks = steps / rounds
    cost = np.cumsum((p + blocks * every)[::-1])[::-1]
    kept = max(3, int(np.count_nonzero(cost > _RARE)))
    if law.bounded and kept < len(every) - 1:
        ends = np.array([law.place[kept - 1], law.place[-1]])
        moved = _shared(ends, law.place[kept:], every[kept:])
        law = evolve(law, place=np.append(law.place[:kept], law.place[-1]),
                     mass=np.append(every[:kept], moved[1]),
                     grown=law.grown + 8 * UNIT * len(every))
        law.mass[kept - 1] += moved[0]
        return _raised(law, kept + 1)
    if law.bounded:
        return _raised(law, len(every))
    law = _raised(law, kept)
    rare_p, rare_q = float(cost[kept]) if kept < len(cost) else 0.0, float(
        every[kept:].sum()) * blocks
    return evolve(law, lost_p=law.lost_p + rare_p * (1 + 1e-9),
                  lost_q=law.lost_q + rare_q * (1 + 1e-9))


def _raised(law: Law, kept: int) -> Law:
    """The points up to `kept`, and the small ones that hardly ever happen shared between the first
    and the next, so that the mean stays: fewer points for every later sum."""
    place, mass = law.place[:kept], law.mass[:kept]
    few = min(int(np.count_nonzero(np.cumsum(mass[1:]) <= _RARE)), kept - 3)
    if few <= 0:
        return evolve(law, place=place, mass=mass)
    ends = np.array([place[0], place[few + 1]])
    moved = _shared(ends, place[1:few + 1], mass[1:few + 1])
    rest = mass[few:].copy()
    rest[0], rest[1] = mass[0] + moved[0], rest[1] + moved[1]
    return evolve(law, place=np.concatenate([place[:1], place[few + 1:]]), mass=rest,
                  grown=law.grown + 2 * UNIT * (few + 8))


@lru_cache(maxsize=64)
def ratio_law(steps: int, inner: float | Ratios, far: bool = False) -> Law:
    """The law of the sum of `steps` ratios, above the true one in the convex order.

    Args:
        inner: one round, mu of Gaussian noise or ratios.
    """
    power = _listed(inner) if isinstance(inner, Ratios) else _one(inner, steps, far)
    held, each = 1, 64 * UNIT if isinstance(inner, Ratios) else _ONE + 64 * UNIT
    lost_p, lost_q = power.lost_p, power.lost_q
    found: Law | None = None
    done, left = 0, steps
    while left:
        if left & 1:
            found = power if found is None else _sum(found, power, (done, held), steps)
            done += held
            lost_p, lost_q = lost_p + found.lost_p, lost_q + found.lost_q
        left >>= 1
        if left:
            power = _sum(power, power, (held, held), steps)
            held *= 2
            lost_p, lost_q = lost_p + power.lost_p, lost_q + power.lost_q
    assert found is not None
    # Every ratio's masses, and every rounding of sums of them, count once for each copy.
    grown = 2 * steps * each + found.grown
    return evolve(found, mass=found.mass * (1 + 2 * grown), lost_p=lost_p, lost_q=lost_q,
                  grown=grown)


@frozen
class AllocatedPair:
    """A record that is in one of `steps` rounds against none, or (`add`) the reverse.

    P is the mean over i of N(mu e_i, I), Q is N(0, I); for `add` they are exchanged. So with any
    pair of one round, of which `inner` are the ratios. What is held dominates it and is not
    attained: a lower bound takes a `ContractedPair`.

    Attributes:
        far: whether deltas are asked for that are so tiny that more of a ratio must be kept.
        rare: P mass of the largest losses that counts as infinite. A largest loss that hardly ever
            occurs would rule a lattice. exact: the pair whose ratios were taken.
    """

    steps: int
    inner: float | Ratios
    add: bool
    rare: float = 0.0
    exact: Pair | None = None
    far: bool = False
    tight: bool = field(default=False, init=False)

    def _table(self) -> tuple[Array, Array, Array]:
        """Losses, rising, with their masses under P and Q; without the ratio 0."""
        return _tables(self.steps, self.inner, self.add, self.rare, self.far)[:3]

    @property
    def top(self) -> float:
        """The largest finite loss on the grid."""
        return float(self._table()[0][-1])

    def bands(self, edges: Array) -> Bands:
        """Sums of the grid's masses between edges; see `Pair.bands`."""
        loss, p, q = self._table()
        cut = np.searchsorted(loss, edges, side="right")
        p_sums, q_sums = between_cuts(p, cut), between_cuts(q, cut)
        loose = UNIT * (len(loss) + 4)
        first, last = int(cut[0]), int(cut[-1])
        finite = edges[np.isfinite(edges)]
        law = ratio_law(self.steps, self.inner, self.far)
        blur = 4 * UNIT * (float(np.max(np.abs(finite), initial=0.0)) + 2 * law.stages + 8)
        blur += self.inner.blur if isinstance(self.inner, Ratios) else 0.0
        return Bands(p_sums, q_sums, loose * p_sums, loose * q_sums,
                     float(p[:first].sum()) * (1 + loose), float(q[:first].sum()) * (1 + loose),
                     float(p[last:].sum()) * (1 + loose), float(q[last:].sum()) * (1 + loose),
                     blur)

    def atoms(self) -> Atoms:
        """What has no finite loss: mass that was left out, and the ratio 0."""
        law = ratio_law(self.steps, self.inner, self.far)
        none = np.zeros(0)
        mixture, plain = law.lost_p, law.lost_q + float(law.mass[0]) * (law.place[0] == 0)
        if self.add:
            mixture, plain = plain, mixture
        *_, p, q = _tables(self.steps, self.inner, self.add, self.rare, self.far)
        mixture, plain = mixture + p, plain + q
        return Atoms(none, none, min(1.0, mixture), min(1.0, plain))

    def probe(self) -> tuple[Array, Array]:
        """Some 300 places, neighbours put together; see `Pair.probe`."""
        loss, p, _ = self._table()
        width = max(1, len(p) // 300)
        starts = np.arange(0, len(p), width)
        mass = np.add.reduceat(p, starts)
        mean = np.add.reduceat(p * loss, starts) / np.maximum(mass, 1e-300)
        return mean[mass > 0], mass[mass > 0]

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from the largest loss on the grid on, unknown below it."""
        return bounded_tail(self, edge)


def between_cuts(mass: Array, cut: NDArray[np.int64]) -> Array:
    """Sums of `mass` from each cut to the next, each of positive numbers only."""
    sums = np.zeros(len(cut) - 1)
    full = np.flatnonzero(cut[1:] > cut[:-1])
    if len(full):
        sums[full] = np.add.reduceat(np.append(mass, 0.0), np.append(cut[full], cut[full[-1] + 1])
                                     )[:-1]
    return sums


@lru_cache(maxsize=64)
def _tables(steps: int, inner: float | Ratios, add: bool,
            rare: float, far: bool) -> tuple[Array, Array, Array, float, float]:
    """Losses, rising, their masses under P and Q, and both of those that are too rare to list."""
    law = ratio_law(steps, inner, far)
    first = int(law.place[0] == 0)
    ratio, q = law.place[first:] / steps, law.mass[first:]
    loss, p = np.log(ratio), q * ratio
    if add:
        loss, p, q = -loss[::-1], q[::-1], p[::-1]
    kept = max(1, int(np.count_nonzero(np.cumsum(p[::-1]) > rare))) if rare else len(p)
    beyond = [float(one[kept:].sum()) * (1 + 1e-9) for one in (p, q)]
    return loss[:kept], p[:kept], q[:kept], beyond[0], beyond[1]
