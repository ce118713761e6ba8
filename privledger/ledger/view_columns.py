"""Grants that are over, as columns: what a compact state forgets and a view shows.

A grant takes a name, a few numbers and three references here. What it has in common with other
grants (learner, plan, labels, window, price) is kept once. Each is shown as the `ChargeFigures`
that a full state would give, except that `event.holder` is None: no process holds it any more.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

from attrs import define, field

from privledger.graph import canonical
from privledger.ledger.checkpoint import Packed, grant_of_values, values_of_grant
from privledger.ledger.codec import RAW, encode, like
from privledger.ledger.codec import model as model_of
from privledger.ledger.entries import parse_body
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

T = TypeVar("T")

_BLANK: Packed = {"grant": "", "data": "", "time": "", "holder": None}
"""What a model has in place of what each grant has of its own."""


def _places(kinds: Sequence[T], column: Iterable[T]) -> Iterator[int]:
    places = {one: place for place, one in enumerate(kinds)}
    return (places[one] for one in column)


@define(eq=False)
class EndedGrants:
    """Takes each grant as a compact state lets go of it.

    Attributes:
        kept: those with something of their own: found crashed, with a vector or a score.
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
            usual = grant.crash is None and end is not None and (
                end.vector is None and end.score is None)
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

    def packed(self) -> Packed:
        """As an epoch keeps them."""
        texts: dict[str, int] = {}
        models = array("i", (texts.setdefault(canonical(encode(like(event, _BLANK))), len(texts))
                             for event in self._granted))
        tables, times = (list(dict.fromkeys(found)) for found in (self._tables, self._times))
        return {
            "names": self._names, "tables": tables, "times": times, "models": list(texts),
            "ways": [list(way) for way in self._ended],
            "kept": canonical(list(map(values_of_grant, self.kept))),
            **{name: array(kind, column).tobytes() for name, kind, column in (
                ("position", "q", self._positions), ("way", "i", self._ways),
                ("model", "i", (models[one] for one in self._models)),
                ("table", "i", _places(tables, self._tables)),
                ("time", "i", _places(times, self._times)))}}

    @classmethod
    def unpacked(cls, value: Packed) -> EndedGrants:
        """The inverse of `packed`."""
        found, columns = cls(), {name: array(kind, value[name]) for name, kind in (
            ("position", "q"), ("way", "i"), ("model", "i"), ("table", "i"), ("time", "i"))}
        tables, times = value["tables"], value["times"]
        found._names = value["names"]
        found._tables = [tables[place] for place in columns["table"]]
        found._times = [times[place] for place in columns["time"]]
        found._positions, found._models, found._ways = (
            columns[name] for name in ("position", "model", "way"))
        found._same = {one: one for one in (*tables, *times)}
        found._granted = [cast(Granted, model_of("granted", parse_body(text), _BLANK))
                          for text in value["models"]]
        found._ended = {(status, touched, releases): place for place, (
            status, touched, releases) in enumerate(value["ways"])}
        found.kept = list(map(grant_of_values, parse_body(value["kept"])))
        return found

    def each(self, wanted: Callable[[str], bool]) -> Iterator[GrantState]:
        """The grants on tables that are wanted, asked one by one, without how they ended; those
        with something of their own last."""
        ways = list(self._ended)
        for name, table, time, position, model, way in zip(
                self._names, self._tables, self._times, self._positions, self._models, self._ways,
                strict=True):
            if wanted(table):
                status, touched, releases = ways[way]
                event = like(self._granted[model], {
                    "grant": name, "data": table, "time": time, "holder": None})
                yield GrantState(name, position, cast(Granted, event),
                                 "aborted" if status == "aborted" else "settled", releases, touched)
        yield from (grant for grant in self.kept if wanted(grant.event.data))

    def charges(self, state: State) -> tuple[ChargeFigures, ...]:
        """These and those that the state still keeps, in order of the history."""
        found = [*charges_of(state), *(charge_of(one, state) for one in self.kept)]
        models = [charge_of(GrantState(event.grant, 0, event, "settled"), state)
                  for event in self._granted]
        nothing, ways = Amount(0, 0, state.rule), list(self._ended)
        over: dict[tuple[int, str], tuple[str, ...]] = {}
        for position, model, way, name, table, time in zip(
                self._positions, self._models, self._ways, self._names, self._tables,
                self._times, strict=True):
            one, (status, touched, releases) = models[model], ways[way]
            if state.caps and (model, table) not in over:
                event = like(self._granted[model], {"data": table})
                assert isinstance(event, Granted)
                over[model, table] = caps_over(state.caps, one.window, event)
            found.append(ChargeFigures(
                name, position, "grant", status,
                one.amount if touched or status != "aborted" else nothing, one.asked, table,
                one.learners, one.mechanisms, one.labels, one.window, None, one.delta, 0, (),
                releases, 1, over.get((model, table), ()), one.plan, time, self._granted[model]))
        return tuple(sorted(found, key=lambda one: one.position))
