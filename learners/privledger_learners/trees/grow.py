"""Growing a tree by releases, all leaves of a level in one; then what its leaves say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import privledger as pl

TARGET_EDGES = 256
Ask = Callable[[pl.questions.GrownCells], pl.questions.Choice]


def grow(session: pl.Session, tree: pl.questions.GrownCells, levels: Iterable[Any],
         ask: Ask) -> pl.questions.GrownCells:
    """One level per mechanism; `ask` describes the choice that the mechanism answers."""
    for mechanism in levels:
        picked = session.release(mechanism, ask(tree))
        tree = tree.grow(picked.feature, picked.cut)
    return tree


def geometric(total: float, count: int, ratio: float) -> tuple[float, ...]:
    """`count` positive parts of `total`, each `ratio` times the one before.

    They add up to a little less, so that rounding never takes a plan over its budget.
    """
    weights = np.power(float(ratio), np.arange(count))
    return tuple(float(part) for part in total * (1 - 1e-9) * weights / weights.sum())


def monotone(spent: Sequence[float]) -> tuple[pl.Exponential, ...]:
    """Mechanisms of pure epsilon `spent` for scores that a new record moves one way only."""
    return tuple(pl.Exponential(2 * epsilon, (-1.0, 0.0)) for epsilon in spent)


def laplace(epsilon: float, relation: str, *, cells: bool) -> pl.Laplace:
    """Noise for counts of pure cost `epsilon`; under replace-one a record leaves a cell and
    enters another."""
    sensitivity = 2.0 if cells and relation != "add_remove" else 1.0
    return pl.Laplace(sensitivity / (epsilon * (1 - 1e-9)), sensitivity)


def splittable(tree: pl.questions.GrownCells) -> np.ndarray:
    """Which features a leaf's box leaves more than one value of: public, (leaves, features)."""
    found = tree.high - tree.low > 1
    start = 0
    for place, column in enumerate(tree.bins.schema.features):
        if column.kind == "categorical" and not column.ordered:
            stop = start + len(column.categories)
            found[:, place] = tree.open[:, start:stop].sum(axis=1) > 1
            start = stop
    return found


def some_of(allowed: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most `most` of the allowed features of every leaf, by public coins."""
    order = np.where(allowed, rng.random(allowed.shape), 2.0).argsort(axis=1).argsort(axis=1)
    return allowed & (order < most)


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
    counts = session.release(mechanism, data.histogram(target.name, edges.tolist()))
    return pl.questions.IntervalCells("", quantile_edges(counts[: len(edges) + 1], edges))


def class_counts(session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
                 mechanism: pl.Laplace) -> np.ndarray:
    """Noisy class counts of every leaf, shape (leaves, classes)."""
    classes = len(data.schema.target.categories)
    cells = pl.questions.CrossCells(tree, pl.questions.CategoryCells("", classes))
    counts = session.release(mechanism, data.query((pl.questions.Ones(),), cells,
                                                   "class counts per leaf"))
    return np.asarray(counts.reshape(tree.count, classes))


def leaf_values(session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
                mechanism: pl.Laplace, smoothing: float) -> np.ndarray:
    """Noisy leaf statistics, smoothed for free from the root down.

    Returns:
        Class shares, shape (leaves, classes); of a regression means in [0, 1], (leaves, 1).
    """
    noise = math.sqrt(2) * mechanism.scale
    schema = data.schema
    if schema.task == "classification":
        return smoothed_shares(class_counts(session, data, tree, mechanism), noise, smoothing)
    shares = session.release(mechanism, data.query((pl.questions.TargetShares(),), tree,
                                                   "target sums per leaf"))
    return smoothed_means(shares[:, 0], shares.sum(axis=1), noise, smoothing)[:, None]


def levels_of(leaves: np.ndarray) -> list[np.ndarray]:
    """Sums of every node, root first; leaves of shape (2**depth, k)."""
    found = [leaves]
    while len(found[-1]) > 1:
        found.append(found[-1].reshape(-1, 2, leaves.shape[1]).sum(axis=1))
    return found[::-1]


def smoothed_shares(counts: np.ndarray, noise: float, strength: float = 4.0) -> np.ndarray:
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
    return np.asarray(shares)


def smoothed_means(sums: np.ndarray, counts: np.ndarray, noise: float,
                   strength: float = 4.0) -> np.ndarray:
    """Means of every leaf in [0, 1], shrunk towards the node above; shapes (2**depth,)."""
    both = np.stack([sums, counts - sums], axis=1)
    return smoothed_shares(both, noise, strength)[:, 0]
