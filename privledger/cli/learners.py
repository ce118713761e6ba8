"""`privledger learners`: installed plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privledger.cli.output import Guarded, emit, format_option, note
from privledger.cli.printing import RED, grid, text
from privledger.errors import LearnerError
from privledger.plugins import learner_names, load_learner

if TYPE_CHECKING:
    from rich.console import Console


def describe(name: str) -> dict[str, Any]:
    """What one plugin says about itself, or why it cannot be loaded."""
    try:
        info = load_learner(name).info
    except LearnerError as error:
        return {"name": name, "error": str(error)}
    return {"name": name, "summary": info.summary, "paper": info.paper,
            "relations": list(info.relations), "tasks": list(info.tasks)}


@click.command(cls=Guarded)
@format_option
def learners(format_: str) -> None:
    """List the installed learners."""
    found = [describe(name) for name in learner_names()]
    if not found:
        note("no learner is installed: see the entry-point group privledger.learners")

    def render(out: Console) -> None:
        rows = []
        for item in found:
            if "error" in item:
                rows.append((item["name"], text(item["error"], RED), "", ""))
            else:
                rows.append((item["name"], item["summary"], item["paper"],
                             ", ".join(item["tasks"])))
        if rows:
            # Names are typed again elsewhere: one that is cut over two lines cannot be copied.
            whole = min(40, max(len(item["name"]) for item in found))
            out.print(grid(("learner", "summary", "paper", "tasks"), rows, whole=whole))

    emit(format_, {"learners": found}, render)
