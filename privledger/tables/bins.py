"""Public bins of every feature."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, SchemaError
from privledger.rounding import count
from privledger.tables.columns import MISSING, Columns
from privledger.tables.schema import Column, Schema
from privledger.tables.values import fixed

STRANGE = "the tree's bins belong to other columns than the data's"


class Stack:
    """Name of a table's stacked codes, or of their orders, in the guard's cache."""


def _to_cuts(given: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    cuts = tuple(tuple(int(count("cut", one)) for one in each) for each in given)
    if any(not a < b for each in cuts for a, b in itertools.pairwise(each)):
        raise InvalidValue("cuts", "given", "rising")
    return cuts


@frozen(eq=False)
class Bins:
    """Equal-width bins over public bounds; one bin per category; one more bin for missing.

    A whole-number feature with a range of at most `numeric_bins` values gets one bin per value.
    A numeric feature with cuts gets the bins between them instead: each starts at a border of a
    public grid of equal widths. Cuts are public, or were released.

    Attributes:
        schema: whose features are binned.
        numeric_bins: most bins a numeric feature gets, 1 to 65534.
        cuts: for each feature the cells of the grid at which its next bin starts, rising, from 1
            to grid - 1; empty for features without. Empty for no feature at all.
        grid: cells of the grid, 2 to 65534.
    """

    schema: Schema
    numeric_bins: int = 1024
    cuts: tuple[tuple[int, ...], ...] = field(default=(), converter=_to_cuts)
    grid: int = 1024
    stack: object = field(factory=Stack, init=False, repr=False)
    orders: object = field(factory=Stack, init=False, repr=False)
    _sizes: tuple[int, ...] = field(init=False, repr=False, default=())
    _unordered: NDArray[np.bool_] = field(init=False, repr=False)
    _starts: NDArray[np.int64] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if count("numeric_bins", self.numeric_bins) > 65534:
            raise InvalidValue("numeric_bins", self.numeric_bins, "at most 65534")
        self._check_cuts()
        object.__setattr__(self, "_sizes", tuple(
            (len(self.edges(place)) - 1 if column.kind == "numeric" else len(column.categories)) + 1
            for place, column in enumerate(self.schema.features)))
        # Looked up at every level of every tree.
        unordered = [column.kind == "categorical" and not column.ordered
                     for column in self.schema.features]
        sizes = [len(column.categories) if held else 0
                 for column, held in zip(self.schema.features, unordered, strict=True)]
        object.__setattr__(self, "_unordered", fixed(np.array(unordered, dtype=np.bool_)))
        object.__setattr__(self, "_starts", fixed(
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])))

    def _check_cuts(self) -> None:
        if count("grid", self.grid, least=2) > 65534:
            raise InvalidValue("grid", self.grid, "at most 65534")
        if len(self.cuts) not in (0, len(self.schema.features)):
            raise InvalidValue("cuts", len(self.cuts), "one list for each feature, or none at all")
        for column, cuts in zip(self.schema.features, self.cuts, strict=False):
            if cuts and (column.kind != "numeric" or not cuts[-1] < self.grid):
                raise InvalidValue("cuts", "given", "cells of the grid, of numeric features")

    def _cuts(self, feature: int) -> tuple[int, ...]:
        return self.cuts[feature] if self.cuts else ()

    def check(self, schema: Schema) -> None:
        """Raise `SchemaError` unless these are bins of the schema's own columns."""
        if self.schema is not schema and not set(self.schema.features) <= set(schema.features):
            raise SchemaError(STRANGE)

    def sizes(self) -> tuple[int, ...]:
        """Bins of each feature, the missing bin included as the last."""
        return self._sizes

    def unordered(self) -> NDArray[np.bool_]:
        """Which features have categories without an order, shape (features,)."""
        return self._unordered

    def category_starts(self) -> NDArray[np.int64]:
        """Where each feature's unordered categories begin among all of them,
        shape (features + 1,)."""
        return self._starts

    def edges(self, feature: int) -> NDArray[np.float64]:
        """Borders of a numeric feature's bins, shape (bins + 1,)."""
        column, cuts = self.schema.features[feature], self._cuts(feature)
        if cuts:
            inner = column.lower + (column.upper - column.lower) * (np.array(cuts) / self.grid)
            return np.concatenate([[column.lower], inner, [column.upper]])
        lower, upper, bins = self._layout(column)
        return np.linspace(lower, upper, bins + 1)

    def _layout(self, column: Column) -> tuple[float, float, int]:
        """First border, last border, number of bins."""
        whole = float(column.lower).is_integer() and float(column.upper).is_integer()
        if column.integer and whole and column.upper - column.lower < self.numeric_bins:
            return column.lower - 0.5, column.upper + 0.5, int(column.upper - column.lower) + 1
        return column.lower, column.upper, self.numeric_bins

    def codes(self, columns: Columns) -> tuple[NDArray[Any], ...]:
        """Bin number of every record, one array per feature, each of shape (n_records,)."""
        result = []
        held = {column.name: place for place, column in enumerate(columns.schema.features)}
        for place, (column, size) in enumerate(zip(
                self.schema.features, self.sizes(), strict=True)):
            array, cuts = columns.arrays[held[column.name]], self._cuts(place)
            if column.kind == "categorical":
                codes = np.where(array == MISSING, size - 1, array)
            elif cuts:
                cells = _equal(array, column.lower, column.upper, self.grid)
                codes = _bin_of_cell(cuts, self.grid).take(cells)
            else:
                codes = _equal(array, *self._layout(column))
            result.append(codes.astype(np.uint16 if size > 256 else np.uint8))
        return tuple(result)


def _equal(array: NDArray[Any], lower: float, upper: float, bins: int) -> NDArray[Any]:
    """Which of so many equal parts each value lies in; one more where it is missing."""
    scaled = (array - lower) * (bins / (upper - lower))
    absent = np.isnan(scaled)
    clipped = np.clip(scaled, 0, bins - 1)
    if absent.any():
        clipped[absent] = bins
    return clipped.astype(np.int32)


def _bin_of_cell(cuts: tuple[int, ...], grid: int) -> NDArray[Any]:
    """The bin that each cell of the grid lies in, and behind them that of missing."""
    found = np.searchsorted(np.array(cuts), np.arange(grid + 1), side="right")
    found[-1] = len(cuts) + 1
    return found.astype(np.uint16)
