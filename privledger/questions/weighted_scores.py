"""Scores of features where records weigh differently: rows of people who have several.

The same scores as in `feature_scores`, of records that each count as so many steps. Whole
numbers throughout, so that the scores of records which all weigh the same are the same numbers.
Bounds: docs/proofs/people.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privledger.tables.chunk import Rows
from privledger.tables.weighing import ONE

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_SHIFT = 16
_PIECE = (1 << _SHIFT) - 1


def weighted_score(score: str, row: Floats, in_keys: Callable[[Floats], NDArray[np.integer]],
                   codes: Ints, rows: Rows) -> float:
    """`agreement` or `rank` of one feature.

    Args:
        row: the feature on the steps of keys, NaN where missing, shape (n,).
        in_keys: from a table of such numbers to whole ones.
        codes: targets as whole numbers in their order, shape (n,).
    """
    assert rows.mass is not None
    known = ~np.isnan(row)
    values, held, mass = in_keys(row[known][None])[0], codes[known].astype(np.int64), rows.mass
    if score == "agreement":
        top = len(rows.features.schema.target.categories) - 1
        return weighted_agreement(values, held, mass[known], top)
    return weighted_rank(values, held, mass[known], int(mass.sum()))


def weighted_agreement(values: NDArray[np.integer], codes: Ints, mass: Ints, top: int) -> float:
    """Most weight of records that some monotone step function gets right.

    Args:
        values: of one feature, unsigned, with room for `top` below: shape (n,).
        codes: classes 0 to `top`. mass: steps of each record.
    """
    rising = np.lexsort((-codes, values))  # ties: the highest class first
    falling = np.lexsort((codes, values))
    best = max(_climb(codes[rising], mass[rising], top),
               _climb(top - codes[falling], mass[falling], top))
    return best / ONE


def _climb(labels: Ints, mass: Ints, top: int) -> int:
    """Most weight that a rising function gets right; see `feature_scores.agreement`."""
    if top == 0 or not len(labels):
        return int(mass.sum())
    best: Ints | None = None
    for c in range(top):
        walk = np.cumsum(np.where(labels == c, mass, 0) - np.where(labels == c + 1, mass, 0))
        if best is not None:
            walk += np.maximum(np.maximum.accumulate(best), 0)
        best = walk
    assert best is not None
    return int(mass[labels == top].sum()) + max(int(best.max()), 0)


def weighted_rank(values: NDArray[np.integer], codes: Ints, mass: Ints, total: int) -> float:
    """|weight of pairs in the same order - weight of pairs in opposite order| / `total` weight.

    A pair weighs the product of its records' weights.

    Args:
        values: of one feature, shape (n,). codes: targets in their order.
        mass: steps of each record. total: steps of all, also of those whose value is missing.
    """
    if not total:
        return 0.0
    first, second = np.lexsort((-codes, values)), np.lexsort((codes, values))
    # A pair of equal values counts once each way.
    twice = _pairs(codes[first], mass[first]) + _pairs(codes[second], mass[second])
    return abs(twice) / (2 * ONE * total)


def _pairs(labels: Ints, mass: Ints) -> int:
    """Weight of pairs whose labels rise less weight of pairs whose labels fall, in steps squared.

    One bit at a time from the highest, as `feature_scores.pairs`.
    """
    found, codes = np.unique(labels, return_inverse=True)
    total = 0
    for bit in range(int(len(found) - 1).bit_length() - 1, -1, -1):
        order = np.argsort(codes >> (bit + 1), kind="stable")
        codes, mass = codes[order], mass[order]
        group = codes >> (bit + 1)
        ones = np.where(codes >> bit & 1, mass, 0)
        zeros = np.concatenate([[0], np.cumsum(mass - ones)])
        ahead = zeros[:-1] - zeros[np.searchsorted(group, group, side="left")]
        high = np.concatenate([[0], np.cumsum(ones)])
        ends = np.append(np.flatnonzero(np.diff(group, prepend=-1)), len(group))
        total += 2 * _dot(ones, ahead) - _dot(np.diff(high[ends]), np.diff(zeros[ends]))
    return total


def _dot(left: Ints, right: Ints) -> int:
    """Sum of products, exactly, of steps of up to 2^26 people; `right` is not negative."""
    total = shift = 0
    while right.any():  # sixteen bits of it at a time: a piece's sum fits in 64
        total += int(left @ (right & _PIECE)) << shift
        right, shift = right >> _SHIFT, shift + _SHIFT
    return total
