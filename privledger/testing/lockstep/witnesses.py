"""A witness: everything that one lock needs to be run again elsewhere, as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.accounting import Relation
from privledger.errors import InvalidValue
from privledger.noise.seeded import generator
from privledger.plugins import Priced
from privledger.tables.schema import Schema
from privledger.tables.values import Json
from privledger.testing.examples import Example
from privledger.testing.lockstep.lock import Lock, apart, fitting_of, lock
from privledger.testing.lockstep.neighbours import Pair, rows_of

FORMAT = 1

BoundRule: TypeAlias = Literal["guarded", "plain", "anywhere"]
"""How a pair is fitted: behind a ledger; as plain tables; so, and the record that differs is at any
place, for what stands between these and the guard."""


def table_out(table: Example) -> Json:
    """A table of the kit as JSON values; missing cells are null."""
    return {"X": {name: [_plain(cell) for cell in column.tolist()]
                  for name, column in table.X.items()},
            "y": [_plain(cell) for cell in table.y.tolist()],
            "kinds": {name: column.dtype.str for name, column in table.X.items()},
            "target_kind": table.y.dtype.str,
            "people": None if table.people is None else table.people.tolist()}


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def table_in(wire: Json, schema: Schema, unlabelled: bool) -> Example:
    """The inverse of `table_out`."""
    X = {name: _array(cells, wire["kinds"][name]) for name, cells in wire["X"].items()}
    people = None if wire.get("people") is None else np.array(wire["people"], dtype=np.int64)
    return Example(schema, X, _array(wire["y"], wire["target_kind"]), unlabelled, people)


def _array(cells: list[Any], kind: str) -> NDArray[Any]:
    if np.dtype(kind).kind == "f":
        cells = [math.nan if cell is None else cell for cell in cells]
    return np.array(cells, dtype=kind)


@frozen(eq=False)
class LockCase:
    """Everything that one lock needs to be run again.

    Attributes:
        learner: unfitted. pair: of neighbouring tables. seeds: of the lock.
    """

    learner: Priced
    relation: Relation
    pair: Pair
    seeds: tuple[int, ...]
    manner: BoundRule = "guarded"

    def lock(self) -> Lock:
        """The lock of these seeds."""
        fitting = fitting_of(self.learner, self.relation, plain=self.manner != "guarded",
                             seed=self.seeds[0])
        if self.manner == "anywhere":
            return Lock(apart(fitting, self.pair, generator(*self.seeds))[:1], 0.0, -1)
        return lock(fitting, self.pair, generator(*self.seeds))

    def witness(self, found: Lock) -> Json:
        """What `replay_witness` takes; parameters that are no JSON are named in `left_out`."""
        kind, params, left = type(self.learner), {}, []
        for name, value in (self.learner.get_params(deep=False).items()
                            if hasattr(self.learner, "get_params") else ()):
            if value is None or isinstance(value, bool | int | float | str):
                params[name] = value
            else:
                left.append(name)
        first = found.broken[0] if found.broken else None
        return {"format": FORMAT, "learner": f"{kind.__module__}:{kind.__qualname__}",
                "params": params, "left_out": sorted(left), "relation": self.relation,
                "plain": self.manner != "guarded", "manner": self.manner,
                "seeds": list(self.seeds), "schema": self.pair[0].schema.to_dict(),
                "unlabelled": self.pair[0].unlabelled,
                "tables": [table_out(table) for table in self.pair],
                "premise": "" if first is None else first.premise,
                "release": found.release, "why": "" if first is None else first.why,
                "ratio": found.ratio}

    def least(self, found: Lock, more: Callable[[], bool]) -> tuple[Lock, LockCase]:
        """The same with fewer common records, as far as the premise that `found` names is still
        broken.

        Args:
            more: whether there is time for another try.
        """

        def fails(tried: Pair) -> bool:
            if not min(table.n_records for table in tried):
                return False  # an empty table is refused at the door
            again = evolve(self, pair=tried).lock().broken
            return bool(again) and again[0].premise == found.broken[0].premise

        if not fails(self.pair):
            return found, self
        least = evolve(self, pair=smaller(self.pair, fails, more, self.manner))
        return least.lock(), least


def replay_witness(wire: Json, learner: Priced | None = None) -> Lock:
    """Run the lock of a witness again.

    Args:
        learner: for a class that cannot be imported by its name, or with parameters left out.

    Raises:
        InvalidValue: another format of witness.
    """
    if wire.get("format") != FORMAT:
        raise InvalidValue("witness format", wire.get("format"), str(FORMAT))
    if learner is None:
        module, _, name = str(wire["learner"]).partition(":")
        learner = attrgetter(name)(import_module(module))(**wire["params"])
    schema = Schema.from_dict(wire["schema"])
    first, second = (table_in(one, schema, wire["unlabelled"]) for one in wire["tables"])
    manner = wire.get("manner", "plain" if wire["plain"] else "guarded")
    return LockCase(learner, wire["relation"], (first, second), tuple(wire["seeds"]), manner).lock()


def smaller(pair: Pair, fails: Callable[[Pair], bool], more: Callable[[], bool],
            manner: BoundRule = "guarded") -> Pair:
    """The pair with as many common records left out as still fail, by halves and then singly.

    Args:
        more: whether there is time for another try.
    """
    common = min(table.n_records for table in pair)
    if pair[0].n_records == pair[1].n_records:
        common -= 1
    place = common if manner != "anywhere" else _place(pair, common)
    kept, step = list(range(common)), max(1, common // 2)
    while step and more():
        at = 0
        while at < len(kept) and more():
            tried = kept[:at] + kept[at + step:]
            if fails(_with(pair, tried, common, place)):
                kept = tried
            else:
                at += step
        step //= 2
    return _with(pair, kept, common, place)


def _place(pair: Pair, common: int) -> int:
    """Where the tables begin to differ."""
    rows = [rows_of(table) for table in pair]
    return next((place for place, (one, other) in enumerate(zip(*rows, strict=False))
                 if one != other), common)


def _with(pair: Pair, kept: list[int], common: int, place: int) -> Pair:
    """The common records `kept`, and what differs at `place` among them."""
    found = []
    for table in pair:
        more = table.n_records - common
        order = [*(one for one in kept if one < place), *range(place, place + more),
                 *(one + more for one in kept if one >= place)]
        found.append(table.take(np.array(order, dtype=int)))
    return found[0], found[1]
