"""1,000 questions of a dashboard under one budget: each paid for, and with kept answers."""

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


def report(_: object = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        rows = [run(keep, folder) for keep in (False, True)]
    return (f"## Kept answers\n\n{ASKED:,} questions (sums of {DISTINCT - 1} columns and one "
            f"histogram; popular ones often, by a fixed seed) on {ROWS:,} rows, epsilon 1 at delta "
            f"1e-6, `gdp`, noise {NOISE.noise_multiplier:g} for each. A kept answer is given out "
            "again at no cost ([proof](proofs/recall.md)).\n\n"
            + table(["", f"answered of {ASKED:,}", "paid for", "epsilon spent",
                     "CPU ms of a recalled one", "verify clean"], rows)
            + f"\n\nThe gain depends on repetition: here there are {DISTINCT} different questions. "
            "Among questions that all differ there is none.")
