"""`privledger doctor`: what is wrong with a table, for its owner alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privledger.cli.fit import SCHEMA, TABLE
from privledger.cli.output import Reply, command
from privledger.cli.terminal import GREEN, RED, grid, text
from privledger.gate import REFUSED
from privledger.numerals import many
from privledger.tables.examining import Cut, Examination, Fault, examined
from privledger.tables.schema import Schema

if TYPE_CHECKING:
    from rich.console import Console

HEAD = ("CONFIDENTIAL: exact facts about single rows, without noise. For the owner of the table "
        "alone; nothing of this goes into a ledger, and nothing of it may be published.")


@command
@TABLE
@SCHEMA
def doctor(table: str, schema_file: str) -> Reply:
    """Tell the owner of TABLE all that is wrong with it at once: CONFIDENTIAL.

    Every cell that the schema does not allow, by row number; what clipping would cut; rows per
    person. It reads the table, opens no ledger, and writes no file. What a schema says must be
    public: never copy bounds or categories from here.

    Exit code 1 if the table could not be protected as it is.
    """
    found = examined(table, Schema.load(schema_file))
    told = {"confidential": HEAD, "rows": found.rows, "faults": [
        {"column": one.column, "rule": one.rule, "cells": one.cells, "rows": one.rows,
         "more": one.more, "schema": one.hint} for one in found.faults],
        "clipped": list(found.cuts), "unknown_columns": found.unknown,
        "people": None if found.people is None else dict(zip(
            ("most_rows", "median_rows", "people"), found.people, strict=True))}
    return Reply(told, lambda out: _render(out, found), REFUSED if found.faults else 0)


def _render(out: Console, found: Examination) -> None:
    out.print(text(HEAD, RED))
    out.print(text(f"{many(found.rows, 'row')} read"))
    if found.faults:
        out.print(grid(("column", "what is wrong", "cells", "rows", "in the schema"),
                       [_fault(one) for one in found.faults]))
    else:
        out.print(text("no fault: the table can be protected under this schema", GREEN))
    if found.cuts:
        out.print(grid(("column", "clipped below", "clipped above", "share"),
                       [_cut(one, found.rows) for one in found.cuts]))
    if found.unknown:
        out.print(text(f"not in the schema, and not read: {', '.join(found.unknown)}"))
    if found.people is not None:
        most, median, people = found.people
        out.print(text(f"{many(people, 'person', 'people')}, {median:g} rows each in the median, "
                       f"at most {most}"))


def _fault(one: Fault) -> tuple[str, ...]:
    more = " or more" if one.more else ""
    rows = ", ".join(map(str, one.rows)) + (", ..." if one.cells > len(one.rows) else "")
    return (one.column or "-", one.rule, f"{one.cells}{more}" if one.cells else "all",
            rows or "-", one.hint or "-")


def _cut(one: Cut, rows: int) -> tuple[str, ...]:
    return (one.column, str(one.below), str(one.above),
            f"{(one.below + one.above) / max(rows, 1):.1%}")
