"""Exact selection: how sharply a mechanism may choose by a score of known sensitivity."""

from __future__ import annotations

from typing import Any, Protocol

from attrs import frozen

from privledger.errors import UnsupportedNode
from privledger.mechanisms import Exponential, PermuteAndFlip, ReportNoisyMax, TopK
from privledger.rounding import down, moderate

CHOOSERS = (Exponential, PermuteAndFlip, ReportNoisyMax, TopK)


@frozen
class Bound:
    """How far a record that comes or goes moves a score.

    Attributes:
        sensitivity: the largest change, either way.
        change: smallest and largest change as a record comes, in units of the sensitivity.
    """

    sensitivity: float
    change: tuple[float, float]


class Scored(Protocol):
    """A question whose answer is a choice by a score."""

    @property
    def bound(self) -> Bound:
        """How far one neighbour moves a score, and which way."""

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change of a score, with room for rounding."""

    def check_chooser(self, mechanism: Any) -> None:
        """Raise `UnsupportedNode` unless permute-and-flip, or top-k, chooses such things."""


def flips(mechanism: object) -> bool:
    """Whether a choice is drawn by permute-and-flip: what noisy max is with exponential noise."""
    return isinstance(mechanism, PermuteAndFlip) or (
        isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "exponential")


def rate_of(mechanism: Any, choice: Scored, relation: str) -> float:
    """What a score is multiplied by, such that `mechanism` costs what its node says.

    Raises:
        UnsupportedNode: no exact sampler, or a score that moves further than the node says.
    """
    if type(mechanism) not in CHOOSERS:
        raise UnsupportedNode(f"{type(mechanism).__name__} does not choose; nothing was read")
    least, most = choice.bound.change
    sensitivity = choice.sensitivity(relation)
    epsilon = down(mechanism.epsilon)  # no more than `rounding.as_promised` of it, which is charged
    if isinstance(mechanism, Exponential):
        low, high = mechanism.score_change
        if not (low <= least and most <= high):
            raise UnsupportedNode(
                f"one record moves the score by {least:g} to {most:g} sensitivities, the "
                f"mechanism says {low:g} to {high:g}; nothing was read")
        rate = epsilon / (2 * sensitivity)
    else:
        if isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "laplace":
            raise UnsupportedNode("noisy max with Laplace noise has no exact sampler here: take "
                                  "exponential or gumbel noise. Nothing was read")
        choice.check_chooser(mechanism)
        # A common shift of all scores changes nothing: only the width of the interval counts.
        rate = epsilon / (sensitivity * (most - least))
    rate = down(down(rate))
    moderate("selection rate", rate)
    return rate


def refuse_top_k(mechanism: Any) -> None:
    """Raise `UnsupportedNode` for top-k: leaves choose one by one."""
    if isinstance(mechanism, TopK):
        raise UnsupportedNode("top-k chooses among the features of a table; nothing was read")
