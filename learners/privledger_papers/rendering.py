"""Rows as a table for a terminal, as JSON, or as the page of all cells."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from attrs import asdict

from privledger_papers.published_cells import PAPERS, SPREADS
from privledger_papers.rows import ONE_CLASS, STATUSES, Reached, Row
from privledger_papers.running import ENOUGH, FAST, named

HEAD = ("cell", "printed", "printed form, sound", "price charged", "our default", "ahead by",
        "printed price sound?", "status")


def number(value: float) -> str:
    """Four significant digits, or two decimals of a per cent."""
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4g}"


def _printed(row: Row) -> str:
    cell = row.cell
    if cell.value is None:
        return "-"
    beside = ""
    if cell.spread is not None:
        beside = f" ± {number(cell.spread)}" + (" (95 %)" if cell.kind == SPREADS[0] else " (sd)")
    return number(cell.value) + beside


def _reached(what: Reached | None) -> str:
    if what is None:
        return "-"
    beside = "" if math.isinf(what.half) else f" ± {number(what.half)}"
    return f"{number(what.mean)}{beside} [{what.fits}]"


def price(what: Reached | None) -> str:
    """Rounded up: a price is never shown below itself."""
    if what is None:
        return "-"
    if what.charge is None:
        return "not private"
    shown = math.ceil(what.charge * 1000) / 1000
    return f"{shown:g}" + (f" at {what.delta:g}" if what.delta else "")


def difference(row: Row) -> str:
    """Our default minus the printed figure, with the interval of ours."""
    if row.default is None or row.cell.value is None:
        return "-"
    beside = "" if math.isinf(row.default.half) else f" ± {number(row.default.half)}"
    return f"{row.default.mean - row.cell.value:+.4g}{beside}"


def line(row: Row) -> tuple[str, ...]:
    """One row as texts, in the order of `HEAD`."""
    status = f"{row.status}: {row.why}" if row.why else row.status
    shown = _reached(row.default)
    if row.default is not None:
        shown += f" ({row.default.learner})"
    return (row.cell.key, _printed(row), _reached(row.own), price(row.own), shown,
            difference(row), row.sound, status)


def as_text(found: Sequence[Row]) -> str:
    """For a terminal: columns as wide as their longest cell."""
    table = [HEAD, *(line(row) for row in found)]
    wide = [max(len(one[place]) for one in table) for place in range(len(HEAD))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(one, wide, strict=True))
                     .rstrip() for one in table)


def as_json(found: Sequence[Row]) -> str:
    """Every field of every row; an interval that is not known is null."""
    def plain(row: Row) -> dict[str, object]:
        fields = asdict(row)
        for side in ("own", "default"):
            if fields[side] is not None and math.isinf(fields[side]["half"]):
                fields[side]["half"] = None
        return fields | {"key": row.cell.key, "ahead": row.ahead}

    return json.dumps([plain(row) for row in found], indent=1, allow_nan=False)


def counts(found: Sequence[Row]) -> dict[str, int]:
    """How many rows have each status."""
    return {status: sum(row.status == status for row in found) for status in STATUSES}


def summary(found: Sequence[Row]) -> list[str]:
    """What a reader wants to know first, one sentence each."""
    in_print = [row for row in found if row.cell.value is not None]
    private = [row for row in in_print if row.cell.epsilon is not None]
    sound = [row for row in private if row.sound.startswith("yes")]
    beside = [row for row in private if row.ahead is not None]
    ahead = [row for row in beside if row.ahead]
    mine = [row for row in beside if row.cell.role == "paper"]
    ran = [row for row in found if row.own is not None]
    more = len(found) - len(in_print)
    fits = {named(row.cell, form): one for row in found
            for form, one in (("printed", row.own), ("default", row.default)) if one is not None}
    owed = sum(one.due > 0 for one in fits.values())
    flat = sum(one.one_class for one in (row.own for row in ran) if one)
    return [
        f"{len(in_print)} printed cells{f', and {more} that no paper prints' * bool(more)}; "
        f"{len(ran)} stand beside a fit of their own system here: "
        + ", ".join(f"{count} {status}" for status, count in counts(found).items() if count) + ".",
        f"{flat} cells say: {ONE_CLASS}. {owed} of {len(fits)} means rest on fewer fits "
        f"than they are due: {ENOUGH} where a fit takes under {FAST:g} s of CPU.",
        f"{len(private)} cells print a privacy budget; it holds as printed in {len(sound)}.",
        f"Our sound default is ahead of {len(ahead)} of the {len(beside)} private figures that it "
        f"stands beside, and of {sum(bool(row.ahead) for row in mine)} of the {len(mine)} that a "
        "paper prints for its own systems.",
    ]


def _by_table(found: Sequence[Row]) -> list[str]:
    lines = ["| table | cells | reproduced | uncertain | differs | other task | no data | "
             "refused or not run | default ahead, of |", "|---|---|---|---|---|---|---|---|---|"]
    for table in dict.fromkeys(row.cell.table for row in found):
        own = [row for row in found if row.cell.table == table]
        count = counts(own)
        beside = [row for row in own if row.ahead is not None]
        rest = count["refused"] + count["not run"]
        lines.append(f"| {table} | {len(own)} | {count['reproduced']} | "
                     f"{count['uncertain']} | {count['differs']} | "
                     f"{count['other task']} | {count['data missing']} | {rest} | "
                     f"{sum(bool(row.ahead) for row in beside)}, {len(beside)} |")
    return lines


def as_page(found: Sequence[Row]) -> str:
    """Markdown: first what there is to know, then every cell."""
    parts = [
        "# The papers' tables, cell by cell", "",
        "Made by `privledger reproduce all --format md` from the fits that are kept beside this "
        "page; a test compares the two. Nothing here is typed by hand.", "",
        *(f"- {sentence}" for sentence in summary(found)), "",
        "**How to read a row.** *Printed* is the paper's figure, with the spread beside it where "
        "one is printed (95 %: half width of an interval of the mean; sd: standard deviation). "
        "*Printed form, sound* is the paper's system with its own parameters, under a ledger, at "
        "the printed epsilon, with the steps repaired that cost more than they say; *price "
        "charged* is what its ledger booked. *Our default* is the one learner that the [rule]"
        "(../which-learner.md) names for the task, at the printed epsilon. *Ahead by* is its mean "
        "minus the printed figure. Intervals are 95 % t intervals over fits, whose number "
        "stands in brackets.",
        "*Reproduced*: within the intervals and within .03 (three points; .09 of the figure for "
        "squared errors). *Uncertain*: the same, but our interval is wider than that. *Other "
        "task*: the table is not the paper's, for the reason given. Why "
        "printed prices do not hold: [claimed versus sound](../claimed-versus-sound.md).", "",
        *_by_table(found)]
    for paper, title in PAPERS.items():
        own = [row for row in found if row.cell.paper == paper]
        if not own:
            continue
        parts += ["", f"## {paper}: {title}", "", "| " + " | ".join(HEAD) + " |",
                  "|" + "---|" * len(HEAD)]
        parts += ["| " + " | ".join(line(row)) + " |" for row in own]
    return "\n".join(parts) + "\n"


FORMATS = {"table": as_text, "json": as_json, "md": as_page}
