"""`privledger backup` and `privledger restore`: a ledger as of one moment, and what it lacks."""

from __future__ import annotations

from typing import Any

import click

from privledger.cli.compared_with import key_option, public_option, receipt_option, witness
from privledger.cli.opening import LedgerPlace, ledger_argument
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import RED, charge, text
from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.gate import NOT_TRUSTED
from privledger.ledger import audit, folded
from privledger.ledger.checkpoint import receipt_of
from privledger.numerals import many
from privledger.storage import is_url, shown
from privledger.storage.sqlite import SQLiteStore

_TO = click.argument("to", metavar="TO", type=click.Path(dir_okay=False))


def _file(place: str) -> str:
    if is_url(place):
        raise InvalidPlan("ledger", shown(place), "a file: a database has its own backups")
    return place


@click.command(cls=Guarded)
@ledger_argument
@_TO
@format_option
def backup(ledger: str, to: str, format_: str) -> None:
    """Copy a ledger, also one in use, to a new file. `cp` of a file in use lacks its log.

    Keep a newer receipt elsewhere: a backup that is put back later has forgotten what was spent
    since, and only a receipt shows it.
    """
    store = SQLiteStore(_file(ledger), read_only=True)
    try:
        if wrong := store.inspect():
            raise LedgerCorrupt(f"{shown(ledger)}: {wrong[0].message}")
        store.copy_to(to)
    finally:
        store.close()
    made = SQLiteStore(to, read_only=True)
    try:
        value = receipt_of(folded(made.read())).as_dict()
    finally:
        made.close()
    emit(format_, {"ledger": shown(ledger), "backup": to, "receipt": value}, lambda out: out.print(
        text(f"{to}: {many(value['entries'], 'entry', 'entries')}, epsilon "
             f"{charge(value['epsilon'])} spent")))


@click.command(cls=Guarded)
@click.argument("copy", metavar="BACKUP", type=LedgerPlace())
@_TO
@receipt_option
@key_option
@public_option
@click.option("--accept-loss", is_flag=True,
              help="Restore although entries are missing: what they spent is forgotten.")
@format_option
def restore(copy: str, to: str, receipt: str | None, key_file: str | None, public_key: str | None,
            accept_loss: bool, format_: str) -> None:
    """Put a backup in place as a new file, after reading all of it, and say what is missing.

    Takes a file that was copied while it was in use, without its log, too. Without a receipt
    nobody can know what is missing. Exit code 3, and nothing is written, if the backup is
    damaged, or if a receipt shows that entries are missing and --accept-loss was not given.
    """
    known = witness(receipt, None, key_file, public_key)
    store = SQLiteStore(_file(copy), read_only=True, alone=True)
    try:
        entries = store.read()
        findings = audit(store)
        missing = known.compare(known.past_of(entries)) if known.present else []
        value: dict[str, Any] = {"backup": shown(copy), "ledger": to, "findings": findings,
                                 "missing": missing, "compared": known.comparison,
                                 "restored": not findings and (not missing or accept_loss)}
        if value["restored"]:
            store.copy_to(to)
            value["receipt"] = receipt_of(folded(entries)).as_dict()
    finally:
        store.close()

    def render(out: Any) -> None:
        for one in (*findings, *missing):
            out.print(text(one.message, RED))
        if missing and known.receipt is not None:
            out.print(text(f"the receipt knew epsilon {charge(known.receipt['epsilon'])} as spent",
                           RED))
        if not value["restored"]:
            out.print(text("Nothing was restored." + (
                " Find the newer file, or say --accept-loss: what the missing entries spent is "
                "then forgotten." if missing and not findings else ""), RED))
            return
        now = value["receipt"]
        out.print(f"{to}: {many(now['entries'], 'entry', 'entries')}, epsilon "
                  f"{charge(now['epsilon'])} spent")
        if not known.present:
            out.print("No receipt was given, so nobody can tell whether entries are missing.")

    emit(format_, value, render)
    if not value["restored"]:
        click.get_current_context().exit(NOT_TRUSTED)
