"""Public features as one table of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbers(columns: Any, *, one_hot: bool) -> np.ndarray:
    """Features of every record, shape (n, columns); missing cells lie below all others.

    Args:
        columns: encoded features. one_hot: numbers scaled to [0, 1] by their public bounds and
            a column per category, as linear models need; else categories by position.
    """
    parts = []
    for column, array in zip(columns.schema.features, columns.arrays, strict=True):
        values = np.asarray(array, dtype=float)
        if column.kind == "numeric":
            scaled = (values - column.lower) / (column.upper - column.lower)
            parts.append(np.nan_to_num(scaled, nan=-1.0)[:, None])
        elif one_hot:
            parts.append((values[:, None] == np.arange(len(column.categories))).astype(float))
        else:
            parts.append(values[:, None])
    return np.concatenate(parts, axis=1)
