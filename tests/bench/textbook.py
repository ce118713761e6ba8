"""Learners of sums beside diffprivlib's on the same columns; the table of docs/papers/sums.md.

    OMP_NUM_THREADS=1 python tests/bench/textbook.py --data DIR --python PYTHON

PYTHON is one that has diffprivlib (0.6.6: with scikit-learn below 1.5). Both
see columns scaled to [-1, 1] by the public bounds. Ours spend delta 1e-6, diffprivlib's are of pure
epsilon: it offers nothing else for these. Its components did not end on letter, of 16 columns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import asked

HERE = Path(__file__).resolve().parent
ROWS = (("naive Bayes", "adult"), ("naive Bayes", "banknote"), ("naive Bayes", "letter"),
        ("least squares", "abalone"), ("least squares", "parkinsons_telemonitoring"),
        ("k-means", "adult"), ("k-means", "letter"), ("components", "adult"),
        ("components", "banknote"))
TOLD = {"naive Bayes": "accuracy", "least squares": "R2", "k-means": "share of the spread within "
        "8 clusters, less is better", "components": "share of the variance along 3"}
EPSILONS, SEEDS = (0.3, 1.0, 3.0), 3


def peer(learner: str, X: np.ndarray, y: np.ndarray, epsilon: float) -> Any:
    """A fitted learner of diffprivlib."""
    from diffprivlib import models

    many, bounds = X.shape[1], (-np.ones(X.shape[1]), np.ones(X.shape[1]))
    if learner == "naive Bayes":
        return models.GaussianNB(epsilon=epsilon, bounds=bounds).fit(X, y)
    if learner == "least squares":
        return models.LinearRegression(epsilon=epsilon, bounds_X=bounds,
                                       bounds_y=(-1.0, 1.0)).fit(X, y)
    if learner == "k-means":
        return models.KMeans(8, epsilon=epsilon, bounds=bounds).fit(X)
    return models.PCA(3, epsilon=epsilon, bounds=bounds, data_norm=many**0.5).fit(X)


def ours(learner: str, X: np.ndarray, y: np.ndarray, epsilon: float) -> Any:
    """One of privledger's."""
    import privledger_learners as learners

    import privledger as pl

    target = {"naive Bayes": [pl.Column("y", "categorical", "target", categories=tuple(
        np.unique(y).tolist()))], "least squares": [pl.Column("y", "numeric", "target", -1, 1)]}
    schema = pl.Schema("scaled", (*(pl.Column(f"x{place}", "numeric", "feature", -1, 1)
                                    for place in range(X.shape[1])), *target.get(learner, [])))
    kind, more = {"naive Bayes": (learners.NaiveBayesClassifier, {}),
                  "least squares": (learners.LeastSquaresRegressor, {}),
                  "k-means": (learners.PrivateKMeans, {"n_clusters": 8}),
                  "components": (learners.PrivatePCA, {"n_components": 3})}[learner]
    return kind(epsilon=epsilon, delta=1e-6, schema=schema, unaccounted=True, **more).fit(
        X, y if target.get(learner) else None)


def scored(learner: str, model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """On other rows."""
    around = np.square(X - X.mean(axis=0)).sum()
    if learner == "naive Bayes":
        return float((np.asarray(model.predict(X)) == y).mean())
    if learner == "least squares":
        found = np.clip(model.predict(X), -1, 1)
        return 1 - float(np.square(y - found).mean() / y.var())
    if learner == "k-means":
        centers = model.cluster_centers_
        return float(np.square(X[:, None] - centers).sum(axis=2).min(axis=1).sum() / around)
    return float(np.square((X - X.mean(axis=0)) @ model.components_.T).sum() / around)


def measured(fit: Any, path: Path) -> list[float]:
    """Every row of the table at every epsilon: mean score over splits, and CPU seconds of a fit."""
    found = []
    for place, (learner, _) in enumerate(ROWS):
        with np.load(path / f"{place}.npz") as held:
            X, y = held["X"], held["y"]
        for epsilon in EPSILONS:
            scores, seconds = [], 0.0
            for seed in range(SEEDS):
                order = np.random.default_rng(seed).permutation(len(X))
                test, train = order[: len(X) // 4], order[len(X) // 4:]
                began = time.process_time()
                model = fit(learner, X[train], y[train], epsilon)
                seconds += (time.process_time() - began) / SEEDS
                scores.append(scored(learner, model, X[test], y[test]))
            found.append((float(np.mean(scores)), seconds))
            print(learner, epsilon, found[-1], file=sys.stderr, flush=True)
    return found


def not_private(learner: str, X: np.ndarray, y: np.ndarray, epsilon: float) -> Any:
    """scikit-learn's, without noise."""
    from sklearn import cluster, decomposition, linear_model, naive_bayes

    return {"naive Bayes": naive_bayes.GaussianNB(), "least squares":
            linear_model.LinearRegression(), "k-means": cluster.KMeans(8, n_init=3),
            "components": decomposition.PCA(3)}[learner].fit(X, y)


def prepare(data: Path, path: Path) -> None:
    """Scaled numeric columns and targets, as arrays that every side reads."""
    from auto import load
    from privledger_learners.boosting.sum_of_trees import scaling
    from privledger_learners.released_sums import scaled_numbers

    for place, (_, name) in enumerate(ROWS):
        schema, X, y = load(data, name)
        numbers = np.nan_to_num(scaled_numbers(X, schema), nan=0.0)
        middle, half = scaling(schema)
        number = schema.task == "regression"
        np.savez(path / f"{place}.npz", X=numbers, y=(y.astype(float) - middle) / half if number
                 else y.astype(str))


def table(sides: list[list[float]]) -> str:
    """Markdown."""
    lines = ["| learner | set | told | not private | epsilon | privledger | diffprivlib "
             "| CPU s, ours | theirs |", "|---|---|---|---|---|---|---|---|---|"]
    place = 0
    for learner, name in ROWS:
        for epsilon in EPSILONS:
            mine, theirs, plain = (side[place] for side in sides)
            lines.append(f"| {learner} | {name} | {TOLD[learner]} | {plain[0]:.3f} | {epsilon:g} | "
                         f"{mine[0]:.3f} | {theirs[0]:.3f} | {mine[1]:.3f} | {theirs[1]:.3f} |")
            place += 1
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    arguments = asked(__doc__, data=Path, python=str, peer=Path)
    if arguments.peer:
        print(json.dumps(measured(peer, arguments.peer)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(arguments.data, folder)
        said = subprocess.run([arguments.python, __file__, "--peer", name], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        sides = [measured(ours, folder), json.loads(said), measured(not_private, folder)]
    sys.path.append(str(HERE.parents[1]))
    from tests.made_pages import blocks_of, keep, measured_parts, renew

    keep(measured_parts() | {"Learners of sums beside diffprivlib": blocks_of(table(sides))})
    renew()
    print(table(sides), file=sys.stderr)


if __name__ == "__main__":
    main()
