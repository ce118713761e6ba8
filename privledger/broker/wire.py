"""What a learner in a process of its own may say, as JSON values, by the fields of its class.

`WireDescriber` is the learner's side: it gives every described object a number and writes each down
once. `WireReader` is the owner's side: it builds the objects anew by the package's own calls, so
they are what the same learner would hold in one process. No value carries code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field

from privledger.errors import (
    NotGranted,
    PrivledgerError,
    UnsupportedNode,
)
from privledger.guard.dataset import Allocation, Dataset, Partition
from privledger.questions import closed_set
from privledger.questions.closed_set import from_wire, is_wire
from privledger.questions.question import Derivation, derivation_of
from privledger.questions.score import Score
from privledger.rounding import MOST_COUNT, count, number
from privledger.tables.schema import Schema
from privledger.tables.values import (
    Json,
    array_in,
    array_out,
    table,
    text_field,
    whole,
)

T = TypeVar("T")
MOST_OBJECTS = 1_000_000


def _refuse(what: object) -> Any:
    raise UnsupportedNode(f"an isolated learner cannot describe a {type(what).__name__}. "
                          "Nothing was read")


@define(eq=False)
class WireDescriber:
    """The learner's side: objects of this package -> numbers and what they stand for.

    Attributes:
        vault: what stands where the guarded rows would be; queries on others are refused.
        schema: of the data.
    """

    vault: Any
    schema: Schema
    _known: dict[int, tuple[int, Any]] = field(factory=dict, init=False)
    _parts: dict[str, int] = field(factory=dict, init=False)
    _told: dict[int, int] = field(factory=dict, init=False)
    _new: list[Json] = field(factory=list, init=False)
    _next: int = field(default=1, init=False)

    def fresh(self, what: object) -> int:
        """A new number for `what`, which is kept so that its identity stays its own."""
        place, self._next = self._next, self._next + 1
        self._known[id(what)] = place, what
        return place

    def new(self) -> list[Json]:
        """What was written down since the last call, in order."""
        found, self._new = self._new, []
        return found

    def object(self, what: Any) -> int:
        """The number of cells, bins or a score; the scores below are brought up to date."""
        known = self._known.get(id(what))
        if known is None:
            if type(what) not in closed_set.NUMBERED:
                _refuse(what)
            wire = is_wire(what, self)
            known = self.fresh(what), what
            self._new.append({"id": known[0]} | wire)
        if isinstance(what, Score):
            place = known[0]
            done = self._told.get(place, 0)
            for cells, values in what.updates(done):
                self._new.append({"is": "update", "score": place, "cells": self.object(cells),
                                  "values": array_out(values)})
            self._told[place] = len(what.updates())
        for inner in getattr(what, "below", ()):
            self.object(inner)
        return known[0]

    def handle(self, data: Any) -> int:
        """The number of a handle; each step of its derivation is written down once."""
        data = derivation_of(data)
        if type(data) is not Derivation or data.seal is not self.vault:
            raise NotGranted("the query is about other data than the grant covers. Nothing was "
                             "read")
        place = 0
        for step in data.steps:
            known = self._known.get(id(step))
            if step.cells is not None:
                self.object(step.cells)  # a score inside may have moved
            place = known[0] if known is not None else self._step(place, step)
        return place

    def _step(self, of: int, step: Any) -> int:
        context = step.context
        if context.kind == "poisson":
            wire: Json = {"is": "sample", "of": of, "rate": float(context.rate)}
        elif context.kind == "fixed":
            wire = {"is": "subset", "of": of, "size": int(context.size),
                    "out_of": int(context.out_of)}
        elif context.kind == "truncated":
            wire = {"is": "cut", "of": of, "rate": float(context.rate), "size": int(context.size),
                    "out_of": int(context.out_of)}
        elif context.kind == "allocation":
            parts = self._divided(context.token, lambda: {
                "is": "allocation", "of": of, "steps": int(context.parts)})
            wire = {"is": "round", "parts": parts, "part": int(context.part)}
        elif context.kind == "part" and step.cells is not None:
            parts = self._divided(context.token, lambda: {
                "is": "parts", "of": of, "cells": self.object(step.cells)})
            wire = {"is": "part", "parts": parts, "part": int(context.part)}
        else:
            raise NotGranted("the handle is behind another grant's filter. Nothing was read")
        place = self.fresh(step)
        self._new.append({"id": place} | wire)
        return place

    def _divided(self, token: str, wire: Callable[[], Json]) -> int:
        """The number of a partition or an allocation, which is written down once."""
        known = self._parts.get(token)
        if known is None:
            said = wire()
            known = self._parts[token] = self.fresh(token)
            self._new.append({"id": known} | said)
        return known

    def query(self, query: Any) -> Json:
        """A question as JSON values; whatever it speaks about is written down first."""
        if type(query) not in closed_set.QUESTIONS:
            _refuse(query)
        place = self.handle(query.data)
        return {"data": place} | is_wire(query, self)


@define(eq=False)
class WireReader:
    """The owner's side: numbers -> objects that were built and checked here.

    Attributes:
        root: the guarded handle that number 0 stands for.
    """

    root: Dataset
    _objects: dict[int, Any] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._objects[0] = self.root

    @property
    def schema(self) -> Schema:
        """Of the guarded data."""
        return self.root.schema

    def object(self, place: Any, kind: type[T]) -> T:
        """What a number stands for, if it is of that kind."""
        found: T = self.one_of(place, (kind,))
        return found

    def one_of(self, place: Any, kinds: tuple[type, ...]) -> Any:
        found = self._objects.get(count("number", place, least=0))
        if type(found) not in kinds:
            raise NotGranted("nothing of the kind that is needed has this number; nothing was read")
        return found

    def cells(self, place: Any) -> Any:
        """Cells of any known kind."""
        return self.one_of(place, closed_set.CELLS)

    def keep(self, place: Any, what: Any) -> None:
        """Let a number stand for an object; for good, and once."""
        name = count("number", place)
        if name in self._objects or len(self._objects) >= MOST_OBJECTS:
            raise NotGranted("a number stands for one object, and there are limits")
        self._objects[name] = what

    def learn(self, entries: list[Any]) -> None:
        """Take in what the other side wrote down; one bad entry does not hide the others."""
        failed: PrivledgerError | None = None
        for entry in entries:
            try:
                wire = table(entry)
                name = text_field(wire, "is")
                if name == "update":
                    score = self.object(wire.get("score"), Score)
                    score.add(self.one_of(wire.get("cells"), closed_set.MOVES),
                              array_in(wire.get("values")))
                elif name in _DERIVATIONS:
                    self.keep(wire.get("id"), _DERIVATIONS[name](wire, self))
                else:
                    self.keep(wire.get("id"), from_wire(wire, closed_set.NUMBERED, self))
            except PrivledgerError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def handle(self, place: Any) -> Dataset:
        """One of the handles that were derived here."""
        return self.object(place, Dataset)

    def query(self, value: Any) -> Any:
        """A question on one of the known handles, built as a learner in this process would."""
        return from_wire(value, closed_set.QUESTIONS, self)


def _part(wire: Json, reader: WireReader, kind: type[Partition] | type[Allocation]) -> Dataset:
    parts: Partition | Allocation = reader.object(wire.get("parts"), kind)
    part = whole(wire, "part", most=MOST_COUNT)
    if part >= len(parts):
        raise NotGranted("there is no such part; nothing was read")
    return parts[part]


def _sizes(wire: Json) -> tuple[int, int]:
    return whole(wire, "size", most=MOST_COUNT), whole(wire, "out_of", most=MOST_COUNT)


_DERIVATIONS: dict[str, Callable[[Json, WireReader], Any]] = {
    "sample": lambda wire, reader: reader.object(wire.get("of"), Dataset).poisson(
        number("rate", wire.get("rate"))),
    "subset": lambda wire, reader: reader.object(wire.get("of"), Dataset).fixed_size(
        *_sizes(wire)),
    "parts": lambda wire, reader: Partition(reader.object(wire.get("of"), Dataset),
                                            reader.cells(wire.get("cells"))),
    "part": lambda wire, reader: _part(wire, reader, Partition),
    "cut": lambda wire, reader: reader.object(wire.get("of"), Dataset).truncated_poisson(
        number("rate", wire.get("rate")), *_sizes(wire)),
    "allocation": lambda wire, reader: reader.object(
        wire.get("of"), Dataset).random_allocation(
            whole(wire, "steps", most=MOST_COUNT)),
    "round": lambda wire, reader: _part(wire, reader, Allocation),
}
