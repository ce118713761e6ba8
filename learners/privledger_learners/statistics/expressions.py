"""What may be asked of a table, as frozen records: statistics, groups, and predicates of a row.

Everything here is public. Nothing is checked against a schema before a plan is made.
"""

from __future__ import annotations

import datetime
import itertools
import math
import numbers
from collections.abc import Iterable
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

import privledger as pl

Values = tuple[Any, ...]
Named = Any
"""What a statistic takes by name: lower, upper, share, label."""
Truth = np.ndarray
"""Of each candidate value: 0 false, 1 true, 2 unknown, because the cell is missing."""
SIGNS = ("==", "!=", "<", "<=", ">", ">=")
MOMENTS = ("mean", "var", "std")
KINDS = ("count", "sum", *MOMENTS, "quantile", "histogram", "crosstab", "corr")


def _listed(value: Iterable[object]) -> Values:
    return tuple(value)


def _number(name: str, value: object) -> float:
    held = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        with suppress(OverflowError):  # a whole number may be too long
            held = float(value)
    if not math.isfinite(held):
        raise pl.InvalidValue(name, value, "a finite number")
    return held


def days_of(name: str, value: object) -> object:
    """A date as a text such as 1969-12-31; anything else as it is."""
    if type(value) is datetime.date:
        return value.isoformat()
    if isinstance(value, str):
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            raise pl.InvalidValue(name, value, "a number, or a date such as 2000-01-31") from None
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise pl.InvalidValue(name, value, "the name of a column")
    return value


def _edges(value: Iterable[object]) -> Values:
    dated = tuple(days_of("edges", one) for one in value)
    found: Values = tuple(one if isinstance(one, str) else _number("edges", one) for one in dated)
    if len({isinstance(one, str) for one in found}) > 1:
        raise pl.InvalidValue("edges", found, "numbers, or dates")
    if not found or any(not a < b for a, b in itertools.pairwise(found)):
        raise pl.InvalidValue("edges", found, "finite and increasing")
    return found


# Predicates of a row. Three-valued, as in SQL: a comparison with a missing cell is unknown.


class Predicate:
    """A public predicate of a row: `p & q`, `p | q`, `~p`. A row counts where it is true."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return AllOf((self, _predicate(other)))

    def __or__(self, other: Predicate) -> Predicate:
        return AnyOf((self, _predicate(other)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a predicate is neither true nor false by itself: write & for and, | for "
                        "or, ~ for not, and pl.between(column, low, high) for two bounds")

    def atoms(self) -> tuple[Atom, ...]:
        """The comparisons that it is made of."""
        raise NotImplementedError

    def truth(self, of: dict[Atom, Truth]) -> Truth:
        """Its truth from that of its atoms, which broadcast with each other."""
        raise NotImplementedError


def _predicate(value: object) -> Predicate:
    if not isinstance(value, Predicate):
        raise pl.InvalidValue("predicate", type(value).__name__,
                              "such as pl.col(\"age\") >= 30; put each comparison in brackets")
    return value


def _parts(value: Iterable[object]) -> tuple[Predicate, ...]:
    parts = tuple(_predicate(one) for one in value)
    if not parts:
        raise pl.InvalidValue("predicate", "nothing", "at least one")
    return parts


class Atom(Predicate):
    """A predicate of one column."""

    __slots__ = ()
    column: str

    def atoms(self) -> tuple[Atom, ...]:
        """As `Predicate.atoms` says, for this kind."""
        return (self,)

    def truth(self, of: dict[Atom, Truth]) -> Truth:
        """As `Predicate.truth` says, for this kind."""
        return of[self]


def _sign(value: object) -> str:
    if value not in SIGNS:
        raise pl.InvalidValue("comparison", value, f"one of {', '.join(SIGNS)}")
    return str(value)


@frozen
class Compare(Atom):
    """A column against a public value, by one of == != < <= > >=."""

    column: str
    op: str = field(converter=_sign)
    value: Any

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value!r}"


@frozen
class IsIn(Atom):
    """Whether a column holds one of some public values."""

    column: str
    values: Values = field(converter=_listed)

    def __str__(self) -> str:
        return f"{self.column} in ({', '.join(map(repr, self.values))})"


@frozen
class IsMissing(Atom):
    """Whether the cell is empty. Never unknown."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} is missing"


@frozen
class AllOf(Predicate):
    """Whether all are true."""

    parts: tuple[Predicate, ...] = field(converter=_parts)

    def atoms(self) -> tuple[Atom, ...]:
        """As `Predicate.atoms` says, for this kind."""
        return tuple(atom for part in self.parts for atom in part.atoms())

    def truth(self, of: dict[Atom, Truth]) -> Truth:
        """As `Predicate.truth` says, for this kind."""
        held = [part.truth(of) for part in self.parts]
        # False beats unknown, unknown beats true.
        return reduce(lambda a, b: np.where((a == 0) | (b == 0), 0, np.maximum(a, b)), held)

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@frozen
class AnyOf(Predicate):
    """Whether one is true."""

    parts: tuple[Predicate, ...] = field(converter=_parts)

    def atoms(self) -> tuple[Atom, ...]:
        """As `Predicate.atoms` says, for this kind."""
        return tuple(atom for part in self.parts for atom in part.atoms())

    def truth(self, of: dict[Atom, Truth]) -> Truth:
        """As `Predicate.truth` says, for this kind."""
        held = [part.truth(of) for part in self.parts]
        return reduce(lambda a, b: np.where((a == 1) | (b == 1), 1, np.maximum(a, b)), held)

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


@frozen
class Not(Predicate):
    """Whether it is false; unknown stays unknown."""

    part: Predicate = field(converter=_predicate)

    def atoms(self) -> tuple[Atom, ...]:
        """As `Predicate.atoms` says, for this kind."""
        return self.part.atoms()

    def truth(self, of: dict[Atom, Truth]) -> Truth:
        """As `Predicate.truth` says, for this kind."""
        held = self.part.truth(of)
        return np.where(held == 2, 2, 1 - np.minimum(held, 1))

    def __str__(self) -> str:
        return f"not {self.part}"


@frozen(eq=False)
class ColumnName:
    """A column to compare: `pl.col("age") >= 30`."""

    name: str

    def __eq__(self, other: object) -> Compare:  # type: ignore[override]
        return compare(self.name, "==", other)

    def __ne__(self, other: object) -> Compare:  # type: ignore[override]
        return compare(self.name, "!=", other)

    def __lt__(self, other: object) -> Compare:
        return compare(self.name, "<", other)

    def __le__(self, other: object) -> Compare:
        return compare(self.name, "<=", other)

    def __gt__(self, other: object) -> Compare:
        return compare(self.name, ">", other)

    def __ge__(self, other: object) -> Compare:
        return compare(self.name, ">=", other)

    __hash__ = None  # type: ignore[assignment]


def col(name: str) -> ColumnName:
    """A column to compare with public values."""
    return ColumnName(_text("column", name))


def compare(column: str, op: str, value: object) -> Compare:
    """A column against a public value; `op` is one of == != < <= > >=."""
    return Compare(_text("column", column), op, _plain(value))


def between(column: str, low: float, high: float) -> Predicate:
    """low <= column <= high, as in SQL."""
    return AllOf((compare(column, ">=", low), compare(column, "<=", high)))


def isin(column: str, values: Iterable[object]) -> IsIn:
    """Whether the column holds one of `values`."""
    if isinstance(values, str) or not (found := tuple(_plain(one) for one in values)):
        raise pl.InvalidValue("values", values, "a list of at least one value")
    return IsIn(_text("column", column), found)


def missing(column: str) -> IsMissing:
    """Whether the cell is empty."""
    return IsMissing(_text("column", column))


def _plain(value: object) -> Any:
    held = value.item() if isinstance(value, np.generic) else value
    if type(held) is datetime.date:
        return held.isoformat()
    if not isinstance(held, str | bool | int | float):
        raise pl.InvalidValue("value", held, "a text, a truth value or a finite number")
    if not isinstance(held, str | bool):
        _number("value", held)
    return held


# Groups.


@frozen
class Cut:
    """Groups of a numeric column between public edges: below the first, and so on."""

    column: str
    edges: Values = field(converter=_edges)

    def __str__(self) -> str:
        return self.column


def cut(column: str, edges: Iterable[float | str]) -> Cut:
    """Groups of a numeric column between public edges, each with its lower edge; of a column of
    dates they may be dates, such as "1960-01-01"."""
    return Cut(_text("column", column), tuple(edges))


# Statistics.


@frozen
class Statistic:
    """One statistic of a group; made by `pl.count`, `pl.mean` and so on.

    Attributes:
        kind: one of `KINDS`. columns: names. quantiles: of kind `quantile`.
        edges: of a histogram of a numeric column.
        lower, upper: public bounds narrower than the schema's, or None.
        share: weight in the split of the budget among the questions.
        label: its name in the answer; "" for the default.
        margins: of a crosstab, whether its rows, columns and total are shown.
    """

    kind: str
    columns: tuple[str, ...] = field(default=(), converter=_listed)
    quantiles: tuple[float, ...] = field(default=(), converter=_listed)
    edges: Values | None = None
    lower: float | None = None
    upper: float | None = None
    share: float = 1.0
    label: str = ""
    margins: bool = True

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise pl.InvalidValue("statistic", self.kind, f"one of {', '.join(KINDS)}")
        for name in self.columns:
            _text("column", name)
        for bound in (self.lower, self.upper):
            if bound is not None:
                _number("bound", bound)
        for one in self.quantiles:
            if not 0 < _number("quantile", one) < 1:
                raise pl.InvalidValue("quantile", one, "above 0 and below 1")
        if not 0 < _number("share", self.share) <= 1e6:
            raise pl.InvalidValue("share", self.share, "above 0")

    @property
    def name(self) -> str:
        """What the answer's column `statistic` says; of several quantiles without the number."""
        return self.label or (self.kind + (f"({', '.join(self.columns)})" if self.columns else ""))

    def called(self, quantile: float) -> str:
        """The name of one of its quantiles."""
        if self.label:
            return self.label if len(self.quantiles) == 1 else f"{self.label}({quantile:g})"
        return (f"median({self.columns[0]})" if quantile == .5 else
                f"quantile({self.columns[0]}, {quantile:g})")


def count(column: str | None = None, *, share: float = 1.0, label: str = "") -> Statistic:
    """How many rows; with a column, how many whose value of it is known. Of a ledger of people:
    how many people."""
    return Statistic("count", () if column is None else (column,), share=share, label=label)


def _of(kind: str, column: str, named: dict[str, Named]) -> Statistic:
    try:
        return evolve(Statistic(kind, (column,)), **named)
    except TypeError:
        raise pl.InvalidValue(f"{kind} takes", ", ".join(named), "lower, upper, share, label"
                              ) from None


def sum(column: str, **named: Named) -> Statistic:
    """Sum of the known values; `lower`, `upper`, `share`, `label` may be given."""
    return _of("sum", column, named)


def mean(column: str, **named: Named) -> Statistic:
    """Mean of the known values; `lower`, `upper`, `share`, `label` may be given."""
    return _of("mean", column, named)


def var(column: str, **named: Named) -> Statistic:
    """Variance of the known values, with n - 1; `lower`, `upper`, `share`, `label`."""
    return _of("var", column, named)


def std(column: str, **named: Named) -> Statistic:
    """Standard deviation of the known values; `lower`, `upper`, `share`, `label`."""
    return _of("std", column, named)


def quantile(column: str, q: float | Iterable[float] = 0.5, **named: Named) -> Statistic:
    """One quantile or several; `lower`, `upper`, `share`, `label` may be given."""
    found = tuple(q) if isinstance(q, Iterable) else (q,)
    if not found or list(found) != sorted(set(found)):
        raise pl.InvalidValue("quantile", found, "one, or several that rise")
    return _of("quantile", column, {"quantiles": found, **named})


def median(column: str, **named: Named) -> Statistic:
    """The middle value: `quantile` at one half."""
    return quantile(column, 0.5, **named)


def min(column: str, **named: Named) -> Statistic:
    """The .005 quantile: a true minimum is one record's value, and stays private."""
    return quantile(column, 0.005, **{"label": f"min({column}), quantile .005", **named})


def max(column: str, **named: Named) -> Statistic:
    """The .995 quantile: a true maximum is one record's value, and stays private."""
    return quantile(column, 0.995, **{"label": f"max({column}), quantile .995", **named})


def histogram(column: str, edges: Iterable[float | str] | None = None, *, share: float = 1.0,
              label: str = "") -> Statistic:
    """Rows per category, or per interval between public `edges` of a numeric column."""
    return Statistic("histogram", (column,), edges=None if edges is None else _edges(edges),
                     share=share, label=label)


def crosstab(first: str, second: str, *, margins: bool = True, share: float = 1.0,
             label: str = "") -> Statistic:
    """Rows per pair of categories, with margins that add up."""
    if first == second:
        raise pl.InvalidValue("crosstab", first, "two different columns")
    return Statistic("crosstab", (first, second), share=share, label=label, margins=margins)


def corr(*columns: str, share: float = 1.0, label: str = "") -> Statistic:
    """Correlation of every pair of numeric columns, by one noisy matrix of products."""
    if len(set(columns)) < 2 or len(set(columns)) < len(columns):
        raise pl.InvalidValue("corr", columns, "at least two different columns")
    return Statistic("corr", columns, share=share, label=label)


RECORDS = (Statistic, Cut, Compare, IsIn, IsMissing, AllOf, AnyOf, Not)
"""What a model file may hold of a question."""
