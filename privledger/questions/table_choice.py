"""Which of several tables of counts is far from what is expected. Holds no rows.

Such a choice builds a tree of columns (docs/proofs/marginals.md): a candidate is a pair of columns,
and what is expected follows from released tables, as if the two were independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import TableFacts
from privledger.facts.values import fixed, refuse
from privledger.questions.cells import Cells
from privledger.questions.derivation import Derivation, derivation_of
from privledger.questions.question import Bound, Derived, Noise, drawn_choice, rate_of, refuse_top_k
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


@frozen(eq=False)
class TableChoice(Derived):
    """A question: which table of counts is far from what is expected of it.

    The score of a table is the sum of |count - expected| over its cells, minus its penalty.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        tables: one partition for each candidate; every record knows its cell by itself.
        expected: public or released, in records: of every cell of the first table, then of the
            second, and so on.
        penalty: public or released, in records: one for each table.
        what: a few public words for the ledger.
    """

    data: Derivation = field(converter=derivation_of)
    tables: tuple[Cells, ...] = field(converter=_tables)
    expected: NDArray[np.float64] = field(converter=_numbers)
    penalty: NDArray[np.float64] = field(converter=_numbers)
    what: str = "choice of a table"
    by_person: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        if not self.tables or len(self.penalty) != len(self.tables):
            raise InvalidValue("penalty", len(self.penalty), "one for each table, and one table")

    @property
    def bound(self) -> Bound:
        """A record is in one cell of each table: docs/proofs/marginals.md."""
        return Bound(1.0, (-1.0, 1.0))

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change, with room for rounding: two cells where one is
        replaced."""
        return _ROOM * (1 if relation == "add_remove" else 2)

    def prepare(self, mechanism: object, relation: str) -> float:
        """As `Question.prepare`: what scores are multiplied by."""
        return rate_of(mechanism, self, relation)

    def check_chooser(self, mechanism: object) -> None:
        refuse_top_k(mechanism)

    def sketch(self, chunk: Rows, state: float) -> NDArray[np.int64]:
        """As `Question.sketch`: counts of every cell of every table, one after the other."""
        return np.concatenate([summed(np.asarray(cells.index(chunk), dtype=np.int64), cells.count,
                                      chunk.mass) for cells in self.tables])

    def merge(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `Question.merge`: addition."""
        return a + b

    def scores(self, merged: NDArray[np.int64], one: int) -> NDArray[np.float64]:
        """Inside the guard: one score for each table, from whole steps, shape (tables,)."""
        steps = np.rint(self.expected * ONE).astype(np.int64)
        apart = np.abs(merged * (ONE // one) - steps)
        starts = np.cumsum([0, *(cells.count for cells in self.tables[:-1])])
        found = np.add.reduceat(apart, starts) - np.rint(self.penalty * ONE).astype(np.int64)
        return np.asarray(found / float(ONE))

    def finish(self, merged: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        """As `Question.finish`: position of the chosen table, shape ()."""
        score = self.scores(merged, noise.one)
        return np.array(drawn_choice(score, np.array([0, len(score)], dtype=np.int64), noise)[0])

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`: tables fit, and every record knows its cell by itself."""
        for cells in self.tables:
            if not cells.by_record:
                refuse(cells)
            cells.check(facts)
        if len(self.expected) != sum(cells.count for cells in self.tables):
            raise InvalidValue("expected", len(self.expected), "one for each cell of each table")
        self.data.check(facts)
        self.data.check_labelled(facts, any(cells.reads_label for cells in self.tables),
                                 "count by the target on")

    def __repr__(self) -> str:
        return f"TableChoice({self.what!r}, {len(self.tables)} tables)"
