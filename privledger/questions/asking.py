"""One question, one run of rows: whole numbers before noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.accounting import poisson_gaussian_rdp
from privledger.errors import NotGranted, UnsupportedNode
from privledger.graph import Context, IndividualFilter
from privledger.ledger.individual import ScopeSpend
from privledger.noise.samplers import integers_below, subset
from privledger.noise.source import Coins
from privledger.questions.cells import Cells
from privledger.questions.person_vectors import PersonVectors
from privledger.questions.question import Derivation, Step
from privledger.questions.sums import square_norms
from privledger.tables.chunk import Array, Rows

# One round under an individual filter: what each record pays, and who can.  What a record pays
# follows from the record, past outputs and public numbers alone (docs/proofs/filters.md), so
# every chunk of a table decides for itself.


Floats = NDArray[np.float64]
NO_RATE = "the Gaussian-DP filter takes unsampled rounds only"


class Takings(Protocol):
    """What is kept of a table's spends under one filter until its grant is settled."""

    @property
    def rounds(self) -> NDArray[np.int32]:
        """Rounds that each record took part in."""

    def taken(self) -> NDArray[np.int64]:
        """What the grant charged to each record."""


class FilterAccount(Protocol):
    """Where spends of one grant are kept, filter by filter."""

    def spend(self, token: str, n: int,
              make: Callable[[float, NDArray[np.int64]], Takings]) -> Takings:
        """What was kept under a filter, or what `make` makes of its cap and earlier spends."""


@frozen(eq=False)
class Round:
    """What a release costs the records behind a filter. Public.

    Attributes:
        token: of the filter's step. kind: `gdp` or `renyi`. order: of a Renyi filter.
        clips, weights: norm bound of each block, and the mu squared that it costs.
        rate: of the Poisson samples below the filter.
        rollover: rounds left, as in `Session.release`.
        grid, costs: where the round is sampled, the price of each mu squared, the same on every
            machine because one of them computed it.
    """

    token: str
    kind: str
    order: float
    clips: tuple[float, ...]
    weights: tuple[float, ...]
    rate: float = 1.0
    rollover: int = 0
    grid: tuple[float, ...] = ()
    costs: tuple[float, ...] = ()

    @property
    def top(self) -> float:
        """The largest mu squared that a record can have."""
        return sum(self.weights)

    @property
    def per_square(self) -> float:
        """Filter cost per mu squared of an unsampled round; sampled rounds cost no more."""
        return 1.0 if self.kind == "gdp" else self.order / 2


def round_of(token: str, node: IndividualFilter, clips: Sequence[float],
             weights: Sequence[float], rate: float, rollover: int) -> Round:
    """A round under the filter `node`.

    Raises:
        UnsupportedNode: a sampled round under the Gaussian-DP filter.
    """
    if node.kind == "gdp" and rate < 1.0:
        raise UnsupportedNode(NO_RATE)
    top = sum(weights)
    grid, costs = ((), ()) if rate == 1.0 else _amplified(rate, node.order, top)
    return Round(token, node.kind, node.order, tuple(clips), tuple(weights), rate, rollover,
                 grid, costs)


@lru_cache(maxsize=64)
def _amplified(rate: float, order: float, top: float) -> tuple[tuple[float, ...], ...]:
    """Table of (mu squared, Renyi bound at `order` of a Poisson-sampled Gaussian)."""
    grid = np.concatenate([[0.0], np.geomspace(top * 1e-6, top, 512)])
    grid[-1] = top  # to the last bit: a record of full norm is looked up there
    costs = [0.0] + [poisson_gaussian_rdp(rate, float(1 / np.sqrt(square)), (order,)).bounds[0]
                     for square in grid[1:]]
    return tuple(grid.tolist()), tuple(np.maximum.accumulate(costs).tolist())


def individual_costs(squares: Floats, asked: Round) -> Floats:
    """Per-record cost of a round under a filter, from each record's mu squared.

    Args:
        squares: shape (n_records,), mu squared of the unsampled Gaussian for each record.

    The table for sampled rounds is looked up at the next larger grid point, so never too low.
    """
    if asked.kind == "gdp":
        return squares
    if asked.rate == 1.0:
        return squares * (asked.order / 2 * (1 + 2.0**-50))
    place = np.searchsorted(asked.grid, squares, side="left")
    return np.take(np.array([*asked.costs, np.inf]), place)


def admit_score(asked: Round, spend: ScopeSpend, values: list[Floats | None],
          part: NDArray[np.bool_] | None, n_rows: int) -> NDArray[np.bool_]:
    """Charge each record its own cost of a Gaussian round; who could pay, shape (n_rows,).

    Args:
        values: clipped contributions per block, None where all are one; scaled in place
            where a rollover asks for it.
        part: who is asked; the others pay nothing. None for all.
    """
    constant, squares = 0.0, np.zeros(n_rows)
    for array, clip, weight in zip(values, asked.clips, asked.weights, strict=True):
        if array is None:
            constant += weight
        else:
            squares += square_norms(array, clip) * weight
    squares += constant
    if part is not None:
        squares[~part] = 0.0  # a record pays for its own part only
    if asked.rollover > 0:
        _roll_over(squares, spend.left() / (asked.rollover * asked.per_square), values)
    np.minimum(squares, asked.top, out=squares)
    return spend.admit(individual_costs(squares, asked))


def admit_people(asked: Round, spend: ScopeSpend, said: PersonVectors,
                 n_people: int) -> PersonVectors:
    """As `admit` under unit person: every person is charged for the whole vector that it
    sends, over blocks and cells. Returns what those say who could pay.

    Args:
        said: what all in the handle's part say.
    """
    squares = said.squares(asked.clips, asked.weights, n_people)
    if asked.rollover > 0:
        allowed = spend.left() / (asked.rollover * asked.per_square)
        factor = _shrink(squares, allowed)
        said, squares = said.scaled(factor), squares * np.square(factor)
    np.minimum(squares, asked.top, out=squares)
    return said.of(spend.admit(individual_costs(squares, asked)))


def _shrink(squares: Floats, allowed: Floats) -> Floats:
    """What each contribution is multiplied by, so that its mu squared is within `allowed`."""
    factor = np.sqrt(np.minimum(1.0, allowed / np.maximum(squares, 1e-300)))
    factor *= 1 - 2.0**-50
    return factor


def _roll_over(squares: Floats, allowed: Floats, values: list[Floats | None]) -> None:
    """Scale each record's contributions down to the mu squared it may use this round."""
    factor = _shrink(squares, allowed)
    for place, array in enumerate(values):
        if array is None:
            values[place] = factor.copy()
        else:
            values[place] = array * (factor if array.ndim == 1 else factor[:, None])
    squares *= np.square(factor)


# Who is behind a handle: parts of partitions and samples, fixed for a whole session.


@define(eq=False, repr=False)
class Members:
    """What one session drew and divided. Lives inside the guard; every method takes its rows.

    Attributes:
        session: tells this session's coins from another's.
    """

    session: str
    _asked: set[Context] = field(init=False, factory=set)
    _parts: dict[str, tuple[Cells, Array]] = field(init=False, factory=dict)
    _samples: dict[Context, Array | None] = field(init=False, factory=dict)
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
                whole = _whole(step.context)
                if whole not in self._samples:
                    self._samples[whole] = _drawn(
                        rows.coins((self.session, whole.token)), whole, rows)
                drawn = self._samples[whole]
                if drawn is None:  # drawn anew it would be another one, which has no price
                    raise NotGranted("the sample's last release was made. Nothing was read")
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
            moves = bool(step.cells.below)
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

    def let_go(self, sample: Context) -> None:
        """The last release of a sample was made: who was in it is not kept any longer."""
        if _whole(sample) in self._samples:
            self._samples[_whole(sample)] = None

    def forget(self) -> None:
        """Let go of the copies of rows."""
        self._subsets.clear()


def _whole(sample: Context) -> Context:
    """What was drawn at once: the rounds of an allocation are of one draw."""
    return evolve(sample, part=0)


def _samples_of(data: Derivation) -> set[Context]:
    return {step.context for step in data.steps if step.context.is_sample}


def is_sampled(data: Derivation) -> bool:
    """Whether a record may be outside a sample of the handle, so that it has to be drawn."""
    return any(step.context.kind in ("fixed", "truncated", "allocation")
               for step in data.steps) or sampling_rate_of(data) < 1.0


def sampling_rate_of(data: Derivation) -> float:
    """The rate of all Poisson samples of a handle together; 1 where it has none."""
    rate = 1.0
    for step in data.steps:
        if step.context.kind == "poisson":
            rate *= step.context.rate
    return rate


def _drawn(source: Coins, sample: Context, rows: Rows) -> Array:
    """Who is in a fresh sample, shape (n_records,), or in which round of an allocation: a coin or
    a word each, and under unit person one for everything that a person has. With one per row
    a person of many rows is hardly ever out."""
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


@frozen(eq=False)
class Task:
    """What is asked of every row of a table in one release; public, but for its coins.

    Attributes:
        question: an `Ask`, the guard's own copy.
        state: what `prepare` gave.
        round: of the individual filter above the question; None where there is none.
    """

    question: Any
    state: State
    round: Round | None = None


Sketch: TypeAlias = Any
"""Whole numbers of some rows, as the kind of question has them."""


State: TypeAlias = Any
"""What `prepare` of the kind gave."""


class Chunks(Protocol):
    """A table in pieces, somewhere else."""

    def ask(self, task: Task, members: Members, account: FilterAccount) -> Sketch:
        """The merged sketch of all chunks, each of them taken once."""


Held: TypeAlias = Rows | Chunks


def ask(held: Held, task: Task, members: Members, account: FilterAccount) -> Sketch:
    """The sketch of a whole table."""
    if isinstance(held, Rows):
        return answer(task, held, members, account)
    return held.ask(task, members, account)


def answer(task: Task, rows: Rows, members: Members, account: FilterAccount) -> Sketch:
    """The sketch of some rows."""
    question, state = task.question, task.state
    if question.by_position:  # who is behind positions is public
        return question.sketch(rows, state)
    if question.apart:
        return question.sketch(members.of(question.data, rows), state)
    return _summed(task, rows, members, account)


def _summed(task: Task, rows: Rows, members: Members, account: FilterAccount) -> Sketch:
    """Of a sum, with those left out who are not behind the handle or cannot pay."""
    question = task.question
    if rows.people is not None:
        return question.told(_person_vectors(task, rows, members, account), task.state)
    values = question.contributions(rows, task.state) if task.round is not None else None
    mask = _mask(task, rows, members, account, values)
    return question.sketch(rows, evolve(task.state, values=values, mask=mask))


def _mask(task: Task, rows: Rows, members: Members, account: FilterAccount,
          values: list[Floats | None] | None) -> NDArray[np.bool_] | None:
    """Who is behind a derived handle and can pay, shape (rows,); None for all."""
    data: Derivation = task.question.data
    mask = members.mask(data, rows)
    if task.round is not None:
        assert values is not None  # what a filter weighs
        spend = _spend(task.round, account, rows.n)
        active = admit_score(task.round, spend, values, mask, rows.n)
        mask = active if mask is None else mask & active
    if is_sampled(data):
        sampled = members.sample(data, rows)
        mask = sampled if mask is None else mask & sampled
    return mask


def _person_vectors(task: Task, rows: Rows, members: Members,
                    account: FilterAccount) -> PersonVectors:
    """Under unit person: what those behind a derived handle say who can pay for it."""
    assert rows.n_people is not None
    question = task.question
    mask = members.mask(question.data, rows)
    said: PersonVectors = question.person_vectors(rows, evolve(task.state, mask=mask))
    if task.round is not None:
        spend = _spend(task.round, account, rows.n_people)
        said = admit_people(task.round, spend, said, rows.n_people)
    if is_sampled(question.data):
        sampled = np.zeros(rows.n_people, dtype=np.bool_)
        sampled[rows.people] = members.sample(question.data, rows)
        said = said.of(sampled)
    return said


def _spend(asked: Round, account: FilterAccount, n: int) -> ScopeSpend:
    """What so many records, or people, spent under the round's filter."""
    def begin(cap: float, before: NDArray[np.int64]) -> ScopeSpend:
        return ScopeSpend(cap, before, np.zeros(n, dtype=np.int32))

    found = account.spend(asked.token, n, begin)
    assert isinstance(found, ScopeSpend)
    return found
