"""Per-record vectors: that each is the one its settlement names, and no record is past its cap."""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from array import array
from operator import add
from typing import Any

from .reading import Bad

RECORD_UNITS = 1 << 52
MOST_RECORDS, MOST_TOTAL_RECORDS = 5_000_000, 64_000_000
MOST_ADDED = 12_000_000  # records that are added up here


class Vectors:
    """Follows the settlements of a history, and compares when the vectors are at hand."""

    def __init__(self) -> None:
        self.wanted: list[tuple[int, str, str, str]] = []  # entry, name, digest, scope
        self.seen: dict[str, bytes] = {}
        self.records = 0
        self.totals: dict[str, Any] = {}
        self.largest: dict[str, int] = {}
        self.given = False

    def settled(self, entry: int, body: Any, scope: str | None) -> None:
        """Note the vector that a settlement names, to be looked at in the end."""
        vector = body.get("vector")
        if vector:
            self.wanted.append((entry, vector["name"], vector["sha256"],
                                vector["name"] if scope is None else scope))

    def line(self, name: Any, data: Any) -> None:
        """A vector behind the entries of an export."""
        self.given = True
        if type(name) is not str or type(data) is not str or name in self.seen:
            raise Bad("a vector without a name, or twice")
        self.seen[name] = base64.b64decode(data, validate=True)

    def check(self, look_up: Any) -> list[tuple[int, str]]:
        """Faults, and what was left out (with a leading dash)."""
        found = []
        for entry, name, digest, scope in self.wanted:
            try:
                self.one(look_up(name), digest, scope)
            except Bad as error:
                found.append((entry, str(error)))
                if str(error).startswith("the vectors up to here"):
                    break
        return found

    def one(self, data: bytes | None, digest: str, scope: str) -> None:
        """Look at one vector: its digest, its length, and what each record has spent by then."""
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise Bad("the per-record vector is missing or was edited")
        head = opened(data, 8)[:8]
        count = int.from_bytes(head, "little", signed=True)
        if len(head) != 8 or not 0 <= count <= MOST_RECORDS:
            raise Bad("a per-record vector that is damaged or too large")
        self.records += count
        if self.records > MOST_TOTAL_RECORDS:
            raise Bad("the vectors up to here hold too many records: not read")
        raw = memoryview(opened(data, 8 + 12 * count, whole=True))
        taken, rounds = array("q"), array("i")
        taken.frombytes(raw[8:8 + 8 * count])
        rounds.frombytes(raw[8 + 8 * count:])
        if sys.byteorder == "big":
            taken.byteswap()
            rounds.byteswap()
        del raw
        if count and (min(taken) < 0 or max(taken) > RECORD_UNITS or min(rounds) < 0):
            raise Bad("a record is past its own cap")
        before = self.largest.get(scope, 0)
        self.largest[scope] = before + (max(taken) if count else 0)
        if self.records > MOST_ADDED:
            return
        total = self.totals.get(scope, array("q"))
        if self.largest[scope] > RECORD_UNITS or len(total) < MOST_ADDED:
            short = min(len(total), count)
            total = array("q", map(add, total[:short], taken[:short])) + (
                total[short:] or taken[short:])
            self.totals[scope] = total
        if self.largest[scope] > RECORD_UNITS and max(total) > RECORD_UNITS:
            raise Bad("a record is past its own cap")


def opened(data: bytes, most: int, whole: bool = False) -> bytes:
    """So many bytes of what was compressed; with `whole`, exactly so many and nothing behind."""
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(data, most + (1 if whole else 0))
    except zlib.error:
        raise Bad("a per-record vector that is damaged") from None
    if whole and (len(raw) != most or not reader.eof or reader.unused_data):
        raise Bad("a per-record vector is not as long as it says")
    return raw
