"""A rare class: AUC and balanced accuracy of S-GBDT with and without weights of classes.

    OMP_NUM_THREADS=1 python tests/bench/rare_class.py --data DIR --sets adult bank

Positives are thinned to a share, three quarters learn, all of it again for every split.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import asked
from privledger_learners import SGBDTClassifier
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from learners import DELTA, load

SIDES: dict[str, dict[str, Any]] = {"defaults": {}, "balanced": {"class_weight": "balanced"}}


def thinned(y: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Rows to learn from, rows to score on, and the rare one of two labels."""
    rng = np.random.default_rng(seed)
    labels, counts = np.unique(y, return_counts=True)
    rare = labels[counts.argmin()]
    others = np.flatnonzero(y != rare)
    kept = rng.permutation(np.flatnonzero(y == rare))[: round(share * len(others) / (1 - share))]
    rows = rng.permutation(np.concatenate([kept, others]))
    return *np.split(rows, [int(0.75 * len(rows))]), rare


def main() -> None:
    told = asked(__doc__, data=(Path,), sets=["adult", "credit_default", "bank"],
                 epsilons=[0.3, 1.0], share=0.05, seeds=4)
    warnings.simplefilter("ignore")
    for name in told.sets:
        schema, X, y = load(told.data, name)
        y = np.asarray(y)
        for epsilon in told.epsilons:
            found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
            for seed in range(told.seeds):
                train, test, rare = thinned(y, told.share, seed)
                for side, options in SIDES.items():
                    model = SGBDTClassifier(epsilon, DELTA, schema, random_state=seed,
                                            unaccounted=True, **options)
                    model.fit(X.iloc[train], y[train])
                    shares = model.predict_proba(X.iloc[test])
                    place = model.classes_.tolist().index(rare)
                    found[side].append((
                        float(roc_auc_score(y[test] == rare, shares[:, place])),
                        float(balanced_accuracy_score(y[test], model.predict(X.iloc[test])))))
            for side, each in found.items():
                area, even = np.mean(each, axis=0)
                print(f"| {name} | {epsilon:g} | {side} | {area:.3f} | {even:.3f} |", flush=True)


if __name__ == "__main__":
    main()
