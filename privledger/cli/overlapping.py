"""`privledger overlap`: was one table opened under several ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.cli.opening import reading
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.render import GREEN, RED, figure, grid, text
from privledger.reports.overlap import Overlap, overlaps
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@click.argument("ledgers", metavar="LEDGER...", nargs=-1, required=True)
@format_option
def overlap(ledgers: tuple[str, ...], format_: str) -> None:
    """Find tables that more than one of these ledgers protected, by their fingerprints.

    Each ledger keeps its own promise; for the records of a shared table they add up. Exit
    code 1 if there is one.
    """
    states, receipts = {}, {}
    for place in ledgers:
        with reading(place) as opened:
            states[shown(place)] = opened.state
            receipts[shown(place)] = opened.receipt.as_dict()
    found = overlaps(states)
    emit(format_, {"ledgers": [shown(place) for place in ledgers], "overlaps": found,
                   "receipts": receipts},
         lambda out: _render(out, found))
    if found:
        click.get_current_context().exit(1)


def _render(out: Console, found: list[Overlap]) -> None:
    if not found:
        out.print(text("no table with a fingerprint is in two of these ledgers", GREEN))
        return
    for shared in found:
        out.print(text(f"one table under {len(shared.uses)} ledgers: epsilon "
                       f"{figure(shared.epsilon)} at delta {shared.delta:g} together", RED))
        out.print(grid(("ledger", "as", "epsilon", "delta"), [
            (use.ledger, use.data, figure(use.epsilon), f"{use.delta:g}")
            for use in shared.uses]))
