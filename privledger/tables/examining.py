"""All that keeps a table from being protected, at once: for its owner's eyes only.

What is wrong with a cell is what `encode_column` says of it alone, so nothing here is a second
opinion: a table without faults is one that `protect` takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, PrivledgerError
from privledger.tables.encode import encode_column, encode_key
from privledger.tables.frames import column_in_numpy
from privledger.tables.listing import TEXT
from privledger.tables.person_ids import persons
from privledger.tables.raw import Text, arrow_of, check_family, raw_numbers
from privledger.tables.schema import Column, Schema
from privledger.tables.sources import scan_files

Held: TypeAlias = Any
"""A column of one piece: an Arrow array, or texts."""
SHOWN = 8
MOST = 10_000
"""Held with a fault that are looked up one by one, for each column and piece of the table."""
HINTS = {
    "numbers only": "missing_value_marker, if a text stands for an empty cell",
    "NaN": "missing = true, if cells may be empty",
    "missing cells": "missing = true, if cells may be empty",
    "outside its public bounds": 'outside = "clip", or wider bounds that are public',
    "does not list": "the category, if it is public, or missing_value_marker",
    "not whole": "integer = false",
    "dates or times": "nothing: map them to a number first",
    "missing column": "nothing: the table lacks it, or the schema has another spelling",
}
"""A word of what is wrong -> what in the schema would change it."""


@frozen
class Fault:
    """Held that break one rule.

    Attributes:
        column: its name; "" for a file. rule: what the guard would say.
        cells: how many; 0 for a column as a whole. rows: the first of them, counted from 1
            without the header. more: whether there are more than were counted.
    """

    column: str
    rule: str
    cells: int = 0
    rows: tuple[int, ...] = ()
    more: bool = False

    @property
    def hint(self) -> str:
        """What to put in the schema, if anything helps."""
        return next((text for word, text in HINTS.items() if word in self.rule), "")


@frozen
class Cut:
    """What clipping would change in a numeric column: cells below and above its bounds."""

    column: str
    below: int
    above: int


@frozen
class Examination:
    """What was found. CONFIDENTIAL: it follows from every row, without noise.

    Attributes:
        rows: how many. people: rows of the person who has most, of the median person, and how
            many people; None without a column of people.
        unknown: columns that the schema does not name.
    """

    rows: int
    faults: tuple[Fault, ...]
    cuts: tuple[Cut, ...]
    unknown: tuple[str, ...]
    people: tuple[int, float, int] | None


@define
class _Found:
    rows: list[int] = field(factory=list)
    more: bool = False


def examined(path: str | Path, schema: Schema) -> Examination:
    """Everything that is wrong with a table in CSV or Parquet files, as its schema reads it.

    Raises:
        DataError: the path is no such table.
    """
    wanted = [one for one in schema.columns if one.role in ("feature", "target", "key")]
    columns = {one.name: evolve(one, missing=False) if one.role == "target" else one
               for one in wanted}
    person = () if schema.person is None else (schema.person,)
    origin = scan_files(path, (*columns, *person), schema).origin
    faults, seen = [], dict[str, str]()
    for _, found in origin.families():
        seen |= found
        faults += list(_unfit(found, columns, person))
    bad = {one.column for one in faults}
    known = [name for name in (*columns, *person) if name not in bad]
    cells: dict[tuple[str, str], _Found] = {}
    cuts, ids, rows = {name: Counter[str]() for name in known}, list[Held](), 0
    try:
        for piece in origin.pieces(tuple(known), MOST) if known else ():
            size = 0
            for name in known:
                held: Held = piece.columns[name]
                size = len(held)
                if name in columns:
                    _look(held, columns[name], rows, cells, cuts[name])
                else:
                    ids.append(column_in_numpy(held))
            rows += size
    except DataError as error:
        faults.append(Fault("", str(error)))
    faults += [Fault(name, rule, len(one.rows), tuple(one.rows[:SHOWN]), one.more)
               for (name, rule), one in cells.items()]
    people = _people(ids, person, faults)
    return Examination(
        rows, tuple(dict.fromkeys(faults)),
        tuple(Cut(name, one["below"], one["above"]) for name, one in cuts.items() if one),
        tuple(name for name in seen if name not in {one.name for one in schema.columns}),
        people)


def _unfit(found: Mapping[str, str], columns: dict[str, Column], person: tuple[str, ...]
           ) -> Iterator[Fault]:
    for name in (*columns, *person):
        if name not in found:
            yield Fault(name, "missing column")
        elif name in columns and found[name] != TEXT:
            try:
                check_family(found[name], columns[name])
            except DataError as error:
                yield Fault(name, str(error))


def _look(held: Held, column: Column, first: int, cells: dict[tuple[str, str], _Found],
          cut: Counter[str]) -> None:
    """Note the cells of one piece that have a fault, and what clipping would cut of others."""
    array: Held = held if isinstance(held, Text) else arrow_of(held)
    bad = np.zeros(len(array), dtype=np.bool_)
    waiting, left = [(0, len(array))], MOST
    while waiting:
        start, stop = waiting.pop()
        try:
            encode = encode_key if column.role == "key" else encode_column
            encode(array[start:stop], column)
        except DataError as error:
            if stop - start > 1 and left > 0:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
                continue
            left -= 1
            bad[start:stop] = True
            noted = cells.setdefault((column.name, str(error)), _Found())
            noted.rows.append(first + start + 1)
            noted.more |= stop - start > 1
    if column.kind == "numeric":
        values = raw_numbers(array.filter(~bad), column)
        for side, many in (("below", values < column.lower), ("above", values > column.upper)):
            if many.any():
                cut[side] += int(many.sum())


def _people(ids: list[NDArray[np.generic]], person: tuple[str, ...], faults: list[Fault]
            ) -> tuple[int, float, int] | None:
    if not ids:
        return None
    try:
        found = persons(np.concatenate(ids), person[0])
    except PrivledgerError as error:
        faults.append(Fault(person[0], str(error)))
        return None
    each = np.bincount(found.rows)
    return int(each.max()), float(np.median(each)), len(each)
