"""P5: every sample is drawn by coins of its own: one per record at the node's rate, or a word per
record, of which the smallest are in."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.graph import (
    Context,
    Correlated,
    IndividualFilter,
    Node,
    OneOf,
    Parallel,
    Repeat,
    Tuning,
)
from privledger.graph.nodes import children
from privledger.questions.asking import Members
from privledger.questions.cells import CoinCells, CrossCells
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.query import RunStep
from privledger.questions.question import Derivation
from privledger.tables.chunk import Rows
from privledger.testing.lockstep.kept import Broken, RecordedCoins, RecordedRun, Release, Words

_BY_WORDS = ("fixed", "allocation")

CUT_OFF = "a truncated sample puts one record in another's place: no lock replays its price"


@contextmanager
def counted_sample(into: list[str]) -> Iterator[None]:
    """Samples of a fixed size drawn in this block: `into` says where one has another size."""
    real = Members.sample

    def sample(self: Members, data: Derivation, rows: Rows) -> NDArray[np.bool_]:
        drawn = real(self, data, rows)
        there = int(drawn.sum()) if rows.people is None else len(np.unique(rows.people[drawn]))
        sized = [step.context for step in data.steps if step.context.kind in ("fixed", "truncated")]
        if any(there != one.size if one.kind == "fixed" else there > one.size for one in sized):
            into.append("a sample is of another size than its node says")
        return drawn

    with patch.multiple(Members, sample=sample):
        yield


def samples_of(one: Release) -> list[Context]:
    """The samples above a release, outermost first; a step of correlated noise has its own."""
    chain = one.charged[0][0] if one.charged else ()
    found = [step for step in chain if step.is_sample]
    if isinstance(one.mechanism, Correlated) and one.mechanism.rate < 1:
        found.append(Context("poisson", f"step-{id(one)}", rate=one.mechanism.rate))
    return found


@define(eq=False)
class Samples:
    """Which coins each sample of a run was drawn by.

    Attributes:
        broken: what is wrong with them.
    """

    run: RecordedRun
    broken: list[Broken] = field(factory=list)
    _last: dict[tuple[int, str], int] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for place, one in enumerate(self.run.releases):
            self.broken += self._drawn(place, one)

    def _drawn(self, place: int, one: Release) -> Iterator[Broken]:
        fresh = [step for step in samples_of(one) if (one.grant, step.token) not in self._last]
        if one.failed:
            return
        if any(step.kind == "truncated" for step in fresh):
            yield Broken("", place, CUT_OFF)
            return
        kinds = Words if any(step.kind in _BY_WORDS for step in fresh) else RecordedCoins
        drawn = [draw for draw in one.draws if isinstance(draw, kinds)]
        if len(drawn) != len(fresh):
            yield Broken("P5", place, "a sample was not drawn by coins of its own")
            return
        for step, draw in zip(fresh, drawn, strict=True):
            if isinstance(draw, RecordedCoins) and not draw.rate <= step.rate:
                yield Broken("P5", place, "a sample is drawn at a larger rate than its node says")
            if len(draw.result) != self.run.n_people:
                yield Broken("P5", place, "a sample is not one coin for each record or person")
            self._last[one.grant, step.token] = _last_one(step, draw)

    def inside(self, one: Release) -> bool:
        """Whether the last record is in every sample of a release, and in its round; a row of
        correlated noise tells of earlier samples, too."""
        return isinstance(one.mechanism, Correlated) or all(
            self._last.get((one.grant, step.token), sought) == sought
            for step in samples_of(one)
            for sought in [step.part if step.kind == "allocation" else 1])


def _last_one(sample: Context, drawn: RecordedCoins | Words) -> int:
    """1 if the last record is in, else 0; of an allocation its round."""
    if isinstance(drawn, RecordedCoins):
        return int(drawn.result[-1:].all())
    if sample.kind == "allocation":
        return int(drawn.result[-1]) % sample.parts
    below = np.sort(drawn.result)[:sample.size]  # the samples' own definition, said once more
    return int(drawn.result[-1] <= below[-1])


# P5, beside Poisson samples: who is in which part is one private word per record.


def sampling_coins(one: Release) -> list[CoinCells]:
    """Cells by private coins that a release's question is about."""
    steps = getattr(getattr(one.question, "data", None), "steps", ())
    waiting = [*(step.cells for step in steps), getattr(one.question, "cells", None),
               getattr(getattr(one.question, "run", None), "groups", None)]
    found = []
    while waiting:
        cells = waiting.pop()
        if isinstance(cells, CoinCells):
            found.append(cells)
        elif isinstance(cells, CrossCells):
            waiting += [cells.first, cells.second]
    return found


def uncoined(run: RecordedRun) -> Iterator[Broken]:
    """Where a partition by coins, or a vote of blocks, was not drawn afresh for every record.

    Cells are drawn once, for the whole table, by the first question. Votes of a part are drawn for
    the part, so their number is not known here.
    """
    known: set[int] = set()
    for place, one in enumerate(run.releases):
        drawn = [len(draw.result) for draw in one.draws if isinstance(draw, Words)]
        fresh = {id(cells) for cells in sampling_coins(one)} - known
        whole = len(fresh)
        if isinstance(one.question, FeatureChoice) and one.question.votes is not None:
            voted = {id(one.question.key)} - known
            whole += len(voted) if not one.question.data.steps else 0
            fresh |= voted
        if one.failed and not drawn:
            continue
        known |= fresh
        if sum(size == run.n_people for size in drawn) < whole or len(drawn) < len(fresh):
            yield Broken("P5", place, "a partition by coins is not one word for each record")


# How often a plan lets a node run on one record, counted apart from the guard's own meter.


def allowed(plan: Node, leaf: Node) -> float:
    """How often `leaf` may run on one record under `plan`; infinite inside an open filter."""
    if plan == leaf:
        return 1
    if isinstance(plan, Tuning):  # its inside runs under meters of its own
        return 0
    if isinstance(plan, IndividualFilter) and plan.node is None:
        return math.inf
    inside = [allowed(node, leaf) for node in children(plan)]
    if not inside:
        return 0
    if isinstance(plan, Parallel | OneOf):
        return max(inside)
    if isinstance(plan, Repeat):
        return inside[0] * plan.count if inside[0] else 0
    return sum(inside)


def happened(releases: Sequence[Release], leaf: Node, depth: int = 0) -> int:
    """How often `leaf` ran on one record at most: in one part of every partition, and in one round
    of every allocation."""
    found = 0
    parts: dict[str, dict[int, list[Release]]] = defaultdict(lambda: defaultdict(list))
    for one in releases:
        chain = [step for step in one.charged[0][0] if step.kind in ("part", "allocation")]
        if len(chain) > depth:
            parts[chain[depth].token][chain[depth].part].append(one)
        else:
            found += sum(node == leaf for _, node in one.charged)
    for members in parts.values():
        found += max(happened(part, leaf, depth + 1) for part in members.values())
    return found


def uncovered(run: RecordedRun) -> Iterator[Broken]:
    """P3: every release is charged once, as a node that the plan still holds."""
    by_grant: dict[int, list[Release]] = defaultdict(list)
    for place, one in enumerate(run.releases):
        if one.failed or (not one.charged and isinstance(one.question, RunStep)):
            continue  # a run is charged with its first question
        if len(one.charged) != 1 or one.charged[0][1] != one.mechanism:
            yield Broken("P3", place, "what was released is not what was itemised")
            return
        by_grant[one.grant].append(one)
    yield from _secret(run)
    for grant, releases in by_grant.items():
        for leaf in dict.fromkeys(one.charged[0][1] for one in releases):
            if happened(releases, leaf) > allowed(run.grants[grant].plan, leaf):
                yield Broken("P3", -1, "a node was released more often than it was reserved")


def _secret(run: RecordedRun) -> Iterator[Broken]:
    """What trials of a tuning release, and how many there are, is in no history."""
    for number, grant in enumerate([*run.grants, *run.idle]):
        if grant.trial:
            continue
        # One that fails among the rows was charged, too.
        own = sum(len(one.charged) for one in run.releases if one.grant == number < len(run.grants))
        if grant.status == "settled" and grant.items != own + len(grant.tunings):
            yield Broken("P3", -1, "the history itemises other releases than there were")
        if any(cells != 1 for cells in grant.tunings):
            yield Broken("P3", -1, "the history says more of a tuning than that it happened")
