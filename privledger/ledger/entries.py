"""Entries of the history, and the chain that binds them. Format: docs/ledger-format.md."""

from __future__ import annotations

import hashlib
from typing import Any

from attrs import frozen

from privledger.graph import canonical

FORMAT = 3
"""Version of the history format. A file with a larger one is refused.

1: the first. 2: adds `corrected`. 3: adds `window`, caps by window, and a stored policy.
"""

GENESIS = "0" * 64

KINDS = (
    "created", "filter", "protected", "scope", "granted", "refused", "released", "settled",
    "aborted", "crashed", "corrected", "window",
)


@frozen
class Entry:
    """One line of the history.

    Attributes:
        position: 0 for the first entry, without gaps.
        kind: one of `KINDS`.
        body: JSON values only.
        previous: hash of the entry before, 64 hexadecimal digits.
        hash: sha256 over `previous` and the canonical JSON of position, kind and body.
    """

    position: int
    kind: str
    body: dict[str, Any]
    previous: str
    hash: str


def chain_hash(position: int, kind: str, body: dict[str, Any], previous: str) -> str:
    """The hash that binds an entry to everything before it."""
    text = previous + canonical([position, kind, body])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def make_entry(position: int, kind: str, body: dict[str, Any], previous: str) -> Entry:
    return Entry(position, kind, body, previous, chain_hash(position, kind, body, previous))
