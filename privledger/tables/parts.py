"""Files in parts, each of which any process reads that sees them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, groupby, pairwise
from typing import Any, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from privledger.tables.listing import File, Listing, Piece

Group: TypeAlias = tuple[File, int, int, int]
"""Rows that can be read without those before: where they begin and end in a file, in bytes or row
groups, and how many they are said to be."""
Read: TypeAlias = "Callable[[File, list[Group], tuple[str, ...], int], Iterator[Piece]]"


@runtime_checkable
class InParts(Protocol):
    """An origin of rows in files that every process reads that sees them."""

    @property
    def listing(self) -> Listing:
        """The files."""

    def parts(self, rows: int, most: int) -> Iterator[tuple[int, int, FilePart]]:
        """As `file_parts`."""


def file_parts(read: Read, groups: list[Group], rows: int, most: int
           ) -> Iterator[tuple[int, int, FilePart]]:
    """At most so many parts, in order: the first row, the row behind the last, and where they are.
    Each begins at a multiple of `rows`, behind the begin or the middle of a group by less than
    `rows`: few are read twice."""
    groups = [group for group in groups if group[-1]]
    starts = [0, *accumulate(group[-1] for group in groups)]
    total, cuts = starts[-1], [0]
    for start in sorted([*starts, *((one + two) // 2 for one, two in pairwise(starts))]):
        cut = -(-start // rows) * rows
        if cut < total and cut - cuts[-1] >= total / most:
            cuts.append(cut)
    for first, stop in pairwise([*cuts, total] if total else ()):
        within = slice(bisect_right(starts, first) - 1, bisect_left(starts, stop))
        yield first, stop, FilePart(
            read, tuple(groups[within]), first - starts[within.start], stop - first)


@frozen(eq=False, repr=False)
class FilePart:
    """Some consecutive rows of files.

    Attributes:
        read: the rows of some groups of a file.
        groups: those that have them, in order.
        skipped: rows of the first group that are not meant. size: how many are.
    """

    read: Read
    groups: tuple[Group, ...]
    skipped: int
    size: int

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """As `Origin.pieces`. Nothing behind the last row that is meant is decoded."""
        place, stop = -self.skipped, self.size
        ends_within = self.skipped + stop < sum(group[-1] for group in self.groups)
        for file, several in groupby(self.groups, key=lambda group: group[0]):
            for piece in self.read(file, list(several), names, rows):
                columns: dict[str, Any] = dict(piece.columns)
                size = len(columns[names[0]])
                start, end = max(0, -place), min(size, stop - place)
                if start < end:
                    yield Piece(piece.where, {
                        name: column[start:end] for name, column in columns.items()})
                place += size
                if place >= stop and ends_within:
                    return
