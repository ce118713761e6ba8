"""What each record spent: filters and their scopes, which can span rounds, fits and learners."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from hashlib import sha256

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, LedgerCorrupt, NotGranted, SpoolError
from privledger.graph import Context, IndividualFilter, from_json, to_json
from privledger.guard.enrolling import EnrolmentState
from privledger.ledger import GrantState, History, State, Store
from privledger.ledger.events import VectorNote
from privledger.ledger.individual import RECORD_UNITS, worst_units
from privledger.ledger.roster import known_by, members_of
from privledger.ledger.vectors import Spent, pack, spent_by_all, spent_pieces, unpack, vector_note
from privledger.ledger.view_records import took_nothing
from privledger.questions.asking import Takings


@frozen
class Scope:
    """An individual filter that a ledger has paid for once.

    Attributes:
        name: how requests refer to it.
        node: kind, order and cap; `node.cap` is what no record may pass.
    """

    name: str
    node: IndividualFilter


def own_scope(scope: object) -> Scope:
    """A scope of the guard's own. By exact type: a stranger's caps may be others each time they
    are asked for.

    Raises:
        InvalidValue: not what `open_scope` gave.
    """
    if type(scope) is not Scope or type(scope.node) is not IndividualFilter:
        raise InvalidValue("scope", type(scope).__name__, "what open_scope gave")
    name, node = scope.name, from_json(to_json(scope.node))
    if type(name) is not str or not isinstance(node, IndividualFilter):
        raise InvalidValue("scope", type(name).__name__, "what open_scope gave")
    return Scope(name, node)


def grants_of(state: State, scope: str, identity: str) -> list[GrantState]:
    """Grants that drew on a scope for one data set; under unit person for any, since a scope of
    people is for all tables."""
    return [grant for grant in state.grants.values() if grant.event.scope == scope
            and (state.unit == "person" or grant.event.data == identity)]


def worst_of(grant: GrantState, scope: Scope) -> int:
    """Units that a grant without a vector counts with, for every record."""
    worst = grant.event.worst
    return worst_units(math.inf if worst is None else float(worst), scope.node.cap)


def spent_before(
    store: Store, state: State, scope: Scope, identity: str, n_rows: int, skip: str
) -> NDArray[np.int64]:
    """Units each record has spent in a scope, shape (n_rows,).

    A grant that crashed, or whose vector is missing, counts in full: its plan's worst case for
    every record. One that is over and read nothing counts nothing.
    """
    spent = np.zeros(n_rows, dtype=np.int64)
    for grant in grants_of(state, scope.name, identity):
        if grant.grant == skip or took_nothing(grant):
            continue
        note = None if grant.end is None else grant.end.vector
        data = None if note is None else store.vector(note.name)
        if data is None or note is None or sha256(data).hexdigest() != note.sha256:
            spent += worst_of(grant, scope)
        else:
            taken, _ = unpack(data)
            spent[: len(taken)] += _own(taken[:n_rows], grant, scope)
        np.minimum(spent, RECORD_UNITS, out=spent)  # so that no sum overflows
    return spent


def _own(taken: NDArray[np.int64], grant: GrantState, scope: Scope) -> NDArray[np.int64]:
    """What a grant says it took. No record pays less than zero, which would give back what others
    took: that counts as its worst case, and what is more than a whole cap as a whole cap."""
    return np.where(taken < 0, worst_of(grant, scope), np.minimum(taken, RECORD_UNITS))


def people_before(store: Store, state: State, scope: Scope, places: NDArray[np.int64],
                  skip: str) -> NDArray[np.int64]:
    """As `spent_before` under unit person, for people at `places`: over all tables.

    A grant that crashed counts its worst case for all in its table.
    """
    spent = np.zeros(len(places), dtype=np.int64)
    for grant in grants_of(state, scope.name, ""):
        if grant.grant == skip or took_nothing(grant):
            continue
        note = None if grant.end is None else grant.end.vector
        try:
            if note is None:
                raise LedgerCorrupt("the people's spending was never written")
            taken, _ = spent_by_all(store, note, _most(store, state))
            spent += _own(taken[places], grant, scope)
        except LedgerCorrupt:
            assert grant.event.enrolled is not None
            there = members_of(store, state.enrolled[grant.event.enrolled][1])
            held = np.zeros(len(places), dtype=np.bool_)
            held[places < len(there)] = there[places[places < len(there)]]
            spent[held] += worst_of(grant, scope)
        np.minimum(spent, RECORD_UNITS, out=spent)
    return spent


def _most(store: Store, state: State) -> int:
    return known_by(state.enrolled, store, len(state.enrolled) - 1)


@define(eq=False, repr=False)
class Spends:
    """The filters of one grant, and what its records paid under them so far.

    Attributes:
        scope: what the grant draws on; None where a filter is part of its own plan.
        covers: identity of its table. grant: its name.
        standing: where the table's people stand in the ledger; None under unit row.
    """

    _history: History = field(alias="history")
    scope: Scope | None
    covers: str
    grant: str
    standing: EnrolmentState | None = None
    _filters: dict[str, Scope] = field(init=False, factory=dict)
    _taken: dict[str, tuple[Scope, Takings]] = field(init=False, factory=dict)

    def open(self, node: IndividualFilter | None) -> Scope:
        """The filter that a handle is put behind: the scope's, or the reserved `node`.

        Raises:
            NotGranted: none was reserved, or another one is in use; nothing was read.
        """
        scope = self.scope
        if scope is None:
            if node is None:
                raise NotGranted("no filter was reserved. Nothing was read")
            scope = Scope(f"{self.grant}/filter", _own_filter(node))
            if self._filters.get(scope.name, scope).node != scope.node:
                raise NotGranted("a grant can have one individual filter only. Nothing was read")
        self._filters[scope.name] = scope
        return scope

    def check(self, step: Context) -> None:
        """Refuse a handle behind a filter that is not this grant's, caps included.

        Raises:
            NotGranted: nothing was read.
        """
        if step.token not in self._filters:
            raise NotGranted("the handle is behind another grant's filter. Nothing was read")
        if step.caps != self._filters[step.token].node.caps:
            raise NotGranted("the handle's derivation was changed. Nothing was read")

    def node(self, token: str) -> IndividualFilter:
        """The filter of a step."""
        return self._filters[token].node

    def spend(self, token: str, n: int,
              make: Callable[[float, NDArray[np.int64]], Takings]) -> Takings:
        """As `FilterAccount.spend`; of a grant on a scope, after what was spent there."""
        found = self._taken.get(token)
        if found is None:
            scope, history = self._filters[token], self._history
            history.room.check_vector(history.store, self._length(n))
            before = np.zeros(n, dtype=np.int64)
            if self.scope is not None:
                before = history.look(lambda state: self._before(state, scope, n))
            found = self._taken[token] = scope, make(scope.node.cap, before)
        return found[1]

    def _length(self, n_rows: int) -> int:
        """How many places what is kept of this grant will have."""
        if self.standing is None:
            return n_rows
        return known_by(self._history.state.enrolled, self._history.store, self.standing.enrolled)

    def _before(self, state: State, scope: Scope, n_rows: int) -> NDArray[np.int64]:
        store = self._history.store
        if self.standing is None:
            return spent_before(store, state, scope, self.covers, n_rows, self.grant)
        return people_before(store, state, scope, self.standing.places, self.grant)

    def vectors(self) -> Iterator[tuple[VectorNote, float, dict[str, bytes]]]:
        """Of each filter that a record paid under: what the settlement names, the cap, and what
        is to be stored."""
        for scope, spend in self._taken.values():
            try:
                taken, rounds = spend.taken(), spend.rounds
            except SpoolError:  # lost with a chunk: all are taken to have paid the worst
                continue
            name = f"spend:{self.grant}:{scope.name}"
            if self.standing is None:
                data = pack(taken, rounds)
                yield vector_note(name, data), scope.node.cap, {name: data}
            else:
                note, stored = spent_pieces(name, self._length(0), Spent(
                    self.standing.places, taken, rounds))
                yield note, scope.node.cap, stored


def _own_filter(node: object) -> IndividualFilter:
    """A filter of the guard's own. By exact type: a stranger's caps may be others each time they
    are asked for."""
    if type(node) is not IndividualFilter:
        raise InvalidValue("node", type(node).__name__, "an IndividualFilter")
    copy = from_json(to_json(node))
    assert isinstance(copy, IndividualFilter)
    return copy
