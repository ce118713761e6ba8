"""Tables in files: CSV, CSV.gz, Parquet and NPZ -> columns by name, as a schema names them.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.facts.schema import Schema, label_array
from privledger.reading import kind_of
from privledger.tables.sources import scan_files
from privledger.tables.wanted import Wanted

_ROWS = 1 << 18


def read_table(path: str | Path, schema: Schema) -> tuple[Any, Any]:
    """Feature columns and target of CSV, CSV.gz and Parquet files, or of one NPZ file; behind the
    features the column that says whose a row is, where the schema names one.

    Args:
        path: a file, a folder, or a pattern such as `folder/*.parquet`.

    Returns:
        A pandas frame and series where pandas is installed; otherwise a dict of NumPy columns
        and a NumPy array. Categories come as in the schema's list; an empty cell is missing.
    """
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)
    X = _read(path, Wanted(schema, target=True))
    y = X.pop(schema.target.name)
    return _as_frame(X, y, schema)


def read_features(path: str | Path, schema: Schema) -> Any:
    """Feature columns alone, as `read_table` gives them; the table needs no target column."""
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)[0]
    return as_frame(_read(path, Wanted(schema, target=False, people=False)))


def _read(path: str | Path, wanted: Wanted) -> dict[str, NDArray[Any]]:
    """All rows of the columns that are wanted, by name."""
    origin = scan_files(path, wanted.names).origin
    wanted.check(origin)
    parts = [wanted.typed(piece) for piece in origin.pieces(wanted.names, _ROWS)]
    if not parts:
        parts = [[np.empty(0, dtype=float if column.kind == "numeric" else object)
                  for column in wanted.columns] + [np.empty(0, dtype=object)]]
    return {name: np.concatenate(several)
            for name, several in zip(wanted.names, zip(*parts, strict=True), strict=False)}


def _as_frame(X: dict[str, NDArray[Any]], y: NDArray[Any], schema: Schema) -> tuple[Any, Any]:
    complete = not any(value is None for value in y)
    if schema.task == "classification" and complete and len(y):
        y = label_array(list(y))
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
    labels = schema.target.labels
    if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
        raise DataError(f"{path.name}: a class code outside the schema's list")
    return X, labels[codes]


def _npz_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """`X` and `y` of an archive of arrays. No pickles, and no name twice."""
    kind = kind_of(path.stat().st_mode) if path.exists() else ""
    if kind:
        raise DataError(f"{path.name}: it is {kind}, not a table")
    try:
        with zipfile.ZipFile(path) as names:
            members = [name.removesuffix(".npy") for name in names.namelist()]
            size = sum(one.file_size for one in names.infolist())
        if size > max(1 << 26, 200 * path.stat().st_size):  # as of a .csv.gz
            raise DataError(f"{path.name}: it unpacks to over 200 times its size, and over 64 MB: "
                            "write it with numpy.savez")
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
