"""Queries: what to add up over which cells, with the sensitivity that follows.

Sensitivities (docs/proofs/queries.md). A record touches one cell of each block. With c the
clip of a block:

    add_remove            L1 and L2: c
    replace_one, 1 cell   signed 2c, unsigned of width 1 c, unsigned and wider as k cells
    replace_one, k cells  signed 2c; unsigned: L2 sqrt(2) c, L1 2c
    replace_label         as replace_one; as 1 cell if a label cannot decide the cell
"""

from __future__ import annotations

import math
from typing import Any

from attrs import field, frozen

from privledger.errors import InvalidValue
from privledger.facts.carriers import Copier, Describer, Reader
from privledger.facts.table import TableFacts
from privledger.facts.values import Json, items, text
from privledger.questions.blocks import Block
from privledger.questions.cells import Cells, depends_on_label
from privledger.questions.derivation import derivation_of
from privledger.rounding import up


def _blocks(value: Any) -> tuple[Any, ...]:
    return tuple(value)


@frozen(eq=False)
class Query:
    """One question about one handle.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        blocks: statistics released together.
        cells: answered once per cell of a partition, or once for the whole handle.
        what: a few public words for the ledger.
    """

    data: Any = field(converter=derivation_of)
    blocks: tuple[Block, ...] = field(converter=_blocks)
    cells: Cells | None = None
    what: str = "query"

    def __attrs_post_init__(self) -> None:
        if not self.blocks:
            raise InvalidValue("Query blocks", (), "at least one block")

    @property
    def asserted(self) -> bool:
        """Whether somebody merely vouches for part of the sensitivity."""
        return any(block.asserted for block in self.blocks)

    @property
    def label(self) -> str:
        """What the ledger records: `what`, marked if asserted."""
        if not self.asserted:
            return self.what
        reasons = "; ".join(str(getattr(b, "why", "")) for b in self.blocks if b.asserted)
        return f"asserted: {self.what} ({reasons})"

    @property
    def cell_count(self) -> int:
        """Cells that are answered at once; 1 without cells."""
        return 1 if self.cells is None else self.cells.count

    def sensitivity(self, block: Block, relation: str, norm: int) -> float:
        """Bound on how far one neighbour moves the block, in the L1 or L2 norm."""
        if relation == "add_remove":
            return block.clip
        if block.signed:
            return 2 * block.clip
        if self.cell_count == 1 or (
                relation == "replace_label" and not depends_on_label(self.cells)):
            if block.width == 1:
                return block.clip
            return up(math.sqrt(2) * block.clip) if norm == 2 else 2 * block.clip
        return up(math.sqrt(2) * block.clip) if norm == 2 else 2 * block.clip

    def own(self, to: Copier) -> Query:
        """As `Question.own`."""
        return Query(to.derivation(self.data), tuple(to.block(block) for block in self.blocks),
                     None if self.cells is None else to.cells(self.cells), self.what)

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`."""
        for block in self.blocks:
            block.check(facts)
        if self.cells is not None:
            self.cells.check(facts)
        self.data.check(facts)
        asks = depends_on_label(self.cells) or any(block.reads_target for block in self.blocks)
        self.data.check_labelled(facts, asks, "ask about the target on")

    def to_wire(self, to: Describer) -> Json:
        """As `Question.to_wire`."""
        return {"blocks": [to.block(block) for block in self.blocks], "what": str(self.what),
                "cells": None if self.cells is None else to.object(self.cells)}

    @classmethod
    def from_wire(cls, body: Json, reader: Reader) -> Query:
        """As `Question.from_wire`."""
        blocks = tuple(reader.block(item) for item in items(body, "blocks", 1000))
        cells = None if body.get("cells") is None else reader.cells(body["cells"])
        return cls(reader.handle(body.get("data")), blocks, cells, text(body, "what", 200))

    def __repr__(self) -> str:
        return f"Query({self.label!r}, {self.cell_count} cells)"
