"""The same pairs where the promise is about people: several rows of each, one person more."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from privledger.accounting import Relation
from privledger.noise.seeded import Generator
from privledger.testing.examples import Example
from privledger.testing.lockstep.neighbouring import Pair, corner, joined

MOST_ROWS = 6


def crowded(pair: Pair, relation: Relation, rng: Generator) -> Pair:
    """Neighbouring tables of people whose common rows are those of `pair`.

    The person that differs comes last, with one to six rows of any kind, or with a row of `pair`
    several times.
    """
    smaller = min(pair, key=lambda table: table.n_records)
    same = pair[0].n_records == pair[1].n_records
    rest = np.arange(smaller.n_records - same)
    common = smaller.take(rest)
    ids = _ids(len(rest), rng)
    larger = max(pair, key=lambda table: table.n_records)
    last = larger.take(np.arange(larger.n_records - 1, larger.n_records))
    if relation == "replace_label":
        return _relabelled(pair, rng)
    if relation == "add_remove":
        found = evolve(common, people=ids), _with(common, ids, _one(last, rng))
        return found if pair[0] is smaller else found[::-1]
    old = smaller.take(np.arange(smaller.n_records - 1, smaller.n_records))
    return _with(common, ids, _one(old, rng)), _with(common, ids, _one(last, rng))


def in_crowds(table: Example, rng: Generator) -> Example:
    """A table whose rows are of people with several each."""
    return evolve(table, people=_ids(table.n_records, rng))


def _ids(rows: int, rng: Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Whose each common row is: nobody's alone, or of people with many."""
    people = int(rng.integers(max(1, rows // 4), max(2, rows + 1)))
    return np.asarray(rng.integers(0, people, size=rows), dtype=np.int64)


def _one(row: Example, rng: Generator) -> Example:
    """The rows of one person."""
    rows = int(rng.integers(1, MOST_ROWS + 1))
    if rng.random() < 0.4:
        return row.take(np.zeros(rows, dtype=int))
    found = row
    for _ in range(rows - 1):
        found = joined(found, corner(row, rng))
    return found


def _with(common: Example, ids: np.ndarray[tuple[int], np.dtype[np.int64]],
          person: Example) -> Example:
    table = joined(common, person)
    return evolve(table, people=np.concatenate([ids, np.full(person.n_records, 10**6)]))


def _relabelled(pair: Pair, rng: Generator) -> Pair:
    """One person's labels, all of them, are others; the rows that get a label have had one."""
    rows = pair[0].n_records
    mine = np.array([value is not None and value == value for value in pair[0].y])
    mine &= np.arange(rows) >= rows - int(rng.integers(1, MOST_ROWS + 1))
    ids = np.where(mine, 10**6, _ids(rows, rng))
    y = pair[0].y.copy()
    y[mine] = pair[1].y[-1]
    return evolve(pair[0], people=ids), evolve(pair[0], y=y, people=ids)
