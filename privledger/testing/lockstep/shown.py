"""P3 to P6: how much the record that differs shows, release by release and along the path.

Losses are suprema over all outcomes of a release, given what was released before. Prices are read
off the nodes themselves, not from the accountant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import frozen

from privledger.accounting import Relation
from privledger.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    TopK,
)
from privledger.numerals import upward
from privledger.questions.choice import Choice
from privledger.testing.lockstep.answering import blocks_of, main_draws, steps_of
from privledger.testing.lockstep.kept import Broken, Chosen, ChosenSet, Release, Responses
from privledger.testing.lockstep.laws import (
    TOLERANCE,
    Loss,
    response_loss,
    selection_loss,
    set_loss,
)

LEAST = 1e-7
"""Nats that a leaf must show to count: what is equal on both tables shows none at all."""


@frozen
class Shown:
    """What one release shows of the record that differs.

    Attributes:
        up, down: sup of the log ratio, this way and the other; infinite for a Gaussian.
        squared: mu squared of a Gaussian, else 0.
        ratio: of the loss to the node's own price; 1 is what was paid for.
        why: what is wrong with the outcomes themselves, empty for nothing.
        leaves: in how many leaves a choice shows anything.
    """

    up: float = 0.0
    down: float = 0.0
    squared: float = 0.0
    ratio: float = 0.0
    why: str = ""
    leaves: int = 0

    @property
    def nothing(self) -> bool:
        """Whether the record that differs leaves no trace at all."""
        return not (self.up or self.down or self.squared or self.why)


def shown(real: Release, quiet: Release, twin: Release) -> Shown:
    """What a release shows, whose answer is known to be what was drawn (P2)."""
    node = real.charged[0][1] if real.charged else real.mechanism
    draws = main_draws(quiet), main_draws(twin)
    if isinstance(node, Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace):
        return _of_numbers(node, real, quiet, twin)
    if not draws[0] or not draws[1]:
        return Shown()
    first, second = draws[0][-1 if isinstance(draws[0][-1], Responses) else 0], draws[1][
        -1 if isinstance(draws[1][-1], Responses) else 0]
    if isinstance(first, Responses) and isinstance(second, Responses):
        return _of_labels(node, first, second)
    if isinstance(first, Chosen) and isinstance(second, Chosen):
        return _of_choice(node, selection_loss(first, second))
    if isinstance(first, ChosenSet) and isinstance(second, ChosenSet):
        return _of_choice(node, set_loss(first, second))
    return Shown(why="what was drawn is of another kind on the other table")


def _of_numbers(node: Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace, real: Release,
                quiet: Release, twin: Release) -> Shown:
    moved = np.concatenate(blocks_of(twin.truth)) - np.concatenate(blocks_of(quiet.truth))
    step, draw = steps_of(real, quiet), main_draws(real)[0]
    other = main_draws(twin)[0]
    if not np.array_equal(draw.scale, other.scale):  # type: ignore[union-attr]
        return Shown(why="the width of the noise depends on the records")
    hit = np.flatnonzero(moved)
    if not len(hit):
        return Shown()
    if not step[hit].all():
        return Shown(why="a number moves that had no noise")
    in_widths = np.abs(moved[hit]) / (draw.scale[hit] * step[hit])  # type: ignore[union-attr]
    if isinstance(node, Gaussian):
        squared = float(np.square(in_widths).sum())
        return Shown(math.inf, math.inf, squared, math.sqrt(squared) * node.noise_multiplier)
    loss = float(in_widths.sum())
    if isinstance(node, DiscreteGaussian):
        return Shown(math.inf, math.inf, loss**2, loss * node.sigma / node.sensitivity)
    if isinstance(node, DiscreteLaplace):
        return Shown(loss, loss, 0.0, loss / (node.parameter * node.sensitivity))
    return Shown(loss, loss, 0.0, loss * node.scale / node.l1_sensitivity)


def _of_labels(node: object, first: Responses, second: Responses) -> Shown:
    changed = int((first.codes != second.codes).sum())
    if changed > 1:
        return Shown(why="one label changes several answers")
    if not isinstance(node, RandomizedResponse):
        return Shown(why="labels were answered under another node")
    price = _response(node.noise_parameter, node.num_buckets)
    loss = max(response_loss(first), response_loss(second)) * changed
    return Shown(loss, loss, 0.0, loss / price if price else float(loss > 0))


def _response(noise: float, buckets: int) -> float:
    return math.log1p((1 - noise) * buckets / noise)


def _of_choice(node: object, loss: Loss) -> Shown:
    if not loss.aligned:
        return Shown(why=loss.why)
    up, down = float(np.sum(loss.up)), float(np.sum(loss.down))
    if isinstance(node, Exponential):
        ratio = (up + down) / node.range
    elif isinstance(node, TopK | ReportNoisyMax) and node.noise == "gumbel":
        ratio = (up + down) / node.epsilon
    elif isinstance(node, PermuteAndFlip | ReportNoisyMax | TopK):
        ratio = max(up, down) / node.epsilon
    else:
        return Shown(why="a choice was made under another node")
    return Shown(up, down, 0.0, ratio, leaves=int(np.count_nonzero(loss.width > LEAST)))


def paid(place: int, found: Shown, inside: bool) -> Iterator[Broken]:
    """P3, and P5's half of it: a record that is not in the sample shows nothing.

    Args:
        inside: whether the record that differs is in every sample of the release.
    """
    if found.why:
        yield Broken("P3", place, found.why)
    elif not inside and not found.nothing:
        yield Broken("P5", place, "a record outside of the sample moves the answer")
    elif not found.ratio <= 1 + TOLERANCE:
        yield Broken("P3", place, f"the loss is {upward(found.ratio)} times the node's price")


def scattered(place: int, one: Release, found: Shown, relation: Relation, *,
              by_person: bool) -> Iterator[Broken]:
    """P3 of leaves: a record lies in one, and a person speaks in one where impurities are told.

    One that is replaced leaves one leaf and comes into another.
    """
    alone = isinstance(one.question, Choice) and one.question.score in ("gini", "entropy")
    most = 1 if relation == "add_remove" else 2
    if (alone or not by_person) and found.leaves > most:
        yield Broken("P3", place, f"one record shows in {found.leaves} leaves of a choice")
