"""Which of several tables of counts is far from what is expected. Holds no rows.

Such a choice builds a tree of columns (docs/proofs/marginals.md): a candidate is a pair of columns,
and what is expected follows from released tables, as if the two were independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import TableFacts
from privledger.facts.values import fixed
from privledger.questions.cells import Cells, check_by_record
from privledger.questions.question import Bound, Choose
from privledger.questions.tallies import summed
from privledger.rounding import number
from privledger.tables.chunk import ONE, Rows

MOST_EXPECTED = 2.0**31
"""Of everything that is expected together, in records: scores stay whole numbers of steps."""
_ROOM = 1 + 2.0**-18


def _tables(value: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(value)


def _numbers(value: Iterable[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    if not isinstance(value, np.ndarray):
        value = np.array([number("expected or penalty", one) for one in value])
    if value.ndim != 1 or value.dtype != np.float64 or not (
            float(np.abs(value).sum()) <= MOST_EXPECTED):  # false for NaN
        raise InvalidValue("expected or penalty", str(value.dtype), "a flat array of numbers, of "
                           "at most 2^31 records together")
    return fixed(value)


@frozen(eq=False, repr=False)
class TableChoice(Choose):
    """A question: which table of counts is far from what is expected of it.

    The score of a table is the sum of |count - expected| over its cells, minus its penalty.

    Attributes:
        tables: one partition for each candidate; every record knows its cell by itself.
        expected: public or released, in records: of every cell of the first table, then of the
            second, and so on.
        penalty: public or released, in records: one for each table.
    """

    tables: tuple[Cells, ...] = field(converter=_tables)
    expected: NDArray[np.float64] = field(converter=_numbers)
    penalty: NDArray[np.float64] = field(converter=_numbers)
    what: str = "choice of a table"
    by_person = True
    wording = "count by the target on"

    def __attrs_post_init__(self) -> None:
        if not self.tables or len(self.penalty) != len(self.tables):
            raise InvalidValue("penalty", len(self.penalty), "one for each table, and one table")

    @property
    def bound(self) -> Bound:
        """A record is in one cell of each table, in two where it is replaced: docs/proofs/
        marginals.md."""
        return Bound(1.0, (-1.0, 1.0), room=_ROOM)

    def sketch(self, chunk: Rows, state: float) -> NDArray[np.int64]:
        """As `Question.sketch`: counts of every cell of every table, one after the other."""
        return np.concatenate([summed(np.asarray(cells.index(chunk), dtype=np.int64), cells.count,
                                      chunk.mass) for cells in self.tables])

    def scores(self, merged: NDArray[np.int64], one: int) -> NDArray[np.float64]:
        """Inside the guard: one score for each table, from whole steps, shape (tables,)."""
        steps = np.rint(self.expected * ONE).astype(np.int64)
        apart = np.abs(merged * (ONE // one) - steps)
        starts = np.cumsum([0, *(cells.count for cells in self.tables[:-1])])
        found = np.add.reduceat(apart, starts) - np.rint(self.penalty * ONE).astype(np.int64)
        return np.asarray(found / float(ONE))

    def picked(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `Choose.picked`: position of the table, shape ()."""
        return np.array(chosen[0])

    @property
    def reads_target(self) -> bool:
        """If a table's cells do."""
        return any(cells.reads_label for cells in self.tables)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: every record knows its cell by itself."""
        for cells in self.tables:
            check_by_record(cells, facts)
        if len(self.expected) != sum(cells.count for cells in self.tables):
            raise InvalidValue("expected", len(self.expected), "one for each cell of each table")
