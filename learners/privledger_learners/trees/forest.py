"""Fitted trees: released cuts and released leaf values, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

import privledger as pl


@frozen(eq=False)
class Tree:
    """Attributes: cells, the grown tree; values, of shape (leaves, k)."""

    cells: pl.GrownCells
    values: np.ndarray


@frozen(eq=False)
class Forest:
    """Trees on the same public bins, and how their votes add up.

    Attributes:
        votes: `mean` of the leaf values, or `log`: the product of class shares, normalised.
    """

    trees: tuple[Tree, ...]
    votes: str = "mean"

    def values(self, columns: Any) -> np.ndarray:
        """Combined leaf values of every record, shape (n, k)."""
        codes = self.trees[0].cells.bins.codes(columns)
        total = None
        for tree in self.trees:
            values = np.log(tree.values) if self.votes == "log" else tree.values
            found = values[tree.cells.assign(codes)]
            total = found if total is None else total + found
        if self.votes == "mean":
            return total / len(self.trees)
        shares = np.exp(total - total.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)
