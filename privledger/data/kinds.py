"""The kinds of blocks and cells whose sensitivity is derived (docs/proofs/queries.md)."""

from __future__ import annotations

from privledger.data.bins import TreeCells
from privledger.data.blocks import ColumnValue, CustomValue, Ones
from privledger.data.cells import CategoryCells, CoinCells, IntervalCells, ResidualCells
from privledger.data.score import Gradient, Hessian

BLOCKS: tuple[type, ...] = (Ones, ColumnValue, CustomValue, Gradient, Hessian)
CELLS: tuple[type, ...] = (TreeCells, CategoryCells, IntervalCells, ResidualCells, CoinCells)
