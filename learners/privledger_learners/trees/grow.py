"""Growing a tree by releases, level by level: all leaves of a level in one release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import privledger as pl

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
