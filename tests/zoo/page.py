"""The table in docs/auditing.md: which tool finds which fault, and in how many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.zoo.hunting import Outcome
from tests.zoo.patching import TOOLS, Fault, Tool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "auditing.md"
BEGIN, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"


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


def written(text: str, found: Sequence[Outcome]) -> str:
    """The page with a new table between its marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{rest.partition(END)[2]}"


def names_in(text: str) -> list[str]:
    """Names of the faults in the page's table."""
    inside = text.partition(BEGIN)[2].partition(END)[0]
    return [line.split("|")[1].strip() for line in inside.splitlines()
            if line.startswith("| ") and not line.startswith("| fault ")]
