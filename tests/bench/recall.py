"""1,000 questions of a dashboard under one budget: each paid for, and with kept answers.

    OMP_NUM_THREADS=1 python tests/bench/recall.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import table

import privledger as pl

ASKED, DISTINCT, ROWS = 1000, 50, 10_000
NOISE = pl.Gaussian(36.0)
SCHEMA = pl.Schema("visits", (
    *(pl.Column(f"x{i}", "numeric", "feature", 0.0, 1.0) for i in range(DISTINCT - 1)),
    pl.Column("region", "categorical", "feature", categories=("n", "e", "s", "w"))))


def questions(data: pl.Dataset) -> Iterator[object]:
    """Popular ones often, rare ones seldom: place k with a chance in proportion to 1/k."""
    chances = 1 / np.arange(1, DISTINCT + 1)
    for place in np.random.default_rng(1).choice(DISTINCT, ASKED, p=chances / chances.sum()):
        yield data.histogram("region") if place == 0 else data.sum(f"x{place - 1}")


def run(keep: bool, folder: str) -> list[str]:
    """One row of the table."""
    numbers = np.random.default_rng(0).random((ROWS, DISTINCT - 1))
    rows = {f"x{i}": numbers[:, i] for i in range(DISTINCT - 1)}
    rows["region"] = np.random.default_rng(2).choice(["n", "e", "s", "w"], ROWS)
    with pl.Ledger.create(Path(folder) / f"{keep}.ledger", budget=pl.Budget(1.0, 1e-6),
                          filter="gdp") as ledger:
        data = ledger.protect(rows, SCHEMA)
        answered, paid, seconds = 0, 0, list[float]()
        for query in questions(data):
            start = time.process_time()
            try:
                found = ledger.answer(NOISE, query, keep=keep)
            except pl.BudgetExceeded:
                continue
            answered, paid = answered + 1, paid + (not found.recalled)
            if found.recalled:
                seconds.append(time.process_time() - start)
        cost = f"{1e3 * statistics.median(seconds):.2g}" if seconds else "none"
        return ["kept answers" if keep else "each paid for", str(answered), str(paid),
                f"{ledger.spent:.3f}", cost, str(ledger.verify() == [])]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(table(["", "answered of 1,000", "paid for", "epsilon spent",
                     "CPU ms of a recalled one", "verify clean"],
                    [run(keep, folder) for keep in (False, True)]))
