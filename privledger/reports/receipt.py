"""Receipts: is the history that a model was released under still all there?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define

from privledger.errors import InvalidPlan
from privledger.findings import Finding
from privledger.ledger import Entry
from privledger.ledger.events import Aborted, Corrected, Event, Granted, ScopeOpened, is_readable
from privledger.numerals import many
from privledger.reading import load_json

RULE = "receipt-is-in-history"
_FIELDS = {"uuid": str, "entries": int, "head": str}


def load_receipt(path: str | Path) -> dict[str, Any]:
    """Read a receipt written as JSON.

    Raises:
        InvalidPlan: not a receipt; the field is named.
    """
    name = Path(path).name
    value = load_json(path, "receipt")
    if isinstance(value, dict) and isinstance(value.get("receipt"), dict):
        value = value["receipt"]  # what `run --format json` prints
    if not isinstance(value, dict):
        raise InvalidPlan("receipt", name, "a JSON object")
    for field, kind in _FIELDS.items():
        if type(value.get(field)) is not kind:
            raise InvalidPlan(f"receipt {field}", value.get(field), f"a {kind.__name__}")
    if value["entries"] < 1:
        raise InvalidPlan("receipt entries", value["entries"], "at least 1")
    return value


@define
class Past:
    """What of a history can be compared with a receipt or a head. Fill it in one pass.

    Attributes:
        at: number of entries that the receipt saw; 0 for no receipt.
        head: a hash that should be there; None for nothing.
        entries: how many there are. uuid: of the first one, if it names any.
        hash_at: hash of entry number `at`. moves_at: how often the totals had moved by then.
        has_head: whether an entry has the hash `head`.
    """

    at: int = 0
    head: str | None = None
    entries: int = 0
    uuid: Any = None
    hash_at: str | None = None
    moves_at: int = 0
    has_head: bool = False

    def row(self, index: int, digest: str) -> None:
        """Take note of the next entry, before its kind."""
        self.entries = index + 1
        if self.entries == self.at:
            self.hash_at = digest
        if digest == self.head:
            self.has_head = True

    def created(self, event: Event) -> None:
        """Take note of whose history it is, if the entry noted last is the first."""
        if self.entries == 1:
            self.uuid = getattr(event, "uuid", None)

    def moved(self) -> None:
        """The entry that was noted last moves the totals, as `Receipt.counter` counts."""
        if self.entries <= self.at:
            self.moves_at += 1

    def head_is_there(self) -> Iterator[Finding]:
        """An entry with the hash is in the history: everything up to it is unchanged."""
        if self.head is not None and not self.has_head:
            yield Finding(RULE, self.entries - 1,
                          "the expected head is not in the history: a tail was cut off, an old "
                          "copy came back, or it is another ledger")

    def receipt_is_there(self, receipt: dict[str, Any]) -> Iterator[Finding]:
        """Same ledger, and the receipt's last entry is still where it was."""
        if not self.entries:
            yield Finding(RULE, -1, "the history is empty")
        elif self.uuid != receipt["uuid"]:
            yield Finding(RULE, 0, "the receipt is of another ledger")
        elif self.entries < self.at:
            yield Finding(RULE, self.entries - 1,
                          f"{many(self.entries, 'entry', 'entries')}, the receipt saw {self.at}: "
                          "a tail was cut off, or this is an old copy")
        elif self.hash_at != receipt["head"]:
            yield Finding(RULE, self.at - 1,
                          "another entry stands where the receipt's last one was: "
                          "the history was rewritten, or it forked from a copy")
        elif "counter" in receipt and receipt["counter"] != self.moves_at:
            yield Finding(RULE, self.at - 1, "the receipt's counter is not that of this history: "
                                             "the receipt was edited")


def past_of(entries: Sequence[Entry], at: int = 0, head: str | None = None) -> Past:
    """What entries in memory have to say to a receipt that saw `at` of them, or to a head."""
    past = Past(at, head)
    for index, entry in enumerate(entries):
        past.row(index, entry.hash)
        if not index:
            past.created(entry.event)
        event = entry.event
        if isinstance(event, ScopeOpened | Granted | Corrected) or (
                isinstance(event, Aborted) and is_readable(event) and event.gives_back):
            past.moved()
    return past


def receipt_is_in_history(entries: Sequence[Entry], receipt: dict[str, Any]) -> Iterator[Finding]:
    """As `Past.receipt_is_there`, for entries in memory."""
    yield from past_of(entries, receipt["entries"]).receipt_is_there(receipt)
