"""Split scores of candidate cuts, and how far one record can move them.

Proofs of every bound here: docs/proofs/split-scores.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.questions.statistics import STEPS

Floats = NDArray[np.float64]
Sums = NDArray[Any]


def rank(left: Sums, total: Sums) -> Floats:
    """-| records below - records above |: the median has the largest.

    The first column counts the records.
    """
    result: Floats = -np.abs(2.0 * left[:, 0] - total[:, 0])
    return result


def class_fit(left: Sums, total: Sums) -> Floats:
    """Minus the squared error of one-hot labels after the cut, up to a constant per leaf."""
    return _squares_over(left) + _squares_over(total - left)


def _squares_over(counts: Sums) -> Floats:
    held = counts.astype(np.float64)
    size = held.sum(axis=1)
    # Not at least one: a few rows of people with many weigh less.
    result: Floats = np.einsum("ij,ij->i", held, held) / np.where(size > 0, size, 1.0)
    return result


def number_fit(left: Sums, total: Sums) -> Floats:
    """Minus the squared error of targets in [0, 1] after the cut, up to a constant per leaf."""
    return _mean_fit(left, 0.0) + _mean_fit(total - left, 0.0)


def gain(penalty: float) -> Callable[[Sums, Sums], Floats]:
    """Sum over both sides of (sum of gradients)^2 / (records + penalty), unit clip squared."""
    return lambda left, total: _mean_fit(left, penalty) + _mean_fit(total - left, penalty)


def _mean_fit(sums: Sums, penalty: float) -> Floats:
    size = sums[:, 0] + penalty
    held = sums[:, 1] / STEPS
    result: Floats = held * held / np.where(size > 0, size, 1.0)
    return result


def impurity_fall(impurity: Callable[[Floats], Floats]) -> Callable[[Sums, Sums], Floats]:
    """How much the cut lowers the leaf's impurity, before it is normalised."""

    def fall(left: Sums, total: Sums) -> Floats:
        left, total = left.T, total.T
        right = total - left
        below, above = across(left), across(right)
        parts = below * impurity(_shares(left, below)) + above * impurity(_shares(right, above))
        size = below + above
        result: Floats = impurity(_shares(total, size)) - parts / np.maximum(size, 1)
        return result

    return fall


def _shares(counts: Sums, sizes: Sums) -> Floats:
    return counts / np.maximum(sizes, 1)


def gini(shares: Floats) -> Floats:
    """1 - sum of squared shares; shape (classes, m), result (m,)."""
    result: Floats = 1.0 - across(np.square(shares))
    return result


def entropy(shares: Floats) -> Floats:
    """-sum of share * log2(share), bits; shape (classes, m), result (m,)."""
    result: Floats = -across(shares * np.log2(np.where(shares > 0, shares, 1.0)))
    return result


def across(table: NDArray[Any]) -> NDArray[Any]:
    """Sums over the first axis, one row after another: quicker than `sum` for a few rows."""
    found: NDArray[Any] = table[0].copy()
    for row in table[1:]:
        found += row
    return found


def normalised(values: Floats, groups: Sums) -> Floats:
    """Scaled to [0, 1] by the smallest and largest of each group; all zero where they agree.

    `groups` is sorted. Whatever the table, the result lies in [0, 1].
    """
    if not len(values):
        return values
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(np.append(starts, len(values)))
    least = np.repeat(np.minimum.reduceat(values, starts), sizes)
    span = np.repeat(np.maximum.reduceat(values, starts), sizes) - least
    scaled = np.divide(values - least, span, out=np.zeros_like(values), where=span > 0)
    result: Floats = np.clip(scaled, 0.0, 1.0)
    return result
