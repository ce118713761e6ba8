"""What a ledger keeps by people's places, cut into pieces of 4,096 places, so that one person's
is read fast. CONFIDENTIAL: an index tells how many people there are.

An entry names the index and its hash; the index has the hash of every piece. It begins with salt,
so that a hash in the history tells nothing, not even that there was nobody. Format:
docs/ledger-format.md#people.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256

from attrs import frozen

from privledger.errors import LedgerCorrupt
from privledger.ledger.events import VectorNote
from privledger.ledger.limits import MOST_RECORDS
from privledger.ledger.store import Store

WIDTH = 4096
"""Places in one piece."""

MAGIC = b"prlgidx1"
_SALT, _HASH = 16, 32
_HEAD = len(MAGIC) + _SALT + 16
NOBODY = bytes(_HASH)
"""In place of a hash, where a piece has nobody and is not kept."""


@frozen
class Index:
    """Which pieces there are, for `count` places from `first` on.

    Attributes:
        hashes: sha256 of each piece; `NOBODY` for one that is not kept.
    """

    name: str
    first: int
    count: int
    hashes: tuple[bytes, ...]

    def piece(self, store: Store, number: int) -> bytes | None:
        """One piece; None where there is nobody in it.

        Raises:
            LedgerCorrupt: missing, or edited.
        """
        if not 0 <= number < len(self.hashes):
            return None
        if self.hashes[number] == NOBODY:
            return None
        data = store.vector(piece_name(self.name, number))
        if data is None or sha256(data).digest() != self.hashes[number]:
            raise LedgerCorrupt("a piece of what is kept by people is missing or was edited")
        return data


def width_of(index: Index, number: int) -> int:
    """How many places a piece has."""
    return min(WIDTH, index.count - number * WIDTH)


def piece_name(name: str, number: int) -> str:
    """Under which a piece is stored."""
    return f"{name}/{number}"


def pieces_for(count: int) -> int:
    """How many pieces so many places take."""
    return -(-count // WIDTH)


def made(name: str, first: int, count: int,
         pieces: Mapping[int, bytes]) -> tuple[VectorNote, dict[str, bytes]]:
    """An index over pieces, and everything that is to be stored.

    Args:
        pieces: by number, without those in which there is nobody.
    """
    hashes = [NOBODY] * pieces_for(count)
    for number, data in pieces.items():
        hashes[number] = sha256(data).digest()
    index = (MAGIC + secrets.token_bytes(_SALT) + first.to_bytes(8, "little")
             + count.to_bytes(8, "little") + b"".join(hashes))
    stored = {name: index} | {piece_name(name, number): data for number, data in pieces.items()}
    return VectorNote(name, sha256(index).hexdigest()), stored


def read_index(store: Store, note: VectorNote) -> Index:
    """The index that an entry names.

    Raises:
        LedgerCorrupt: missing, edited, or none.
    """
    data = store.vector(note.name)
    if data is None or sha256(data).hexdigest() != note.sha256:
        raise LedgerCorrupt("an index of what is kept by people is missing or was edited")
    return parsed(note.name, data)


def read_whole(store: Store, note: VectorNote) -> Index:
    """An index of everybody, from place 0 on.

    Raises:
        LedgerCorrupt: as `read_index`, or it begins later.
    """
    index = read_index(store, note)
    if index.first:
        raise LedgerCorrupt("an index of everybody does not begin with the first")
    return index


def stored_under(store: Store, note: VectorNote) -> list[str]:
    """Names of an index and of its pieces; of the index alone, if it cannot be read."""
    try:
        index = read_index(store, note)
    except LedgerCorrupt:
        return [note.name]
    return [note.name, *(piece_name(note.name, number)
                         for number, digest in enumerate(index.hashes) if digest != NOBODY)]


def places_in(data: bytes) -> int:
    """How many places an index says it has.

    Raises:
        LedgerCorrupt: it is none.
    """
    return parsed("", data).count


def parsed(name: str, data: bytes) -> Index:
    """An index from its bytes.

    Raises:
        LedgerCorrupt: it is none.
    """
    start = len(MAGIC) + _SALT
    first, count = (int.from_bytes(data[at:at + 8], "little") for at in (start, start + 8))
    hashes = data[_HEAD:]
    if (not data.startswith(MAGIC) or len(data) < _HEAD or not first + count <= MOST_RECORDS
            or len(hashes) != _HASH * pieces_for(count)):
        raise LedgerCorrupt("an index of what is kept by people is damaged or too large")
    return Index(name, first, count, tuple(
        hashes[at:at + _HASH] for at in range(0, len(hashes), _HASH)))
