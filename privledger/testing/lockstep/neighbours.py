"""Pairs of neighbouring tables, written as rows with their multiplicities.

The record that differs comes last, so that the common ones share their coins. A pair is small
enough to be printed, kept in a file, and made again by a stranger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import Columns
from privledger.facts.schema import Column, Schema
from privledger.facts.values import Json, items, table
from privledger.rounding import count
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_features, encode_target
from privledger.testing.examples import Example

Cell: TypeAlias = float | int | str | bool | None
Row: TypeAlias = tuple[Cell, ...]
RELATIONS = ("add_remove", "replace_one", "replace_label")


@frozen
class TablePair:
    """Two tables that differ in one record.

    Attributes:
        common: rows of both, each with how often it occurs. A row is one value per feature of
            the schema, in its order, and the target last; None is missing.
        old, new: the last record of the first and of the second table, None if it has none.
    """

    schema: Schema
    common: tuple[tuple[Row, int], ...]
    old: Row | None
    new: Row | None

    @property
    def n_records(self) -> tuple[int, int]:
        """Rows of both tables."""
        shared = sum(often for _, often in self.common)
        return shared + (self.old is not None), shared + (self.new is not None)

    def check(self, relation: str) -> None:
        """Raise `InvalidValue` unless these are neighbours under `relation`."""
        old, new = self.old, self.new
        if relation == "add_remove":
            fits = (old is None) != (new is None)
        else:
            fits = old is not None and new is not None and old != new and (
                relation == "replace_one" or old[:-1] == new[:-1])
        if relation not in RELATIONS or not fits:
            raise InvalidValue("relation", relation, "one under which the tables are neighbours")

    def turned(self) -> TablePair:
        """The same two tables in the other order."""
        return TablePair(self.schema, self.common, self.new, self.old)

    def tables(self) -> tuple[Example, Example]:
        """Both as columns, as somebody would give them to `protect`."""
        first, second = (_columns(self.schema, *self._rows(last)) for last in (self.old, self.new))
        return first, second

    def encoded(self) -> tuple[Rows, Rows]:
        """Both as the guard reads them, without a noise source."""
        first, second = (_encoded(self.schema, *self._rows(last)) for last in (self.old, self.new))
        return first, second

    def _rows(self, last: Row | None) -> tuple[list[Row], list[int]]:
        rows, often = [row for row, _ in self.common], [times for _, times in self.common]
        return (rows, often) if last is None else ([*rows, last], [*often, 1])

    def to_json(self) -> Json:
        """Plain values that say everything."""
        return {"schema": self.schema.to_dict(),
                "common": [[list(row), often] for row, often in self.common],
                "old": None if self.old is None else list(self.old),
                "new": None if self.new is None else list(self.new)}

    @classmethod
    def from_json(cls, value: Json) -> TablePair:
        """The inverse of `to_json`. Raises `PrivledgerError` if it says no such thing."""
        schema = Schema.from_dict(table(value.get("schema")))
        common = []
        for one in items(value, "common"):
            if not isinstance(one, list) or len(one) != 2:
                raise InvalidValue("common", type(one).__name__, "rows and how often they occur")
            common.append((_row(one[0], schema), count("how often", one[1])))
        ends = [None if value.get(key) is None else _row(value[key], schema)
                for key in ("old", "new")]
        return cls(schema, tuple(common), *ends)


def columns_of(schema: Schema) -> tuple[Column, ...]:
    """Features in their order, and the target last, where there is one."""
    return (*schema.features, *(one for one in schema.columns if one.role == "target"))


def rows_of(example: Example) -> list[Row]:
    """Every record of a table as a row."""
    columns = [*(example.X[column.name] for column in example.schema.features), example.y]
    plain = [[_cell(cell) for cell in np.asarray(column).tolist()] for column in columns]
    return list(zip(*plain, strict=True))


def grouped(rows: Iterable[tuple[Row, int]]) -> tuple[tuple[Row, int], ...]:
    """Equal rows together, none of multiplicity zero, in the order they first came."""
    together: dict[Row, int] = {}
    for row, often in rows:
        together[row] = together.get(row, 0) + often
    return tuple((row, often) for row, often in together.items() if often > 0)


def _cell(value: Cell) -> Cell:
    return None if isinstance(value, float) and value != value else value


def _row(value: object, schema: Schema) -> Row:
    if not isinstance(value, list) or len(value) != len(columns_of(schema)) or not all(
            cell is None or isinstance(cell, float | int | str) for cell in value):
        raise InvalidValue("row", type(value).__name__, "one value per feature, and the target")
    return tuple(value)


def _array(column: Column, cells: Sequence[Cell]) -> NDArray[np.float64] | NDArray[np.object_]:
    if column.kind == "numeric":
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _columns(schema: Schema, rows: Sequence[Row], often: Sequence[int]) -> Example:
    order = np.repeat(np.arange(len(rows)), often)
    arrays = [_array(column, [row[place] for row in rows])[order]
              for place, column in enumerate(columns_of(schema))]
    named = {column.name: array for column, array in zip(schema.features, arrays, strict=False)}
    unlabelled = any(row[-1] is None for row in rows)
    return Example(schema, named, arrays[-1], unlabelled)


def _encoded(schema: Schema, rows: Sequence[Row], often: Sequence[int]) -> Rows:
    """Distinct rows are encoded once."""
    few = _columns(schema, rows, [1] * len(rows))
    order = np.repeat(np.arange(len(rows)), often)
    columns = encode_features(few.X, schema)
    target = encode_target(few.y, schema, unlabelled=few.unlabelled)
    arrays = tuple(array[order] for array in columns.arrays)
    return Rows(Columns(schema, arrays, len(order)), target[order])
