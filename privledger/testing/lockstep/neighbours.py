"""Pairs of neighbouring tables, written as rows with their multiplicities.

The record that differs comes last, so that the common ones share their coins. A pair is small
enough to be printed, kept in a file, and made again by a stranger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.accounting import Relation
from privledger.noise.seeded import Generator
from privledger.tables.schema import Column, Schema
from privledger.testing.examples import (
    Example,
    extremes,
    listed_values,
    read_columns,
    same_records,
    worst_pair,
)
from privledger.testing.structure import table_probes

Cell: TypeAlias = float | int | str | bool | None
Row: TypeAlias = tuple[Cell, ...]


@frozen
class TablePair:
    """Two tables that differ in one record.

    Attributes:
        common: rows of both, each with how often it occurs. A row is one value per feature of
            the schema, in its order, and the target last; None is missing.
        old, new: the last record of the first and of the second table, None if it has none.
    """

    schema: Schema
    common: tuple[tuple[Row, int], ...]
    old: Row | None
    new: Row | None

    @property
    def n_records(self) -> tuple[int, int]:
        """Rows of both tables."""
        shared = sum(often for _, often in self.common)
        return shared + (self.old is not None), shared + (self.new is not None)

    def turned(self) -> TablePair:
        """The same two tables in the other order."""
        return TablePair(self.schema, self.common, self.new, self.old)

    def tables(self) -> tuple[Example, Example]:
        """Both as columns, as a caller gives them to `protect`."""
        first, second = (_columns(self.schema, *self._rows(last)) for last in (self.old, self.new))
        return first, second

    def _rows(self, last: Row | None) -> tuple[list[Row], list[int]]:
        rows, often = [row for row, _ in self.common], [times for _, times in self.common]
        return (rows, often) if last is None else ([*rows, last], [*often, 1])


def pair_columns(schema: Schema) -> tuple[Column, ...]:
    """Features in their order, texts, and the target last, where there is one."""
    return (*read_columns(schema), *(one for one in schema.columns if one.role == "target"))


def rows_of(example: Example) -> list[Row]:
    """Every record of a table as a row."""
    columns = [*(example.X[column.name] for column in read_columns(example.schema)), example.y]
    plain = [[(None if isinstance(cell, float) and cell != cell else cell)
              for cell in np.asarray(column).tolist()] for column in columns]
    return list(zip(*plain, strict=True))


def grouped_rows(rows: Iterable[tuple[Row, int]]) -> tuple[tuple[Row, int], ...]:
    """Equal rows together, none of multiplicity zero, in the order they first came."""
    together: dict[Row, int] = {}
    for row, often in rows:
        together[row] = together.get(row, 0) + often
    return tuple((row, often) for row, often in together.items() if often > 0)


def _array(column: Column, cells: Sequence[Cell]) -> NDArray[np.float64] | NDArray[np.object_]:
    if column.kind == "numeric":
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _columns(schema: Schema, rows: Sequence[Row], often: Sequence[int]) -> Example:
    order = np.repeat(np.arange(len(rows)), often)
    arrays = [_array(column, [row[place] for row in rows])[order]
              for place, column in enumerate(pair_columns(schema))]
    named = {column.name: array
             for column, array in zip(read_columns(schema), arrays, strict=False)}
    unlabelled = any(row[-1] is None for row in rows)
    return Example(schema, named, arrays[-1], unlabelled)


# Neighbouring tables to begin with: the record that differs always comes last.

Pair = tuple[Example, Example]


def any_value(column: Column, rng: Generator, *, missing: bool = True) -> Cell:
    """A value of one column: mostly an end or the middle; none, where that may be."""
    if missing and column.missing and column.role != "target" and rng.random() < 0.15:
        return None
    if column.kind != "numeric":
        names = listed_values(column)
        cell: Cell = names[int(rng.integers(0, len(names)))]
        return cell
    share = (0.0, 0.0, 1.0, 1.0, 0.5, 0.25, 0.75, rng.random())[int(rng.integers(0, 8))]
    value = column.lower + share * (column.upper - column.lower)
    return float(round(value)) if column.integer else value


def corner(base: Example, rng: Generator, target: Any = None) -> Example:
    """One record, at the corners of the public bounds, sometimes inside them or missing."""
    X = {column.name: _array(column, [any_value(column, rng, missing=column.kind != "categorical")]
                             ).astype(base.X[column.name].dtype)
         for column in read_columns(base.schema)}
    y = np.empty(1, dtype=base.y.dtype)
    y[0] = any_value(base.schema.target, rng) if target is None else target
    return evolve(base, X=X, y=y)


def joined_rows(one: Example, other: Example) -> Example:
    """The records of both, in this order."""
    X = {name: np.concatenate([column, other.X[name].astype(column.dtype)])
         for name, column in one.X.items()}
    return evolve(one, X=X, y=np.concatenate([one.y, other.y.astype(one.y.dtype)]))


def neighbours(table: Example, relation: Relation, rng: Generator,
               last: Example | None = None) -> Pair:
    """A table and its neighbour: one record more, or its last one another.

    Args:
        last: the record that comes; made up if it is None.
    """
    record = corner(table, rng) if last is None else last
    if relation == "add_remove":
        pair = table, joined_rows(table, record)
        return pair if rng.random() < 0.7 else pair[::-1]
    if not table.n_records:
        table = corner(table, rng)
    if relation == "replace_label":
        place = int(np.flatnonzero(table.labelled)[-1])
        order = np.append(np.delete(np.arange(table.n_records), place), place)
        table = table.take(order)
        return table, table.with_target(len(order) - 1, record.y[0])
    rest = table.take(np.arange(table.n_records - 1))
    return joined_rows(rest, corner(table, rng)), joined_rows(rest, record)


def amid(table: Example, base: Example, low: float, high: float, rare: int = 0) -> Example:
    """The same, squeezed into a part of the bounds; one category, and another so often."""

    def squeezed(column: Column, values: NDArray[Any]) -> NDArray[Any]:
        share = (values.astype(float) - column.lower) / (column.upper - column.lower)
        share = low + (high - low) * share
        return np.asarray(column.lower + share * (column.upper - column.lower))

    for column in base.schema.features:
        given = table.X[column.name]
        if column.kind == "numeric":
            values = squeezed(column, given).astype(given.dtype)
        else:
            values = np.full(len(given), column.categories[0], dtype=given.dtype)
            values[:rare] = column.categories[-1]
        table = table.with_column(column.name, values)
    target = base.schema.target
    return evolve(table, y=squeezed(target, table.y)) if target.kind == "numeric" else table


def first_pairs(base: Example, relation: Relation, rng: Generator) -> Iterator[Pair]:
    """Pairs that have shown most: equal records, the example itself, in a part of its bounds and
    one beyond, few records, the grid."""
    yield worst_pair(base, relation)
    yield neighbours(base, relation, rng)
    low, high = extremes(base.schema)
    some = base.take(np.arange(min(base.n_records, 60)))
    yield neighbours(amid(some, base, 0.1, 0.6, rare=30), relation, rng, corner(base, rng, high))
    for few in (1, 2, 40):  # an empty table is refused at the door
        table = same_records(base, few, low)
        yield neighbours(table, relation, rng, corner(base, rng, high))
    grid = table_probes(base)
    size = len(next(iter(grid.values())))
    table = base.take(np.arange(size) % base.n_records)
    for name, column in grid.items():
        table = table.with_column(name, column.astype(table.X[name].dtype))
    yield neighbours(table, relation, rng)
    for _ in range(4):
        yield random_pair(base, relation, rng)


def random_pair(base: Example, relation: Relation, rng: Generator) -> Pair:
    """A few corners, each many times, and one more."""
    table = base.take(np.arange(0))
    for _ in range(int(rng.integers(1, 4))):
        times = int(rng.choice([1, 1, 2, 3, 5, 8, 30]))
        table = joined_rows(table, corner(base, rng).take(np.zeros(times, dtype=int)))
    return neighbours(table, relation, rng)


# Tables whose neighbours differ in a record at any place: what stands between `X, y` and the
# guard.


def kind_of_table(base: Example, turn: int, rng: Generator) -> Example:
    """One kind after another: of a few rows, of many, alike, in the middle of their bounds, with
    one category or rare ones, with few distinct records, skewed."""
    kind, rows = turn % 9, int(rng.integers(8, 61))
    places = rng.integers(0, base.n_records, size=rows)
    some = base.take(places)
    if kind == 0:
        return amid(some, base, 0.45, 0.55)
    if kind == 1:
        return base.take(rng.integers(0, base.n_records, size=int(rng.integers(1, 9))))
    if kind == 2:  # alike, or with other targets: which of them stays decides who came first
        alike = same_records(base, rows, any_value(base.schema.target, rng))
        return evolve(alike, y=some.y) if turn % 2 else alike
    if kind == 3:  # a rare category, or one that is not there
        return amid(some, base, 0.2, 0.6, rare=int(rng.integers(0, 12)))
    if kind == 4:
        return amid(base.take(np.repeat(places[:4], 1 + rows // 4)), base, 0.0, 0.3)
    if kind == 5:
        sizes = (1025, 300, 2049, 120, 1000)
        return base.take(np.arange(sizes[turn // 9 % len(sizes)]) % base.n_records)
    if kind == 6:
        return joined_rows(amid(some, base, 0.0, 0.1), corner(base, rng))
    if kind == 7:  # equal in halves, so that one record moves every majority and median
        halves = np.repeat(rng.integers(0, base.n_records, size=2), 1 + rows // 2)
        return base.take(rng.permutation(halves))
    return base if turn // 9 % 2 else some


def record_pair(table: Example, base: Example, rng: Generator) -> Example:
    """One that comes: a corner of the bounds, one like those that are there, or its like with
    another target."""
    kind = int(rng.integers(0, 5))
    if kind < 2 or not table.n_records:
        return corner(base, rng)
    like = table.take([int(rng.integers(0, table.n_records))])
    if kind == 2:
        return like
    if kind == 3:
        return like.with_target(0, any_value(base.schema.target, rng))
    return base.take([int(rng.integers(0, base.n_records))])


def step(table: Example, base: Example, relation: Relation, rng: Generator) -> Example:
    """One record comes, goes, or is another, at any place: the first and the last often."""
    rows = table.n_records
    place = (0, rows - 1, int(rng.integers(0, rows)))[int(rng.integers(0, 3))]
    if relation == "add_remove":
        if rows > 1 and rng.random() < 0.4:
            return table.take(np.delete(np.arange(rows), place))
        place = (0, rows, int(rng.integers(0, rows + 1)))[int(rng.integers(0, 3))]
        order = np.insert(np.arange(rows), place, rows)
        return joined_rows(table, record_pair(table, base, rng)).take(order)
    other = np.arange(rows)
    other[place] = rows
    return joined_rows(table, record_pair(table, base, rng)).take(other)


# The same pairs where the promise is about people: several rows of each, one person more.

MOST_ROWS = 6


def crowded(pair: Pair, relation: Relation, rng: Generator) -> Pair:
    """Neighbouring tables of people whose common rows are those of `pair`.

    The person that differs comes last, with one to six rows of any kind, or with a row of `pair`
    several times.
    """
    if relation == "replace_label":
        return _relabelled(pair, rng)
    rows = min(table.n_records for table in pair) - (pair[0].n_records == pair[1].n_records)
    common = in_crowds(pair[0].take(np.arange(rows)), rng)
    first, second = (_with_person(common, table.take(np.arange(rows, table.n_records)), rng)
                     for table in pair)
    return first, second


def in_crowds(table: Example, rng: Generator) -> Example:
    """A table whose rows are of people with several each."""
    return evolve(table, people=_ids(table.n_records, rng))


def _ids(rows: int, rng: Generator) -> NDArray[np.int64]:
    """Whose each common row is: of people with one, or with many."""
    people = int(rng.integers(max(1, rows // 4), max(2, rows + 1)))
    return np.asarray(rng.integers(0, people, size=rows), dtype=np.int64)


def _with_person(common: Example, row: Example, rng: Generator) -> Example:
    """The common rows, and a person with this row, if it is one, and more."""
    if not row.n_records:
        return common
    more = int(rng.integers(0, MOST_ROWS))
    same = rng.random() < 0.4
    for _ in range(more):
        row = joined_rows(row, row.take([0]) if same else corner(row, rng))
    assert common.people is not None
    people = np.concatenate([common.people, np.full(row.n_records, 10**6)])
    return evolve(joined_rows(common, row), people=people)


def _relabelled(pair: Pair, rng: Generator) -> Pair:
    """One person's labels, all of them, are others; the rows that get a label have had one."""
    rows = pair[0].n_records
    mine = pair[0].labelled & (np.arange(rows) >= rows - int(rng.integers(1, MOST_ROWS + 1)))
    ids = np.where(mine, 10**6, _ids(rows, rng))
    y = pair[0].y.copy()
    y[mine] = pair[1].y[-1]
    return evolve(pair[0], people=ids), evolve(pair[0], y=y, people=ids)
