"""Errors of tmlt.analytics on four questions of `summaries.py`, each at a fifth of epsilon.

    PYSPARK_PYTHON=PYTHON PYTHON tests/bench/tumult.py DIRECTORY [--seconds 240]

PYTHON has tmlt.analytics and Java, and is no environment of ours; DIRECTORY holds adult. A question
takes seconds there, so the runs are few. docs/ask-a-table.md has the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from pathlib import Path


def main() -> None:
    """Print the root mean square error of each question, and of how many answers it is."""
    asked = argparse.ArgumentParser()
    asked.add_argument("directory", type=Path)
    asked.add_argument("--seconds", type=float, default=240.0)
    chosen = asked.parse_args()
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

    schema = json.loads((chosen.directory / "schema.json").read_text())
    bounds = {one["name"]: (int(one["lower"]), int(one["upper"])) for one in schema["columns"]
              if one["kind"] == "numeric"}
    frame = pd.read_csv(chosen.directory / "adult.csv.gz")[["age", "sex", "hours_per_week"]]
    spark = SparkSession.builder.master("local[1]").config(
        "spark.sql.shuffle.partitions", "1").getOrCreate()
    session = Session.from_dataframe(PureDPBudget(float("inf")), "t", spark.createDataFrame(frame),
                                     protected_change=AddOneRow())
    keys = KeySet.from_dict({"sex": sorted(frame.sex.unique())})
    hours, half = frame.hours_per_week, len(frame) / 2
    questions = {
        "count": (QueryBuilder("t").count(), lambda told: [told.iloc[0, 0] - len(frame)]),
        "sum": (QueryBuilder("t").sum("age", *bounds["age"]),
                lambda told: [told.iloc[0, 0] - frame.age.sum()]),
        "mean": (QueryBuilder("t").groupby(keys).average("age", *bounds["age"]),
                 lambda told: told.set_index("sex").iloc[:, 0] - frame.groupby("sex").age.mean()),
        "median (rows off)": (
            QueryBuilder("t").quantile("hours_per_week", 0.5, *bounds["hours_per_week"]),
            lambda told: [max(0, (hours < told.iloc[0, 0]).sum() - half,
                              half - (hours <= told.iloc[0, 0]).sum())])}
    found: dict[tuple[str, float], list[float]] = {}
    until = time.time() + chosen.seconds
    for epsilon, (name, (query, off)) in itertools.cycle(
            itertools.product((0.1, 1.0), questions.items())):
        if time.time() > until:
            break
        told = session.evaluate(query, PureDPBudget(epsilon / 5)).toPandas()
        found.setdefault((name, epsilon), []).extend(map(float, off(told)))
    for (name, epsilon), errors in found.items():
        error = math.sqrt(sum(one**2 for one in errors) / len(errors))
        print(f"{name}, epsilon {epsilon:g}: {error:.4g} of {len(errors)} answers")


if __name__ == "__main__":
    main()
