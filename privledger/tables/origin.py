"""What a source asks of the place where its rows are; and errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from attrs import frozen

from privledger.errors import DataError

TEXT = "cell"
"""The family of a column of a text file: anything that its schema can read in it."""


@frozen(eq=False, repr=False)
class Piece:
    """Some rows, as they were read.

    Attributes:
        where: the file they are from, for messages; empty where there is none.
        columns: cells of each column, of one length.
    """

    where: str
    columns: Mapping[str, object]


class Origin(Protocol):
    """Where the rows of a source are, and how they are read there."""

    @property
    def kind(self) -> str:
        """A word for it."""

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """For each file its name, and the family of each column (`raw.family`, or `TEXT`).

        From what was noted at the scan, or by a look at column names and types; never at rows.
        """

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """Those columns in file order, at most `rows` rows at a time.

        Raises:
            DataError: a file is gone, has changed, is truncated or malformed.
        """


@contextmanager
def named(where: str) -> Iterator[None]:
    """Put the file before the text of every `DataError` in here."""
    try:
        yield
    except DataError as error:
        raise (DataError(f"{where}: {error}") if where else error) from None
