"""Copies of one ledger that went different ways: each keeps its budget, and both were spent."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from attrs import frozen

from privledger.findings import Finding
from privledger.ledger.store import Row
from privledger.numerals import many

RULE = "one-ledger-one-history"


@frozen
class ForkedCopies:
    """Two places that hold one ledger, by its identity, and not the same history.

    Attributes:
        first, second: where.
        position: of the first entry that they do not share.
        entries: how many each of them has.
        epsilon, delta: what both spent together, counted twice as far as they agree.
        fork: whether they contradict each other; else one is an older copy of the other.
    """

    uuid: str
    first: str
    second: str
    position: int
    entries: tuple[int, int]
    epsilon: float
    delta: float
    fork: bool

    @property
    def text(self) -> str:
        """One sentence."""
        if self.fork:
            return (f"FORK: {self.first} and {self.second} are one ledger with two histories. "
                    f"They agree on {many(self.position, 'entry', 'entries')} and differ from "
                    f"entry {self.position} on ({self.entries[0]} and {self.entries[1]} "
                    "entries): the budget was spent twice, and neither account holds")
        older, newer = ((self.first, self.second) if self.entries[0] < self.entries[1]
                        else (self.second, self.first))
        return (f"OLDER COPY: {older} is {newer} as it was before entry {self.position}. Whoever "
                "goes on with it spends the same budget again")

    def finding(self) -> Finding:
        """As `verify` and `check` say it."""
        return Finding(RULE, self.position, self.text)


def divergence(first: Iterable[Row], second: Iterable[Row]) -> tuple[int, int, int, bool] | None:
    """Where two histories part: position, how many entries each has, whether they contradict.

    None if they are the same. Both are read once, side by side.
    """
    part, contradict, counts = -1, False, [0, 0]
    for position, rows in enumerate(zip_longest(first, second)):
        if part < 0 and rows[0] != rows[1]:
            part, contradict = position, None not in rows
        for side, row in enumerate(rows):
            counts[side] += row is not None
    return None if part < 0 else (part, counts[0], counts[1], contradict)
