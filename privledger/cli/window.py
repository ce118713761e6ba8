"""`privledger window`: the ledger's owner opens the next period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privledger.cli.opening import ledger_argument
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, text
from privledger.guard import Ledger
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@ledger_argument
@click.argument("name")
@format_option
def window(ledger: str, name: str, format_: str) -> None:
    """Open the window NAME: caps per window start afresh, the budget never does.

    A window is opened once. Naming the open one again changes nothing, so that a scheduled job
    may be repeated.
    """
    with Ledger.open(ledger) as opened:
        before = opened.window
        opened.open_window(name)
        value: dict[str, Any] = {
            "ledger": shown(ledger), "window": name, "before": before,
            "opened": before != name, "spent": opened.spent, "left": opened.left,
            "receipt": opened.receipt.as_dict()}
    emit(format_, value, lambda out: _render(out, value))


def _render(out: Console, value: dict[str, Any]) -> None:
    if value["opened"]:
        ended = f"; {value['before']} is over" if value["before"] else ""
        out.print(text(f"window {value['window']} is open{ended}", GREEN))
    else:
        out.print(text(f"window {value['window']} was open already"))
