"""Per-record vectors of a settlement <-> bytes in the store. Confidential: they give a length."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.ledger.events import VectorNote
from privledger.ledger.limits import MOST_PACKED, MOST_RECORDS, MOST_TOTAL_RECORDS, ROOM
from privledger.ledger.store import Store

# What a ledger keeps by people's places, cut into pieces of 4,096 places, so that one person's
# is read fast. CONFIDENTIAL: an index tells how many people there are.
#
# An entry names the index and its hash; the index has the hash of every piece. It begins with salt,
# so that a hash in the history tells nothing, not even that it is empty. Format:
# docs/ledger-format.md#people.

WIDTH = 4096
"""Places in one piece."""

MAGIC = b"prlgidx1"
_SALT, _HASH = 16, 32
_INDEX_HEAD = len(MAGIC) + _SALT + 16
EMPTY_PIECE = bytes(_HASH)
"""In place of a hash, where a piece is empty and is not kept."""


@frozen
class Index:
    """Which pieces there are, for `count` places from `first` on.

    Attributes:
        hashes: sha256 of each piece; `EMPTY_PIECE` for one that is not kept.
    """

    name: str
    first: int
    count: int
    hashes: tuple[bytes, ...]

    def piece(self, store: Store, number: int) -> bytes | None:
        """One piece; None where it is empty.

        Raises:
            LedgerCorrupt: missing, or edited.
        """
        if not 0 <= number < len(self.hashes):
            return None
        if self.hashes[number] == EMPTY_PIECE:
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
        pieces: by number, without empty ones.
    """
    hashes = [EMPTY_PIECE] * pieces_for(count)
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
    return parsed_vector(note.name, data)


def read_whole(store: Store, note: VectorNote) -> Index:
    """An index of all people, from place 0 on.

    Raises:
        LedgerCorrupt: as `read_index`, or it begins later.
    """
    index = read_index(store, note)
    if index.first:
        raise LedgerCorrupt("an index of people does not begin with the first")
    return index


def stored_under(store: Store, note: VectorNote) -> list[str]:
    """Names of an index and of its pieces; of the index alone, if it cannot be read."""
    try:
        index = read_index(store, note)
    except LedgerCorrupt:
        return [note.name]
    return [note.name, *(piece_name(note.name, number)
                         for number, digest in enumerate(index.hashes) if digest != EMPTY_PIECE)]


def places_in(data: bytes) -> int:
    """How many places an index says it has.

    Raises:
        LedgerCorrupt: it is none.
    """
    return parsed_vector("", data).count


def parsed_vector(name: str, data: bytes) -> Index:
    """An index from its bytes.

    Raises:
        LedgerCorrupt: it is none.
    """
    start = len(MAGIC) + _SALT
    first, count = (int.from_bytes(data[at:at + 8], "little") for at in (start, start + 8))
    hashes = data[_INDEX_HEAD:]
    if (not data.startswith(MAGIC) or len(data) < _INDEX_HEAD or not first + count <= MOST_RECORDS
            or len(hashes) != _HASH * pieces_for(count)):
        raise LedgerCorrupt("an index of what is kept by people is damaged or too large")
    return Index(name, first, count, tuple(
        hashes[at:at + _HASH] for at in range(0, len(hashes), _HASH)))


_SPENT = "a piece of what people spent"
_HEAD, _EACH = 8, 12  # bytes: the number of records; units and rounds of each


def pack(taken: NDArray[np.int64], rounds: NDArray[np.int32]) -> bytes:
    """A per-record vector for the store: units taken, then rounds, compressed."""
    header = np.array([len(taken)], dtype="<i8").tobytes()
    return zlib.compress(header + taken.astype("<i8").tobytes() + rounds.astype("<i4").tobytes(), 1)


def unpack(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The inverse of `pack`.

    Raises:
        LedgerCorrupt: not exactly as many records as it says, more than `MOST_RECORDS` of them,
            or anything behind them. No more is unpacked than that many records take.
    """
    n = records_in(data)
    return _columns(data, _HEAD, n, "a per-record vector")


def _columns(data: bytes, head: int, n: int,
             what: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Units and rounds of `n` behind `head` bytes, compressed, and nothing else."""
    whole, opened = head + _EACH * n, zlib.decompressobj()
    try:
        raw = opened.decompress(data, whole + 1)
    except zlib.error:
        raise LedgerCorrupt(f"{what} is damaged") from None
    if len(raw) != whole or not opened.eof or opened.unused_data:
        raise LedgerCorrupt(f"{what} is not as long as it says")
    return (np.frombuffer(raw, "<i8", n, head).astype(np.int64, copy=False),
            np.frombuffer(raw, "<i4", n, head + 8 * n).astype(np.int32, copy=False))


def records_in(data: bytes) -> int:
    """How many records a packed vector says it has; nothing else of it is unpacked.

    Raises:
        LedgerCorrupt: it says nothing, or more than `MOST_RECORDS`.
    """
    if data.startswith(MAGIC):
        return places_in(data)
    try:
        head = zlib.decompressobj().decompress(data, _HEAD) if len(data) <= MOST_PACKED else b""
    except zlib.error:
        head = b""
    if len(head) != _HEAD:
        raise LedgerCorrupt("a per-record vector is damaged, or too large")
    n = int.from_bytes(head, "little", signed=True)
    if not 0 <= n <= MOST_RECORDS:
        raise LedgerCorrupt(f"a per-record vector says it has {'more' if n > 0 else 'fewer'} "
                            f"records than the {MOST_RECORDS if n > 0 else 0} that one may have")
    return n


def check_vectors(records: int, before: int) -> None:
    """Refuse a filter over more records than vectors of a ledger may have.

    Args:
        records: rows that the filter is for.
        before: records in all vectors so far, those of open grants included.

    Raises:
        InvalidPlan: too many. Nothing was read. The message holds no number of rows.
    """
    if records > MOST_RECORDS:
        raise InvalidPlan("individual filter", "a table of more rows",
                          f"over at most {MOST_RECORDS} rows: a larger vector cannot be kept")
    if before + records > MOST_TOTAL_RECORDS * ROOM:
        raise InvalidPlan("individual filter", "one vector more",
                          f"within {int(MOST_TOTAL_RECORDS * ROOM)} records in all vectors of a "
                          "ledger together. Begin another ledger")


def vector_note(name: str, data: bytes) -> VectorNote:
    """What the settlement says about a vector, so that an edited one is found."""
    return VectorNote(name, sha256(data).hexdigest())


# What people spent under a filter, by their places in the roster: one person's is read fast.
#
# A piece holds the units and the rounds of 4,096 places; it is kept where a person of the grant's
# table is in it. Format: docs/ledger-format.md#people. CONFIDENTIAL.

@frozen(eq=False, repr=False)
class Spent:
    """What one grant took from people.

    Attributes:
        places: shape (n,), int64, in the roster; of all people in the table.
        taken: shape (n,), int64, in cap / 2**52. rounds: shape (n,), int32.
    """

    places: NDArray[np.int64]
    taken: NDArray[np.int64]
    rounds: NDArray[np.int32]


def spent_pieces(name: str, size: int, spent: Spent) -> tuple[VectorNote, dict[str, bytes]]:
    """What is stored of it.

    Args:
        size: how many people the ledger knows.
    """
    taken, rounds = np.zeros(size, np.int64), np.zeros(size, np.int32)
    taken[spent.places], rounds[spent.places] = spent.taken, spent.rounds
    pieces = {}
    for number in np.unique(spent.places // WIDTH).tolist():
        some = slice(number * WIDTH, (number + 1) * WIDTH)
        pieces[number] = zlib.compress(taken[some].astype("<i8").tobytes()
                                       + rounds[some].astype("<i4").tobytes(), 1)
    return made(name, 0, size, pieces)


def spent_at(store: Store, note: VectorNote, place: int) -> tuple[int, int]:
    """Units and rounds of one person; nothing for one who came later. One piece is read.

    Raises:
        LedgerCorrupt: missing, edited or damaged.
    """
    index = read_whole(store, note)
    number = place // WIDTH
    data = None if place >= index.count else index.piece(store, number)
    if data is None:
        return 0, 0
    taken, rounds = _columns(data, 0, width_of(index, number), _SPENT)
    return int(taken[place % WIDTH]), int(rounds[place % WIDTH])


def each_piece(store: Store, note: VectorNote,
               ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
    """First place, units and rounds of every piece that is kept.

    Raises:
        LedgerCorrupt: as `spent_at`.
    """
    index = read_whole(store, note)
    for number in range(len(index.hashes)):
        data = index.piece(store, number)
        if data is not None:
            yield number * WIDTH, *_columns(data, 0, width_of(index, number), _SPENT)


def spent_by_all(store: Store, note: VectorNote,
                 size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Units and rounds by place, shape (size,) each, for `size` people.

    Raises:
        LedgerCorrupt: as `spent_at`, or it has numbers that no person has.
    """
    taken, rounds = np.zeros(size, np.int64), np.zeros(size, np.int32)
    for first, units, times in each_piece(store, note):
        if first + len(units) > size:
            raise LedgerCorrupt("unknown people have spent")
        taken[first:first + len(units)] = units
        rounds[first:first + len(units)] = times
    return taken, rounds
