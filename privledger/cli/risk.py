"""`privledger risk`: what somebody who knows everything else can find out, at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.accounting import RELATIONS
from privledger.cli.explain import read_node
from privledger.cli.opening import LedgerPlace, data_option, reading_state
from privledger.cli.output import Guarded, emit, format_option, without_effect
from privledger.cli.printing import text, verdict_text
from privledger.gate import NOT_TRUSTED
from privledger.reports import audited, ledger_report
from privledger.reports.risk import WRONG, Risk, ledger_risk, plan_risk
from privledger.storage import is_url

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@click.argument("subject", metavar="LEDGER|RUN.toml|NODE.json", type=LedgerPlace())
@click.option("--fpr", type=float, multiple=True,
              help="Share of the innocent that is accused; may be given several times "
                   "[default: 0.01 and 0.001].")
@click.option("--prior", type=float, multiple=True,
              help="Share for which the case holds, such as .001 of a town; several times.")
@click.option("--relation", type=click.Choice(RELATIONS),
              help="For NODE.json [default: add_remove].")
@data_option
@format_option
def risk(subject: str, fpr: tuple[float, ...], prior: tuple[float, ...], relation: str | None,
         data_dir: str | None, format_: str) -> None:
    """Risk in words, from a trade-off curve: upper bounds, rounded up. Opens no data.

    Of a ledger everything that was spent or reserved counts, by its own filter. A run, or a node
    tree, is priced by its privacy losses, as a plan that is fixed beforehand. Exit code 3 if the
    history cannot be trusted.
    """
    wrong = fpr or WRONG
    if not subject.endswith(".json") or is_url(subject):
        without_effect("unless it is a node tree", "relation")
    if not subject.endswith(".toml") or is_url(subject):
        without_effect("unless it is a run file", "data_dir")
    if is_url(subject) or not subject.endswith((".json", ".toml")):
        _of_ledger(subject, wrong, prior, format_)
        return
    if subject.endswith(".json"):
        found = plan_risk(read_node(subject), relation or "add_remove", wrong=wrong, priors=prior)
    else:
        from privledger.cli.prepared import prepare

        prepared = prepare(subject, data_dir)
        found = plan_risk(prepared.node, prepared.run.relation,
                          prepared.run.unit_for(prepared.schema), wrong=wrong, priors=prior)
    emit(format_, found.as_dict(), lambda out: render_risk(out, found))


def _of_ledger(ledger: str, wrong: tuple[float, ...], priors: tuple[float, ...],
               format_: str) -> None:
    with reading_state(ledger) as (store, state):
        report = ledger_report(store, state, audited(store))
    if not report.trusted:
        emit(format_, {"verdict": report.verdict.word, "findings": report.findings},
             lambda out: out.print(verdict_text(report.verdict), soft_wrap=True))
        click.get_current_context().exit(NOT_TRUSTED)
    found = ledger_risk(report.view, wrong=wrong, priors=priors)

    def render(out: Console) -> None:
        out.print(verdict_text(report.verdict), soft_wrap=True)
        render_risk(out, found)

    emit(format_, found.as_dict() | {"receipt": report.receipt}, render)


def render_risk(out: Console, found: Risk) -> None:
    """A sentence a line, and which curve they were read from."""
    for sentence in found.sentences:
        out.print(text(sentence))
    if not found.why:
        kind = "a plan fixed beforehand" if found.fixed else "the ledger's own filter"
        out.print(text(f"Read from the trade-off curve of {kind}: {found.source}.", "dim"))
