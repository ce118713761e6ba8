"""A stated subset of SQL -> summaries. What is not in it is refused with its place in the text."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NoReturn, TypeAlias

import click
from attrs import field, frozen

from privledger.errors import PrivledgerError
from privledger.numerals import meant
from privledger.tables.schema import Schema
from privledger.tables.text_form import day

SUPPORTED = (
    "select of group columns and of count(*), count(column), sum, avg, "
    "min, max, median, variance, stddev, corr(a, b), quantile(column, q), percentile_cont(q) "
    "within group (order by column), histogram(column, edge, ...), each with `as` if wanted; "
    "from one table; where with = <> < <= > >= between in is null and or not; group by columns and "
    "cut(column, edge, ...)")
PLAIN = {"Sum": "sum", "Avg": "mean", "Min": "min", "Max": "max", "Median": "median",
         "Variance": "var", "Stddev": "std", "StddevSamp": "std"}
COMPARED = {"EQ": "==", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
FIELDS = {"Between": {"this", "low", "high"}, "Count": {"this", "expressions", "big_int"},
          "Quantile": {"this", "quantile"}, "ApproxQuantile": {"this", "quantile"},
          "Ordered": {"this", "nulls_first"}}
"""Of a node, those that are read; of all others `this`, `expression` and `expressions`."""
PARTS = {"expressions", "from_", "where", "group"}
"""Of a select, those that mean something here."""


Parsed: TypeAlias = Any
"""A node of sqlglot's, which carries no types for us."""
Made: TypeAlias = Any
"""What a constructor of statistics and predicates gives, or takes: a package offers them."""


class UnsupportedSQL(click.UsageError):
    """A part of a statement that no summary says, and where it stands."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. Nothing was read. Supported: {SUPPORTED}")


@frozen
class Statement:
    """One select, as a summary takes it.

    Attributes:
        statistics, by, where: as in `summary`. text: the statement.
    """

    statistics: tuple[Made, ...]
    by: tuple[Made, ...]
    where: Made
    text: str = field(repr=False)


def statements(text: str, schema: Schema, names: Made) -> tuple[Statement, ...]:
    """Every statement of a text.

    Args:
        text: selects, separated by semicolons. schema: whose columns may be named.
        names: has the constructors of statistics and predicates, as `privledger` does.

    Raises:
        UnsupportedSQL: something else than SUPPORTED; its line and column are named.
        click.UsageError: sqlglot is not installed.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError:
        raise click.UsageError("SQL is read by sqlglot, which is not installed: pip install "
                               "'privledger[sql]'") from None
    try:
        found = [one for one in sqlglot.parse(text) if one is not None]
    except RecursionError:
        raise UnsupportedSQL("too many parentheses within each other") from None
    except SqlglotError as error:
        told = (getattr(error, "errors", None) or [{}])[0]
        where = f"line {told['line']}, column {told['col']}" if "line" in told else "the text"
        raise UnsupportedSQL(f"{where}: no SQL that can be read") from None
    if not found:
        raise UnsupportedSQL("no statement")
    try:
        return tuple(_Reader(text, schema, names).statement(one) for one in found)
    except RecursionError:
        raise UnsupportedSQL("too many parentheses within each other") from None


@frozen(eq=False)
class _Reader:
    """Of one text."""

    text: str
    schema: Schema
    names: Made

    def statement(self, node: Parsed) -> Statement:
        """A select, checked part by part."""
        if _kind(node) != "Select":
            self.refuse(node, "no select")
        for name, part in node.args.items():
            if part and name not in PARTS:
                self.refuse(part if hasattr(part, "walk") or isinstance(part, list) else node,
                            f"{name.strip('_').replace('_', ' ')} is not supported")
        if node.args.get("from_") is None:
            self.refuse(node, "no table to select from")
        table = node.args["from_"].this
        if _kind(table) != "Table" or any(
                value for name, value in table.args.items() if name not in ("this", "alias")):
            self.refuse(table, "not one table by its name")
        group = node.args.get("group")
        keys = [] if group is None else list(group.expressions)
        if group is not None and any(value for name, value in group.args.items()
                                     if value and name != "expressions"):
            self.refuse(group, "not a list of columns to group by")
        by = tuple(self._key(one) for one in keys)
        said = {one.sql().lower() for one in keys}
        statistics = []
        for one in node.expressions:
            if one.unalias().sql().lower() in said:
                continue
            if _kind(one.unalias()) == "Column":
                self.refuse(one, "a column that is not grouped by")
            statistics.append(self._statistic(one))
        if not statistics:
            self.refuse(node, "nothing that is counted or averaged")
        where = node.args.get("where")
        return Statement(tuple(statistics), by,
                         None if where is None else self._predicate(where.this), node.sql())

    def _whole(self, node: Parsed) -> str:
        """The kind of a node, if nothing of it would be left unread."""
        usual = {"this", "expression", "expressions"}
        for name, value in node.args.items():
            if value and name not in FIELDS.get(_kind(node), usual):
                self.refuse(node, f"{node.sql()}: {name} is not supported")
        return _kind(node)

    def refuse(self, node: Parsed, why: str) -> NoReturn:
        """Raise `UnsupportedSQL` with the place of `node`."""
        starts: list[int] = []
        while not starts and node is not None:  # what has no place stands where its parent does
            starts = [one.meta["start"] for one in _nodes(node) if "start" in one.meta]
            node = getattr(node, "parent", None)
        place = min(starts, default=0)
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        raise UnsupportedSQL(f"line {line}, column {column}: {why}")

    def _made(self, node: Parsed, name: str, *given: Made, **named: Made) -> Made:
        """What a constructor makes; its refusal with the place."""
        if not hasattr(self.names, name):
            self.refuse(node, f"{name} is not here yet")
        try:
            return getattr(self.names, name)(*given, **named)
        except PrivledgerError as error:
            self.refuse(node, str(error))

    def _key(self, node: Parsed) -> Made:
        if _kind(node) == "Column":
            return self._column(node)
        column, edges = self._called(node, "cut")
        return self._made(node, "cut", column, edges)

    def _called(self, node: Parsed, *wanted: str) -> tuple[str, list[float | str]]:
        """Column and edges of a function of ours."""
        name = str(node.this).lower() if _kind(node) == "Anonymous" else ""
        if name not in wanted or not node.expressions:
            self.refuse(node, "no column, and none of " + ", ".join(wanted))
        numbers = [self._literal(one) for one in node.expressions[1:]]
        if not all(day(one) if isinstance(one, str) else
                   isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
            self.refuse(node, "edges that are no numbers, and no dates")
        return self._column(node.expressions[0]), numbers

    def _statistic(self, item: Parsed) -> Made:
        node = item.unalias()
        kind = self._whole(node)
        named = {"label": item.alias} if item.alias else {}
        if kind in PLAIN:
            return self._made(node, PLAIN[kind], self._column(node.this), **named)
        if kind == "Count":
            return self._count(node, named)
        if kind == "Corr":
            return self._made(node, "corr", self._column(node.this),
                              self._column(node.expression), **named)
        if kind in ("Quantile", "ApproxQuantile"):
            return self._made(node, "quantile", self._column(node.this),
                              self._literal(node.args["quantile"]), **named)
        if kind == "WithinGroup" and _kind(node.this) == "PercentileCont":
            ordered = node.expression.expressions
            if len(ordered) != 1:
                self.refuse(node, "not one column in rising order")
            self._whole(ordered[0])
            return self._made(node, "quantile", self._column(ordered[0].this),
                              self._literal(node.this.this), **named)
        if kind == "Anonymous":
            column, edges = self._called(node, "histogram")
            return self._made(node, "histogram", column, *([edges] if edges else []), **named)
        self.refuse(node, f"{node.sql()} is no statistic")

    def _count(self, node: Parsed, named: dict[str, str]) -> Made:
        if node.expressions:
            self.refuse(node, "a count of several columns")
        if _kind(node.this) == "Star":
            return self._made(node, "count", **named)
        if _kind(node.this) == "Distinct":
            self.refuse(node.this, "count(distinct ...) is not supported: group by the column, and "
                                   "count each of its values")
        return self._made(node, "count", self._column(node.this), **named)

    def _column(self, node: Parsed) -> str:
        if _kind(node) != "Column" or _kind(node.this) != "Identifier":
            self.refuse(node, f"{node.sql() if node is not None else 'nothing'} where a column is "
                              "needed; arithmetic on columns is not supported")
        wanted, known = str(node.this.this), [one.name for one in self.schema.columns]
        near = [name for name in known if name.lower() == wanted.lower()]
        if wanted in known:
            return wanted
        if len(near) != 1 or node.this.args.get("quoted"):
            self.refuse(node, f"no column is called {wanted}{meant(wanted, known)}")
        return near[0]

    def _literal(self, node: Parsed) -> Made:
        kind = _kind(node)
        if kind == "Literal":
            if node.is_string:
                return str(node.this)
            number = float(node.this)
            return int(number) if number.is_integer() and str(node.this).isdigit() else number
        if kind == "Neg" and _kind(node.this) == "Literal" and not node.this.is_string:
            return -self._literal(node.this)
        if kind == "Boolean":
            return bool(node.this)
        self.refuse(node, f"{node.sql()} where a number or a text is needed")

    def _predicate(self, node: Parsed) -> Made:
        kind = self._whole(node)
        if kind == "Paren":
            return self._predicate(node.this)
        if kind == "Not":
            return ~self._predicate(node.this)
        if kind in ("And", "Or"):
            join: Callable[[Made, Made], Made] = operator.and_ if kind == "And" else operator.or_
            return reduce(join, [self._predicate(one) for one in _joined(node, kind)])
        if kind in COMPARED:
            return self._comparison(node, COMPARED[kind])
        if kind == "Between":
            return self._made(node, "between", self._column(node.this),
                              self._literal(node.args["low"]), self._literal(node.args["high"]))
        if kind == "In" and node.expressions:
            return self._made(node, "isin", self._column(node.this),
                              [self._literal(one) for one in node.expressions])
        if kind == "Is" and _kind(node.expression) == "Null":
            return self._made(node, "missing", self._column(node.this))
        self.refuse(node, f"{node.sql()} is no condition")

    def _comparison(self, node: Parsed, sign: str) -> Made:
        left, right = node.this, node.expression
        if _kind(left) != "Column":
            left, right, sign = right, left, TURNED.get(sign, sign)
        return self._made(node, "compare", self._column(left), sign, self._literal(right))


def _kind(node: Parsed) -> str:
    return type(node).__name__


def _nodes(part: Parsed) -> Iterator[Parsed]:
    """Everything in a part of a statement, which may be a list."""
    for one in part if isinstance(part, Sequence) and not isinstance(part, str) else [part]:
        if hasattr(one, "walk"):
            yield from one.walk()


def _joined(node: Parsed, kind: str) -> list[Parsed]:
    """Members of a chain of one word, without depth."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if _kind(one) == kind:
            waiting += [one.expression, one.this]
        else:
            found.append(one)
    return found
