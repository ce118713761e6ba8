"""People of a table -> places in the ledger's roster. Ids go no further than this."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, NotGranted
from privledger.ledger import History, State
from privledger.ledger.entries import now
from privledger.ledger.events import Enrolled, Event
from privledger.ledger.roster import Roster, batch_pieces, member_pieces, newcomers
from privledger.ledger.view_people import PersonSpend, person_spend
from privledger.mutex import Mutex
from privledger.tables.person_ids import Persons, persons
from privledger.tables.person_keys import Digests, PeopleKey, digests, key_to_bytes

NO_KEY = ("this ledger protects people: open it with people_key=..., the key file that it was "
          "created with; nothing was read")


@frozen(eq=False, repr=False)
class EnrolmentState:
    """Where the people of one table stand. Lives inside the guard.

    Attributes:
        rows: as `Rows.people`: the table's own number of each row's person, shape (n_rows,).
        places: in the roster, by that number, shape (n_people,).
        enrolled: which enrolment of the ledger said so.
    """

    rows: NDArray[np.int32]
    places: NDArray[np.int64]
    enrolled: int


class _Moved(Exception):
    """Another process enrolled people meanwhile."""


@define(eq=False, repr=False)
class Enrolling:
    """The roster of one ledger, as far as this process knows it, and the owner's key."""

    _history: History = field(alias="history")
    _key: PeopleKey | None = field(alias="key", default=None)
    _known: Roster | None = field(init=False, default=None)
    _lock: Mutex = field(init=False, factory=Mutex)

    @property
    def _roster(self) -> Roster:
        """What is known of the ledger's people; made when it is asked for first."""
        if self._known is None:
            self._known = Roster()
        return self._known

    def key(self) -> PeopleKey:
        """The owner's key.

        Raises:
            NotGranted: the ledger was opened without one.
        """
        if self._key is None:
            raise NotGranted(NO_KEY)
        return self._key

    def read(self, people: object, column: str, n_rows: int) -> Persons:
        """Who stands behind each row, where the unit is the person.

        Raises:
            InvalidValue: no people are given.
            DataError: ids that cannot be ids.
        """
        self.key()
        if people is None:
            raise InvalidValue("people", None, "given, one id for each row, here or by the "
                                               "schema's [unit] person")
        return persons(people, column, n_rows)

    def enrol(self, data: str, found: Persons, lines: Callable[[], list[Event]],
              check: Callable[[int], None], before: EnrolmentState | None = None) -> EnrolmentState:
        """Give people places, durably, and say who is in the table.

        Args:
            data: name of the table. lines: what is to be written beside.
            check: refuses a table of so many people.
            before: of the rows that are there already, for late arrivals.
        """
        marks = digests(self.key(), found.ids)
        with self._lock:
            while True:
                try:
                    return self._written(data, found, marks, lines, check, before)
                except _Moved:
                    continue

    def _written(self, data: str, found: Persons, marks: Digests,
                 lines: Callable[[], list[Event]], check: Callable[[int], None],
                 before: EnrolmentState | None) -> EnrolmentState:
        history, roster = self._history, self._roster
        roster.follow(history.store, _enrolled(history))
        number, first = roster.enrolments, roster.size
        fresh = newcomers(marks, roster.find(marks))
        people, stored = batch_pieces(number, first, fresh)
        roster_places = roster.find_with(marks, fresh)
        standing = _standing(found, roster_places, before, number)
        check(len(standing.places))
        members, more = member_pieces(number, standing.places, first + len(fresh))
        event = Enrolled(data, people, members, now())

        def decided(state: State) -> list[Event]:
            if len(state.enrolled) != number:
                raise _Moved
            return [*lines(), event]

        history.commit(decided, stored | more)
        roster.take(fresh)
        return standing

    def size(self) -> int:
        """How many people the ledger knows."""
        with self._lock:
            self._roster.follow(self._history.store, _enrolled(self._history))
            return self._roster.size


def _enrolled(history: History) -> list[Enrolled]:
    return history.look(lambda state: [event for _, event in state.enrolled])


def _standing(found: Persons, places: NDArray[np.int64], before: EnrolmentState | None,
              number: int) -> EnrolmentState:
    """The numbers of a table's people: those of earlier rows stay, new ones follow."""
    if before is None:
        return EnrolmentState(found.rows, places, number)
    order = np.argsort(before.places, kind="stable")
    at = np.searchsorted(before.places[order], places)
    held = np.minimum(at, len(order) - 1)
    known = before.places[order[held]] == places
    numbers = np.empty(len(places), dtype=np.int32)
    numbers[known] = order[held[known]]
    numbers[~known] = np.arange(len(before.places), len(before.places) + int((~known).sum()))
    return EnrolmentState(np.concatenate([before.rows, numbers[found.rows]]),
                    np.concatenate([before.places, places[~known]]), number)


def person_record(history: History, enrolling: Enrolling, person: object) -> PersonSpend:
    """What the person of an id spent, over all tables.

    Raises:
        NotGranted: no key. DataError: no person is known by the id, or it cannot be one.
    """
    if history.state.unit != "person":
        raise InvalidValue("person", "an id", "left out: this ledger protects rows")
    found = persons([person], "person", 1)
    mark = key_to_bytes(digests(enrolling.key(), found.ids))
    return person_spend(history.store, history.full(), mark)


def check_key(history: History, key: PeopleKey) -> None:
    """Refuse another key than the ledger's.

    Raises:
        InvalidValue: another key, or one for a ledger that protects rows.
    """
    created = history.state.creation
    if created.key_check is None:
        raise InvalidValue("people_key", "a key", "left out: this ledger protects rows")
    if key.check != created.key_check:
        raise InvalidValue("people_key", "another key", "the one that the ledger was created with")
