"""A worker's work: chunks of a spool, one question, whole numbers.

Nothing here is said aloud. Whatever goes wrong becomes a status: what it was may depend on records.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.engines.catalogue import LateObject, Read
from privledger.engines.messages import (
    ASKED,
    DONE,
    FAILED,
    LATE,
    SPOOL,
    Asked,
    Filling,
    Said,
    Spending,
    headed,
    said_to_bytes,
    unseal,
)
from privledger.errors import SpoolError
from privledger.ledger.individual import ScopeSpend
from privledger.mutex import Mutex
from privledger.questions.asking import Members, Sketch, Takings, answer
from privledger.questions.blocks import quiet
from privledger.tables.chunk import Lazily, Rows
from privledger.tables.columns import Columns
from privledger.tables.ingest import name_of, write_part
from privledger.tables.layout import ChunkNote, Layout, Opened, opened
from privledger.tables.spool import Folder, marks_of
from privledger.tables.stored_chunk import StoredChunk, label_of

_HEAD = 1 << 16


@define(eq=False, repr=False)
class Bench:
    """One spool, as one worker knows it. It answers one message at a time.

    Attributes:
        folder: of the spool.
    """

    folder: Folder
    _reads: dict[str, Read] = field(init=False, factory=dict)
    _seen: dict[str, tuple[tuple[int, ...], str, tuple[int, ...]]] = field(init=False, factory=dict)
    _checked: dict[str, tuple[tuple[int, ...], str, Opened]] = field(init=False, factory=dict)
    _lock: Mutex = field(init=False, factory=Mutex)

    def reply(self, message: bytes) -> bytes:
        """The answer to a sealed message.

        Raises:
            EngineError: no holder of the key wrote it.
        """
        text = unseal(self.folder.key, ASKED, message)
        head, task = headed(text)
        release, chunks, status = str(head["release"]), tuple[int, ...](), FAILED
        try:
            with self._lock, quiet(), np.errstate(all="ignore"):
                name = str(head["catalogue"])
                read = self._reads.setdefault(name, Read(self.folder, name))
                read.follow(int(head["lines"]))
                asked = read.built(task)
                assert isinstance(asked, Asked | Filling)
                chunks = tuple(note.number for note in asked.notes)
                said = (self._answered(asked, read) if isinstance(asked, Asked) else
                        (self._filled(asked), ()))
            return said_to_bytes(self.folder.key, Said(
                release, chunks, asked.layout.digest, sum(note.rows for note in asked.notes),
                DONE, said[1], said[0]))
        except LateObject:
            status = LATE
        except SpoolError:
            status = SPOOL
        except Exception:
            pass  # what it was may depend on a record, or the sketch is not whole numbers
        return said_to_bytes(self.folder.key, Said(release, chunks, "", 0, status))

    def _filled(self, asked: Filling) -> Sketch:
        found = write_part(self.folder, asked.layout, asked.part, asked.unlabelled, asked.notes)
        return np.array([list(bytes.fromhex(note.sha256)) for note in found], dtype=np.uint8)

    def _answered(self, asked: Asked, read: Read) -> tuple[Sketch, tuple[str, ...]]:
        merged: Sketch = None
        fresh: set[str] = set()
        for note in asked.notes:
            stored = StoredChunk(self.folder, note.number, note.sha256, asked.secret, _naming(read),
                            asked.held, asked.release, self._seen)
            account = ChunkAccount(stored, asked.spending)
            found = answer(asked.task, self._rows(asked.layout, note, stored),
                           Members(asked.session), account)
            account.keep()
            fresh |= stored.fresh
            merged = found if merged is None else asked.task.question.merge(merged, found)
        return merged, tuple(sorted(fresh))

    def _rows(self, layout: Layout, note: ChunkNote, stored: StoredChunk) -> Rows:
        held = self.opened(layout, note)
        features = len(layout.schema.features)
        columns = Columns(layout.schema, Lazily(held.column, features), note.rows)
        target = held.column(features) if layout.has_target else None
        return Rows(columns, target, first=note.first, keep=stored)

    def opened(self, layout: Layout, note: ChunkNote) -> Opened:
        """The chunk's file, read through once and again whenever it was touched since."""
        path = self.folder.file(name_of(note.number))
        try:
            now = marks_of(path)
            known = self._checked.get(path.name)
            if known is not None and known[:2] == (now, note.sha256):
                return known[2]
            with open(path, "rb") as file:
                head, digest = file.read(_HEAD), sha256()
                file.seek(0)
                while piece := file.read(1 << 20):
                    digest.update(piece)
            if digest.hexdigest() != note.sha256 or marks_of(path) != now:
                raise SpoolError(f"chunk {note.number} of the chunk store was changed")
        except OSError:
            raise SpoolError(f"chunk {note.number} of the chunk store is missing") from None
        found = opened(str(path), head, layout, note)
        self._checked[path.name] = now, note.sha256, found
        return found


def _naming(read: Read) -> Callable[[object], str]:
    return lambda what: label_of(*what) if isinstance(what, tuple) else read.name(what)


@define(eq=False, repr=False)
class ChunkAccount:
    """As `FilterAccount`, of one chunk and round: what the last release left, and this leaves.

    A worker that answers again starts where the last release stopped, so a round is charged once
    however often it is run.
    """

    stored: StoredChunk
    asked: Spending | None
    _spend: ScopeSpend | None = field(init=False, default=None)

    def spend(self, token: str, n: int,
              make: Callable[[float, NDArray[np.int64]], Takings]) -> Takings:
        assert self.asked is not None
        if self._spend is None:
            self._spend = self._begun(self.asked, n)
        return self._spend

    def _begun(self, asked: Spending, n: int) -> ScopeSpend:
        if asked.last:
            spent, above, rounds = self.stored.kept("spend", label_of(asked.label, asked.last))
            return ScopeSpend.again(asked.cap, spent, rounds.astype(np.int32), above)
        before = np.zeros(n, dtype=np.int64)
        if asked.before:
            before = self.stored.kept("before", asked.label)
        return ScopeSpend(asked.cap, before, np.zeros(n, dtype=np.int32))

    def keep(self) -> None:
        """Write what was charged. What the last release left stays until all chunks are done."""
        asked, spend = self.asked, self._spend
        if asked is None or spend is None:
            return
        self.stored.put("spend", label_of(asked.label, self.stored.now), np.stack(
            [spend.spent, spend.above, spend.rounds.astype(np.int64)]))
        if asked.gone:
            self.stored.drop("spend", label_of(asked.label, asked.gone))
