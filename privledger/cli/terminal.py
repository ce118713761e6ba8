"""The terminal: what prints, and bars on stderr for long work, gone when it is done."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import click
from attrs import frozen

from privledger.findings import Finding
from privledger.numerals import many
from privledger.reading import SHOWN
from privledger.reports import Outline, clean
from privledger.reports.survey import BAD, GOOD, OPEN, Clause, LedgerVerdict, sentence
from privledger.rounding import downward, upward

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from privledger.guard import Ledger

WIDTH, MOST_WORD = 100, 24


def console(*, stderr: bool = False) -> Console:
    """A rich console that reads no markup, so that a label is only ever a label.

    rich itself looks at NO_COLOR and FORCE_COLOR. What goes into a pipe is `WIDTH` wide.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


# Pieces of a page. rich is imported inside, so that help starts at once.

MOST_MEMBERS = 12
RED, GREEN, YELLOW = "bold red", "bold green", "yellow"


def text(value: object, style: str = "") -> Text:
    """Inert text: no markup, no control characters."""
    from rich.text import Text

    return Text(clean(value), style=style)


def verdict_text(verdict: LedgerVerdict) -> Text:
    """The first line about a ledger: nothing in it is green where anything is owed."""
    return clauses_text(verdict.clauses, verdict.level)


def clauses_text(clauses: Iterable[Clause], level: str) -> Text:
    """Clauses of a verdict as sentences."""
    colour = {GOOD: GREEN if level == GOOD else "", OPEN: YELLOW, BAD: RED}
    line = text("")
    for clause in clauses:
        line.append_text(text(" " if line else ""))
        line.append_text(text(f"{sentence(clause.text)}.", colour[clause.level]))
    return line


def bar_text(share: float, width: int = 20) -> Text:
    """A share of the budget as a bar; rounded up, and red where more than all is spent."""
    full = min(width, math.ceil(share * width))
    return text(f"[{'#' * full}{'.' * (width - full)}]", RED if share > 1 else "")


def room(left: float, budget: float) -> str:
    """What would still be granted, in a sentence."""
    if left <= 0:
        return "The budget is used up."
    if left < budget / 1000:
        return f"The budget is used up, except for epsilon {remainder(left)}."
    return f"Room for one more run of up to epsilon {remainder(left)}."


DIGITS = 4


def charge(value: float | None) -> str:
    """What is spent, asked, claimed or promised, for people: rounded up; "-" where unknown."""
    return "-" if value is None else upward(value, DIGITS)


def remainder(value: float | None) -> str:
    """What is left, or proved from below, for people: rounded down; "-" where unknown."""
    return "-" if value is None else downward(value, DIGITS)


def quality(value: float | None) -> str:
    """How well a model does, for people: no charge, rounded to nearest."""
    return "-" if value is None else f"{value:.4g}"


@frozen
class Fitting:
    """A table where it fits, and on a narrow terminal what to print instead: a figure that is
    broken in two, or cut, is another figure."""

    table: Table
    instead: tuple[RenderableType, ...]

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        from rich.measure import Measurement

        ample = options.update(max_width=1000 * WIDTH)
        if options.max_width >= WIDTH or (
                Measurement.get(out, ample, self.table).minimum <= options.max_width):
            return (self.table,)
        return self.instead


def pairs(rows: Iterable[tuple[str, object]]) -> Fitting:
    """Name and value, without lines; one below the other where there is no room."""
    from rich.padding import Padding
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    instead: list[RenderableType] = []
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(text(name), _cell(value))
        instead += [text(name, "dim"), Padding(_cell(value), (0, 0, 0, 2))]
    return Fitting(table, tuple(instead))


def _cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else text(value)


def grid(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "",
         whole: int = 0, cut: Collection[str] = ()) -> Fitting:
    """A table with a header line; where there is no room, name and value of one row after another.

    Args:
        whole: letters of the first column that are never cut. cut: headers of columns whose
            cells are one line, with an ellipsis where they are cut.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=text(title, "bold") if title else None,
                  title_justify="left", pad_edge=False, show_edge=False)
    cells = [[_cell(one) for one in row] for row in rows]
    for place, header in enumerate(headers):
        column = [text(header), *(row[place] for row in cells)]
        words = [len(word) for one in column for word in one.plain.split()]
        short = header in cut  # whose room goes to the words of the others
        table.add_column(column[0], overflow="ellipsis" if short else "fold",
                         no_wrap=bool(whole and not place),
                         min_width=whole if not place else
                         min(MOST_WORD, max(words, default=0)) if cut and not short else None)
        for one in column[1:]:
            one.no_wrap = short or None
    instead: list[RenderableType] = [text(title, "bold")] if title else []
    for row in cells:
        table.add_row(*row)
        instead += [pairs(zip(headers, row, strict=True)), ""]
    return Fitting(table, tuple(instead))


def flow(out: Console, line: Text) -> None:
    """A sentence: whole in a pipe, between words on a terminal."""
    out.print(line, soft_wrap=not out.is_terminal)


@frozen
class Label:
    """A line of a tree. Where it does not fit, it is broken before a figure, and never in one."""

    line: Text

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> Iterable[Text]:
        from rich.measure import Measurement
        from rich.text import Text

        ample = options.update(max_width=1000 * WIDTH)
        if Measurement.get(out, ample, self.line).minimum <= options.max_width:
            return (self.line,)
        places = [one.end() for one in re.finditer(r"[(=]+", self.line.plain)]
        return (Text(" ").join(self.line.divide(places)),)


def tree_line(value: object, style: str = "") -> Label:
    """Inert text as a line of a tree."""
    return Label(text(value, style))


def tree(line: Outline, title: Text | None = None) -> Tree:
    """A composition tree with multiplicities."""
    from rich.tree import Tree

    root = Tree(Label(_line(line)) if title is None else title, guide_style="dim")
    if title is None:
        grow(root, line)
    else:
        grow(root.add(Label(_line(line))), line)
    return root


def grow(branch: Tree, line: Outline, *, whole: bool = False) -> None:
    """Hang what is below `line` on `branch`; long lists are cut, unless all of it is wanted."""
    most = len(line.children) if whole else MOST_MEMBERS
    for child in line.children[:most]:
        grow(branch.add(Label(_line(child))), child, whole=whole)
    if len(line.children) > most:
        more = many(len(line.children) - most, "more member")
        branch.add(tree_line(f"... and {more}", "dim"))


def _line(line: Outline) -> Text:
    shown = text(line.label)
    if line.members > 1:
        shown = text(f"{line.members} x {line.label}")
    if line.times > 1 and not line.children:
        shown.append_text(text(f"  {many(line.times, 'time')} in all", "dim"))
    return shown


def findings_table(findings: Sequence[Finding]) -> Fitting:
    """Every finding, in order of the history."""
    return grid(("rule", "entry", "what was found"),
                [(text(finding.rule, RED), "-" if finding.position < 0 else finding.position,
                  finding.message) for finding in findings])


# How far long work is: bars on stderr, on a terminal only, and gone when the work is done.

T = TypeVar("T")
DELAY, AGAIN = 0.5, 0.1
"""Seconds of work before the first bar, and between two looks at one."""
_QUIET = "privledger.quiet"


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_QUIET] = value


quiet_option = click.option("--quiet", is_flag=True, expose_value=False, callback=_be_quiet,
                            help="Show no progress.")


class StepBars:
    """A bar for each kind of step. No thread draws them: the work tells how far it is."""

    def __init__(self) -> None:
        self._began, self._due = monotonic(), dict[str, float]()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, title: str, items: Iterable[T]) -> Iterable[T]:
        """The items, counted as they are taken; see `privledger.reading.stepwise`."""
        total = len(items) if isinstance(items, Sized) else None
        for done, item in enumerate(items):
            self.tell(title, done, total)
            yield item

    def tell(self, title: str, done: int, total: int | None = None) -> None:
        """Show so many steps, unless there was a look a moment ago."""
        now = monotonic()
        if now < self._due.get(title, self._began + DELAY):
            return
        self._due[title] = now + AGAIN
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        if title not in self._tasks:
            self._tasks[title] = self._bars.add_task(title, total=total)
        self._bars.update(self._tasks[title], completed=done, total=total, refresh=True)

    def close(self) -> None:
        """Take the bars off the screen."""
        if self._bars is not None:
            self._bars.stop()


def _bars() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(TextColumn("{task.description}", markup=False), BarColumn(),
                    MofNCompleteColumn(), TimeElapsedColumn(), console=console(stderr=True),
                    transient=True, auto_refresh=False)


@contextmanager
def progress() -> Iterator[None]:
    """Show long work while the block runs: not in a pipe, not under CI, not with --quiet."""
    if not sys.stderr.isatty() or os.environ.get("CI") or click.get_current_context().meta.get(
            _QUIET):
        yield
        return
    bars = StepBars()
    before = SHOWN.set(bars)
    try:
        yield
    finally:
        SHOWN.reset(before)
        bars.close()


@contextmanager
def watching(book: Ledger, releases: int | None) -> Iterator[None]:
    """Show releases of a ledger, rows that go to disk, and chunks that are answered.

    Args:
        releases: to come, if that is known.
    """
    bars = SHOWN.get()
    if isinstance(bars, StepBars):
        book.on_rows = lambda done: bars.tell("rows written to chunks", done)
        book.on_chunks = lambda done, of: bars.tell("chunks of a release", done, of)
        book.on_release = lambda done: bars.tell("releases", done, releases)
    try:
        yield
    finally:
        book.on_release = book.on_rows = book.on_chunks = None
