"""The table in docs/auditing.md: which tool finds which fault, and in how many seconds."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.zoo.hunting import Outcome
from tests.bench.zoo.patching import TOOLS, Fault, Tool
from tests.made_pages import blocks_of, keep, measured_parts, renew

PART = "What each tool finds"
"""Of what is measured (tests/made_pages.py)."""


def table(found: Sequence[Outcome]) -> str:
    """Markdown: one row for each fault, then sums for each tool."""
    faults = list(dict.fromkeys(one.fault for one in found if one.fault is not None))
    tools = [tool for tool in TOOLS if any(one.tool == tool for one in found)]
    cells = {(one.fault, one.tool): one for one in found}
    head = "| fault | family | " + " | ".join(tools) + " |"
    lines = [head, "|---" * (len(tools) + 2) + "|"]
    lines += [f"| {fault.name} | {fault.family} | "
              + " | ".join(_cell(cells.get((fault, tool))) for tool in tools) + " |"
              for fault in faults]
    return "\n".join([*lines, "", _sums(found, faults, tools)])


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    premise = outcome.by.partition(":")[0]
    return f"{premise or '-'}, {outcome.seconds:.1f} s"


def _sums(found: Sequence[Outcome], faults: Sequence[Fault], tools: Sequence[Tool]) -> str:
    each = []
    for tool in tools:
        seen = {one.fault for one in found if one.tool == tool and one.by}
        seconds = sum(one.seconds for one in found if one.tool == tool)
        each.append(f"{tool} {len(seen)} ({seconds:.0f} CPU s)")
    both = {one.fault for one in found if one.by and one.tool in ("lockstep", "noise law")}
    return (f"Of {len(faults)} faults: " + ", ".join(each)
            + f"; lockstep and the noise law together {len(both)}.")


def written(found: Sequence[Outcome]) -> None:
    """Keep what was found, and renew the page."""
    keep(measured_parts() | {PART: blocks_of(table(found))})
    renew()


def names() -> list[str]:
    """Names of the faults in the kept table."""
    return [row[0] for row in measured_parts()[PART][0]["rows"]]
