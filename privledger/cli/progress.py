"""How far long work is: bars on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from privledger.guard import Ledger
from privledger.reports.steps import PlanSteps, silent

T = TypeVar("T")
FEW = 2000  # what is done at once needs no bar


@contextmanager
def counting(*, shown: bool) -> Iterator[PlanSteps]:
    """Steps that are shown as bars while the block runs."""
    if not (shown and sys.stderr.isatty()):
        yield silent
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from privledger.cli.output import console

    bar = Progress(TextColumn("{task.description}", markup=False), BarColumn(),
                   MofNCompleteColumn(), TimeElapsedColumn(), console=console(stderr=True),
                   transient=True)

    def steps(title: str, items: Collection[T]) -> Iterable[T]:
        if len(items) < FEW:
            return items
        return bar.track(items, total=len(items), description=title)

    with bar:
        yield steps


@contextmanager
def watching(book: Ledger, total: int | None, *, shown: bool, chunks: bool = False
             ) -> Iterator[None]:
    """Bars while the block runs: over releases, and over rows and chunks of a table on disk.

    Args:
        total: releases to come, if that is known. chunks: whether the table goes to disk.
    """
    if not (shown and sys.stderr.isatty()):
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from privledger.cli.output import console

    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TimeElapsedColumn(), console=console(stderr=True), transient=True)
    with bar:
        if chunks:
            rows = bar.add_task("rows to chunks", total=None)
            part = bar.add_task("chunks of a release", total=None)
            book.on_rows = lambda done: bar.update(rows, completed=done)
            book.on_chunks = lambda done, of: bar.update(part, completed=done, total=of)
        task = bar.add_task("releases", total=total)
        book.on_release = lambda done: bar.update(task, completed=done)
        try:
            yield
        finally:
            book.on_release = book.on_rows = book.on_chunks = None
