"""The answer to a summary, and the forecast of one: labelled rows, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from textwrap import wrap
from typing import Any, Self
from unicodedata import category

from attrs import evolve, field, frozen

import privledger as pl

Group = tuple[Any, ...]
"""Public labels, or cells of a row of an answer."""
FIELDS = ("statistic", "value", "low", "high", "noise_sd", "rows_about")
_LEFT, _WIDE, _LINE = 190, 560, 20
"""Pixels of a picture: where bars begin and end, and how high a line is."""
OF_NOISE, OF_SAMPLE = "noise", "noise and sample"
_NOTES = {OF_NOISE: "low, high: 95 % intervals of the noise: where the table's own value is",
          OF_SAMPLE: "low, high: 95 % intervals of noise and sample: where the value of a "
                     "population is, of which the rows are a random sample; approximate in small "
                     "or skewed groups"}


def _listed(value: Iterable[object]) -> Group:
    return tuple(value)


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed: pip install 'privledger[{extra}]'. The answer "
                          "stands: to_dict() and to_csv() need no library") from None


@frozen
class AnswerRow:
    """One number of an answer.

    Attributes:
        group: values of the columns of `by`; None for missing. cell: which count of a histogram,
            crosstab or correlation it is; "" for others.
        low, high: of the noise. sample_low, sample_high: of the noise and the sample. None where
            no interval is known.
        noise_sd: standard deviation of the noise in the value, about; None where unknown.
        rows_about: noisy number of rows, or people, behind it; None where none was released.
    """

    group: Group = field(converter=_listed)
    statistic: str
    cell: str
    value: float | None
    low: float | None = None
    high: float | None = None
    noise_sd: float | None = None
    rows_about: float | None = None
    sample_low: float | None = None
    sample_high: float | None = None


@frozen(repr=False)
class AnswerTable:
    """What a summary answers: rows with a label each. Released values and public facts only.

    Attributes:
        by: columns that rows are grouped by.
        held: the rows. interval: which of two intervals `low` and `high` are: `noise`, or
            `noise and sample`. epsilon, delta: what it was asked under.
        recalled: whether every number was kept from before, and cost nothing.
    """

    by: tuple[str, ...] = field(converter=_listed)
    held: tuple[AnswerRow, ...] = field(converter=_listed)
    epsilon: float
    delta: float = 0.0
    interval: str = OF_NOISE
    recalled: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns: those of `by`, `cell` where there are any, then `FIELDS`."""
        cells = ("cell",) if any(row.cell for row in self.held) else ()
        return (*self.by, *cells, *FIELDS)

    @property
    def rows(self) -> tuple[Group, ...]:
        """The rows, in the order of `columns`."""
        cells = any(row.cell for row in self.held)
        sampled = self.interval == OF_SAMPLE
        return tuple((*row.group, *((row.cell,) if cells else ()), row.statistic, row.value,
                      row.sample_low if sampled else row.low,
                      row.sample_high if sampled else row.high, row.noise_sd, row.rows_about)
                     for row in self.held)

    def sampling(self) -> Self:
        """The same with intervals of the noise and of the sample. Costs nothing."""
        return evolve(self, interval=OF_SAMPLE)

    def value(self, statistic: str, cell: str = "", **group: object) -> float | None:
        """One number, by its name, and by the values of the columns of `by`.

        Raises:
            InvalidValue: no row, or several, are called so.
        """
        found = [row for row in self.held if row.statistic == statistic and row.cell == cell and
                 all(dict(zip(self.by, row.group, strict=True)).get(name, self) == value
                     for name, value in group.items())]
        if len(found) != 1:
            known = ", ".join(dict.fromkeys(row.statistic for row in self.held))
            raise pl.InvalidValue("statistic", statistic, f"one row of this answer, by all of "
                                  f"{', '.join(self.by) or 'no column'}; there are {known}")
        return found[0].value

    def to_dict(self) -> dict[str, list[object]]:
        """Lists by name of column."""
        return {name: [row[place] for row in self.rows] for place, name in enumerate(self.columns)}

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        return _library("pandas", "dataframes").DataFrame(self.to_dict())

    def to_polars(self) -> Any:
        """A polars data frame."""
        return _library("polars", "polars").DataFrame(self.to_dict(), strict=False)

    def to_arrow(self) -> Any:
        """The rows of the answer as a pyarrow table."""
        return _library("pyarrow", "parquet").table(self.to_dict())

    def to_csv(self) -> str:
        """Comma-separated text with a line of names; empty for what is not there."""
        import csv
        import io

        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()

    def to_svg(self) -> str:
        """A picture: a bar for each number, with its interval, below the name of its statistic."""
        lines, place = list[str](), 0
        for name in dict.fromkeys(row.statistic for row in self.held):
            held = [row for row in self.rows if row[self.columns.index("statistic")] == name]
            lines.append(f'<text x="8" y="{place + 16}" font-weight="bold">{escape(name)}</text>')
            lines += _bars(self.columns, held, place + _LINE)
            place += _LINE * (len(held) + 2)
        for line in wrap(self.note, 100):  # in the picture's width
            place += _LINE
            lines.append(f'<text x="8" y="{place - 8}" font-size="10">{escape(line)}</text>')
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE + 90}" '
                f'height="{place}" font-family="sans-serif" font-size="12" role="img">\n'
                '<rect width="100%" height="100%" fill="white"/>\n'
                + "\n".join(lines) + "\n</svg>\n")

    def __str__(self) -> str:
        return f"{table_text(self.columns, self.rows)}\n{self.note}"

    @property
    def note(self) -> str:
        """What the intervals are."""
        paid = ("recalled, nothing was spent" if self.recalled
                else f"asked at epsilon {self.epsilon:g}")
        return f"{_NOTES[self.interval]}; {paid}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks. Names from outside are escaped."""
        return (table_html(self.columns, self.rows)
                + f"<p><small>{escape(self.note)}</small></p>")


@frozen(repr=False)
class AnswerForecast:
    """What a summary would cost and how exact it would be; no data were opened.

    Attributes:
        plan: the node that would be reserved. price: its epsilon at `delta`.
        lines: (statistic, half width of the noise's 95 % interval, of noise and sample, rows
            assumed) of one group; None where none is known. assumed: of what the lines hold.
    """

    plan: pl.Node
    price: float
    delta: float
    lines: tuple[tuple[str, float | None, float | None, float | None], ...]
    assumed: str

    def table(self) -> tuple[tuple[str, ...], tuple[Group, ...]]:
        """Names of columns, and rows."""
        return ("statistic", "noise +-", "noise and sample +-", "rows"), self.lines

    @property
    def note(self) -> str:
        """The price, and what is assumed."""
        return (f"price: epsilon {pl.plugins.upward(self.price)} at delta {self.delta:g}; "
                f"{self.assumed}")

    def __str__(self) -> str:
        return f"{table_text(*self.table())}\n{self.note}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(*self.table()) + f"<p><small>{escape(self.note)}</small></p>"


def _bars(columns: Sequence[str], rows: Sequence[Group], top: int) -> list[str]:
    """Lines of a picture for the numbers of one statistic, at one scale that has 0 on it."""
    value, low, high = (columns.index(name) for name in ("value", "low", "high"))
    known = [float(one) for row in rows for one in (row[value], row[low], row[high])
             if one is not None]
    least, most = min([0.0, *known]), max([0.0, *known])

    def across(number: float) -> float:
        return _LEFT + (_WIDE - _LEFT) * (number - least) / ((most - least) or 1.0)

    lines = []
    for at, row in enumerate(rows):
        y = top + _LINE * at
        words = ", ".join("missing" if one is None else shown(one)
                          for one in row[:columns.index("statistic")] if one != "")
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 14}" text-anchor="end">{escape(words)}</text>')
        if row[value] is None:
            continue
        ends = sorted((across(0.0), across(row[value])))
        lines.append(f'<rect x="{ends[0]:.1f}" y="{y + 3}" width="{ends[1] - ends[0]:.1f}" '
                     f'height="{_LINE - 6}" fill="#7aa6c2"/>')
        if row[low] is not None and row[high] is not None:
            lines.append(f'<path d="M{across(row[low]):.1f} {y + 10}H{across(row[high]):.1f}" '
                         'stroke="#1b3a4b" stroke-width="2"/>')
        lines.append(f'<text x="{_WIDE + 6}" y="{y + 14}">{shown(row[value])}</text>')
    return lines


def shown(value: object) -> str:
    """A cell of a table as text; names may come from rows: their control characters are no text."""
    if value is None:
        return "-"
    said = f"{value:.6g}" if isinstance(value, float) else str(value)
    return said if said.isprintable() else "".join(
        "?" if category(letter)[0] == "C" or category(letter) in ("Zl", "Zp") else letter
        for letter in said)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table for a terminal: numbers to the right."""
    texts = [list(columns), *([shown(value) for value in row] for row in rows)]
    right = [all(isinstance(row[place], int | float) or row[place] is None for row in rows)
             for place in range(len(columns))]
    widths = [max(len(row[place]) for row in texts) for place in range(len(columns))]
    return "\n".join("  ".join(
        text.rjust(width) if at else text.ljust(width)
        for text, width, at in zip(row, widths, right, strict=True)).rstrip() for row in texts)


def table_html(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table for a notebook; every text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(value))}</td>" for value in row) + "</tr>"
                   for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
