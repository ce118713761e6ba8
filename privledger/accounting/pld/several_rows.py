"""Losses of several rows of one person, and of a row exchanged for another.

Each release is taken by itself: a group for every release is a group for all, and so is an
exchange. Proofs: docs/proofs/relations.md. Of a release of which no more is known its power
function is taken as often as there are rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from attrs import evolve

from privledger.accounting.moments import by_doubling
from privledger.accounting.pld.losses import (
    Lane,
    Losses,
    Sampled,
    Stepped,
    Together,
    both_ways,
    only_gaussian,
)
from privledger.accounting.pld.mixtures import CoinPair, MixturePair, binomial, held, sum_of_rows
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    pure_pair,
)
from privledger.accounting.pld.sampled_pairs import RemovePair
from privledger.rounding import multiply_up

_HIGHEST_PURE = 600.0
_RARE = 1e-15  # chance of so many rows in a sample that all of them may stand for it
_FEW = 6  # numbers of rows for which several releases on one sample are put together
_HIGHEST_MU = 1e4


def grouped(losses: Losses, rows: int) -> Losses:
    """Up to `rows` rows of one person come together, or go together, or are all exchanged."""
    def added(add: Lane, remove: Lane) -> Lane:
        """Both directions of a sample are made from a row that comes."""
        changed = _rows(remove, rows)
        if isinstance(changed, Sampled) and changed.steps:
            return evolve(changed, kind="add")
        return _row_steps(add, remove, rows)

    remove = _each(losses.remove, losses.add, partial(_row_steps, rows=rows))
    return both_ways(remove) if losses.symmetric else Losses(
        remove, _each(losses.add, losses.remove, added))


def replaced(losses: Losses) -> Losses:
    """One row goes and another comes: losses for replace-one of what is stated for
    add-or-remove-one, in both directions alike."""
    return both_ways(_each(losses.remove, losses.add, lambda remove, add: (
        _exchange(remove) or Stepped(add, remove))))


def _each(lane: Lane, other: Lane, change: Callable[[Lane, Lane], Lane]) -> Lane:
    """`change` of every release in `lane`, and of the same in `other`, the other direction."""
    if isinstance(lane, Together) and isinstance(other, Together):
        return Together(tuple((_each(one, two, change), count) for (one, count), (two, _) in zip(
            lane.parts, other.parts, strict=True)))
    return change(lane, other)


def _stepped(lane: Lane, rows: int) -> Lane:
    """Row by row."""
    return by_doubling(lane, rows, Stepped)


def _exchange(lane: Lane) -> Lane | None:
    """A sample drawn row by row meets the row that goes and the one that comes alike."""
    if isinstance(lane, CoinPair):
        return _exchanged(lane)
    if isinstance(lane, MixturePair):
        return evolve(lane, down=lane.up)
    if not isinstance(lane, Sampled):
        return _rows(lane, 2)
    if lane.kind == "fixed":
        return None
    changed = evolve(lane, kind="replace")
    return changed if _listed(lane, lane.rows) else _of_any(changed, lane.rows)


def _exchanged(lane: CoinPair) -> CoinPair | None:
    """A sample that is cut off is full as often with either of the two rows: truncated.md."""
    pairs = []
    for pair in (lane.usual, lane.rare):
        if not (isinstance(pair, RemovePair) and isinstance(pair.inner, GaussianPair)
                and held(pair.rate, 1)):
            return None
        chances = binomial(pair.rate, 1)
        pairs.append(MixturePair(chances, chances, pair.inner.mu))
    return CoinPair(lane.share, *pairs)


def _rows(lane: Lane, rows: int) -> Lane | None:
    if isinstance(lane, Sampled):
        several = lane.rows * rows
        return evolve(lane, rows=several) if _listed(lane, several) else _of_any(lane, several)
    if isinstance(lane, GaussianPair):
        mu = multiply_up(lane.mu, float(rows))
        return GaussianPair(mu, lane.tight) if mu <= _HIGHEST_MU else None
    if isinstance(lane, MixturePair):
        return _amounts(lane, rows)
    if isinstance(lane, LaplacePair):
        epsilon = multiply_up(lane.epsilon, float(rows))
        return LaplacePair(epsilon) if epsilon <= _HIGHEST_PURE else None
    if isinstance(lane, BoundedRangePair):
        eta = multiply_up(lane.eta, float(rows))
        return BoundedRangePair(eta) if eta <= _HIGHEST_PURE else None
    return _pure_rows(lane, rows) if isinstance(lane, AtomPair) else None


def _amounts(lane: MixturePair, rows: int) -> MixturePair | None:
    """Each row adds an amount of its own."""
    if lane.places[-1] * rows > _HIGHEST_MU:
        return None
    law = sum_of_rows(lane.law, rows)
    up, down = (law.chances if len(side) > 1 else side for side in (lane.up, lane.down))
    return evolve(lane, up=up, down=down, places=law.places, loose=law.loose, tight=law.exact,
                  normal=law.exact)


def _of_any(lane: Sampled, rows: int) -> Sampled | None:
    """Of any child: its lanes for one row, two rows, ..., and for all rows, which stand for every
    number of them that is rare."""
    if lane.kind == "fixed" or not held(lane.rate, rows):
        return None
    chances = binomial(lane.rate, rows)
    few = next((few for few in range(1, rows) if math.fsum(chances[few + 1:]) < _RARE), rows)
    few = min(few, _FEW if isinstance(lane.inner, Together) else rows)
    many = [*range(1, few), rows] if few < rows else [*range(1, rows + 1)]
    steps = tuple(lane.inner if one == 1 else _each(lane.inner, lane.inner, partial(
        _row_steps, rows=one)) for one in many)
    rest = math.fsum(chances[len(many):])
    return evolve(lane, rows=rows, steps=steps, weights=(*chances[:len(many)], rest))


def _row_steps(lane: Lane, _: Lane, rows: int) -> Lane:
    return _rows(lane, rows) or _stepped(lane, rows)


def _listed(lane: Sampled, rows: int) -> bool:
    return lane.kind != "fixed" and 0 < lane.rate < 1 and only_gaussian(lane.inner)


def _pure_rows(lane: AtomPair, rows: int) -> AtomPair | None:
    """Of anything without infinite losses: so many steps of pure DP, or of whole-number noise."""
    if lane.normal is not None:
        sigma, shift = lane.normal
        return discrete_gaussian_pair(sigma, shift * rows)
    if lane.infinite or lane.q_only:
        return None
    epsilon, steps = lane.steps or (max(abs(loss) for loss in lane.loss), 1)
    most = multiply_up(epsilon, float(steps * rows))
    if not 1e-12 <= most <= _HIGHEST_PURE:
        return None
    tight = lane.tight and lane.steps is not None and steps > 1
    return discrete_laplace_pair(epsilon, steps * rows, tight=tight) or pure_pair(
        most, tight=False)
