"""P5: every sample is drawn by coins of its own: one per record at the node's rate, or a word per
record, of which the smallest are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.graph import Context
from privledger.kernels.members import Members
from privledger.questions.derivation import Derivation
from privledger.tables.chunk import Rows
from privledger.testing.lockstep.kept import Broken, Coins, Release, Run, Words

_BY_WORDS = ("fixed", "allocation")

CUT_OFF = "a sample that is cut off puts one record in another's place: no lock replays its price"


@contextmanager
def counted(into: list[str]) -> Iterator[None]:
    """Samples of a fixed size drawn in this block: `into` says where one has another size."""
    real = Members.sample

    def sample(self: Members, data: Derivation, rows: Rows) -> NDArray[np.bool_]:
        drawn = real(self, data, rows)
        there = int(drawn.sum()) if rows.people is None else len(np.unique(rows.people[drawn]))
        sized = [step.context for step in data.steps if step.context.kind in ("fixed", "truncated")]
        if any(there != one.size if one.kind == "fixed" else there > one.size for one in sized):
            into.append("a sample is of another size than its node says")
        return drawn

    Members.sample = sample  # type: ignore[method-assign]
    try:
        yield
    finally:
        Members.sample = real  # type: ignore[method-assign]


def samples_of(one: Release) -> list[Context]:
    """The samples above a release, outermost first."""
    chain = one.charged[0][0] if one.charged else ()
    return [step for step in chain if step.is_sample]


@define(eq=False)
class Samples:
    """Which coins each sample of a run was drawn by.

    Attributes:
        broken: what is wrong with them.
    """

    run: Run
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
        kinds = Words if any(step.kind in _BY_WORDS for step in fresh) else Coins
        drawn = [draw for draw in one.draws if isinstance(draw, kinds)]
        if len(drawn) != len(fresh):
            yield Broken("P5", place, "a sample was not drawn by coins of its own")
            return
        for step, draw in zip(fresh, drawn, strict=True):
            if isinstance(draw, Coins) and not draw.rate <= step.rate:
                yield Broken("P5", place, "a sample is drawn at a larger rate than its node says")
            if len(draw.result) != self.run.n_people:
                yield Broken("P5", place, "a sample is not one coin for each record or person")
            self._last[one.grant, step.token] = _last_one(step, draw)

    def inside(self, one: Release) -> bool:
        """Whether the last record is in every sample of a release, and in its round."""
        return all(self._last.get((one.grant, step.token), sought) == sought
                   for step in samples_of(one)
                   for sought in [step.part if step.kind == "allocation" else 1])


def _last_one(sample: Context, drawn: Coins | Words) -> int:
    """1 if the last record is in, else 0; of an allocation its round."""
    if isinstance(drawn, Coins):
        return int(drawn.result[-1:].all())
    if sample.kind == "allocation":
        return int(drawn.result[-1]) % sample.parts
    below = np.sort(drawn.result)[:sample.size]  # the samples' own definition, said once more
    return int(drawn.result[-1] <= below[-1])
