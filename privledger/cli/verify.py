"""`privledger verify`: can the history be trusted."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from attrs import asdict

from privledger.accounting import WHO
from privledger.cli.output import (
    FILE,
    PLACE,
    Reply,
    command,
    kept_elsewhere,
    key_option,
    ledger_argument,
    public_option,
    reading,
    reading_store,
    receipt_option,
)
from privledger.cli.terminal import (
    GREEN,
    YELLOW,
    findings_table,
    flow,
    pairs,
    quiet_option,
    text,
    verdict_text,
)
from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.gate import NOT_TRUSTED
from privledger.graph import canonical
from privledger.ledger.checkpoint import consistency, inclusion, leaf, root
from privledger.ledger.entries import now
from privledger.ledger.store import Row
from privledger.numerals import many
from privledger.reading import load_json
from privledger.reports.receipt import (
    Head,
    check_next,
    check_signed_with,
    load_receipt,
    read_book,
    read_key,
    read_private_key,
    read_public_key,
    sign_receipt,
    sign_with,
)
from privledger.reports.survey import GOOD, survey
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console

    from privledger.guard import Ledger


MOST_CLAIMS = 20


@command
@ledger_argument
@click.option("--all", "whole", is_flag=True,
              help="Price every plan again, whatever an earlier audit by this user has sealed.")
@receipt_option
@key_option
@public_option
@quiet_option
def verify(ledger: str, whole: bool, receipt: str | None, key_file: str | None,
           public_key: str | None) -> Reply:
    """Read the whole history again, price every plan again, trust no total.

    Of a history of 5,000 entries or more, an audit without a finding is sealed outside of the
    ledger. Then every stored byte is still checked, but only what came later is priced again,
    and the first line says so.

    The first line is the verdict: within budget or not, which unverified claims it rests on,
    simulated or not, compared with which receipt, and what can therefore not have been seen.
    Exit code 0 if clean, 3 if the ledger cannot be trusted.
    """
    known = kept_elsewhere(receipt, None, key_file, public_key)
    with reading_store(ledger) as store:
        seen = known.survey(store, whole=whole)
    findings, entries = list(seen.findings), seen.past.entries
    if entries:
        findings = known.compare(seen.past) + findings

    verdict = seen.verdict(findings, known.comparison)

    def render(out: Console) -> None:
        flow(out, verdict_text(verdict))
        for one in seen.unverified[:MOST_CLAIMS]:
            flow(out, text(f"unverified: {one.text}", YELLOW))
        if len(seen.unverified) > MOST_CLAIMS:
            out.print(text(f"and {len(seen.unverified) - MOST_CLAIMS} more: --format json", YELLOW))
        if seen.facts.unit != "row":
            out.print(text(f"the ledger protects {WHO[seen.facts.unit]}"))
        if findings:
            out.print(findings_table(findings))
        else:
            more = " and the receipt is in it" if receipt else ""
            read = many(entries, "entry", "entries")
            how = "re-read and re-priced" if seen.sealed is None else (
                f"re-read, {entries - seen.sealed.entries} of them re-priced now")
            out.print(text(f"clean: {read} {how}{more}",
                           GREEN if verdict.level == GOOD else ""))

    return Reply({"ledger": shown(ledger), "trusted": not findings, "entries": entries,
                  "compared_with": receipt, "comparison": verdict.compared.as_dict(),
                  "judgement": verdict.as_dict(), "unit": seen.facts.unit,
                  "unverified": [one.as_dict() for one in seen.unverified],
                  "receipt": seen.receipt, "findings": findings}, render,
                 NOT_TRUSTED if findings else 0)


# `privledger receipt`: the head of a ledger, to keep elsewhere.

@command
@ledger_argument
@click.option("--key-file", type=FILE, help="Sign it with HMAC-SHA256 and the secret in this file.")
@click.option("--sign-key", type=FILE,
              help="Sign it with the Ed25519 private key (PEM) in this file.")
@click.option("-o", "--output", type=PLACE, metavar="FILE",
              help="Where to write it, too; must not exist.")
def receipt(ledger: str, key_file: str | None, sign_key: str | None, output: str | None) -> Reply:
    """Print the receipt of a ledger: identity, number of entries, head hash, totals, counter,
    when it was made, and the root of the tree that `privledger prove` leads to.

    Keep it where a writer of the ledger cannot write: it finds deleted last entries or an old
    copy.
    """
    if key_file and sign_key:
        raise click.UsageError("one signature: give --key-file or --sign-key")
    _check_new(output)
    key = read_private_key(sign_key) if sign_key else None
    with reading(ledger) as opened:
        value = dated(opened)
    if key_file:
        value = sign_receipt(value, read_key(key_file))
    elif key is not None:
        value = sign_with(value, key)
    if output is not None:
        _put(output, json.dumps(value, indent=2) + "\n")
    return Reply(value, lambda out: out.print(json.dumps(value, indent=2), markup=False,
                                              highlight=False, soft_wrap=True))


def dated(ledger: Ledger) -> dict[str, Any]:
    """The receipt of a ledger as it is kept: with its time, the root that proofs lead to, and the
    unverified claims that it rests on, where there are any."""
    value = ledger.receipt.as_dict(dated=True)
    claims = survey(ledger._history.store).unverified
    if claims:
        value["unverified"] = [one.as_dict() for one in claims]
    leaves = [leaf(row[4]) for row in ledger._history.store.rows()][:value["entries"]]
    return value | {"tree": root(leaves).hex()}


# `privledger prove`: a short proof about a ledger, for a reader who does not have it.

VERIFIER = "verify_proof.py"


@command
@ledger_argument
@click.option("--since", type=FILE, metavar="RECEIPT",
              help="Prove that the ledger still begins as it was when this receipt was made.")
@click.option("--until", type=FILE, metavar="RECEIPT",
              help="The later receipt [default: the ledger as it is now].")
@click.option("--entry", type=click.IntRange(min=0), help="Prove that this entry is in the ledger.")
@click.option("-o", "--output", type=PLACE, required=True,
              help="Where to write the proof; must not exist.")
@click.option("--verifier", type=PLACE, metavar="FILE",
              help="Write the stand-alone checker of proofs, too.")
def prove(ledger: str, since: str | None, until: str | None, entry: int | None, output: str,
          verifier: str | None) -> Reply:
    """Prove what was spent at an earlier date, or that an entry is there, in about log2(n) hashes.

    Receipts of `privledger receipt` and `run --receipt` carry the root of the tree that proofs
    lead to. A proof of an entry shows that entry, and no other.
    """
    if (since is None) == (entry is None):
        raise click.UsageError("give --since RECEIPT or --entry N")
    _check_new(output, verifier)
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

    return Reply(found, render)


def _as_of(rows: list[Row], uuid: str, receipt: str) -> list[Row]:
    """The rows that a receipt saw; nothing is proved of another history."""
    known = load_receipt(receipt)
    size = known["entries"]
    if type(known.get("tree")) is not str:
        raise InvalidPlan("receipt", Path(receipt).name, "one with the root of the tree that "
                          "proofs lead to (tree): that of `privledger receipt` or `run --receipt`")
    if known["uuid"] != uuid or size > len(rows) or rows[size - 1][4] != known["head"]:
        raise LedgerCorrupt("the receipt belongs to another history: run `privledger verify`")
    return rows[:size]


def _check_new(*places: str | None) -> None:
    for place in places:
        if place is not None and Path(place).exists():
            raise click.UsageError(f"{place} exists already")


def _put(place: str, content: str) -> None:
    with open(place, "x", encoding="utf-8") as file:
        file.write(content)


# `privledger witness`: keep the heads of other people's ledgers, and countersign receipts.

@command
@click.argument("book", type=PLACE)
@click.argument("receipt", type=FILE)
@click.option("--proof", type=FILE, help="The proof of `privledger prove --since`, from the "
                                         "receipt that was witnessed last.")
@click.option("--sign-key", type=FILE, help="The witness's Ed25519 private key (PEM).")
@click.option("--key-file", type=FILE, help="Or a secret, for HMAC-SHA256.")
@click.option("--public-key", type=FILE,
              help="The owner's public key: the receipt must be signed with it.")
@click.option("--new-book", is_flag=True,
              help="Begin a new book. Without this, a missing book is refused.")
@click.option("-o", "--output", type=PLACE, required=True,
              help="Where to write the countersigned receipt; must not exist.")
def witness(book: str, receipt: str, proof: str | None, sign_key: str | None,
                key_file: str | None, public_key: str | None, new_book: bool, output: str) -> Reply:
    """Countersign a receipt, if its ledger still begins as the last one that was witnessed.

    A witness needs neither the ledger nor data. Its book is written, durably, before it signs. Exit
    code 3 if the ledger went back, or has a second history.
    """
    if (sign_key is None) == (key_file is None):
        raise click.UsageError("sign with --sign-key or --key-file")
    _check_new(output)
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
    _put(output, json.dumps(signed, indent=2) + "\n")
    words = (f"witnessed: {many(shown.entries, 'entry', 'entries')} of {shown.uuid}, seen {seen}; "
             f"{output}")
    return Reply({"output": output, "seen": seen, **asdict(shown)},
                 lambda out: out.print(text(words, GREEN)))


@contextlib.contextmanager
def _opened(book: str, *, new: bool) -> Iterator[TextIO]:
    """The book, for one witness at a time."""
    import fcntl

    if Path(book).exists() == new:
        raise LedgerCorrupt("the book is there already" if new else
                            "there is no such book, and a witness without its book would sign "
                            "anything. --new-book begins one")
    # What is no UTF-8 comes as letters that no line of a book has: `read_book` refuses them.
    with open(book, "x+" if new else "r+", encoding="utf-8", errors="surrogateescape") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
