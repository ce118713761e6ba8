"""One column, of whatever library, as numbers, or as levels and the code of each cell.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.facts.schema import Column, label_key

if TYPE_CHECKING:
    import pyarrow as pa

Levels: TypeAlias = tuple[list[object], NDArray[np.integer]]
"""Different cells of a column, and for each record the place of its own; -1 for missing."""
_INSTANTS = (datetime.datetime, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


@frozen(eq=False, repr=False)
class Text:
    """Cells as a text file has them, an Arrow array of texts. An empty one is missing."""

    array: pa.Array


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


def check_family(found: str, column: Column) -> None:
    """Refuse a column whose type can never fit the schema.

    Raises:
        DataError: numbers that are texts, dates or lists; categories that are instants or lists.
    """
    if found == "time" or (found == "date" and column.kind == "numeric"):
        raise no_dates(column)
    if column.kind == "numeric" and found != "number":
        raise DataError(f"column {column.name!r} must hold numbers only")
    if found == "other":
        raise DataError(f"column {column.name!r} must be one column of single cells")


def no_dates(column: Column) -> DataError:
    """What is said about instants: how many steps since when they are is nobody's public fact."""
    return DataError(f"column {column.name!r} holds dates or times, and its schema does not say "
                     "what they stand for: map them to a number, or to a text that the schema "
                     "lists, before they come here")


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


def numbers(values: Any, column: Column) -> NDArray[np.float64]:
    """A column as float64, NaN for missing cells, neither clipped nor checked against bounds.

    Raises:
        DataError: anything that is no number; dates and times by name.
    """
    if isinstance(values, Text):
        return _text_numbers(values.array, column)
    array = arrow_of(values)
    return to_float(plain(values), column) if array is None else _arrow_numbers(array, column)


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
    """What `float` makes of each text. Arrow reads almost all; of the others Python judges."""
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
    if array.dtype.kind in "mM" or (array.dtype == object and any(
            isinstance(value, _INSTANTS) for value in array)):
        raise no_dates(column)
    try:
        if array.dtype == object:
            array = np.array([np.nan if is_absent(value) else value for value in array],
                             dtype=object)
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"column {column.name!r} must hold numbers only") from None


def is_absent(value: object) -> bool:
    """Whether an object stands for no value: None, and what libraries put in its place."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def plain(values: Any) -> NDArray[Any]:
    """A column of pandas, NumPy or Python as a NumPy array; what a mask hides is None."""
    if isinstance(values, np.ma.MaskedArray):
        shown = np.asarray(values).astype(object)
        shown[np.ma.getmaskarray(values)] = None
        return shown
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def levels(values: Any, column: Column) -> Levels:
    """A column of categories as what occurs in it and where.

    Raises:
        DataError: dates with a time of day, times, spans of time, lists.
    """
    array = values.array if isinstance(values, Text) else arrow_of(values)
    if array is not None:
        found = _arrow_levels(array, column)
    elif hasattr(values, "factorize"):
        codes, several = values.factorize()
        found = list(several), np.asarray(codes)
    else:
        found = _factorize(plain(values), column)
    if any(isinstance(level, _INSTANTS) and level == level for level in found[0]):
        raise no_dates(column)
    if isinstance(values, Text):
        return _spelt(found[0], column), found[1]
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
    codes = np.fromiter((places.setdefault(value, len(places)) for value in array), np.int64,
                        len(array))
    return list(places), codes


def _spelt(texts: list[object], column: Column) -> list[object]:
    """Texts of a file as the schema's list has them, None for empty ones. Another spelling of a
    whole number, 1.0 for 1, is asked for only where the text itself is no category."""
    known = {label_key(category): category for category in column.categories}
    return [None if text == "" else known.get(str(text), known.get(_number_text(str(text)), text))
            for text in texts]


def _number_text(text: str) -> str:
    try:
        return label_key(float(text))
    except ValueError:
        return text
