"""`privledger verify`: can the history be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.accounting import WHO
from privledger.cli.compared_with import key_option, public_option, receipt_option, witness
from privledger.cli.opening import ledger_argument, reading_store
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, YELLOW, findings_table, text, verdict_text
from privledger.gate import NOT_TRUSTED
from privledger.numerals import many
from privledger.reports.verdict import GOOD
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console

MOST_CLAIMS = 20


@click.command(cls=Guarded)
@ledger_argument
@receipt_option
@key_option
@public_option
@format_option
def verify(ledger: str, receipt: str | None, key_file: str | None, public_key: str | None,
           format_: str) -> None:
    """Read the whole history again, price every plan again, trust no total.

    The first line is the verdict: within budget or not, which unverified claims it rests on,
    simulated or not, compared with which receipt, and what can therefore not have been seen.
    Exit code 0 if clean, 3 if the ledger cannot be trusted.
    """
    known = witness(receipt, None, key_file, public_key)
    with reading_store(ledger) as store:
        seen = known.survey(store)
    findings, entries = list(seen.findings), seen.past.entries
    if entries:
        findings = known.compare(seen.past) + findings

    verdict = seen.verdict(findings, known.comparison)

    def render(out: Console) -> None:
        out.print(verdict_text(verdict), soft_wrap=True)
        for one in seen.unverified[:MOST_CLAIMS]:
            out.print(text(f"unverified: {one.text}", YELLOW), soft_wrap=True)
        if len(seen.unverified) > MOST_CLAIMS:
            out.print(text(f"and {len(seen.unverified) - MOST_CLAIMS} more: --format json", YELLOW))
        if seen.unit != "row":
            out.print(text(f"the promise is about {WHO[seen.unit]}"))
        if findings:
            out.print(findings_table(findings))
        else:
            more = " and the receipt is in it" if receipt else ""
            read = many(entries, "entry", "entries")
            out.print(text(f"clean: {read} re-read and re-priced{more}",
                           GREEN if verdict.level == GOOD else ""))

    emit(format_, {"ledger": shown(ledger), "trusted": not findings, "entries": entries,
                   "compared_with": receipt, "comparison": verdict.compared.as_dict(),
                   "judgement": verdict.as_dict(), "unit": seen.unit,
                   "unverified": [one.as_dict() for one in seen.unverified],
                   "receipt": seen.receipt, "findings": findings}, render)
    if findings:
        click.get_current_context().exit(NOT_TRUSTED)
