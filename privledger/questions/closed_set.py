"""The closed set: every kind whose sensitivity is derived (docs/proofs/queries.md). Nothing else
lists kinds.

A stranger's question, block, cells, bins or score would run the stranger's code on the rows, and
its sensitivity would be a claim. Exact types, because a subclass is a stranger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, Protocol, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from attrs import frozen

from privledger.errors import IsolationError, SchemaError, UnsupportedNode
from privledger.questions.blocks import (
    Block,
    ClassIs,
    ColumnMoments,
    ColumnValue,
    CustomValue,
    Ones,
    RowValues,
    TargetShares,
    refuse_code,
)
from privledger.questions.cells import (
    Cells,
    CrossCells,
    IndexCells,
    LabelledCells,
    MappedCells,
    NamedCells,
    NearestCells,
    RowsPerPersonCells,
)
from privledger.questions.choice import Choice, LabelChoice, QuantileChoice, TableChoice
from privledger.questions.feature_choice import FeatureChoice, ScoreName
from privledger.questions.feature_scores import CustomScores
from privledger.questions.groups import GroupQuery
from privledger.questions.grown import Test
from privledger.questions.label_query import LabelQuery, ResponseQuery
from privledger.questions.noise_stream import CorrelatedSum, NoiseStream
from privledger.questions.query import Query
from privledger.questions.question import Derivation
from privledger.questions.row_encoding import RowEncoding
from privledger.questions.score import (
    UPDATES,
    Gradient,
    Hessian,
    LinearGradient,
    ResidualCells,
    Score,
)
from privledger.questions.threshold import AboveThreshold, ThresholdRun
from privledger.questions.votes import Votes
from privledger.rounding import MOST_COUNT, count, number
from privledger.tables.bins import STRANGE, Bins
from privledger.tables.schema import Schema
from privledger.tables.values import (
    MOST_CELLS,
    Json,
    array_in,
    array_out,
    items,
    table,
    text_field,
    whole,
)

QUESTIONS: tuple[type, ...] = (Query, Choice, LabelChoice, FeatureChoice, QuantileChoice,
                              LabelQuery, ResponseQuery, AboveThreshold, TableChoice,
                              GroupQuery, CorrelatedSum)
BLOCKS: tuple[type, ...] = (Ones, ColumnValue, ClassIs, TargetShares, ColumnMoments, RowValues,
                            CustomValue, Gradient, Hessian, LinearGradient)
REPEATED = frozenset({Ones, ColumnValue, ClassIs, Gradient, Hessian})
"""Blocks of plain values and a score: the same values make the same block."""
CELLS: tuple[type, ...] = (*UPDATES, ResidualCells, CrossCells, MappedCells, LabelledCells,
                           IndexCells, NamedCells, NearestCells, RowsPerPersonCells)
MOVES: tuple[type, ...] = (*CELLS, RowEncoding)
"""Cells, and what moves a score beside them."""
NUMBERED: tuple[type, ...] = (*MOVES, Bins, Score, ThresholdRun, NoiseStream, Votes, CustomScores)
"""Objects that several questions share: the same one everywhere stays the same one."""


# One form of all that a question is made of, from the fields of its class.  A field's type says
# how it travels: plain values and arrays as they are, objects that several questions share by
# number, objects of one question with the name of their kind. The guard's own copy
# (`guard.trusted_copy`), the messages of a confined learner (`broker.wire`) and the key of a kept
# answer (`guard.recalled`) all go by this one table of fields; each object is built by the
# constructor of its class, which checks every field. No value carries code.


MOST_TEXT = 200
"""Characters of what a question calls itself."""
_WORDS: dict[Any, str] = {str: "text", int: "whole", float: "real", bool: "flag"}
PLAIN = frozenset(_WORDS.values())
_PLURAL: dict[Any, tuple[type, ...]] = {Cells: CELLS, Block: BLOCKS}
_OWNED = frozenset({*BLOCKS, Test})


@frozen
class WireField:
    """One field of a kind, and how it travels.

    Attributes:
        word: `text`, `whole`, `real`, `flag`; `array`; `shared` and `owned` objects of this
            package; `schema`; `handle` for the records that are asked; `function`; `key` for a
            name that belongs to one process.
        kinds: exact types of what is shared or owned.
        nested: how many tuples lie around it. optional: whether None stands for nothing.
        sliced: whether a slice may stand for an array. letter: numpy's, of an array's numbers.
    """

    name: str
    word: str
    kinds: tuple[type, ...] = ()
    nested: int = 0
    optional: bool = False
    sliced: bool = False
    letter: str = ""


@cache
def parts_of(kind: Any) -> tuple[WireField, ...]:
    """The fields that make an object of this kind, in the order of its constructor.

    Raises:
        TypeError: a field's type says nothing of how it travels.
    """
    hints = get_type_hints(kind)
    return tuple(_part(one.name, hints[one.name]) for one in attrs.fields(kind) if one.init)


def _part(name: str, hint: Any, nested: int = 0) -> WireField:
    alias = getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # what NumPy calls NDArray from Python 3.12 on
        hint = alias[get_args(hint)]
    choices = [one for one in (get_args(hint) or (hint,)) if one not in (NoneType, slice)]
    if NoneType in get_args(hint):
        sliced = slice in get_args(hint)
        return attrs.evolve(_part(name, choices[0], nested), optional=True, sliced=sliced)
    origin = get_origin(hint)
    if origin is tuple:
        return _part(name, choices[0], nested + 1)
    if origin is np.ndarray:
        numbers = get_args(get_args(hint)[1])[0]
        letter = "u" if get_origin(numbers) is np.unsignedinteger else np.dtype(numbers).kind
        return WireField(name, "array", nested=nested, letter=letter)
    if origin is Callable:
        return WireField(name, "function")
    kinds = _PLURAL.get(hint, (hint,))
    word = _WORDS.get(hint) or {Derivation: "handle", Schema: "schema", ScoreName: "key"}.get(hint)
    if word is None:
        word = "shared" if set(kinds) <= set(NUMBERED) else "owned" if set(kinds) <= _OWNED else ""
    if not word:
        raise TypeError(f"{name} of {hint}: cannot be sent to another process")
    return WireField(name, word, kinds, nested)


class Describer(Protocol):
    """Who writes objects down: gives numbers to those that are shared."""

    @property
    def schema(self) -> Schema:
        """Of the data."""

    def object(self, what: Any) -> int:
        """The number of cells, bins or a score, which is written down first."""


def to_wire(what: Any, to: Describer) -> Json:
    """Every field as plain values, but for the handle; exact types only.

    Raises:
        UnsupportedNode: a field holds something else, or code.
    """
    kind: Any = type(what)
    return {part.name: _out(part, part.nested, getattr(what, part.name), to)
            for part in parts_of(kind) if part.word not in ("handle", "key")}


def is_wire(what: Any, to: Describer) -> Json:
    """The same, with the name of its kind."""
    return {"is": type(what).__name__} | to_wire(what, to)


def _out(part: WireField, nested: int, value: Any, to: Describer) -> Any:
    if nested:
        return [_out(part, nested - 1, one, to) for one in value]
    if value is None and part.optional:
        return None
    if part.word in ("shared", "owned") and type(value) not in part.kinds:
        raise UnsupportedNode(f"an isolated learner cannot describe a "
                              f"{type(value).__name__}. Nothing was read")
    if part.word == "array" and part.sliced and type(value) is slice:
        return {"slice": [value.start, value.stop, value.step]}
    if part.word == "function":
        refuse_code()
    return _WRITTEN[part.word](value, to)


def _bits(array: Any) -> Any:
    return array.astype(np.uint8) if array.dtype == np.bool_ else array


def _names(schema: Schema, to: Describer) -> list[str]:
    if schema is not to.schema and not set(schema.features) <= set(to.schema.features):
        raise SchemaError(STRANGE)
    return [column.name for column in schema.features]


_WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "text": lambda value, to: str(value), "whole": lambda value, to: int(value),
    "real": lambda value, to: float(value), "flag": lambda value, to: bool(value),
    "array": lambda value, to: array_out(_bits(value)), "schema": _names,
    "shared": lambda value, to: to.object(value), "owned": is_wire,
}


class Reader(Protocol):
    """Who reads what was written down: knows what its numbers stand for."""

    @property
    def schema(self) -> Schema:
        """Of the data on this side."""

    def handle(self, place: Any) -> Any:
        """A handle on the guarded data."""

    def one_of(self, place: Any, kinds: tuple[type, ...]) -> Any:
        """What a number stands for, if it is of one of these kinds."""


def from_wire(value: Any, kinds: tuple[type, ...], reader: Reader) -> Any:
    """An object of one of these kinds, by its own constructor, which checks every field."""
    wire = table(value)
    name = text_field(wire, "is")
    kind = next((one for one in kinds if one.__name__ == name), None)
    if kind is None:
        raise UnsupportedNode("a description of an unknown kind. Nothing was read")
    return kind(**{part.name: _in(part, part.nested, wire, part.name, reader)
                   for part in parts_of(kind) if part.word != "key"})


def _in(part: WireField, nested: int, wire: Json, key: str, reader: Reader) -> Any:
    """A field of a message as the constructor takes it, of the type that the field has."""
    value, word = wire.get(key), part.word
    if nested:
        most = 1000 if part.word == "owned" and part.kinds == BLOCKS else 100_000
        return tuple(_in(part, nested - 1, {key: one}, key, reader)
                     for one in items(wire, key, most))
    if word == "handle":
        return reader.handle(value)
    if value is None and part.optional:
        return None
    if word == "text":
        return text_field(wire, key, MOST_TEXT if key == "what" else None)
    if word == "whole":
        return whole(wire, key, MOST_COUNT if part.nested else MOST_CELLS)
    if word == "real":
        return number(key, value)
    if word == "flag":
        if not isinstance(value, bool):
            raise UnsupportedNode(f"{key} is True or False. Nothing was read")
        return value
    if word == "array":
        if part.sliced and isinstance(value, dict) and "slice" in value:
            ends = [None if end is None else count("slice", end, least=-MOST_COUNT,
                                                   most=MOST_COUNT)
                    for end in items(value, "slice", 3)]
            if len(ends) != 3:
                raise IsolationError("a slice needs start, stop and step")
            return slice(*ends)
        flags = part.letter == "b"
        found = array_in(value, "u" if flags else part.letter)
        return found.astype(np.bool_) if flags else found
    if word == "schema":
        return _columns(items(wire, key), reader.schema)
    if word == "function":
        refuse_code()
    return from_wire(value, part.kinds, reader) if word == "owned" else reader.one_of(
        value, part.kinds)


def _columns(names: list[Any], schema: Schema) -> Schema:
    """These features, as they are on this side."""
    known = {column.name: column for column in schema.features}
    if not {str(name) for name in names} <= set(known):
        raise SchemaError(STRANGE)
    return Schema(schema.name, tuple(known[str(name)] for name in names))
