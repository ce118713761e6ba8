"""Bets against a privacy claim: wealth that grows only if the claim is false.

docs/proofs/guessing.md has the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

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
