"""Features and target of a table as numbers, by the schema alone. Inside the guard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.facts.columns import MISSING
from privledger.facts.schema import Schema
from privledger.questions.blocks import target_of
from privledger.tables.chunk import Rows

Floats = NDArray[np.float64]
Codes = NDArray[Any]

_CELLS = 1 << 17  # of a chunk: temporaries stay in the processor's cache


def _held(schema: Schema, rows: Rows) -> list[Codes]:
    """The handle's columns, in its order."""
    whole = rows.features
    if schema.features == whole.schema.features:
        return list(whole.arrays)
    held = {column.name: array for column, array in zip(whole.schema.features, whole.arrays,
                                                        strict=True)}
    return [held[column.name] for column in schema.features]


def columns_of(schema: Schema, rows: Rows) -> Iterator[tuple[slice, Floats]]:
    """Runs of features as fresh float64 tables, (features, n_records), NaN where missing."""
    arrays = _held(schema, rows)
    width = max(1, _CELLS // max(rows.n, 1))
    for first in range(0, len(arrays), width):
        part = arrays[first : first + width]
        table = np.empty((len(part), rows.n))
        for place, array in enumerate(part):
            table[place] = array
            if array.dtype.kind == "i":
                table[place, array == MISSING] = np.nan
        yield slice(first, first + len(part)), table


def matrix_of_features(schema: Schema, rows: Rows) -> Floats:
    """Every feature on [-1, 1] by its public bounds, NaN where missing: (features, n)."""
    middle, half = bounds_of(schema)
    result = np.empty((len(middle), rows.n))
    for part, table in columns_of(schema, rows):
        result[part] = (table - middle[part, None]) / half[part, None]
    return result


def bounds_of(schema: Schema, part: slice = slice(None)) -> tuple[Floats, Floats]:
    """Middle and half width of each feature's public range."""
    ends = np.array([(c.lower, c.upper) if c.kind == "numeric"
                     else (0.0, float(max(1, len(c.categories) - 1)))
                     for c in schema.features[part]])
    return ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2


def on_grid(table: Floats, middle: Floats, half: Floats, steps: int) -> None:
    """Map features to [-1, 1] and cut to whole steps towards zero, in place; missing ones to 0."""
    table -= middle[:, None]
    table /= half[:, None]
    np.nan_to_num(table, copy=False, nan=0.0)
    np.clip(table, -1.0, 1.0, out=table)
    table *= steps
    np.trunc(table, out=table)


def target_numbers(rows: Rows) -> Floats:
    """The target on [-1, 1]: by its public bounds, or its class's place in the list."""
    target, column = target_of(rows), rows.features.schema.target
    low, high = ((column.lower, column.upper) if column.kind == "numeric"
                 else (0.0, float(max(1, len(column.categories) - 1))))
    scaled = (target.astype(np.float64) - low) / (high - low) * 2 - 1
    return np.nan_to_num(np.clip(scaled, -1.0, 1.0), nan=0.0)
