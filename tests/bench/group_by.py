"""A mean by group of a million rows, ours beside polars and as much noise: CPU time.

    OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 python tests/bench/group_by.py [--rows 1000000]

Both have the table in memory, 50 groups, and clip the values; ours has a durable grant, exact noise
and intervals besides. The median of several asks, in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import polars

import privledger as pl

GROUPS, HIGH = 50, 200_000.0


def asks(rows: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Ours, and polars with noise."""
    words = np.random.default_rng(0)
    names = [f"group {one}" for one in range(GROUPS)]
    frame = polars.DataFrame({"pay": words.lognormal(10, 0.6, rows), "group": polars.Series(
        [names[one] for one in words.integers(0, GROUPS, rows)], dtype=polars.Categorical)})
    schema = pl.Schema("pay", (pl.Column("pay", "numeric", lower=0.0, upper=HIGH),
                               pl.Column("group", "categorical", categories=tuple(names))))
    data = pl.Ledger.create(None, budget=pl.Budget(1e9)).protect(frame, schema=schema)
    question = pl.summary(pl.mean("pay"), by=["group"])

    def theirs() -> object:
        found = frame.group_by("group").agg(polars.col("pay").clip(0.0, HIGH).sum(), polars.len())
        sums, counts = found["pay"].to_numpy(), found["len"].to_numpy()
        return (sums + words.laplace(0, HIGH, len(found))) / (
            counts + words.laplace(0, 1, len(found)))

    return lambda: data.ask(question, epsilon=1.0), theirs


def seconds(rows: int, times: int = 15) -> tuple[float, float]:
    """CPU time of one ask of either, the median."""
    both, found = asks(rows), []
    for _ in range(times):
        marks = [time.process_time()]
        for ask in both:
            ask()
            marks.append(time.process_time())
        found.append(np.diff(marks))
    ours, theirs = np.median(found, axis=0)
    return float(ours), float(theirs)


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--rows", type=int, default=1_000_000)
    ours, theirs = seconds(words.parse_args().rows)
    print(f"ours {1000 * ours:.1f} ms, polars and noise {1000 * theirs:.1f} ms, "
          f"{ours / theirs:.2f} times")
