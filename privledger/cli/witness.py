"""`privledger witness`: keep the heads of other people's ledgers, and countersign receipts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from attrs import asdict

from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, text
from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.holder import now
from privledger.numerals import many
from privledger.reading import load_json
from privledger.reports.countersigning import Head, check_next, read_book
from privledger.reports.receipt import load_receipt
from privledger.reports.signing import (
    check_signed_with,
    read_key,
    read_private_key,
    read_public_key,
    sign_receipt,
    sign_with,
)

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@click.argument("book", type=click.Path(dir_okay=False))
@click.argument("receipt", type=click.Path(exists=True, dir_okay=False))
@click.option("--proof", type=click.Path(exists=True, dir_okay=False),
              help="Of `privledger prove --since`, from the receipt that was witnessed last.")
@click.option("--sign-key", type=click.Path(exists=True, dir_okay=False),
              help="The witness's Ed25519 private key (PEM).")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False),
              help="Or a secret, for HMAC-SHA256.")
@click.option("--public-key", type=click.Path(exists=True, dir_okay=False),
              help="The owner's: the receipt must be signed with it.")
@click.option("--new-book", is_flag=True,
              help="The book does not exist yet. Without this, a missing one is refused.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), required=True,
              help="Where to write the countersigned receipt; must not exist.")
@format_option
def witness(book: str, receipt: str, proof: str | None, sign_key: str | None,
                key_file: str | None, public_key: str | None, new_book: bool, output: str,
                format_: str) -> None:
    """Countersign a receipt, if its ledger still begins as the last one that was witnessed.

    A witness needs neither the ledger nor data. Its book is written, durably, before it signs. Exit
    code 3 if the ledger went back, or has a second history.
    """
    if (sign_key is None) == (key_file is None):
        raise click.UsageError("sign with --sign-key or --key-file")
    if Path(output).exists():
        raise click.UsageError(f"{output} exists already")
    value = load_receipt(receipt)
    if public_key is not None:
        check_signed_with(value, read_public_key(public_key))
    shown = Head.of(value, "receipt")
    steps = None if proof is None else load_json(proof, "proof")
    if steps is not None and not isinstance(steps, dict):
        raise InvalidPlan("proof", "another", "one of privledger prove --since")
    private = read_private_key(sign_key) if sign_key else None
    secret = read_key(key_file) if key_file else b""
    with _opened(book, new=new_book) as file:
        check_next(read_book(file.read()), shown, steps)
        seen = now()
        file.write(canonical(asdict(shown) | {"seen": seen}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    note = {"receipt": value, "seen": seen}
    signed = sign_with(note, private) if private is not None else sign_receipt(note, secret)
    with open(output, "x", encoding="utf-8") as place:
        place.write(json.dumps(signed, indent=2) + "\n")

    def render(out: Console) -> None:
        out.print(text(f"witnessed: {many(shown.entries, 'entry', 'entries')} of {shown.uuid}, "
                       f"seen {seen}; {output}", GREEN))

    emit(format_, {"output": output, "seen": seen, **asdict(shown)}, render)


@contextlib.contextmanager
def _opened(book: str, *, new: bool) -> Iterator[TextIO]:
    """The book, for one witness at a time."""
    import fcntl

    if Path(book).exists() == new:
        raise LedgerCorrupt("the book is there already" if new else
                            "there is no such book: a witness that forgot signs anything; "
                            "--new-book begins one")
    # What is no UTF-8 comes as letters that no line of a book has: `read_book` refuses them.
    with open(book, "x+" if new else "r+", encoding="utf-8", errors="surrogateescape") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
