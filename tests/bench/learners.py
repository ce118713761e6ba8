"""S-GBDT on the public data sets: defaults, tuned parameters, and what others reach."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from measure import peak_megabytes, spread, table
from privledger_learners import SGBDTClassifier, SGBDTRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold

import privledger as pl

DELTA = 5e-8
TUNED = {"gradient_clip": 0.15, "start_share": 0.06, "n_trees": 250, "leaf_width": 0.2}
LITERAL = {"n_trees": 100, "sampling_rate": 0.1, "splits": "random", "leaf": "ratio",
           "count_share": 0.1, "gradient_clip": 0.3, "depth": 3, "regularization": 20.0,
           "learning_rate": 0.05}
PUBLISHED = {  # the seed's figures, which rest on a conversion that is not valid (F8)
    ("abalone", 0.15): "R2 .39", ("abalone", 0.54): "R2 .479",
    ("adult", 0.07): "18.7 %", ("adult", 0.15): "18.1 %", ("adult", 0.54): "17.1 %"}
GOALS = {
    ("abalone", 0.15): "R2 >= .27", ("abalone", 0.54): "R2 >= .37",
    ("adult", 0.07): "<= 16.8 %", ("adult", 0.15): "<= 16.1 %", ("adult", 0.54): "<= 15.0 %",
    ("wall_robot_4", 1.0): ">= 97 % accuracy"}


def load(folder: Path, name: str, *, pooled: bool = False) -> tuple[pl.Schema, Any, Any]:
    import pandas

    schema = pl.Schema.load(folder / name / "schema.json")
    if any(column.role == "group" for column in schema.columns):
        schema = evolve(schema, unit="row")  # as the papers measure: several rows of one person
    X, y = pl.read_table(folder / name / f"{name}.csv.gz", schema)
    if pooled:
        X2, y2 = pl.read_table(folder / name / f"{name}_test.csv.gz", schema)
        X = pandas.concat([X, X2], ignore_index=True)
        y = pandas.concat([y, y2], ignore_index=True)
    return schema, X, y


def cross_validate(schema: pl.Schema, X: Any, y: Any, epsilon: float, seeds: int,
                   kinds: tuple[Any, Any] = (SGBDTRegressor, SGBDTClassifier),
                   **options: Any) -> tuple[list[float], list[float]]:
    """Scores and fit times of 5-fold cross-validation, `seeds` times."""
    kind = kinds[schema.task != "regression"]
    scores, fits = [], []
    for seed in range(seeds):
        for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
            model = kind(**{"epsilon": epsilon, "delta": DELTA, "schema": schema} | options)
            start = time.perf_counter()
            model.fit(X.iloc[train], y.iloc[train])
            fits.append(time.perf_counter() - start)
            scores.append(model.score(X.iloc[test], y.iloc[test]))
    return scores, fits


def not_private(schema: pl.Schema, X: Any, y: Any) -> float:
    """Histogram gradient boosting without privacy, on the same encoding, one 5-fold run."""
    columns = pl.encode_features(X, schema)
    table_ = np.stack([np.asarray(array, dtype=float) for array in columns.arrays], axis=1)
    kind = (HistGradientBoostingRegressor if schema.task == "regression"
            else HistGradientBoostingClassifier)
    found = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(table_):
        model = kind(random_state=0).fit(table_[train], np.asarray(y)[train])
        found.append(model.score(table_[test], np.asarray(y)[test]))
    return statistics.mean(found)


def dp_ebm(schema: pl.Schema, X: Any, y: Any, epsilon: float) -> list[float] | None:
    """InterpretML's private explainable boosting on the same folds and public bounds, or None."""
    try:
        from interpret.privacy import DPExplainableBoostingClassifier as Classifier
        from interpret.privacy import DPExplainableBoostingRegressor as Regressor
    except ImportError:
        return None
    if len(schema.target.categories) > 2:  # it knows two classes
        return None
    bounds = {k: (c.lower, c.upper) for k, c in enumerate(schema.features) if c.kind == "numeric"}
    kinds = ["continuous" if c.kind == "numeric" else "nominal" for c in schema.features]
    options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "privacy_bounds": bounds,
                               "feature_types": kinds, "n_jobs": 1}
    if schema.task == "regression":
        options |= {"privacy_target_min": schema.target.lower,
                    "privacy_target_max": schema.target.upper}
    filled = [X[c.name].fillna((c.lower + c.upper) / 2) if c.kind == "numeric"
              else X[c.name].astype(object).fillna("missing").astype(str)
              for c in schema.features]  # it takes no missing cells
    table_ = np.stack([np.asarray(column, dtype=object) for column in filled], axis=1)
    found = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(table_):
        model = (Regressor if schema.task == "regression" else Classifier)(**options)
        model.fit(table_[train], np.asarray(y)[train])
        found.append(float(model.score(table_[test], np.asarray(y)[test])))
    return found


def shown(schema: pl.Schema, scores: list[float]) -> str:
    mean, sd = statistics.mean(scores), statistics.stdev(scores)
    if schema.name == "adult":
        return f"error {100 * (1 - mean):.2f} % ± {100 * sd:.2f}"
    if schema.task == "regression":
        return f"R2 {mean:.3f} ± {sd:.3f}"
    return f"accuracy {100 * mean:.2f} % ± {100 * sd:.2f}"


def goals(folder: Path, seeds: int) -> str:
    rows = []
    for name, epsilons, pooled in (
        ("abalone", (0.15, 0.54), False), ("adult", (0.07, 0.15, 0.54), True),
        ("adult", (0.07, 0.15, 0.54), False), ("wall_robot_4", (1.0,), False)):
        schema, X, y = load(folder, name, pooled=pooled)
        free = not_private(schema, X, y)
        label = f"{name}, {len(X):,} rows"
        for epsilon in epsilons:
            peer = dp_ebm(schema, X, y, epsilon)
            scores, fits = cross_validate(schema, X, y, epsilon, seeds)
            rows.append([label, epsilon, shown(schema, scores), GOALS[name, epsilon],
                         spread(fits, 2), PUBLISHED.get((name, epsilon), "-"),
                         "-" if peer is None else shown(schema, peer),
                         shown(schema, [free, free]).split(" ±")[0]])
        if name == "abalone":
            for epsilon in epsilons:
                scores, fits = cross_validate(schema, X, y, epsilon, seeds, **TUNED)
                rows.append([f"{label}, tuned on the same data", epsilon, shown(schema, scores),
                             {0.15: "R2 >= .31", 0.54: "R2 >= .40"}[epsilon], spread(fits, 2),
                             PUBLISHED.get((name, epsilon), "-"), "", ""])
    return table(["data", "epsilon", "mean ± sd over folds", "goal", "fit, s",
                  "published (not sound)", "DP-EBM, one 5-fold run", "not private"], rows)


def ablation(folder: Path, seeds: int) -> str:
    """The paper's options under sound accounting, on Abalone at .54."""
    schema, X, y = load(folder, "abalone")
    options: list[tuple[str, dict[str, Any]]] = [
        ("default", {}),
        ("static noise (no counts)", {"static_noise": True}),
        ("Poisson rate .1", {"sampling_rate": 0.1}),
        ("individual GDP filter, 50 extra rounds", {"individual_filter": "gdp",
                                                    "extra_rounds": 50}),
        ("the same with rollover clipping", {"individual_filter": "gdp", "extra_rounds": 50,
                                             "rollover": True}),
        ("individual Renyi filter, rate .1, 50 extra", {
            "individual_filter": "renyi", "sampling_rate": 0.1, "extra_rounds": 50}),
        ("the paper's literal form", {
            **LITERAL}),
        ("the paper's literal form, filter, 50 extra", {
            **LITERAL, "individual_filter": "renyi", "extra_rounds": 50})]
    rows = []
    for name, chosen in options:
        scores, fits = cross_validate(schema, X, y, 0.54, seeds, **chosen)
        rows.append([name, shown(schema, scores), spread(fits, 2)])
    return table(["Abalone, epsilon .54, delta 5e-8", "mean ± sd over folds", "fit, s"], rows)


def speed(folder: Path) -> str:
    rows = []
    for name, kind, options, goal in (
        ("adult", SGBDTClassifier, {"n_trees": 200, "depth": 6}, "0.6 s"),
        ("abalone", SGBDTRegressor, {"n_trees": 100}, "0.1 s")):
        schema, X, y = load(folder, name)
        found = []
        for _ in range(15):
            model = kind(epsilon=0.54, delta=DELTA, schema=schema, **options)
            start = time.perf_counter()
            model.fit(X, y)
            found.append(time.perf_counter() - start)
        rows.append([f"{name}, {len(X):,} rows, {options}", spread(found), goal,
                     f"{peak_megabytes():.0f} MB (process peak so far)"])
    return table(["fit, ledger included", "s", "goal", "memory"], rows)


def report(arguments: Any) -> str:
    folder, seeds = Path(arguments.data), arguments.seeds
    return "\n\n".join([
        "## S-GBDT\n\nDelta 5e-8, add-or-remove, public bounds of the schemas, 5-fold "
        f"cross-validation x {seeds} seeds, defaults unless it says tuned. Tuned parameters: "
        f"`{TUNED}`.",
        speed(folder), goals(folder, seeds),
        "The paper's options, all under sound accounting:", ablation(folder, seeds)])
