"""Search for the pair of tables on which a released node says most about the one record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from attrs import frozen

from privledger.tables.schema import Schema
from privledger.testing.examples import Example
from privledger.testing.lockstep.neighbours import TablePair
from privledger.testing.lockstep.worst_tables import climbing

NEAR = 0.9999
"""Part of the target at which a search stops: nothing is left to find."""


@frozen
class FoundTable:
    """What a search ended with.

    Attributes:
        value: the largest score, of `pair`. tables: how many pairs were looked at.
    """

    pair: TablePair
    value: float
    tables: int


def search(score: Callable[[TablePair], float], start: Example | Schema, relation: str, *,
           seed: int = 0, seconds: float = 5.0, steps: int = 1 << 30, target: float = 1.0,
           most_rows: int = 4096, first: Sequence[TablePair] = ()) -> FoundTable:
    """Climb to the pair of neighbours with the largest score.

    Args:
        score: what is climbed, usually loss over price; whatever it raises goes through.
        seconds: CPU time of this process, after which no new table is tried. steps: how many
            pairs are tried at most.
        target: a search ends at `NEAR` of it.
        start, relation, seed, most_rows, first: as for `climbing`.
    """
    until = time.process_time() + seconds
    tries = climbing(start, relation, seed=seed, most_rows=most_rows, first=first)
    pair = best = next(tries)
    value = most = score(pair)
    tables = 1
    while most < NEAR * target and tables < steps and time.process_time() < until:
        pair = tries.send(value)
        value = score(pair)
        tables += 1
        if value > most:
            best, most = pair, value
    return FoundTable(best, most, tables)
