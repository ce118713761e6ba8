"""Scores of outputs, learned where the truth is known: high ones speak for the second table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

# Bets against a privacy claim: wealth that grows only if the claim is false.
#
# docs/proofs/guessing.md has the theorem.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHARES = (0.1, 0.25, 0.45, 0.7, 0.95)
"""What part of the most that may be staked a bettor stakes; by Kelly's rule it depends on how
false the claim is, which is not known."""


@frozen
class BetClaim:
    """(epsilon, delta) indistinguishability of the two tables, in both directions."""

    epsilon: float
    delta: float = 0.0

    def stakes(self) -> Floats:
        """What a whole stake gains on a wrong guess, on none, and on a right one: shape (3,).

        right - e^epsilon wrong - delta, over the most that it may lose: its mean is at most 0.
        """
        price = math.exp(min(self.epsilon, 700.0))
        return np.array([-price - self.delta, -self.delta, 1 - self.delta]) / (price + self.delta)


def for_a_group(epsilon: float, delta: float, records: int) -> BetClaim:
    """What (epsilon, delta) says of tables that differ in so many records."""
    if records == 1:
        return BetClaim(epsilon, delta)
    steps = sum(math.exp(min(step * epsilon, 700.0)) for step in range(records))
    return BetClaim(records * epsilon, min(1.0, delta * steps))


def log_factors(stakes: Floats) -> Floats:
    """Log wealth by outcome (wrong, none, right), claim and share, shape (3, claims, shares).

    Args:
        stakes: shape (claims, 3).
    """
    return np.asarray(np.log1p(np.moveaxis(stakes, -1, 0)[..., None] * np.array(SHARES)))


class BetAccount:
    """Many bettors, each with a share of one unit at first; what counts is their sum.

    A bettor has a rule of guessing (a score, and a way to bet on it), a claim and a share. None
    takes from another, so the sum is a nonnegative supermartingale where each of them is one.

    Args:
        weights: of the rules, shape (scores, ways), summing to 1.
    """

    def __init__(self, claims: Sequence[BetClaim], weights: Floats) -> None:
        self.table = log_factors(np.stack([claim.stakes() for claim in claims]))
        shape = (*weights.shape, *self.table.shape[1:])
        prior = np.log(weights / math.prod(shape[2:]))[:, :, None, None]
        self.prior = np.broadcast_to(prior, shape)
        self.held = self.prior.copy()

    def favourite(self) -> tuple[int, int]:
        """The rule, score and way, that holds the most."""
        where = np.unravel_index(int(self.held.max(axis=(2, 3)).argmax()), self.held.shape[:2])
        return int(where[0]), int(where[1])

    def best(self) -> float:
        """Log growth of the bettor who won the most."""
        return float((self.held - self.prior).max())

    def settle(self, outcomes: Ints) -> Floats:
        """Pay out, and say the log of the sum after each fit.

        Args:
            outcomes: -1, 0 or 1 by fit and rule, shape (fits, scores, ways).
        """
        path = self.held + np.cumsum(self.table[outcomes + 1], axis=0)
        self.held = path[-1]
        return log_sum(path.reshape(len(outcomes), -1))


def log_sum(logs: Floats) -> Floats:
    """log of sum of exp along the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - most).sum(axis=-1)) + most[..., 0])


LEVELS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.93)
"""Share of the outputs on each side of the cut that are too close to it to be guessed."""

SIDES = (0.8, 0.1, 0.1)
"""How much is bet by those who guess both tables, the second only, and the first only."""

NAMES = ("outputs along the learned direction", "one output", "likelier bins",
         "distance from the middle", "one output as a whole")
MOST_PLACES, WIDEST, SHRINK, MOST_BINS = 64, 20.0, 0.1, 24


@frozen(eq=False)
class BetScore:
    """A number for every output, and where to guess.

    Attributes:
        of: from outputs, shape (runs, k), to numbers, shape (runs,).
        low, high: below and above which the first and the second table are guessed, one pair
            for each of `LEVELS`.
    """

    name: str
    of: Callable[[Floats], Floats]
    low: Floats
    high: Floats

    def guesses(self, values: Floats) -> Ints:
        """1 for the second table, -1 for the first, 0 for neither.

        Shape (runs, sides times levels): all levels of both sides first.
        """
        found = self.of(values)[:, None]
        second, first = (found > self.high).astype(np.int64), (found < self.low).astype(np.int64)
        return np.concatenate([second - first, second, -first], axis=1)


def shares_of_bets() -> Floats:
    """Weight of each column of `BetScore.guesses`; they sum to 1."""
    return np.repeat(np.array(SIDES) / len(LEVELS), len(LEVELS))


def learned(values: Floats, second: NDArray[np.bool_]) -> tuple[BetScore, ...]:
    """One score for each of `NAMES`, in their order; none while one table has no output yet.

    Args:
        values: outputs, shape (runs, k). second: whether they came from the second table.
    """
    if second.all() or not second.any():
        return ()
    ruler = _Ruler.of(values)
    z = ruler.measure(values)
    apart = z[second].mean(axis=0) - z[~second].mean(axis=0)
    places = np.argsort(-np.abs(apart), kind="stable")[:MOST_PLACES]
    best, sign = places[0], 1.0 if apart[places[0]] >= 0 else -1.0
    weights = _direction(z[:, places], apart[places], second)

    def along(v: Floats) -> Floats:
        return np.asarray(ruler.measure(v)[:, places] @ weights)

    def far(v: Floats) -> Floats:
        return np.asarray(np.abs(ruler.measure(v)).max(axis=1))

    turned = 1.0 if far(values[second]).mean() >= far(values[~second]).mean() else -1.0
    ways: tuple[Callable[[Floats], Floats], ...] = (
        along, lambda v: sign * v[:, best], _binned(along(values), second, along),
        lambda v: turned * far(v), _whole(values, second))
    centred = (False, False, True, False, True)
    return tuple(_placed(name, way, values, second, zero)
                 for name, way, zero in zip(NAMES, ways, centred, strict=True))


@frozen(eq=False)
class _Ruler:
    """Outputs in units of their own spread, far ones brought near: one must not rule all."""

    middle: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats) -> _Ruler:
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
        spread = np.where(high > low, (high - low) / 1.35, values.std(axis=0))
        return cls(middle, np.where(spread > 0, spread, 1.0))

    def measure(self, values: Floats) -> Floats:
        return np.asarray(np.clip((values - self.middle) / self.spread, -WIDEST, WIDEST))


def _direction(z: Floats, apart: Floats, second: NDArray[np.bool_]) -> Floats:
    """Fisher's linear discriminant, its covariance drawn towards its own diagonal."""
    inside = z - np.where(second[:, None], z[second].mean(axis=0), z[~second].mean(axis=0))
    spread = inside.T @ inside / len(z)
    diagonal = np.diag(spread).copy()
    # As much as so few runs cannot know; a little always, for outputs that are equal.
    share = min(1.0, SHRINK + len(diagonal) / len(z))
    ridge = share * np.diag(diagonal) + 1e-6 * np.eye(len(diagonal))
    return np.asarray(np.linalg.solve((1 - share) * spread + ridge, apart))


def _log_ratio(second: Floats, first: Floats) -> Floats:
    return np.asarray(np.log((second + 0.5) / (first + 0.5)))


def _binned(seen: Floats, second: NDArray[np.bool_],
            along: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Log ratio of the counts in the bin of the direction: for outputs that are not in order."""
    bins = int(np.clip(len(seen) // 16, 2, MOST_BINS))
    edges = np.unique(np.quantile(seen, np.arange(1, bins) / bins))
    counts = [np.bincount(np.searchsorted(edges, seen[one]), minlength=len(edges) + 1)
              for one in (second, ~second)]
    ratio = _log_ratio(*(count.astype(np.float64) for count in counts))
    return lambda v: ratio[np.searchsorted(edges, along(v))]


def _whole(values: Floats, second: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """Log ratio of how often this very output was seen; 0 for a new one."""
    known: dict[bytes, list[float]] = {}
    for row, place in zip(values, second, strict=True):
        known.setdefault(row.tobytes(), [0.0, 0.0])[int(place)] += 1
    table = {key: float(_log_ratio(np.array(two), np.array(one)))
             for key, (one, two) in known.items()}
    return lambda v: np.array([table.get(row.tobytes(), 0.0) for row in v])


def _placed(name: str, way: Callable[[Floats], Floats], values: Floats,
            second: NDArray[np.bool_], zero: bool) -> BetScore:
    """The score with its cut, and around it the edges of every level."""
    seen = way(values)
    cut = 0.0 if zero else _best_cut(seen, second)
    above, below = seen[seen > cut], seen[seen < cut]
    high = np.quantile(above, LEVELS) if len(above) else np.full(len(LEVELS), np.inf)
    low = np.quantile(below, 1 - np.array(LEVELS)) if len(below) else np.full(len(LEVELS), -np.inf)
    # Level 0 guesses whatever is not at the cut; the others what is beyond an output seen.
    high, low = np.nextafter(high, -np.inf), np.nextafter(low, np.inf)
    high[0] = low[0] = cut
    return BetScore(name, way, low, high)


def _best_cut(seen: Floats, second: NDArray[np.bool_]) -> float:
    """Halfway between two outputs: where most of each table is on its own side."""
    order = np.argsort(seen, kind="stable")
    ordered, truth = seen[order], second[order]
    rises = np.cumsum(~truth) / (~truth).sum() - np.cumsum(truth) / truth.sum()
    gaps = np.flatnonzero(ordered[1:] > ordered[:-1])
    if not len(gaps):
        return float(ordered[0])
    place = gaps[np.argmax(rises[gaps])]
    return float(ordered[place] / 2 + ordered[place + 1] / 2)
