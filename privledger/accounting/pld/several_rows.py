"""Losses of several rows of one person, and of a row exchanged for another.

Each release is taken by itself: a group for every release is a group for all, and so is an
exchange. Proofs: docs/proofs/relations.md. Where nothing is proved here the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable

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
    discrete_laplace_pair,
    pure_pair,
)
from privledger.accounting.pld.sampled_pairs import RemovePair
from privledger.rounding import multiply_up

_HIGHEST_PURE = 600.0
_HIGHEST_MU = 1e4


def grouped(losses: Losses, rows: int) -> Losses | None:
    """Up to `rows` rows of one person come together, or go together, or are all exchanged."""
    remove = _each(losses.remove, lambda lane: _rows(lane, rows))
    if losses.symmetric:
        return None if remove is None else both_ways(remove)
    add = _each(losses.add, lambda lane: _rows(lane, rows))
    return None if remove is None or add is None else Losses(remove, add)


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


def _exchange(lane: Lane) -> Lane | None:
    """A sample drawn row by row meets the row that goes and the one that comes alike."""
    if isinstance(lane, CoinPair):
        return _exchanged(lane)
    if not isinstance(lane, Sampled):
        return _rows(lane, 2)
    return evolve(lane, kind="replace") if _listed(lane, lane.rows) else None


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
        return evolve(lane, rows=several) if _listed(lane, several) else None
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


def _listed(lane: Sampled, rows: int) -> bool:
    return lane.kind != "fixed" and 0 < lane.rate < 1 and only_gaussian(lane.inner)


def _pure_rows(lane: AtomPair, rows: int) -> AtomPair | None:
    """Of anything without infinite losses: so many steps of pure DP, or of whole-number noise."""
    if lane.infinite or lane.q_only:
        return None
    epsilon, steps = lane.steps or (max(abs(loss) for loss in lane.loss), 1)
    most = multiply_up(epsilon, float(steps * rows))
    if not 1e-12 <= most <= _HIGHEST_PURE:
        return None
    tight = lane.tight and lane.steps is not None and steps > 1
    return discrete_laplace_pair(epsilon, steps * rows, tight=tight) or pure_pair(
        most, tight=False)
