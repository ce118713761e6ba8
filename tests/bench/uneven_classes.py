"""DP-SIS where classes differ in size: what ten features chosen by each score tell of the class.

    OMP_NUM_THREADS=1 python tests/bench/uneven_classes.py --data DIR --sets Alon Khan

Balanced accuracy of a logistic regression on the chosen features, threefold; simulated noise.
"""

from __future__ import annotations

import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import asked, table
from privledger_learners import DPSIS
from privledger_papers.tasks import load
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SETS = ("Alon", "Golub", "Christensen", "Gravier", "Khan", "Singh", "Sorlie")
SIDES: dict[str, dict[str, Any]] = {"agreement": {}, "balanced": {"class_weight": "balanced"},
                                    "rank": {"scores": "rank"}}


def told(X: np.ndarray, y: np.ndarray) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return float(cross_val_score(model, X, y, cv=3, scoring="balanced_accuracy").mean())


def main() -> None:
    given = asked(__doc__, data=(Path,), sets=list(SETS), epsilons=[500.0, 20.0, 5.0], seeds=4)
    warnings.simplefilter("ignore")
    rows = []
    for name in given.sets:
        held = load("002", name, given.data)
        X, y = np.asarray(held.X, dtype=float), np.asarray(held.y).astype(str)
        for epsilon in given.epsilons:
            found = []
            for options in SIDES.values():
                models = [DPSIS(epsilon, schema=held.schema, k=10, mode="simulation",
                                random_state=seed, unaccounted=True, **options)
                          for seed in range(given.seeds)]
                found.append(statistics.mean(told(X[:, model.fit(held.X, held.y).selected_], y)
                                             for model in models))
            rows.append([name, f"{epsilon:g}", *(f"{one:.2f}" for one in found)])
    print(table(["set", "epsilon", *SIDES], rows))


if __name__ == "__main__":
    main()
