"""Fitted trees: released cuts and released leaf values, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

import privledger as pl


@frozen(eq=False)
class Tree:
    """Attributes: cells, the grown tree; values, of shape (leaves, k)."""

    cells: pl.questions.GrownCells
    values: np.ndarray


@frozen(eq=False)
class Forest:
    """Trees on the same public bins, and how their votes add up.

    Attributes:
        votes: `mean` of the leaf values; `log`: the product of class shares, normalised;
            `counts`: shares of the summed noisy counts, none below zero.
    """

    trees: tuple[Tree, ...]
    votes: str = "mean"

    def values(self, columns: Any) -> np.ndarray:
        """Combined leaf values of every record, shape (n, k)."""
        return self.values_of(self.trees[0].cells.bins.codes(columns))

    def values_of(self, codes: tuple[Any, ...]) -> np.ndarray:
        """The same from bin codes, one array per feature."""
        total = None
        for tree in self.trees:
            values = np.log(tree.values) if self.votes == "log" else tree.values
            found = values[tree.cells.assign(codes)]
            total = found if total is None else total + found
        if self.votes == "mean":
            return total / len(self.trees)
        if self.votes == "counts":
            held = np.maximum(total, 0.0) + 1e-12
            return held / held.sum(axis=1, keepdims=True)
        shares = np.exp(total - total.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)
