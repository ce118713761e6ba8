"""What a ledger of people keeps by their places: who is known, who is in which table, who spent."""

from __future__ import annotations

import hashlib
import sys
from array import array
from operator import add
from typing import Any, Callable, TypeAlias  # noqa: UP035

from .reading import Bad
from .vectors import MOST_ADDED, MOST_RECORDS, MOST_TOTAL_RECORDS, RECORD_UNITS, opened

PIECE_WIDTH, DIGEST_SIZE, PIECE_HASH = 4096, 16, 32
INDEX_MAGIC = b"prlgidx1"
INDEX_HEAD = len(INDEX_MAGIC) + 16 + 16
NOBODY = bytes(PIECE_HASH)


Body: TypeAlias = dict[str, Any]
LookUp: TypeAlias = Callable[[str], "bytes | None"]


class People:
    """Follows enrolments and settlements, and compares when what they name is at hand."""

    def __init__(self) -> None:
        self.tables: list[tuple[int, Body]] = []  # position and body of every enrolment
        self.wanted: list[tuple[int, str, Body, str]] = []  # entry, what, note, scope
        self.size = self.records = 0
        self.seen: set[bytes] = set()
        self.totals: dict[tuple[str, int], array[int]] = {}

    def enrol(self, entry: int, body: Body, unit: str) -> None:
        """Note who was enrolled, to be looked at in the end."""
        if unit != "person":
            raise Bad("enrols people, and the promise is about rows")
        number = len(self.tables)
        if (body["people"]["name"], body["members"]["name"]) != (
                f"people:{number}", f"members:{number}"):
            raise Bad("enrols people under other names than its own")
        self.tables.append((entry, body))
        self.wanted.append((entry, "batch", body["people"], ""))
        self.wanted.append((entry, "members", body["members"], ""))

    def granted(self, body: Body, unit: str) -> None:
        """Refuse a grant for a table of which nobody said who is in it."""
        number = body.get("enrolled")
        if (number is None) != (unit != "person") or (number is not None and (
                number >= len(self.tables) or self.tables[number][1]["data"] != body["data"])):
            raise Bad("grants a table whose people are not known")

    def settled(self, entry: int, body: Body, scope: str | None) -> None:
        """Note what people spent under a grant."""
        note = body.get("vector")
        if note:
            self.wanted.append((entry, "spent", note, note["name"] if scope is None else scope))

    def check(self, look_up: LookUp) -> list[tuple[int, str]]:
        """Faults, in the order of the entries."""
        found = []
        for entry, what, note, scope in self.wanted:
            try:
                first, count, pieces = self.pieces(look_up, note)
                if what == "batch":
                    self.batch(first, count, pieces)
                elif first or count > self.size:
                    raise Bad("places that nobody has")
                elif what == "members":
                    self.members(count, pieces)
                else:
                    self.spent(count, pieces, scope)
            except Bad as error:
                found.append((entry, str(error)))
                if str(error).startswith("the vectors up to here"):
                    break
        return found

    @staticmethod
    def pieces(look_up: LookUp, note: Body) -> tuple[int, int, list[bytes | None]]:
        """First place, number of places, and every piece, each with its hash."""
        index = look_up(note["name"])
        if index is None or hashlib.sha256(index).hexdigest() != note["sha256"]:
            raise Bad("what is kept by people is missing or was edited")
        start = len(INDEX_MAGIC) + 16
        first, count = (int.from_bytes(index[at:at + 8], "little") for at in (start, start + 8))
        hashes = index[INDEX_HEAD:]
        if (not index.startswith(INDEX_MAGIC) or len(index) < INDEX_HEAD
                or first + count > MOST_RECORDS
                or len(hashes) != PIECE_HASH * -(-count // PIECE_WIDTH)):
            raise Bad("what is kept by people is damaged or too large")
        found: list[bytes | None] = []
        for number in range(len(hashes) // PIECE_HASH):
            right = hashes[number * PIECE_HASH:(number + 1) * PIECE_HASH]
            piece = None if right == NOBODY else look_up(f"{note['name']}/{number}")
            if right != NOBODY and (piece is None or hashlib.sha256(piece).digest() != right):
                raise Bad("a piece of what is kept by people is missing or was edited")
            found.append(piece)
        return first, count, found

    def batch(self, first: int, count: int, pieces: list[bytes | None]) -> None:
        """New people: behind those before, rising, nobody twice."""
        data = b"".join(piece or b"" for piece in pieces)
        if first != self.size or any(
                len(piece or b"") != DIGEST_SIZE * min(PIECE_WIDTH, count - number * PIECE_WIDTH)
                for number, piece in enumerate(pieces)):
            raise Bad("a batch of people does not follow the one before")
        fresh = [data[at:at + DIGEST_SIZE] for at in range(0, len(data), DIGEST_SIZE)]
        if any(map(bytes.__ge__, fresh, fresh[1:])) or not self.seen.isdisjoint(fresh):
            raise Bad("a batch of people names somebody twice, or out of order")
        self.seen.update(fresh)
        self.size += count

    @staticmethod
    def members(count: int, pieces: list[bytes | None]) -> None:
        """One bit for each place, and none beyond the last."""
        for number, piece in enumerate(pieces):
            some = min(PIECE_WIDTH, count - number * PIECE_WIDTH)
            if piece is not None and (len(piece) != -(-some // 8)
                                      or int.from_bytes(piece, "little") >> some):
                raise Bad("who is in a table is not as long as it says")

    def spent(self, count: int, pieces: list[bytes | None], scope: str) -> None:
        """Nobody has spent more than the cap, in all tables together."""
        self.records += count
        if self.records > MOST_TOTAL_RECORDS:
            raise Bad("the vectors up to here hold too many records: not read")
        for number, piece in enumerate(pieces):
            if piece is not None:
                self.piece(min(PIECE_WIDTH, count - number * PIECE_WIDTH), piece, (scope, number))

    def piece(self, some: int, data: bytes, key: tuple[str, int]) -> None:
        """One piece of what people spent: units, then rounds."""
        raw = opened(data, 12 * some, whole=True)
        taken, rounds = array("q"), array("i")
        taken.frombytes(raw[:8 * some])
        rounds.frombytes(raw[8 * some:])
        if sys.byteorder == "big":
            taken.byteswap()
            rounds.byteswap()
        if min(taken) < 0 or max(taken) > RECORD_UNITS or min(rounds) < 0:
            raise Bad("a person is past the cap")
        if self.records > MOST_ADDED:
            return
        before = self.totals.get(key, array("q"))
        short = min(len(before), some)
        total = array("q", map(add, before[:short], taken[:short])) + (
            before[short:] or taken[short:])
        self.totals[key] = total
        if max(total) > RECORD_UNITS:
            raise Bad("a person is past the cap")
