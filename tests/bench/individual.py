"""Where individual accounting pays: two learners, one cap per record."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from measure import table
from privledger_learners import SGBDTRegressor

import privledger as pl

EPSILON, DELTA = 0.5, 1e-6


def schemas(schema: pl.Schema) -> tuple[pl.Schema, pl.Schema]:
    """A: rings from everything. B: shucked weight from size and sex."""
    columns = {("rings" if c.role == "target" else c.name): c for c in schema.columns}
    a = [evolve(c, name=name, role="target" if name == "rings" else "feature")
         for name, c in columns.items()]
    left_out = ("rings", "whole_weight", "viscera_weight", "shell_weight")
    b = [evolve(c, name=name, role="target" if name == "shucked_weight" else "feature")
         for name, c in columns.items() if name not in left_out]
    return pl.Schema("rings", a), pl.Schema("shucked weight", b)


def fit_pair(table_: Any, pair: tuple[pl.Schema, pl.Schema], share_a: float, share_b: float,
             seed: int) -> tuple[float, float]:
    """Test R2 of A and B when each reserves a share of one scope's cap; B goes first."""
    order = np.random.default_rng(seed).permutation(len(table_))
    test, train = order[: len(table_) // 5], order[len(table_) // 5 :]
    mu = 1 / pl.calibrate(pl.Gaussian, EPSILON, DELTA)
    ledger = pl.Ledger.create(None, budget=pl.Budget(EPSILON, DELTA), filter="gdp")
    scope = ledger.open_scope(pl.IndividualFilter("gdp", mu * mu * (1 - 1e-9)))
    found = []
    for schema, share in ((pair[1], share_b), (pair[0], share_a)):
        target = schema.target.name
        # One identity: the same people in the same order, so one budget each.
        data = ledger.protect(table_.iloc[train], table_[target].iloc[train], schema, name="people")
        own = pl.epsilon(pl.Gaussian(1 / (mu * math.sqrt(share))), DELTA)
        model = SGBDTRegressor(epsilon=own, delta=DELTA, schema=schema, scope=scope, rollover=True)
        model.fit(data)
        found.append(model.score(table_.iloc[test], table_[target].iloc[test]))
    return found[1], found[0]


def stream(X: Any, y: Any, schema: pl.Schema, runs: int) -> str:
    """Half of the records arrive late: early data alone, a stream, and everything at once."""
    found: dict[str, list[float]] = {"early records only": [], "stream, late records with their "
                                     "own budget": [], "everything at once": []}
    options = {"epsilon": 0.54, "delta": 5e-8, "schema": schema}
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(X))
        test, train = order[: len(X) // 5], order[len(X) // 5 :]
        early, late = train[: len(train) // 2], train[len(train) // 2 :]
        alone = SGBDTRegressor(**options).fit(X.iloc[early], y.iloc[early])
        both = SGBDTRegressor(**options).partial_fit(X.iloc[early], y.iloc[early])
        both.partial_fit(X.iloc[late], y.iloc[late])
        whole = SGBDTRegressor(**options).fit(X.iloc[train], y.iloc[train])
        for name, model in zip(found, (alone, both, whole), strict=True):
            found[name].append(model.score(X.iloc[test], y.iloc[test]))
    rows = [[name, _mean(values)] for name, values in found.items()]
    return ("Late arrivals, Abalone at epsilon .54, delta 5e-8 per record "
            f"({runs} random splits, mean ± standard error):\n\n"
            + table(["what was trained on", "R2"], rows))


def report(arguments: Any) -> str:
    folder = Path(arguments.data)
    schema = pl.Schema.load(folder / "abalone" / "schema.json")
    X, y = pl.read_table(folder / "abalone" / "abalone.csv.gz", schema)
    table_ = X.assign(rings=y)
    pair = schemas(schema)
    rows = []
    runs = 50 * arguments.seeds
    base: list[tuple[float, float]] = []
    for name, a, b in (
        ("fixed split .5 / .5", 0.5, 0.5), ("fixed split .6 / .4", 0.6, 0.4),
        ("fixed split .75 / .25", 0.75, 0.25),
        ("one cap per record, A reserves .75", 0.75, 0.5),
        ("one cap per record, A reserves all", 1.0, 0.5)):
        found = [fit_pair(table_, pair, a, b, seed) for seed in range(runs)]
        base = base or found
        rows.append([name, *(_mean(values) for values in zip(*found, strict=True)),
                     *(_mean([new[k] - old[k] for new, old in zip(found, base, strict=True)])
                       for k in (0, 1))])
    return (
        "## Where individual accounting pays\n\nTwo learners on the same Abalone records under "
        f"one cap of epsilon {EPSILON}, delta {DELTA:g} per record ({runs} random splits, mean ± "
        "standard error; differences are paired by split). B goes first with half of the cap; what "
        "a record did not use stays "
        "for A, which may then reserve more than the other half.\n\n"
        + table(["shares", "A: rings, R2", "B: shucked weight, R2", "A against the first row",
                   "B against the first row"], rows)
        + "\n\n" + stream(X, y, schema, 10 * arguments.seeds))


def _mean(values: Any) -> str:
    values = list(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.4f} ± {error:.4f}"
