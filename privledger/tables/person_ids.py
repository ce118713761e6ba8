"""Ids of people, one for each row -> one spelling for each person, and a number for each row.

Spellings err towards one person. Two spellings of one id kept apart would give that person two
caps, three spellings three. Two people taken for one share a cap; under `add_remove` one of them
then loses at most twice what the ledger says (taken away together, put back alone), under the
other relations no more than it says: docs/people.md.

This runs at the owner's side, before the guard. Errors name the column and the rule, never an id.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.numerals import digits_of

# Equal values among millions, without a Python object for each: whole numbers and short texts.

_DENSE = 4
"""A table of places is used for whole numbers that span at most so many times their count."""
_LONGEST, _WORD = 32, 8
_BLOCK = 1 << 18
_ODD = np.uint64(0x9E3779B97F4A7C15)


Whole: TypeAlias = NDArray[np.integer[Any]]


def grouped_by_person(values: Whole) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which of some whole numbers are equal.

    Returns:
        The first position of each different number, rising; and for each of `values` the place of
        its number in that order, shape (n,).
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    if values.dtype.itemsize < 8:
        values = values.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= _DENSE * len(values) + 1024:
        _, starts, inverse = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(starts, kind="stable")
        place = np.empty(len(starts), dtype=np.int32)
        place[order] = np.arange(len(starts), dtype=np.int32)
        return starts[order].astype(np.int64), place[inverse.reshape(-1)]
    shifted = (values - values.dtype.type(low)).astype(np.int64)
    first = np.full(high - low + 1, -1, dtype=np.int64)
    # The last assignment to a place stays, so from the end: each number's first position.
    first[shifted[::-1]] = np.arange(len(values) - 1, -1, -1)
    held = np.flatnonzero(first >= 0)
    order = np.argsort(first[held], kind="stable")
    place = np.zeros(high - low + 1, dtype=np.int32)
    place[held[order]] = np.arange(len(held), dtype=np.int32)
    return first[held[order]], place[shifted]


def text_keys(texts: list[str]) -> NDArray[np.uint64] | None:
    """A number for each text, equal exactly where the texts are; None where that is not sure:
    for long texts, letters beyond ASCII, and two texts that fall on one number."""
    width = max(map(len, texts), default=0)
    if not 0 < width <= _LONGEST or not all(map(str.isascii, texts)):
        return None
    words = np.zeros((len(texts), -(-width // _WORD)), np.uint64)
    for start in range(0, len(texts), _BLOCK):
        some = slice(start, start + _BLOCK)
        letters = np.array(texts[some], dtype=f"S{words.shape[1] * _WORD}")
        words[some] = letters.view(np.uint64).reshape(-1, words.shape[1])
    keys = words[:, 0].copy()
    if words.shape[1] == 1:
        return keys
    for place in range(1, words.shape[1]):
        keys ^= keys >> np.uint64(29)
        keys *= _ODD
        keys += words[:, place]
    starts, codes = grouped_by_person(keys)
    for start in range(0, len(texts), _BLOCK):
        some = slice(start, start + _BLOCK)
        if not np.array_equal(words[some], words[starts[codes[some]]]):
            return None
    return keys


# One spelling for each id that is a text. What two people could write for one id is one text.

MOST_LETTERS = 1000
_PLAIN = re.compile(r"[a-z][a-z0-9_@.:/-]*")  # its own spelling already
_NO_IDS = {
    "nan": "an id is missing (written as nan)", "null": "an id is missing (written as null)",
    "none": "an id is missing (written as none)", "na": "an id is missing (written as na)",
    "n/a": "an id is missing (written as n/a)", "<na>": "an id is missing (written as <na>)",
    "nat": "an id is missing (written as nat)",
    "inf": "infinity is no id", "-inf": "infinity is no id", "+inf": "infinity is no id",
    "infinity": "infinity is no id", "-infinity": "infinity is no id",
    "true": "a boolean is no id", "false": "a boolean is no id",
}

# What Unicode has no glyph for, beside the categories Cc and Cf; and what editors put in place of
# a plain hyphen and a plain quote.
_HIDDEN = ((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
           (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
           (0xE0000, 0xE0FFF))
_DASHES, _QUOTES = (0x58A, 0x2212, 0x2E3A, 0x2E3B, *range(0x2010, 0x2016)), (
    0x2B9, 0x2BB, 0x2BC, 0x2032, *range(0x2018, 0x201C))
_ALIKE: dict[int, str | None] = {
    **{code: None for first, last in _HIDDEN for code in range(first, last + 1)},
    **dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_QUOTES, "'"), 0x2800: " ",
    0x131: "i"}


class Misspelt(ValueError):
    """A text that is no id; says the rule, never the text."""


def spelt(text: str) -> str:
    """The one spelling of an id.

    White space around it goes, and inside counts as one blank; invisible marks go. Wide,
    ligated and composed letters are the plain ones (NFKC), capitals are small letters, dashes and
    quotes of every shape are - and '. A whole number is its digits, however it is written: 17,
    +17, 017, 17.0, 1.7e+01, 1.7e1. A spelling is its own spelling.

    Raises:
        Misspelt: empty, missing, a fraction, too long, or no valid Unicode.

    >>> [spelt(text) for text in (" 17 ", "17.0", "017", "Anna  B", "ｆｏｏ")]
    ['17', '17', '17', 'anna b', 'foo']
    """
    if len(text) > MOST_LETTERS:
        raise Misspelt(f"an id can have at most {MOST_LETTERS} characters")
    if _PLAIN.fullmatch(text):
        found = text
    elif text.isascii() and text.isdecimal():
        return text.lstrip("0") or "0"
    else:
        found = _seen(text)
        digits = digits_of(_ascii_digits(found))
        if digits is not None:
            if "." in digits:
                raise Misspelt("a number with a fraction is no id")
            if len(digits) > MOST_LETTERS:
                raise Misspelt(f"an id can have at most {MOST_LETTERS} characters")
            return digits
    if found in _NO_IDS:
        raise Misspelt(_NO_IDS[found])
    return found


def _seen(text: str) -> str:
    """What a reader sees of it, in small letters, with single blanks."""
    if any("\ud800" <= one <= "\udfff" for one in text):  # Python's own error would hold the text
        raise Misspelt("an id is text in valid Unicode")
    found, before = _plainer(text), ""
    while found != before:  # what goes may have stood between a letter and its accent
        before, found = found, found if found.isascii() else _plainer(found)
    if not found:
        raise Misspelt("an id is empty")
    return found


def _plainer(text: str) -> str:
    if not text.isascii():
        for _ in range(2):  # small letters of some capitals are composed anew
            text = unicodedata.normalize("NFKD", text).casefold()
        text = unicodedata.normalize("NFKC", text).replace("i\u0307", "i")
    shown = "".join(" " if one.isspace() else one for one in text.translate(_ALIKE)
                    if one.isspace() or unicodedata.category(one) not in ("Cc", "Cf"))
    return " ".join(shown.casefold().split())


def _ascii_digits(text: str) -> str:
    """Digits of every script as those of ours."""
    return text if text.isascii() else "".join(
        str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)


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
    starts, rows = grouped_by_person(array)
    return Persons(tuple(map(str, array[starts].tolist())), rows)


def _spelt(array: Cells, column: str) -> Persons:
    """Texts, or Python objects: each different one is spelt once."""
    values = array.tolist()
    numbers = _check_kinds(values, column)
    keys = None if numbers else text_keys(values)
    if keys is None:
        known, codes = _places(values, len(values))
    else:
        starts, codes = grouped_by_person(keys)
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
            raise refused(column, f"an id can have at most {MOST_LETTERS} characters")
        return str(number)
    return str(int(_whole_floats(np.asarray([value]), column)[0]))
