"""What was kept elsewhere about a ledger: a receipt, a head, keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click
from attrs import frozen

from privledger.errors import InvalidPlan
from privledger.findings import Finding
from privledger.ledger import Entry, Store
from privledger.ledger.view_compared import Comparison, comparison
from privledger.reports import Past, Survey, load_receipt, survey
from privledger.reports.receipt import past_of
from privledger.reports.signing import (
    check_signature,
    check_signed_with,
    read_key,
    read_public_key,
)

receipt_option = click.option(
    "--receipt", type=click.Path(exists=True, dir_okay=False),
    help="A receipt that was released with a model: finds a cut tail or an old copy.")
key_option = click.option("--key-file", type=click.Path(exists=True, dir_okay=False),
                           help="The receipt must be signed with the secret in this file.")
public_option = click.option(
    "--public-key", type=click.Path(exists=True, dir_okay=False),
    help="The receipt must be signed with the Ed25519 key whose public half (PEM) this is.")


@frozen
class Witness:
    """What somebody kept elsewhere about a history: a receipt, a head, or nothing."""

    receipt: dict[str, Any] | None = None
    head: str | None = None
    key_file: str | None = None
    public_key: str | None = None

    @property
    def present(self) -> bool:
        """Whether there is anything to compare the history with."""
        return self.receipt is not None or self.head is not None

    @property
    def comparison(self) -> Comparison:
        """What it is worth, in words."""
        return comparison(self.receipt, self.head,
                          signed=bool(self.key_file or self.public_key))

    def survey(self, store: Store) -> Survey:
        """Audit `store`, and take down what `compare` needs."""
        return survey(store, 0 if self.receipt is None else self.receipt["entries"], self.head)

    def past_of(self, entries: Sequence[Entry]) -> Past:
        """What `compare` needs, of entries that were read already."""
        return past_of(entries, 0 if self.receipt is None else self.receipt["entries"], self.head)

    def compare(self, past: Past) -> list[Finding]:
        """Everything about a history that the witness contradicts."""
        found = []
        if self.receipt is not None:
            found += [*self._signature(self.receipt), *past.receipt_is_there(self.receipt)]
        return [*found, *past.head_is_there()]

    def with_findings(self, entries: Sequence[Entry], findings: Sequence[Finding]) -> list[Finding]:
        """Those of an audit of `entries`, after what the witness contradicts."""
        found = self.compare(self.past_of(entries)) if self.present and entries else []
        return [*found, *findings]

    def _signature(self, receipt: dict[str, Any]) -> list[Finding]:
        """A receipt that should be signed, and is not, by this key."""
        public = read_public_key(self.public_key) if self.public_key else None
        secret = read_key(self.key_file) if self.key_file else None
        try:
            if public is not None:
                check_signed_with(receipt, public)
            if secret is not None:
                check_signature(receipt, secret)
        except InvalidPlan as error:
            return [Finding("receipt-is-signed", -1, str(error))]
        return []


def witness(receipt: str | None, head: str | None, key_file: str | None,
            public_key: str | None) -> Witness:
    """Read what the options name; a key without a receipt would check nothing."""
    if (key_file or public_key) and receipt is None:
        raise click.UsageError("a key needs --receipt: nothing else is signed")
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise click.UsageError("--expect-head takes 64 hexadecimal digits")
    return Witness(load_receipt(receipt) if receipt else None, head, key_file, public_key)


