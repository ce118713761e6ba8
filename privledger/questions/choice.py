"""Choices: a cut, feature or label in every leaf, a quantile, a table. They hold no rows."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, UnsupportedNode
from privledger.questions.blocks import numbers_of
from privledger.questions.cells import Cells, check_by_record
from privledger.questions.grown import NO_TEST, GrownCells
from privledger.questions.options import Picked, options_of
from privledger.questions.question import Bound, Choose, Noise, drawn_choice, flips
from privledger.questions.score import Gradient
from privledger.questions.tallies import (
    Statistics,
    Tabled,
    Tally,
    of_gradient,
    of_labels,
    of_target,
    summed,
    tallies_of,
    weighed,
)
from privledger.rounding import count, non_negative, number, probability, whole_numbers
from privledger.tables.chunk import ONE, Rows, in_main_cell
from privledger.tables.columns import TableFacts
from privledger.tables.values import fixed, refuse

SCORES = ("rank", "squared_error", "gain", "gini", "entropy")
AMONG = ("cuts", "features", "both")
_NONE_CHOSEN = np.zeros(0, dtype=np.int64)


def _features(value: Any) -> Any:
    if value is None:
        return None
    return fixed(whole_numbers("features", value, least=NO_TEST))


def _allowed(value: Any) -> Any:
    if value is None:
        return None
    held = np.asarray(value)
    if held.ndim != 2 or held.dtype.kind != "b":
        raise InvalidValue("allowed", str(held.dtype), "True or False per leaf and feature")
    return fixed(held.copy())


@frozen(eq=False, repr=False)
class Choice(Choose):
    """A question for every leaf of `cells`: which candidate has a high score.

    Attributes:
        cells: the tree whose leaves are asked; candidates lie inside their boxes.
        score: `rank` (medians), `squared_error` (of classes if `labels` is given, else of the
            numeric target in [0, 1]), `gain` (of `gradient`), `gini` or `entropy` (fall of the
            impurity of `labels`, normalised to [0, 1]).
        among: `cuts` of the one feature in `features`, `features` (each by its best cut), or
            `both` at once; then every feature has the same measure.
        features: one feature per leaf, for `cuts`; -1 asks nothing of a leaf.
        allowed: for `features` and `both`: which features compete in which leaf, a public
            choice of shape (leaves, features); None for all.
        labels: cells whose numbers are the classes.
        gradient: block of gradients, width one; `penalty` is added to every side's count.
    """

    cells: GrownCells
    score: str
    among: str = "cuts"
    features: NDArray[np.int64] | None = field(default=None, converter=_features)
    labels: Cells | None = None
    gradient: Gradient | None = None
    penalty: float = 0.0
    allowed: NDArray[np.bool_] | None = field(default=None, converter=_allowed)
    what: str = "choice of a cut"
    by_person = True

    def __attrs_post_init__(self) -> None:
        if type(self.cells) is not GrownCells:
            raise InvalidValue("cells", type(self.cells).__name__, "a grown tree")
        if self.score not in SCORES:
            raise InvalidValue("score", self.score, f"one of {', '.join(SCORES)}")
        if self.among not in AMONG:
            raise InvalidValue("among", self.among, f"one of {', '.join(AMONG)}")
        if (self.features is not None) != (self.among == "cuts"):
            raise InvalidValue("features", self.among, "given exactly for choices among cuts")
        if self.features is not None:
            self._check_features(self.features)
        if self.allowed is not None and (self.among == "cuts" or self.allowed.shape != (
                self.cells.count, len(self.cells.bins.schema.features))):
            raise InvalidValue("allowed", self.allowed.shape, "one flag per leaf and feature, "
                               "for choices among features or both")
        if (self.gradient is not None) != (self.score == "gain"):
            raise InvalidValue("gradient", self.score, "given exactly for the gain")
        if self.labels is None and self.score in ("gini", "entropy"):
            raise InvalidValue("labels", None, "given for impurities")
        if self.labels is not None and self.score in ("rank", "gain"):
            raise InvalidValue("labels", self.score, "None for this score")
        if not non_negative("penalty", self.penalty) <= 1e6:
            raise InvalidValue("penalty", self.penalty, "from 0 to 10^6")
        if self.penalty and self.score != "gain":
            raise InvalidValue("penalty", self.score, "given for the gain only")

    def _check_features(self, features: NDArray[np.int64]) -> None:
        count = len(self.cells.bins.schema.features)
        if (features.shape != (self.cells.count,) or (features < NO_TEST).any()
                or (features >= count).any()):
            raise InvalidValue("features", features.shape, "one feature, or -1, per leaf")

    @property
    def bound(self) -> Bound:
        """How far a record that comes or goes moves the score (docs/proofs/split-scores.md)."""
        room = 1 + ((2 if self.labels is None else self.labels.count) + 4) * 2.0**-20
        if self.score == "squared_error":
            return Bound(2.0 if self.labels is not None else 1.0, (-1.0, 0.0), room=room)
        if self.score == "gain":
            return Bound(3.0, (-1.0, 1 / 3), room=room)
        return Bound(1.0, (-1.0, 1.0), room=room)

    def check_chooser(self, mechanism: object) -> None:
        super().check_chooser(mechanism)
        if self.among != "features" and flips(mechanism):
            raise UnsupportedNode("permute-and-flip selects features or labels. For cuts use "
                                  "Exponential. Nothing was read")

    def sketch(self, chunk: Rows, state: float) -> tuple[Tally | Tabled, ...]:
        """As `Ask.sketch`: counts and integer sums per leaf and public bin.

        Targets and gradients are cut towards zero to whole steps of a public bound first.
        """
        inside, node = None, self.cells.index(chunk)
        if chunk.people is not None and self.score in ("gini", "entropy"):
            # Whatever a person weighs, impurities move by one: so each speaks in one leaf.
            members = np.flatnonzero(in_main_cell(chunk.people, node, self.cells.count))
            chunk, node = chunk.subset(members), node[members]
        if self.labels is not None:
            statistics = of_labels(self.labels, chunk)
        elif self.gradient is not None:
            statistics, inside = of_gradient(self.gradient, chunk)
        else:
            statistics = of_target(chunk) if self.score == "squared_error" else Statistics()
        if inside is not None:
            members = np.flatnonzero(inside)
            chunk, node = chunk.subset(members), node[members]
        statistics = weighed(statistics, chunk)
        return tuple(tallies_of(self.cells, self.features, self.allowed, chunk, node, statistics))

    def finish(self, merged: tuple[Tally | Tabled, ...], noise: Noise) -> Picked:
        """As `Ask.finish`: one exact draw per leaf; one without candidates picks nothing."""
        options, chosen, offset = options_of(self, merged, noise.one), _NONE_CHOSEN, None
        if len(options.leaf):
            chosen = drawn_choice(options.score, options.starts, noise, options.weight)
            if self.among != "features":
                offset = noise.source.uniform_below(options.length[chosen])
        return options.picked(self.cells.count, chosen, offset)

    @property
    def reads_target(self) -> bool:
        """All but the rank do."""
        return self.score != "rank"

    @property
    def whole_people(self) -> str:
        """Impurities move in full, whatever a person weighs."""
        return f"a choice by {self.score}" if self.score in ("gini", "entropy") else ""

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: tree, labels and gradient fit the table."""
        self.cells.check(facts)
        if self.labels is not None:
            check_by_record(self.labels, facts)
        if self.gradient is not None:
            if self.gradient.width != 1:
                refuse(self.gradient)
            self.gradient.check(facts)
        if self.score == "squared_error" and self.labels is None:
            facts.column("", "numeric")


@frozen(eq=False, repr=False)
class LabelChoice(Choose):
    """A question for every leaf of `cells`: which class has many records.

    A class's score is its count in the leaf, so it only rises as a record comes. Every class
    of `labels` is a candidate, whether it occurs or not.

    Attributes:
        cells: the tree whose leaves are asked.
        labels: cells whose numbers are the classes.
    """

    cells: GrownCells
    labels: Cells
    what: str = "choice of a label"
    by_person = True

    def __attrs_post_init__(self) -> None:
        if type(self.cells) is not GrownCells:
            raise InvalidValue("cells", type(self.cells).__name__, "a grown tree")

    @property
    def bound(self) -> Bound:
        """A count, which is exact: docs/proofs/split-scores.md."""
        return Bound(1.0, (0.0, 1.0))

    def sketch(self, chunk: Rows, state: float) -> NDArray[np.int64]:
        """As `Ask.sketch`: counts of every class, leaf by leaf, shape (leaves * classes,)."""
        leaves, classes = self.cells.count, self.labels.count
        keys = (self.cells.index(chunk).astype(np.int64) * classes
                + np.asarray(self.labels.index(chunk)))
        return summed(keys, leaves * classes, chunk.mass)

    def scores(self, merged: NDArray[np.int64], one: int) -> NDArray[np.float64]:
        """As `Choose.scores`: records of every class, shape (leaves, classes)."""
        return (merged / float(one)).reshape(self.cells.count, self.labels.count)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: tree and labels fit the table."""
        self.cells.check(facts)
        check_by_record(self.labels, facts)


# A quantile of one numeric column, chosen among public edges (docs/proofs/queries.md).


MOST_BINS = 1 << 16
PARTS = 1 << 16
"""A quantile is a whole number of so many parts, so that scores come from whole numbers."""
_ROOM = 1 + 2.0**-18


@frozen(eq=False, repr=False)
class QuantileChoice(Choose):
    """Which of the public edges splits a column's values like a quantile should.

    Edges lie evenly from `lower` to `upper`, `bins` + 1 of them. An edge with b values below it
    and a values above or on it has the score -|(1 - q) b - q a|. Values outside of the bounds
    count in the first or the last bin; missing ones count nowhere. With `between` the bins are the
    candidates, and the answer is the middle of one: its score is that of its nearer edge, and 0 if
    the quantile lies in it, so many rows of one value are found.

    Attributes:
        name: a numeric feature, or "" for the target.
        quantile: above 0 and below 1, taken to the nearest of 2^16 parts.
        lower, upper: public bounds.
        bins: how many intervals, at most 2^16.
    """

    name: str
    quantile: float
    lower: float
    upper: float
    bins: int = 1024
    what: str = "quantile"
    between: bool = False
    by_person = True
    wording = "ask for a quantile of the target on"

    def __attrs_post_init__(self) -> None:
        if not 0 < round(probability("quantile", self.quantile) * PARTS) < PARTS:
            raise InvalidValue("quantile", self.quantile, "from 2^-16 to 1 - 2^-16")
        if not number("lower", self.lower) < number("upper", self.upper):
            raise InvalidValue("bounds", (self.lower, self.upper), "lower below upper")
        if not np.isfinite(self.upper - self.lower):
            raise InvalidValue("bounds", (self.lower, self.upper), "of a finite distance")
        count("bins", self.bins, most=MOST_BINS)
        if type(self.between) is not bool:
            raise InvalidValue("between", self.between, "True or False")

    @property
    def part(self) -> int:
        """What is asked for, as a whole number of 2^-16."""
        return round(self.quantile * PARTS)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where bins begin and end, shape (bins + 1,)."""
        return np.linspace(self.lower, self.upper, self.bins + 1)

    @property
    def bound(self) -> Bound:
        """A value comes on one side of an edge, and goes at most to the other where it is replaced:
        docs/proofs/queries.md, "Quantiles"."""
        return Bound(max(self.part, PARTS - self.part) / PARTS, (-1.0, 1.0), 1.0, _ROOM)

    def sketch(self, chunk: Rows, state: float) -> NDArray[np.int64]:
        """As `Ask.sketch`: how many values lie between the edges, shape (bins,)."""
        values = numbers_of(self.name, chunk)
        known = ~np.isnan(values)
        keys = np.searchsorted(self.edges[1:-1], values[known], side="right").astype(np.int64)
        return summed(keys, self.bins, None if chunk.mass is None else chunk.mass[known])

    def scores(self, merged: NDArray[np.int64], one: int) -> NDArray[np.float64]:
        """Inside the guard: one score per edge, shape (bins + 1,), or bin, each rounded once."""
        below = [0, *np.cumsum(merged).tolist()]
        off = [PARTS * held - self.part * below[-1] for held in below]
        far = ([max(0, left, -right) for left, right in pairwise(off)] if self.between
               else map(abs, off))
        return np.array([-float(Fraction(each, PARTS * one)) for each in far])

    def picked(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """As `Choose.picked`: one of the edges, or the middle of a bin, shape ()."""
        edges, place = self.edges, chosen[0]
        return np.array((edges[place] + edges[place + 1]) / 2 if self.between else edges[place])

    @property
    def reads_target(self) -> bool:
        """Only of the target."""
        return not self.name

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: the column is numeric."""
        facts.column(self.name, "numeric")


# Which of several tables of counts is far from what is expected. Such a choice builds a tree of
# columns (docs/proofs/marginals.md): a candidate is a pair of columns, and what is expected follows
# from released tables, as if the two were independent.


MOST_EXPECTED = 2.0**31
"""Of everything that is expected together, in records: scores stay whole numbers of steps."""


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
        """As `Ask.sketch`: counts of every cell of every table, one after the other."""
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
