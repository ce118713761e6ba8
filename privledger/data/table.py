"""Tables in: CSV, CSV.gz, NPZ, pandas frames and NumPy arrays -> columns that fit a schema.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import csv
import gzip
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.data.schema import Column, Schema, label_key
from privledger.errors import DataError
from privledger.reading import kind_of

MISSING = -1


@frozen(eq=False)
class Columns:
    """Encoded features, one array per feature of the schema.

    Attributes:
        arrays: float64 clipped to the bounds with NaN for missing (numeric), or int32 category
            positions with -1 for missing (categorical); each of shape (n_records,).
    """

    schema: Schema
    arrays: tuple[NDArray[Any], ...]
    n_rows: int

    def __repr__(self) -> str:
        return f"Columns({len(self.arrays)} features)"


def read_table(path: str | Path, schema: Schema) -> tuple[Any, Any]:
    """Feature columns and target of a CSV, CSV.gz or NPZ file.

    Returns:
        A pandas frame and series where pandas is installed; otherwise a dict of NumPy columns
        and a NumPy array. Categories come as in the schema's list; an empty cell is missing.
    """
    kind = kind_of(Path(path).stat().st_mode) if Path(path).exists() else ""
    if kind:
        raise DataError(f"{Path(path).name}: it is {kind}, not a table")
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)
    table = _read_csv(path)
    _need(schema, table)
    X = {column.name: _typed(table[column.name], column) for column in schema.features}
    y = _typed(table[schema.target.name], schema.target)
    return _as_frame(X, y, schema)


def read_features(path: str | Path, schema: Schema) -> Any:
    """Feature columns alone, as `read_table` gives them; the table needs no target column."""
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)[0]
    table = _read_csv(path)
    missing = [column.name for column in schema.features if column.name not in table]
    if missing:
        raise DataError(f"missing column {', '.join(missing)}")
    return as_frame({column.name: _typed(table[column.name], column)
                     for column in schema.features})


def _read_csv(path: str | Path) -> dict[str, NDArray[Any]]:
    """Cells of a CSV file by column."""
    opener = gzip.open if str(path).endswith(".gz") else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, None)
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{Path(path).name}: not a CSV file in UTF-8") from None
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{Path(path).name}: no such file") from None
    if header is None:
        raise DataError(f"{Path(path).name}: no header row")
    header = [name.strip() for name in header]
    if len(header) == 1 and ";" in header[0]:
        raise DataError(f"{Path(path).name}: columns must be separated by commas, not semicolons")
    if len(set(header)) < len(header):
        twice = sorted({name for name in header if header.count(name) > 1})
        raise DataError(f"{Path(path).name}: column {', '.join(twice)[:200]} is given twice")
    if any(len(row) != len(header) for row in rows):
        raise DataError(f"{Path(path).name}: rows of different lengths")
    cells = np.array(rows, dtype=object).reshape(len(rows), len(header))
    return {name: cells[:, position] for position, name in enumerate(header)}


def _need(schema: Schema, table: Mapping[str, Any]) -> None:
    wanted = [*schema.features, schema.target]
    missing = [column.name for column in wanted if column.name not in table]
    if missing:
        raise DataError(f"missing column {', '.join(missing)}")


def _typed(cells: NDArray[Any], column: Column) -> NDArray[Any]:
    if column.kind == "numeric":
        return _to_float(np.where(cells == "", "nan", cells), column)
    known = {label_key(category): category for category in column.categories}
    values = [None if cell == "" else known.get(cell, known.get(_number_text(cell), cell))
              for cell in cells]
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _number_text(cell: str) -> str:
    """Another spelling of a whole number: 1.0 for 1. Asked only where the text itself is none."""
    try:
        return label_key(float(cell))
    except ValueError:
        return cell


def _as_frame(X: dict[str, NDArray[Any]], y: NDArray[Any], schema: Schema) -> tuple[Any, Any]:
    complete = not any(value is None for value in y)
    if schema.task == "classification" and complete and len(y):
        y = np.array(list(y))
    try:
        import pandas
    except ImportError:
        return X, y
    return as_frame(X), pandas.Series(y, name=schema.target.name)


def as_frame(X: dict[str, NDArray[Any]]) -> Any:
    """Columns as a pandas frame where pandas is installed; else as they are."""
    try:
        import pandas
    except ImportError:
        return X
    return pandas.DataFrame(X)


def _read_npz(path: Path, schema: Schema) -> tuple[Any, Any]:
    X, codes = _npz_arrays(path)
    if (X.ndim != 2 or X.shape[1] != len(schema.features) or codes.shape != (len(X),)
            or X.dtype.kind not in "fiu" or codes.dtype.kind not in "iu"):
        raise DataError(f"{path.name}: arrays do not have the shape the schema gives")
    labels = np.array(schema.target.categories)
    if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
        raise DataError(f"{path.name}: a class code outside the schema's list")
    return X, labels[codes]


def _npz_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """`X` and `y` of an archive of arrays. No pickles, and no name twice."""
    try:
        with zipfile.ZipFile(path) as names:
            members = [name.removesuffix(".npy") for name in names.namelist()]
        if len(set(members)) < len(members):
            raise DataError(f"{path.name}: an array is given twice")
        with np.load(path, allow_pickle=False) as archive:
            return archive["X"], archive["y"]
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path.name}: no such file") from None
    except KeyError:
        raise DataError(f"{path.name}: an archive with the arrays X and y is needed") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, SyntaxError,
            NotImplementedError, MemoryError, OverflowError, RuntimeError, TypeError,
            UnicodeError, struct.error, tokenize.TokenError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path.name}: not an NPZ archive of arrays") from None


def encode_features(X: Any, schema: Schema, *, strict: bool = True) -> Columns:
    """Encode the features of a frame, a mapping of columns, or a 2-D array (by position).

    Args:
        strict: refuse unknown categories, and missing cells where the schema allows none.
            Prediction is lenient: both count as missing.

    Raises:
        DataError: a column is missing or malformed.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind == "f":
        whole = _encode_floats(X, schema, strict)
        if whole is not None:
            return whole
    parts = _split(X, schema)
    arrays = tuple(
        encode_column(part, column, strict=strict)
        for part, column in zip(parts, schema.features, strict=True)
    )
    lengths = {array.shape[0] for array in arrays}
    if len(lengths) != 1:
        raise DataError("columns of different lengths")
    return Columns(schema, arrays, lengths.pop())


def _encode_floats(X: NDArray[Any], schema: Schema, strict: bool) -> Columns | None:
    """All columns of a wide table at once; None where one column has something to be said."""
    columns = schema.features
    if X.shape[1] != len(columns) or any(c.kind != "numeric" for c in columns):
        return None
    lower = np.array([column.lower for column in columns], dtype=np.float64)[:, None]
    upper = np.array([column.upper for column in columns], dtype=np.float64)[:, None]
    table = np.empty((len(columns), len(X)))
    width = 32  # columns at a time: a transpose of everything runs out of the cache
    for first in range(0, len(columns), width):
        some = slice(first, first + width)
        part = table[some]
        part[...] = X[:, some].T
        if not np.isfinite(part).all():
            return None  # infinities and missing cells are looked at column by column
        if strict and any(column.outside == "refuse" for column in columns[some]):
            return None
        np.clip(part, lower[some], upper[some], out=part)
    return Columns(schema, tuple(table), len(X))


def _split(X: Any, schema: Schema) -> list[Any]:
    names = [column.name for column in schema.features]
    if hasattr(X, "columns") or isinstance(X, Mapping):
        held = set(X.columns) if hasattr(X, "columns") else set(X)
        missing = [name for name in names if name not in held]
        if not missing:
            return [X[name] for name in names]
        if not hasattr(X, "to_numpy") or X.shape[1] != len(names) or schema.array_layout is False:
            raise DataError(f"missing column {', '.join(missing)}")
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError("features must be a table of two dimensions; "
                        "Reshape your data: one row per record, one column per feature")
    if array.shape[1] != len(names):
        raise DataError(f"X has {array.shape[1]} features, but Schema is expecting "
                        f"{len(names)} features as input")
    return [array[:, position] for position in range(len(names))]


def encode_column(values: Any, column: Column, *, strict: bool = True) -> NDArray[Any]:
    """One column as float64 (clipped, NaN for missing) or int32 category positions."""
    if not _is_flat(values):
        raise DataError(f"column {column.name!r} must be one column of single cells")
    if column.kind == "categorical":
        return _encode_categories(values, column, strict)
    array = _to_float(_plain(values), column)
    if not strict:
        array = np.where(np.isfinite(array) | np.isnan(array), array,
                         np.where(array > 0, column.upper, column.lower))
    if np.isinf(array).any():
        raise DataError(f"column {column.name!r} contains infinity")
    if strict and not column.missing and np.isnan(array).any():
        raise DataError(f"column {column.name!r} contains NaN (missing cells) and its schema "
                        "allows none")
    if strict and column.outside == "refuse" and (
            (array < column.lower).any() or (array > column.upper).any()):
        raise DataError(f"column {column.name!r} has a value outside its public bounds")
    return np.clip(array, column.lower, column.upper)


def _is_flat(values: Any) -> bool:
    """One dimension, and no lists inside the cells."""
    try:
        if np.ndim(values) != 1:
            return False
    except ValueError:  # rows of different lengths
        return False
    if getattr(values, "dtype", None) != np.dtype(object):
        return True
    return not any(isinstance(cell, list | tuple | dict) for cell in values)


def _plain(values: Any) -> NDArray[Any]:
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def _to_float(array: NDArray[Any], column: Column) -> NDArray[np.float64]:
    if array.dtype.kind == "c":
        raise DataError(f"column {column.name!r}: Complex data not supported")
    try:
        if array.dtype == object:
            array = np.array([np.nan if value is None else value for value in array], dtype=object)
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"column {column.name!r} must hold numbers only") from None


def _encode_categories(values: Any, column: Column, strict: bool) -> NDArray[np.int32]:
    positions = {label_key(category): place for place, category in enumerate(column.categories)}
    if hasattr(values, "factorize"):
        codes, levels = values.factorize()
        levels = list(levels)
    else:
        levels, codes = _factorize(_plain(values))
    lookup = np.full(len(levels) + 1, MISSING, dtype=np.int32)
    for place, level in enumerate(levels):
        absent = level is None or level == "" or level != level
        found = MISSING if absent else positions.get(label_key(level), -2)
        lookup[place] = found
    if strict and (lookup == -2).any():
        raise DataError(f"column {column.name!r} has a category that its schema does not list")
    lookup[lookup == -2] = MISSING
    result: NDArray[np.int32] = lookup[np.asarray(codes)]
    if strict and not column.missing and (result == MISSING).any():
        raise DataError(f"column {column.name!r} has missing cells and its schema allows none")
    return result


def _factorize(array: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    if array.dtype != object:
        levels, codes = np.unique(array, return_inverse=True)
        return levels.tolist(), codes.reshape(-1)
    places: dict[Any, int] = {}
    codes = np.fromiter((places.setdefault(value, len(places)) for value in array), np.int64,
                        len(array))
    return list(places), codes


def encode_target(y: Any, schema: Schema, *, unlabelled: bool = False) -> NDArray[Any]:
    """The target: float64 clipped to its bounds, or int32 class positions.

    Args:
        unlabelled: allow missing cells: NaN, or position -1.
    """
    column = evolve(schema.target, missing=True) if unlabelled else schema.target
    array = _plain(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError("the target must be one column")
    codes = encode_column(array, column)
    if not unlabelled and not has_label(codes).all():
        raise DataError(f"the target column {column.name!r} has missing cells "
                        "(Input y contains NaN)")
    return codes


def has_label(target: NDArray[Any]) -> NDArray[np.bool_]:
    """Which records of an encoded target have a label, shape (n_records,)."""
    found: NDArray[np.bool_] = (~np.isnan(target) if target.dtype.kind == "f"
                                else target != MISSING)
    return found
