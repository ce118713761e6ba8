"""Partitions of the table by public predicates or by private coins."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.data.blocks import target_of
from privledger.data.rows import Rows
from privledger.data.score import Score, _linked
from privledger.data.table import MISSING
from privledger.errors import InvalidValue


class Cells(Protocol):
    """A partition: every record lies in exactly one of `count` cells."""

    @property
    def count(self) -> int: ...

    def index(self, rows: Rows) -> NDArray[Any]:
        """Cell of every record, shape (n_records,), inside the guard."""


def _edges(value: Any) -> tuple[float, ...]:
    return tuple(float(edge) for edge in value)


def _check_edges(edges: tuple[float, ...]) -> None:
    if not edges or not all(np.isfinite(edges)) or any(
            not a < b for a, b in itertools.pairwise(edges)):
        raise InvalidValue("edges", edges, "finite and increasing")


@frozen(eq=False)
class CategoryCells:
    """One cell per category of a column ("" is the target), and a last one for missing."""

    name: str
    count: int

    def index(self, rows: Rows) -> NDArray[Any]:
        schema = rows.features.schema
        if not self.name:
            self._check(len(schema.target.categories))
            return target_of(rows)
        place = schema.feature_index(self.name)
        self._check(len(schema.features[place].categories) + 1)
        codes = rows.features.arrays[place]
        return np.where(codes == MISSING, self.count - 1, codes)

    def _check(self, expected: int) -> None:
        # By the schema, not by the records: otherwise the answer's shape would tell about them.
        if self.count != expected or expected < 2:
            raise InvalidValue("CategoryCells count", self.count, f"{expected} for this column")


@frozen(eq=False)
class IntervalCells:
    """Cells between public edges of a numeric column ("" is the target); a last one if missing."""

    name: str
    edges: tuple[float, ...] = field(converter=_edges)

    def __attrs_post_init__(self) -> None:
        _check_edges(self.edges)

    @property
    def count(self) -> int:
        return len(self.edges) + 2

    def index(self, rows: Rows) -> NDArray[Any]:
        schema = rows.features.schema
        column = (rows.features.arrays[schema.feature_index(self.name)] if self.name
                  else target_of(rows))
        cells = np.searchsorted(self.edges, column, side="right")
        cells[np.isnan(column)] = self.count - 1
        return cells


@frozen(eq=False)
class ResidualCells:
    """Cells between public edges of |target - mean| under a score."""

    score: Score
    edges: tuple[float, ...] = field(converter=_edges)

    def __attrs_post_init__(self) -> None:
        _check_edges(self.edges)

    @property
    def count(self) -> int:
        return len(self.edges) + 1

    def index(self, rows: Rows) -> NDArray[Any]:
        target, mean = _linked(self.score, rows)
        size = np.abs(target - mean)
        if size.ndim == 2:
            size = np.sqrt(np.square(size).sum(axis=1))
        return np.searchsorted(self.edges, size, side="right")


@frozen(eq=False)
class CoinCells:
    """Each record lands in one of `count` parts by its own private coin, drawn once."""

    count: int
    draw: Any = field(repr=False)

    def index(self, rows: Rows) -> NDArray[Any]:
        found = rows.cache.get(self)
        if found is None:
            found = rows.cache[self] = self.draw(self.count, rows.n)
        return found  # type: ignore[no-any-return]
