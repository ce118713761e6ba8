"""Trees whose nodes have tests of their own: complete, of enforced depth, grown by releases."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.questions.blocks import runs
from privledger.questions.cells import Cells
from privledger.rounding import count, whole_numbers
from privledger.tables.bins import Bins
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.values import fixed

MOST_CELLS = 1 << 15
NO_TEST = -1

Ints = NDArray[np.int32]
Codes = NDArray[Any]


def _ints(value: Any) -> Ints:
    held = whole_numbers("tests of a level", value, least=NO_TEST)
    return fixed(np.minimum(held, 1 << 30).astype(np.int32))


def _nothing() -> Ints:
    return np.zeros(0, dtype=np.int32)


@frozen(eq=False, repr=False)
class GrownCells(Cells):
    """The leaves of a complete binary tree; every node of a level has its own test.

    Start with `data.root(bins)` and add a level with `grow`. A test of numbers or of ordered
    categories sends a record to the right if its bin is at least `cut` (missing counts as the
    largest), one of other categories if the category is `cut` (missing goes left).

    Attributes:
        bins: the public bins that tests speak about.
        parent: the tree one level up; None for the root.
        feature: feature that each leaf of the parent tests, -1 for none (all go left).
        cut: first bin, or the category, that goes right.
        count: number of leaves, 2 ** depth.
        low, high: bins that a leaf's tests leave possible, low <= bin < high,
            shape (count, features).
        open: categories that they leave possible, shape (count, categories of all features).
    """

    bins: Bins
    parent: GrownCells | None = None
    feature: Ints = field(factory=_nothing, converter=_ints)
    cut: Ints = field(factory=_nothing, converter=_ints)
    count: int = field(init=False)
    low: Ints = field(init=False)
    high: Ints = field(init=False)
    open: NDArray[np.bool_] = field(init=False)
    by_record = True
    reads_label = False

    def __attrs_post_init__(self) -> None:
        put = object.__setattr__
        parent = self.parent
        if parent is None:
            if self.feature.size or self.cut.size:
                raise InvalidValue("tests of a level", self.feature.shape, "none above the root")
            sizes = np.array(self.bins.sizes(), dtype=np.int32)
            put(self, "count", 1)
            put(self, "low", fixed(np.zeros((1, len(sizes)), dtype=np.int32)))
            put(self, "high", fixed(sizes[None, :]))
            put(self, "open", fixed(np.ones((1, int(self.bins.category_starts()[-1])), dtype=bool)))
            return
        if type(parent) is not GrownCells or parent.bins is not self.bins:
            raise InvalidValue("parent", type(parent).__name__, "a tree on the same bins")
        self._check(parent)
        put(self, "count", 2 * parent.count)
        low, high, possible = self._boxes(parent)
        put(self, "low", fixed(low))
        put(self, "high", fixed(high))
        put(self, "open", fixed(possible))

    def _check(self, parent: GrownCells) -> None:
        shape = (parent.count,)
        if self.feature.shape != shape or self.cut.shape != shape:
            raise InvalidValue("tests of a level", self.feature.shape, f"of shape {shape}")
        if 2 * parent.count > MOST_CELLS:
            raise InvalidValue("tree leaves", 2 * parent.count, f"at most {MOST_CELLS}")
        sizes = np.array(self.bins.sizes())
        tested, cuts = self.feature[self.feature >= 0], self.cut[self.feature >= 0]
        if ((tested >= len(sizes)).any() or (cuts < 0).any()
                or (cuts >= sizes[tested] - self.bins.unordered()[tested]).any()):
            raise InvalidValue("tests of a level", "given", "features and cuts of the bins")

    def _boxes(self, parent: GrownCells) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        low, high = (np.repeat(side, 2, axis=0) for side in (parent.low, parent.high))
        possible = np.repeat(parent.open, 2, axis=0)
        kinds, starts = self.bins.unordered(), self.bins.category_starts()
        nodes = np.flatnonzero(self.feature >= 0)
        features, cuts = self.feature[nodes], self.cut[nodes]
        numeric = ~kinds[features]
        left, right = 2 * nodes, 2 * nodes + 1
        at = left[numeric], features[numeric]
        high[at] = np.minimum(high[at], cuts[numeric])
        at = right[numeric], features[numeric]
        low[at] = np.maximum(low[at], cuts[numeric])
        for node, feature, cut in zip(nodes[~numeric], features[~numeric], cuts[~numeric],
                                      strict=True):
            possible[2 * node, starts[feature] + cut] = False
            held = bool(possible[2 * node + 1, starts[feature] + cut])
            possible[2 * node + 1, starts[feature] : starts[feature + 1]] = False
            possible[2 * node + 1, starts[feature] + cut] = held
        return low, high, possible

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the bins are of the table's columns."""
        self.bins.check(facts.schema)

    @property
    def depth(self) -> int:
        """Tests between the root and a leaf."""
        return self.count.bit_length() - 1

    def grow(self, feature: Any, cut: Any) -> GrownCells:
        """One level more: test `feature[j]` against `cut[j]` in leaf j, shape (count,) each."""
        return GrownCells(self.bins, self, feature, cut)

    def assign(self, codes: tuple[NDArray[Any], ...]) -> Ints:
        """Leaf of every record from its bin codes (`bins.codes`), shape (n_records,)."""
        return self._assign(stacked(codes))

    def _assign(self, matrix: Codes) -> Ints:
        if self.parent is None:
            return np.zeros(matrix.shape[1], dtype=np.int32)
        return self._step(self.parent._assign(matrix), matrix)

    def _step(self, cells: Ints, matrix: Codes) -> Ints:
        """Right where least <= bin < least + many, in one comparison of unsigned numbers."""
        kinds, asked = self.bins.unordered()[self.feature], self.feature >= 0
        least = np.where(asked, self.cut, 0).astype(np.int64)
        many = np.where(asked, np.where(kinds, 1, (1 << 16) - least), 0)
        feature = np.where(asked, self.feature, 0)
        value = values_of(matrix, feature[cells]).astype(np.uint16, copy=False)
        above = np.subtract(value, least.astype(np.uint16)[cells])
        found: Ints = cells + cells
        found += above < many.astype(np.int32)[cells]
        return found

    def index(self, rows: Rows) -> Ints:
        """Inside the guard: leaf of every record. Only the last tree is kept: trees grow level
        by level, and a level is one step on from its parent."""
        known: Ints | None = rows.recall(self)
        if known is not None:
            return known
        above = None if self.parent is None else rows.recall(self.parent)
        matrix = matrix_of(self.bins, rows)
        found = self._assign(matrix) if above is None else self._step(above, matrix)
        rows.remember(self, found)
        return found

    def __repr__(self) -> str:
        return f"GrownCells(depth={self.depth})"


def stacked(codes: tuple[NDArray[Any], ...]) -> Codes:
    """Codes of all features, shape (features, n_records), of a byte each where that is enough."""
    kind = np.uint8 if all(array.dtype == np.uint8 for array in codes) else np.uint16
    return np.stack([array.astype(kind, copy=False) for array in codes])


def values_of(matrix: Codes, feature: Any) -> Codes:
    """Each record's bin of a feature of its own, shape (n_records,)."""
    places = np.multiply(feature, matrix.shape[1], dtype=np.intp)
    places += np.arange(matrix.shape[1], dtype=np.intp)
    found: Codes = matrix.reshape(-1).take(places)
    return found


def matrix_of(bins: Bins, rows: Rows) -> Codes:
    """Inside the guard: codes of every feature, stacked once per table."""
    found: Codes | None = rows.cache.get(bins.stack)
    if found is None:
        # A part's codes are the whole table's: binning is paid for once.
        if rows.parent is not None:
            found = matrix_of(bins, rows.parent[0])[:, rows.parent[1]]
        elif rows.keep is not None:
            found = rows.keep.matrix(bins, lambda: stacked(bins.codes(rows.features)))
        else:
            found = stacked(bins.codes(rows.features))
        rows.cache[bins.stack] = found
    return found


def order_of(bins: Bins, rows: Rows, feature: int) -> NDArray[np.int32]:
    """Inside the guard: the records sorted by their bins of `feature`, once per table."""
    known: dict[int, NDArray[np.int32]] = rows.cache.setdefault(bins.orders, {})
    if feature not in known:
        order = np.argsort(matrix_of(bins, rows)[feature], kind="stable")
        known[feature] = order.astype(np.int32 if rows.n < 2**31 else np.int64)
    return known[feature]


# Partitions by a tree whose tests are public or were released.


_JUMPS = 8
_FEW = 1 << 11  # records of which none is quicker compared than looked up


@frozen(eq=False)
class Test:
    """One test of a tree: a bin's contribution to the cell number.

    Attributes:
        feature: which feature.
        table: shape (bins of that feature,), unsigned integers; the cell of a record is the
            sum of its table entries over the tests.
    """

    feature: int
    table: NDArray[np.unsignedinteger[Any]] = field(converter=fixed)

    def __repr__(self) -> str:
        return f"Test(feature={self.feature})"


@frozen(eq=False)
class TreeCells(Cells):
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
    by_record = True
    reads_label = False

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

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the bins are of the table's columns."""
        self.bins.check(facts.schema)

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
    few = len(cells) <= _FEW
    jumps = table[:0] if few else np.flatnonzero(table[1:] != table[:-1]) + 1
    if few or len(jumps) > _JUMPS:
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
