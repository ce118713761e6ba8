"""What stands between `X, y` and the guard: many tables, the record that differs at any place.

One fit is recorded; all others are handed its answers, so every one of them must be the same run.
Tables walk, by one record at a time, from one kind to the next: each step is a pair of
neighbours, and at most one row that arrives behind the guard may be another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count as count_from

import numpy as np
from attrs import evolve

from privledger.accounting import Relation
from privledger.noise.seeded import Generator, generator
from privledger.testing.examples import Example, same_records
from privledger.testing.lockstep.kept import Broken, Run
from privledger.testing.lockstep.lock import arrived, promised, steady_of
from privledger.testing.lockstep.neighbouring import Pair, any_target, corner, joined
from privledger.testing.lockstep.neighbours import rows_of
from privledger.testing.lockstep.parting import parted
from privledger.testing.lockstep.replay import Fitting
from privledger.testing.lockstep.tap import Steering, Tap

STEPS = 8
"""From one kind of table to the next."""


def arriving(fitting: Fitting, base: Example, rng: Generator,
             start: int = 0) -> Iterator[tuple[Pair, tuple[Broken, ...]]]:
    """Pairs without end, each with what is wrong; a far pair begins each kind of table.

    Args:
        start: number of the kind to begin with.
    """
    first = base.take(np.arange(min(base.n_records, 60)))
    tap = Tap(fresh(rng), Steering(uniform=0.5))
    real = fitting.run(first, tap)
    told, script = tuple(one.answer for one in real.releases), tuple(tap.draws)

    def again(table: Example) -> Run:
        return fitting.run(table, Tap(fresh(rng), script=script), told)

    steady = steady_of(real, again(first))
    if real.failed:
        yield (first, first), (Broken("P1", -1, f"the fit on a plain table fails: {real.failed}"),)
    yield (first, first), tuple(promised(fitting, real))
    for turn in count_from(start):
        table = kind_of_table(base, turn, rng)
        run = again(table)
        yield (first, table), tuple(parted(real, run, "on another plain table", steady))
        for _ in range(STEPS):
            other = step(table, base, fitting.relation, rng)
            after = again(other)
            yield (table, other), (*parted(real, after, "on a neighbouring table", steady),
                                   *arrived(run, after, fitting.relation))
            table, run = other, after


def apart(fitting: Fitting, pair: Pair, rng: Generator) -> tuple[Broken, ...]:
    """What is wrong with one pair of neighbours, the record that differs at any place."""
    tap = Tap(fresh(rng), Steering(uniform=0.5))
    real = fitting.run(pair[0], tap)
    told, script = tuple(one.answer for one in real.releases), tuple(tap.draws)
    again, twin = (fitting.run(table, Tap(fresh(rng), script=script), told) for table in pair)
    one, other = (Counter(rows_of(table)) for table in pair)
    near = max((one - other).total(), (other - one).total()) <= 1  # else only all answers are equal
    return (*parted(real, twin, "on a neighbouring table", steady_of(real, again)),
            *(arrived(again, twin, fitting.relation) if near else ()), *promised(fitting, real))


def fresh(rng: Generator) -> Generator:
    """Words of a run of its own."""
    return generator(int(rng.integers(0, 1 << 62)))


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
        alike = same_records(base, rows, any_target(base, rng))
        return evolve(alike, y=some.y) if turn % 2 else alike
    if kind == 3:  # a rare category, or one that is not there
        return amid(some, base, 0.2, 0.6, rare=int(rng.integers(0, 12)))
    if kind == 4:
        return amid(base.take(np.repeat(places[:4], 1 + rows // 4)), base, 0.0, 0.3)
    if kind == 5:
        sizes = (1025, 300, 2049, 120, 1000)
        return base.take(np.arange(sizes[turn // 9 % len(sizes)]) % base.n_records)
    if kind == 6:
        return joined(amid(some, base, 0.0, 0.1), corner(base, rng))
    if kind == 7:  # equal in halves, so that one record moves every majority and median
        halves = np.repeat(rng.integers(0, base.n_records, size=2), 1 + rows // 2)
        return base.take(rng.permutation(halves))
    return base if turn // 9 % 2 else some


def amid(table: Example, base: Example, low: float, high: float, rare: int = 0) -> Example:
    """The same, squeezed into a part of the bounds; one category, and another so often."""
    for column in base.schema.features:
        given = table.X[column.name]
        if column.kind == "numeric":
            share = (given.astype(float) - column.lower) / (column.upper - column.lower)
            share = low + (high - low) * share
            values = (column.lower + share * (column.upper - column.lower)).astype(given.dtype)
        else:
            values = np.full(len(given), column.categories[0], dtype=given.dtype)
            values[:rare] = column.categories[-1]
        table = table.with_column(column.name, values)
    target = base.schema.target
    if target.kind == "numeric":
        share = (table.y.astype(float) - target.lower) / (target.upper - target.lower)
        table = evolve(table, y=target.lower + (low + (high - low) * share)
                       * (target.upper - target.lower))
    return table


def record(table: Example, base: Example, rng: Generator) -> Example:
    """One that comes: a corner of the bounds, one like those that are there, or its like with
    another target."""
    kind = int(rng.integers(0, 5))
    if kind < 2 or not table.n_records:
        return corner(base, rng)
    like = table.take([int(rng.integers(0, table.n_records))])
    if kind == 2:
        return like
    if kind == 3:
        return like.with_target(0, any_target(base, rng))
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
        return joined(table, record(table, base, rng)).take(order)
    other = np.arange(rows)
    other[place] = rows
    return joined(table, record(table, base, rng)).take(other)
