"""`privledger log`: the entries of a history in order, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.cli.opening import (
    ledger_argument,
    reading_state,
    reading_store,
    receipt_or_none,
    where_option,
)
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import text
from privledger.ledger.entries import entries_of
from privledger.ledger.events import EVENTS
from privledger.ledger.view_charges import charges_of, chosen
from privledger.ledger.view_timeline import Moment, timeline
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@ledger_argument
@click.option("--grant", help="Only entries about this grant or scope; its first letters do.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(tuple(EVENTS)),
              help="Only entries of this kind; may be repeated.")
@click.option("--since", metavar="N", type=click.IntRange(min=0), default=0,
              help="Only entries from position N on; a receipt's `entries` is such an N.")
@click.option("--asserted", is_flag=True,
              help="Only unverified claims: asserted plans and releases, and external runs.")
@where_option
@format_option
def log(ledger: str, grant: str | None, kinds: tuple[str, ...], since: int, asserted: bool,
        where: tuple[str, ...], format_: str) -> None:
    """The entries in order, one line each. Nothing is verified here: `verify` does that."""
    names = None
    if where:
        meets = chosen(where)
        with reading_state(ledger) as (_, state):
            names = {one.name for one in charges_of(state) if meets(one)}
    with reading_store(ledger) as store:
        # An entry at a time: a long history does not have to fit into memory.
        entries = (entry for row in store.rows() for entry in entries_of([row], store.location))
        found = [event for event in timeline(entries)
                 if event.position >= since and (not kinds or event.kind in kinds)
                 and (event.asserted or not asserted) and (names is None or event.grant in names)
                 and (grant is None or event.grant.startswith(grant))]
    emit(format_, {"ledger": shown(ledger), "entries": found,
                   "receipt": receipt_or_none(ledger) if format_ == "json" else None},
         lambda out: _render(out, found))


def _render(out: Console, found: list[Moment]) -> None:
    for event in found:
        parts = [f"{event.position:>5}", event.time or " " * 25, f"{event.kind:<9}", event.grant,
                 event.text]
        out.print(text("  ".join(part for part in parts if part)), soft_wrap=True)
