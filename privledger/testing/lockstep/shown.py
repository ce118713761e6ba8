"""P3 to P6: how much the record that differs shows, release by release and along the path.

Losses are suprema over all outcomes of a release, given what was released before. Prices are read
off the nodes themselves, not from the accountant.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from attrs import frozen

from privledger.accounting import Relation, poisson_gaussian_rdp
from privledger.graph import Correlated
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.graph.correlated import moved_squared
from privledger.graph.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    TopK,
)
from privledger.ledger.individual import RECORD_UNITS
from privledger.numerals import upward
from privledger.questions.choice import Choice
from privledger.questions.person_vectors import PersonVectors
from privledger.questions.query import Sum, Summing
from privledger.questions.sums import cell_sums
from privledger.tables.chunk import Rows
from privledger.testing.lockstep.answering import answer_steps, blocks_of, main_draws
from privledger.testing.lockstep.kept import (
    Added,
    Additive,
    Broken,
    Chosen,
    ChosenSet,
    Floats,
    Ints,
    RecordedRun,
    Release,
    Responses,
    Vector,
)
from privledger.testing.lockstep.laws import (
    TOLERANCE,
    Loss,
    response_law,
    selection_loss,
    set_loss,
)
from privledger.testing.lockstep.naming import moved_groups
from privledger.testing.lockstep.sampling import samples_of

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


_NUMERIC = Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace | Correlated


def shown_trace(real: Release, quiet: Release, twin: Release) -> Shown:
    """What a release shows, whose answer is known to be what was drawn (P2)."""
    node = real.charged[0][1] if real.charged else real.mechanism
    if isinstance(node, _NUMERIC):
        return _of_numbers(node, real, quiet, twin)
    if isinstance(node, PartitionSelection):
        return _of_groups(node, quiet, twin)
    drawn = main_draws(quiet), main_draws(twin)
    if not drawn[0] or not drawn[1]:
        return Shown()
    first, second = (draws[-1] if isinstance(draws[-1], Responses) else draws[0] for draws in drawn)
    if isinstance(first, Responses) and isinstance(second, Responses):
        return _of_labels(node, first, second)
    if isinstance(first, Chosen) and isinstance(second, Chosen):
        return _of_choice(node, selection_loss(first, second))
    if isinstance(first, ChosenSet) and isinstance(second, ChosenSet):
        return _of_choice(node, set_loss(first, second))
    return Shown(why="what was drawn is of another kind on the other table")


def _of_numbers(node: object, real: Release, quiet: Release, twin: Release) -> Shown:
    moved = np.concatenate(blocks_of(twin.truth)) - np.concatenate(blocks_of(quiet.truth))
    step, draw, other = answer_steps(real, quiet), main_draws(real)[0], main_draws(twin)[0]
    assert isinstance(draw, Additive)
    assert isinstance(other, Additive)
    if not np.array_equal(draw.scale, other.scale):
        return Shown(why="the width of the noise depends on the records")
    hit = np.flatnonzero(moved)
    if not step[hit].all():
        return Shown(why="a number moves that had no noise")
    in_widths = np.abs(moved[hit]) / (draw.scale[hit] * step[hit])
    loss, squared = float(in_widths.sum()), float(np.square(in_widths).sum())
    if isinstance(node, DiscreteGaussian):
        squared = loss**2
    ratio = _over_price(node, loss, squared)
    if isinstance(node, Laplace | DiscreteLaplace):
        return Shown(loss, loss, 0.0, ratio)
    return Shown(math.inf, math.inf, squared, ratio) if len(hit) else Shown()


def _of_groups(node: PartitionSelection, quiet: Release, twin: Release) -> Shown:
    """Of the groups that both tables have, and of those that show by the threshold's failure."""
    both, alone, furthest = moved_groups(quiet, twin)
    if furthest > 1:
        return Shown(why="one record moves a group by more than one")
    ratio, gaussian = (both + alone) / node.groups_per_person, node.noise == "gaussian"
    loss = math.inf if alone or (gaussian and both) else both / node.scale
    return Shown(loss, loss, both / node.scale**2 if gaussian else 0.0,
                 math.sqrt(ratio) if gaussian else ratio)


def _over_price(node: object, loss: float, squared: float) -> float:
    """What a move of so many widths of the noise loses, over the price of the node; 0 for a node
    of other noise."""
    if isinstance(node, Gaussian):
        return math.sqrt(squared) * node.noise_multiplier
    if isinstance(node, Correlated):  # one row of all that a record moves
        bound = moved_squared(node) / node.gaussian.noise_multiplier**2
        return math.sqrt(squared / bound)
    if isinstance(node, DiscreteGaussian):
        return loss * node.sigma / node.sensitivity
    if isinstance(node, DiscreteLaplace):
        return loss / (node.parameter * node.sensitivity)
    return loss * node.scale / node.l1_sensitivity if isinstance(node, Laplace) else 0.0


def _of_labels(node: object, first: Responses, second: Responses) -> Shown:
    changed = int((first.codes != second.codes).sum())
    if changed > 1:
        return Shown(why="one label changes several answers")
    if not isinstance(node, RandomizedResponse):
        return Shown(why="labels were answered under another node")
    price = math.log1p((1 - node.noise_parameter) * node.num_buckets / node.noise_parameter)
    loss = max(response_law(first), response_law(second)) * changed
    return Shown(loss, loss, 0.0, loss / price if price else float(loss > 0))


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


# What every record or person, and not only the one that differs, adds to a release of sums.
#
# A sum is the sum of what each adds, so a record that goes moves the answer by what it had added.
# Queries are watched while they add up; nothing in them is replaced. docs/proofs/lockstep.md, P3.


def beyond(quiet: RecordedRun) -> Iterator[Broken]:
    """P3 for everyone: one adds more than the node of a release pays for."""
    for place, one in enumerate(quiet.releases):
        node = one.mechanism.gaussian if isinstance(one.mechanism, Correlated) else one.mechanism
        node = node if isinstance(node, Gaussian | Laplace) else None
        found = max((max(each.longest, _over_price(node, each.l1.max(initial=0.0),
                                                   each.l2.max(initial=0.0)))
                     for each in one.added), default=0.0)
        if not one.failed and not found <= 1 + TOLERANCE:
            yield Broken("P3", place, f"a person adds {upward(found)} times what the node pays for")
            return


def unpaid(run: RecordedRun) -> Iterator[Broken]:
    """P6 for everybody: who pays less under an individual filter than it adds, unsampled rounds."""
    for number, grant in enumerate(run.grants):
        if len(grant.vectors) != 1 or run.by_person:  # places of people are drawn
            continue
        (scope, taken, _), = grant.vectors
        owed = np.zeros(len(taken))
        for one in run.releases:
            chain = one.charged[0][0] if one.charged else ()
            if one.grant == number and len(chain) == 1 and chain[0].kind == "filter":
                for each in one.added:
                    owed += each.l2
        owed *= 1.0 if scope.node.kind == "gdp" else scope.node.order / 2
        if not (owed <= taken / RECORD_UNITS * scope.node.cap * (1 + 1e-6)).all():
            yield Broken("P6", -1, "a person pays less than they add")


def _added(query: Sum, state: Summing, values: list[Floats | None], who: Ints, n_who: int) -> Added:
    """By the same code that adds up a cell: each row, or a person's part in a cell, alone."""
    l1, l2 = np.zeros(len(who)), np.zeros(len(who))
    alone, longest = np.arange(len(who)), 0.0
    for block, recipe, array in zip(query.blocks, state.recipes, values, strict=True):
        steps = cell_sums(array, recipe.grid, alone, len(who), len(who), block.width,
                          math.ceil(block.clip / recipe.grid)).astype(np.float64)
        norms = np.linalg.norm(steps, ord=state.norm, axis=1)
        longest = max(longest, float(norms.max(initial=0.0)) * recipe.grid / block.clip)
        steps = steps / recipe.noise
        l1 += np.abs(steps).sum(axis=1)
        l2 += np.square(steps).sum(axis=1)
    each = [np.bincount(who, weights=one, minlength=n_who).astype(np.float64) for one in (l1, l2)]
    return Added(each[0], each[1], longest)


def _of_rows(query: Sum, chunk: Rows, state: Summing) -> Added:
    values = query.contributions(chunk, state) if state.values is None else state.values
    found = _added(query, state, values, np.arange(chunk.n), chunk.n)
    if state.mask is not None:
        found.l1[~state.mask] = found.l2[~state.mask] = 0.0
    return found


@contextmanager
def watched(into: list[Added]) -> Iterator[None]:
    """Whatever is added up in this block is told to `into`."""
    sketch, told = Sum.sketch, Sum.told

    def sketching(self: Sum, chunk: Rows, state: Summing) -> tuple[Ints, ...]:
        if chunk.people is None:
            into.append(_of_rows(self, chunk, state))
        return sketch(self, chunk, state)

    def telling(self: Sum, said: PersonVectors, state: Summing) -> tuple[Ints, ...]:
        into.append(_added(self, state, list(said.values), said.who, int(said.who.max()) + 1
                           if len(said.who) else 0))
        return told(self, said, state)

    with patch.multiple(Sum, sketch=sketching, told=telling):
        yield


# P4 and P6: what the record that differs loses along a whole path, and what others pay.
#
# Under sampling the priced mixture dominates and conditional losses are never added up.


def along(epsilon: float, delta: float, quiet: RecordedRun, twin: RecordedRun,
          shown: Sequence[Shown]) -> tuple[float, list[Broken]]:
    """The path's loss over the claim, where it can be added up, else 0; and what is wrong.

    Args:
        epsilon, delta: what the learner claims for the fit. shown: release by release.
    """
    found = []
    if not twin.spent <= epsilon * (1 + TOLERANCE):
        found.append(Broken("P4", -1, "the ledger's total is above what the learner claims"))
    # Trials of a tuning are left out: only the best one's answer is published.
    free = [one for release, one in zip(twin.releases, shown, strict=True)
            if not samples_of(release) and not twin.grants[release.grant].trial]
    squared = math.fsum(one.squared for one in free)
    least, ratio = min(twin.spent, epsilon), 0.0
    if squared:
        if not delta_of_gaussian(math.sqrt(squared), least) <= delta * (1 + 1e-6):
            found.append(Broken("P4", -1, "the Gaussian losses of a path are above the charge"))
    elif delta == 0 and least > 0:
        ratio = max(sum(one.up for one in free), sum(one.down for one in free)) / least
        if not ratio <= 1 + TOLERANCE:
            found.append(Broken("P4", -1, f"the losses of a path are {upward(ratio)} times the "
                                          "charge"))
    return ratio, [*found, *filtered(quiet, twin, shown)]


def delta_of_gaussian(mu: float, epsilon: float) -> float:
    """Least delta of a Gaussian of mean mu at epsilon, by the normal law itself.

    An oracle beside the accountant, never in its place. Dong, Roth, Su 2019, Corollary 2.13.
    """
    from scipy.special import log_ndtr

    first = math.exp(float(log_ndtr(mu / 2 - epsilon / mu)))
    return max(0.0, first - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


def filtered(quiet: RecordedRun, twin: RecordedRun, shown: Sequence[Shown]) -> Iterator[Broken]:
    """P6: the others pay the same in both worlds; the record that differs pays what it shows."""
    losses: dict[int, float] = defaultdict(float)
    sampled: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for one, found in zip(twin.releases, shown, strict=True):
        chain = one.charged[0][0] if one.charged else ()  # nothing, where it was refused
        if found.squared and any(step.kind == "filter" for step in chain):
            rate = math.prod(step.rate for step in samples_of(one))
            if rate < 1:
                sampled[one.grant].append((rate, found.squared))
            else:
                losses[one.grant] += found.squared
    for number, (mine, theirs) in enumerate(zip(quiet.grants, twin.grants, strict=True)):
        if (losses[number] or sampled[number]) and not theirs.vectors:
            yield Broken("P6", -1, "what a record contributed was not charged")
        for before, after in zip(mine.vectors, theirs.vectors, strict=True):
            if twin.by_person:
                before, after = last_alone(before, after)
            yield from _vectors(before, after, losses[number], sampled[number])


def _vectors(mine: Vector, theirs: Vector, squared: float,
             sampled: Sequence[tuple[float, float]]) -> Iterator[Broken]:
    scope, taken, rounds = mine
    _, other_taken, other_rounds = theirs
    common = min(len(taken), len(other_taken))
    common -= len(taken) == len(other_taken)  # then the last of both is the one that differs
    if not (np.array_equal(taken[:common], other_taken[:common])
            and np.array_equal(rounds[:common], other_rounds[:common])):
        yield Broken("P6", -1, "what other records paid depends on the one that differs")
    most = max(int(one[-1]) if len(one) else 0 for one in (taken, other_taken))
    if most > RECORD_UNITS:
        yield Broken("P6", -1, "a record paid more than its cap")
    per_square = 1.0 if scope.node.kind == "gdp" else scope.node.order / 2
    cost = squared * per_square
    if scope.node.kind == "renyi":  # of samples that the record was in, others may be dearer
        cost += math.fsum(poisson_gaussian_rdp(rate, 1 / math.sqrt(one), (scope.node.order,)
                                               ).bounds[0] for rate, one in sampled)
    if not cost <= most / RECORD_UNITS * scope.node.cap * (1 + 1e-6):
        yield Broken("P6", -1, "a record paid less than what it showed")


def last_alone(mine: Vector, theirs: Vector) -> tuple[Vector, Vector]:
    """The same, with whatever is in one of them only put last.

    A person's place is drawn, so vectors of people are compared in any order.
    """
    (scope, taken, rounds), (_, other_taken, other_rounds) = mine, theirs
    pairs = [Counter(zip(one.tolist(), many.tolist(), strict=True))
             for one, many in ((taken, rounds), (other_taken, other_rounds))]
    both = sorted((pairs[0] & pairs[1]).elements())
    found = []
    for own in pairs:
        rows = [*both, *sorted((own - (pairs[0] & pairs[1])).elements())]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 2)
        found.append((scope, columns[:, 0], columns[:, 1].astype(np.int32)))
    return found[0], found[1]
