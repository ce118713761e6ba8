"""A witness's book: the newest head of every ledger it was shown, and what it may sign next.

A witness sees receipts and proofs, never a ledger. It signs a receipt only if the ledger still
begins as the last one it signed: then two histories under one name can never both be witnessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import frozen

from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.ledger.checkpoint import begins_with

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
        raise LedgerCorrupt("the book's last line was cut off; nothing was signed")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            one = Head.of(json.loads(line), "book")
        except (ValueError, InvalidPlan, AttributeError):
            raise LedgerCorrupt(f"line {number} of the book is none; nothing was signed") from None
        last = heads.get(one.uuid)
        if last is not None and one.entries < last.entries:
            raise LedgerCorrupt(f"line {number} of the book goes back; nothing was signed")
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
                            f"another head: an old copy, or a second history; nothing was signed")
    if proof is None:
        raise LedgerCorrupt(f"the ledger has grown since its {last.entries} entries were "
                            "witnessed: show --proof, of privledger prove; nothing was signed")
    if not begins_with(bytes.fromhex(shown.tree), shown.entries, bytes.fromhex(last.tree),
                       last.entries, _path(proof)):
        raise LedgerCorrupt("the ledger does not begin as it was witnessed: a second history; "
                            "nothing was signed")


def _path(proof: Mapping[str, object]) -> Sequence[bytes]:
    path = proof.get("path")
    if proof.get("kind") != "consistency" or not isinstance(path, list) or len(path) > 130 or (
            not all(_is_hash(one) for one in path)):
        raise InvalidPlan("proof", "another", "one of privledger prove --since")
    return [bytes.fromhex(one) for one in path]
