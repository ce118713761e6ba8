"""`privledger receipt`: the head of a ledger, to keep elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privledger.cli.opening import ledger_argument, reading
from privledger.cli.output import Guarded, emit, format_option
from privledger.guard import Ledger
from privledger.ledger.checkpoint import leaf, root
from privledger.reports import survey
from privledger.reports.signing import read_key, read_private_key, sign_receipt, sign_with

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@ledger_argument
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False),
              help="Sign it with HMAC-SHA256 and the secret in this file.")
@click.option("--sign-key", type=click.Path(exists=True, dir_okay=False),
              help="Sign it with the Ed25519 private key (PEM) in this file.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write it there, too; must not exist.")
@format_option
def receipt(ledger: str, key_file: str | None, sign_key: str | None, output: str | None,
            format_: str) -> None:
    """Print the receipt of a ledger: identity, number of entries, head hash, totals, counter,
    when it was made, and the root of the tree that `privledger prove` leads to.

    Keep it where whoever can write the ledger cannot: it finds a cut tail or an old copy.
    """
    if key_file and sign_key:
        raise click.UsageError("one signature: give --key-file or --sign-key")
    if output is not None and Path(output).exists():
        raise click.UsageError(f"{output} exists already")
    key = read_private_key(sign_key) if sign_key else None
    with reading(ledger) as opened:
        value = dated(opened)
    if key_file:
        value = sign_receipt(value, read_key(key_file))
    elif key is not None:
        value = sign_with(value, key)
    if output is not None:
        with open(output, "x", encoding="utf-8") as file:
            file.write(json.dumps(value, indent=2) + "\n")
    emit(format_, value, lambda out: _render(out, value))


def dated(ledger: Ledger) -> dict[str, Any]:
    """The receipt of a ledger as it is kept: with its time, the root that proofs lead to, and the
    unverified claims that it rests on, where there are any."""
    value = ledger.receipt.as_dict(dated=True)
    claims = survey(ledger._history.store).unverified
    if claims:
        value["unverified"] = [one.as_dict() for one in claims]
    leaves = [leaf(row[4]) for row in ledger._history.store.rows()][:value["entries"]]
    return value | {"tree": root(leaves).hex()}


def _render(out: Console, value: dict[str, Any]) -> None:
    out.print(json.dumps(value, indent=2), markup=False, highlight=False, soft_wrap=True)
