"""From noisy class counts of leaves to what a leaf says: free, only released values go in."""

from __future__ import annotations

import math

import numpy as np

import privledger as pl
from privledger_learners.ensembles.choices import Choices
from privledger_learners.trees.forest import Tree
from privledger_learners.trees.smoothing import smoothed_shares


def voting_tree(choices: Choices, tree: pl.questions.GrownCells, counts: np.ndarray,
                scale: float) -> Tree:
    """Smoothed class shares, or the noisy counts themselves where smoothing is off.

    Args:
        counts: noisy, shape (leaves, classes).
        scale: of their Laplace noise.
    """
    if not choices.smoothing:
        return Tree(tree, counts)
    return Tree(tree, smoothed_shares(counts, math.sqrt(2) * scale, choices.smoothing))
