"""S-GBDT: one changed parameter against the defaults, paired on the same splits.

    OMP_NUM_THREADS=1 python tests/bench/second_round.py --data DIR --sets abalone bank \\
        --against gradient_clip=0.4 falling_clip=False

Scores are normalised: 0 is the mean or the largest class, 1 is histogram gradient boosting without
privacy, on the same split (the gap between them counts as .02 at least). A line a set and epsilon,
and the mean of the differences over sets.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from privledger_learners import SGBDTClassifier, SGBDTRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import privledger as pl
from learners import DELTA, load

LEAST = 0.02  # what boosting is taken to gain at least: the unit of a normalised score


def reference(schema: pl.Schema, X: Any, y: Any, train: Any, test: Any) -> tuple[float, float]:
    """(trivial, not private) scores on one split."""
    columns = pl.encode_features(X, schema)
    table = np.stack([np.asarray(array, dtype=float) for array in columns.arrays], axis=1)
    regression = schema.task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    best = kind(random_state=0).fit(table[train], y[train]).score(table[test], y[test])
    if regression:
        return 0.0, best
    labels, counts = np.unique(y[train], return_counts=True)
    return float(np.mean(y[test] == labels[counts.argmax()])), best


def fitted(schema: pl.Schema, X: Any, y: Any, train: Any, epsilon: float, **options: Any) -> Any:
    """A fit of the defaults but for `options`."""
    kind = SGBDTRegressor if schema.task == "regression" else SGBDTClassifier
    model = kind(epsilon=epsilon, delta=DELTA, schema=schema, unaccounted=True, **options)
    return model.fit(X.iloc[train], y[train])


def area(model: Any, X: Any, y: np.ndarray) -> float:
    """AUC of two classes; NaN for anything else."""
    if not hasattr(model, "predict_proba") or len(model.classes_) != 2:
        return float("nan")
    return float(roc_auc_score(y == model.classes_[1], model.predict_proba(X)[:, 1]))


def compare(folder: Path, name: str, epsilon: float, seeds: int,
            sides: tuple[dict[str, Any], dict[str, Any]]) -> np.ndarray:
    """Normalised scores and AUC of both sides, shape (seeds, 2, 2)."""
    schema, X, y = load(folder, name)
    y = np.asarray(y)
    found = np.empty((seeds, 2, 2))
    for seed in range(seeds):
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed,
                                       stratify=None if schema.task == "regression" else y)
        trivial, best = reference(schema, X, y, train, test)
        for side, options in enumerate(sides):
            model = fitted(schema, X, y, train, epsilon, **options)
            score = model.score(X.iloc[test], y[test])
            found[seed, side] = ((score - trivial) / max(best - trivial, LEAST),
                                 area(model, X.iloc[test], y[test]))
    return found


def options_of(words: list[str]) -> dict[str, Any]:
    """name=value as written; a value that is no literal is a text."""
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--against", nargs="+", default=[], help="parameters of the other side")
    parser.add_argument("--given", nargs="*", default=[], help="parameters of this side")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    sides = options_of(told.against), options_of(told.given)
    gains: dict[float, list[float]] = {}
    for name in told.sets:
        for epsilon in told.epsilons:
            found = compare(told.data, name, epsilon, told.seeds, sides)
            gain = found[:, 1, 0] - found[:, 0, 0]
            gains.setdefault(epsilon, []).append(float(gain.mean()))
            error = float(gain.std(ddof=1)) / len(gain) ** 0.5 if len(gain) > 1 else float("nan")
            (before, auc), (now, auc_now) = found.mean(axis=0)
            print(f"| {name} | {epsilon:g} | {before:.3f} | {now:.3f} | {gain.mean():+.4f} ± "
                  f"{error:.4f} | {auc:.3f} | {auc_now:.3f} |", flush=True)
    for epsilon, each in gains.items():
        error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else float("nan")
        print(f"| mean of {len(each)} sets | {epsilon:g} | | | {statistics.mean(each):+.4f} ± "
              f"{error:.4f} | | |", flush=True)


if __name__ == "__main__":
    main()
