"""Questions that tree learners share: the row count, classes of the target, leaf values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import privledger as pl
from privledger_learners.trees.smoothing import smoothed_means, smoothed_shares

TARGET_EDGES = 256


def fair_depth(rows: float, leaf_epsilon: float, per_leaf: float, most: int) -> int:
    """As deep as leaves of `per_leaf` noise scales allow, from 1 to `most`."""
    scales = rows * leaf_epsilon / per_leaf
    wanted = math.floor(math.log2(scales) + 1e-12) if scales > 2 else 1
    return min(wanted, most)


def scales_per_leaf(task: str) -> float:
    """Records of a leaf in units of its noise scale; found on public development sets."""
    return 10.0 if task == "classification" else 20.0


def quantile_edges(counts: np.ndarray, edges: np.ndarray, parts: int = 6) -> tuple[float, ...]:
    """Borders of about equal shares of a noisy histogram; at least one, increasing."""
    mass = np.cumsum(np.maximum(counts, 0.0))
    wanted = mass[-1] * np.arange(1, parts) / parts
    places = np.searchsorted(mass, wanted)
    found = np.unique(edges[np.minimum(places, len(edges) - 1)])
    return tuple(float(edge) for edge in found)


def quantile_classes(session: pl.Session, data: pl.Dataset,
                     mechanism: Any) -> pl.questions.IntervalCells:
    """Six classes of a numeric target of about equal size, from one noisy histogram."""
    target = data.schema.target
    edges = np.linspace(target.lower, target.upper, TARGET_EDGES + 1)[1:-1]
    counts = session.release(mechanism, data.histogram(target.name, edges))
    return pl.questions.IntervalCells("", quantile_edges(counts[: len(edges) + 1], edges))


def leaf_values(session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
                mechanism: Any,
                smoothing: float) -> np.ndarray:
    """Noisy leaf statistics, smoothed for free from the root down.

    Returns:
        Class shares, shape (leaves, classes); of a regression means in [0, 1], (leaves, 1).
    """
    noise = math.sqrt(2) * mechanism.scale
    schema = data.schema
    if schema.task == "classification":
        counts = session.release(mechanism, data.query(
            (pl.questions.Ones(),),
            pl.questions.CrossCells(tree,
                                    pl.questions.CategoryCells("", len(schema.target.categories))),
            "class counts per leaf"))
        return smoothed_shares(counts.reshape(tree.count, -1), noise, smoothing)
    shares = session.release(mechanism, data.query((pl.questions.TargetShares(),), tree,
                                                   "target sums per leaf"))
    return smoothed_means(shares[:, 0], shares.sum(axis=1), noise, smoothing)[:, None]
