"""Parquet and CSV files as places where rows are. Errors never quote what Arrow says."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from attrs import evolve, frozen
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.tables.frames import frame_names, once
from privledger.tables.listing import TEXT, File, Listing, Paths, Piece, listed_files
from privledger.tables.parts import FilePart, Group, file_parts
from privledger.tables.raw import WIDE, Text, check_arrow, family, packed_cells
from privledger.tables.text_form import USUAL, TextForm

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz")
_BLOCK, _HEAD_BLOCK = 1 << 20, 1 << 16  # bytes of a CSV file at a time
_ROW, _HEADER = 1 << 20, 1 << 24  # bytes of its longest row, of the longest header
_COLUMNS = 1 << 20
_ROOM, _RATIO = 1 << 26, 200  # a zipped file that is larger has at most so many times its bytes
_BUFFER = 1 << 16  # bytes of a column of Parquet at a time
_MARK, _QUOTE, _COMMA, _RETURN = b"\xef\xbb\xbf", ord('"'), ord(","), ord("\r")
_SIGNS = {b"\xff\xfe": "not UTF-8 (UTF-16, by its first bytes)",
          b"\xfe\xff": "not UTF-8 (UTF-16, by its first bytes)",
          b"\x1f\x8b": "a gzip archive: its name has to end with .csv.gz"}


@frozen(eq=False, repr=False)
class ParquetFiles:
    """Parquet files, and the family of each column of each.

    Attributes:
        found: as many as there are files.
    """

    listing: Listing
    found: tuple[Mapping[str, str], ...]

    @property
    def kind(self) -> str:
        """A word for it."""
        return "parquet"

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """As noted at the scan."""
        for file, found in zip(self.listing.files, self.found, strict=True):
            yield file.name, found

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """Column chunks are read through a small buffer, page by page, and their checksums are
        looked at where there are any. No filter is set, so nothing asks for statistics."""
        self.listing.check()
        for file in self.listing.files:
            yield from _read_parquet(file, None, names, rows)
        self.listing.check()

    def parts(self, rows: int, most: int) -> Iterator[tuple[int, int, FilePart]]:
        """As `file_parts`. How many rows a row group has is believed until they are read."""
        self.listing.check()
        groups = [(file.anywhere, group, group + 1, size) for file in self.listing.files
                  for group, size in enumerate(_group_sizes(file))]
        return file_parts(_read_parquet, groups, rows, most)


def parquet_files(paths: Paths, known: Container[str] = ()) -> ParquetFiles:
    """The files, after a look at the names and types of their columns; `known` names may stand in
    messages."""
    listing = listed_files(paths, PARQUET)
    return ParquetFiles(listing, tuple(_parquet_columns(file, known) for file in listing.files))


def _parquet_columns(file: File, known: Container[str]) -> Mapping[str, str]:
    with _opened(file) as parquet:
        schema = parquet.schema_arrow
    names = frame_names(schema, file.name)
    once(names, file.name, known)
    return {name: family(kind) for name, kind in zip(names, schema.types, strict=True)}


def _group_sizes(file: File) -> list[int]:
    """Rows of each row group, as the file states them."""
    with _opened(file) as parquet:
        stated = parquet.metadata
        found = [stated.row_group(group).num_rows for group in range(stated.num_row_groups)]
    if sum(found) != stated.num_rows:
        raise _other_rows(file)
    return found


def _read_parquet(file: File, groups: list[Group] | None, names: tuple[str, ...],
                  rows: int) -> Iterator[Piece]:
    """The rows of a file, or of some of its row groups that state so many."""
    file.check()
    try:
        with _opened(file) as parquet:
            stated = parquet.metadata.num_rows if groups is None else sum(
                group[-1] for group in groups)
            so_far = 0
            for batch in parquet.iter_batches(
                    batch_size=rows, columns=list(names), use_threads=False,
                    row_groups=None if groups is None else [group[1] for group in groups]):
                so_far += batch.num_rows
                yield Piece(file.name, {name: batch.column(name) for name in names})
    finally:
        if groups is not None:  # a worker lives on
            import pyarrow as pa

            pa.default_memory_pool().release_unused()
    if so_far != stated:
        raise _other_rows(file)
    file.check()


def _other_rows(file: File) -> DataError:
    return DataError(f"{file.name}: it has other rows than it says")


@contextmanager
def _opened(file: File) -> Iterator[pq.ParquetFile]:
    """The file, for as long as it is read. What Arrow says is left out: it may quote a cell."""
    check_arrow(f"{file.name}: a Parquet file")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file.path, pre_buffer=False, buffer_size=_BUFFER,
                            page_checksum_verification=True) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise _explained(error, file, "a name of a column is not UTF-8"
                         if isinstance(error, UnicodeDecodeError) else
                         "not a Parquet file that can be read: truncated, damaged, or of a kind "
                         "that is not known") from None


def _explained(error: Exception, file: File, rule: str) -> DataError:
    """What is said instead of Arrow's own words, which may quote a row."""
    if isinstance(error, DataError):
        return error
    try:
        file.check()
    except DataError as changed:
        return changed
    return DataError(f"{file.name}: {rule}")


@frozen(eq=False, repr=False)
class CsvFiles:
    """CSV files, and the header of each, as it stands there.

    Attributes:
        headers: as many as there are files. form: how they are written.
    """

    listing: Listing
    headers: tuple[tuple[str, ...], ...]
    form: TextForm = USUAL

    @property
    def kind(self) -> str:
        """A word for it."""
        return "csv"

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Every column can be anything."""
        for file, header in zip(self.listing.files, self.headers, strict=True):
            yield file.name, {name.strip(): TEXT for name in header}

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """A block of the file at a time, every cell as a text."""
        self.listing.check()
        for file, header in zip(self.listing.files, self.headers, strict=True):
            file.check()
            yield from _read_csv(file, header, self.form, names, rows)
            file.check()
        self.listing.check()

    def parts(self, rows: int, most: int) -> Iterator[tuple[int, int, FilePart]]:
        """As `file_parts`. The rows are counted first: most of them by their ends alone."""
        self.listing.check()
        headers = {file.path: header for file, header in zip(
            self.listing.files, self.headers, strict=True)}
        groups = [(file.anywhere, *group) for file in self.listing.files
                  for group in _counted(file, len(headers[file.path]), self.form)]
        return file_parts(partial(_csv_groups, headers, self.form), groups, rows, most)


def csv_files(paths: Paths, known: Container[str] = (), form: TextForm = USUAL) -> CsvFiles:
    """The files, after a look at their headers; `known` names may stand in messages."""
    listing = listed_files(paths, CSV)
    return CsvFiles(listing, tuple(_header(file, known, form) for file in listing.files), form)


class Recoded:
    """A file's bytes in UTF-8, with commas between cells and double quotes around them.

    The usual marks and the form's own change places, in cells too: `_as_written` puts them back.
    """

    def __init__(self, stream: IO[bytes], form: TextForm) -> None:
        self._stream, self._swaps = stream, form.swaps
        self._decoder = (None if form.encoding == "utf-8" else
                         codecs.getincrementaldecoder(form.encoding)())

    def read(self, size: int) -> bytes:
        """Bytes from so many of the file; none at its end."""
        while True:
            given = self._stream.read(size)
            held = given if self._decoder is None else self._decoder.decode(
                given, final=not given).encode("utf-8")
            if held or not given:
                return held if self._swaps is None else held.translate(self._swaps)


def _as_written(cells: NDArray[np.generic], form: TextForm) -> NDArray[np.generic]:
    """Cells with their marks in place again, and nothing where a text stands for that."""
    if form.swaps is not None:
        cells = packed_cells([cell.translate(form.swaps) for cell in cells.tolist()])
    if form.missing:
        cells = np.where(np.isin(cells, [one.encode() for one in form.missing]), b"", cells)
    return cells


@contextmanager
def _readable(file: File, form: TextForm) -> Iterator[IO[bytes]]:
    """The file's bytes, for as long as they are read. No library that reads ahead takes part: a
    refusal leaves no thread behind."""
    zipped = file.path.endswith(".gz")
    try:
        with cast(IO[bytes], gzip.open(file.path) if zipped else open(file.path, "rb")) as stream:
            yield stream if form == USUAL else cast(IO[bytes], Recoded(stream, form))
    except ValueError as error:
        raise _explained(error, file, f"not a CSV file in {form.encoding.upper()}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise _explained(error, file, "not a gzip file that can be read: cut off, or damaged"
                         if zipped else "the file cannot be read") from None
    except (MemoryError, OverflowError) as error:
        raise _explained(error, file, "too large a record") from None


def _header(file: File, known: Container[str], form: TextForm) -> tuple[str, ...]:
    """The names in the first row, as they stand there. The rest of the file stays unread, but
    for what a buffer holds."""
    with _readable(file, form) as stream:
        names, _, _ = _first_row(stream, file, form)
    header = [name.strip() for name in names]
    for mark, named in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise DataError(f"{file.name}: columns must be separated by commas, not {named}, or "
                            "the schema says their separator under [reading]")
    once(header, file.name, known)
    return names


def _first_row(stream: IO[bytes], file: File, form: TextForm
               ) -> tuple[tuple[str, ...], bytes, bytes]:
    """The names, the byte that ends a row in this file, and what was read behind the first.

    Rows end as the first one does: by a line feed, with or without a carriage return before it,
    or by carriage returns alone.
    """
    parts: list[bytes] = []
    size = 0
    while more := stream.read(_HEAD_BLOCK):
        if not parts:
            more = more.removeprefix(_MARK)
        if more.endswith(b"\r"):
            more += stream.read(1)
        parts.append(more)
        size += len(more)
        if b"\n" in more or b"\r" in more:
            break
        if size > _HEADER:
            raise DataError(f"{file.name}: the header row is longer than {_HEADER >> 20} MB")
    held = b"".join(parts)
    line, end = _first_line(held)
    for sign, reason in _SIGNS.items():
        if line.startswith(sign):
            raise DataError(f"{file.name}: {reason}")
    if b"\0" in line:
        raise DataError(f"{file.name}: not a CSV file in UTF-8")
    if not line.strip(b"\r\n"):
        raise DataError(f"{file.name}: no header row")
    if line.count(b'"') % 2:
        raise DataError(f"{file.name}: the header goes over several lines, or a quote in it is "
                        "never closed: a header is one line")
    if line.count(b",") >= _COLUMNS:
        raise DataError(f"{file.name}: more than {_COLUMNS} columns")
    cells = _cells(line.rstrip(b"\r\n") + end, end, None, file)
    return tuple(Text(_as_written(_texts(cells), evolve(form, missing=()))).texts), end, (
        held[len(line):])


def _first_line(held: bytes) -> tuple[bytes, bytes]:
    feed, back = held.find(b"\n"), held.find(b"\r")
    if back >= 0 and back + 1 != feed and (feed < 0 or back < feed) and back + 1 < len(held):
        return held[:back + 1], b"\r"
    return (held, b"\n") if feed < 0 else (held[:feed + 1], b"\n")


@frozen(eq=False, repr=False)
class _Cells:
    """Where the cells of some rows are in their bytes: shape (rows, columns)."""

    data: bytes
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    escaped: bool


def _cells(data: bytes, end: bytes, columns: int | None, file: File) -> _Cells:
    """Whole rows taken apart by RFC 4180, and by nothing more lenient.

    A cell is in quotes as a whole or has none; a quote within quotes is doubled. So a quote opens
    or closes, whatever stands around it, and one that is left over never finds its other half.

    Args:
        data: it begins with a row and ends with one.
        end: the byte that ends a row.
        columns: of each row; None for a header.

    Raises:
        DataError: a row that is malformed or of another length.
    """
    def wrong(rule: str) -> DataError:
        return DataError(f"{file.name}: {rule}")

    if b"\0" in data:
        raise wrong("not a CSV file in UTF-8: it holds a NUL")
    held = np.frombuffer(data, dtype=np.uint8)
    marks = np.flatnonzero((held == _COMMA) | (held == end[0]))
    quotes = np.flatnonzero(held == _QUOTE) if b'"' in data else np.zeros(0, dtype=np.intp)
    if len(quotes):
        _check_quotes(held, quotes, end, wrong)
        within = np.searchsorted(quotes, marks) % 2 == 1
        _check_breaks(held, marks, within, quotes, (end[0], columns), wrong)
        marks = marks[~within]
    last = held[marks] == end[0]
    starts = np.concatenate(([0], marks[:-1] + 1)).astype(np.int32)
    ends = marks.astype(np.int32)
    other = b"\r" if end == b"\n" else b"\n"
    if other in data:
        odd = np.flatnonzero(held == other[0])
        if len(quotes):
            odd = odd[np.searchsorted(quotes, odd) % 2 == 0]
        before = last & (ends > starts) & (held[ends - 1] == other[0]) & (end == b"\n")
        if len(odd) != before.sum():
            raise wrong("a line break of another kind than the first row ends with, outside "
                        "quotes")
        ends -= before
    if columns != 1:  # a row of one cell, where there are several columns, is an empty line
        empty = last & np.concatenate(([True], last[:-1])) & (starts == ends)
        if empty.any():
            starts, ends, last = starts[~empty], ends[~empty], last[~empty]
    width = columns or len(last)
    rows, rest = divmod(len(last), width)
    if rest or last.sum() != rows or not last[width - 1::width].all():
        raise wrong("rows of different lengths")
    if columns is not None and len(data) > _ROW and (
            ends[width - 1::width] - starts[::width] > _ROW).any():
        raise _too_long(file)
    if columns == 1 and (starts == ends).any():  # a missing cell is written "" there
        raise wrong("rows of different lengths")
    escaped = False
    if len(quotes):
        quoted = (held[starts] == _QUOTE) & (ends > starts)
        starts, ends = starts + quoted, ends - quoted
        escaped = len(quotes) > 2 * int(quoted.sum())
    return _Cells(data, starts.reshape(rows, width), ends.reshape(rows, width), escaped)


def _check_quotes(held: NDArray[np.uint8], quotes: NDArray[np.intp], end: bytes,
                  wrong: Callable[[str], DataError]) -> None:
    """Every other quote opens: at a cell's begin, or right behind one that closed, which makes
    the two a quote within quotes. The others close, and stand at a cell's end or before one."""
    opens, closes = quotes[::2], quotes[1::2]
    stop = (_COMMA, end[0], _QUOTE)
    if len(opens) and not (np.isin(held[opens[opens > 0] - 1], stop)).all():
        raise wrong("a quote within a cell that is not in quotes: put the cell in quotes, and "
                    "double those within it")
    if len(opens) > len(closes):
        raise wrong("the file ends within quotes: one is opened and never closed")
    behind = held[closes + 1]
    if end == b"\n":
        behind = np.where((behind == _RETURN) & (held[np.minimum(closes + 2, len(held) - 1)]
                                                == end[0]), end[0], behind)
    if not np.isin(behind, stop).all():
        raise wrong("text behind a closing quote: double the quotes within a cell")


def _check_breaks(held: NDArray[np.uint8], marks: NDArray[np.intp], within: NDArray[np.bool_],
                  quotes: NDArray[np.intp], shape: tuple[int, int | None],
                  wrong: Callable[[str], DataError]) -> None:
    """Refuse a line within quotes that would be a whole row by itself.

    Of two rows that are cut short one may open a quote that the other one closes: whole rows
    between them would be swallowed.
    """
    end, columns = shape
    inner = held[marks] == end
    breaks, deep = marks[inner], within[inner]
    lines = np.flatnonzero(deep[:-1] & deep[1:])  # they begin and end within quotes
    if not len(lines):
        return
    first, stop = breaks[lines] + 1, breaks[lines + 1]
    commas = marks[~inner]
    line = np.searchsorted(first, commas, side="right") - 1
    known = line >= 0
    commas, line = commas[known], line[known]
    inside = commas < stop[line]
    commas, line = commas[inside], line[inside]
    # As that line would be read by itself: quotes count from its own begin.
    alone = (np.searchsorted(quotes, commas) - np.searchsorted(quotes, first[line])) % 2 == 0
    found = np.bincount(line[alone], minlength=len(first)) + 1
    if (found == columns).any():
        raise wrong("a line within quotes is a whole row by itself: a quote is opened and not "
                    "closed, or a cell holds rows; write cells without line breaks")


def _texts(cells: _Cells, place: int | None = None) -> NDArray[np.generic]:
    """One column, or all cells, as `packed_cells` has them.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    chosen = slice(None) if place is None else slice(place, None, cells.starts.shape[1])
    starts, ends = cells.starts.reshape(-1)[chosen], cells.ends.reshape(-1)[chosen]
    found = _cut_out(cells.data, starts, ends)
    if cells.escaped:
        found = packed_cells([cell.replace(b'""', b'"') for cell in found.tolist()])
    if not cells.data.isascii():
        b"\n".join(found.tolist()).decode()
    return found


def _cut_out(data: bytes, starts: NDArray[np.int32], ends: NDArray[np.int32]
             ) -> NDArray[np.generic]:
    """The same as `packed_cells`, of all cells at once but for those at the end of the data."""
    sizes = ends - starts
    width = max(1, int(sizes.max(initial=0)))
    whole = int(np.searchsorted(starts, len(data) - width, side="right"))
    if width * len(starts) > WIDE or not whole:
        return packed_cells([data[start:end] for start, end in zip(starts.tolist(), ends.tolist(),
                                                             strict=True)])
    letters = np.zeros((len(starts), width), dtype=np.uint8)
    letters[:whole] = sliding_window_view(np.frombuffer(data, dtype=np.uint8), width)[
        starts[:whole]]
    letters[:whole] *= np.arange(width) < sizes[:whole, None]
    for row in range(whole, len(starts)):
        letters[row, :sizes[row]] = np.frombuffer(data[starts[row]:ends[row]], dtype=np.uint8)
    return letters.view(f"S{width}").reshape(-1)


def _blocks(stream: IO[bytes], held: bytes, end: bytes, file: File) -> Iterator[bytes]:
    """Whole rows, about a megabyte of them at a time."""
    parts, size, odd = [held], len(held), held.count(b'"') % 2 == 1
    total, most = len(held), max(_ROOM, _RATIO * os.stat(file.path).st_size)
    while more := stream.read(_BLOCK):
        total += len(more)
        if total > most:
            raise DataError(f"{file.name}: it unpacks to over {_RATIO} times its size, and over "
                            f"{_ROOM >> 20} MB: give it unpacked")
        parts.append(more)
        size += len(more)
        stop = _last_end(more, end, odd)
        odd ^= b'"' in more and more.count(b'"') % 2 == 1
        if stop:
            whole = b"".join(parts)
            stop += len(whole) - len(more)
            yield whole[:stop]
            parts, size = [whole[stop:]], len(whole) - stop
        if size > _ROW:
            raise _too_long(file)
    if size:
        rest = b"".join(parts)
        yield rest if rest.endswith(end) else rest + end


def _too_long(file: File) -> DataError:
    return DataError(f"{file.name}: a row is longer than {_ROW >> 20} MB, or a quote is opened and "
                     "never closed")


def _last_end(more: bytes, end: bytes, odd: bool) -> int:
    """Behind the last row that ends in these bytes, 0 if none does; `odd`: they begin within
    quotes."""
    if not odd and b'"' not in more:
        return more.rfind(end) + 1
    held = np.frombuffer(more, dtype=np.uint8)
    ends = np.flatnonzero(held == end[0])
    outside = ends[np.searchsorted(np.flatnonzero(held == _QUOTE), ends) % 2 == odd]
    return int(outside[-1]) + 1 if len(outside) else 0


class _Stretch:
    """Some of a file's bytes."""

    def __init__(self, stream: IO[bytes], begin: int, end: int) -> None:
        stream.seek(begin)
        self._stream, self._left = stream, end - begin

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        given = self._stream.read(min(size, self._left))
        self._left -= len(given)
        return given


def _read_csv(file: File, header: tuple[str, ...], form: TextForm, names: tuple[str, ...],
              rows: int, begin: int = 0, stop: int = 0) -> Iterator[Piece]:
    """The rows of a file, or those from one byte to another."""
    places = {name.strip(): place for place, name in enumerate(header)}
    with _readable(file, form) as stream:
        found, end, held = _first_row(stream, file, form)
        if found != header:
            raise DataError(f"{file.name}: the file has changed since the table was scanned")
        if begin:
            stream, held = cast(IO[bytes], _Stretch(stream, begin, stop)), b""
        for block in _blocks(stream, held, end, file):
            cells = _cells(block, end, len(header), file)
            columns = {name: _as_written(_texts(cells, places[name]), form) for name in names}
            for start in range(0, len(cells.starts), rows):
                yield Piece(file.name, {name: Text(column[start:start + rows], form.decimal)
                                        for name, column in columns.items()})


def _csv_groups(headers: Mapping[str, tuple[str, ...]], form: TextForm, file: File,
                groups: list[Group], names: tuple[str, ...], rows: int) -> Iterator[Piece]:
    """The rows of some neighbouring groups, which are so many."""
    file.check()
    left = sum(group[-1] for group in groups)
    for piece in _read_csv(file, headers[file.path], form, names, rows, groups[0][1],
                           groups[-1][2]):
        cells: Any = piece.columns[names[0]]
        left -= len(cells)
        yield piece
    if left:
        raise _other_rows(file)
    file.check()


def _counted(file: File, columns: int, form: TextForm) -> Iterator[tuple[int, int, int]]:
    """Where groups of rows begin and end, and how many each has; one group where the file can be
    read from its begin alone."""
    with _readable(file, form) as stream:
        _, end, held = _first_row(stream, file, form)
        apart = form == USUAL and not file.path.endswith(".gz")
        place, total = stream.tell() - len(held) if apart else 0, 0
        for block in _blocks(stream, held, end, file):
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == end[0])
            odd = (b'"' in block or block[:1] in (b"\r", b"\n") or bool((np.diff(ends) == 1).any())
                   or (b"\r" in block and b"\n\r\n" in block))  # quotes, or an empty line
            total += len(_cells(block, end, columns, file).starts) if odd else len(ends)
            if apart:
                yield place, place + len(block), total
                place, total = place + len(block), 0
        if not apart:
            yield 0, 0, total
