"""What a chunk is: which rows of a table it holds, and how its bytes lie."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import SpoolError
from privledger.tables.schema import Column, Schema

Array: TypeAlias = NDArray[Any]
Piece: TypeAlias = bytes | memoryview

CHUNK_ROWS = 1 << 18
"""Rows of a chunk, unless the caller says otherwise."""

MAGIC = b"PLROWS1\n"
_ALIGN = 64


@frozen
class ChunkNote:
    """One chunk, as the driver knows it.

    Attributes:
        number: its place, from 0. first, rows: which rows of the table. sha256: of its file.
    """

    number: int
    first: int
    rows: int
    sha256: str


@frozen(repr=False)
class Layout:
    """What the chunks of one table have in common.

    Attributes:
        schema: whose columns they are. has_target: whether there is a target.
    """

    schema: Schema
    has_target: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of every chunk, in this order; the target is the last."""
        target = (self.schema.target,) if self.has_target else ()
        return (*self.schema.features, *target)

    @property
    def digest(self) -> str:
        """What chunks, tasks and replies of this table are marked with. Public."""
        text = json.dumps([self.schema.digest, self.has_target])
        return hashlib.sha256(b"privledger chunk 1\0" + text.encode()).hexdigest()


def narrow(array: Array) -> Array:
    """The same numbers in the smallest type that holds each of them exactly."""
    if array.dtype.kind == "f":
        with np.errstate(all="ignore"):  # a warning would tell of a value
            small = array.astype(np.float32)
        # Missing cells alone are worth a second look.
        equal = small == array
        same = bool(equal.all()) or bool((equal | np.isnan(array)).all())
        return small if same else array
    low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
    for kind in (np.int8, np.int16):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array


def widened(array: Array) -> Array:
    """Back to what the rest of the guard reads: float64, or int32."""
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int32)


def packed_chunk(layout: Layout, note: tuple[int, int], arrays: list[Array]) -> list[Piece]:
    """A chunk's file, in pieces.

    Args:
        note: number of the chunk and of its first row. arrays: one per column of the layout, as
            `narrow` has them.
    """
    number, first = note
    held = [np.ascontiguousarray(array) for array in arrays]
    places, at = [], 0
    for array in held:
        places.append([array.dtype.str, at])
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    head = json.dumps({"layout": layout.digest, "number": number, "first": first,
                       "rows": len(held[0]), "columns": places}).encode()
    room = -(-(len(MAGIC) + 8 + len(head)) // _ALIGN) * _ALIGN
    pieces: list[Piece] = [MAGIC, room.to_bytes(8, "little"), head.ljust(room - len(MAGIC) - 8)]
    for array in held:
        pieces += [array.data, bytes(-array.nbytes % _ALIGN)]
    return pieces


@frozen(repr=False)
class Opened:
    """The columns of a chunk's file, each read when it is asked for.

    Attributes:
        path: of the file. rows: how many. places: type and place of each column.
    """

    path: str
    rows: int
    places: tuple[tuple[str, int], ...]

    def column(self, place: int) -> Array:
        """One column as float64 or int32, shape (rows,).

        Raises:
            SpoolError: the file was cut short since it was opened.
        """
        kind, at = self.places[place]
        held = np.fromfile(self.path, dtype=kind, count=self.rows, offset=at)
        if len(held) != self.rows:
            raise SpoolError("a chunk of the chunk store was changed")
        return widened(held)


def opened(path: str, head: bytes, layout: Layout, note: ChunkNote) -> Opened:
    """What a file's first bytes say, if it is the chunk that it should be.

    Raises:
        SpoolError: it is another one, or none.
    """
    known: tuple[object, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    try:
        room = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 8], "little")
        said = json.loads(head[len(MAGIC) + 8 : room])
        known = (said["layout"], said["number"], said["first"], said["rows"])
        places = tuple((str(kind), room + int(at)) for kind, at in said["columns"])
    except (ValueError, KeyError, TypeError):
        known = ()
    if not head.startswith(MAGIC) or known != (
            layout.digest, note.number, note.first, note.rows) or (
            len(places) != len(layout.columns)):
        raise SpoolError(f"chunk {note.number} of the chunk store is not the one that was written")
    return Opened(path, note.rows, places)
