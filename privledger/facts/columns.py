"""Columns that fit a schema, in the layout that everything inside the guard reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.schema import Schema

MISSING = -1


@frozen(eq=False)
class Columns:
    """Encoded features, one array per feature of the schema.

    Attributes:
        arrays: float64 clipped to the bounds with NaN for missing (numeric), or int32 category
            positions with -1 for missing (categorical); each of shape (n_records,).
    """

    schema: Schema
    arrays: Sequence[NDArray[Any]]
    n_rows: int

    def __repr__(self) -> str:
        return f"Columns({len(self.arrays)} features)"


def has_label(target: NDArray[Any]) -> NDArray[np.bool_]:
    """Which records of an encoded target have a label, shape (n_records,)."""
    found: NDArray[np.bool_] = (~np.isnan(target) if target.dtype.kind == "f"
                                else target != MISSING)
    return found
