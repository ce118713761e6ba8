"""What each record spent: filters and their scopes, which can span rounds, fits and learners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.accounting import poisson_gaussian_rdp
from privledger.errors import InvalidValue, LedgerCorrupt, NotGranted, UnsupportedNode
from privledger.graph import Context, IndividualFilter, from_json, to_json
from privledger.graph.meter import filter_caps
from privledger.guard.enrolling import Standing
from privledger.ledger import GrantState, History, ScopeSpend, State, Store
from privledger.ledger.events import VectorNote
from privledger.ledger.individual import RECORD_UNITS, worst_units
from privledger.ledger.people_spent import Spent, spent_by_all, spent_pieces
from privledger.ledger.roster import known_by, members_of
from privledger.ledger.vectors import pack, unpack, vector_note
from privledger.ledger.view_records import took_nothing
from privledger.questions.one_voice import Voices
from privledger.questions.sums import square_norms


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
            spent[: len(taken)] += taken[:n_rows]
    return np.minimum(spent, RECORD_UNITS)


def people_before(store: Store, state: State, scope: Scope, places: NDArray[np.int64],
                  skip: str) -> NDArray[np.int64]:
    """As `spent_before` under unit person, for people at `places`: over all tables.

    A grant that crashed counts its worst case for everybody in its table.
    """
    spent = np.zeros(len(places), dtype=np.int64)
    for grant in grants_of(state, scope.name, ""):
        if grant.grant == skip or took_nothing(grant):
            continue
        note = None if grant.end is None else grant.end.vector
        try:
            if note is None:
                raise LedgerCorrupt("what people spent was never written")
            taken, _ = spent_by_all(store, note, _most(store, state))
            spent += taken[places]
        except LedgerCorrupt:
            assert grant.event.enrolled is not None
            there = members_of(store, state.enrolled[grant.event.enrolled][1])
            held = np.zeros(len(places), dtype=np.bool_)
            held[places < len(there)] = there[places[places < len(there)]]
            spent[held] += worst_of(grant, scope)
    return np.minimum(spent, RECORD_UNITS)


def _most(store: Store, state: State) -> int:
    return known_by(state.enrolled, store, len(state.enrolled) - 1)


@lru_cache(maxsize=64)
def _amplified(rate: float, order: float, top: float) -> tuple[tuple[float, ...], ...]:
    """Table of (mu squared, Renyi bound at `order` of a Poisson-sampled Gaussian)."""
    grid = np.concatenate([[0.0], np.geomspace(top * 1e-6, top, 512)])
    grid[-1] = top  # to the last bit: a record of full norm is looked up there
    costs = [0.0] + [poisson_gaussian_rdp(rate, float(1 / np.sqrt(square)), (order,)).bounds[0]
                     for square in grid[1:]]
    return tuple(grid.tolist()), tuple(np.maximum.accumulate(costs).tolist())


def individual_costs(
    squares: NDArray[np.float64], node: IndividualFilter, rate: float, top: float
) -> NDArray[np.float64]:
    """Per-record cost of a round under a filter, from each record's mu squared.

    Args:
        squares: shape (n_records,), mu squared of the unsampled Gaussian for each record.
        rate: Poisson rate, 1 if the round is not sampled.
        top: largest value `squares` can take.

    The table for sampled rounds is looked up at the next larger grid point, so never too low.
    """
    if node.kind == "gdp":
        return squares
    if rate == 1.0:
        return squares * (node.order / 2 * (1 + 2.0**-50))
    grid, costs = _amplified(rate, node.order, top)
    place = np.searchsorted(grid, squares, side="left")
    return np.take(np.array([*costs, np.inf]), place)


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
    standing: Standing | None = None
    _filters: dict[str, Scope] = field(init=False, factory=dict)
    _taken: dict[str, tuple[Scope, ScopeSpend]] = field(init=False, factory=dict)

    def open(self, node: IndividualFilter | None) -> Scope:
        """The filter that a handle is put behind: the scope's, or the reserved `node`.

        Raises:
            NotGranted: none was reserved, or another one is in use; nothing was read.
        """
        scope = self.scope
        if scope is None:
            if node is None:
                raise NotGranted("no filter was reserved; nothing was read")
            scope = Scope(f"{self.grant}/filter", _own_filter(node))
            if self._filters.get(scope.name, scope).node != scope.node:
                raise NotGranted("one individual filter per grant; nothing was read")
        self._filters[scope.name] = scope
        return scope

    def check(self, step: Context) -> None:
        """Refuse a handle behind a filter that is not this grant's, caps included.

        Raises:
            NotGranted: nothing was read.
        """
        if step.token not in self._filters:
            raise NotGranted("the handle is behind another grant's filter; nothing was read")
        if step.caps != filter_caps(self._filters[step.token].node):
            raise NotGranted("a handle whose derivation was changed; nothing was read")

    def admit(self, token: str, values: list[NDArray[np.float64] | None], clips: Sequence[float],
              weights: Sequence[float], part: NDArray[np.bool_] | None, n_rows: int,
              rate: float = 1.0, rollover: int = 0) -> NDArray[np.bool_]:
        """Charge each record its own cost of a Gaussian round; who could pay, shape (n_rows,).

        Args:
            token: of the filter's step. rate: of the Poisson samples below it.
            values: clipped contributions per block, None where all are one; scaled in place
                where `rollover` asks for it.
            clips, weights: norm bound of each block, and the mu squared that it costs.
            part: who is asked; the others pay nothing. None for everybody.
            rollover: rounds left, as in `Session.release`.
        """
        scope, spend = self._spend(token, n_rows)
        _check_rate(scope, rate)
        constant, squares = 0.0, np.zeros(n_rows)
        for array, clip, weight in zip(values, clips, weights, strict=True):
            if array is None:
                constant += weight
            else:
                squares += square_norms(array, clip) * weight
        squares += constant
        if part is not None:
            squares[~part] = 0.0  # a record pays for its own part only
        if rollover > 0:
            _roll_over(squares, spend.left() / (rollover * _per_square(scope, rate)), values)
        top = sum(weights)
        np.minimum(squares, top, out=squares)
        return spend.admit(individual_costs(squares, scope.node, rate, top))

    def admit_people(self, token: str, said: Voices, clips: Sequence[float],
                     weights: Sequence[float], n_people: int, rate: float = 1.0,
                     rollover: int = 0) -> Voices:
        """As `admit` under unit person: every person is charged for the whole vector that it
        sends, over blocks and cells. Returns what those say who could pay.

        Args:
            said: what everybody in the handle's part says.
        """
        scope, spend = self._spend(token, n_people)
        _check_rate(scope, rate)
        squares = said.squares(clips, weights, n_people)
        if rollover > 0:
            allowed = spend.left() / (rollover * _per_square(scope, rate))
            factor = _shrink(squares, allowed)
            said, squares = said.scaled(factor), squares * np.square(factor)
        top = sum(weights)
        np.minimum(squares, top, out=squares)
        return said.of(spend.admit(individual_costs(squares, scope.node, rate, top)))

    def _spend(self, token: str, n_rows: int) -> tuple[Scope, ScopeSpend]:
        found = self._taken.get(token)
        if found is None:
            scope, history = self._filters[token], self._history
            history.room.check_vector(history.store, self._length(n_rows))
            before = np.zeros(n_rows, dtype=np.int64)
            if self.scope is not None:
                before = history.look(lambda state: self._before(state, scope, n_rows))
            found = self._taken[token] = scope, ScopeSpend(
                scope.node.cap, before, np.zeros(n_rows, dtype=np.int32))
        return found

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
        """Of each filter that somebody paid under: what the settlement names, the cap, and what
        is to be stored."""
        for scope, spend in self._taken.values():
            name = f"spend:{self.grant}:{scope.name}"
            if self.standing is None:
                data = pack(spend.taken(), spend.rounds)
                yield vector_note(name, data), scope.node.cap, {name: data}
            else:
                note, stored = spent_pieces(name, self._length(0), Spent(
                    self.standing.places, spend.taken(), spend.rounds))
                yield note, scope.node.cap, stored


def _own_filter(node: object) -> IndividualFilter:
    """A filter of the guard's own. By exact type: a stranger's caps may be others each time they
    are asked for."""
    if type(node) is not IndividualFilter:
        raise InvalidValue("node", type(node).__name__, "an IndividualFilter")
    copy = from_json(to_json(node))
    assert isinstance(copy, IndividualFilter)
    return copy


def _check_rate(scope: Scope, rate: float) -> None:
    if scope.node.kind == "gdp" and rate < 1.0:
        raise UnsupportedNode("the Gaussian-DP filter takes unsampled rounds only")


def _per_square(scope: Scope, rate: float) -> float:
    """Filter cost per mu squared of an unsampled round; sampled rounds cost no more."""
    return 1.0 if scope.node.kind == "gdp" else scope.node.order / 2


def _shrink(squares: NDArray[np.float64], allowed: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each contribution is multiplied by, so that its mu squared is within `allowed`."""
    factor = np.sqrt(np.minimum(1.0, allowed / np.maximum(squares, 1e-300)))
    factor *= 1 - 2.0**-50
    return factor


def _roll_over(squares: NDArray[np.float64], allowed: NDArray[np.float64],
               values: list[NDArray[np.float64] | None]) -> None:
    """Scale each record's contributions down to the mu squared it may use this round."""
    factor = _shrink(squares, allowed)
    for place, array in enumerate(values):
        if array is None:
            values[place] = factor.copy()
        else:
            values[place] = array * (factor if array.ndim == 1 else factor[:, None])
    squares *= np.square(factor)
