"""`privledger correct`: an auditor appends what a grant really cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privledger.cli.explain import read_node
from privledger.cli.opening import ledger_argument
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, RED, charge, text
from privledger.errors import NotGranted
from privledger.guard import Ledger
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@ledger_argument
@click.argument("grant")
@click.option("--plan", type=click.Path(exists=True, dir_okay=False), metavar="NODE.json",
              help="What the grant really ran, as `privledger.nodes.to_json` writes it.")
@click.option("--void", is_flag=True, help="Nothing can be promised for the grant.")
@click.option("--why", required=True, help="A sentence that stays in the history.")
@format_option
def correct(ledger: str, grant: str, plan: str | None, void: bool, why: str,
            format_: str) -> None:
    """Append a correction. Totals can only rise, and nothing is edited.

    Exit code 1 if the budget is overspent afterwards: from then on it refuses everything.
    """
    if (plan is None) != void:
        raise click.UsageError("give either --plan NODE.json or --void")
    node = None if plan is None else read_node(plan)
    with Ledger.open(ledger) as opened:
        before = opened.spent
        try:
            after = opened.correct(grant, node, why)
        except NotGranted as error:  # the command names another than there is
            raise click.UsageError(str(error)) from None
        value = {"ledger": shown(ledger), "grant": grant, "why": why, "epsilon_before": before,
                 "epsilon_after": after, "budget": opened.budget,
                 "overspent": bool(opened.state.broken), "receipt": opened.receipt.as_dict()}
    emit(format_, value, lambda out: _render(out, value))
    if value["overspent"]:
        click.get_current_context().exit(1)


def _render(out: Console, value: dict[str, Any]) -> None:
    out.print(text(f"{value['grant']} corrected: epsilon {charge(value['epsilon_before'])} -> "
                   f"{charge(value['epsilon_after'])}"))
    if value["overspent"]:
        out.print(text("the budget is overspent: every further request is refused", RED))
    else:
        out.print(text("still within the budget", GREEN))
