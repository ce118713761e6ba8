"""The chain of hashes: whether every row follows the one before, and is as it was written."""

from __future__ import annotations

import hashlib

from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger.entries import GENESIS
from privledger.ledger.store import Row, Store

CHAIN = "chain-is-unbroken"
APART = "does not follow the one before"
EDITED = "the text does not match its hash"


class Chain:
    """Goes along with the rows of a history, from the first."""

    def __init__(self) -> None:
        self.previous, self.expected = GENESIS, 0
        self._kinds: dict[str, str] = {}

    def add(self, row: Row) -> tuple[str, ...]:
        """What is wrong with the next row: nothing, `APART`, `EDITED`, or both."""
        position, kind, text, previous, digest = row
        follows = position == self.expected and previous == self.previous
        self.previous, self.expected = digest, self.expected + 1
        if self._is_hash(position, kind, text, previous, digest):
            return () if follows else (APART,)
        return (EDITED,) if follows else (APART, EDITED)

    def _is_hash(self, position: int, kind: str, text: str, previous: str, digest: str) -> bool:
        try:
            named = self._kinds.get(kind)
            if named is None:
                named = self._kinds[kind] = canonical(kind)
            whole = f"{previous}[{position},{named},{text}]".encode("ascii")
        except (ValueError, TypeError):
            return False
        return hashlib.sha256(whole).hexdigest() == digest


def chain_findings(store: Store, most: int = 100) -> tuple[list[Finding], str]:
    """Every break of the chain, `most` at most, and the hash of the last row.

    Says nothing about what the entries mean: `audit` does.
    """
    chain, found = Chain(), list[Finding]()
    for row in store.rows():
        faults = chain.add(row)
        if faults and len(found) < most:
            found += [Finding(CHAIN, row[0], fault) for fault in faults]
    return found, chain.previous
