"""Many owners in one process, with whole or shared noise, beside one table of Abalone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import table
from privledger_learners import SGBDTRegressor
from sklearn.model_selection import train_test_split

import privledger as pl
from learners import DELTA, load
from privledger.federation import (
    Direct,
    Federation,
    InProcess,
    Owner,
    Party,
    Run,
    new_key,
    public_key,
)

EPSILON = 0.54


class Counting(Direct):
    """A line that counts bytes, and its owner's processor seconds."""

    def __init__(self, party: Party) -> None:
        self.inner = InProcess(party)
        self.down, self.up, self.seconds = 0, 0, 0.0

    def ask(self, message: Any) -> Any:
        start = time.process_time()
        reply = self.inner.ask(message)
        self.seconds += time.process_time() - start
        self.down += len(json.dumps(message))
        self.up += len(json.dumps(reply))
        return reply


def model(schema: pl.Schema, seed: int) -> SGBDTRegressor:
    return SGBDTRegressor(epsilon=EPSILON, delta=DELTA, schema=schema, random_state=seed)


def fit(schema: pl.Schema, X: Any, y: Any, k: int, seed: int,
        noise: str) -> tuple[Any, list[Counting]]:
    """A model of k owners with equal parts of the rows."""
    keys = [new_key() for _ in range(k)]
    roster = tuple(Owner(f"owner {i}", public_key(key)) for i, key in enumerate(keys))
    run = Run.of(f"run {seed}", roster, schema, model(schema, seed).plan(schema), delta=DELTA,
                 learner="sgbdt-regressor", noise=noise, colluding=int(noise == "shared"))
    budget = pl.Budget(EPSILON, DELTA)
    lines = {}
    for i, key in enumerate(keys):
        rows = slice(len(y) * i // k, len(y) * (i + 1) // k)
        data = pl.Ledger.create(None, budget=budget).protect(X.iloc[rows], y.iloc[rows], schema)
        lines[roster[i].name] = Counting(Party(run, roster[i].name, data, key))
    federation = Federation(run, schema, lines, budget)
    return model(schema, seed).fit(federation.data), list(lines.values())


def beside(data: Path, noise: str, fits: int, owners: tuple[int, ...]) -> str:
    """A table: what the owners' model scores, and what one table's does on the same splits."""
    schema, X, y = load(data, "abalone")
    rows = []
    for k in owners:
        gaps, scores, lines = [], [], []
        for seed in range(fits):
            train, test, known, told = train_test_split(X, y, test_size=0.2, random_state=seed)
            central = model(schema, seed).fit(train, known).score(test, told)
            found, lines = fit(schema, train, known, k, seed, noise)
            scores.append(found.score(test, told))
            gaps.append(scores[-1] - central)
        rows.append([k, f"{np.mean(scores):.3f}", f"{np.mean(gaps):+.3f} ± {np.std(gaps):.3f}",
                     f"{np.mean([one.seconds for one in lines]):.2f}",
                     f"{max(one.down for one in lines) / 1e6:.2f}",
                     f"{max(one.up for one in lines) / 1e6:.2f}"])
    return table(["owners", "R2", "R2 less that of one table, paired, with standard deviation",
                  "CPU s an owner", "MB down", "MB up"], rows)
