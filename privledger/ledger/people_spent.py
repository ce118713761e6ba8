"""What people spent under a filter, by their places in the roster: one person's is read fast.

A piece holds the units and the rounds of 4,096 places; it is kept where somebody of the grant's
table is in it. Format: docs/ledger-format.md#people. CONFIDENTIAL.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import LedgerCorrupt
from privledger.ledger.events import VectorNote
from privledger.ledger.pieces import WIDTH, made, read_whole, width_of
from privledger.ledger.store import Store

_EACH = 12  # bytes: units and rounds of each place


@frozen(eq=False, repr=False)
class Spent:
    """What one grant took from people.

    Attributes:
        places: shape (n,), int64, in the roster; of everybody in the table.
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


def _opened(data: bytes, some: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(data, _EACH * some + 1)
    except zlib.error:
        raise LedgerCorrupt("a piece of what people spent is damaged") from None
    if len(raw) != _EACH * some or not reader.eof or reader.unused_data:
        raise LedgerCorrupt("a piece of what people spent is not as long as it says")
    return (np.frombuffer(raw, "<i8", some).astype(np.int64, copy=False),
            np.frombuffer(raw, "<i4", some, 8 * some).astype(np.int32, copy=False))


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
    taken, rounds = _opened(data, width_of(index, number))
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
            yield number * WIDTH, *_opened(data, width_of(index, number))


def spent_by_all(store: Store, note: VectorNote,
                 size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Units and rounds by place, shape (size,) each, for `size` people.

    Raises:
        LedgerCorrupt: as `spent_at`, or it has places that nobody has.
    """
    taken, rounds = np.zeros(size, np.int64), np.zeros(size, np.int32)
    for first, units, times in each_piece(store, note):
        if first + len(units) > size:
            raise LedgerCorrupt("people spent who are not known")
        taken[first:first + len(units)] = units
        rounds[first:first + len(units)] = times
    return taken, rounds
