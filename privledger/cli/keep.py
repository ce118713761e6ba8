"""What an owner does to a ledger: correct, begin a window, make a key, back up, restore."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from privledger.cli.explain import node_from_text
from privledger.cli.output import (
    FILE,
    PLACE,
    LedgerPlace,
    Reply,
    command,
    complete_grant,
    kept_elsewhere,
    key_option,
    ledger_argument,
    public_option,
    receipt_option,
)
from privledger.cli.terminal import GREEN, RED, charge, text
from privledger.errors import InvalidPlan, LedgerCorrupt, NotGranted
from privledger.gate import NOT_TRUSTED
from privledger.guard import Ledger
from privledger.ledger import audit, folded
from privledger.ledger.checkpoint import remembered_receipt
from privledger.numerals import many
from privledger.storage import is_url, shown
from privledger.storage.sqlite import SQLiteStore
from privledger.tables.person_keys import make_people_key

if TYPE_CHECKING:
    from rich.console import Console





# `privledger correct`: an auditor appends what a grant really cost.

@command
@ledger_argument
@click.argument("grant", shell_complete=complete_grant)
@click.option("--plan", type=FILE, metavar="NODE.json",
              help="The plan that the grant really ran, as `privledger.nodes.to_json` writes it.")
@click.option("--void", is_flag=True, help="Void the grant's promise: nothing can be promised for "
                                           "it.")
@click.option("--why", required=True, help="The reason, a sentence that stays in the history.")
def correct(ledger: str, grant: str, plan: str | None, void: bool, why: str) -> Reply:
    """Append a correction. Totals can only rise, and nothing is edited.

    Exit code 1 if the budget is overspent afterwards: from then on it refuses everything.
    """
    if (plan is None) != void:
        raise click.UsageError("give either --plan NODE.json or --void")
    node = None if plan is None else node_from_text(plan)
    with Ledger.open(ledger) as opened:
        before = opened.spent
        try:
            after = opened.correct(grant, node, why)
        except NotGranted as error:  # the command names another than there is
            raise click.UsageError(str(error)) from None
        value = {"ledger": shown(ledger), "grant": grant, "why": why, "epsilon_before": before,
                 "epsilon_after": after, "budget": opened.budget,
                 "overspent": bool(opened._history.refresh().broken),
                 "receipt": opened.receipt.as_dict()}
    return Reply(value, lambda out: _render_correction(out, value), 1 if value["overspent"] else 0)


def _render_correction(out: Console, value: dict[str, Any]) -> None:
    out.print(text(f"{value['grant']} corrected: epsilon {charge(value['epsilon_before'])} -> "
                   f"{charge(value['epsilon_after'])}"))
    if value["overspent"]:
        out.print(text("the budget is overspent: every further request will be refused", RED))
    else:
        out.print(text("still within the budget", GREEN))


# `privledger window`: the ledger's owner opens the next period.

@command
@ledger_argument
@click.argument("name")
def window(ledger: str, name: str) -> Reply:
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
    return Reply(value, lambda out: _render_window(out, value))


def _render_window(out: Console, value: dict[str, Any]) -> None:
    if value["opened"]:
        ended = f"; {value['before']} is over" if value["before"] else ""
        out.print(text(f"window {value['window']} is open{ended}", GREEN))
    else:
        out.print(text(f"window {value['window']} was open already"))


# `privledger people-key`: the key under which a ledger knows its people.

@command
@click.argument("file", type=PLACE)
def people_key(file: str) -> Reply:
    """Make a key for people in a new FILE that only its owner can read.

    A ledger with unit person keeps digests of ids under this key, and never the key: without the
    file no table can be added, and no person looked up. Keep a copy of it apart from the ledger.
    """
    check = make_people_key(file).check

    def render(out: Console) -> None:
        out.print(text("a new "
                       f"key in {file}, readable by its owner only; check value {check}", GREEN))
        out.print("keep a copy apart from the ledger: key and ledger together can identify people")

    return Reply({"file": file, "check": check}, render)


# `privledger backup` and `privledger restore`: a ledger as of one moment, and what it lacks.

_TO = click.argument("to", metavar="TO", type=PLACE)


def _file(place: str) -> str:
    if is_url(place):
        raise InvalidPlan("ledger", shown(place), "a file: a database has its own backups")
    return place


@command
@ledger_argument
@_TO
def backup(ledger: str, to: str) -> Reply:
    """Copy a ledger, even one in use, to a new file. `cp` of a file in use lacks its log.

    Keep a newer receipt elsewhere: a backup that is put back later has forgotten what was spent
    since, and only a receipt shows it.
    """
    with closing(SQLiteStore(_file(ledger), read_only=True)) as store:
        if wrong := store.inspect():
            raise LedgerCorrupt(f"{shown(ledger)}: {wrong[0].message}")
        store.copy_to(to)
    with closing(SQLiteStore(to, read_only=True)) as made:
        value = remembered_receipt(folded(made.read())).as_dict()
    return Reply({"ledger": shown(ledger), "backup": to, "receipt": value}, lambda out: out.print(
        text(f"{to}: {many(value['entries'], 'entry', 'entries')}, epsilon "
             f"{charge(value['epsilon'])} spent")))


@command
@click.argument("copy", metavar="BACKUP", type=LedgerPlace())
@_TO
@receipt_option
@key_option
@public_option
@click.option("--accept-loss", is_flag=True,
              help="Restore although entries are missing, and forget what they spent.")
def restore(copy: str, to: str, receipt: str | None, key_file: str | None, public_key: str | None,
            accept_loss: bool) -> Reply:
    """Put a backup in place as a new file, after reading all of it, and say what is missing.

    Takes a file that was copied while it was in use, without its log, too. Without a receipt
    it is unknown what is missing. Exit code 3, and nothing is written, if the backup is
    damaged, or if a receipt shows that entries are missing and --accept-loss was not given.
    """
    known = kept_elsewhere(receipt, None, key_file, public_key)
    with closing(SQLiteStore(_file(copy), read_only=True, alone=True)) as store:
        entries = store.read()
        findings = audit(store)
        missing = known.compare(known.past_of(entries)) if known.present else []
        value: dict[str, Any] = {"backup": shown(copy), "ledger": to, "findings": findings,
                                 "missing": missing, "compared": known.comparison,
                                 "restored": not findings and (not missing or accept_loss)}
        if value["restored"]:
            store.copy_to(to)
            value["receipt"] = remembered_receipt(folded(entries)).as_dict()

    def render(out: Any) -> None:
        for one in (*findings, *missing):
            out.print(text(one.message, RED))
        if missing and known.receipt is not None:
            out.print(text(f"the receipt knew epsilon {charge(known.receipt['epsilon'])} as spent",
                           RED))
        if not value["restored"]:
            out.print(text("Nothing was restored." + (
                " Find the newer file, or use --accept-loss to forget what the missing entries "
                "spent." if missing and not findings else ""), RED))
            return
        now = value["receipt"]
        out.print(f"{to}: {many(now['entries'], 'entry', 'entries')}, epsilon "
                  f"{charge(now['epsilon'])} spent")
        if not known.present:
            out.print("No receipt was given, so missing entries would go unnoticed.")

    return Reply(value, render, 0 if value["restored"] else NOT_TRUSTED)
