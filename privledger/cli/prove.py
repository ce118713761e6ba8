"""`privledger prove`: a short proof about a ledger, for somebody who does not have it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from privledger.cli.opening import ledger_argument, reading
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import pairs, text
from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.checkpoint import consistency, inclusion, leaf, root
from privledger.ledger.store import Row
from privledger.numerals import many
from privledger.reports.receipt import load_receipt

if TYPE_CHECKING:
    from rich.console import Console

VERIFIER = "verify_proof.py"


@click.command(cls=Guarded)
@ledger_argument
@click.option("--since", type=click.Path(exists=True, dir_okay=False), metavar="RECEIPT",
              help="That the ledger still begins as it was when this receipt was made.")
@click.option("--until", type=click.Path(exists=True, dir_okay=False), metavar="RECEIPT",
              help="The later receipt [default: the ledger as it is now].")
@click.option("--entry", type=click.IntRange(min=0), help="That this entry is in the ledger.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), required=True,
              help="Where to write the proof; must not exist.")
@click.option("--verifier", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write the stand-alone checker of proofs, too.")
@format_option
def prove(ledger: str, since: str | None, until: str | None, entry: int | None, output: str,
          verifier: str | None, format_: str) -> None:
    """Prove what was spent at an earlier date, or that an entry is there, in about log2(n) hashes.

    Receipts of `privledger receipt` and `run --receipt` carry the root of the tree that proofs
    lead to. A proof of an entry shows that entry, and no other.
    """
    if (since is None) == (entry is None):
        raise click.UsageError("give --since RECEIPT or --entry N")
    for place in (output, verifier):
        if place is not None and Path(place).exists():
            raise click.UsageError(f"{place} exists already")
    with reading(ledger) as opened:
        rows, uuid = list(opened._history.store.rows()), opened.receipt.uuid
    if until is not None:
        rows = _as_of(rows, uuid, until)
    leaves = [leaf(row[4]) for row in rows]
    if since is not None:
        before = len(_as_of(rows, uuid, since))
        path = [one.hex() for one in consistency(leaves, before)]
        proof: dict[str, object] = {"kind": "consistency", "uuid": uuid, "from": before,
                                    "to": len(rows), "path": path}
    else:
        assert entry is not None
        if entry >= len(rows):
            raise click.UsageError(f"the ledger has {many(len(rows), 'entry', 'entries')}")
        position, kind, body, previous, _ = rows[entry]
        path = [one.hex() for one in inclusion(leaves, entry)]
        proof = {"kind": "inclusion", "uuid": uuid, "to": len(rows), "path": path,
                 "entry": {"position": position, "kind": kind, "text": body,
                           "previous": previous}}
    _put(output, canonical(proof) + "\n")
    if verifier is not None:
        _put(verifier, (files("privledger") / "standalone" / VERIFIER).read_text(encoding="utf-8"))
    found = {"proof": output, "kind": proof["kind"], "hashes": len(path),
             "tree": root(leaves).hex(), "entries": len(rows)}

    def render(out: Console) -> None:
        out.print(text(f"{output}: a proof of {many(len(path), 'hash', 'hashes')} over "
                       f"{many(len(rows), 'entry', 'entries')}"))
        receipts = "EARLIER.json LATER.json" if since is not None else "RECEIPT.json"
        out.print(pairs([("tree", found["tree"]), ("check it with",
                         f"python -I {verifier or VERIFIER} {output} {receipts}")]))

    emit(format_, found, render)


def _as_of(rows: list[Row], uuid: str, receipt: str) -> list[Row]:
    """The rows that a receipt saw; nothing is proved of another history."""
    known = load_receipt(receipt)
    size = known["entries"]
    if type(known.get("tree")) is not str:
        raise InvalidPlan("receipt", Path(receipt).name, "one with the root of the tree that "
                          "proofs lead to (tree): that of `privledger receipt` or `run --receipt`")
    if known["uuid"] != uuid or size > len(rows) or rows[size - 1][4] != known["head"]:
        raise LedgerCorrupt("the receipt is of another history: `privledger verify` says which")
    return rows[:size]


def _put(place: str, content: str) -> None:
    with open(place, "x", encoding="utf-8") as file:
        file.write(content)
