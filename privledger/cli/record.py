"""`privledger record`: what one record spent, and on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privledger.cli.opening import ledger_argument, reading
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import RED, YELLOW, charge, text
from privledger.numerals import many
from privledger.rounding import upward_percent

if TYPE_CHECKING:
    from rich.console import Console

    from privledger.guard import RecordSpend

CONFIDENTIAL = "confidential, for auditors: a record's spend depends on private data"
UNKNOWN = ("this ledger never counted the table's records: it cannot tell whether there is such a "
           "record; every one that is there was charged this")


@click.command(cls=Guarded)
@ledger_argument
@click.argument("row", metavar="ID", type=click.IntRange(min=0))
@click.option("--data", help="Which data set, if the ledger knows several.")
@format_option
def record(ledger: str, row: int, data: str | None, format_: str) -> None:
    """What one record spent, and on what. ID is its position in the protected table, from 0.

    Confidential: it depends on private data.
    """
    with reading(ledger) as opened:
        spend = opened.record(row, data)
        receipt = opened.receipt.as_dict()
        rule = opened.state.rule
        unit = rule.unit if rule else ""
        simulated = opened.mode != "private"
    emit(format_, record_dict(spend, unit, simulated) | {"receipt": receipt},
         lambda out: render_record(out, spend, unit, simulated))


def record_dict(spend: RecordSpend, unit: str, simulated: bool) -> dict[str, Any]:
    """A record's spend as JSON values."""
    return {
        "row": spend.row, "data": spend.data, "unit": unit, "total": spend.total,
        "private": not simulated, "known": spend.known,
        "notice": CONFIDENTIAL if spend.known else f"{CONFIDENTIAL}; {UNKNOWN}",
        "lines": [{"grant": line.grant, "learner": line.learner, "node": line.node,
                   "amount": line.amount, "cap": line.cap, "share": line.share,
                   "rounds": line.rounds, "basis": line.basis, "scope": line.scope}
                  for line in spend.lines],
    }


def render_record(out: Console, spend: RecordSpend, unit: str, simulated: bool) -> None:
    """One line per grant."""
    out.print(text(f"record {spend.row} of {spend.data}: {charge(spend.total)} {unit} spent",
                   "bold"))
    out.print(text(CONFIDENTIAL, YELLOW))
    if not spend.known:
        out.print(text(UNKNOWN, YELLOW))
    if simulated:
        out.print(text("NOT PRIVATE: simulation", RED))
    for line in spend.lines:
        rounds = "all rounds" if line.rounds is None else many(line.rounds, "round")
        out.print(text(f"{line.grant}  {line.learner}"))
        share = upward_percent(line.share)
        out.print(text(f"    {charge(line.amount)} of {charge(line.cap)} ({share}), {rounds}, "
                       f"{line.basis}"))
        out.print(text(f"    {line.node}", "dim"))
