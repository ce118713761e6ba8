"""Ids of people, one for each row -> one spelling for each person, and a number for each row.

Spellings err towards one person. Two spellings of one id kept apart would give that person two
caps, three spellings three. Two people taken for one share a cap; under `add_remove` one of them
then loses at most twice what the ledger says (taken away together, put back alone), under the
other relations no more than it says: docs/people.md.

This runs at the owner's side, before the guard. Errors name the column and the rule, never an id.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.people.grouping import grouped, text_keys
from privledger.people.spelling import MOST_LETTERS, Misspelt, spelt

_ABSENT = ("NoneType", "NAType", "NaTType", "MaskedConstant")
_INTEGERS, _FLOATS, _TEXTS = (int, np.integer), (float, np.floating), (str,)


T = TypeVar("T")
Cells: TypeAlias = NDArray[Any]
"""A column of one kind or another."""


@frozen(eq=False, repr=False)
class Persons:
    """Who stands behind each row of one table. CONFIDENTIAL: it lives for one call.

    Attributes:
        ids: one spelling for each person, in the order of their first rows.
        rows: shape (n_rows,), int32: the place in `ids` of each row's person.
    """

    ids: tuple[str, ...]
    rows: NDArray[np.int32]

    def __repr__(self) -> str:
        return "Persons(private)"


def refused(column: str, rule: str) -> DataError:
    """What is said about a column of ids that cannot be used."""
    return DataError(f"column {column!r}, ids of people: {rule}")


def persons(values: object, column: str = "people", n_rows: int | None = None) -> Persons:
    """Read one id for each row.

    Args:
        values: a series, an array or a list: whole numbers (17 and 17.0 are one) or texts.
        column: what it is called in messages.
        n_rows: how many rows there are; None for whatever `values` has.

    Raises:
        DataError: an id that is missing, or cannot be one; the column and the rule are named.
    """
    array = _one_column(values, column)
    if n_rows is not None and len(array) != n_rows:
        raise refused(column, "as many ids as rows are needed")
    if array.dtype.kind in "iu":
        return _numbered(array)
    if array.dtype.kind == "f":
        return _numbered(_whole_floats(array, column))
    if array.dtype.kind in "OU":
        return _spelt(array, column)
    raise refused(column, _KINDS.get(array.dtype.kind, "an id is a whole number or a text"))


_KINDS = {
    "b": "a boolean is no id", "S": "bytes are no id: decode them into texts",
    "c": "a complex number is no id", "M": "a date is no id", "m": "a span of time is no id",
    "V": "an id is one value, not a record of several",
}


def _one_column(values: object, column: str) -> Cells:
    """One dimension of single cells, nothing of it missing by a mask."""
    if isinstance(values, str | bytes | dict | set | frozenset) or values is None:
        raise refused(column, "one column of ids is needed")
    mask = getattr(values, "mask", None)
    if isinstance(values, np.ma.MaskedArray) and np.any(mask):
        raise refused(column, "an id is missing")
    array = None
    with contextlib.suppress(ValueError, TypeError, OverflowError):  # their texts may hold ids
        array = _array(values)
    if array is None or array.ndim != 1:
        raise refused(column, "one column of single cells is needed")
    return array


def _array(values: object) -> Cells:
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    listed = list(cast(Iterable[object], values))
    result = np.empty(len(listed), dtype=object)  # NumPy would make texts of numbers and texts
    result[:] = listed
    return result


def _whole_floats(array: Cells, column: str) -> NDArray[np.int64]:
    if np.isnan(array).any():
        raise refused(column, "an id is missing (NaN)")
    if np.isinf(array).any():
        raise refused(column, "infinity is no id")
    # Beyond that, neighbouring whole numbers have one float.
    if (np.abs(array) >= 2.0 ** (np.finfo(array.dtype).nmant + 1)).any() or (
            np.abs(array) >= 2.0**53).any():
        raise refused(column, "a float beyond which whole numbers run together (2^53 for float64) "
                              "is no id: give whole numbers or texts")
    if (array != np.floor(array)).any():
        raise refused(column, "a number with a fraction is no id")
    return array.astype(np.int64)


def _numbered(array: Cells) -> Persons:
    """Whole numbers, no Python object made but one for each person."""
    starts, rows = grouped(array)
    return Persons(tuple(map(str, array[starts].tolist())), rows)


def _spelt(array: Cells, column: str) -> Persons:
    """Texts, or Python objects: each different one is spelt once."""
    values = array.tolist()
    numbers = _check_kinds(values, column)
    keys = None if numbers else text_keys(values)
    if keys is None:
        known, codes = _places(values, len(values))
    else:
        starts, codes = grouped(keys)
        known = [values[start] for start in starts.tolist()]
    try:
        texts = [_number(value, column) if numbers else spelt(value) for value in known]
    except Misspelt as error:
        raise refused(column, str(error)) from None
    ids, place = _places(texts, len(texts))
    return Persons(tuple(ids), place[codes])


def _places(values: Iterable[T], n: int) -> tuple[list[T], NDArray[np.int32]]:
    """What differs, in the order of first appearance, and the place there of each value."""
    known: defaultdict[T, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(known.__getitem__, values), np.int32, n)
    return list(known), codes


def _check_kinds(values: list[object], column: str) -> bool:
    """Whether these are numbers; else they are texts. By every cell's type, before any is looked
    at: True would pass for 1."""
    kinds = set(map(type, values))
    if any(kind.__name__ in _ABSENT for kind in kinds):
        raise refused(column, "an id is missing")
    if any(issubclass(kind, bool | np.bool_) for kind in kinds):
        raise refused(column, "a boolean is no id")
    if any(issubclass(kind, bytes | bytearray | memoryview) for kind in kinds):
        raise refused(column, "bytes are no id: decode them into texts")
    if any(issubclass(kind, list | tuple | dict | set | np.ndarray) for kind in kinds):
        raise refused(column, "an id is one value, not several")
    if any(hasattr(kind, "isoformat") or issubclass(kind, np.datetime64) for kind in kinds):
        raise refused(column, "a date is no id")
    numbers = [issubclass(kind, (*_INTEGERS, *_FLOATS)) for kind in kinds]
    texts = [issubclass(kind, _TEXTS) for kind in kinds]
    if not all(number or text for number, text in zip(numbers, texts, strict=True)):
        raise refused(column, "an id is a whole number or a text")
    if any(numbers) and any(texts):
        if any(isinstance(value, float) and value != value for value in values):
            raise refused(column, "an id is missing (NaN)")
        raise refused(column, "numbers and texts in one column: make all of them texts")
    return any(numbers)


def _number(value: object, column: str) -> str:
    """One number of a mixed column; NaN and infinity are refused as in a column of floats."""
    if isinstance(value, _INTEGERS):
        number = int(value)
        if abs(number) >= 10**MOST_LETTERS:  # Python would not write it, and say so
            raise refused(column, f"an id has at most {MOST_LETTERS} characters")
        return str(number)
    return str(int(_whole_floats(np.asarray([value]), column)[0]))
