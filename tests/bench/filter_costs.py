"""What the plan of each kind of learner costs in a new ledger of each filter, and what auto takes.

    python tests/bench/filter_costs.py    (renews the table of docs/concepts.md)
"""

from __future__ import annotations

import math
import sys
from inspect import signature
from pathlib import Path

from attrs import evolve
from measure import keep_part, table

import privledger as pl
from privledger.ledger import Budget, booked_by_filters
from privledger.reports.pricing import rule_for

EPSILON, BUDGET, ROWS = 0.5, Budget(1.0, 1e-6), 5_000
LEARNERS = {
    "S-GBDT, linear models, sums": ("sgbdt-classifier", {}),
    "linear models on samples of .01": ("linear-classifier", {"sampling_rate": 0.01}),
    "DPBoost": ("dpboost-classifier", {}),
    "DP-RF": ("dp-rf-classifier", {}),
    "median and max trees": ("max-tree-classifier", {}),
    "private ensembles": ("private-ensemble-classifier", {}),
    "joint trees, DiPriMe": ("joint-tree-classifier", {}),
    "multinomial forests": ("multinomial-forest-classifier", {}),
    "extremely random trees": ("dp-ert-classifier", {}),
    "summaries, Laplace noise": ("summary", {"statistics": ["mean(x)", "count"], "by": ["c"]})}


def row(title: str) -> list[str]:
    """Epsilon that each filter books, and the filter that `auto` takes."""
    from tests.models.kept_learners import LEARNERS as SHIPPED

    name, options = LEARNERS[title]
    schema = evolve(SHIPPED[name][0], expected_rows=ROWS, expected_rows_provenance="declared")
    learner = pl.load_learner(name)
    if "delta" in signature(learner).parameters:
        options = {**options, "delta": BUDGET.delta}
    made = learner(epsilon=EPSILON, schema=schema, **options)
    auto = rule_for(made.plan(), BUDGET, "add_remove", "auto")
    found = dict(booked_by_filters(made.plan(), made.delta, BUDGET, "add_remove", auto))
    return [title, *(f"{math.ceil(1e3 * found[kind]) / 1e3:.3f}".lstrip("0")
                     if kind in found else "-"
                     for kind in ("basic", "rdp", "zcdp", "gdp")), f"`{auto.kind}`"]


def report(_: object = None) -> str:
    """The table."""
    return "## Plans under each filter\n\n" + table(
        ["Learner", "`basic`", "`rdp`", "`zcdp`", "`gdp`", "`auto` takes"],
        [row(title) for title in LEARNERS])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    keep_part("Plans under each filter", report().partition("\n\n")[2])
