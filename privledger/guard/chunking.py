"""Tables in chunks behind the guard: where rows come from, and where they go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.engines.driver import ChunkTable, Done
from privledger.engines.engine import Engine
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.facts.columns import Columns
from privledger.facts.schema import Schema
from privledger.noise.source import KEY_BYTES, NoiseSource
from privledger.spool.folder import Folder
from privledger.spool.ingest import Portion, Progress, ingest
from privledger.spool.layout import Array, Layout


@frozen(eq=False, repr=False)
class Whole:
    """Rows in memory, as a `Portion`."""

    features: Columns
    target: Array | None


@frozen(eq=False, repr=False)
class Chunking:
    """How a table is put into chunks.

    Attributes:
        engine: who answers. spool: folder that stays, or None for one that goes with the table.
        progress: told how many rows were ingested; None for nobody.
        passes: told how many chunks of a pass are done, and of how many; None for nobody.
    """

    engine: Engine
    spool: str | Path | None = None
    progress: Progress | None = None
    passes: Done | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.engine, Engine):
            raise InvalidValue("engine", type(self.engine).__name__, "pl.engines.Local or Dask")


def check_unit(unit: str) -> None:
    """Raise `UnsupportedNode` under unit person."""
    if unit == "person":
        raise UnsupportedNode("an engine under unit person: one person's rows may lie in several "
                              "chunks, and what a person says is one mean over all of them. "
                              "Protect the table in memory, or rows. Nothing was read")


def chunk_table(how: Chunking, schema: Schema, portions: Iterable[Portion], has_target: bool,
                source: NoiseSource, origin: str = "") -> ChunkTable:
    """Every row on disk, in chunks of the engine's size."""
    folder = Folder.temporary() if how.spool is None else Folder.at(how.spool)
    layout = Layout(schema, has_target)
    held = ingest(folder, layout, portions, how.engine.chunk_rows, source=origin,
                  progress=how.progress)
    return ChunkTable(folder, held, how.engine, _secret(source), how.passes)


def more_chunks(old: ChunkTable, portions: Iterable[Portion], source: NoiseSource) -> ChunkTable:
    """The same table with late arrivals behind it. Its coins are drawn anew."""
    held = ingest(old.folder, old.ingested.layout, portions, old.engine.chunk_rows,
                  before=old.notes)
    return evolve(old, ingested=held, secret=_secret(source))


def _secret(source: NoiseSource) -> bytes:
    """A key of the table's private coins, from the ledger's own source."""
    words: NDArray[np.uint64] = source.integers64(KEY_BYTES // 8)
    return words.astype("<u8").tobytes()
