"""Neighbouring tables to begin with: the record that differs always comes last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import evolve

from privledger.accounting import Relation
from privledger.noise.seeded import Generator
from privledger.testing.examples import Example, extremes, same_records, worst_pair
from privledger.testing.structure import table_probes

Pair = tuple[Example, Example]


def corner(base: Example, rng: Generator, target: Any = None) -> Example:
    """One record, at the corners of the public bounds, sometimes inside them or missing."""
    X: dict[str, Any] = {}
    for column in base.schema.features:
        dtype = base.X[column.name].dtype
        if column.kind == "numeric":
            share = rng.choice([0.0, 1.0, 0.5, rng.random()])
            value: Any = column.lower + share * (column.upper - column.lower)
            if column.missing and rng.random() < 0.2:
                value = np.nan
        else:
            value = column.categories[int(rng.integers(0, len(column.categories)))]
        X[column.name] = np.array([value], dtype=dtype)
    y = np.empty(1, dtype=base.y.dtype)
    y[0] = any_target(base, rng) if target is None else target
    return evolve(base, X=X, y=y)


def any_target(base: Example, rng: Generator) -> Any:
    """A target that the schema allows, most often an extreme one."""
    low, high = extremes(base.schema)
    target = base.schema.target
    if target.kind == "numeric":
        return rng.choice([low, high, low + rng.random() * (high - low)])
    return target.categories[int(rng.integers(0, len(target.categories)))]


def joined(one: Example, other: Example) -> Example:
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
        pair = table, joined(table, record)
        return pair if rng.random() < 0.7 else pair[::-1]
    if not table.n_records:
        table = corner(table, rng)
    if relation == "replace_label":
        place = int(np.flatnonzero([y is not None and y == y for y in table.y])[-1])
        order = np.append(np.delete(np.arange(table.n_records), place), place)
        table = table.take(order)
        return table, table.with_target(len(order) - 1, record.y[0])
    rest = table.take(np.arange(table.n_records - 1))
    return joined(rest, corner(table, rng)), joined(rest, record)


def first_pairs(base: Example, relation: Relation, rng: Generator) -> Iterator[Pair]:
    """Pairs that have shown most: equal records, the example itself, few records, the grid."""
    yield worst_pair(base, relation)
    yield neighbours(base, relation, rng)
    low, high = extremes(base.schema)
    for count in (1, 2, 40):  # an empty table is refused at the door
        table = same_records(base, count, low)
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
        table = joined(table, corner(base, rng).take(np.zeros(times, dtype=int)))
    return neighbours(table, relation, rng)
