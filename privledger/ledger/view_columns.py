"""Grants that are over, as columns: what a compact state forgets and a view shows.

A grant takes a name, a few numbers and three references here. What it has in common with other
grants (learner, plan, labels, window, price) is kept once. Each is shown as the `ChargeFigures`
that a full state would give, except that `event.holder` is None: no process holds it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.ledger.codec import RAW, like
from privledger.ledger.events import Granted, Unreadable
from privledger.ledger.state import GrantState, State
from privledger.ledger.view_charges import (
    ChargeFigures,
    caps_over,
    charge_of,
    charges_of,
    status_of,
)
from privledger.ledger.view_figures import Amount


@define(eq=False)
class EndedGrants:
    """Takes each grant as a compact state lets go of it.

    Attributes:
        kept: those with something of their own: found crashed, or with a vector.
    """

    kept: list[GrantState] = field(factory=list)
    _names: list[str] = field(factory=list)
    _tables: list[str] = field(factory=list)
    _times: list[str | None] = field(factory=list)
    _positions: array[int] = field(factory=lambda: array("q"))
    _models: array[int] = field(factory=lambda: array("i"))
    _ways: array[int] = field(factory=lambda: array("i"))
    _same: dict[str | None, str | None] = field(factory=dict)
    _known: dict[object, int] = field(factory=dict)
    _granted: list[Granted] = field(factory=list)
    _ended: dict[tuple[str, bool, int], int] = field(factory=dict)

    def add(self, grant: GrantState) -> None:
        """Note a grant that is over, was not corrected and drew on no scope."""
        event, end = grant.event, grant.end
        try:
            way = status_of(grant), grant.touched, grant.releases
            usual = grant.crash is None and end is not None and end.vector is None
            # Copies of one model share its body and the plan: the rest is in the columns.
            key = id(event.__dict__[RAW]), id(event.plan), event.units, event.scope
        except (Unreadable, KeyError):
            usual = False
        if not usual:
            self.kept.append(grant)
            return
        model = self._known.setdefault(key, len(self._granted))
        if model == len(self._granted):
            self._granted.append(event)
        self._names.append(grant.grant)
        self._tables.append(self._same.setdefault(event.data, event.data) or "")
        self._times.append(self._same.setdefault(event.time, event.time))
        self._positions.append(grant.position)
        self._models.append(model)
        self._ways.append(self._ended.setdefault(way, len(self._ended)))

    def charges(self, state: State) -> Sequence[ChargeFigures]:
        """These and those that the state still keeps, in order of the history."""
        others = sorted([*charges_of(state), *(charge_of(one, state) for one in self.kept)],
                        key=lambda one: one.position)
        return Charges(self, state, others) if self._names else tuple(others)


class Charges(Sequence[ChargeFigures]):
    """Every grant and scope of a history, each made when it is asked for."""

    def __init__(self, ended: EndedGrants, state: State, others: list[ChargeFigures]) -> None:
        self._ended, self._others, self._state = ended, others, state
        self._places: NDArray[np.int64] = np.argsort(
            [*ended._positions, *(one.position for one in others)], kind="stable")
        self._models = [charge_of(GrantState(event.grant, 0, event, "settled"), state)
                        for event in ended._granted]
        self._ways = list(ended._ended)
        self._caps: dict[tuple[int, str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[ChargeFigures]:
        return map(self._made, self._places.tolist())

    @overload
    def __getitem__(self, place: int) -> ChargeFigures: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[ChargeFigures, ...]: ...

    def __getitem__(self, place: int | slice) -> ChargeFigures | tuple[ChargeFigures, ...]:
        if isinstance(place, slice):
            return tuple(map(self._made, self._places[place].tolist()))
        return self._made(int(self._places[place]))

    def _made(self, place: int) -> ChargeFigures:
        ended = self._ended
        if place >= len(ended._names):
            return self._others[place - len(ended._names)]
        number, name, table = ended._models[place], ended._names[place], ended._tables[place]
        one = self._models[number]
        status, touched, releases = self._ways[ended._ways[place]]
        event = like(ended._granted[number], {"grant": name, "data": table, "holder": None,
                                              "time": ended._times[place]})
        assert isinstance(event, Granted)
        amount = one.amount if touched or status != "aborted" else Amount(0, 0, one.amount.rule)
        return ChargeFigures(
            name, ended._positions[place], "grant", status, amount, one.asked, table, one.learners,
            one.mechanisms, one.labels, one.window, None, one.delta, 0, (), releases, 1,
            self._over(number, event) if self._state.caps else (), one.plan, event)

    def _over(self, number: int, event: Granted) -> tuple[str, ...]:
        key = number, event.data
        if key not in self._caps:
            self._caps[key] = caps_over(self._state.caps, event.window, event)
        return self._caps[key]
