"""Tables that the checks fit on: made by arithmetic, so that every run sees the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.errors import SchemaError, UnsupportedNode
from privledger.plugins import Priced
from privledger.tables.schema import Column, Schema

Table = tuple[dict[str, NDArray[Any]], NDArray[Any]]

_TARGETS = {
    "regression": Column("target", "numeric", "target", 0.0, 10.0),
    "classification": Column("target", "categorical", "target", categories=("no", "yes")),
    "several classes": Column("target", "categorical", "target",
                              categories=("no", "yes", "perhaps", "unknown")),
}
_NUMBERS = (Column("size", "numeric", "feature", 0.0, 1.0),
            Column("weight", "numeric", "feature", -5.0, 5.0))
_COLOURS = ("red", "green", "blue")
_TEXTS = ("a text", "another text", "a rare text", "a text of one")


def _rounded(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """To whole numbers; what is missing stays."""
    if values.dtype.kind == "O":
        return np.array([one if one is None else float(np.rint(one)) for one in values],
                        dtype=object)
    return np.rint(values) if values.dtype.kind == "f" else values


@frozen(eq=False)
class Example:
    """Public facts and a table that fits them: numbers of whole columns are rounded, and columns
    of texts hold a common text, a less common and a rare one, unless others are given.

    Attributes:
        X: columns by name, each of shape (n_records,). y: the target, shape (n_records,).
        unlabelled: whether targets may be missing (None, or NaN).
        people: an id for each row, under unit `person`; None where a record is a row.
    """

    schema: Schema
    X: dict[str, NDArray[Any]]
    y: NDArray[Any]
    unlabelled: bool = False
    people: NDArray[np.int64] | None = None

    def __attrs_post_init__(self) -> None:
        made = {}
        for column in self.schema.columns:
            if column.role == "key" and column.name not in self.X:
                often = np.array([_TEXTS[at] for at in (0, 0, 0, 1, 0, 1, 2)], dtype=object)
                made[column.name] = np.resize(often, len(self.y))
            elif column.integer and column.name in self.X:
                made[column.name] = _rounded(self.X[column.name])
            elif column.integer and column.role == "target":
                object.__setattr__(self, "y", _rounded(self.y))
        if made:
            object.__setattr__(self, "X", {**self.X, **made})

    @property
    def n_records(self) -> int:
        """Rows of the table, labelled or not."""
        return len(self.y)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which records have a target, shape (n_records,)."""
        return np.array([value is not None and value == value for value in self.y], dtype=bool)

    def take(self, places: Any) -> Example:
        """The records at `places`, in that order."""
        return evolve(self, X={name: column[places] for name, column in self.X.items()},
                      y=self.y[places],
                      people=None if self.people is None else self.people[places])

    def with_target(self, place: Any, value: Any) -> Example:
        """The same records but for the target at one place, or at several."""
        y = self.y.copy()
        y[place] = value
        return evolve(self, y=y)

    def with_column(self, name: str, values: Any) -> Example:
        """The same records but for one column."""
        return evolve(self, X={**self.X, name: np.asarray(values)})


def example_schema(task: str, *, numbers_only: bool = False, texts: bool = False) -> Schema:
    """Two numbers and a category, one of them with missing cells; a number or classes.

    Args:
        task: `regression`, `classification` (two classes) or `several classes` (four).
        numbers_only: for learners that take complete numeric features only.
        texts: whether there is a column `place` of texts, too.
    """
    size, weight = _NUMBERS
    features = (_NUMBERS if numbers_only else
                (size, evolve(weight, missing=True),
                 Column("colour", "categorical", "feature", categories=_COLOURS)))
    more = (Column("place", "text", "key", missing=True),) if texts else ()
    return Schema("example", (*features, *more, _TARGETS[task]))


def example_table(task: str, rows: int = 240) -> Table:
    """Features and target for `example_schema(task)`."""
    place = np.arange(rows)
    size = (place * 0.61803398875) % 1.0
    weight = ((place * 0.41421356237) % 1.0) * 10 - 5
    weight[place % 17 == 0] = np.nan
    colour = np.array(_COLOURS)[place % 3]
    value = 10 * size * (0.5 + 0.5 * (colour == "red"))
    if task == "regression":
        return {"size": size, "weight": weight, "colour": colour}, value
    labels = np.array(_TARGETS[task].categories)
    code = (np.where(value > 4, 1, 0) if len(labels) == 2 else
            np.minimum(value / 2.5, len(labels) - 1).astype(int))
    return {"size": size, "weight": weight, "colour": colour}, labels[code]


def example(schema: Schema, task: str, rows: int = 240) -> Example:
    """A table of the example for `schema`, which may lack the category."""
    X, y = example_table(task, rows)
    if len(schema.features) == 2:
        X = {"size": X["size"], "weight": np.nan_to_num(X["weight"], nan=0.0)}
    return Example(schema, X, y)


def without_some(table: Example) -> Example:
    """The same records, every third one without its label."""
    y: NDArray[Any] = table.y.astype(object if table.y.dtype.kind == "U" else float)
    y[::3] = None
    return evolve(table, y=y, unlabelled=True)


def tasks_of(learner: Priced) -> tuple[str, ...]:
    """The kinds of target to try: of a learner that says nothing, a number."""
    tasks = learner.info.tasks
    if not tasks or "regression" in tasks:
        return ("regression",) if "classification" not in tasks else (
            "regression", "classification", "several classes")
    return ("classification", "several classes")


def examples_for(learner: Priced, given: Example | None = None) -> tuple[Example, ...]:
    """One example per kind of target that the learner can plan for, mixed features first.

    A learner may refuse a schema that it cannot use with `SchemaError` or `UnsupportedNode`;
    any other failure is its own.
    """
    if given is not None:
        return (given,)
    found = []
    for task in tasks_of(learner):
        for asked in ({}, {"numbers_only": True}, {"texts": True}):
            schema = example_schema(task, **asked)
            try:
                learner.plan(schema)
            except (SchemaError, UnsupportedNode):
                continue
            made = example(schema, task)
            # A learner may say that it is for tables where some labels are missing.
            found.append(without_some(made) if getattr(learner, "unlabelled", False) else made)
            break
    if not found:
        learner.plan(example_schema(tasks_of(learner)[0]))  # raises, and says why
    return tuple(found)


def read_columns(schema: Schema) -> tuple[Column, ...]:
    """What a row has beside its target: features in their order, then texts."""
    return (*schema.features, *schema.keys)


def listed_values(column: Column) -> tuple[Any, ...]:
    """Values of a column that is no number: its categories, or the kit's texts."""
    return _TEXTS if column.role == "key" else column.categories


def ends(column: Column) -> tuple[Any, Any]:
    """Two values as far apart as a column allows."""
    if column.kind == "numeric":
        return column.lower, column.upper
    return listed_values(column)[0], listed_values(column)[-1]


def extremes(schema: Schema) -> tuple[Any, Any]:
    """Two targets as far apart as the schema allows."""
    return ends(schema.target)


def same_records(base: Example, count: int, target: Any) -> Example:
    """`count` copies of one record with this target: nothing hides another one beside them."""
    copies = base.take(np.zeros(count, dtype=int))
    y: NDArray[Any] = np.full(count, target, dtype=base.y.dtype)
    return evolve(copies, y=y)


def worst_pair(base: Example, relation: str, records: int = 1,
               count: int = 8) -> tuple[Example, Example]:
    """Equal records, and so many with the farthest target beside them, or in the last ones' place:
    in a lock the record that differs comes last."""
    low, high = extremes(base.schema)
    if relation == "add_remove":
        last = np.arange(count, count + records)
        return (same_records(base, count, low),
                same_records(base, count + records, low).with_target(last, high))
    rows = max(count, records)
    first = same_records(base, rows, low)
    return first, first.with_target(np.arange(rows - records, rows), high)


def neighbours_of(base: Example, relation: str) -> dict[str, Example]:
    """Tables one record away from `base`, by what was done to the record."""
    low, high = extremes(base.schema)
    # Which records have a label is public where labels alone are private, so a labelled one.
    place = 1 if base.unlabelled else 0
    other = high if base.y[place] == low else low
    places = np.arange(base.n_records)
    if relation == "replace_label":
        return {"label replaced": base.with_target(place, other)}
    swapped = places.copy()
    swapped[0] = 1
    replaced = base.take(swapped).with_target(0, other)
    if relation == "replace_one":
        return {"record replaced": replaced}
    return {"record removed": base.take(places[1:]),
            "record added": base.take(np.append(places, 0)), "record replaced": replaced}


def others_of(given: Example, relation: str) -> dict[str, Example]:
    """Tables of the same schema with other records; under `replace_label`, with other labels.

    One of them has equal records, where it may only three: no other extremes, order of size,
    missing cells, sets of categories or powers of two of a row count.
    """
    target = given.schema.target
    y, known = given.y.copy(), given.labelled
    y[known] = _mirrored(target, y[known])
    found = {"other targets": evolve(given, y=y)}
    if relation == "replace_label":
        return found
    mirrored = evolve(given, y=y, X={c.name: _mirrored(c, given.X[c.name])
                                     for c in read_columns(given.schema)})
    middle = (target.lower + 0.37 * (target.upper - target.lower) if target.kind == "numeric"
              else target.categories[0])
    fewer = relation == "add_remove" and given.n_records > 37
    equal = same_records(given, 3 if fewer else given.n_records, middle)
    if fewer:
        return found | {"fewer, other records": mirrored.take(np.arange(given.n_records - 37)),
                        "few, equal records": equal}
    return found | {"other records": mirrored, "equal records": equal}


def _mirrored(column: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Other cells of the column, with other extremes."""
    if column.kind == "numeric":
        span = column.upper - column.lower
        return np.asarray(column.lower + 0.05 * span + 0.85 * (column.upper - values.astype(float)))
    names = listed_values(column)
    keys = [str(name) for name in names]
    return np.array([names[(keys.index(str(v)) + 1) % len(keys)]
                     if str(v) in keys else v for v in values], dtype=values.dtype)
