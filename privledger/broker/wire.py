"""What a learner in a process of its own may say, as JSON values. One entry per kind.

`Describer` is the learner's side: it gives every described object a number and writes each down
once. `Reader` is the owner's side: it builds the objects anew by the package's own calls, so
they are what the same learner would hold in one process. No value carries code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field

from privledger.broker.kinds import (
    BLOCKS,
    CELLS,
    NUMBERED,
    READ_BLOCK,
    READ_OBJECT,
    read_choice,
    read_features,
    read_label_choice,
    read_labels,
    write_choice,
    write_features,
    write_label_choice,
    write_labels,
)
from privledger.broker.values import Json, array_in, array_out, items, table, text, whole
from privledger.errors import NotGranted, PrivledgerError, UnsupportedNode
from privledger.facts.schema import Schema
from privledger.guard.dataset import Dataset, Partition
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.score import ResidualCells, Score
from privledger.rounding import count, number

T = TypeVar("T")
MOST_OBJECTS = 1_000_000


def _refuse(what: object) -> Any:
    raise UnsupportedNode(f"a learner in its own process cannot describe a {type(what).__name__}. "
                          "Nothing was read")


@define(eq=False)
class Describer:
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
        """The number of cells, bins or a score; a score is brought up to date."""
        known = self._known.get(id(what))
        if known is None:
            kind = NUMBERED.get(type(what)) or _refuse(what)
            body = kind.write(what, self)
            known = self.fresh(what), what
            self._new.append({"id": known[0], "is": kind.name} | body)
        if isinstance(what, Score):
            self._update(what, known[0])
        elif isinstance(what, ResidualCells):
            self.object(what.score)
        return known[0]

    def _update(self, score: Score, place: int) -> None:
        done = self._told.get(place, 0)
        for cells, values in score._updates[done:]:
            self._new.append({"is": "update", "score": place, "cells": self.object(cells),
                              "values": array_out(values)})
        self._told[place] = len(score._updates)

    def handle(self, data: Any) -> int:
        """The number of a handle; each step of its derivation is written down once."""
        if type(data) is not Dataset or data._vault is not self.vault:
            raise NotGranted("the query asks other data than the grant covers; nothing was read")
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
            body: Json = {"is": "sample", "of": of, "rate": float(context.rate)}
        elif context.kind == "part" and step.cells is not None:
            if context.token not in self._parts:
                cells = self.object(step.cells)
                self._parts[context.token] = self.fresh(context.token)
                self._new.append({"id": self._parts[context.token], "is": "parts", "of": of,
                                  "cells": cells})
            body = {"is": "part", "parts": self._parts[context.token], "part": int(context.part)}
        else:
            raise NotGranted("the handle is behind another grant's filter; nothing was read")
        place = self.fresh(step)
        self._new.append({"id": place} | body)
        return place

    def query(self, query: Any) -> Json:
        """A query as JSON values; whatever it speaks about is written down first."""
        if type(query) is Choice:
            return {"data": self.handle(query.data), "choice": write_choice(query, self)}
        if type(query) is FeatureChoice:
            return {"data": self.handle(query.data), "features": write_features(query, self)}
        if type(query) is LabelChoice:
            return {"data": self.handle(query.data), "label": write_label_choice(query, self)}
        if type(query) is LabelQuery:
            return {"data": self.handle(query.data), "labels": write_labels(query)}
        if type(query) is not Query:
            _refuse(query)
        blocks = []
        for block in query.blocks:
            kind = BLOCKS.get(type(block)) or _refuse(block)
            blocks.append({"is": kind.name} | kind.write(block, self))
        return {"data": self.handle(query.data), "blocks": blocks, "what": str(query.what),
                "cells": None if query.cells is None else self.object(query.cells)}


@define(eq=False)
class Reader:
    """The owner's side: numbers -> objects that were built and checked here.

    Attributes:
        root: the guarded handle that number 0 stands for.
    """

    root: Dataset
    _objects: dict[int, Any] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._objects[0] = self.root

    def object(self, place: Any, kind: type[T]) -> T:
        """What a number stands for, if it is of that kind."""
        found = self._objects.get(count("number", place, least=0))
        if type(found) is not kind:
            raise NotGranted(f"no {kind.__name__} has this number; nothing was read")
        return found

    def cells(self, place: Any) -> Any:
        """Cells of any known kind."""
        found = self._objects.get(count("number", place, least=0))
        if type(found) not in CELLS:
            raise NotGranted("no cells have this number; nothing was read")
        return found

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
                self._one(table(entry))
            except PrivledgerError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _one(self, body: Json) -> None:
        name = text(body, "is")
        if name == "update":
            score = self.object(body.get("score"), Score)
            score.add(self.cells(body.get("cells")), array_in(body.get("values")))
        elif name in _DERIVATIONS:
            self.keep(body.get("id"), _DERIVATIONS[name](body, self))
        elif name in READ_OBJECT:
            self.keep(body.get("id"), READ_OBJECT[name].read(body, self))
        else:
            raise UnsupportedNode("a description of an unknown kind. Nothing was read")

    def query(self, value: Any) -> Any:
        """A query on one of the known handles, built as a learner in this process would."""
        body = table(value)
        if "choice" in body:
            return read_choice(table(body["choice"]), self,
                               self.object(body.get("data"), Dataset))
        if "features" in body:
            return read_features(table(body["features"]), self.object(body.get("data"), Dataset))
        if "label" in body:
            return read_label_choice(table(body["label"]), self,
                                     self.object(body.get("data"), Dataset))
        if "labels" in body:
            return read_labels(table(body["labels"]), self.object(body.get("data"), Dataset))
        blocks = []
        for item in items(body, "blocks", 1000):
            kind = READ_BLOCK.get(text(table(item), "is"))
            if kind is None:
                raise UnsupportedNode("a block of an unknown kind. Nothing was read")
            blocks.append(kind.read(item, self))
        cells = None if body.get("cells") is None else self.cells(body["cells"])
        return Query(self.object(body.get("data"), Dataset), tuple(blocks), cells,
                     text(body, "what", 200))


def _part(body: Json, reader: Reader) -> Dataset:
    parts = reader.object(body.get("parts"), Partition)
    part = whole(body, "part")
    if part >= len(parts):
        raise NotGranted("there is no such part; nothing was read")
    return parts[part]


_DERIVATIONS: dict[str, Callable[[Json, Reader], Any]] = {
    "sample": lambda body, reader: reader.object(body.get("of"), Dataset).poisson(
        number("rate", body.get("rate"))),
    "parts": lambda body, reader: Partition(reader.object(body.get("of"), Dataset),
                                            reader.cells(body.get("cells"))),
    "part": _part,
}
