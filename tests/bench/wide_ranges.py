"""S-GBDT where public bounds of numeric features are far too wide: ranges public, or bought.

    OMP_NUM_THREADS=1 python tests/bench/wide_ranges.py --data DIR --sets abalone banknote

Bounds are moved out to a hundred times the range. Three quarters of the rows learn.
"""

from __future__ import annotations

import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from measure import asked, table
from privledger_learners import SGBDTClassifier, SGBDTRegressor

import privledger as pl
from learners import DELTA, load

FACTOR = 100
SIDES: dict[str, tuple[bool, dict[str, Any]]] = {
    "public bounds": (False, {}), "the same, bought": (False, {"ranges": "bought"}),
    "100 x": (True, {}), "100 x, bought": (True, {"ranges": "bought"}),
    "100 x, 65,534 bins": (True, {"numeric_bins": 65534})}


def widened(schema: pl.Schema) -> pl.Schema:
    """Every numeric feature's bounds, `FACTOR` times as far apart."""
    def wide(column: pl.Column) -> pl.Column:
        if column.role != "feature" or column.kind != "numeric":
            return column
        more = (FACTOR - 1) * (column.upper - column.lower)
        return evolve(column, lower=column.lower - 0.3 * more, upper=column.upper + 0.7 * more,
                      integer=False)
    return evolve(schema, columns=tuple(wide(column) for column in schema.columns))


def score(folder: Path, name: str, side: str, epsilon: float, seed: int) -> float:
    """Accuracy or R2 on a quarter of the rows."""
    schema, X, y = load(folder, name)
    too_wide, options = SIDES[side]
    kind = SGBDTRegressor if schema.task == "regression" else SGBDTClassifier
    order, target = np.random.default_rng(seed).permutation(len(X)), np.asarray(y)
    test, train = np.split(order, [len(X) // 4])
    model = kind(epsilon, DELTA, widened(schema) if too_wide else schema, unaccounted=True,
                 random_state=seed, **options).fit(X.iloc[train], target[train])
    return float(model.score(X.iloc[test], target[test]))


def main() -> None:
    given = asked(__doc__, data=(Path,), sets=["abalone", "banknote", "bank"], epsilon=1.0, seeds=4)
    warnings.simplefilter("ignore")
    rows = []
    for name in given.sets:
        found = [[score(given.data, name, side, given.epsilon, seed)
                  for seed in range(given.seeds)] for side in SIDES]
        rows.append([name, *(f"{statistics.mean(one):.3f} ± "
                             f"{statistics.stdev(one) / len(one) ** 0.5:.3f}" for one in found)])
    print(table(["set", *SIDES], rows))


if __name__ == "__main__":
    main()
