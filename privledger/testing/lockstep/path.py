"""P4 and P6: what the record that differs loses along a whole path, and what others pay.

Under sampling the priced mixture dominates and conditional losses are never added up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field

from privledger.accounting import poisson_gaussian_rdp
from privledger.ledger.individual import RECORD_UNITS
from privledger.numerals import upward
from privledger.testing.lockstep.kept import Broken, RecordedRun, Vector
from privledger.testing.lockstep.laws import TOLERANCE
from privledger.testing.lockstep.sampling import samples_of
from privledger.testing.lockstep.shown import Shown


@define(eq=False)
class Path:
    """Losses along one path, release by release.

    Attributes:
        epsilon, delta: what the learner claims for the fit. spent: what the ledger says of it.
        ratio: of the path's loss to the claim, where it can be added up; else 0.
    """

    epsilon: float
    delta: float
    spent: float
    ratio: float = field(init=False, default=0.0)

    def judged(
        self, quiet: RecordedRun, twin: RecordedRun, shown: Sequence[Shown]
    ) -> Iterator[Broken]:
        """What is wrong along the path."""
        if not self.spent <= self.epsilon * (1 + TOLERANCE):
            yield Broken("P4", -1, "the ledger's total is above what the learner claims")
        yield from self._added(twin, shown)
        yield from filtered(quiet, twin, shown)

    def _added(self, twin: RecordedRun, shown: Sequence[Shown]) -> Iterator[Broken]:
        """Trials of a tuning are left out: only the best one's answer is published."""
        free = [found for one, found in zip(twin.releases, shown, strict=True)
                if not samples_of(one) and not twin.grants[one.grant].trial]
        up, down = sum(one.up for one in free), sum(one.down for one in free)
        squared = math.fsum(one.squared for one in free)
        least = min(self.spent, self.epsilon)
        if squared:
            if not delta_of_gaussian(math.sqrt(squared), least) <= self.delta * (1 + 1e-6):
                yield Broken("P4", -1, "the Gaussian losses of a path are above the charge")
        elif self.delta == 0 and least > 0:
            self.ratio = max(up, down) / least
            if not self.ratio <= 1 + TOLERANCE:
                yield Broken("P4", -1, f"the losses of a path are {upward(self.ratio)} times the "
                                       "charge")


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
            yield Broken("P6", -1, "what a record showed was charged to nobody")
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
