"""How much a released model's answer hangs on each feature: from the model and public facts only.

Neither rows nor counts are looked at: the model is asked about points that public coins drew, so
what comes out is post-processing, and free (docs/proofs/importances.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import privledger as pl

POINTS = 1024
"""Public points at which a model is asked, and as many again for each feature."""

Codes = tuple[np.ndarray, ...]


def importances(answer: Callable[[Codes], np.ndarray], bins: pl.questions.Bins) -> np.ndarray:
    """Shares of what the answer changes by when one feature alone is drawn again.

    Points are uniform over the public bins, not over rows; a missing value is one more
    bin of the columns that may lack values. Jansen's estimator of total-effect indices.

    Args:
        answer: from bin codes, one array (n,) per feature, to shape (n,) or (n, k).

    Returns:
        Shape (features,), none below 0, adding up to 1; all 0 where the model says the same
        of every point.

    References:
        Jansen 1999, Computer Physics Communications 117, 35-43.
    """
    rng = np.random.default_rng(0)  # public coins: the same points for every model on these bins
    sizes = [size - (not column.missing)
             for size, column in zip(bins.sizes(), bins.schema.features, strict=True)]
    points = [_drawn(rng, size) for size in sizes]
    before = _wide(answer(tuple(points)))
    found = np.zeros(len(sizes))
    for place, size in enumerate(sizes):
        other = [*points[:place], _drawn(rng, size), *points[place + 1:]]
        found[place] = np.mean(np.sum((_wide(answer(tuple(other))) - before) ** 2, axis=1))
    total = found.sum()
    return found / total if total > 0 else found


def _drawn(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, max(size, 1), POINTS).astype(np.uint16)


def _wide(answers: np.ndarray) -> np.ndarray:
    """As floats, shape (n, k)."""
    return np.asarray(answers, dtype=float).reshape(POINTS, -1)
