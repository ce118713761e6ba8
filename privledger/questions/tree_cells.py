"""Partitions by a tree whose tests are public or were released."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.bins import Bins
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json, array_in, array_out, fixed, items, table, whole
from privledger.questions.cells import by_predicate
from privledger.questions.grown import matrix_of
from privledger.questions.stretches import runs
from privledger.rounding import count
from privledger.tables.chunk import Rows

_JUMPS = 8


@frozen(eq=False)
class Test:
    """One test of a tree: a bin's contribution to the cell number.

    Attributes:
        feature: which feature.
        table: shape (bins of that feature,), unsigned integers; the cell of a record is the
            sum of its table entries over the tests.
    """

    feature: int
    table: NDArray[Any] = field(converter=fixed)

    def own(self, to: Copier) -> Test:
        """The guard's copy."""
        return Test(self.feature, self.table)

    def __repr__(self) -> str:
        return f"Test(feature={self.feature})"


@frozen(eq=False)
class TreeCells:
    """A partition by a tree whose tests are public or were released.

    Attributes:
        bins: the public bins that the tests speak about.
        tests: any number of them; with k two-way tables of entries 0 and 2**level the cells
            are the leaves of a complete tree of depth k with one test per level.
        count: how many cells there are, empty ones included.
    """

    bins: Bins
    tests: tuple[Test, ...] = field(converter=tuple)
    count: int
    by_record: bool = field(default=True, init=False)
    reads_label: bool = field(default=False, init=False)
    has_coins: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        count("TreeCells count", self.count)
        sizes = self.bins.sizes()
        reach = 0
        for test in self.tests:
            count("Test feature", test.feature, least=0)
            if not (test.feature < len(sizes) and test.table.shape == (sizes[test.feature],)
                    and test.table.dtype.kind == "u"):
                raise InvalidValue("Test", test, "one unsigned entry per bin of its feature")
            reach += int(test.table.max())
        if not reach < self.count <= 65535:
            raise InvalidValue("TreeCells count", self.count, "above every cell number")

    def certificate(self, public_features: bool) -> str:
        return by_predicate(self.reads_label, public_features)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the bins are of the table's columns."""
        self.bins.check(facts.schema)

    def own(self, to: Copier) -> TreeCells:
        tests: Any = tuple(to.part(test, Test) for test in self.tests)
        return TreeCells(to.shared(self.bins, Bins), tests, self.count)

    def to_wire(self, to: Describer) -> Json:
        tests = [{"feature": test.feature, "table": array_out(test.table)} for test in self.tests]
        return {"bins": to.object(self.bins), "tests": tests, "count": int(self.count)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> TreeCells:
        tests: Any = tuple(Test(whole(table(item), "feature"), array_in(item.get("table"), "u"))
                           for item in items(wire, "tests"))
        return cls(reader.object(wire.get("bins"), Bins), tests, whole(wire, "count"))

    def assign(self, codes: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Cell of every record from its bin codes, shape (n_records,)."""
        cells = np.zeros(len(codes[0]), dtype=np.uint8 if self.count <= 256 else np.uint16)
        for test in self.tests:
            _add(test.table.astype(cells.dtype), codes[test.feature], cells)
        return cells

    def index(self, rows: Rows) -> NDArray[Any]:
        """Inside the guard. Only the last tree is kept: it is asked twice in a row."""
        known = rows.recall(self)
        return rows.remember(self, self.assign(_codes(self.bins, rows))) if known is None else known


def _add(table: NDArray[Any], codes: NDArray[Any], cells: NDArray[Any]) -> None:
    """Add each record's entry of a table to its cell number, in place."""
    jumps = np.flatnonzero(table[1:] != table[:-1]) + 1
    if len(jumps) > _JUMPS:
        for at in runs(len(cells)):
            cells[at] += table.take(codes[at])
        return
    # A table of few runs of equal entries is as many comparisons, which are far cheaper. Numbers
    # wrap around in between; what comes out is a cell number.
    cells += table[0]
    rises = table[jumps] - table[jumps - 1]
    for at in runs(len(cells)):
        for jump, rise in zip(jumps.tolist(), rises, strict=True):
            cells[at] += (codes[at] >= jump).view(np.uint8) * rise


def _codes(bins: Bins, rows: Rows) -> tuple[NDArray[Any], ...]:
    """Inside the guard: bin codes of every record, computed once per table."""
    found: tuple[NDArray[Any], ...] | None = rows.cache.get(bins)
    if found is None:
        found = rows.cache[bins] = (bins.codes(rows.features) if rows.keep is None
                                    else tuple(matrix_of(bins, rows)))
    return found
