"""What one person spent over all tables of a ledger, and where: for the holder of the key.

CONFIDENTIAL: it depends on private data. Only that person's pieces are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.ledger.roster import is_member, known_by, members_of, place_of
from privledger.ledger.state import GrantState, State
from privledger.ledger.store import Store
from privledger.ledger.vectors import spent_at, spent_by_all
from privledger.ledger.view_records import (
    ALL,
    RecordSpend,
    SpendLine,
    beside_scopes,
    certified,
    charged_alike,
    currency_of,
    line_of,
    note_of,
    took_something,
    within_scopes,
)
from privledger.rounding import sum_up

UNKNOWN_PERSON = "this ledger has no person with that id"


@frozen
class PersonSpend:
    """What one person spent, in order of the history.

    Attributes:
        place: in the ledger's roster, from 0; says nothing without the key.
        lines: one for each grant on a table that the person is in.
        tables: those tables, in the order in which they were protected first.
        unit: of the amounts: what the ledger's filter adds up.
        epsilon: what the total is, at the budget's delta. bound: the same of the whole ledger,
            which no person is above.
    """

    place: int
    lines: tuple[SpendLine, ...]
    tables: tuple[str, ...]
    unit: str
    epsilon: float
    bound: float

    @property
    def total(self) -> float:
        """Sum of the amounts, in `unit`; rounded up."""
        return sum_up(line.amount for line in self.lines)


@frozen(eq=False)
class Taken:
    """What one grant took from each person, by place in the roster.

    Attributes:
        amounts: shape (n_people,), in the ledger's unit, never too low.
        rounds: shape (n_people,); -1 for who is not in the grant's table. cap: as `SpendLine.cap`.
        counted: whether the grant counted person by person.
    """

    amounts: NDArray[np.float64]
    rounds: NDArray[np.int32]
    cap: float
    counted: bool


def each_taken(store: Store, state: State) -> Iterator[tuple[GrantState, Taken]]:
    """Every grant that took something, in order of the history; never more than one in memory."""
    size = people_known(store, state)
    scopes: dict[str, NDArray[np.int64]] = {}
    for grant in state.grants.values():
        if not took_something(grant):
            continue
        there, note = np.zeros(size, dtype=np.bool_), note_of(grant)
        held = members_of(store, state.enrolled[grant.event.enrolled or 0][1])
        there[:len(held)] = held
        if note is None:
            yield grant, _alike(state, grant, there)
            continue
        taken, rounds = spent_by_all(store, note, size)
        money, scope = currency_of(state, grant), grant.event.scope or grant.grant
        before = scopes.get(scope, np.zeros(size, np.int64))
        scopes[scope] = before + taken
        yield grant, Taken(np.where(there, money.between(before, taken), 0.0),
                           np.where(there, rounds, -1).astype(np.int32), money.cap, True)
    for grant in beside_scopes(state):
        yield grant, _alike(state, grant, np.ones(size, dtype=np.bool_))


def _alike(state: State, grant: GrantState, there: NDArray[np.bool_]) -> Taken:
    """What a grant without counts took from each person who was there."""
    amount, cap, _ = charged_alike(state, grant)
    return Taken(np.where(there, amount, 0.0), np.where(there, 0, -1).astype(np.int32), cap, False)


def people_known(store: Store, state: State) -> int:
    """How many people the ledger knows."""
    return known_by(state.enrolled, store, len(state.enrolled) - 1) if state.enrolled else 0


@frozen(eq=False)
class _Reader:
    """One person's pieces, each read once."""

    store: Store
    state: State
    place: int
    _there: dict[int, bool] = field(init=False, factory=dict)
    _taken: dict[str, int] = field(init=False, factory=dict)

    def is_in(self, number: int) -> bool:
        """Whether an enrolment says that the person is in its table."""
        found = self._there.get(number)
        if found is None:
            event = self.state.enrolled[number][1]
            found = self._there[number] = is_member(self.store, event, self.place)
        return found

    def line(self, grant: GrantState) -> SpendLine:
        """What one grant took from the person."""
        note = note_of(grant)
        if note is None:
            return line_of(self.state, grant, *charged_alike(self.state, grant))
        taken, rounds = spent_at(self.store, note, self.place)
        money, scope = currency_of(self.state, grant), grant.event.scope or grant.grant
        before = self._taken.get(scope, 0)
        self._taken[scope] = before + taken
        amount = float(money.between(np.array([before]), np.array([taken]))[0])
        return line_of(self.state, grant, amount, money.cap, money.basis, rounds)


def person_spend(store: Store, state: State, digest: bytes) -> PersonSpend:
    """What the person of a digest spent.

    Raises:
        DataError: no person has it. LedgerCorrupt: what is kept is missing or was edited.
    """
    place = place_of(store, [event for _, event in state.enrolled], digest)
    if place is None:
        raise DataError(UNKNOWN_PERSON)
    return spend_at(store, state, place)


def spend_at(store: Store, state: State, place: int) -> PersonSpend:
    """What the person at a place of the roster spent.

    Raises:
        DataError: no person is there.
    """
    if not 0 <= place < people_known(store, state):
        raise DataError("this ledger has no person with that number")
    reader = _Reader(store, state, place)
    tables = dict.fromkeys(event.data for number, (_, event) in enumerate(state.enrolled)
                           if reader.is_in(number))
    lines = within_scopes([reader.line(grant) for grant in state.grants.values()
                            if took_something(grant) and reader.is_in(grant.event.enrolled or 0)]
                          + [reader.line(grant) for grant in beside_scopes(state)])
    return PersonSpend(place, lines, tuple(tables), "" if state.rule is None else state.rule.unit,
                       *certified(state, lines))


def record_at(store: Store, state: State, place: int) -> RecordSpend:
    """As `spend_at`, like the record of a row: over all tables."""
    found = spend_at(store, state, place)
    return RecordSpend(place, ALL, found.lines, True, found.epsilon, found.bound)
