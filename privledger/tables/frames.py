"""Frames in memory, of whatever library: their columns by name.

pandas, mappings and arrays are read as they are; pyarrow tables and record batches, polars and
everything else that narwhals knows come as Arrow columns. This runs at the owner's side, before
the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from privledger.errors import DataError, SchemaError
from privledger.facts.schema import Schema
from privledger.tables.raw import Text, arrow_of, check_utf8, plain

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN = ("numpy", "pandas", "builtins")
Named: TypeAlias = "Mapping[str, pa.ChunkedArray]"


def is_plain_table(X: object) -> bool:
    """Whether it is an array, a frame of pandas or a mapping: in memory, and read as it is."""
    return type(X).__module__.partition(".")[0] in _KNOWN


def arrow_columns(X: object, known: Container[str] = ()) -> Named | None:
    """The columns of a frame of another library than pandas, by name; None for anything else.

    Args:
        known: names of a schema, which may stand in messages.

    Raises:
        DataError: two columns of one name.
    """
    if is_plain_table(X) or isinstance(X, Mapping) or not _framed(X):
        return None
    table = _as_table(X, type(X).__module__.partition(".")[0])
    if table is None:
        return None
    names = names_of(table.schema)
    once(list(names), known=known)
    return dict(zip(names, table.columns, strict=True))


def _as_table(X: object, root: str) -> pa.Table | None:
    """The frame as Arrow's; None for pandas, whatever it is wrapped in."""
    import pyarrow as pa

    if root != "pyarrow":
        import narwhals as nw

        try:
            frame = nw.from_native(X, eager_only=True, pass_through=True)
        except nw.exceptions.DuplicateError:
            raise DataError("a column is given twice") from None
        if isinstance(frame, nw.DataFrame):
            is_pandas = nw.get_native_namespace(frame).__name__ == "pandas"
            return None if is_pandas else frame.to_arrow()
    return X if isinstance(X, pa.Table) else pa.table(X)


def check_is_table(X: object, what: str) -> None:
    """Raise `DataError` for what is taken for a table now and then, and says nothing of why not."""
    if isinstance(X, Schema):
        raise DataError(f"{what} is a schema: the order is table, target, schema")
    if isinstance(X, str | bytes | os.PathLike):
        raise DataError(f"{what} is a path or a text: pl.read_table(path, schema) reads a file, "
                        "pl.scan_csv(path) and pl.scan_parquet(path) read one in batches, and "
                        "target= names the column of the table that is its target")
    if type(X).__module__.startswith("scipy.sparse"):
        raise DataError(f"{what} is a sparse matrix: only dense ones are read; X.toarray() makes "
                        "one")


def missing_columns(missing: Iterable[str], held: Iterable[object]) -> str:
    """What is said of columns that a table has not. Its own names are not shown: where a table
    has no header they are values."""
    there = {"".join(str(name).split()).casefold() for name in held}
    alike = [name for name in missing if "".join(name.split()).casefold() in there]
    text = f"missing column {', '.join(missing)}"
    return text if not alike else (
        f"{text}: did you mean the one that differs from {alike[0]} in capitals or spaces only? "
        "Names are compared exactly")


def names_of(schema: pa.Schema, where: str = "") -> list[str]:
    """Names of columns; `DataError` for one that is no text."""
    try:
        return list(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{where + ': ' if where else ''}a column has a name that is not "
                        "UTF-8") from None


def once(names: list[str], where: str = "", known: Container[str] = ()) -> None:
    """Raise `DataError` for a column that is there twice: two readers could see two values.

    Of a name that is not `known` from a schema only its places are told: where a header is
    missing, it is somebody's cell.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if places.setdefault(name, place) == place:
            continue
        start = where + ": " if where else ""
        if name in known:
            raise DataError(f"{start}column {name} is given twice")
        raise DataError(f"{start}a column is given twice: columns {places[name]} and {place} have "
                        "the same name")


def _framed(X: object) -> bool:
    """Whether it is a table in memory that can be had as Arrow. An array of the PyCapsule kind
    without fields is a column, and a scan is no table yet."""
    return (hasattr(X, "__arrow_c_stream__") or hasattr(X, "__narwhals_dataframe__")
            or hasattr(X, "__arrow_c_array__")) and hasattr(X, "columns")


def column_of(X: object, name: str) -> object:
    """One column of a frame or a mapping: as it is, or as a NumPy array where it was Arrow's.

    Raises:
        DataError: it has no such column, or no names at all.
    """
    found = column_as_held(X, name)
    return found if arrow_columns(X) is None else column_in_numpy(found)


def column_in_numpy(values: object) -> NDArray[np.generic]:
    """A column as a NumPy array; of Arrow's, a missing cell is NaN among numbers, else None."""
    array = values.array if isinstance(values, Text) else arrow_of(values)
    if array is None:
        return plain(values)
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    check_utf8(array, "a column")
    found: NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return found


def column_as_held(X: object, name: str) -> object:
    """One column of a frame or a mapping, as its library holds it, or as Arrow.

    Raises:
        DataError: as for `column_of`.
    """
    arrow = arrow_columns(X, (name,))
    if arrow is None:
        held = getattr(X, "columns", X if isinstance(X, Mapping) else ())
        arrow = cast(Named, X) if name in held else {}
    if name not in arrow:
        raise DataError(missing_columns([name], list(arrow)))
    return arrow[name]


def check_target(schema: Schema, target: object) -> None:
    """Raise `SchemaError` unless `target` is the name of the schema's target column: by its
    bounds and categories no other column can be read."""
    if not isinstance(target, str) or schema.target.name != target:
        raise SchemaError(f"target: the schema's target column is {schema.target.name!r}")


def split_target(X: object, name: str) -> tuple[object, object]:
    """A frame or a mapping, and the column of it that holds the target.

    The frame stays as it is: whatever a schema does not call a feature is not read as one.

    Raises:
        DataError: it has no such column, or no names at all.
    """
    return X, column_as_held(X, name)
