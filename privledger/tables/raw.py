"""One column, of whatever library, as numbers, or as levels and the code of each cell.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import datetime
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.numerals import digits_of, is_number
from privledger.tables.schema import Column, label_key
from privledger.tables.text_form import day

if TYPE_CHECKING:
    import pyarrow as pa

Levels: TypeAlias = tuple[list[object], NDArray[np.integer]]
"""Different cells of a column, and for each record the place of its own; -1 for missing."""
_T = TypeVar("_T", np.float64, np.int64)
_WORDS = ("nan", "inf", "infinity")  # no number, and not another's word for a missing cell
_INSTANTS = (datetime.datetime, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


WIDE = 1 << 24  # bytes of a column with room for its longest cell in each place
_SAMPLE = 1 << 10  # cells that may show all the levels of a column
_SHORT = 24  # letters of a number that is read with all others of its column
_POWERS = 10.0 ** np.arange(_SHORT)


@frozen(eq=False, repr=False)
class Text:
    """Cells as a text file has them. An empty one is missing.

    Attributes:
        cells: in UTF-8, shape (n,), as `packed_cells` makes them. decimal: the mark in numbers.
    """

    cells: NDArray[np.generic]
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, rows: slice) -> Text:
        return Text(self.cells[rows], self.decimal)

    def filter(self, rows: NDArray[np.bool_]) -> Text:
        """Some of the cells, as Arrow's arrays have it."""
        return Text(self.cells[rows], self.decimal)

    @property
    def texts(self) -> list[str]:
        """Each cell."""
        return [cell.decode() for cell in self.cells.tolist()]


def packed_cells(cells: list[bytes]) -> NDArray[np.generic]:
    """Cells in one array of bytes, or as objects where few of them are long."""
    widest = max(map(len, cells), default=1) or 1
    if widest * len(cells) <= WIDE:
        return np.array(cells, dtype=f"S{widest}")
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def check_arrow(what: str) -> None:
    """Raise `DataError` where pyarrow is needed, and not installed."""
    if find_spec("pyarrow") is None:
        raise DataError(f"{what} needs pyarrow, which is not installed: "
                        "pip install 'privledger[parquet]'")


def family(kind: pa.DataType) -> str:
    """What an Arrow type is to a schema: `number`, `text`, `date`, `time`, or `other`."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            or types.is_decimal(kind) or types.is_null(kind)):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_date32(kind):
        return "date"
    return "time" if types.is_temporal(kind) else "other"


def stands_for_none(value: object, column: Column) -> bool:
    """Whether a cell of categories is missing: nothing, an empty text, NaN, or the marker."""
    if is_absent(value) or value == "" or value != value:
        return True
    marker = column.missing_value_marker
    return marker is not None and label_key(value) == label_key(marker)


def check_family(found: str, column: Column) -> None:
    """Refuse a column whose type can never fit the schema.

    Raises:
        DataError: numbers that are texts, dates or lists; categories that are instants or lists.
    """
    if column.days_since is not None and found in ("date", "time"):
        return
    if found == "time" or (found == "date" and column.kind == "numeric"):
        raise no_dates(column)
    if column.kind == "numeric" and found != "number":
        raise DataError(f"column {column.name!r} must hold numbers only")
    if found == "other":
        raise DataError(f"column {column.name!r} must be one column of single cells")


def no_dates(column: Column) -> DataError:
    """What is said about instants: no schema says how many steps since when they are."""
    return DataError(f"column {column.name!r} holds dates or times, which its schema does not "
                     "define. Map them to a number, or to a text that the schema lists, first")


def arrow_of(values: object) -> pa.Array | None:
    """The column as one Arrow array, if it is Arrow's or a library's that hands such out; None
    for pandas, NumPy and plain Python."""
    root = type(values).__module__.partition(".")[0]
    if root in ("numpy", "pandas", "builtins"):
        return None
    if not (hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")):
        return None
    check_arrow(f"a column of {root}")
    import pyarrow as pa

    if not isinstance(values, pa.Array | pa.ChunkedArray):
        values = pa.chunked_array(values)
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries().combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # no chunk at all, in older versions
        values = pa.array([], values.type)
    return values


def check_utf8(array: pa.Array, where: str) -> None:
    """Raise `DataError` for texts that are none: what Python says of them quotes their bytes."""
    import pyarrow as pa

    try:
        if family(array.type) == "text":
            array.validate(full=True)
    except pa.ArrowInvalid:
        raise DataError(f"{where} holds text that is not UTF-8") from None


def raw_numbers(values: Any, column: Column) -> NDArray[np.float64]:
    """A column as float64, NaN for missing cells, neither clipped nor checked against bounds.

    Raises:
        DataError: anything that is no number; dates and times by name.
    """
    dated = None if column.days_since is None else days(values, column)
    if dated is not None:
        return without_marker(dated, column)
    if isinstance(values, Text):
        return without_marker(_text_numbers(values, column), column)
    array = arrow_of(values)
    return without_marker(to_float(plain_cells(values), column) if array is None
                          else _arrow_numbers(array, column), column)


def days(values: Any, column: Column) -> NDArray[np.float64] | None:
    """Whole days since the column's own date, of cells that are dates; None for other cells, which
    may be such days already.

    Raises:
        DataError: instants with a zone, or texts that are no dates.
    """
    first = datetime.date.fromisoformat(str(column.days_since))
    if isinstance(values, Text):
        several, codes = levels(values, column)
        return np.array([_days_of(one, first, column) for one in several], dtype=np.float64)[codes]
    array = arrow_of(values)
    if array is None:
        held = plain_cells(values)
        if held.dtype.kind == "M":
            if np.datetime_data(held.dtype)[0] in ("Y", "M", "W", "generic"):
                raise _no_days(column)
            found: NDArray[np.float64] = (held.astype("datetime64[D]") - np.datetime64(
                first)) / np.timedelta64(1, "D")
            return found
        if held.dtype.kind not in "OU" or not any(
                isinstance(one, datetime.date | np.datetime64 | str) for one in held.tolist()):
            return None
        return np.array([_days_of(one, first, column) for one in held.tolist()], dtype=np.float64)
    if family(array.type) == "number":
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if getattr(array.type, "tz", None) is not None:
            raise _no_days(column)
        if pa.types.is_timestamp(array.type):
            array = pc.floor_temporal(array, unit="day")
        whole = pc.cast(pc.cast(array, pa.date32()), pa.int32())
    except (pa.ArrowException, TypeError, ValueError):
        raise _no_days(column) from None
    return _plain(whole, np.nan, np.float64) - (first - datetime.date(1970, 1, 1)).days


def _days_of(value: object, first: datetime.date, column: Column) -> float:
    """Days from the first to a date, or to an instant's; NaN for a missing cell."""
    if is_absent(value) or value != value:
        return math.nan
    if isinstance(value, str):
        if value in ("", column.missing_value_marker):
            return math.nan
        value = day(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").item()
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        value = value.date()
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise _no_days(column)
    return (value - first).days


def _no_days(column: Column) -> DataError:
    return DataError(f"column {column.name!r} must hold dates, written as 2020-05-17 in a text "
                     "file, without a time zone")


def without_marker(array: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """The same with NaN where a number stands for a missing cell."""
    marker = column.missing_value_marker
    digits = digits_of(marker) if isinstance(marker, str) else marker
    return array if digits is None else np.where(array == float(digits), np.nan, array)


def _arrow_numbers(array: pa.Array, column: Column) -> NDArray[np.float64]:
    import pyarrow as pa

    check_family(family(array.type), column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return _plain(array, np.nan, np.float64)


def _plain(array: pa.Array, absent: float, kind: type[_T]) -> NDArray[_T]:
    """Numbers of NumPy, `absent` for missing cells. Arrow's own way there imports pandas."""
    if not array.null_count:
        return np.asarray(np.from_dlpack(array), dtype=kind)
    found = np.full(len(array), absent, dtype=kind)
    there = np.from_dlpack(array.is_valid().cast("uint8")).view(np.bool_)
    found[there] = np.from_dlpack(array.drop_null())
    return found


def _text_numbers(texts: Text, column: Column) -> NDArray[np.float64]:
    """What each text spells. Most are read all at once; the others are judged one by one."""
    found, known = _short_numbers(texts)
    rest = np.flatnonzero(~known)
    if len(rest):
        blank = ("", column.missing_value_marker)
        held = np.empty(len(rest), dtype=object)
        held[:] = ["nan" if one in blank else _with_point(one, texts.decimal)
                   for one in Text(texts.cells[rest]).texts]
        found[rest] = to_float(held, column)
    return found


def _with_point(text: str, decimal: str) -> str:
    """A number with a point for its decimal mark; one that had a point is none."""
    return text if decimal == "." else text.replace(".", "?").replace(decimal, ".")


def _short_numbers(texts: Text) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers without an exponent, and which cells hold one.

    Up to fifteen digits are a whole number that a float holds, and so is the power of ten that it
    is divided by: the quotient is rounded once, and is the nearest float.
    """
    size, width = len(texts), texts.cells.dtype.itemsize
    if texts.cells.dtype == object or width > _SHORT:
        return np.full(size, np.nan), np.zeros(size, dtype=np.bool_)
    letters = np.array(  # a copy, whatever the shape
        np.ascontiguousarray(texts.cells).view(np.uint8).reshape(size, width).T, order="C")
    whole: NDArray[np.int64] = np.zeros(size, np.int64)
    digits, places = np.zeros((2, size), dtype=np.int8)
    minus, good = letters[0] == ord("-"), np.ones(size, dtype=np.bool_)
    letters[0][minus | (letters[0] == ord("+"))] = 0
    pointed = np.zeros(size, dtype=np.bool_)
    for column in letters:
        figures, point = column - ord("0"), column == ord(texts.decimal)
        figure = figures < 10
        good &= figure | (point & ~pointed) | (column == 0)
        whole = np.where(figure, whole * 10 + figures, whole)
        digits += figure
        places += figure & pointed
        pointed |= point
    good &= (digits > 0) & (digits <= 15)
    found = whole / _POWERS[places]
    return np.where(minus, -found, found), good


def to_float(array: NDArray[Any], column: Column) -> NDArray[np.float64]:
    """Numbers as float64, None as NaN. Raises `DataError` for anything that is no number."""
    if array.dtype.kind == "c":
        raise DataError(f"column {column.name!r}: Complex data not supported")
    if array.dtype.kind in "SV":
        raise DataError(f"column {column.name!r} must hold numbers only")
    if array.dtype.kind in "mM" or (array.dtype == object and any(
            isinstance(value, _INSTANTS) for value in array)):
        raise no_dates(column)
    try:
        if array.dtype == object or array.dtype.kind not in "biuf":
            marker = column.missing_value_marker
            array = np.array([np.nan if isinstance(value, str) and value == marker
                              else _number_of(value) for value in array.tolist()], dtype=object)
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"column {column.name!r} must hold numbers only") from None


def _number_of(value: object) -> object:
    """A cell as something that becomes a float.

    Raises:
        ValueError: a text that spells no number, or bytes.
    """
    if is_absent(value):
        return np.nan
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValueError
    if not isinstance(value, str):
        return value
    text = value.strip(" \t\r\n")
    if not is_number(text) and text.lower().lstrip("+-") not in _WORDS:
        raise ValueError
    return float(text)


def is_absent(value: object) -> bool:
    """Whether an object stands for no value: None, and what libraries put in its place."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def plain_cells(values: Any) -> NDArray[Any]:
    """A column of pandas, NumPy or Python as a NumPy array; what a mask hides is None."""
    if isinstance(values, np.ma.MaskedArray):
        shown = np.asarray(values).astype(object)
        shown[np.ma.getmaskarray(values)] = None
        return shown
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    array = np.asarray(values)
    if array.dtype.kind in "iufc" and isinstance(values, list | tuple) and bool in map(
            type, values):  # beside numbers NumPy makes 1 of True
        array = np.empty(len(values), dtype=object)
        array[:] = values
    return array


def levels(values: Any, column: Column) -> Levels:
    """A column of categories as what occurs in it and where.

    Raises:
        DataError: dates with a time of day, times, spans of time, lists.
    """
    if isinstance(values, Text):
        cells, places = _places(values.cells.tolist())
        return [cell.decode() for cell in cells], places
    array = arrow_of(values)
    if array is not None:
        found = _arrow_levels(array, column)
    elif hasattr(values, "factorize") and (getattr(values, "dtype", None) != np.dtype(object)):
        codes, several = values.factorize()
        found = list(several), np.asarray(codes)
    else:
        found = _factorize(plain_cells(values), column)
    if any(isinstance(level, _INSTANTS) and level == level for level in found[0]):
        raise no_dates(column)
    if any(isinstance(level, bytes | bytearray | memoryview) for level in found[0]):
        raise DataError(f"column {column.name!r} must be one column of single cells")
    return found


def _arrow_levels(array: pa.Array, column: Column) -> Levels:
    import pyarrow as pa

    check_family(family(array.type), column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    check_utf8(array.dictionary, f"column {column.name!r}")
    return array.dictionary.to_pylist(), _plain(array.indices, -1, np.int64)


def _factorize(array: NDArray[Any], column: Column) -> Levels:
    if array.dtype.kind in "mM":
        raise no_dates(column)
    if array.dtype != object:
        if array.dtype.kind in "biuSU":  # not of floats: 0.0 has a sign, and NaN is no level
            several = np.unique(array[:: len(array) // _SAMPLE + 1])
            codes = np.searchsorted(several, array).clip(0, len(several) - 1)
            if (several[codes] == array).all():
                return several.tolist(), codes
        several, codes = np.unique(array, return_inverse=True)
        return several.tolist(), codes.reshape(-1)
    cells = array.tolist()
    if not any(issubclass(kind, bool | np.bool_) for kind in set(map(type, cells))):
        return _places(cells)
    # True is 1 to a dictionary, and another category here.
    typed, places = _places([(isinstance(value, bool | np.bool_), value) for value in cells])
    return [value for _, value in typed], places


def _places(cells: list[Any]) -> tuple[list[Any], NDArray[np.integer]]:
    """Different ones, and the place of each."""
    places = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    return list(places), np.fromiter(map(places.__getitem__, cells), np.int64, len(cells))
