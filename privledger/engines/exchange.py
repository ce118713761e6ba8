"""An exchange of messages: every block of chunks is asked until it replies, and is taken once.

It asks chunks for an answer, or asks that they be written. docs/proofs/chunks.md.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeAlias

import numpy as np
from attrs import define, evolve, field

from privledger.engines.engine import Engine
from privledger.engines.messages import (
    DONE,
    LATE,
    Filling,
    Said,
    asked_to_bytes,
    message_said,
)
from privledger.errors import EngineError
from privledger.tables.ingest import Known, write_part
from privledger.tables.layout import ChunkNote, Layout
from privledger.tables.parts import FilePart, InParts
from privledger.tables.spool import Folder

ATTEMPTS: Final = 4
BLOCKS_PER_WORKER: Final = 3
PARTS_PER_WORKER: Final = 8
Block: TypeAlias = "tuple[ChunkNote, ...]"


@define(eq=False, repr=False)
class Exchange:
    """One release, or one ingest: which blocks have replied.

    Attributes:
        folder: of the spool. engine: who is asked.
        told: name and length of a catalogue, and the text of a message about a block.
        release: what its messages and replies are marked with.
    """

    folder: Folder
    engine: Engine
    told: Callable[[str, Block], tuple[str, int, bytes]]
    release: str = field(init=False, factory=lambda: secrets.token_hex(16))

    def replies(self, asked: Iterable[Block]) -> Iterator[tuple[Block, Said]]:
        """Each block with its reply, in any order. One that never replied is left out.

        A worker that failed before it knew of which block it was asked has an empty one.
        """
        waiting = {tuple(note.number for note in block): block for block in asked}
        for _ in range(ATTEMPTS):
            messages = [self._message(block) for block in waiting.values()]
            for reply in self.engine.run(messages) if messages else ():
                said = self._said(reply)
                if said is None:
                    continue  # a stranger's, or of another exchange: as good as none
                block = waiting.pop(said.chunks, ())
                if block or said.status != DONE:  # else answered before, or never asked
                    yield block, said

    def _message(self, block: Block) -> tuple[str, bytes]:
        name, lines, text = self.told(self.release, block)
        return str(self.folder.path), asked_to_bytes(
            self.folder.key, {"release": self.release, "catalogue": name, "lines": lines}, text)

    def _said(self, reply: bytes) -> Said | None:
        with suppress(EngineError):
            said = message_said(self.folder.key, reply)
            return said if said.release == self.release and said.status != LATE else None
        return None


def is_of(said: Said, block: Block, layout: Layout) -> bool:
    """Whether a reply is of the chunks as the driver knows them."""
    return said.layout == layout.digest and said.rows == sum(note.rows for note in block)


def filled(folder: Folder, engine: Engine, layout: Layout, files: InParts, unlabelled: bool,
           before: Block, known: Known) -> Iterator[ChunkNote]:
    """Chunks that workers write, each from a part of the files that it reads itself.

    What no worker has written, for whatever cause, is read and written here: so what is wrong
    with a row is said by this process, and no message tells of it.

    Args:
        before: chunks that come first.

    Raises:
        EngineError: the engine may not be used; nothing was read. Else as `write_part`.
    """
    rows, offset = engine.chunk_rows, sum(note.rows for note in before)
    left: dict[Block, FilePart] = {}
    for first, stop, part in files.parts(rows, engine.workers * PARTS_PER_WORKER):
        numbers = range(len(before) + first // rows, len(before) - (-stop // rows))
        left[tuple(ChunkNote(
            number, offset + at, min(rows, stop - at),
            known[number].sha256 if number in known else "")
            for number, at in zip(numbers, range(first, stop, rows), strict=True))] = part

    def told(release: str, block: Block) -> tuple[str, int, bytes]:
        return "", 0, pickle.dumps(Filling(release, layout, block, left[block], unlabelled))

    with suppress(EngineError):  # what is left is written here
        for block, said in Exchange(folder, engine, told).replies(left if len(left) > 1 else ()):
            found = said.sketch
            if said.status == DONE and is_of(said, block, layout) and (
                    type(found) is np.ndarray and found.dtype == np.uint8 and (
                    found.shape == (len(block), sha256().digest_size))):
                del left[block]
                yield from (evolve(note, sha256=bytes(one).hex())
                            for note, one in zip(block, found, strict=True))
    for block, part in left.items():
        yield from write_part(folder, layout, part, unlabelled, block)
    files.listing.check()
