"""Pairs that some neighbours and some mechanism of a node do have: what lower bounds are made of.

A pair that only dominates is replaced by one that is attained below it; where none is known, that
part is left out, as it would be if it released nothing (docs/proofs/privacy-loss.md, "From below").
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.allocated import (
    ROWS,
    AllocatedPair,
    allocation_grid,
    between_cuts,
    fine_for,
    single_grid,
)
from privledger.accounting.pld.mixtures import CoinPair, MixturePair
from privledger.accounting.pld.pairs import (
    NO_ATOMS,
    UNIT,
    Atoms,
    Bands,
    BoundedRangePair,
    Items,
    Pair,
    bounded_tail,
    pure_pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair

# --- A record in one of several rounds of Gaussian noise, from below: ratios put together.
#
# As `allocated`, but ratios that lie in one cell of a grid become one, at their mean. That is what
# an observer of the cell alone sees, so the pair is dominated by the true one in both
# directions; what is beyond the grid is left out (docs/proofs/allocation.md, "From below").

_ONE = 5e-12  # relative error of the masses of a single ratio, and of their means
_MOST_LOOSE = 1e-5
_EDGES = 801  # of a pair's losses
_RARE = 1e-33  # Q mass, and P mass, that a stage may leave out
_LEAST = 1e-250  # the same; less loses its digits


@frozen(eq=False)
class Parts:
    """Of a sum of ratios under Q: `mass` at `place`, shape (n,), places rising.

    Attributes:
        loose: bound on the relative error of a mass, and of a place.
    """

    place: Array
    mass: Array
    loose: float


def _one(mu: float, far: bool = False) -> Parts:
    """One ratio, by quadrature within each cell of the grid."""
    grid = single_grid(mu, far)[1:]
    nodes, weights = np.polynomial.legendre.leggauss(10)
    left, width = grid[:-1, None], np.diff(grid)[:, None]
    x = left + width * 0.5 * (1 + nodes)
    z = np.log(x) / mu + 0.5 * mu
    cell = 0.5 * weights * width * np.exp(-0.5 * z * z) / (x * mu * math.sqrt(2 * math.pi))
    mass = cell.sum(axis=1)
    kept = _seen(mass, mass * grid[1:])
    return Parts(((cell * x).sum(axis=1)[kept] / mass[kept]), mass[kept], _ONE)


def _seen(q: Array, p: Array) -> NDArray[np.bool_]:
    """Which of two kinds of masses are kept: where either is not rare."""
    return np.asarray((np.minimum(q, p) > _LEAST) & (np.maximum(q, p) > _RARE))


def _of_pair(pair: Pair) -> Parts:
    """Those of any pair, from masses between losses."""
    atoms, (loss, _) = pair.atoms(), pair.probe()
    edges = np.linspace(float(loss.min()), float(loss.max()), _EDGES)
    bands = pair.bands(np.concatenate([[-math.inf], edges, [math.inf]]))
    seen = _seen(bands.q, bands.p) & (bands.p > 1e11 * bands.slack_p) & (
        bands.q > 1e11 * bands.slack_q)
    q = np.append(bands.q[seen], atoms.p * np.exp(-atoms.loss))
    place = np.append(bands.p[seen] / bands.q[seen], np.exp(atoms.loss))
    order = np.argsort(place, kind="stable")
    return Parts(place[order], q[order], 4e-11 + atoms.raised + 4 * atoms.blur)


def _sum(one: Parts, other: Parts, total: int, variance: float) -> Parts:
    """The sum of both: what lies in one cell of a grid becomes one, at its mean."""
    grid = allocation_grid(float(total), math.sqrt(total * variance),
                   float(one.place[0] + other.place[0]),
                   float(one.place[-1] + other.place[-1]), fine_for(variance))
    mass, moment = np.zeros(len(grid)), np.zeros(len(grid))
    for start in range(0, len(one.place), ROWS):
        check_time()
        first = start if one is other else 0  # a sum with itself: each pair once, counted twice
        at = (one.place[start:start + ROWS, None] + other.place[first:]).ravel()
        weight = one.mass[start:start + ROWS, None] * other.mass[first:]
        if one is other:
            weight[:, ROWS:] *= 2
        cell = np.searchsorted(grid, at, side="right") - 1
        mass += np.bincount(cell, weight.ravel(), len(grid))
        moment += np.bincount(cell, weight.ravel() * at, len(grid))
    loose = one.loose + other.loose + 4 * UNIT * (ROWS * len(other.place) + len(one.place) + 8)
    kept = _seen(mass, moment)
    return Parts(moment[kept] / mass[kept], mass[kept], loose)


@lru_cache(maxsize=64)
def attained_parts(steps: int, inner: float | Pair, far: bool = False) -> Parts:
    """The sum of `steps` ratios, below the true one in the convex order.

    Args:
        inner: one round, mu of Gaussian noise or a pair.
    """
    power, held = _one(inner, far) if isinstance(inner, float) else _of_pair(inner), 1
    variance = max(float(power.mass @ (power.place - 1) ** 2), 1e-300)
    found: Parts | None = None
    done, left = 0, steps
    while left:
        if left & 1:
            found = power if found is None else _sum(found, power, done + held, variance)
            done += held
        left >>= 1
        if left:
            power = _sum(power, power, 2 * held, variance)
            held *= 2
    assert found is not None
    return found


@frozen
class ContractedPair:
    """As `AllocatedPair`, dominated by what an allocation of such rounds attains."""

    steps: int
    inner: float | Pair
    add: bool
    far: bool = False
    tight: bool = field(default=True, init=False)

    @property
    def top(self) -> float:
        """The largest loss that is held."""
        return float(_tables(self.steps, self.inner, self.add, self.far)[0][-1])

    def bands(self, edges: Array) -> Bands:
        """Sums of masses between edges; see `Pair.bands`."""
        loss, p, q = _tables(self.steps, self.inner, self.add, self.far)
        cut = np.searchsorted(loss, edges, side="right")
        p_sums, q_sums = between_cuts(p, cut), between_cuts(q, cut)
        loose = 4 * attained_parts(self.steps, self.inner, self.far).loose + UNIT * (len(loss) + 4)
        first, last = int(cut[0]), int(cut[-1])
        finite = edges[np.isfinite(edges)]
        blur = 4 * UNIT * (float(np.max(np.abs(finite), initial=0.0)) + 8)
        return Bands(p_sums, q_sums, loose * p_sums, loose * q_sums,
                     float(p[:first].sum()), float(q[:first].sum()),
                     float(p[last:].sum()), float(q[last:].sum()), blur)

    def atoms(self) -> Atoms:
        """None: its losses are many, and stand in bands."""
        return NO_ATOMS

    def probe(self) -> tuple[Array, Array]:
        """Some 300 places, neighbours put together; see `Pair.probe`."""
        loss, p, _ = _tables(self.steps, self.inner, self.add, self.far)
        starts = np.arange(0, len(p), max(1, len(p) // 300))
        mass = np.add.reduceat(p, starts)
        mean = np.add.reduceat(p * loss, starts) / np.maximum(mass, 1e-300)
        return mean[mass > 0], mass[mass > 0]

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from the largest loss on, unknown below it."""
        return bounded_tail(self, edge)


@lru_cache(maxsize=64)
def _tables(steps: int, inner: float | Pair, add: bool, far: bool) -> tuple[Array, Array, Array]:
    """Losses, rising, with their masses under P and Q."""
    parts = attained_parts(steps, inner, far)
    ratio = parts.place / steps
    loss, q, p = np.log(ratio), parts.mass, parts.mass * ratio
    return (-loss[::-1], q[::-1], p[::-1]) if add else (loss, p, q)


_DOWN = 1 - 4e-16


def attained(pair: Pair) -> Pair | None:
    """What some neighbours have, dominated by `pair`; itself where it is attained."""
    if pair.tight:
        return pair
    if isinstance(pair, BoundedRangePair):
        return pure_pair(0.5 * pair.eta * _DOWN)  # two candidates, each ahead by half
    if isinstance(pair, AllocatedPair) and isinstance(pair.inner, float):
        return ContractedPair(pair.steps, pair.inner * _DOWN, pair.add, pair.far)
    if isinstance(pair, AllocatedPair):
        one = None if pair.exact is None else attained(pair.exact)
        # So many rounds that their errors add up to more than a lower bound can bear have none.
        return None if one is None or attained_parts(pair.steps, one).loose > _MOST_LOOSE else (
            ContractedPair(pair.steps, one, pair.add))
    if isinstance(pair, MixturePair) and pair.normal:
        # The fewest rows that a place may stand for: from above, more rows; from below, fewer.
        fewest = (0.0, *(place + 1 for place in pair.places[:-1]))
        return evolve(pair, places=fewest, tight=True)
    if isinstance(pair, CoinPair):
        return attained(pair.usual)  # so few other records that nothing is ever cut off
    if isinstance(pair, RemovePair | AddPair | FixedSizePair):
        inner = attained(pair.inner)
        if inner is None:
            return None
        # A sample of fixed size of records that are all alike, but for one.
        kind = AddPair if isinstance(pair, AddPair) else RemovePair
        return kind(pair.rate * _DOWN, inner)
    return None


def attained_items(items: Items) -> Items:
    """Every pair by one that is attained, with how often it runs; equal ones together."""
    counts: dict[Pair, int] = {}
    for pair, count in items:
        below = attained(pair)
        if below is not None:
            counts[below] = counts.get(below, 0) + count
    return tuple(counts.items())
