"""Partitions of the table by public predicates or by private coins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, SchemaError, UnsupportedNode
from privledger.questions.blocks import column_names, numbers_of, scaled_column, target_of
from privledger.rounding import MOST_COUNT, finite_array, number, whole_numbers
from privledger.rounding import count as limited
from privledger.tables.chunk import Rows
from privledger.tables.columns import MISSING, TableFacts, has_label
from privledger.tables.values import fixed, refuse


class Cells:
    """A partition: every record lies in exactly one of `count` cells. What a kind does not say is:
    a cell may change with the record's label, and with what stands beside it, or with coins."""

    __slots__ = ()

    @property
    def count(self) -> int:
        """How many cells there are, empty ones too: a public number."""
        raise NotImplementedError

    @property
    def below(self) -> tuple[Any, ...]:
        """Cells, or the running score, that it is made of."""
        return ()

    @property
    def by_record(self) -> bool:
        """Whether a cell follows from the record alone, wherever it stands and whatever is beside
        it: then a part may be read as a table of its own."""
        return False

    @property
    def has_coins(self) -> bool:
        """Whether private coins decide: who drew which is not known on the public side."""
        return not self.by_record

    @property
    def reads_label(self) -> bool:
        """Whether a record's cell may change with its label."""
        return True

    def certificate(self, public_features: bool) -> str:
        """Why the parts are disjoint, for the ledger: a public predicate; `index` where what it
        reads is public for every record, as neighbours have the same records in each part then."""
        return "index" if public_features and not self.reads_label else "public_predicate"

    def index(self, rows: Rows) -> NDArray[Any]:
        """Cell of every record, shape (n_records,), inside the guard."""
        raise NotImplementedError

    def check(self, facts: TableFacts) -> None:
        """Raise unless it fits. Decided by the schema, never by records: an error, or a shape,
        that only some records cause would be a release without noise."""
        raise NotImplementedError


def depends_on_label(cells: Cells | None) -> bool:
    """Whether a record's cell may change with its label; no for None.

    Whether a record has a label at all is public where only labels are protected.
    """
    return cells is not None and cells.reads_label


def follows_records(cells: Cells | None) -> bool:
    """Whether a part may be read as a table of its own."""
    return cells is None or cells.by_record


def check_by_record(cells: Cells, facts: TableFacts) -> None:
    """Raise unless every record knows its cell by itself, and the cells fit the table."""
    if not cells.by_record:
        refuse(cells)
    cells.check(facts)


def to_edges(value: Any) -> tuple[float, ...]:
    """Numbers only: `float` alone would also take "1", True and anything that has a float."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidValue("edges", type(value).__name__, "a sequence of numbers")
    return tuple(number("edges", edge) for edge in value)


def check_edges(edges: tuple[float, ...]) -> None:
    """Raise `InvalidValue` unless there are edges, finite and strictly rising."""
    if not edges or not all(np.isfinite(edges)) or any(
            not a < b for a, b in itertools.pairwise(edges)):
        raise InvalidValue("edges", edges, "finite and increasing")


@frozen(eq=False)
class CategoryCells(Cells):
    """One cell per category of a column ("" is the target), and a last one for missing."""

    name: str
    count: int
    by_record = True

    def __attrs_post_init__(self) -> None:
        limited("CategoryCells count", self.count, most=MOST_COUNT)

    @property
    def reads_label(self) -> bool:
        """Only the target's own cells."""
        return not self.name

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: as many cells as the schema has categories, and missing ones."""
        column = facts.column(self.name, "categorical")
        expected = len(column.categories) + (1 if self.name else 0)
        if expected < 2:
            raise SchemaError(f"column {column.name!r} has one category: there is nothing to count "
                              "separately")
        if self.count != expected:
            raise InvalidValue("CategoryCells count", self.count, f"{expected} for this column")

    def index(self, rows: Rows) -> NDArray[Any]:
        codes = numbers_of(self.name, rows)
        return codes if not self.name else np.where(codes == MISSING, self.count - 1, codes)


@frozen(eq=False)
class IntervalCells(Cells):
    """Cells between public edges of a numeric column ("" is the target); a last one if missing."""

    name: str
    edges: tuple[float, ...] = field(converter=to_edges)
    by_record = True

    def __attrs_post_init__(self) -> None:
        check_edges(self.edges)

    @property
    def count(self) -> int:
        """Below, between and above the edges, and a last one for missing."""
        return len(self.edges) + 2

    @property
    def reads_label(self) -> bool:
        """Only the target's own cells."""
        return not self.name

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the column is numeric."""
        facts.column(self.name, "numeric")

    def index(self, rows: Rows) -> NDArray[Any]:
        column = numbers_of(self.name, rows)
        cells = np.searchsorted(self.edges, column, side="right")
        cells[np.isnan(column)] = self.count - 1
        return cells


def _names(value: object) -> tuple[str, ...]:
    """Texts as they are: a text alone would be taken letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValue("names", type(value).__name__, "a list of texts")
    return tuple(value)


@frozen(eq=False)
class NamedCells(Cells):
    """One cell per public or released name of a column of texts, and a last one for all others."""

    name: str
    names: tuple[str, ...] = field(converter=_names)
    by_record = True
    reads_label = False

    def __attrs_post_init__(self) -> None:
        limited("NamedCells count", self.count, most=MOST_COUNT)
        if any(type(one) is not str or not one for one in self.names) or (
                len(set(self.names)) < len(self.names)):
            raise InvalidValue("names", "others", "texts that are not empty, each once")

    @property
    def count(self) -> int:
        """A cell for each name, and one for what has another or none."""
        return len(self.names) + 1

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the column is a text, of a table in memory."""
        check_texts(self.name, facts)

    def index(self, rows: Rows) -> NDArray[np.int64]:
        key, last = rows.features.keys[self.name], len(self.names)
        place = {name: at for at, name in enumerate(self.names)}
        found = np.array([*(place.get(name, last) for name in key.names), last], dtype=np.int64)
        return np.asarray(found[key.codes])  # -1, for none, is the last


def check_texts(name: str, facts: TableFacts) -> None:
    """Raise unless the column holds texts, of a table in memory."""
    if name not in [column.name for column in facts.schema.keys]:
        raise SchemaError("no column of kind text has that name; nothing was read")
    if facts.chunked:
        raise UnsupportedNode("groups of texts are named of a table in memory; nothing was read")


def _centers(value: object) -> NDArray[np.float64]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidValue("centers", type(value).__name__, "a list of rows")
    rows = [finite_array("centers", list(row) if isinstance(row, Iterable) else row)
            for row in value]
    return fixed(rows if len({row.shape for row in rows}) == 1 else np.zeros(0))


@frozen(eq=False)
class NearestCells(Cells):
    """The nearest of public or released centres; of several the first.

    Attributes:
        names: numeric features, each scaled to [-1, 1] by its public bounds; missing counts zero.
        centers: on that scale, shape (cells, features); kept as a copy that cannot change.
    """

    names: tuple[str, ...] = field(converter=column_names)
    centers: NDArray[np.float64] = field(converter=_centers, repr=False)
    by_record = True
    reads_label = False

    def __attrs_post_init__(self) -> None:
        if self.centers.ndim != 2 or self.centers.shape[1] != len(self.names) or not (
                np.abs(self.centers) <= 1).all() or "" in self.names:
            raise InvalidValue("centers", self.centers.shape, "numbers in [-1, 1] of shape (cells, "
                               "features); the target is no feature")
        limited("NearestCells centers", len(self.centers), most=MOST_COUNT)

    @property
    def count(self) -> int:
        """One cell for each centre."""
        return len(self.centers)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the columns are numeric."""
        for name in self.names:
            facts.column(name, "numeric")

    def index(self, rows: Rows) -> NDArray[np.int64]:
        """As `Cells.index`: column by column, so the same on every machine, for every chunk."""
        columns = [scaled_column(name, rows) for name in self.names]
        nearest, found = np.full(rows.n, np.inf), np.zeros(rows.n, dtype=np.int64)
        for place, center in enumerate(self.centers):
            away = np.zeros(rows.n)
            for column, middle in zip(columns, center, strict=True):
                away += np.square(column - middle)
            nearer = away < nearest
            nearest[nearer], found[nearer] = away[nearer], place
        return found


@frozen(eq=False)
class LabelledCells(Cells):
    """Cell 0: records without a label. Cell 1: records with one."""

    count: int = field(default=2, init=False)
    reads_label = has_coins = False

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: records may lack a label."""
        if not facts.unlabelled:
            raise UnsupportedNode("every record has a label. To allow records without one, use "
                                  "protect(..., unlabelled=True). Nothing was read")

    def index(self, rows: Rows) -> NDArray[Any]:
        return has_label(target_of(rows)).astype(np.int64)


def _places(value: Any) -> NDArray[np.int64]:
    places = whole_numbers("IndexCells places", value)
    if not len(places):
        raise InvalidValue("IndexCells places", "none", "one cell number per row")
    return fixed(places)


@frozen(eq=False)
class IndexCells(Cells):
    """Parts by position: record i, in the order given to `protect`, lies in cell `places[i]`.

    For relations under which the number of rows is public: `replace_one`, `replace_label`. Under
    unit person and `replace_one` the number of people is: then everything of person i, in the
    order in which people first appear, lies in cell `places[i]`.

    Attributes:
        places: public cell numbers, shape (n_records,); kept as a copy that cannot change.
        count: how many cells there are, empty ones included.
    """

    places: NDArray[np.int64] = field(converter=_places, repr=False)
    count: int
    reads_label = has_coins = False

    def __attrs_post_init__(self) -> None:
        if not int(self.places.max()) < limited("IndexCells count", self.count,
                                               most=MOST_COUNT):
            raise InvalidValue("IndexCells count", self.count, "above every cell number")

    def certificate(self, public_features: bool) -> str:
        """As `Cells.certificate`: positions are public."""
        return "index"

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: positions mean something here, and there is one per row."""
        facts.check_positions(len(self.places))

    def index(self, rows: Rows) -> NDArray[Any]:
        """As `Cells.index`. Where the number of rows is not public, places are of people."""
        if rows.people is not None and len(self.places) != rows.whole.n:
            return self.places[rows.people]
        whole = rows.parent is None and rows.n == len(self.places)
        return self.places if whole else self.places[rows.positions()]


@frozen(eq=False)
class CoinCells(Cells):
    """Each record lands in one of `count` parts by its own private coin, drawn once.

    Attributes:
        weights: of the parts, whole numbers; empty if all parts are as likely.
    """

    count: int
    weights: tuple[int, ...] = ()
    reads_label = False

    def __attrs_post_init__(self) -> None:
        limited("CoinCells count", self.count, most=MOST_COUNT)
        if self.weights and (len(self.weights) != self.count or type(self.weights) is not tuple):
            raise InvalidValue("CoinCells weights", len(self.weights), "one for each part")
        for weight in self.weights:
            limited("CoinCells weight", weight, most=MOST_COUNT)

    def certificate(self, public_features: bool) -> str:
        """As `Cells.certificate`: every record's coin is its own."""
        return "iid_per_record"

    def check(self, facts: TableFacts) -> None:
        """Coins fall for every table."""

    def index(self, rows: Rows) -> NDArray[Any]:
        if rows.parent is not None:  # drawn once, for the whole table
            whole_table, members = rows.parent
            found: NDArray[np.int64] = self.index(whole_table)[members]
            return found
        coins = rows.cache.get(self)
        if coins is None:
            # Modulo bias is the same for every record and unknown to all: still i.i.d. coins.
            # Under unit person everything of a person follows one coin.
            coined = rows.n if rows.n_people is None else rows.n_people
            words = rows.coins(self).integers64(coined) % np.uint64(sum(self.weights) or self.count)
            parts = words.astype(np.int64)
            if self.weights:
                ends = np.cumsum(np.array(self.weights, dtype=np.uint64))
                parts = np.searchsorted(ends, words, side="right")
            coins = rows.cache[self] = parts if rows.people is None else parts[rows.people]
        return coins


# Cells of one partition divided by another.


@frozen(eq=False)
class CrossCells(Cells):
    """Every cell of `first` divided by `second`: cell number first * second.count + second."""

    first: Cells
    second: Cells

    @property
    def count(self) -> int:
        """Cells of both, multiplied."""
        return self.first.count * self.second.count

    @property
    def by_record(self) -> bool:
        """If both are."""
        return self.first.by_record and self.second.by_record

    @property
    def reads_label(self) -> bool:
        """If either does."""
        return depends_on_label(self.first) or depends_on_label(self.second)

    @property
    def has_coins(self) -> bool:
        """If either has."""
        return self.first.has_coins or self.second.has_coins

    @property
    def below(self) -> tuple[Cells, Cells]:
        """What may move on: cells of a running score."""
        return self.first, self.second

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: both fit. Cells of cells are crossed once."""
        for part in (self.first, self.second):
            if type(part) in (CrossCells, MappedCells):
                refuse(part)
        self.first.check(facts)
        self.second.check(facts)

    def index(self, rows: Rows) -> NDArray[Any]:
        outer = np.asarray(self.first.index(rows), dtype=np.int64)
        inner = np.asarray(self.second.index(rows), dtype=np.int64)
        return outer * self.second.count + inner


# Several columns at once, and public predicates of them: a table of what each combination is.


MOST_COMBINATIONS = 1 << 20
_COLUMNS = (CategoryCells, IntervalCells, NamedCells)


def _several(value: Iterable[Cells]) -> tuple[Cells, ...]:
    return tuple(value)


def _combinations(value: object) -> NDArray[np.int64]:
    return fixed(whole_numbers("MappedCells numbers", value))


@frozen(eq=False)
class MappedCells(Cells):
    """A cell for every combination of cells of `parts`, looked up in a public table.

    It says groups by several columns, coarser cells, and any predicate of a row that compares
    columns with public values. With `rest` the last cell holds the rows that are not asked about:
    a `Query` leaves them out, so its answer there is noise around zero.

    Attributes:
        parts: cells of single columns, or tables of those.
        numbers: cell of each combination, the last part's cell running fastest; kept as a copy.
        count: how many cells there are, empty ones and the rest included.
    """

    parts: tuple[Cells, ...] = field(converter=_several)
    numbers: NDArray[np.int64] = field(converter=_combinations, repr=False)
    count: int
    rest: bool = False
    by_record = True

    def __attrs_post_init__(self) -> None:
        limited("MappedCells count", self.count, most=MOST_COMBINATIONS)
        if not isinstance(self.rest, bool):
            raise InvalidValue("MappedCells rest", type(self.rest).__name__, "True or False")
        if not 1 <= len(self.parts) <= 64:
            raise InvalidValue("MappedCells parts", len(self.parts), "from 1 to 64")
        for part in self.parts:
            inner = part.parts if type(part) is MappedCells else (part,)
            for one in inner:
                if type(one) not in _COLUMNS:
                    raise UnsupportedNode("MappedCells takes cells of single columns, or tables of "
                                          f"those; not {type(one).__name__}. Nothing was read")
        size = math.prod(int(part.count) for part in self.parts)
        if size > MOST_COMBINATIONS:
            raise InvalidValue("MappedCells parts", size, f"at most {MOST_COMBINATIONS} "
                               "combinations")
        if len(self.numbers) != size or not int(self.numbers.min()) >= 0 or not (
                int(self.numbers.max()) < self.count):
            raise InvalidValue("MappedCells numbers", len(self.numbers),
                               f"{size} cells, from 0 and below the count")

    @property
    def below(self) -> tuple[Cells, ...]:
        """Cells that it is made of."""
        return self.parts

    @property
    def reads_label(self) -> bool:
        """If one of them does."""
        return any(depends_on_label(part) for part in self.parts)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: every part fits."""
        for part in self.parts:
            part.check(facts)

    def index(self, rows: Rows) -> NDArray[np.int64]:
        place = np.zeros(rows.n, dtype=np.int64)
        for part in self.parts:
            place *= part.count
            place += part.index(rows)
        found: NDArray[np.int64] = self.numbers[place]
        return found


# How many rows people have: a partition of people, not of rows.


@frozen(eq=False)
class RowsPerPersonCells(Cells):
    """Cells between public edges of the number of rows that a row's person has, in all.

    All of a person's rows lie in one cell, so a count of each cell counts people.

    Attributes:
        edges: a person with at least `edges[i]` rows, and fewer than the next, is in cell i + 1.
    """

    edges: tuple[float, ...] = field(converter=to_edges)
    reads_label = has_coins = False

    def __attrs_post_init__(self) -> None:
        check_edges(self.edges)

    @property
    def count(self) -> int:
        """One cell more than edges."""
        return len(self.edges) + 1

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: there are people."""
        check_people(facts)

    def index(self, rows: Rows) -> NDArray[Any]:
        """As `Cells.index`: by the whole protected table, also in a part of it."""
        people = rows.whole.people
        if people is None or rows.people is None:  # a record each
            return np.searchsorted(self.edges, np.ones(rows.n), side="right")
        return np.searchsorted(self.edges, np.bincount(people)[rows.people], side="right")


def check_people(facts: TableFacts) -> None:
    """Raise `UnsupportedNode` unless the ledger protects people."""
    if facts.unit != "person":
        raise UnsupportedNode("this ledger protects rows and knows no people: create one with "
                              "unit=\"person\". Nothing was read")
