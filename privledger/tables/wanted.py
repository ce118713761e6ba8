"""Which columns of a table are read, whether they can fit, and what becomes of their cells."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.facts.schema import Column, Schema, label_key
from privledger.tables.encode import encode_column, encode_target
from privledger.tables.frames import column_in_numpy, missing_columns
from privledger.tables.origin import TEXT, Origin, Piece, named
from privledger.tables.raw import check_family, levels, numbers, stands_for_none

Array: TypeAlias = NDArray[np.generic]


@frozen(eq=False, repr=False)
class Wanted:
    """Columns that are read: features, the target, whose a row is; in this order.

    Attributes:
        target: whether the target is read.
        unlabelled: whether it may have missing cells.
        people: whether the schema's column of people is read, where it names one.
    """

    schema: Schema
    target: bool
    unlabelled: bool = False
    people: bool = True

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that the schema describes by bounds or categories."""
        return (*self.schema.features, *((self.schema.target,) if self.target else ()))

    @property
    def person(self) -> str | None:
        """Name of the column that says whose a row is; None if none is read."""
        return self.schema.person if self.people else None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns that are read."""
        person = () if self.person is None else (self.person,)
        return (*(column.name for column in self.columns), *person)

    def check(self, origin: Origin) -> None:
        """Refuse by names and types, before a row is read."""
        people: str | None = None
        for where, found in origin.families():
            with named(where):
                missing = [name for name in self.names if name not in found]
                if missing:
                    raise DataError(missing_columns(missing, found))
                for column in self.columns:
                    if found[column.name] != TEXT:
                        check_family(found[column.name], column)
                if self.person is not None:
                    people = _same_ids(self.person, people, found[self.person])

    def encoded(self, piece: Piece) -> list[Array]:
        """One array for each name."""
        with named(piece.where):
            found: list[Array] = [encode_column(piece.columns[column.name], column)
                                  for column in self.schema.features]
            if self.target:
                found.append(encode_target(piece.columns[self.schema.target.name], self.schema,
                                           unlabelled=self.unlabelled))
            return self._with_ids(found, piece)

    def typed(self, piece: Piece) -> list[Array]:
        """One array for each name, of plain numbers and the schema's own categories: float64 with
        NaN, or objects with None, for missing cells. Neither clipped nor checked."""
        with named(piece.where):
            found = [_typed(piece.columns[column.name], column) for column in self.columns]
            return self._with_ids(found, piece)

    def _with_ids(self, found: list[Array], piece: Piece) -> list[Array]:
        if self.person is not None:
            found.append(_ids(piece.columns[self.person], self.person))
        if len({len(array) for array in found}) != 1:
            raise DataError("columns of different lengths")
        return found


def _same_ids(name: str, before: str | None, found: str) -> str:
    if before not in (None, found):  # 17 and "17": one person or two, nobody here can say
        raise DataError(f"column {name!r} holds ids of another type than the file before")
    return found


def _ids(values: object, name: str) -> Array:
    found = column_in_numpy(values)
    if found.dtype.kind == "b":  # beside numbers of another batch it would be one of them
        raise DataError(f"column {name!r}, ids of people: a boolean is no id")
    return found


def _typed(values: object, column: Column) -> Array:
    if column.kind == "numeric":
        return numbers(values, column)
    known = {label_key(category): category for category in column.categories}
    several, codes = levels(values, column)
    held = np.empty(len(several) + 1, dtype=object)  # the last one for codes of -1
    held[:-1] = [None if stands_for_none(level, column)
                 else known.get(label_key(level), level) for level in several]
    found: Array = held[codes]
    return found
