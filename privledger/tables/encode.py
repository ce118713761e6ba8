"""Frames, mappings of columns and NumPy arrays -> columns that fit a schema.

This runs at the owner's side, before the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.tables.columns import MISSING, Columns, TextKey, has_label
from privledger.tables.frames import (
    arrow_columns,
    check_is_table,
    column_of,
    missing_columns,
    streamed,
)
from privledger.tables.raw import Text, arrow_of, levels, plain_cells, raw_numbers, stands_for_none
from privledger.tables.schema import Column, Schema, label_key


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


def encode_keys(X: Any, columns: Columns) -> Columns:
    """The same with the texts that the schema names as keys. For tables behind the guard only.

    Raises:
        DataError: a column is missing, malformed, or has missing cells that the schema forbids.
    """
    found = {column.name: encode_key(column_of(X, column.name), column)
             for column in columns.schema.keys}
    if any(len(key.codes) != columns.n_rows for key in found.values()):
        raise DataError("columns of different lengths")
    return evolve(columns, keys=found) if found else columns


def encode_key(values: object, column: Column) -> TextKey:
    """One column of texts, as in `encode_keys`."""
    if arrow_of(values) is None and not _is_flat(values):
        raise DataError(f"column {column.name!r} must be one column of single cells")
    several, codes = levels(values, column)
    names = [None if stands_for_none(one, column) else label_key(one) for one in several]
    place = {name: at for at, name in enumerate(sorted({one for one in names if one}))}
    lookup = np.array([*(place.get(one or "", MISSING) for one in names), MISSING], dtype=np.int32)
    key = TextKey(tuple(place), lookup[codes])
    if not column.missing and (key.codes == MISSING).any():
        raise DataError(f"column {column.name!r} has missing cells and its schema allows none")
    return key


def _encode_floats(X: NDArray[Any], schema: Schema, strict: bool) -> Columns | None:
    """All columns of a wide table at once; None where one column has something to be said."""
    columns = schema.features
    if X.shape[1] != len(columns) or any(
            c.kind != "numeric" or c.missing_value_marker is not None for c in columns):
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
        if strict and any(column.outside == "refuse" or column.integer for column in columns[some]):
            return None
        np.clip(part, lower[some], upper[some], out=part)
    return Columns(schema, tuple(table), len(X))


def _split(X: Any, schema: Schema) -> list[Any]:
    names = [column.name for column in schema.features]
    if hasattr(type(X), "batches") or streamed(X) is not None:
        raise DataError("the table is not in memory. A ledger reads it in batches when it is "
                        "protected. To predict, pass part of its rows at a time")
    check_is_table(X, "the table")
    arrow = arrow_columns(X, names)
    X = X if arrow is None else arrow
    if isinstance(X, np.ma.MaskedArray):
        X = plain_cells(X)
    if hasattr(X, "columns") or isinstance(X, Mapping):
        held = set(X.columns) if hasattr(X, "columns") else set(X)
        missing = [name for name in names if name not in held]
        if not missing:
            return [X[name] for name in names]
        if not hasattr(X, "to_numpy") or X.shape[1] != len(names) or schema.array_layout is False:
            raise DataError(missing_columns(missing, held))
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
    if arrow_of(values) is None and not _is_flat(values):
        raise DataError(f"column {column.name!r} must be one column of single cells")
    if column.kind == "categorical":
        positions = {label_key(category): place for place, category in enumerate(column.categories)}
        several, codes = levels(values, column)
        lookup = np.full(len(several) + 1, MISSING, dtype=np.int32)
        for place, level in enumerate(several):
            lookup[place] = (MISSING if stands_for_none(level, column)
                             else positions.get(label_key(level), -2))
        result: NDArray[np.int32] = lookup[codes]
        if strict and (result == -2).any():
            raise DataError(f"column {column.name!r} has a category that its schema does not list: "
                            "list it there if it is public, or mend the table")
        result[result == -2] = MISSING
        if strict and not column.missing and (result == MISSING).any():
            raise DataError(f"column {column.name!r} has missing cells and its schema allows none")
        return result
    return _encode_numbers(raw_numbers(values, column), column, strict)


def _encode_numbers(array: NDArray[np.float64], column: Column,
                    strict: bool) -> NDArray[np.float64]:
    """Numbers within the bounds. Never in an array that is looked into and not owned: that may be
    changed by its owner."""
    # NaN and infinity both come out of a minimum or a maximum: one look for the usual column.
    tame = bool(array.size) and np.isfinite(array.min()) and np.isfinite(array.max())
    if not tame:
        if not strict:
            array = np.where(np.isinf(array), np.where(array > 0, column.upper, column.lower),
                             array)
        if np.isinf(array).any():
            raise DataError(f"column {column.name!r} contains infinity")
        if strict and not column.missing and np.isnan(array).any():
            raise DataError(f"column {column.name!r} contains NaN (missing cells) and its schema "
                            "allows none")
    if strict and column.integer and (np.floor(array) != array)[~np.isnan(array)].any():
        raise DataError(f"column {column.name!r} has a value that is not whole, and its schema "
                        "says integer")
    if strict and column.outside == "refuse" and (
            (array < column.lower).any() or (array > column.upper).any()):
        raise DataError(f"column {column.name!r} has a value outside its public bounds")
    return np.clip(array, column.lower, column.upper, out=array if array.flags.owndata else None)


def _is_flat(values: Any) -> bool:
    """One dimension, and no lists inside the cells."""
    if isinstance(values, Text):
        return True
    try:
        if np.ndim(values) != 1:
            return False
    except ValueError:  # rows of different lengths
        return False
    if getattr(values, "dtype", None) != np.dtype(object):
        return True
    return not any(issubclass(kind, list | tuple | dict | set | np.ndarray)
                   for kind in set(map(type, values)))


def encode_target(y: Any, schema: Schema, *, unlabelled: bool = False) -> NDArray[Any]:
    """The target: float64 clipped to its bounds, or int32 class positions.

    Args:
        unlabelled: allow missing cells: NaN, or position -1.
    """
    column = evolve(schema.target, missing=True) if unlabelled else schema.target
    if isinstance(y, Text) or arrow_of(y) is not None:
        return _labels(y, column, unlabelled)
    check_is_table(y, "the target")
    array = plain_cells(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError("the target must be one column")
    return _labels(array, column, unlabelled)


def _labels(values: object, column: Column, unlabelled: bool) -> NDArray[Any]:
    codes = encode_column(values, column)
    if not unlabelled and not has_label(codes).all():
        raise DataError(f"the target column {column.name!r} has missing cells "
                        "(Input y contains NaN)")
    return codes
