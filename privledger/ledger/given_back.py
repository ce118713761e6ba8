"""What a store gives back inside a transaction: nothing counts as written before it was read.

A store can lose or change a charge as it is written: by a trigger in its file, a broken disk, a
bug. So everything is read again before the commit, and compared with what was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privledger.errors import LedgerCorrupt
from privledger.ledger.codec import decode
from privledger.ledger.entries import Entry, body_text, parse_body
from privledger.ledger.store import Row, Transaction


def check_head(transaction: Transaction, position: int, head: str, location: str) -> None:
    """That the history still holds the last entry that this process knows.

    Raises:
        LedgerCorrupt: it was cut, or it is another history.
    """
    if position >= 0 and transaction.digest(position) != head:
        raise LedgerCorrupt(f"{location}: entry {position} is not there any more as it was read "
                            "before")


def read_back(transaction: Transaction, entries: Sequence[Entry],
              location: str) -> dict[int, Entry]:
    """The entries that were appended, from the store, by their positions.

    Raises:
        LedgerCorrupt: it holds anything else there. The transaction must not be kept.
    """
    if not entries:
        return {}
    first = entries[0]
    check_head(transaction, first.position - 1, first.previous, location)
    rows = transaction.rows(first.position - 1)
    if rows != [_row(entry) for entry in entries]:
        raise LedgerCorrupt(f"{location}: what was written does not come back")
    return {position: Entry(position, decode(kind, parse_body(text)), previous, digest, text)
            for position, kind, text, previous, digest in rows}


def check_vectors(transaction: Transaction, vectors: Mapping[str, bytes], location: str) -> None:
    """That per-record vectors came back as they were put.

    Raises:
        LedgerCorrupt: they did not.
    """
    for name, data in vectors.items():
        if transaction.vector(name) != data:
            raise LedgerCorrupt(f"{location}: a per-record vector does not come back as it was "
                                "written")


def _row(entry: Entry) -> Row:
    return entry.position, entry.event.kind, body_text(entry), entry.previous, entry.hash
