"""A whole row as one vector, or the products of its entries, clipped as one: means, covariances,
and what a linear regression needs. Nothing about it is asserted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations_with_replacement

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.schema import Column
from privledger.facts.values import Json, items, text
from privledger.questions.blocks import target_of
from privledger.rounding import moderate, number
from privledger.tables.chunk import Rows

MOST_ENTRIES = 1 << 11
"""Numbers that one record contributes, at most: the clip is right to 2^-40 up to there."""
KINDS = ("values", "products")


def _names(value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    if not names or len(set(names)) < len(names) or not all(type(one) is str for one in names):
        raise InvalidValue("names", type(value).__name__, "a list of distinct columns")
    return names


@frozen(eq=False)
class RowValues:
    """Numeric columns of a row, each scaled to [-1, 1] by its public bounds; missing counts zero.

    With `kind` "products" the vector is that of all products of two of (1, columns), each pair
    once: 1, the columns, then their squares and products, in rows of the upper triangle. Its sum
    is all that a mean, a covariance or a least-squares fit takes from the table.

    Attributes:
        names: numeric features, or "" for the target, distinct.
        clip: largest norm of one record's vector (L2 under Gaussian noise, L1 under Laplace
            noise); a longer one is shortened as a whole. `longest` of it never bites in L2.
        kind: `values` or `products`.
    """

    names: tuple[str, ...] = field(converter=_names)
    clip: float
    kind: str = "values"
    signed: bool = field(default=True, init=False)
    asserted: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if self.kind not in KINDS:
            raise InvalidValue("kind", self.kind, "values or products")
        if self.width > MOST_ENTRIES:
            raise InvalidValue("names", len(self.names), f"at most {MOST_ENTRIES} numbers a row")

    @property
    def width(self) -> int:
        """Numbers per record."""
        many = len(self.names)
        return many if self.kind == "values" else (many + 1) * (many + 2) // 2

    @property
    def reads_target(self) -> bool:
        """Whether the target is among the columns."""
        return "" in self.names

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the columns are numeric."""
        for name in self.names:
            facts.column(name, "numeric")

    def own(self, to: Copier) -> RowValues:
        return RowValues(self.names, self.clip, self.kind)

    def to_wire(self, to: Describer) -> Json:
        return {"names": list(self.names), "clip": float(self.clip), "kind": str(self.kind)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> RowValues:
        return cls(items(wire, "names", MOST_ENTRIES), number("clip", wire.get("clip")),
                   text(wire, "kind", 20))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Every record's vector, shape (n, width), or (n,) for one column."""
        columns = [_scaled(name, rows) for name in self.names]
        if self.kind == "products":
            columns.insert(0, np.ones(rows.n))
            columns = [a * b for a, b in combinations_with_replacement(columns, 2)]
        if len(columns) == 1:
            return columns[0]
        return np.stack(columns).T


def longest(names: int, kind: str = "values") -> float:
    """No vector of so many columns is longer in L2: every entry lies in [-1, 1]."""
    return math.sqrt(names if kind == "values" else (names + 1) * (names + 2) // 2)


def _scaled(name: str, rows: Rows) -> NDArray[np.float64]:
    schema = rows.features.schema
    if name:
        place = schema.feature_index(name)
        column, held = schema.features[place], rows.features.arrays[place]
    else:
        column, held = schema.target, target_of(rows)
    middle, half = middle_of(column)
    found: NDArray[np.float64] = (held - middle) / half
    np.clip(found, -1.0, 1.0, out=found)
    return np.nan_to_num(found, copy=False, nan=0.0)


def middle_of(column: Column) -> tuple[float, float]:
    """Middle and half-range of a numeric column, by its public bounds."""
    return column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
