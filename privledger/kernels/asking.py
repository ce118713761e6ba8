"""One question, one run of rows: whole numbers before noise."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.kernels.members import Members, is_sampled
from privledger.kernels.rounds import FilterAccount, Round, admit, admit_people
from privledger.ledger.individual import ScopeSpend
from privledger.questions.cells import follows_records
from privledger.questions.derivation import Derivation
from privledger.questions.label_query import LabelQuery
from privledger.questions.one_voice import Voices
from privledger.questions.query import Query
from privledger.tables.chunk import Rows

Floats = NDArray[np.float64]


@frozen(eq=False)
class Task:
    """What is asked of every row of a table in one release; public, but for its coins.

    Attributes:
        question: the guard's own copy.
        state: what `prepare` gave.
        round: of the individual filter above the question; None where there is none.
    """

    question: Sketching
    state: State
    round: Round | None = None


Sketch: TypeAlias = Any
"""Whole numbers of some rows, as the kind of question has them."""


State: TypeAlias = Any
"""What `prepare` of the kind gave."""


class Sketching(Protocol):
    """What a task needs of a question."""

    @property
    def data(self) -> Derivation:
        """Which records it is about."""

    def sketch(self, chunk: Rows, state: State) -> Sketch:
        """As `Question.sketch`."""

    def merge(self, a: Sketch, b: Sketch) -> Sketch:
        """As `Question.merge`."""


class Chunks(Protocol):
    """A table in pieces, somewhere else."""

    def ask(self, task: Task, members: Members, purse: FilterAccount) -> Sketch:
        """The merged sketch of all chunks, each of them taken once."""


Held: TypeAlias = Rows | Chunks


def ask(held: Held, task: Task, members: Members, purse: FilterAccount) -> Sketch:
    """The sketch of a whole table."""
    if isinstance(held, Rows):
        return answer(task, held, members, purse)
    return held.ask(task, members, purse)


def answer(task: Task, rows: Rows, members: Members, purse: FilterAccount) -> Sketch:
    """The sketch of some rows."""
    question, state = task.question, task.state
    if isinstance(question, LabelQuery):  # positions are asked: who is behind them is public
        return question.sketch(rows, state)
    if not isinstance(question, Query):
        return question.sketch(members.of(question.data, rows), state)
    steps = question.data.steps
    whole = not steps or (follows_records(question.cells) and all(
        step.context.kind == "part" for step in steps))
    if whole:  # a part is a table of its own, so that only its records cost
        return question.sketch(members.of(question.data, rows) if steps else rows, state)
    if rows.people is not None:
        return question.told(_voices(question, task, rows, members, purse), state)
    values = question.contributions(rows, state)
    mask = _mask(task, rows, members, purse, values)
    return question.sketch(rows, evolve(state, values=values, mask=mask))


def _mask(task: Task, rows: Rows, members: Members, purse: FilterAccount,
          values: list[Floats | None]) -> NDArray[np.bool_] | None:
    """Who is behind a derived handle and can pay, shape (rows,); None for everybody."""
    data = task.question.data
    mask = members.mask(data, rows)
    if task.round is not None:
        spend = _spend(task.round, purse, rows.n)
        active = admit(task.round, spend, values, mask, rows.n)
        mask = active if mask is None else mask & active
    if is_sampled(data):
        sampled = members.sample(data, rows)
        mask = sampled if mask is None else mask & sampled
    return mask


def _voices(
    question: Query, task: Task, rows: Rows, members: Members, purse: FilterAccount
) -> Voices:
    """Under unit person: what those behind a derived handle say who can pay for it."""
    assert rows.n_people is not None
    mask = members.mask(question.data, rows)
    said: Voices = question.voices(rows, evolve(task.state, mask=mask))
    if task.round is not None:
        spend = _spend(task.round, purse, rows.n_people)
        said = admit_people(task.round, spend, said, rows.n_people)
    if is_sampled(question.data):
        sampled = np.zeros(rows.n_people, dtype=np.bool_)
        sampled[rows.people] = members.sample(question.data, rows)
        said = said.of(sampled)
    return said


def _spend(asked: Round, purse: FilterAccount, n: int) -> ScopeSpend:
    """What so many records, or people, spent under the round's filter."""
    def begin(cap: float, before: NDArray[np.int64]) -> ScopeSpend:
        return ScopeSpend(cap, before, np.zeros(n, dtype=np.int32))

    found = purse.spend(asked.token, n, begin)
    assert isinstance(found, ScopeSpend)
    return found
