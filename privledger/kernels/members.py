"""Who is behind a handle: parts of partitions and samples, fixed for a whole session."""

from __future__ import annotations

import numpy as np
from attrs import define, evolve, field
from numpy.typing import NDArray

from privledger.errors import NotGranted
from privledger.graph import Context
from privledger.noise.samplers import integers_below, subset
from privledger.noise.source import Coins
from privledger.questions.cells import Cells
from privledger.questions.derivation import Derivation, Step
from privledger.tables.chunk import Array, Rows


@define(eq=False, repr=False)
class Members:
    """What one session drew and divided. Lives inside the guard; every method takes its rows.

    Attributes:
        session: tells this session's coins from another's.
    """

    session: str
    _asked: set[Context] = field(init=False, factory=set)
    _parts: dict[str, tuple[Cells, Array]] = field(init=False, factory=dict)
    _samples: dict[Context, Array] = field(init=False, factory=dict)
    _subsets: dict[tuple[tuple[str, int], ...], Rows] = field(init=False, factory=dict)

    def of(self, data: Derivation, rows: Rows) -> Rows:
        """The records behind a handle without filters, as a table of their own."""
        if not data.steps:
            return rows
        mask = self.mask(data, rows)
        if is_sampled(data):
            sampled = self.sample(data, rows)
            return rows.subset(np.flatnonzero(sampled if mask is None else mask & sampled))
        path = tuple((step.context.token, step.context.part) for step in data.steps)
        found = self._subsets.get(path)
        if found is None and mask is not None:
            found = self._subsets[path] = rows.subset(np.flatnonzero(mask))
        return rows if found is None else found

    def mask(self, data: Derivation, rows: Rows) -> NDArray[np.bool_] | None:
        """Who is in every part that the handle names, shape (rows,), or None where it names none.
        Its samples are not drawn yet."""
        mask = None
        for step in data.steps:
            if step.context.kind == "part" and step.cells is not None:
                part = self.part(step, rows)
                mask = part if mask is None else mask & part
        return mask

    def sample(self, data: Derivation, rows: Rows) -> NDArray[np.bool_]:
        """Membership in every sample above the query, drawn once per handle."""
        result: NDArray[np.bool_] | None = None
        for step in data.steps:
            if step.context.is_sample:
                # Kept by the session, not with the data: another grant draws its own sample.
                whole = evolve(step.context, part=0)  # an allocation's rounds are of one draw
                drawn = self._samples.get(whole)
                if drawn is None:
                    drawn = self._samples[whole] = _drawn(
                        rows.coins((self.session, whole.token)), whole, rows)
                if whole.kind == "allocation":
                    drawn = drawn == step.context.part
                result = drawn if result is None else result & drawn
        assert result is not None
        return result

    def part(self, step: Step, rows: Rows) -> NDArray[np.bool_]:
        """Who is in a part. A partition stays as it was when this session first used it:
        cells of a running score move, and a record could otherwise answer in two parts."""
        assert step.cells is not None
        found = self._parts.get(step.context.token)
        if found is None:
            moves = bool(getattr(step.cells, "below", ()))
            cells = (rows.fixed((self.session, step.context.token), step.cells.index) if moves
                     else step.cells.index(rows))
            found = self._parts[step.context.token] = step.cells, cells
        if found[0] is not step.cells:
            raise NotGranted("one token stands for one partition")
        members: NDArray[np.bool_] = found[1] == step.context.part
        return members

    def check_fresh(self, data: Derivation) -> None:
        """Under a filter each sample serves one release: its cost is that of a fresh sample.

        Raises:
            NotGranted: one was asked before; nothing was read.
        """
        if _samples_of(data) & self._asked:
            raise NotGranted("under an individual filter a Poisson sample serves one release; "
                             "ask everything jointly, or draw a fresh sample")

    def note(self, data: Derivation) -> None:
        """A release that was charged asks these samples."""
        self._asked |= _samples_of(data)

    def forget(self) -> None:
        """Let go of the copies of rows."""
        self._subsets.clear()


def _samples_of(data: Derivation) -> set[Context]:
    return {step.context for step in data.steps if step.context.is_sample}


def is_sampled(data: Derivation) -> bool:
    """Whether somebody may be outside a sample of the handle, so that it has to be drawn."""
    return any(step.context.kind in ("fixed", "truncated", "allocation")
               for step in data.steps) or rate_of(data) < 1.0


def rate_of(data: Derivation) -> float:
    """The rate of all Poisson samples of a handle together; 1 where it has none."""
    rate = 1.0
    for step in data.steps:
        if step.context.kind == "poisson":
            rate *= step.context.rate
    return rate


def _drawn(source: Coins, sample: Context, rows: Rows) -> Array:
    """Who is in a fresh sample, shape (n_records,), or in which round of an allocation: a coin or
    a word each, and under unit person one for everything that a person has. With one per row
    somebody of many rows is hardly ever out."""
    by_person = rows.people is not None and rows.n_people is not None
    members = int(rows.n_people or 0) if by_person else rows.n
    drawn: Array
    if sample.kind == "fixed":
        if members != sample.out_of:
            raise NotGranted("a sample of fixed size is out of as many as there are")
        drawn = subset(sample.size, members, source.integers64)
    elif sample.kind == "allocation":
        drawn = integers_below(sample.parts, members, source.integers64)
    else:
        drawn = source.bernoulli(sample.rate, members)
        if sample.kind == "truncated":
            drawn = _cut(drawn, sample.size, source)
    return drawn[rows.people] if by_person else drawn


def _cut(drawn: NDArray[np.bool_], most: int, source: Coins) -> NDArray[np.bool_]:
    """At most so many of those who came, each choice of them as likely."""
    came = np.flatnonzero(drawn)
    if len(came) <= most:
        return drawn
    kept = np.zeros_like(drawn)
    kept[came[subset(most, len(came), source.integers64)]] = True
    return kept
