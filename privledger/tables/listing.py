"""Files of a table: found in a fixed order, and noticed when they are no longer the same."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from attrs import frozen

from privledger.errors import DataError
from privledger.reading import kind_of

# What a source asks of the place where its rows are; and errors that name the file.

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


Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


@frozen
class File:
    """One file as it was when it was looked for.

    Attributes:
        path: absolute.
        mark: device, inode, size and time of the last change, in nanoseconds. Other machines know
            the device by another number: for them it is left out.
    """

    path: str
    mark: tuple[int, ...]

    @property
    def name(self) -> str:
        """What messages call it."""
        return Path(self.path).name

    @property
    def anywhere(self) -> File:
        """The same, as another machine can look for it."""
        return File(self.path, self.mark[1:])

    def check(self) -> None:
        """Raise `DataError` unless the same file is still there, as it was."""
        try:
            now = _marked(self.path)
        except OSError:
            raise DataError(f"{self.name}: the file was removed, or became unreadable, since the "
                            "table was scanned") from None
        if now.mark[-len(self.mark):] != self.mark:
            raise DataError(f"{self.name}: the file has changed since the table was scanned")


@frozen
class Listing:
    """Files of a table in their order, and how they were asked for.

    Attributes:
        asked: files, folders and patterns, absolute.
        endings: of the files that are meant in a folder.
    """

    asked: tuple[str, ...]
    endings: tuple[str, ...]
    files: tuple[File, ...]

    def check(self) -> None:
        """Raise `DataError` unless a second look finds the same files, as they were."""
        if [file.path for file in self.files] != list(_found(self.asked, self.endings)):
            raise DataError("the table has other files than when it was scanned")
        for file in self.files:
            file.check()


def listed_files(paths: Paths, endings: tuple[str, ...]) -> Listing:
    """The files behind a path, or several: each a file, a folder, or a pattern with * ? [.

    Paths come in the order given, the files of a folder or a pattern by name. In a folder only
    names that end as `endings` say count, and none that begins with a dot or an underscore.

    Raises:
        DataError: nothing there, no regular file, a file twice, or a folder within a folder.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(several, bytes) or not isinstance(several, Iterable):
        raise DataError("files: a path, or a list of paths, is needed")
    asked = tuple(_absolute(one) for one in several)
    if not asked:
        raise DataError("files: no path is given")
    files = tuple(_file(path) for path in _found(asked, endings))
    same: dict[tuple[int, ...], File] = {}
    for file in files:
        other = same.setdefault(file.mark[:2], file)
        if other is not file:
            raise DataError(f"{file.name}: the file is given twice (as {other.name}): its rows "
                            "would count twice")
    return Listing(asked, endings, files)


def _absolute(path: object) -> str:
    if not isinstance(path, str | os.PathLike):
        raise DataError("files: a path, or a list of paths, is needed")
    text = os.fspath(path)
    try:
        if not isinstance(text, str) or b"\0" in os.fsencode(text) or not text:
            raise DataError("files: a path, or a list of paths, is needed")
    except UnicodeError:
        raise DataError("files: a path is not valid Unicode") from None
    return os.path.abspath(text)


def _found(asked: Iterable[str], endings: tuple[str, ...]) -> Iterator[str]:
    for path in asked:
        if os.path.isdir(path):
            yield from _within(path, endings)
        elif os.path.lexists(path) or not glob.has_magic(path):
            yield path
        else:
            matches = sorted(glob.glob(path))
            if not matches:
                raise DataError(f"{Path(path).name}: no such file")
            yield from matches


def _within(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    name = Path(folder).name
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        raise DataError(f"{name}: the folder cannot be read") from None
    shown = [entry for entry in entries if not entry.name.startswith((".", "_"))]
    inner = [entry.name for entry in shown if entry.is_dir()]
    if inner:  # left out, its rows would be missing without a word
        raise DataError(f"{name}: the folder contains the folder {inner[0]}: give a pattern, such "
                        f"as {name}/*/*{endings[0]}")
    files = [entry.path for entry in shown if entry.name.endswith(endings)]
    if not files:
        raise DataError(f"{name}: it is a directory without a file that ends with "
                        f"{' or '.join(endings)}")
    yield from files


def members(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Every file behind a path, a folder or a pattern, whatever it is; empty if nothing is there.
    For callers that ask where private files lie, and not what is in them."""
    place = Path(path)
    if place.is_dir():
        return tuple(sorted(place.iterdir()))
    if os.path.lexists(place):
        return (place,)
    return tuple(Path(one) for one in sorted(glob.glob(os.fspath(path))))


def _file(path: str) -> File:
    try:
        kind = kind_of(os.stat(path).st_mode)
        found = None if kind else _marked(path)
    except OSError:
        found, kind = None, ""
    if kind:
        raise DataError(f"{Path(path).name}: it is {kind}, not a table")
    if found is None:
        raise DataError(f"{Path(path).name}: no such file")
    return found


def _marked(path: str) -> File:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("no regular file")
    return File(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
