"""Tables in files: CSV, CSV.gz and NPZ -> columns by name, as a schema names them.

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
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.facts.schema import Column, Schema, label_key
from privledger.reading import kind_of
from privledger.tables.encode import to_float


def read_table(path: str | Path, schema: Schema) -> tuple[Any, Any]:
    """Feature columns and target of a CSV, CSV.gz or NPZ file; behind the features the column
    that says whose a row is, where the schema names one.

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
    if schema.person is not None:  # whose rows these are: for `protect`, never a feature
        X[schema.person] = table[schema.person]
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
    names = [column.name for column in wanted] + ([schema.person] if schema.person else [])
    missing = [name for name in names if name not in table]
    if missing:
        raise DataError(f"missing column {', '.join(missing)}")


def _typed(cells: NDArray[Any], column: Column) -> NDArray[Any]:
    if column.kind == "numeric":
        return to_float(np.where(cells == "", "nan", cells), column)
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
    if schema.person is not None:
        raise DataError(f"{path.name}: arrays have no column {schema.person}: give a CSV file")
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
