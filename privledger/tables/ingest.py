"""From a source to chunks: one pass over the rows, and none ever again."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
from attrs import frozen

from privledger.errors import DataError, SpoolError
from privledger.tables.columns import Columns
from privledger.tables.layout import Array, ChunkNote, Layout, Piece, packed_chunk
from privledger.tables.spool import Folder

Progress = Callable[[int], None]
"""Told how many rows are done."""

_MANIFEST = "manifest"


class Portion(Protocol):
    """Some consecutive rows, encoded."""

    @property
    def features(self) -> Columns:
        """Their features."""

    @property
    def target(self) -> Array | None:
        """Their targets."""


@frozen(repr=False)
class Ingested:
    """What a spool holds.

    Attributes:
        notes: of its chunks, in order. columns: a keyed mark of each column's values, by name.
    """

    layout: Layout
    notes: tuple[ChunkNote, ...]

    @property
    def rows(self) -> int:
        """Of all chunks: private under add_remove."""
        return sum(note.rows for note in self.notes)


def ingest(folder: Folder, layout: Layout, portions: Iterable[Portion], rows: int, *,
           before: tuple[ChunkNote, ...] = (), source: str = "",
           progress: Progress | None = None) -> Ingested:
    """Write every row to a chunk.

    A run that was killed goes on where it stopped: chunks that it finished are checked against
    what the source says again, and not written twice.

    Args:
        rows: of a chunk. before: chunks of the same table that come first.
        source: what the rows are from, to tell another source from the same one.

    Raises:
        DataError: there are no rows, or what was there comes from another source.
        SpoolError: it cannot be written.
    """
    known = _resumed(folder, layout, rows, source) if not before else ()
    notes, first = list(before), sum(note.rows for note in before)
    lines = [_line(folder, _head(layout, rows, source)), *(_noted(folder, one) for one in before)]
    for number, arrays in enumerate(_pieces(layout, portions, rows), start=len(before)):
        pieces = packed_chunk(layout, (number, first), arrays)
        if number < len(known) and folder.file(name_of(number)).exists():
            digest = _again(known[number], pieces)
        else:
            digest = folder.write(name_of(number), pieces)
        note = ChunkNote(number, first, len(arrays[0]), digest)
        notes.append(note)
        lines.append(_noted(folder, note))
        if folder.lasting:  # one that goes with its process is never continued
            folder.write(_MANIFEST, lines)
        first += note.rows
        if progress is not None:
            progress(first)
    if len(notes) == len(before):
        raise DataError("the table is empty: a minimum of 1 row is required")
    return Ingested(layout, tuple(notes))


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


def _pieces(layout: Layout, portions: Iterable[Portion], rows: int) -> Iterator[list[Array]]:
    """The same rows in pieces of exactly `rows`, and one of what is left."""
    waiting: list[list[Array]] = [[] for _ in layout.columns]
    held = 0
    for portion in portions:
        arrays = _arrays(layout, portion)
        start, size = 0, len(arrays[0])
        while start < size:
            stop = min(size, start + rows - held)
            for place, array in enumerate(arrays):
                waiting[place].append(array[start:stop])
            held, start = held + stop - start, stop
            if held == rows:
                yield [_joined(one) for one in waiting]
                waiting, held = [[] for _ in layout.columns], 0
    if held:
        yield [_joined(one) for one in waiting]


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _arrays(layout: Layout, portion: Portion) -> list[Array]:
    target = portion.target
    if (target is not None) != layout.has_target:
        raise DataError("rows with a target and rows without one")
    arrays = [*portion.features.arrays, *(() if target is None else (target,))]
    if len({len(array) for array in arrays}) != 1:
        raise DataError("columns of different lengths")
    return arrays


def _head(layout: Layout, rows: int, source: str) -> list[object]:
    return ["privledger spool 1", layout.digest, rows, source]


def _noted(folder: Folder, note: ChunkNote) -> bytes:
    return _line(folder, [note.number, note.first, note.rows, note.sha256])


def _line(folder: Folder, what: list[object]) -> bytes:
    text = json.dumps(what)
    return f"{text}\t{_mark(folder, text)}\n".encode()


def _mark(folder: Folder, text: str) -> str:
    return hmac.digest(folder.key, b"manifest\0" + text.encode(), "sha256").hex()


def _resumed(folder: Folder, layout: Layout, rows: int, source: str) -> tuple[ChunkNote, ...]:
    """What a spool holds already of the same source; nothing of a fresh one."""
    try:
        lines = folder.file(_MANIFEST).read_text().splitlines()
    except OSError:
        return ()
    said = []
    for line in lines:
        text, _, mark = line.partition("\t")
        if not hmac.compare_digest(mark, _mark(folder, text)):
            raise SpoolError("the chunk store's list of chunks was changed: use another folder")
        said.append(json.loads(text))
    if not said or said[0] != _head(layout, rows, source):
        raise SpoolError("the chunk store was begun with another source or schema: use another "
                         "folder")
    return tuple(ChunkNote(*fields) for fields in said[1:])
