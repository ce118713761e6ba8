"""From statistics and a schema to questions of the guard: which cells, which sums, which draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
from attrs import field, frozen

import privledger as pl
from privledger_learners.statistics.answers import Group
from privledger_learners.statistics.expressions import (
    MOMENTS,
    AllOf,
    Atom,
    Compare,
    Cut,
    IsIn,
    IsMissing,
    Not,
    Predicate,
    Statistic,
)

MOST_CELLS = 1 << 20
FINE, COARSE = 1024, 32
"""Bins of a distribution that many quantiles are read from, and how many of them make a block."""
MOST_WHOLE = 1 << 13
"""Whole numbers that a quantile is drawn among."""
MANY = 9
"""So many quantiles are read from one distribution: fewer draws by themselves are nearer. In tables
of 1,000 and 30,000 rows the two are level from 6 to 8 (docs/proofs/summaries.md)."""
Cells = Any
"""Cells of the guard's questions; None for none."""
Summand = Any
"""A block of the guard's questions; None for draws."""
Names = Mapping[str, tuple[str, ...]]
"""Released names by column of texts."""
NO_NAMES: Names = {}
FREE = ".0"
"""Ends what stands for a name that was not released, in a plan with a place for so many: no row has
the name 5.0, as it is spelled 5."""
MOST_DRAWS = 1000
"""Of one question."""
FEW_NAMES, MOST_NAMES = 50, 255
"""Where there is a place for fewer, quantiles are read from one distribution; and places in all."""


@frozen(eq=False)
class Axis:
    """Cells of one column, and what each is called.

    Attributes:
        labels: None for missing. shown: whether the schema allows any row in the cell.
    """

    name: str
    cells: Cells
    labels: Group
    shown: tuple[bool, ...]


@frozen(eq=False)
class Chosen:
    """What `where` keeps: cells of the columns that it compares, and the combinations kept."""

    cells: tuple[Cells, ...]
    kept: np.ndarray
    text: str


def column_of(schema: pl.Schema, name: str, kind: str = "") -> tuple[pl.Column, str]:
    """A feature or the target, and what questions call it.

    Raises:
        SchemaError: there is none of that name, or it is of another kind.
    """
    for column in schema.columns:
        if column.name == name and column.role in ("feature", "target"):
            if kind and column.kind != kind:
                raise pl.SchemaError(f"column {name!r} is not {kind}")
            return column, "" if column.role == "target" else name
    if any(one.name == name for one in schema.keys):
        raise pl.SchemaError(f"column {name!r} holds texts, whose names are not public: it can be "
                             "grouped by (by), and nothing else")
    known = ", ".join(one.name for one in schema.columns if one.role in ("feature", "target"))
    raise pl.SchemaError(f"no feature or target column {name!r}; there are: {known}")


def axis_of(schema: pl.Schema, name: str, edges: Sequence[float | str] | None = None,
            names: Names = NO_NAMES) -> Axis:
    """Cells per category, per interval of a numeric column between public edges, or per released
    name of a column of texts; there the last one, None, has the rows of all other names."""
    if edges is None and name in texts_of(schema, (name,)):
        known = names.get(name, ())
        cells: Cells = pl.questions.NamedCells(name, known)
        shown = (*(pl.plugins.label_key(one) == one for one in known), True)
        return Axis(name, cells, (*known, None), shown)
    column, key = column_of(schema, name)
    if column.kind == "categorical":
        if edges is not None:
            raise pl.InvalidValue("edges", name, "left out: a categorical column has a cell for "
                                                 "each category of its schema")
        labels: Group = tuple(column.labels.tolist()) + ((None,) if key else ())
        cells = pl.questions.CategoryCells(key, len(labels))
        empty = bool(key)
    elif edges is None:
        raise pl.InvalidValue("edges", name, "given for a numeric column: pl.cut(column, edges), "
                                             "or histogram(column, edges)")
    else:
        said = [one if isinstance(one, str) else f"{one:g}" for one in edges]
        inner = [f"[{a}, {b})" for a, b in itertools.pairwise(said)]
        labels = (f"below {said[0]}", *inner, f"{said[-1]} and above", None)
        cells = pl.questions.IntervalCells(key, [_counted(column, one) for one in edges])
        empty = True
    shown = (True,) * (len(labels) - empty) + ((column.missing,) if empty else ())
    return Axis(name, cells, labels, shown)


def texts_of(schema: pl.Schema, by: Iterable[str | Cut]) -> tuple[str, ...]:
    """Those columns that hold texts: which groups there are is released before all else."""
    known = {column.name for column in schema.keys}
    return tuple(one for one in by if isinstance(one, str) and one in known)


def groups_of(schema: pl.Schema, by: Iterable[str | Cut],
              names: Names = NO_NAMES) -> tuple[Axis, ...]:
    """One axis for each column that rows are grouped by; those of texts by their released names."""
    axes = tuple(axis_of(schema, one.column, one.edges) if isinstance(one, Cut)
                 else axis_of(schema, one, None, names) for one in by)
    held = [axis.name for axis in axes]
    if len(set(held)) < len(held):
        raise pl.InvalidValue("by", ", ".join(held), "distinct columns")
    return axes


def places_for(schema: pl.Schema, statistics: Sequence[Statistic],
               by: Sequence[str | Cut]) -> int:
    """Names of a column of texts that quantiles may be drawn for, as a plan has a draw for each;
    0 where none is drawn."""
    most = max((len(one.quantiles) for one in statistics if len(one.quantiles) < MANY), default=0)
    if len(texts_of(schema, by)) != 1 or not most:
        return 0
    found = MOST_DRAWS // (most * size_of(groups_of(schema, by))) - 1
    return min(found, MOST_NAMES) if found >= FEW_NAMES else 0


def padded(names: Sequence[str], places: int) -> tuple[str, ...]:
    """Names, and places that are free."""
    return (*names, *(f"{place}{FREE}" for place in range(places - len(names))))


# Predicates: for every column that is compared, cells in which each comparison is constant.


def chosen(schema: pl.Schema, where: Predicate | None) -> Chosen | None:
    """What a predicate keeps, as a table over cells of its columns.

    Raises:
        SchemaError: it compares a column that is not there, or with what it cannot hold.
    """
    if where is None:
        return None
    by_column: dict[str, list[Atom]] = {}
    for atom in where.atoms():
        held = by_column.setdefault(atom.column, [])
        if atom not in held:
            held.append(atom)
    cells, truths = [], []
    for name, atoms in by_column.items():
        made, truth = _cells_for(schema, name, atoms)
        cells.append(made)
        truths.append(truth)
    if math.prod(one.count for one in cells) > MOST_CELLS:
        raise pl.InvalidValue("where", "too many columns", f"at most {MOST_CELLS} combinations")
    of: dict[Atom, np.ndarray] = {}
    for place, (atoms, truth) in enumerate(zip(by_column.values(), truths, strict=True)):
        shape = [1] * len(cells)
        shape[place] = -1
        of |= {atom: truth[at].reshape(shape) for at, atom in enumerate(atoms)}
    whole = np.broadcast_to(where.truth(of), [one.count for one in cells])
    return Chosen(tuple(cells), (whole == 1).ravel(), str(where))


def _cells_for(schema: pl.Schema, name: str, atoms: list[Atom]) -> tuple[Cells, np.ndarray]:
    """Cells of a column, and the truth of each atom in each, shape (atoms, cells)."""
    column, key = column_of(schema, name)
    if column.kind == "categorical":
        values: list[object] = [*column.categories, *([None] if key else [])]
        truth = np.array([[_in_category(column, atom, place, value)
                           for place, value in enumerate(values)] for atom in atoms])
        base = pl.questions.CategoryCells(key, len(values))
        kinds, numbers = np.unique(truth, axis=1, return_inverse=True)
        numbers = np.asarray(numbers).ravel()
        if kinds.shape[1] == len(values):
            return base, truth
        return pl.questions.MappedCells((base,), numbers, kinds.shape[1]), kinds
    edges = sorted({edge for atom in atoms for edge in _edges_of(column, atom)})
    if not edges:  # whether it is missing, and nothing else
        edges = [column.lower]
    # An atom is constant between two edges: what it says of the lower one, it says of all.
    points: list[float | None] = [-math.inf, *edges, None]
    truth = np.array([[_of_number(column, atom, value) for value in points] for atom in atoms])
    return pl.questions.IntervalCells(key, edges), truth


def _edges_of(column: pl.Column, atom: Atom) -> list[float]:
    if isinstance(atom, IsMissing):
        return []
    found = []
    for value in atom.values if isinstance(atom, IsIn) else [atom.value]:  # type: ignore[attr-defined]
        low = _counted(column, value)
        found += [low, math.nextafter(low, math.inf)]
    return found


def _counted(column: pl.Column, value: object) -> float:
    """A public value as a column of numbers counts: dates are days since its own first one."""
    if isinstance(value, str) and column.days_since is not None:
        with suppress(ValueError):
            found = date.fromisoformat(value)
            if found.isoformat() == value:  # as in cells and bounds: 20000101 is none
                return float((found - date.fromisoformat(str(column.days_since))).days)
    if isinstance(value, str | bool):
        what = "number" if column.days_since is None else "number, and no date such as 2000-01-31"
        raise pl.SchemaError(f"column {column.name!r} is numeric, and {value!r} is no {what}")
    return float(value)  # type: ignore[arg-type]


def _of_number(column: pl.Column, atom: Atom, value: float | None) -> int:
    if isinstance(atom, IsMissing):
        return int(value is None)
    if value is None:
        return 2
    if isinstance(atom, IsIn):
        return int(any(value == _counted(column, one) for one in atom.values))
    assert isinstance(atom, Compare)
    return int(_compared(value, atom.op, _counted(column, atom.value)))


def _compared(a: float, op: str, b: float) -> bool:
    return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _in_category(column: pl.Column, atom: Atom, place: int, value: object) -> int:
    if isinstance(atom, IsMissing):
        return int(value is None)
    wanted = [_position(column, one) for one in (
        atom.values if isinstance(atom, IsIn) else [atom.value])]  # type: ignore[attr-defined]
    if value is None:
        return 2
    if isinstance(atom, IsIn):
        return int(place in wanted)
    assert isinstance(atom, Compare)
    if atom.op not in ("==", "!=") and not column.ordered:
        raise pl.SchemaError(f"column {column.name!r} has categories without an order: compare "
                             "with == or !=, or say ordered in the schema")
    return int(_compared(place, atom.op, wanted[0]))


def _position(column: pl.Column, value: object) -> int:
    known = [pl.plugins.label_key(one) for one in column.categories]
    if (spelled := pl.plugins.label_key(value)) not in known:
        raise pl.SchemaError(f"column {column.name!r} has no category {value!r}")
    return known.index(spelled)


def cells_of(axes: Sequence[Axis], where: Chosen | None) -> Cells:
    """Cells of every combination of the axes, and a last one for what `where` leaves out."""
    if where is None and len(axes) < 2:
        return axes[0].cells if axes else None
    parts = [axis.cells for axis in axes] + list(where.cells if where is not None else ())
    size, combinations = size_of(axes), combinations_of(axes, where)
    if combinations > MOST_CELLS:
        raise pl.InvalidValue("by and where", combinations, f"at most {MOST_CELLS} combinations "
                              "of cells: group by fewer columns, or compare fewer")
    numbers = np.arange(size)
    if where is None:
        return pl.questions.MappedCells(parts, numbers, size)
    table = np.where(where.kept[None, :], numbers[:, None], size)
    return pl.questions.MappedCells(parts, table.ravel(), size + 1, True)


def combinations_of(axes: Sequence[Axis], where: Chosen | None) -> int:
    """Combinations of the axes, and of the columns that `where` compares."""
    return size_of(axes) * math.prod(int(part.count) for part in (where.cells if where else ()))


def size_of(axes: Sequence[Axis]) -> int:
    """Combinations of the axes."""
    return math.prod(len(axis.labels) for axis in axes)


# What is asked of the guard: one release each, but for quantiles, which are drawn one by one.


@frozen
class Key:
    """What tells one question from another, so that two statistics share one answer.

    Attributes:
        kind: `count`, `moments`, `sum`, `products`, `quantile` (draws) or `ranks` (counts between
            edges). columns: that it reads.
        edges: of columns that it counts apart; None for those with categories.
        quantiles: of draws. whole: of a column of whole numbers between whole bounds.
    """

    kind: str
    columns: tuple[str, ...] = ()
    lower: float = 0.0
    upper: float = 0.0
    edges: tuple[tuple[float | str, ...] | None, ...] = ()
    quantiles: tuple[float, ...] = ()
    whole: bool = False

    @property
    def draws(self) -> tuple[float, float, int]:
        """Ends of the intervals that draws are between, and how many there are: one for each whole
        number, where there are not too many."""
        many = round(self.upper - self.lower) + 1
        if self.whole and many <= MOST_WHOLE:
            return self.lower - 0.5, self.upper + 0.5, many
        return self.lower, self.upper, FINE


@frozen(eq=False)
class Need:
    """One question of the guard.

    Attributes:
        axes: by which its answer is divided, those of `by` first. block: what is added up; None
            for draws. share: weight in the split of the budget. outer: how many groups there are.
    """

    key: Key
    axes: tuple[Axis, ...]
    block: Summand
    share: float
    what: str
    outer: int
    signed: bool = False
    clips: tuple[float, float] = (1.0, 1.0)
    where: Chosen | None = field(default=None, repr=False)

    def moved(self, relation: str, norm: int) -> float:
        """How far one record moves the answer, as the guard derives it."""
        clip = self.clips[norm - 1]
        if relation == "add_remove":
            return clip
        if self.signed:
            return 2 * clip
        if size_of(self.axes) == 1 and self.where is None and self.block.width == 1:
            return clip
        return 2 * clip if norm == 1 else math.sqrt(2.0) * clip


def bounds_of(schema: pl.Schema, one: Statistic) -> tuple[float, float]:
    """Public bounds of a statistic's column: its own, where it has some, within the schema's."""
    column, _ = column_of(schema, one.columns[0], "numeric")
    # The guard has cut values to the schema's bounds: wider ones would be noise for nothing.
    low = column.lower if one.lower is None else max(column.lower, float(one.lower))
    high = column.upper if one.upper is None else min(column.upper, float(one.upper))
    if not low < high:
        raise pl.InvalidValue("bounds", (low, high), "lower below upper")
    return float(low), float(high)


def keys_of(schema: pl.Schema, statistics: Sequence[Statistic],
            many: int = MANY) -> dict[Statistic, Key]:
    """The question that answers each statistic; several share one where one answers them all.

    Args:
        many: so many quantiles of a column are read from one distribution.
    """
    moments = {(one.columns[0], *bounds_of(schema, one)) for one in statistics
               if one.kind in MOMENTS}
    named = {name for name, _, _ in moments}
    found: dict[Statistic, Key] = {}
    for one in statistics:
        columns = one.columns
        if one.kind in MOMENTS or (one.kind == "sum" and
                                   (columns[0], *bounds_of(schema, one)) in moments):
            found[one] = Key("moments", columns, *bounds_of(schema, one))
        elif one.kind == "sum":
            column, _ = column_of(schema, columns[0])
            own = bounds_of(schema, one) == (column.lower, column.upper)
            found[one] = Key("sum" if own else "moments", columns, *bounds_of(schema, one))
        elif one.kind == "quantile":
            bounds = bounds_of(schema, one)
            whole = column_of(schema, columns[0])[0].integer and all(
                bound.is_integer() for bound in bounds)
            found[one] = (Key("quantile", columns, *bounds, quantiles=one.quantiles, whole=whole)
                          if len(one.quantiles) < many
                          else Key("ranks", columns, *bounds, whole=whole))
        elif one.kind == "corr":
            found[one] = Key("products", columns)
        elif one.kind in ("histogram", "crosstab"):
            edges = (one.edges,) if one.kind == "histogram" else (None, None)
            found[one] = Key("count", columns, edges=edges)
        elif columns and column_of(schema, columns[0])[0].kind == "categorical":
            found[one] = Key("count", columns, edges=(None,))
        elif columns:
            bounds = next(((low, high) for name, low, high in sorted(moments)
                           if name == columns[0]), bounds_of(schema, one))
            found[one] = Key("moments", columns, *bounds)
            named.add(columns[0])
    # Rows without a question of their own: the least noisy answer that counts every row.
    counting = [key for key in dict.fromkeys(found.values()) if _counts_rows(schema, key)]
    rows = min(counting, key=lambda key: _noise_of_count(schema, key), default=Key("count"))
    found |= {one: rows for one in statistics if one.kind == "count" and not one.columns}
    return {one: found[one] for one in statistics}


def _counts_rows(schema: pl.Schema, key: Key) -> bool:
    return key.kind in ("count", "moments") and _noise_of_count(schema, key) <= 64


def _noise_of_count(schema: pl.Schema, key: Key) -> int:
    """Entries that are added up to the number of rows of one group."""
    if key.kind == "moments":
        return 3 + column_of(schema, key.columns[0])[0].missing
    return math.prod(len(axis_of(schema, name, edges).labels)
                     for name, edges in zip(key.columns, key.edges, strict=True))


def needs_of(schema: pl.Schema, statistics: Sequence[Statistic], by: Sequence[str | Cut],
             where: Predicate | None,
             names: Names = NO_NAMES) -> tuple[dict[Statistic, Key], dict[Key, Need]]:
    """Which question answers each statistic, and what each asks.

    Args:
        names: released ones, or as many places as there may be.

    Raises:
        SchemaError, InvalidValue: it cannot be asked of such a table.
    """
    groups, kept = groups_of(schema, by, names), chosen(schema, where)
    drawn = not texts_of(schema, by) or places_for(schema, statistics, by)
    keys = keys_of(schema, statistics, MANY if drawn else 1)
    text = "".join([f" by {', '.join(map(str, by))}" if by else "",
                    f" where {kept.text}" if kept is not None else ""])
    needs: dict[Key, Need] = {}
    for key in dict.fromkeys(keys.values()):
        share = max(one.share for one, its in keys.items() if its == key)
        needs[key] = _need(schema, key, groups, (where, kept), share, text)
    return keys, needs


def _need(schema: pl.Schema, key: Key, groups: tuple[Axis, ...],
          kept: tuple[Predicate | None, Chosen | None], share: float, text: str) -> Need:
    predicate, where = kept
    names = [column_of(schema, name) for name in key.columns]
    what = f"{key.kind}{f' of {chr(44).join(key.columns)}' if key.columns else ''}{text}"[:200]
    outer = size_of(groups)
    if key.kind == "count":
        axes = tuple(axis_of(schema, name, edges)
                     for name, edges in zip(key.columns, key.edges, strict=True))
        used = {axis.name for axis in groups}
        if any(axis.name in used for axis in axes):
            raise pl.InvalidValue("by", key.columns, "other columns than those of a histogram")
        return Need(key, (*groups, *axes), pl.questions.Ones(), share, what, outer, where=where)
    if key.kind == "moments":
        column, name = names[0]
        block: Summand = pl.questions.ColumnMoments(name, key.lower, key.upper, 2,
                                                bool(name) and column.missing)
        return Need(key, groups, block, share, what, outer, where=where)
    if key.kind == "sum":
        most = max(abs(key.lower), abs(key.upper))
        # The guard has cut values to the schema's bounds, which are these.
        block = pl.questions.ColumnValue(names[0][1], 0.0, most)
        return Need(key, groups, block, share, what, outer, True, where=where)
    if key.kind == "products":
        keys = [name for _, name in names]
        for name in key.columns:
            column_of(schema, name, "numeric")
        gaps = [IsMissing(column.name) for column, key_ in names if column.missing and key_]
        if gaps:  # a product with a missing value would count as if it were in the middle
            where = chosen(schema, AllOf([Not(gap) for gap in gaps] + (
                [] if predicate is None else [predicate])))
        entries = (len(keys) + 1) * (len(keys) + 2) // 2
        return Need(key, groups, (keys, entries), share, what, outer, True,
                    (float(entries), math.sqrt(entries)), where)
    if key.kind == "ranks":
        return Need(key, (*groups, rank_axis(schema, key, FINE)), pl.questions.Ones(), share, what,
                    outer, where=where)
    return Need(key, groups, None, share, what, outer, where=where)


def rank_axis(schema: pl.Schema, key: Key, bins: int) -> Axis:
    """So many even intervals between the bounds; values outside are in the first or last."""
    edges = np.linspace(key.lower, key.upper, bins + 1)[1:-1].tolist()
    column_of(schema, key.columns[0], "numeric")
    return axis_of(schema, key.columns[0], edges)
