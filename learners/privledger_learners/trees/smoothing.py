"""Leaf statistics from noisy ones: free, because only released values go in."""

from __future__ import annotations

import numpy as np

Floats = np.ndarray


def levels_of(leaves: Floats) -> list[Floats]:
    """Sums of every node, root first; leaves of shape (2**depth, k)."""
    found = [leaves]
    while len(found[-1]) > 1:
        found.append(found[-1].reshape(-1, 2, leaves.shape[1]).sum(axis=1))
    return found[::-1]


def smoothed_shares(counts: Floats, noise: float, strength: float = 4.0) -> Floats:
    """Class shares of every leaf, shrunk towards the node above.

    A node's noisy counts weigh against its parent's shares as `strength` standard deviations of
    their own noise: a node of m leaves carries noise * sqrt(m) in each class.

    Args:
        counts: noisy counts, shape (2**depth, classes).
        noise: standard deviation of each.

    Returns:
        Shares, shape (2**depth, classes), positive, rows adding up to one.
    """
    levels = levels_of(counts)
    shares = np.maximum(levels[0], 0.0) + 1e-9 + noise * np.sqrt(len(counts)) * 1e-3
    shares = shares / shares.sum(axis=1, keepdims=True)
    for level in levels[1:]:
        above = np.repeat(shares, 2, axis=0)
        # Never quite zero: a node without any count says what its parent says.
        weight = max(strength, 1e-9) * noise * np.sqrt(len(counts) / len(level))
        held = np.maximum(level, 0.0)
        shares = (held + weight * above) / (held.sum(axis=1, keepdims=True) + weight)
    return shares


def smoothed_means(sums: Floats, counts: Floats, noise: float, strength: float = 4.0) -> Floats:
    """Means of every leaf in [0, 1], shrunk towards the node above; shapes (2**depth,)."""
    both = np.stack([sums, counts - sums], axis=1)
    return smoothed_shares(both, noise, strength)[:, 0]
