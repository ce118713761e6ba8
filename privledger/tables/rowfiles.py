"""Parquet and CSV files as places where rows are. Errors never quote what Arrow says."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from privledger.errors import DataError
from privledger.tables.frames import names_of, once
from privledger.tables.listing import File, Listing, Paths, listed
from privledger.tables.origin import TEXT, Piece
from privledger.tables.raw import Text, family

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz")
_BLOCK = 1 << 20  # bytes of a CSV file at a time; a row has to fit
_BUFFER = 1 << 16  # bytes of a column of Parquet at a time
_HEADER = 1 << 24
_REASONS = {
    "columns, got": "rows of different lengths", "UTF8": "not UTF-8", "UTF-8": "not UTF-8",
    "straddling": f"a row of more than {_BLOCK} bytes",
    "no end of the first row": f"a header of more than {_HEADER} bytes",
    "Empty CSV": "no header row"}
"""What Arrow says, in part -> what is wrong."""
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
            file.check()
            yield from _read_parquet(file, names, rows)
            file.check()
        self.listing.check()


def parquet_files(paths: Paths) -> ParquetFiles:
    """The files, after a look at the names and types of their columns."""
    listing = listed(paths, PARQUET)
    return ParquetFiles(listing, tuple(_parquet_columns(file) for file in listing.files))


def _parquet_columns(file: File) -> Mapping[str, str]:
    with _opened(file) as parquet:
        schema = parquet.schema_arrow
    names = names_of(schema, file.name)
    once(names, file.name)
    return {name: family(kind) for name, kind in zip(names, schema.types, strict=True)}


@contextmanager
def _opened(file: File) -> Iterator[pq.ParquetFile]:
    """The file, for as long as it is read. What Arrow says is left out: it may quote a cell."""
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


def _read_parquet(file: File, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
    with _opened(file) as parquet:
        stated, so_far = parquet.metadata.num_rows, 0
        for batch in parquet.iter_batches(batch_size=rows, columns=list(names),
                                          use_threads=False):
            so_far += batch.num_rows
            yield Piece(file.name, {name: batch.column(name) for name in names})
    if so_far != stated:
        raise DataError(f"{file.name}: it has other rows than it says")


@frozen(eq=False, repr=False)
class CsvFiles:
    """CSV files, and the header of each, as it stands there.

    Attributes:
        headers: as many as there are files.
    """

    listing: Listing
    headers: tuple[tuple[str, ...], ...]

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
            yield from _read_csv(file, header, names, rows)
            file.check()
        self.listing.check()


def csv_files(paths: Paths) -> CsvFiles:
    """The files, after a look at their headers."""
    listing = listed(paths, CSV)
    return CsvFiles(listing, tuple(_header(file) for file in listing.files))


@contextmanager
def _readable(file: File) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise _explained(error, file, _reason(str(error), file)) from None


def _reason(said: str, file: File) -> str:
    """Why Arrow cannot read a CSV file; of what it says only the kind is used."""
    for sign, reason in _REASONS.items():
        if sign in said:
            return reason
    if file.path.endswith(".gz"):
        return "not a gzip archive of a CSV file, or one that was cut off or damaged"
    return "not a CSV file that can be read"


def _stream(file: File) -> pa.NativeFile:
    import pyarrow as pa

    return pa.input_stream(file.path, compression="gzip" if file.path.endswith(".gz") else None)


def _header(file: File) -> tuple[str, ...]:
    """The names in the first row, as they stand there. The rest of the file stays unread, but
    for what a buffer holds."""
    import pyarrow as pa
    from pyarrow import csv

    with _readable(file), _stream(file) as stream:
        line = _first_row(stream)
        if not line.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n"):
            raise DataError(f"{file.name}: no header row")
        for sign, reason in _SIGNS.items():
            if line.startswith(sign):
                raise DataError(f"{file.name}: {reason}")
        line = line.rstrip(b"\r\n") + b"\n"
        if len(line) > _BLOCK:
            raise DataError(f"{file.name}: a row of more than {_BLOCK} bytes")
        names = csv.read_csv(pa.BufferReader(line), parse_options=_parse(2)).column_names
    header = [name.strip() for name in names]
    for mark, named in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise DataError(f"{file.name}: columns must be separated by commas, not {named}")
    once(header, file.name)
    return tuple(names)


def _first_row(stream: io.BufferedIOBase) -> bytes:
    """Up to the first end of a line that is not within quotes."""
    held = b""
    while len(held) < _HEADER:
        more = stream.read(1 << 16)
        held += more
        for end in (place for place, byte in enumerate(held) if byte in b"\r\n"):
            if held.count(b'"', 0, end) % 2 == 0:
                return held[:end] + b"\n"
        if not more:
            return held
    raise ValueError("no end of the first row")


def _parse(columns: int) -> pa.csv.ParseOptions:
    """An empty line is no record: kept, Arrow would make one of missing cells out of it. In a file
    of one column it could be a missing cell; it is kept there, to be refused."""
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=columns > 1)


def _read_csv(file: File, header: tuple[str, ...], names: tuple[str, ...],
              rows: int) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow import csv

    there = {name.strip(): name for name in header}
    single = len(header) == 1  # a missing cell is written "" there
    convert = csv.ConvertOptions(
        include_columns=[there[name] for name in names],
        column_types={there[name]: pa.string() for name in names},
        null_values=[""], strings_can_be_null=single, quoted_strings_can_be_null=False)
    with _readable(file), _stream(file) as stream:
        reader = csv.open_csv(stream, csv.ReadOptions(use_threads=False, block_size=_BLOCK),
                              _parse(len(header)), convert)
        for block in reader:
            for start in range(0, block.num_rows, rows):
                batch = block.slice(start, rows)
                if single and batch.column(0).null_count:
                    raise DataError(f"{file.name}: rows of different lengths")
                yield Piece(file.name, {name: Text(batch.column(place))
                                        for place, name in enumerate(names)})
