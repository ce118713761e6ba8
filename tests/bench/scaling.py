"""How a fit grows with rows and trees."""

from __future__ import annotations

import time

import numpy as np
from measure import peak_megabytes, table
from privledger_learners import SGBDTRegressor

import privledger as pl

FEATURES = 6


def one(n: int, trees: int) -> float:
    rng = np.random.default_rng(0)
    X = {f"x{k}": rng.random(n) for k in range(FEATURES)}
    y = np.clip(X["x0"] * 0.5 + X["x1"] ** 2 * 0.3 + rng.normal(size=n) * 0.1, -1, 2)
    columns = [pl.Column(f"x{k}", "numeric", "feature", 0, 1) for k in range(FEATURES)]
    schema = pl.Schema("scaling", (*columns, pl.Column("y", "numeric", "target", -1, 2)))
    start = time.perf_counter()
    SGBDTRegressor(epsilon=1.0, delta=1e-8, schema=schema, n_trees=trees).fit(X, y)
    return time.perf_counter() - start


def report(_: object = None) -> str:
    rows = []
    for n in (10**4, 10**5, 10**6, 10**7):
        half, full = one(n, 50), one(n, 100)
        rows.append([f"{n:,}", f"{half:.3g}", f"{full:.3g}", f"{full / n * 1e6:.3g}",
                     f"{peak_megabytes():.0f}"])
    return ("## Growth with rows and trees\n\nS-GBDT, six numeric features, ledger and encoding "
            "included; memory is the peak of the process so far.\n\n"
            + table(["rows", "50 trees, s", "100 trees, s", "us per row (100 trees)", "MB"], rows))
