"""The people of a ledger: digest -> place, append-only, over all its tables.

Every table that is protected enrols its people: those whom the ledger does not know yet get the
next places, in the order of their digests. Without the key that order is random, and with
it one learns nothing by it that the digests do not say. CONFIDENTIAL.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidPlan, LedgerCorrupt
from privledger.ledger.events import Enrolled, VectorNote
from privledger.ledger.limits import MOST_RECORDS
from privledger.ledger.store import Store
from privledger.ledger.vectors import WIDTH, Index, made, read_index, read_whole, width_of
from privledger.tables.person_keys import SIZE, Digests, key_from_bytes, key_to_bytes


def _batch(store: Store, note: VectorNote) -> tuple[Index, Digests]:
    index = read_index(store, note)
    parts = [index.piece(store, number) or b"" for number in range(len(index.hashes))]
    if any(len(part) != SIZE * width_of(index, number) for number, part in enumerate(parts)):
        raise LedgerCorrupt("a batch of people is not as long as it says")
    return index, key_from_bytes(b"".join(parts))


@define(eq=False, repr=False)
class Roster:
    """All people whom a ledger knows, as far as its enrolments were followed.

    Attributes:
        size: how many people. enrolments: how many were followed.
    """

    size: int = 0
    enrolments: int = 0
    _known: Digests = field(factory=lambda: np.zeros((0, 2), np.uint64))  # rising
    _places: NDArray[np.int64] = field(factory=lambda: np.zeros(0, np.int64))

    def follow(self, store: Store, enrolled: Sequence[Enrolled]) -> None:
        """Read the batches that are not known yet.

        Raises:
            LedgerCorrupt: one is missing, edited, or does not follow the one before.
        """
        for event in enrolled[self.enrolments:]:
            self.enrol(store, event)

    def enrol(self, store: Store, event: Enrolled) -> None:
        """Read the batch of one enrolment, the next.

        Raises:
            LedgerCorrupt: as `follow`.
        """
        index, fresh = _batch(store, event.people)
        if index.first != self.size:
            raise LedgerCorrupt("a batch of people does not follow the one before")
        self.take(fresh)

    def take(self, fresh: Digests) -> None:
        """Add a batch: digests that are new, each once, rising."""
        if len(fresh):
            known = np.concatenate([self._known, fresh])
            places = np.concatenate([self._places,
                                     np.arange(self.size, self.size + len(fresh))])
            order = np.lexsort((known[:, 1], known[:, 0])) if self.size else np.arange(len(fresh))
            self._known, self._places = known[order], places[order]
            same = (self._known[1:] == self._known[:-1]).all(axis=1)
            high, low = fresh[1:] < fresh[:-1], fresh[1:, 0] == fresh[:-1, 0]
            if same.any() or (high[:, 0] | (low & high[:, 1])).any():
                raise LedgerCorrupt("a batch of people names a person twice, or out of order")
        self.size += len(fresh)
        self.enrolments += 1

    def find(self, asked: Digests) -> NDArray[np.int64]:
        """The place of each digest, shape (n,); -1 for one that no person has."""
        found = np.full(len(asked), -1, np.int64)
        if not self.size:
            return found
        at = np.searchsorted(self._known[:, 0], asked[:, 0])
        left = np.arange(len(asked))
        while len(left):  # once, but for digests of which the first half is the same
            inside = at[left] < self.size
            left = left[inside]
            left = left[self._known[at[left], 0] == asked[left, 0]]
            right = self._known[at[left], 1] == asked[left, 1]
            found[left[right]] = self._places[at[left[right]]]
            left = left[~right]
            at[left] += 1
        return found


    def find_with(self, asked: Digests, fresh: Digests) -> NDArray[np.int64]:
        """As `find`, as it will be when `fresh` is taken, too."""
        found = self.find(asked)
        left = found < 0
        if left.any():
            found[left] = self.size + Roster(len(fresh), 0, fresh, np.arange(len(fresh))).find(
                asked[left])
        return found


def all_digests(store: Store, enrolled: Sequence[Enrolled]) -> Digests:
    """The digests of all people, by place.

    Raises:
        LedgerCorrupt: as `Roster.follow`.
    """
    parts = [_batch(store, event.people)[1] for event in enrolled]
    return np.concatenate(parts) if parts else key_from_bytes(b"")


def newcomers(asked: Digests, found: NDArray[np.int64]) -> Digests:
    """Those without a place, rising."""
    fresh = asked[found < 0]
    order: NDArray[np.int64] = np.lexsort((fresh[:, 1], fresh[:, 0]))
    return fresh[order]


def batch_pieces(number: int, first: int, fresh: Digests) -> tuple[VectorNote, dict[str, bytes]]:
    """What is stored of new people.

    Raises:
        InvalidPlan: more than a ledger may know. Nothing was written.
    """
    if first + len(fresh) > MOST_RECORDS:
        raise InvalidPlan("people", "more of them", f"at most {MOST_RECORDS} in one ledger")
    data = key_to_bytes(fresh)
    wide = WIDTH * SIZE
    return made(f"people:{number}", first, len(fresh), {
        place // wide: data[place:place + wide] for place in range(0, len(data), wide)})


def member_pieces(number: int, places: NDArray[np.int64],
                  size: int) -> tuple[VectorNote, dict[str, bytes]]:
    """What is stored of who is in a table: one bit for each place."""
    there = np.zeros(size, dtype=bool)
    there[places] = True
    pieces = {}
    for start in range(0, size, WIDTH):
        some = there[start:start + WIDTH]
        if some.any():
            pieces[start // WIDTH] = np.packbits(some, bitorder="little").tobytes()
    return made(f"members:{number}", 0, size, pieces)


def known_by(enrolled: Sequence[tuple[int, Enrolled]], store: Store, number: int) -> int:
    """How many people a ledger knew after an enrolment: as many as its members could be."""
    return read_whole(store, enrolled[number][1].members).count


def is_member(store: Store, event: Enrolled, place: int) -> bool:
    """Whether a person is in the table that was enrolled. One piece is read.

    Raises:
        LedgerCorrupt: as `read_index`.
    """
    index = read_whole(store, event.members)
    data = None if place >= index.count else index.piece(store, place // WIDTH)
    if data is None:
        return False
    at = place % WIDTH
    if at // 8 >= len(data):
        raise LedgerCorrupt("a piece of who is in a table is not as long as it says")
    return bool(data[at // 8] >> (at % 8) & 1)


def members_of(store: Store, event: Enrolled) -> NDArray[np.bool_]:
    """Who is in the table that was enrolled, by place.

    Raises:
        LedgerCorrupt: as `read_index`, or a piece of another length.
    """
    index = read_whole(store, event.members)
    there = np.zeros(index.count, dtype=bool)
    for number in range(len(index.hashes)):
        data = index.piece(store, number)
        if data is not None:
            some = there[number * WIDTH:(number + 1) * WIDTH]
            if len(data) != -(-len(some) // 8) or int.from_bytes(data, "little") >> len(some):
                raise LedgerCorrupt("a piece of who is in a table is not as long as it says")
            some[:] = np.unpackbits(np.frombuffer(data, np.uint8), count=len(some),
                                    bitorder="little")
    return there


def place_of(store: Store, enrolled: Sequence[Enrolled], digest: bytes) -> int | None:
    """The place of one person, without reading all others; None for an unknown one.

    Raises:
        LedgerCorrupt: as `read_index`.
    """
    for event in enrolled:
        index = read_index(store, event.people)

        def last(number: int, index: Index = index) -> bytes:
            return (index.piece(store, number) or b"")[-SIZE:]

        # The pieces rise, and so do the digests in each.
        number = bisect_left(range(len(index.hashes)), digest, key=last)
        data = b"" if number == len(index.hashes) else index.piece(store, number) or b""
        rows = [data[at:at + SIZE] for at in range(0, len(data), SIZE)]
        at = bisect_left(rows, digest)
        if rows[at:at + 1] == [digest]:
            return index.first + number * WIDTH + at
    return None
