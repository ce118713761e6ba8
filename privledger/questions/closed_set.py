"""The closed set: blocks and cells whose sensitivity is derived (docs/proofs/queries.md).

A stranger's block, cells, bins or score would run the stranger's code on the rows, and its
sensitivity would be a claim. Exact types, because a subclass is a stranger.
"""

from __future__ import annotations

from privledger.questions.blocks import ClassIs, ColumnValue, CustomValue, Ones, TargetShares
from privledger.questions.cells import CrossCells, IndexCells, LabelledCells
from privledger.questions.score import UPDATES, Gradient, Hessian, ResidualCells

BLOCKS: tuple[type, ...] = (Ones, ColumnValue, ClassIs, TargetShares, CustomValue, Gradient,
                            Hessian)
CELLS: tuple[type, ...] = (*UPDATES, ResidualCells, CrossCells, LabelledCells, IndexCells)
