"""Per-record vectors of a settlement <-> bytes in the store. Confidential: they give a length."""

from __future__ import annotations

import zlib
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.ledger.events import VectorNote
from privledger.ledger.limits import MOST_PACKED, MOST_RECORDS, MOST_TOTAL_RECORDS, ROOM
from privledger.ledger.pieces import MAGIC, places_in

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
    whole = _HEAD + _EACH * n
    opened = zlib.decompressobj()
    try:
        raw = opened.decompress(data, whole + 1)
    except zlib.error:
        raise LedgerCorrupt("a per-record vector is damaged") from None
    if len(raw) != whole or not opened.eof or opened.unused_data:
        raise LedgerCorrupt("a per-record vector is not as long as it says")
    taken = np.frombuffer(raw, "<i8", n, _HEAD).astype(np.int64, copy=False)
    return taken, np.frombuffer(raw, "<i4", n, _HEAD + 8 * n).astype(np.int32, copy=False)


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
                          f"over at most {MOST_RECORDS} rows: its vector would be too large")
    if before + records > MOST_TOTAL_RECORDS * ROOM:
        raise InvalidPlan("individual filter", "one vector more",
                          f"within {int(MOST_TOTAL_RECORDS * ROOM)} records in all vectors of a "
                          "ledger together. Begin another ledger")


def vector_note(name: str, data: bytes) -> VectorNote:
    """What the settlement says about a vector, so that an edited one is found."""
    return VectorNote(name, sha256(data).hexdigest())
