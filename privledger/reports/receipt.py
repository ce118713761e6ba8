"""Receipts: is the history that a model was released under still all there?"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, frozen

from privledger.errors import InvalidPlan, InvalidValue, LedgerCorrupt, PrivledgerError
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger import Entry
from privledger.ledger.checkpoint import begins_with
from privledger.ledger.events import Aborted, Corrected, Event, Granted, ScopeOpened, is_readable
from privledger.numerals import many
from privledger.reading import load_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


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

    def row(self, index: int, *digests: str) -> None:
        """Take note of the next entries, before their kinds."""
        self.entries = index + len(digests)
        if index < self.at <= self.entries:
            self.hash_at = digests[self.at - index - 1]
        if self.head is not None and self.head in digests:
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
                          "the expected head is not in the history: last entries were deleted, an "
                          "old copy was restored, or it is another ledger")

    def receipt_is_there(self, receipt: dict[str, Any]) -> Iterator[Finding]:
        """Same ledger, and the receipt's last entry is still where it was."""
        if not self.entries:
            yield Finding(RULE, -1, "the history is empty")
        elif self.uuid != receipt["uuid"]:
            yield Finding(RULE, 0, "the receipt is of another ledger")
        elif self.entries < self.at:
            yield Finding(RULE, self.entries - 1,
                          f"{many(self.entries, 'entry', 'entries')}, the receipt saw {self.at}: "
                          "last entries were deleted, or this is an old copy")
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


# Receipts that lie beside a ledger's place: whether a ledger that is gone was there.

MOST_BYTES = 1 << 20  # what `run --format json` prints with a plan in it is far smaller
MOST_FILES = 2000


def receipt_of(place: str | Path, *more: str | Path | None) -> Path | None:
    """A receipt of the ledger at `place`, among the JSON files of its folder and `more`.

    A receipt names its ledger by the `ledger` written in it or beside it; without one, by its
    own name: `study.receipt.json`, `study.ledger.json` and `receipt.json` for `study.ledger`.
    """
    ledger = Path(place)
    beside = _json_files(ledger.absolute().parent)
    named = [Path(path) for path in more if path is not None]
    return next((path for path in (*named, *beside) if _is_small(path) and _names(path, ledger)),
                None)


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))[:MOST_FILES]
    except OSError:
        return []


def _is_small(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def _names(path: Path, ledger: Path) -> bool:
    try:
        load_receipt(path)
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (PrivledgerError, OSError, ValueError, RecursionError):
        return False
    written = value.get("ledger")
    if isinstance(written, str):
        return Path(written).name == ledger.name
    own = re.compile(rf"(({re.escape(ledger.name)}|{re.escape(ledger.stem)})([._-].*)?|receipt)"
                     r"\.json", re.IGNORECASE)
    return own.fullmatch(path.name) is not None


# Signed receipts: the holder of the key vouches for a head, and an editor of the file cannot.
#
# HMAC-SHA256 with a secret that both sides know, or Ed25519, where the side that checks needs only
# the public key (with the package `cryptography`: the extra `signing`).

ALGORITHM, ED25519 = "hmac-sha256", "ed25519"
_LEAST_KEY = 16  # bytes


def read_key(path: str | Path) -> bytes:
    """A secret key from a file; at least 16 bytes, surrounding white space left out.

    Raises:
        InvalidValue: too short, or cannot be read. The key is never shown.
    """
    try:
        key = Path(path).read_bytes().strip()
    except OSError:
        raise InvalidValue("key file", Path(path).name, "a file that can be read") from None
    if len(key) < _LEAST_KEY:
        raise InvalidValue("key", f"{len(key)} bytes", f"at least {_LEAST_KEY} bytes long")
    return key


def _digest(receipt: dict[str, Any], key: bytes) -> str:
    signed = {name: value for name, value in receipt.items()
              if name not in ("signature", "algorithm")}
    return hmac.new(key, canonical(signed).encode("ascii"), hashlib.sha256).hexdigest()


def sign_receipt(receipt: dict[str, Any], key: bytes) -> dict[str, Any]:
    """The receipt with `algorithm` and `signature` over all its other fields."""
    return receipt | {"algorithm": ALGORITHM, "signature": _digest(receipt, key)}


def check_signature(receipt: dict[str, Any], key: bytes) -> None:
    """Raise unless the receipt was signed with `key`, word for word.

    Raises:
        InvalidPlan: unsigned, signed by another key, or altered since.
    """
    if receipt.get("algorithm") != ALGORITHM or not isinstance(receipt.get("signature"), str):
        raise InvalidPlan("receipt", "an unsigned one", f"signed ({ALGORITHM})")
    if not hmac.compare_digest(_digest(receipt, key), receipt["signature"]):
        raise InvalidPlan("receipt signature", "another", "signed with this key, for these values")


def _message(receipt: dict[str, Any]) -> bytes:
    """What an Ed25519 signature is over: its purpose, then everything but the signature."""
    signed = {name: value for name, value in receipt.items() if name != "signature"}
    return b"privledger receipt 1\n" + canonical(signed).encode("ascii")


def _read_pem(path: str | Path, what: str, half: Literal["private", "public"]) -> Any:
    """Half an Ed25519 key; without the package `cryptography` a message says how to get it."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InvalidValue("Ed25519 signature", "no package for it",
                           "made with the package cryptography: "
                           "pip install 'privledger[signing]'") from None
    kind, load = ((ed25519.Ed25519PublicKey, serialization.load_pem_public_key)
                  if half == "public" else
                  (ed25519.Ed25519PrivateKey,
                   partial(serialization.load_pem_private_key, password=None)))
    try:
        key = load(Path(path).read_bytes())
    except Exception:  # a parser's message may quote what it parsed
        key = None
    if not isinstance(key, kind):
        raise InvalidValue(what, Path(path).name, f"an Ed25519 {half} key in PEM")
    return key


def read_private_key(path: str | Path) -> Ed25519PrivateKey:
    """An Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` writes it.

    Raises:
        InvalidValue: no such key, or it is encrypted. The key is never shown.
    """
    return _read_pem(path, "signing key", "private")  # type: ignore[no-any-return]


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """An Ed25519 key in PEM, as `openssl pkey -pubout` writes it.

    Raises:
        InvalidValue: no such key.
    """
    return _read_pem(path, "public key", "public")  # type: ignore[no-any-return]


def sign_with(receipt: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The receipt with `algorithm` and an Ed25519 `signature` over everything else."""
    named = receipt | {"algorithm": ED25519}
    return named | {"signature": key.sign(_message(named)).hex()}


def check_signed_with(receipt: dict[str, Any], key: Ed25519PublicKey) -> None:
    """Raise unless the receipt was signed by the owner of `key`, word for word.

    Raises:
        InvalidPlan: unsigned, signed by another key, or altered since.
    """
    from cryptography.exceptions import InvalidSignature

    if receipt.get("algorithm") != ED25519 or not isinstance(receipt.get("signature"), str):
        raise InvalidPlan("receipt", "an unsigned one", f"signed ({ED25519})")
    try:
        key.verify(bytes.fromhex(receipt["signature"]), _message(receipt))
    except (InvalidSignature, ValueError):
        raise InvalidPlan("receipt signature", "another",
                          "signed with this key, for these values") from None


# A witness's book: the newest head of every ledger it was shown, and what it may sign next.
#
# A witness sees receipts and proofs, never a ledger. It signs a receipt only if the ledger still
# begins as the last one it signed: then two histories under one name can never both be witnessed.

_KINDS: dict[str, type] = {"uuid": str, "entries": int, "head": str, "tree": str}
_HEX = set("0123456789abcdef")


@frozen
class Head:
    """One line of the book.

    Attributes:
        uuid: of the ledger. entries, head, tree: as its receipt has them.
    """

    uuid: str
    entries: int
    head: str
    tree: str

    @staticmethod
    def of(value: Mapping[str, object], what: str) -> Head:
        """Of a receipt, or a line of the book.

        Raises:
            InvalidPlan: a field is missing, or of another kind.
        """
        for name, kind in _KINDS.items():
            one = value.get(name)
            if type(one) is not kind or (name in ("head", "tree") and not _is_hash(one)):
                raise InvalidPlan(f"{what} {name}", "another value" if name in value else "none",
                                  f"a {kind.__name__}" if kind is not str or name == "uuid"
                                  else "a hash, as `privledger receipt` writes it")
        entries = value["entries"]
        assert isinstance(entries, int)
        if not 0 < entries < 1 << 62:
            raise InvalidPlan(f"{what} entries", entries, "at least 1")
        return Head(str(value["uuid"]), entries, str(value["head"]), str(value["tree"]))


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - _HEX


def read_book(text: str) -> dict[str, Head]:
    """The newest head of each ledger.

    Raises:
        LedgerCorrupt: a line that is none. Nothing may be signed by such a book.
    """
    heads: dict[str, Head] = {}
    if text and not text.endswith("\n"):
        raise LedgerCorrupt("the last line of the book is incomplete. Nothing was signed")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            one = Head.of(json.loads(line), "book")
        except (ValueError, InvalidPlan, AttributeError):
            raise LedgerCorrupt("line "
                                f"{number} of the book is invalid. Nothing was signed") from None
        last = heads.get(one.uuid)
        if last is not None and one.entries < last.entries:
            raise LedgerCorrupt(f"line {number} of the book goes backwards. Nothing was signed")
        heads[one.uuid] = one
    return heads


def check_next(heads: Mapping[str, Head], shown: Head, proof: Mapping[str, object] | None) -> None:
    """Refuse a head that does not go on from the one that was signed last.

    Args:
        proof: of `privledger prove --since`, from the last one; None for a ledger that is new to
            the book, or that has not moved.

    Raises:
        LedgerCorrupt: fewer entries, another history, or no proof that it is the same.
    """
    last = heads.get(shown.uuid)
    if last is None or last == shown:
        return
    if shown.entries <= last.entries:
        raise LedgerCorrupt(f"the witness has seen {last.entries} entries of this ledger, and "
                            "another head: this is an old copy, or a second history. Nothing was "
                            "signed")
    if proof is None:
        raise LedgerCorrupt(f"the ledger has grown since its {last.entries} entries were "
                            "witnessed. Give --proof, from privledger prove. Nothing was signed")
    if not begins_with(bytes.fromhex(shown.tree), shown.entries, bytes.fromhex(last.tree),
                       last.entries, _path(proof)):
        raise LedgerCorrupt("the ledger does not begin as it was witnessed: this is a second "
                            "history. Nothing was signed")


def _path(proof: Mapping[str, object]) -> Sequence[bytes]:
    path = proof.get("path")
    if proof.get("kind") != "consistency" or not isinstance(path, list) or len(path) > 130 or (
            not all(_is_hash(one) for one in path)):
        raise InvalidPlan("proof", "another", "one of privledger prove --since")
    return [bytes.fromhex(one) for one in path]
