"""Partitions of the table by public predicates or by private coins."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import MISSING, has_label
from privledger.facts.plain import fixed
from privledger.questions.blocks import target_of
from privledger.rounding import MOST_COUNT, number, whole_numbers
from privledger.rounding import count as whole
from privledger.tables.chunk import Rows


class Cells(Protocol):
    """A partition: every record lies in exactly one of `count` cells."""

    @property
    def count(self) -> int:
        """How many cells there are, empty ones too: a public number."""

    def index(self, rows: Rows) -> NDArray[Any]:
        """Cell of every record, shape (n_records,), inside the guard."""


def to_edges(value: Any) -> tuple[float, ...]:
    """Numbers only: `float` alone would also take "1", True and anything that has a float."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidValue("edges", type(value).__name__, "a sequence of numbers")
    return tuple(number("edges", edge) for edge in value)


def check_edges(edges: tuple[float, ...]) -> None:
    """Refuse edges that are not finite and increasing, by name."""
    if not edges or not all(np.isfinite(edges)) or any(
            not a < b for a, b in itertools.pairwise(edges)):
        raise InvalidValue("edges", edges, "finite and increasing")


@frozen(eq=False)
class CategoryCells:
    """One cell per category of a column ("" is the target), and a last one for missing."""

    name: str
    count: int

    def __attrs_post_init__(self) -> None:
        whole("CategoryCells count", self.count, most=MOST_COUNT)

    def index(self, rows: Rows) -> NDArray[Any]:
        """The category's place of each record, shape (n,); a missing one is the last cell."""
        if not self.name:
            return target_of(rows)
        codes = rows.features.arrays[rows.features.schema.feature_index(self.name)]
        return np.where(codes == MISSING, self.count - 1, codes)

    def check(self, expected: int) -> None:
        """Raise `InvalidValue` unless there are as many cells as the schema says."""
        if self.count != expected or expected < 2:
            raise InvalidValue("CategoryCells count", self.count, f"{expected} for this column")


@frozen(eq=False)
class IntervalCells:
    """Cells between public edges of a numeric column ("" is the target); a last one if missing."""

    name: str
    edges: tuple[float, ...] = field(converter=to_edges)

    def __attrs_post_init__(self) -> None:
        check_edges(self.edges)

    @property
    def count(self) -> int:
        """One more than the edges, and one for missing values."""
        return len(self.edges) + 2

    def index(self, rows: Rows) -> NDArray[Any]:
        """The interval of each record, shape (n,), closed on the left; missing is the last cell."""
        schema = rows.features.schema
        column = (rows.features.arrays[schema.feature_index(self.name)] if self.name
                  else target_of(rows))
        cells = np.searchsorted(self.edges, column, side="right")
        cells[np.isnan(column)] = self.count - 1
        return cells


@frozen(eq=False)
class LabelledCells:
    """Cell 0: records without a label. Cell 1: records with one."""

    count: int = field(default=2, init=False)

    def index(self, rows: Rows) -> NDArray[Any]:
        """1 for each record with a label, else 0, shape (n,)."""
        return has_label(target_of(rows)).astype(np.int64)


def _places(value: Any) -> NDArray[np.int64]:
    places = whole_numbers("IndexCells places", value)
    if not len(places):
        raise InvalidValue("IndexCells places", "none", "one cell number per row")
    return fixed(places)


@frozen(eq=False)
class IndexCells:
    """Parts by position: record i, in the order given to `protect`, lies in cell `places[i]`.

    For relations under which the number of rows is public: `replace_one`, `replace_label`.

    Attributes:
        places: public cell numbers, shape (n_records,); kept as a copy that nobody can change.
        count: how many cells there are, empty ones included.
    """

    places: NDArray[np.int64] = field(converter=_places, repr=False)
    count: int

    def __attrs_post_init__(self) -> None:
        if not int(self.places.max()) < whole("IndexCells count", self.count,
                                                     most=MOST_COUNT):
            raise InvalidValue("IndexCells count", self.count, "above every cell number")

    def index(self, rows: Rows) -> NDArray[Any]:
        """The cells by position, as they were given, shape (n,)."""
        return self.places


@frozen(eq=False)
class CoinCells:
    """Each record lands in one of `count` parts by its own private coin, drawn once.

    Attributes:
        weights: of the parts, whole numbers; empty if all parts are as likely.
    """

    count: int
    weights: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.weights and (len(self.weights) != self.count or type(self.weights) is not tuple):
            raise InvalidValue("CoinCells weights", len(self.weights), "one for each part")
        for weight in self.weights:
            whole("CoinCells weight", weight, most=MOST_COUNT)

    def index(self, rows: Rows) -> NDArray[Any]:
        """A private coin for each record, shape (n,), drawn once and then the same."""
        coins = rows.cache.get(self)
        if coins is None:
            # Modulo bias is the same for every record and known to nobody: still i.i.d. coins.
            words = rows.source.integers64(rows.n) % np.uint64(sum(self.weights) or self.count)
            if self.weights:
                ends = np.cumsum(np.array(self.weights, dtype=np.uint64))
                words = np.searchsorted(ends, words, side="right")
            coins = rows.cache[self] = words.astype(np.int64)
        return coins  # type: ignore[no-any-return]


@frozen(eq=False)
class CrossCells:
    """Every cell of `first` divided by `second`: cell number first * second.count + second."""

    first: Cells
    second: Cells

    @property
    def count(self) -> int:
        """Every cell of the first with every cell of the second."""
        return self.first.count * self.second.count

    def index(self, rows: Rows) -> NDArray[Any]:
        """first * second.count + second of each record, shape (n,)."""
        outer = np.asarray(self.first.index(rows), dtype=np.int64)
        inner = np.asarray(self.second.index(rows), dtype=np.int64)
        return outer * self.second.count + inner
