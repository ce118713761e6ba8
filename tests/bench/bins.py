"""What bought bins cost: learners that are made to buy, beside the finest public grid.

Each pair of fits has the same split.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import privledger_learners as learners
from measure import table
from privledger_learners.trees import bin_rule

import privledger as pl
from learners import load

SEEDS = 5
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "JointTree": (learners.JointTreeClassifier, {}),
    "DiPriMe, medians": (learners.DiPriMeForestClassifier, {"variant": "base"}),
    "MRF": (learners.MultinomialForestClassifier, {}),
    "DPBoost": (learners.DPBoostClassifier, {})}
GRIDS: dict[str, Mapping[str, Any]] = {
    "65,534 public": {"numeric_bins": 65534}, "1,024 public": {"numeric_bins": 1024},
    "bought": {}}


def shown(found: list[float], base: list[float]) -> str:
    change = np.subtract(found, base)
    if not change.any():
        return f"{np.mean(found):.4f}"
    return f"{np.mean(found):.4f} ({change.mean():+.4f} ± {change.std(ddof=1) / len(base)**.5:.4f})"


def line(name: str, epsilon: float, schema: pl.Schema, splits: list[Any]) -> list[object]:
    """Accuracies of one learner on the same splits, and what the fits took."""
    kind, options = KINDS[name]
    found: dict[str, list[float]] = {grid: [] for grid in GRIDS}
    took: dict[str, float] = dict.fromkeys(GRIDS, 0.0)
    for seed, (X, y, Z, t) in enumerate(splits):
        for grid, given in GRIDS.items():
            start = time.process_time()
            model = kind(epsilon=epsilon, schema=schema, mode="simulation", random_state=seed,
                         unaccounted=True, **options, **given).fit(X, y)
            took[grid] += (time.process_time() - start) / len(splits)
            found[grid].append(float(model.score(Z, t)))
    base = found["65,534 public"]
    cells: list[object] = [
        name, epsilon, *(shown(found[grid], base) for grid in GRIDS),
        " / ".join(f"{seconds:.2g}" for seconds in took.values())]
    print(*cells, sep=" | ", file=sys.stderr, flush=True)
    return cells


def kept(folder: Path, name: str) -> tuple[pl.Schema, list[Any]]:
    schema, X, y = load(folder, name)
    splits = []
    for seed in range(SEEDS):
        order = np.random.default_rng(1000 + seed).permutation(len(X))
        train, test = np.split(order, [int(0.9 * len(X))])
        splits.append((X.iloc[train], y.iloc[train], X.iloc[test], y.iloc[test]))
    return schema, splits


def generated(n: int = 200_000, d: int = 10) -> tuple[pl.Schema, list[Any]]:
    """Half the columns have bounds a hundred times too wide."""
    wide = [1000.0 if place % 2 == 0 else 1.0 for place in range(d)]
    schema = pl.Schema("made up", (
        *(pl.Column(f"x{place}", "numeric", "feature", 0.0, top)
          for place, top in enumerate(wide)),
        pl.Column("t", "categorical", "target", categories=("n", "p"))))
    splits = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n + 20_000, d))
        X = {f"x{place}": np.minimum(np.exp(z[:, place]), 1000.0) if top > 1 else
             1 / (1 + np.exp(-2 * z[:, place])) for place, top in enumerate(wide)}
        score = z[:, 0] + z[:, 1] * (z[:, 2] > 0.3) + 0.7 * np.abs(z[:, 4]) + 0.5 * (z[:, 3] > 0.2)
        y = np.where(score - 0.8 + 0.3 * rng.logistic(size=len(z)) > 0, "p", "n")
        splits.append(({name: column[:n] for name, column in X.items()}, y[:n],
                       {name: column[n:] for name, column in X.items()}, y[n:]))
    return schema, splits


def report(arguments: Any) -> str:
    heads = ["learner", "epsilon", *GRIDS, "CPU s of a fit, in that order"]
    schema, splits = generated()
    parts = ["## Bins, bought or public\n\nSimulated noise; accuracy, and its change against "
             f"65,534 public bins, paired over {SEEDS} tables or splits ± standard error. The "
             "[rule](papers/joint-tree.md#bins) leaves tables of fewer than 50,000 rows as they "
             "are: those of `data/` are made to buy. The 200,000 rows x 10 are generated, and "
             "scored on 20,000 fresh ones; half of the columns are log-normal under bounds a "
             "hundred times too wide.",
             table(heads, [line(name, epsilon, schema, splits) for name in KINDS
                           for epsilon in (0.3, 1.0)])]
    usual = bin_rule.FINE_ROWS, bin_rule.ENOUGH
    bin_rule.FINE_ROWS, bin_rule.ENOUGH = 0.0, 0.0  # made to buy
    try:
        for name in ("adult", "credit_default"):
            schema, splits = kept(Path(arguments.data), name)
            parts += [f"{name}:", table(heads, [
                line(kind, epsilon, schema, splits) for kind in KINDS for epsilon in (1.0, 3.0)])]
    finally:
        bin_rule.FINE_ROWS, bin_rule.ENOUGH = usual
    return "\n\n".join(parts)
