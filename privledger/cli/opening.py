"""Opening things for reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from privledger.cli.output import WORDS
from privledger.errors import InvalidPlan, InvalidValue, LedgerCorrupt, LedgerError, PrivledgerError
from privledger.findings import Finding
from privledger.ledger import Entry, History, State, Store
from privledger.ledger.view import Comparison, comparison
from privledger.people.keys import read_people_key
from privledger.plugins import learner_names
from privledger.reports import Past, Survey, clean, load_receipt, survey
from privledger.reports.receipt import (
    check_signature,
    check_signed_with,
    past_of,
    read_key,
    read_public_key,
)
from privledger.storage import is_url, shown, store_at

if TYPE_CHECKING:
    from privledger.guard import Ledger


class LedgerPlace(click.Path):
    """An existing file, or the URL of a ledger in a database."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        """A PostgreSQL address as it is; anything else as a path that click checks."""
        return value if is_url(value) else super().convert(value, param, ctx)


ledger_argument = click.argument("ledger", metavar="LEDGER", type=LedgerPlace())
data_option = click.option("--data-dir", type=click.Path(exists=True, file_okay=False),
                           help="Folder that the run file's data paths are relative to "
                                "[default: $PRIVLEDGER_DATA, else the run file's folder].")


people_key_option = click.option("--people-key", type=click.Path(),
                                 help="File with the key of the ledger's people.")


def _completing(names: Callable[[State], Iterable[str]] | None = None) -> Callable[..., list[str]]:
    """What a shell offers: names in the ledger that was typed already, or learners. A name with
    signs that move a cursor is not offered, and what cannot be read offers nothing."""
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            if names is None:
                found: Iterable[str] = learner_names()
            else:
                # An option that still lacks its value keeps click from reading the rest.
                place = next(one for one in ctx.meta[WORDS] if is_url(one) or Path(one).is_file())
                with reading_state(place) as (_, state):
                    found = names(state)
        except Exception:  # a message would stand in the middle of a command
            return []
        return [name for name in found if name.startswith(incomplete) and clean(name) == name]

    return complete


complete_learner = _completing()
complete_grant = _completing(lambda state: (*state.grants, *state.scopes))
complete_table = _completing(lambda state: state.tables)


@contextmanager
def reading(path: str | Path, people_key: str | None = None) -> Iterator[Ledger]:
    """A ledger opened read-only. A history that cannot be folded is a corrupt one.

    Args:
        people_key: the file of its people's key, for who looks somebody up.
    """
    from privledger.guard import Ledger  # an audit alone needs none

    key = None if people_key is None else read_people_key(people_key)
    try:
        ledger = Ledger.open(path, read_only=True, people_key=key)
    except (LedgerError, InvalidValue):
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError):
        raise LedgerCorrupt(f"{shown(path)}: the history cannot be understood") from None
    try:
        yield ledger
    finally:
        ledger._history.store.close()


where_option = click.option(
    "--where", multiple=True, metavar="KEY=VALUE",
    help="Only grants and scopes of which it holds, such as team=red, library=opacus, "
         "isolation=guarded, learner=NAME, table=NAME, cap=TITLE or label:KEY=VALUE; may be "
         "repeated.")


@contextmanager
def reading_state(path: str | Path) -> Iterator[tuple[Store, State]]:
    """A store and what its history folds to, whatever is wrong with the place: for a reader who
    shows what an audit finds, and believes nothing before."""
    with reading_store(path) as store:
        try:
            state = History(store, writable=False).full()
        except LedgerError:
            raise
        except (PrivledgerError, ValueError, TypeError, KeyError):
            raise LedgerCorrupt(f"{shown(path)}: the history cannot be understood") from None
        if state.budget is None:
            raise LedgerCorrupt(f"{shown(path)}: the history is empty")
        yield store, state


@contextmanager
def reading_store(path: str | Path) -> Iterator[Store]:
    """Only the store: for an audit that wants every fault, not the first."""
    store = store_at(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


def receipt_or_none(path: str | Path) -> dict[str, Any] | None:
    """The receipt of a ledger; None if its history cannot be folded, so that there is none."""
    try:
        with reading(path) as opened:
            return opened.receipt.as_dict()
    except LedgerError:
        return None


# What was kept elsewhere about a ledger: a receipt, a head, keys.

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


def kept_elsewhere(receipt: str | None, head: str | None, key_file: str | None,
            public_key: str | None) -> Witness:
    """Read what the options name; a key without a receipt would check nothing."""
    if (key_file or public_key) and receipt is None:
        raise click.UsageError("a key needs --receipt: nothing else is signed")
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise click.UsageError("--expect-head takes 64 hexadecimal digits")
    return Witness(load_receipt(receipt) if receipt else None, head, key_file, public_key)
