"""Losses of several rows of one person, and of a row exchanged for another.

Each release is taken by itself: a group for every release is a group for all, and so is an
exchange. Proofs: docs/proofs/relations.md. Where nothing is proved here the answer is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from attrs import evolve

from privledger.accounting.pld.losses import (
    Lane,
    Losses,
    Sampled,
    Together,
    both_ways,
    only_gaussian,
)
from privledger.accounting.pld.mixtures import CoinPair, MixturePair, binomial, held
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


def grouped(losses: Losses, rows: int) -> Losses | None:
    """Up to `rows` rows of one person come together, or go together, or are all exchanged."""
    remove = _each(losses.remove, lambda lane: _rows(lane, rows))
    if losses.symmetric:
        return None if remove is None else both_ways(remove)
    add = _each(losses.add, lambda lane: _rows(lane, rows))
    return None if remove is None or add is None else Losses(remove, _added(remove, add))


def replaced(losses: Losses) -> Losses | None:
    """One row goes and another comes: losses for replace-one of what is stated for
    add-or-remove-one, in both directions alike."""
    lane = _each(losses.remove, _exchange)
    return None if lane is None else both_ways(lane)


def _each(lane: Lane, change: Callable[[Lane], Lane | None]) -> Lane | None:
    """`change` of every release in `lane`; None if there is none for one of them."""
    if not isinstance(lane, Together):
        return change(lane)
    parts: list[tuple[Lane, int]] = []
    for part, count in lane.parts:
        changed = _each(part, change)
        if changed is None:
            return None
        parts.append((changed, count))
    return Together(tuple(parts))


def _added(remove: Lane, add: Lane) -> Lane:
    """`add` with the steps of `remove`: both directions are made from a row that comes."""
    if isinstance(remove, Together) and isinstance(add, Together):
        pairs = zip(remove.parts, add.parts, strict=True)
        return Together(tuple((_added(one[0], other[0]), other[1]) for one, other in pairs))
    if isinstance(remove, Sampled) and remove.steps:
        return evolve(remove, kind="add")
    return add


def _exchange(lane: Lane) -> Lane | None:
    """A sample drawn row by row meets the row that goes and the one that comes alike."""
    if isinstance(lane, CoinPair):
        return _exchanged(lane)
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
    if isinstance(lane, LaplacePair):
        epsilon = multiply_up(lane.epsilon, float(rows))
        return LaplacePair(epsilon) if epsilon <= _HIGHEST_PURE else None
    if isinstance(lane, BoundedRangePair):
        eta = multiply_up(lane.eta, float(rows))
        return BoundedRangePair(eta) if eta <= _HIGHEST_PURE else None
    return _pure_rows(lane, rows) if isinstance(lane, AtomPair) else None


def _of_any(lane: Sampled, rows: int) -> Sampled | None:
    """Of any child: its lanes for one row, two rows, ..., and for all rows, which stand for every
    number of them that is rare."""
    if lane.kind == "fixed" or not held(lane.rate, rows):
        return None
    chances = binomial(lane.rate, rows)
    few = next((few for few in range(1, rows) if math.fsum(chances[few + 1:]) < _RARE), rows)
    few = min(few, _FEW if isinstance(lane.inner, Together) else rows)
    many = [*range(1, few), rows] if few < rows else [*range(1, rows + 1)]
    steps = [lane.inner if one == 1 else _each(lane.inner, partial(_rows, rows=one))
             for one in many]
    known = tuple(step for step in steps if step is not None)
    if len(known) < len(steps):
        return None
    rest = math.fsum(chances[len(many):])
    return evolve(lane, rows=rows, steps=known, weights=(*chances[:len(many)], rest))


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
