"""Further tables: of scikit-learn and made up, two or three of five kinds.

    OMP_NUM_THREADS=1 python tests/bench/auto.py --hidden     measure, then write

Bounds are what an owner would say without a look at the rows. What is rare is judged by the area
under the curve, all else by accuracy or R2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

import privledger as pl

Table: TypeAlias = tuple[pl.Schema, np.ndarray, np.ndarray]
ROWS = 4000


def table(name: str, X: np.ndarray, y: np.ndarray, low: float, high: float,
          target: tuple[float, float] | None = None) -> Table:
    """All features are numbers between the same bounds; the target a class or a number."""
    columns = [pl.Column(f"x{place}", "numeric", "feature", low, high)
               for place in range(X.shape[1])]
    labels = tuple(str(one) for one in np.unique(y)) if target is None else ()
    columns.append(pl.Column("y", "numeric", "target", *target) if target else
                   pl.Column("y", "categorical", "target", categories=labels))
    return (pl.Schema(name, tuple(columns)), np.clip(X, low, high).astype(float),
            np.clip(y, *target) if target else np.array([str(one) for one in y]))


def made_up(kind: str, rng: np.random.Generator) -> Table:
    """By scikit-learn's generators, and by coins."""
    from sklearn.datasets import (
        load_breast_cancer,
        load_digits,
        make_classification,
        make_friedman1,
        make_regression,
    )

    normal = rng.normal
    if kind == "wide, breast cancer":
        found = load_breast_cancer()
        size = np.quantile(found.data, 0.9, axis=0)  # units of a scanner: one for each column
        return table(kind, found.data / size, found.target, 0.0, 4.0)
    if kind == "wide, 100 columns":
        X, y = make_classification(ROWS, 100, n_informative=20, n_redundant=20, n_classes=3,
                                   class_sep=2.0, random_state=1)
        return table(kind, X, y, -20.0, 20.0)
    if kind == "wide, a number":
        X, y = make_regression(ROWS, 60, n_informative=15, noise=40.0, random_state=2)
        return table(kind, X, y, -5.0, 5.0, (-1000.0, 1000.0))
    if kind == "images, digits":
        return table(kind, *load_digits(return_X_y=True), 0.0, 16.0)
    if kind == "images, shifted":
        masks = normal(size=(6, 12, 12)) + normal(size=(6, 1, 12)) + normal(size=(6, 12, 1))
        y = rng.integers(0, 6, ROWS)
        moves = rng.integers(0, 3, (2, ROWS))
        X = np.array([mask[a:a + 10, b:b + 10] for mask, a, b in zip(
            masks[y], *moves, strict=True)])
        return table(kind, 128 + 40 * (X.reshape(ROWS, -1) + 1.5 * normal(size=(ROWS, 100))), y,
                     0.0, 255.0)
    if kind == "images, even or odd":
        X, y = load_digits(return_X_y=True)
        return table(kind, X, y % 2, 0.0, 16.0)
    if kind == "counts, words":
        topics = rng.dirichlet(np.full(60, 0.3), 4)
        y = rng.integers(0, 4, ROWS)
        mixed = 0.5 * topics[y] + 0.5 * rng.dirichlet(np.full(60, 0.3), ROWS)
        X = np.array([rng.multinomial(many, one) for many, one in zip(
            rng.poisson(60, ROWS) + 5, mixed, strict=True)])
        return table(kind, X, y, 0.0, 1000.0)
    if kind == "counts, events":
        X = rng.negative_binomial(1, 1 / (1 + np.exp(normal(1.5, 0.7, 12))), (ROWS, 12))
        score = np.log1p(X) @ normal(size=12)
        return table(kind, X, score + normal(size=ROWS) > np.median(score), 0.0, 10000.0)
    if kind == "counts, a number":
        X = rng.poisson(np.exp(normal(1.0, 0.5, 10)), (ROWS, 10))
        score = np.log1p(X) @ normal(size=10)
        y = rng.poisson(np.exp(1.5 + 0.8 * (score - score.mean()) / score.std()))
        return table(kind, X, y, 0.0, 100.0, (0.0, 200.0))
    if kind.startswith("rare"):
        many = 12 if "plane" in kind else 10
        X = normal(size=(2 * ROWS, many))
        if "boxes" in kind:
            X = rng.uniform(-3, 3, X.shape)
            score = (X[:, 0] > 0.5) * 2.0 + (np.abs(X[:, 1]) > 1) * 2.0 + X[:, 2]
        else:
            score = X @ normal(size=many)
        score = score + normal(size=len(X)) * score.std() * 0.5
        share = 0.05 if "boxes" in kind else 0.02
        return table(kind, X, score > np.quantile(score, 1 - share), -10.0, 10.0)
    if kind == "heavy, lognormal":
        Z = normal(size=(ROWS, 14))
        score = Z @ normal(size=14) + np.abs(Z[:, 0])
        return table(kind, np.exp(1.5 * Z + 4), score > 0, 0.0, 1e6)
    if kind == "heavy, pareto":
        X = rng.pareto(1.2, (ROWS, 10)) * 10
        score = np.log1p(X) @ normal(size=10) + normal(size=ROWS)
        return table(kind, X, np.digitize(score, np.quantile(score, [0.4, 0.8])), 0.0, 1e7)
    assert kind == "heavy, a number"
    X, y = make_friedman1(ROWS, 10, noise=1.0, random_state=5)
    return table(kind, X, y - 14 + 2 * rng.standard_t(2, ROWS), 0.0, 1.0, (-100.0, 100.0))


KINDS = ("wide, breast cancer", "wide, 100 columns", "wide, a number", "images, digits",
         "images, shifted", "images, even or odd", "counts, words", "counts, events",
         "counts, a number", "rare, plane", "rare, boxes", "heavy, lognormal", "heavy, pareto",
         "heavy, a number")
SETS: dict[str, Callable[[], Table]] = {
    kind: (lambda kind=kind: made_up(kind, np.random.default_rng(7))) for kind in KINDS}
