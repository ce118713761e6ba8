"""Error of five questions about adult, each at a fifth of epsilon, and of all in one summary.

    OMP_NUM_THREADS=1 PRIVLEDGER_DATA=DIRECTORY python tests/bench/summaries.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from measure import table

import privledger as pl

RUNS = 50
AGES = list(range(20, 75, 5))


def error(data: pl.Dataset, questions: list[object], epsilon: float, truth: dict[str, float],
          runs: int = RUNS) -> dict[str, float]:
    """Root mean square error by statistic, over groups, cells and runs."""
    squares: dict[str, list[float]] = {}
    for _ in range(runs):
        for question in questions:
            answer = data.ask(question, epsilon=epsilon / len(questions))
            for row in (one for one in answer.held if None not in one.group):
                key = f"{row.group}{row.statistic}{row.cell}"
                squares.setdefault(row.statistic, []).append((row.value - truth[key])**2)
    return {name: float(np.sqrt(np.mean(found))) for name, found in squares.items()}


def main() -> None:
    """One table for each epsilon."""
    folder = Path(os.environ["PRIVLEDGER_DATA"]) / "adult"
    schema = pl.Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    X, y = pl.read_table(folder / "adult.csv.gz", schema)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9))
    data = ledger.protect(X, y, schema)
    asked = [pl.summary(pl.count()), pl.summary(pl.mean("age"), by=["sex"]),
             pl.summary(pl.median("hours_per_week")), pl.summary(pl.histogram("age", AGES)),
             pl.summary(pl.crosstab("education", "sex", margins=False))]
    truth = {f"{row.group}{row.statistic}{row.cell}": row.value for question in asked
             for row in data.ask(question, epsilon=1e6).held}
    for epsilon in (0.1, 1.0):
        found = error(data, asked, epsilon, truth)
        print(f"epsilon {epsilon:g}, {RUNS} runs")
        print(table(["statistic", "RMSE"], [[name, f"{one:.3g}"] for name, one in found.items()]))


if __name__ == "__main__":
    main()
