"""How far long work is: bars on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from privledger.reports.steps import Steps, silent

T = TypeVar("T")
FEW = 2000  # what is done at once needs no bar


@contextmanager
def counting(*, shown: bool) -> Iterator[Steps]:
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
