"""A feature's value and the target as one whole number, on public grids: what order scores read.

A key has the value's step above and the target's below, so sorted keys stand in the order of the
feature. Steps follow from the schema alone, whatever the records and however they are divided.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.schema import Schema

Floats = NDArray[np.float64]
Keys = NDArray[np.uint32]

GAP = 0xFFFFFFFF
"""In the place of a missing value's key: above all of them."""
WHOLE_WEIGHT = 1 << 10
"""What a record of a class counts is in whole parts of it."""
FEW_TARGETS = 64
MOST_TARGETS = 1 << 10
FINE_BITS, COARSE_BITS = 16, 11


@frozen
class Grid:
    """Steps of features and of the target.

    Attributes:
        targets: how many targets are told apart; public.
    """

    targets: int

    @property
    def bits(self) -> int:
        """Of a key, that hold the target."""
        return max(1, (self.targets - 1).bit_length())

    @property
    def steps(self) -> int:
        """Of a feature's public range: 2^16, or 2^11 beside more than 64 targets."""
        return 1 << (FINE_BITS if self.targets <= FEW_TARGETS else COARSE_BITS)

    @property
    def size(self) -> int:
        """Keys that there may be: 2^22 at most."""
        return self.steps << self.bits

    def keys(self, scaled: Floats, targets: Keys) -> Keys:
        """Keys of features whose values were mapped to [0, steps], NaN where missing.

        Args:
            scaled: (features, n_records); overwritten. targets: (n_records,).
        """
        np.clip(scaled, 0.0, self.steps - 1, out=scaled)
        with np.errstate(invalid="ignore"):  # gaps are set by the caller
            found = scaled.astype(np.int32).view(np.uint32)
        found <<= np.uint32(self.bits)
        found |= targets
        return found


def grid_of(schema: Schema) -> Grid:
    """One step per class, as far as there are 2^10; a number has as many."""
    target = schema.target
    return Grid(min(len(target.categories), MOST_TARGETS) if target.kind == "categorical"
                else MOST_TARGETS)


def target_steps(target: NDArray[Any], schema: Schema, grid: Grid) -> Keys:
    """The target's step: of a class its place in the list, of a number that of its public range.

    More classes than steps share them in their order. A missing number counts as the lowest.

    Returns:
        Shape (n_records,), below `grid.targets`.
    """
    column = schema.target
    if column.kind == "categorical":
        places, classes = target.astype(np.int64), len(column.categories)
        if classes > grid.targets:
            places = places * grid.targets // classes
        return places.astype(np.uint32)
    scaled = np.clip((target - column.lower) / (column.upper - column.lower), 0.0, 1.0)
    return np.rint(np.nan_to_num(scaled, nan=0.0) * (grid.targets - 1)).astype(np.uint32)
