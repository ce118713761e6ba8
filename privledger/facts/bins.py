"""Public bins of every feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, SchemaError
from privledger.facts.carriers import Copier, Describer, Reader
from privledger.facts.columns import MISSING, Columns
from privledger.facts.schema import Column, Schema
from privledger.facts.values import Json, items
from privledger.rounding import count

_STRANGE = "the tree's bins are for other columns than the data's"


class Stack:
    """Name of a table's stacked codes, or of their orders, in the guard's cache."""


@frozen(eq=False)
class Bins:
    """Equal-width bins over public bounds; one bin per category; one more bin for missing.

    A whole-number feature with a range of at most `numeric_bins` values gets one bin per value.

    Attributes:
        schema: whose features are binned.
        numeric_bins: most bins a numeric feature gets, 1 to 65534.
    """

    schema: Schema
    numeric_bins: int = 1024
    stack: object = field(factory=Stack, init=False, repr=False)
    orders: object = field(factory=Stack, init=False, repr=False)
    _sizes: tuple[int, ...] = field(init=False, repr=False, default=())

    def __attrs_post_init__(self) -> None:
        if count("numeric_bins", self.numeric_bins) > 65534:
            raise InvalidValue("numeric_bins", self.numeric_bins, "at most 65534")
        object.__setattr__(self, "_sizes", tuple(
            (self._layout(column)[2] if column.kind == "numeric" else len(column.categories)) + 1
            for column in self.schema.features))

    def check(self, schema: Schema) -> None:
        """Raise `SchemaError` unless these are bins of the schema's own columns."""
        if self.schema is not schema and not set(self.schema.features) <= set(schema.features):
            raise SchemaError(_STRANGE)

    def own(self, to: Copier) -> Bins:
        """The guard's copy."""
        return Bins(to.shared(self.schema, Schema), self.numeric_bins)

    def to_wire(self, to: Describer) -> Json:
        """Its features by name, and how finely they are cut."""
        self.check(to.schema)
        return {"features": [column.name for column in self.schema.features],
                "numeric_bins": self.numeric_bins}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> Bins:
        """The inverse of `to_wire`, on the columns of this side."""
        known = {column.name: column for column in reader.schema.features}
        names = [str(name) for name in items(wire, "features")]
        if not set(names) <= set(known):
            raise SchemaError(_STRANGE)
        return cls(Schema(reader.schema.name, tuple(known[name] for name in names)),
                   count("numeric_bins", wire.get("numeric_bins")))

    def sizes(self) -> tuple[int, ...]:
        """Bins of each feature, the missing bin included as the last."""
        return self._sizes

    def edges(self, feature: int) -> NDArray[np.float64]:
        """Borders of a numeric feature's bins, shape (bins + 1,)."""
        lower, upper, bins = self._layout(self.schema.features[feature])
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
        held = {c.name: a for c, a in zip(columns.schema.features, columns.arrays, strict=True)}
        for column, size in zip(self.schema.features, self.sizes(), strict=True):
            array = held[column.name]
            if column.kind == "categorical":
                codes = np.where(array == MISSING, size - 1, array)
            else:
                codes = self._numeric(array, column)
            result.append(codes.astype(np.uint16 if size > 256 else np.uint8))
        return tuple(result)

    def _numeric(self, array: NDArray[Any], column: Column) -> NDArray[Any]:
        lower, upper, bins = self._layout(column)
        scaled = (array - lower) * (bins / (upper - lower))
        absent = np.isnan(scaled)
        clipped = np.clip(scaled, 0, bins - 1)
        if absent.any():
            clipped[absent] = bins
        return clipped.astype(np.int32)
