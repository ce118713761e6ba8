"""What is kept beside the totals: records and people, caps, who waits, checkpoints.

Per-record vectors: each is the one its settlement names, and no record is past its cap.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from array import array
from collections.abc import Container, Mapping
from operator import add
from typing import Any, Callable, TypeAlias  # noqa: UP035

from .reading import Bad, canonical, parse

RECORD_UNITS = 1 << 52
MOST_RECORDS, MOST_TOTAL_RECORDS = 5_000_000, 64_000_000
MOST_ADDED = 12_000_000  # records that are added up here


def faults_among(wanted: Any, look: Callable[..., None]) -> list[tuple[int, str]]:
    """What is wrong with anything that entries name, until too much was read."""
    found = []
    for entry, *named in wanted:
        try:
            look(*named)
        except Bad as error:
            found.append((entry, str(error)))
            if str(error).startswith("the vectors up to here"):
                break
    return found


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
        return faults_among(self.wanted, lambda name, digest, scope: self.one(
            look_up(name), digest, scope))

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
            raise Bad("a record exceeds its own cap")
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
            raise Bad("a record exceeds its own cap")


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


# What a ledger of people keeps by their places: who is known, who is in which table, who spent.

PIECE_WIDTH, DIGEST_SIZE, PIECE_HASH = 4096, 16, 32
INDEX_MAGIC = b"prlgidx1"
INDEX_HEAD = len(INDEX_MAGIC) + 16 + 16
EMPTY_PIECE = bytes(PIECE_HASH)


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
            raise Bad("enrols people, but the ledger protects rows")
        number = len(self.tables)
        if (body["people"]["name"], body["members"]["name"]) != (
                f"people:{number}", f"members:{number}"):
            raise Bad("enrols people under names of another ledger")
        self.tables.append((entry, body))
        self.wanted.append((entry, "batch", body["people"], ""))
        self.wanted.append((entry, "members", body["members"], ""))

    def granted(self, body: Body, unit: str) -> None:
        """Refuse a grant for a table whose people were not enrolled."""
        number = body.get("enrolled")
        if (number is None) != (unit != "person") or (number is not None and (
                number >= len(self.tables) or self.tables[number][1]["data"] != body["data"])):
            raise Bad("grants a table whose people are unknown")

    def settled(self, entry: int, body: Body, scope: str | None) -> None:
        """Note what people spent under a grant."""
        note = body.get("vector")
        if note:
            self.wanted.append((entry, "spent", note, note["name"] if scope is None else scope))

    def check(self, look_up: LookUp) -> list[tuple[int, str]]:
        """Faults, in the order of the entries."""
        def one(what: str, note: Body, scope: str) -> None:
            first, count, pieces = self.pieces(look_up, note)
            if what == "batch":
                self.batch(first, count, pieces)
            elif first or count > self.size:
                raise Bad("numbers that no person has")
            elif what == "members":
                self.members(count, pieces)
            else:
                self.spent(count, pieces, scope)

        return faults_among(self.wanted, one)

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
            piece = None if right == EMPTY_PIECE else look_up(f"{note['name']}/{number}")
            if right != EMPTY_PIECE and (piece is None or hashlib.sha256(piece).digest() != right):
                raise Bad("a piece of what is kept by people is missing or was edited")
            found.append(piece)
        return first, count, found

    def batch(self, first: int, count: int, pieces: list[bytes | None]) -> None:
        """New people: behind those before, rising, none twice."""
        data = b"".join(piece or b"" for piece in pieces)
        if first != self.size or any(
                len(piece or b"") != DIGEST_SIZE * min(PIECE_WIDTH, count - number * PIECE_WIDTH)
                for number, piece in enumerate(pieces)):
            raise Bad("a batch of people does not follow the one before")
        fresh = [data[at:at + DIGEST_SIZE] for at in range(0, len(data), DIGEST_SIZE)]
        if any(map(bytes.__ge__, fresh, fresh[1:])) or not self.seen.isdisjoint(fresh):
            raise Bad("a batch of people names a person twice, or out of order")
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
        """No person has spent more than the cap, in all tables together."""
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
            raise Bad("a person exceeds the cap")
        if self.records > MOST_ADDED:
            return
        before = self.totals.get(key, array("q"))
        short = min(len(before), some)
        total = array("q", map(add, before[:short], taken[:short])) + (
            before[short:] or taken[short:])
        self.totals[key] = total
        if max(total) > RECORD_UNITS:
            raise Bad("a person exceeds the cap")


# Budgets beside the ledger's own: for one table, for labels, for a window, for each window.

Total = tuple[int, int]


class Cap:
    """One cap, and what the grants that match it took: for each window where it begins anew."""

    def __init__(self, body: Any) -> None:
        self.epsilon, self.delta = float(body["epsilon"]), float(body["delta"])
        self.reserve = float(body.get("failure", 0.0))
        self.data, self.labels = body["data"], body["labels"]
        self.window, self.each = body.get("window"), bool(body.get("per_window"))
        self.totals: dict[str | None, Total] = {}

    def matches(self, grant: Any) -> bool:
        """A scope may serve any table and any request, so it falls under all but other windows."""
        if self.window is not None and grant.get("window") != self.window:
            return False
        if "grant" not in grant:
            return True
        carried = grant.get("labels") or {}
        return (self.data is None or grant["data"] == self.data) and all(
            carried.get(key) == value for key, value in self.labels.items())

    def spent(self, window: str | None) -> Total:
        """Units and delta units charged to it, in `window` if it is a cap for each."""
        return self.totals.get(window if self.each else None, (0, 0))

    def add(self, window: str | None, units: int, delta_units: int) -> Total:
        """Charge it; returns what is spent then."""
        before = self.spent(window)
        after = before[0] + units, before[1] + delta_units
        self.totals[window if self.each else None] = after
        return after

    def shown(self, window: str | None, end: Total | None = None) -> list[int]:
        """As a checkpoint lists it: a cap for all time by what it was when the window ended."""
        return list(self.spent(window) if self.each or end is None else end)

    def __str__(self) -> str:
        return f"the cap for data {self.data}, labels {self.labels}, window {self.window}"


# The line of those who wait for budget. Nothing is charged by it; a checkpoint keeps it.

MOST_PLACES = 1000
PLACE_FIELDS = ("grant", "data", "labels", "units", "delta_units", "until", "host", "pid",
                "started")


class Line:
    """Places by grant, in the order in which they came."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, object]] = {}

    def refused(self, body: Mapping[str, object], granted: Container[str]) -> bool:
        """Fold a `refused` entry in; whether it counts as a refusal."""
        self.places.pop(str(body.get("left_line", "")), None)
        place = body.get("waits")
        if isinstance(place, dict) and place["grant"] not in granted and (
                len(self.places) < MOST_PLACES):
            self.places[place["grant"]] = {name: place[name] for name in PLACE_FIELDS}
        return not ("waits" in body or "left_line" in body)

    def granted(self, grant: str) -> None:
        """The request that waited has what it asked for."""
        self.places.pop(grant, None)


# Checkpoints: a convenience in a file that says what the entries before it add up to.

CHECKPOINT_VERSION = 2
GRANT = {"status": "granted", "releases": 0, "touched": True, "settled": {}, "crashed": {},
         "corrections": []}


class Checkpoint:
    """One that a file keeps, compared when the history reaches its position."""

    def __init__(self, position: Any, head: str, state: str, seal: str, names: str) -> None:
        self.position, self.head, self.state, self.names = position, head, state, names
        whole = hashlib.sha256(f"{position}\n{head}\n{state}".encode()).hexdigest()
        self.sound = seal == whole

    def check(self, book: Any) -> None:
        """Raise `Bad` if it is not what the book holds now."""
        try:
            kept = parse(self.state.encode(), "utf-8")
            if self.sound and kept["version"] > CHECKPOINT_VERSION:
                return  # a later version wrote it, for itself
        except (Bad, LookupError, TypeError):
            pass
        right = canonical(state_of(book))
        if (not self.sound or self.state != right or self.head != book.hashes[-1]
                or self.names != canonical(book.closed)[1:-1]):
            raise Bad("the checkpoint is not what the entries before it add up to")


def state_of(book: Any) -> dict[str, Any]:
    """Everything that decides on requests, as a writer keeps it."""
    fixed = book.filter_body
    current = book.windows[-1]
    return {
        "version": CHECKPOINT_VERSION, "created": book.created, "units": book.units,
        "delta_units": book.delta_units, "refusals": book.refusals, "charges": book.charges,
        "cap_spent": [cap.shown(current) for cap in book.caps], "window": current,
        "windows": [[name or "", [cap.shown(name, end) for cap in book.caps]]
                    for name, end in zip(book.windows[:-1], book.window_ends, strict=True)],
        "filter": None if fixed is None else {name: fixed[name] for name in (
            "kind", "order", "cap_units", "delta_cap_units")},
        "grants": [kept_grant(grant) for grant in book.grants.values()
                   if grant["corrections"] or grant["name"] not in book.closed_names],
        "scopes": [{"scope": name, "position": scope["position"], "body": scope["body"],
                    **({"corrections": scope["corrections"]} if scope["corrections"] else {})}
                   for name, scope in book.scopes.items()],
        "names": len(book.closed),
        "digest": hashlib.sha256(canonical(book.closed)[1:-1].encode("ascii")).hexdigest(),
        **({"enrolled": book.people.tables} if book.people.tables else {}),
        **({"line": list(book.line.places.values())} if book.line.places else {}),
    }


def kept_grant(grant: Any) -> dict[str, Any]:
    """What a checkpoint keeps of a grant, to compare it with the entries."""
    return {"grant": grant["name"], "position": grant["position"], "body": grant["body"],
            **{field: grant[field] for field in GRANT}}
