"""A table in chunks, as the guard holds it: it asks, takes every chunk once, and adds up.

The driver draws no noise and keeps no rows. Replies carry the release, the chunks and the layout
that they are of; one that is late, doubled or strange changes nothing, and one that is missing is
asked for again. What fixes a state (a filter's spends, parts of a moving score) has versions, so
that a chunk that is answered twice answers the same. docs/proofs/chunks.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.engines.catalogue import Catalogue
from privledger.engines.chunks import Bench
from privledger.engines.engine import Engine
from privledger.engines.exchange import BLOCKS_PER_WORKER, Block, Exchange, is_of
from privledger.engines.messages import DONE, SPOOL, Asked, Spending
from privledger.errors import DataError, EngineError, SpoolError
from privledger.mutex import Mutex
from privledger.questions.asking import FilterAccount, Members, Sketch, Task
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from privledger.tables.ingest import Ingested
from privledger.tables.layout import Array, ChunkNote
from privledger.tables.spool import Folder
from privledger.tables.stored_chunk import StoredChunk, label_of

OTHER = ("a worker replied with another layout or size of chunks. Nothing was released, and the "
         "charge stands")
FAILED_THERE = "the query failed inside the guard. Its charge stands"

Done = Callable[[int, int], None]
"""Told how many chunks of a pass are done, and of how many."""


@define(eq=False, repr=False)
class ChunkTakings:
    """As `Takings`: what the records of all chunks paid under one filter.

    Attributes:
        table: whose chunks. label: of grant and filter. before: units spent before, or None.
        last, gone: as in `Spending`.
    """

    table: ChunkTable
    label: str
    cap: float
    before: NDArray[np.int64] | None
    last: str = ""
    gone: str = ""

    @property
    def rounds(self) -> NDArray[np.int32]:
        return self._all(2).astype(np.int32)

    def taken(self) -> NDArray[np.int64]:
        spent = self._all(0)
        return spent if self.before is None else spent - self.before

    def _all(self, row: int) -> NDArray[np.int64]:
        label = label_of(self.label, self.last)
        parts = [self.table.stored(note).kept("spend", label)[row] for note in self.table.notes]
        return np.concatenate(parts)


@define(eq=False, repr=False)
class ChunkTable:
    """A guarded table of which this process holds names of files, and no row: as `Chunks`.

    Attributes:
        folder: of the spool. ingested: what it holds. engine: who answers.
        secret: 32 bytes, of all private coins of the table.
        on_progress: told after every block of a pass; None for no report.
    """

    folder: Folder
    ingested: Ingested
    engine: Engine
    secret: bytes
    on_progress: Done | None = None
    _catalogue: Catalogue = field(init=False)
    _held: dict[str, dict[str, str]] = field(init=False, factory=dict)
    _spent: dict[str, dict[str, ChunkTakings]] = field(init=False, factory=dict)
    _lock: Mutex = field(init=False, factory=Mutex)

    def __attrs_post_init__(self) -> None:
        self._catalogue = Catalogue(self.folder)

    @property
    def notes(self) -> tuple[ChunkNote, ...]:
        """Which chunks it has, in order of their rows."""
        return self.ingested.notes

    @property
    def n(self) -> int:
        """How many records: private under add_remove."""
        return self.ingested.rows

    def close(self) -> None:
        """Remove the chunks, unless their folder is to stay."""
        if not self.folder.lasting:
            self.folder.remove()

    def check(self, task: Task) -> None:
        """Refuse what cannot go to another process; nothing is read.

        Raises:
            UnsupportedNode: a function that no other process can load.
        """
        with self._lock:  # numbers are given one after another
            self._catalogue.described(task)

    def stored(self, note: ChunkNote) -> StoredChunk:
        """What a chunk kept."""
        return StoredChunk(self.folder, note.number, note.sha256, self.secret, str)

    def ask(self, task: Task, members: Members, account: FilterAccount) -> Sketch:
        """As `Chunks.ask`.

        Raises:
            EngineError: no worker answers. SpoolError: a chunk is gone or changed.
            DataError: it failed in a worker; what it was may depend on records.
        """
        with self._lock:
            takings = self._takings(task, account)
            held = self._held.setdefault(members.session, {})
            before, catalogue = dict(held), self._catalogue

            def told(release: str, block: Block) -> tuple[str, int, bytes]:
                text = catalogue.described(Asked(
                    release, self.ingested.layout, block, task, members.session, self.secret,
                    before, _spending(takings)))
                return catalogue.name, catalogue.lines, text

            asking = Exchange(self.folder, self.engine, told)
            merged, fresh = self._merged(asking, task)
            held |= dict.fromkeys(fresh, asking.release)
            if takings is not None:
                self._spent.setdefault(members.session, {})[takings.label] = takings
                takings.gone, takings.last = takings.last, asking.release
            return merged

    def _merged(self, asking: Exchange, task: Task) -> tuple[Sketch, set[str]]:
        """All chunks' sketches as one, and what was fixed for them, by label."""
        merged: Sketch = None
        fresh: set[str] = set()
        most, done = self.engine.workers * BLOCKS_PER_WORKER, 0
        for block, said in asking.replies(blocks(self.notes, most)):
            if said.status == SPOOL:
                raise SpoolError("a chunk of the table, or its stored intermediate result, is "
                                 "missing or was changed. Nothing was released, and the charge "
                                 "stands")
            if said.status != DONE:
                raise DataError(FAILED_THERE)
            if not is_of(said, block, self.ingested.layout):
                raise EngineError(OTHER)
            fresh.update(said.fresh)
            try:
                merged = said.sketch if merged is None else task.question.merge(merged, said.sketch)
            except (ValueError, TypeError, AttributeError, IndexError):
                raise EngineError(OTHER) from None
            done += len(block)
            if self.on_progress is not None:
                self.on_progress(done, len(self.notes))
        if done < len(self.notes):
            raise EngineError("chunks were not answered after several attempts: workers have "
                              "stopped, have another version, or cannot read the chunk store's "
                              "folder. Nothing was released, and the charge stands")
        return merged, fresh

    def forget(self, session: str) -> None:
        """A session is over and settled: what was kept for it alone is not asked for again."""
        with self._lock:
            gone = self._catalogue.dead()
            gone += [("fixed", label_of(label, release))
                     for label, release in self._held.pop(session, {}).items()]
            for takings in self._spent.pop(session, {}).values():
                gone += [("before", takings.label), *(
                    ("spend", label_of(takings.label, release))
                    for release in (takings.last, takings.gone) if release)]
            for note in self.notes if gone else ():
                stored = self.stored(note)
                for slot, label in gone:
                    stored.forget(slot, label)

    def _takings(self, task: Task, account: FilterAccount) -> ChunkTakings | None:
        """Where records stand under the task's filter."""
        if task.round is None:
            return None
        token = task.round.token

        def begin(cap: float, before: NDArray[np.int64]) -> ChunkTakings:
            made = ChunkTakings(self, label_of(secrets.token_hex(8), token), cap,
                                before if before.any() else None)
            for note in self.notes if made.before is not None else ():
                self.stored(note).put("before", made.label,
                                      before[note.first : note.first + note.rows])
            return made

        found = account.spend(token, self.n, begin)
        assert isinstance(found, ChunkTakings)
        return found

    def columns(self) -> Iterator[tuple[str, Iterator[Array]]]:
        """Every column by name, chunk by chunk: at the owner's side, of what is his."""
        bench, layout = Bench(self.folder), self.ingested.layout
        held = [bench.opened(layout, note) for note in self.notes]
        for place, column in enumerate(layout.columns):
            yield column.name, (one.column(place) for one in held)

    def loaded(self) -> Rows:
        """All of it in memory: where only labels are protected, whose features learners hold."""
        layout = self.ingested.layout
        arrays = [np.concatenate(list(parts)) for _, parts in self.columns()]
        target = arrays.pop() if layout.has_target else None
        return Rows(Columns(layout.schema, tuple(arrays), self.n), target)


def _spending(takings: ChunkTakings | None) -> Spending | None:
    if takings is None:
        return None
    return Spending(takings.label, takings.cap, takings.last, takings.gone,
                    takings.before is not None)


def blocks(notes: tuple[ChunkNote, ...], most: int) -> list[tuple[ChunkNote, ...]]:
    """Consecutive chunks, about as many in each block, in at most so many blocks."""
    size = -(-len(notes) // max(1, most))
    return [notes[start : start + size] for start in range(0, len(notes), size)]
