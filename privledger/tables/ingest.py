"""From a source to chunks: one pass over the rows, and none ever again."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import frozen

from privledger.errors import DataError, SpoolError
from privledger.tables.layout import Array, ChunkNote, Layout, Piece, narrow, packed_chunk
from privledger.tables.listing import Origin
from privledger.tables.parts import FilePart
from privledger.tables.sources import PIECE_ROWS, Wanted, regrouped
from privledger.tables.spool import Folder

Progress = Callable[[int], None]
"""Told how many rows are done."""
Known: TypeAlias = "Mapping[int, ChunkNote]"
"""Chunks that an earlier run finished, by number."""
Write: TypeAlias = "Callable[[Known], Iterator[ChunkNote]]"
"""Writes all chunks, and says of each, in any order, what was written."""

_MANIFEST = "manifest"


@frozen(repr=False)
class Ingested:
    """What a spool holds.

    Attributes:
        notes: of its chunks, in order.
    """

    layout: Layout
    notes: tuple[ChunkNote, ...]

    @property
    def rows(self) -> int:
        """Of all chunks: private under add_remove."""
        return sum(note.rows for note in self.notes)


def ingest(folder: Folder, before: Ingested, rows: int, write: Write,
           progress: Progress | None) -> Ingested:
    """Write every row to a chunk.

    A run that was killed goes on where it stopped: chunks that it finished are checked against
    what the source says again, and not written twice.

    Args:
        before: chunks of the same table that come first. rows: of a chunk. write: who writes, of
            what.

    Raises:
        DataError: there are no rows, or what was there comes from another source.
        SpoolError: it cannot be written.
    """
    layout, notes, done = before.layout, list(before.notes), before.rows
    known = {} if notes else _resumed(folder, layout, rows)
    lines = [_line(folder, _head(layout, rows)), *(_noted(folder, one) for one in notes)]
    for note in write(known):
        notes.append(note)
        lines.append(_noted(folder, note))
        if folder.lasting:  # one that goes with its process is never continued
            folder.write(_MANIFEST, lines)
        done += note.rows
        if progress is not None:
            progress(done)
    if len(notes) == len(before.notes):
        raise DataError("the table is empty: a minimum of 1 row is required")
    return Ingested(layout, tuple(sorted(notes, key=lambda note: note.number)))


def write_rows(folder: Folder, layout: Layout, portions: Iterable[list[Array]], rows: int,
               start: tuple[int, int], known: Known) -> Iterator[ChunkNote]:
    """Write consecutive rows to chunks of `rows`; the last one has what is left.

    Args:
        portions: encoded columns, in the layout's order.
        start: number of the first chunk and of its first row.

    Raises:
        DataError: the rows do not fit. SpoolError: a chunk cannot be written, or is there with
            other rows.
    """
    number, first = start
    for arrays in regrouped(portions, rows, again=True, held_as=narrow):
        pieces = packed_chunk(layout, (number, first), arrays)
        if number in known and folder.file(name_of(number)).exists():
            digest = _again(known[number], pieces)
        else:
            digest = folder.write(name_of(number), pieces)
        yield ChunkNote(number, first, len(arrays[0]), digest)
        number, first = number + 1, first + rows


def write_part(folder: Folder, layout: Layout, part: FilePart, unlabelled: bool,
               notes: tuple[ChunkNote, ...]) -> tuple[ChunkNote, ...]:
    """Write the rows of a part to its chunks. A chunk whose file has a hash is only compared.

    Raises:
        DataError: it has other rows than its files state; else as for `write_rows`.
    """
    portions = encoded(wanted_by(layout, unlabelled), part)
    start = (notes[0].number, notes[0].first)
    found = tuple(write_rows(folder, layout, portions, notes[0].rows, start,
                             {note.number: note for note in notes if note.sha256}))
    if [note.rows for note in found] != [note.rows for note in notes]:
        raise DataError("the files have other rows than they state")
    return found


def wanted_by(layout: Layout, unlabelled: bool) -> Wanted:
    """What chunks hold of a table: nothing of whose a row is, as they are of rows."""
    return Wanted(layout.schema, layout.has_target, unlabelled, people=False)


def encoded(wanted: Wanted, origin: Origin | FilePart) -> Iterator[list[Array]]:
    """Columns that chunks have, a few rows at a time."""
    return map(wanted.encoded, origin.pieces(wanted.names, PIECE_ROWS))


def name_of(number: int) -> str:
    """Of a chunk's file."""
    return f"chunk-{number:07d}"


def _again(known: ChunkNote, pieces: list[Piece]) -> str:
    """The hash of a chunk that is there, if the same rows would be written to it now."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    if digest.hexdigest() != known.sha256:
        raise SpoolError("the chunk store was begun with other rows than the source has now: use "
                         "another folder")
    return known.sha256


def _head(layout: Layout, rows: int) -> list[object]:
    return ["privledger spool 1", layout.digest, rows, ""]


def _noted(folder: Folder, note: ChunkNote) -> bytes:
    return _line(folder, [note.number, note.first, note.rows, note.sha256])


def _line(folder: Folder, what: list[object]) -> bytes:
    text = json.dumps(what)
    return f"{text}\t{_mark(folder, text)}\n".encode()


def _mark(folder: Folder, text: str) -> str:
    return hmac.digest(folder.key, b"manifest\0" + text.encode(), "sha256").hex()


def _resumed(folder: Folder, layout: Layout, rows: int) -> Known:
    """What a spool holds already of the same source; nothing of a fresh one."""
    try:
        lines = folder.file(_MANIFEST).read_text().splitlines()
    except OSError:
        return {}
    said = []
    for line in lines:
        text, _, mark = line.partition("\t")
        if not hmac.compare_digest(mark, _mark(folder, text)):
            raise SpoolError("the chunk store's list of chunks was changed: use another folder")
        said.append(json.loads(text))
    if not said or said[0] != _head(layout, rows):
        raise SpoolError("the chunk store was begun with another source or schema: use another "
                         "folder")
    return {fields[0]: ChunkNote(*fields) for fields in said[1:]}
