"""Trees and forests under sound accounting, beside the papers' figures."""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import cpu_times, spread, table
from privledger_learners import (
    DiPriMeForestClassifier,
    DiPriMeForestRegressor,
    JointTreeClassifier,
    JointTreeRegressor,
    MultinomialForestClassifier,
)
from privledger_papers import tasks as papers

import privledger as pl
from learners import load

NOT_SOUND = "no"
SMALL = 2000  # rows; below, five times as many splits
DIPRIME_DEPTHS = {"banknote": 3, "credit_default": 6, "wall_robot_24, two classes": 4,
                  "parkinsons_telemonitoring": 4, "appliances_energy": 6}
DIPRIME_PAPER = {  # Tables 1 and 2, mean ± half width of a 95 % interval over 10 runs
    ("banknote", "base"): "91.0 ± 1.1", ("banknote", "exp"): "90.7 ± 2.1",
    ("banknote", "flip"): "90.3 ± 1.2", ("credit_default", "base"): "78.3 ± 0.6",
    ("credit_default", "exp"): "78.4 ± 0.5", ("credit_default", "flip"): "78.1 ± 0.5",
    ("wall_robot_24, two classes", "base"): "75.9 ± 1.5",
    ("wall_robot_24, two classes", "exp"): "76.2 ± 1.6",
    ("wall_robot_24, two classes", "flip"): "78.4 ± 1.9",
    ("parkinsons_telemonitoring", "base"): "3.36e-2", ("parkinsons_telemonitoring", "exp"):
    "3.32e-2", ("parkinsons_telemonitoring", "flip"): "3.30e-2",
    ("appliances_energy", "base"): "8.58e-3", ("appliances_energy", "exp"): "8.53e-3",
    ("appliances_energy", "flip"): "8.46e-3"}
JOINT_GOALS = {"adult": 84.5, "banknote": 93.5, "car": 85, "credit_default": 82, "mushroom": 99.5,
               "nursery": 92, "wall_robot_4": 99, "wall_robot_24": 95}
SPE_PAPER = {"adult": "82.05", "banknote": "93.54", "car": "72.71", "credit_default": "80.22",
             "mushroom": "99.15", "nursery": "79.19", "wall_robot_4": "87.43"}
MRF_PAPER = {("wdbc", 1): "94.71", ("wdbc", 5): "94.95", ("cmc", 1): "52.58", ("cmc", 5): "52.79"}
MRF_GOALS = {("wdbc", 1): 92.5, ("wdbc", 5): 93.5, ("cmc", 1): 43, ("cmc", 5): 51}


def of(folder: Path, name: str) -> tuple[pl.Schema, Any, Any]:
    """As `load`; of two classes where paper 000 has two: straight on, and the rest."""
    name, _, two = name.partition(", ")
    schema, X, y = load(folder, name)
    if not two:
        return schema, X, y
    straight = papers.load("000", "Robot", folder)
    return straight.schema, X, pd.Series(straight.y)


def scores(folder: Path, name: str, make: Any, seeds: int) -> list[float]:
    """Accuracy in percent, or squared error on the scale of the papers, of fresh 90/10 splits.

    The papers scale a target to [0, 1] by the values that occur. That is done here for the
    comparison of test errors only: learners see the schema's public bounds.
    """
    schema, X, y = of(folder, name)
    found = []
    for seed in range(5 * seeds if len(X) < SMALL else seeds):
        order = np.random.default_rng(1000 + seed).permutation(len(X))
        train, test = np.split(order, [int(0.9 * len(X))])
        model = make(schema).fit(X.iloc[train], y.iloc[train])
        if schema.task == "classification":
            found.append(100 * model.score(X.iloc[test], y.iloc[test]))
        else:
            whole = np.asarray(y, dtype=float)
            error = (model.predict(X.iloc[test]) - whole[test]) / (whole.max() - whole.min())
            found.append(float(np.mean(error**2)))
    return found


def shown(found: list[float]) -> str:
    mean, sd = statistics.mean(found), statistics.stdev(found)
    return f"{mean:.1f} ± {sd:.1f}" if mean > 1 else f"{mean:.2e} ± {sd:.1e}"


def joint(folder: Path, seeds: int) -> str:
    rows = []
    for name, goal in JOINT_GOALS.items():
        found = scores(folder, name, lambda s: JointTreeClassifier(epsilon=2, schema=s), seeds)
        rows.append([name, 2, shown(found), f">= {goal}", SPE_PAPER.get(name, "-"), NOT_SOUND
                     if name in SPE_PAPER else ""])
    for name, goal in (("parkinsons_telemonitoring", "<= 1.8e-2"),
                       ("appliances_energy", "R2 >= .10")):
        found = scores(folder, name, lambda s: JointTreeRegressor(epsilon=10, schema=s), seeds)
        rows.append([name, 10, shown(found), goal, DIPRIME_PAPER[name, "flip"], NOT_SOUND])
    return table(["JointTree, defaults", "epsilon", "ours", "goal", "paper (SPE, or DiPriMe)",
                  "was the paper's sound?"], rows)


def diprime(folder: Path, seeds: int) -> str:
    rows = []
    for name, depth in DIPRIME_DEPTHS.items():
        regression = name in ("parkinsons_telemonitoring", "appliances_energy")
        kind: Any = DiPriMeForestRegressor if regression else DiPriMeForestClassifier
        epsilon = 10 if regression else 2
        for variant in ("base", "exp", "flip", "joint"):
            literal = {"variant": variant, "n_trees": 10, "partitioned": True, "depth": depth,
                       "split_share": 0.5, "level_ratio": 1.0}
            cells = [shown(scores(folder, name, partial(kind, epsilon, 0.0, **options), seeds))
                     for options in (literal, {"variant": variant})]
            rows.append([name, epsilon, variant, *cells, DIPRIME_PAPER.get((name, variant), "-"),
                         NOT_SOUND if variant != "joint" else ""])
    return table(["DiPriMe", "epsilon", "variant", "the paper's settings, sound",
                  "default rule", "paper ± half width of a 95 % interval",
                  "was the paper's sound?"], rows)


def multinomial(folder: Path, seeds: int) -> str:
    rows = []
    for name in ("wdbc", "cmc"):
        for epsilon in (1, 5):
            joint_form = scores(folder, name, lambda s, e=epsilon: MultinomialForestClassifier(
                epsilon=e, schema=s), 2 * seeds)
            own = scores(folder, name, lambda s, e=epsilon: MultinomialForestClassifier(
                epsilon=e, schema=s, variant="multinomial"), seeds)
            printed = scores(folder, name, lambda s, e=epsilon: MultinomialForestClassifier(
                epsilon=100 * e * 1.001, schema=s, variant="multinomial", depth=10,
                b1=0.05 * e, b2=0.05 * e, b3=float(e)), max(2, seeds // 3))
            rows.append([name, epsilon, shown(joint_form), f">= {MRF_GOALS[name, epsilon]}",
                         shown(own), f"{shown(printed)} (true total {100 * epsilon})",
                         f"{MRF_PAPER[name, epsilon]} (true total infinite)", NOT_SOUND])
    return table(["MRF", "true total epsilon", "joint, default", "goal",
                  "the paper's form, 100 trees", "its B1, B2, B3 as printed", "paper's Table 3",
                  "was the paper's sound?"], rows)


def speed(folder: Path) -> str:
    rows = []
    for label, goal, name, make in (
        ("DiPriMe base, 10 trees of depth 10, partitioned, adult", "0.2 s", "adult",
         lambda s: DiPriMeForestClassifier(epsilon=2, schema=s, variant="base", n_trees=10,
                                           partitioned=True, depth=10)),
        ("JointTree, adult", "0.5 s", "adult", lambda s: JointTreeClassifier(epsilon=2, schema=s)),
        ("JointTree, credit_default", "1 s", "credit_default",
         lambda s: JointTreeClassifier(epsilon=2, schema=s)),
        ("MRF, the paper's form, 100 trees, wdbc", "2 s", "wdbc",
         lambda s: MultinomialForestClassifier(epsilon=5, schema=s, variant="multinomial"))):
        schema, X, y = load(folder, name)
        model = make(schema)
        fit = [0.0]

        def run(model: Any = model, X: Any = X, y: Any = y, fit: list[float] = fit) -> None:
            start = time.perf_counter()
            model.fit(X, y)
            fit.append(time.perf_counter() - start)

        cpu = cpu_times(run, 7)
        rows.append([label, spread(fit[1:]), spread(cpu), goal])
    return table(["fit, ledger and encoding included", "wall, s", "CPU, s", "goal"], rows)


def growth() -> str:
    schema = pl.Schema("made up", (*(pl.Column(f"x{k}", "numeric", "feature", 0.0, 1.0)
                                     for k in range(6)),
                                   pl.Column("t", "categorical", "target", categories=("n", "p"))))
    rng, rows = np.random.default_rng(0), []
    for n in (10_000, 100_000, 1_000_000):
        X = {f"x{k}": rng.uniform(size=n) for k in range(6)}
        y = np.where(X["x0"] + X["x1"] > 1, "p", "n")
        cells: list[object] = [f"{n:,}"]
        for make in (lambda: JointTreeClassifier(epsilon=2, schema=schema, depth=8),
                     lambda: DiPriMeForestClassifier(epsilon=2, schema=schema, variant="base",
                                                     n_trees=10, partitioned=True, depth=8),
                     lambda: MultinomialForestClassifier(
                         epsilon=5, schema=schema, variant="multinomial", n_trees=4, depth=6)):
            seconds = statistics.median(cpu_times(partial(make().fit, X, y), 2))
            cells.append(f"{seconds:.3g} ({1e6 * seconds / n:.2g})")
        rows.append(cells)
    return table(["rows, six numeric features", "JointTree, depth 8: CPU s (us per row)",
                  "DiPriMe base, 10 trees, depth 8", "MRF, 4 trees, depth 6"], rows)


def report(arguments: Any) -> str:
    folder, seeds = Path(arguments.data), max(2, arguments.seeds)
    return "\n\n".join([
        f"## Trees and forests\n\nMean ± sd over {seeds} fresh 90/10 splits (five times as many "
        f"of sets under {SMALL:,} rows), add-or-remove, delta 0, public bounds of the schemas. "
        "Accuracy in percent, or squared error with the target scaled by the values that occur, "
        "as the papers do; our learners see public bounds only, and never use motor_UPDRS as an "
        "input. "
        "Constants of the default rules were found on these sets.",
        joint(folder, seeds), diprime(folder, seeds), multinomial(folder, seeds), speed(folder),
        growth()])
