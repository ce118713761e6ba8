"""What a lock keeps of a run: every draw, every release, and what was left of it in the end.

A draw is one call of the noise source, with everything it was given and what it said. Nothing
here is private in the sense of the ledger: tables of a lock are made by the kit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
from attrs import Factory, define, frozen
from numpy.typing import NDArray

from privledger.graph import Context, Node
from privledger.guard import Scope
from privledger.guard.service import LedgerService

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AdditiveLaw: TypeAlias = Literal["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"]

Vector: TypeAlias = tuple[Scope, Ints, NDArray[np.int32]]
"""A scope, units taken by every record, and the rounds each took part in."""


@frozen
class Broken:
    """A premise that does not hold, or a release of which no lock can say whether it does.

    Attributes:
        premise: `P1` to `P7`; empty for what is not replayable.
        release: number of the release, from 0; -1 for the whole fit.
        why: in words, without a value of the table.
    """

    premise: str
    release: int
    why: str


@frozen(eq=False)
class Additive:
    """Noise for a batch of numbers.

    Attributes:
        law: of the noise; discrete ones are of whole steps.
        scale: sigma or b of each number, in grid steps, shape (size,); 1/parameter for
            `discrete_laplace`.
        result: what was said, in grid steps, shape (size,).
    """

    law: AdditiveLaw
    scale: Floats
    result: Ints


@frozen(eq=False)
class RecordedCoins:
    """One Bernoulli coin per record. result: shape (records,)."""

    rate: float
    result: NDArray[np.bool_]


@frozen(eq=False)
class Words:
    """Uniform 64-bit words, for i.i.d. partitions and random numbers of trials."""

    result: NDArray[np.uint64]


@frozen(eq=False)
class Below:
    """Uniform whole numbers, each below its bound, both of shape (size,)."""

    bounds: Ints
    result: Ints


@frozen(eq=False)
class Chosen:
    """One candidate of every segment, CSR layout as in `NoiseSource.choose`.

    Attributes:
        law: `exponential` or `permute_and_flip`.
        scores, weights: shape (candidates,). starts: shape (segments + 1,).
        rate: per unit of score. result: positions among all candidates, shape (segments,).
    """

    law: Literal["exponential", "permute_and_flip"]
    scores: Floats
    weights: Ints
    starts: Ints
    rate: float
    result: Ints


@frozen(eq=False)
class ChosenSet:
    """k candidates by the canonical Lipschitz mechanism; `gamma` as in `NoiseSource.top_k`."""

    scores: Floats
    k: int
    rate: float
    noise: Literal["exponential", "gumbel"]
    gamma: float
    result: Ints


@frozen(eq=False)
class Responses:
    """Randomised response of every code, shape (n,)."""

    codes: Ints
    buckets: int
    noise_parameter: float
    result: Ints


Draw: TypeAlias = Additive | RecordedCoins | Words | Below | Chosen | ChosenSet | Responses


@frozen(eq=False)
class Added:
    """What each record, or person, adds to one release of sums, in widths of its noise.

    Attributes:
        l1: sum of |steps| / noise of each, shape (records or people,).
        l2: sum of (steps / noise)^2 of each.
        longest: norm of one row's part in one block over the block's bound, the largest.
    """

    l1: Floats
    l2: Floats
    longest: float = 0.0


@frozen(eq=False)
class GroupSizes:
    """Groups as they are before noise.

    Attributes:
        people: how many speak for each. least: the noisy number from which on a group is named.
    """

    people: dict[str, int]
    least: float


@define(eq=False)
class Release:
    """One release: what was asked, what was charged, what was drawn, and what was said.

    Attributes:
        grant: number of the grant in the run, from 0; the session's own inside a tuning.
        digest: of the question, its mechanism and the handle's derivation.
        question, mechanism: as the learner gave them.
        charged: what the log itemised in this call: (chain, node) each.
        draws: made inside this call.
        truth: what the guard itself answered; `answer`: what the learner was handed.
        failed: class of the error, or an empty text.
        added: what each adds, once for each time that sums were made; in runs without noise.
        counted: sizes of groups, once for each time that groups were named.
    """

    grant: int
    digest: bytes
    question: object
    mechanism: object
    charged: list[tuple[tuple[Context, ...], Node]] = Factory(list)
    draws: list[Draw] = Factory(list)
    truth: object = None
    answer: object = None
    failed: str = ""
    added: list[Added] = Factory(list)
    counted: list[GroupSizes] = Factory(list)


@define(eq=False)
class Grant:
    """One grant of a run.

    Attributes:
        plan: the reserved node. charge: units and delta units that the ledger booked.
        vectors: scope, units taken and rounds of every record under each filter, in order.
        status: how the history says it ended.
        trial: whether it is a run inside a tuning.
        items: how many releases the history itemises. tunings: cells that each of its tunings was
            itemised with.
    """

    plan: Node
    charge: tuple[int, int] = (0, 0)
    vectors: list[Vector] = Factory(list)
    status: str = ""
    trial: bool = False
    items: int = 0
    tunings: tuple[int, ...] = ()


@define(eq=False)
class RecordedRun:
    """One fit through the tap.

    Attributes:
        n_people: whose coins are drawn: rows; or people, `by_person`.
        releases, grants: in order; `idle` are grants without a release. spent: of the ledgers.
        model: all that the fitted learner holds and says, comparable.
        failed: class of the error of the fit, or an empty text.
        ledgers: every one that was asked.
        arrived: rows of a plain table that the learner put behind a guard, by their bytes.
        histories: what the ledgers' histories say, without what is new in every run.
        wrong: what is wrong with them, where that was asked.
        outside: draws made outside any release. samples: what is wrong with the sizes of samples.
        parted: where a repeated run asked the source for other draws; empty for nowhere.
    """

    n_records: int
    n_people: int = 0
    by_person: bool = False
    releases: list[Release] = Factory(list)
    grants: list[Grant] = Factory(list)
    idle: list[Grant] = Factory(list)
    spent: float = 0.0
    model: dict[str, object] = Factory(dict)
    failed: str = ""
    ledgers: list[LedgerService] = Factory(list)
    arrived: list[Counter[bytes]] = Factory(list)
    histories: list[str] = Factory(list)
    wrong: list[Broken] = Factory(list)
    outside: list[Draw] = Factory(list)
    samples: list[str] = Factory(list)
    parted: str = ""

    @property
    def answers(self) -> tuple[object, ...]:
        """What the learner was handed, in order."""
        return tuple(one.answer for one in self.releases)

    def trace(self, steady: frozenset[str]) -> Iterator[tuple[int, str, object]]:
        """All that is seen outside of the guard, in order: the release, what it is called where
        it differs, and what it is; -1 for the whole fit."""
        for place, one in enumerate(self.releases):
            yield place, "another question was asked", one.digest[:16]
            yield place, "a release fails otherwise", one.failed
            yield place, "another charge was itemised", one.digest[16:]
        yield len(self.releases), NUMBER, None
        yield -1, "the fit ends otherwise", self.failed
        yield -1, "plans, charges or ends of the grants are others", [
            (one.plan, one.charge, one.status, len(one.vectors), one.trial)
            for one in (*self.grants, *self.idle)]
        yield -1, "the ledger's history says something else", self.histories
        yield -1, "the ledger's total is another", self.spent
        yield -1, "the model holds other things", self.model.keys()
        for path in sorted(steady):
            yield -1, f"{path} is another: it came from the records past the ledger", (
                self.model.get(path))


NUMBER = "another number of questions was asked"


# P1: with equal answers, the runs of a lock are the same run, to everybody outside the guard.


def parted(
    first: RecordedRun, other: RecordedRun, other_name: str, steady: frozenset[str]
) -> Iterator[Broken]:
    """The first place at which two runs with equal answers part.

    Args:
        steady: what repeats between two fits on one table, of `RecordedRun.model`.
    """
    for (place, what, one), (at, theirs, two) in zip(first.trace(steady), other.trace(steady),
                                                     strict=False):
        if what != theirs:
            yield Broken("P1", min(place, at), f"{other_name}, {NUMBER}")
            return
        if one != two:
            yield Broken("P1", place, f"{other_name}, {what}")
            return
