"""One column, of whatever library, as numbers, or as levels and the code of each cell.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.facts.schema import Column, label_key
from privledger.numerals import digits_of

if TYPE_CHECKING:
    import pyarrow as pa

Levels: TypeAlias = tuple[list[object], NDArray[np.integer]]
"""Different cells of a column, and for each record the place of its own; -1 for missing."""
_WORDS = ("nan", "inf", "infinity")  # no number, and not another's word for a missing cell
_INSTANTS = (datetime.datetime, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


@frozen(eq=False, repr=False)
class Text:
    """Cells as a text file has them, an Arrow array of texts. An empty one is missing.

    Attributes:
        decimal: the mark in numbers.
    """

    array: pa.Array
    decimal: str = "."


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
    """What is said about instants: how many steps since when they are is nobody's public fact."""
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
    marker = column.missing_value_marker
    array = values.array if isinstance(values, Text) else arrow_of(values)
    dated = None if column.days_since is None else days(values, array, column)
    if dated is not None:
        return without_marker(dated, column)
    if array is None:
        return without_marker(to_float(plain_cells(values), column), column)
    if isinstance(values, Text):
        if isinstance(marker, str):
            import pyarrow as pa
            import pyarrow.compute as pc

            array = pc.if_else(pc.equal(array, marker), pa.scalar("", array.type), array)
        if values.decimal != ".":
            array = _with_points(array, values.decimal)
        return without_marker(_text_numbers(array, column), column)
    return without_marker(_arrow_numbers(array, column), column)


def _with_points(array: pa.Array, decimal: str) -> pa.Array:
    """Numbers with a point for their decimal mark; one that had a point is none."""
    import pyarrow.compute as pc

    return pc.replace_substring(pc.replace_substring(array, ".", "?"), decimal, ".")


def days(values: Any, array: pa.Array | None, column: Column) -> NDArray[np.float64] | None:
    """Whole days since the column's own date, of cells that are dates; None for other cells, which
    may be such days already.

    Raises:
        DataError: instants with a zone, or texts that are no dates.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if array is None:
        held = plain_cells(values)
        if held.dtype.kind != "M" and not (held.dtype == object and any(
                isinstance(one, datetime.date | np.datetime64) for one in held)):
            return None
        try:
            array = pa.array(held if held.dtype.kind == "M" else held.tolist(), from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            raise _no_days(column) from None
    marker = column.missing_value_marker
    if isinstance(values, Text):
        for text in ("", marker) if isinstance(marker, str) else ("",):
            array = pc.if_else(pc.equal(array, text), pa.scalar(None, array.type), array)
        if len(array) == array.null_count:
            return np.full(len(array), np.nan)
        if not pc.all(pc.match_substring_regex(array, r"^\d{4}-\d\d-\d\d$")).as_py():
            raise _no_days(column)
    elif family(array.type) == "number":
        return None
    try:
        if getattr(array.type, "tz", None) is not None:
            raise _no_days(column)
        if pa.types.is_timestamp(array.type):
            array = pc.floor_temporal(array, unit="day")
        found = pc.cast(pc.cast(array, pa.date32()), pa.int32())
    except (pa.ArrowException, TypeError, ValueError):
        raise _no_days(column) from None
    first = (datetime.date.fromisoformat(str(column.days_since)) - datetime.date(1970, 1, 1)).days
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64) - first


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
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _text_numbers(array: pa.Array, column: Column) -> NDArray[np.float64]:
    """What each text spells. Arrow reads almost all; the others are judged one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = pc.equal(array, "")
    try:
        found = pc.if_else(empty, pa.scalar(None, pa.string()), array).cast(pa.float64())
        result: NDArray[np.float64] = found.to_numpy(zero_copy_only=False)
        if np.isfinite(result).sum() + pc.sum(empty.cast(pa.int64())).as_py() == len(array):
            return result
    except (pa.ArrowInvalid, TypeError):  # the latter: no cell at all, and so no sum
        pass
    cells = np.empty(len(array), dtype=object)
    cells[:] = [cell or "nan" for cell in array.to_pylist()]
    return to_float(cells, column)


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
    if digits_of(text) is None and text.lower().lstrip("+-") not in _WORDS:
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
    array = values.array if isinstance(values, Text) else arrow_of(values)
    if array is not None:
        found = _arrow_levels(array, column)
    elif hasattr(values, "factorize") and (
            getattr(values, "dtype", None) != np.dtype(object)):
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
    codes = array.indices.cast(pa.int64())  # some libraries count without a sign
    if codes.null_count:
        codes = codes.fill_null(-1)
    return array.dictionary.to_pylist(), codes.to_numpy(zero_copy_only=False)


def _factorize(array: NDArray[Any], column: Column) -> Levels:
    if array.dtype.kind in "mM":
        raise no_dates(column)
    if array.dtype != object:
        several, codes = np.unique(array, return_inverse=True)
        return several.tolist(), codes.reshape(-1)
    places: dict[object, int] = {}
    if any(issubclass(kind, bool | np.bool_) for kind in set(map(type, array))):
        # True is 1 to a dictionary, and another category here.
        typed = [(isinstance(value, bool | np.bool_), value) for value in array]
        codes = np.fromiter((places.setdefault(one, len(places)) for one in typed), np.int64,
                            len(array))
        return [value for _, value in cast(dict[tuple[bool, object], int], places)], codes
    codes = np.fromiter((places.setdefault(value, len(places)) for value in array), np.int64,
                        len(array))
    return list(places), codes
