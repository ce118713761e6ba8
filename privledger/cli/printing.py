"""Small pieces of text output. rich is imported inside, so that help starts at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from privledger.findings import Finding
from privledger.numerals import many
from privledger.reports import Outline, clean
from privledger.reports.verdict import BAD, GOOD, OPEN, Verdict
from privledger.rounding import downward, upward

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

MOST_MEMBERS = 12
SCREEN = 46
"""Lines of a tree that are read without scrolling: a longer one is told in brief."""
RED, GREEN, YELLOW = "bold red", "bold green", "yellow"


def text(value: object, style: str = "") -> Text:
    """Inert text: no markup, no control characters."""
    from rich.text import Text

    return Text(clean(value), style=style)


def verdict_text(verdict: Verdict) -> Text:
    """The first line about a ledger: nothing in it is green where anything is owed."""
    colour = {GOOD: GREEN if verdict.level == GOOD else "", OPEN: YELLOW, BAD: RED}
    line = text("")
    for place, clause in enumerate(verdict.clauses):
        line.append_text(text("; " if place else ""))
        line.append_text(text(clause.text, colour[clause.level]))
    return line


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


def pairs(rows: Iterable[tuple[str, object]]) -> Table:
    """Name and value, without lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(text(name), value if isinstance(value, Text) else text(value))
    return table


def grid(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "",
         whole: int = 0) -> Table:
    """A table with a header line. The first column is not cut below `whole` letters."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=text(title, "bold") if title else None,
                  title_justify="left", pad_edge=False, show_edge=False)
    for place, header in enumerate(headers):
        table.add_column(text(header), overflow="fold", min_width=0 if place else whole)
    for row in rows:
        table.add_row(*[cell if isinstance(cell, Text) else text(cell) for cell in row])
    return table


def tree(line: Outline, title: Text | None = None) -> Tree:
    """A composition tree with multiplicities."""
    from rich.tree import Tree

    root = Tree(_line(line) if title is None else title, guide_style="dim")
    if title is None:
        grow(root, line)
    else:
        grow(root.add(_line(line)), line)
    return root


def height(line: Outline) -> int:
    """How many lines a tree takes."""
    return 1 + sum(height(child) for child in line.children[:MOST_MEMBERS])


def grow(branch: Tree, line: Outline, *, whole: bool = False) -> None:
    """Hang what is below `line` on `branch`; long lists are cut, unless all of it is wanted."""
    most = len(line.children) if whole else MOST_MEMBERS
    for child in line.children[:most]:
        grow(branch.add(_line(child)), child, whole=whole)
    if len(line.children) > most:
        more = many(len(line.children) - most, "more member")
        branch.add(text(f"... and {more}", "dim"))


def _line(line: Outline) -> Text:
    shown = text(line.label)
    if line.members > 1:
        shown = text(f"{line.members} x {line.label}")
    if line.times > 1 and not line.children:
        shown.append_text(text(f"  {many(line.times, 'time')} in all", "dim"))
    return shown


def findings_table(findings: Sequence[Finding]) -> Table:
    """Every finding, in order of the history."""
    return grid(("rule", "entry", "what was found"),
                [(text(finding.rule, RED), "-" if finding.position < 0 else finding.position,
                  finding.message) for finding in findings])
