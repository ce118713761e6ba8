"""Measure every installed learner and draw docs/gallery.md.

    python tests/bench/gallery.py --data DIR            measure all, then draw
    python tests/bench/gallery.py --data DIR --only sgbdt-regressor
    python tests/bench/gallery.py                       draw again from the kept figures

DIR holds one folder for each data set. Learners are found by `pl.plugins.learner_names()`, so one
that is installed later appears when this is run again. Figures are kept in
docs/figures/gallery.json.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import gallery_drawing
import numpy as np
from measure import asked, machine

import privledger as pl

DOCS = Path(__file__).resolve().parents[2] / "docs"
KEPT = DOCS / "figures" / "gallery.json"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPETITIONS = 4
DELTA = 1e-6
SETS = {"regression": "abalone", "classification": "wall_robot_4", "selection": "golub"}
MEASURES = {"regression": "R2", "classification": "accuracy",
            "selection": "share of the 5 best features found"}


def kind_of(learner: type[Any]) -> str:
    """What is measured: features where it predicts nothing, else its first task."""
    if not hasattr(learner, "predict"):
        return "selection"
    return str(learner.info.tasks[0])


def unprotected(schema: pl.Schema, X: Any, y: np.ndarray, train: np.ndarray,
                test: np.ndarray) -> float:
    """Histogram gradient boosting without privacy, on the same encoding."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = pl.encode_features(X, schema)
    table = np.stack([np.asarray(array, dtype=float) for array in columns.arrays], axis=1)
    kind = (HistGradientBoostingRegressor if schema.task == "regression"
            else HistGradientBoostingClassifier)
    return float(kind(random_state=0).fit(table[train], y[train]).score(table[test], y[test]))


def baseline(schema: pl.Schema, y: np.ndarray) -> float:
    """What is reached without looking at a feature: the mean, or the largest class."""
    if schema.task == "regression":
        return 0.0
    return float(np.unique(y, return_counts=True)[1].max() / len(y))


def halves(n: int, repetition: int) -> tuple[np.ndarray, np.ndarray]:
    """Three quarters to learn from, a quarter for the score."""
    order = np.random.default_rng(repetition).permutation(n)
    return order[n // 4:], order[: n // 4]


def built(learner: type[Any], epsilon: float, schema: pl.Schema) -> Any:
    """The learner with its defaults; pure epsilon where it knows no delta."""
    try:
        made = learner(epsilon=epsilon, delta=DELTA, schema=schema)
        made.plan(schema)
        return made
    except pl.PrivledgerError:
        return learner(epsilon=epsilon, delta=0.0, schema=schema)


def price(model: Any, schema: pl.Schema) -> tuple[float | None, float]:
    """Claimed and sound epsilon of the whole fit; None where nothing is claimed or it is none."""
    steps = model.claimed(schema)
    claimed = steps[-1].claimed if steps else None
    relation = getattr(model, "relation", "add_remove")
    sound = pl.epsilon(model.plan(schema), model.delta, relation)
    return (claimed if claimed is not None and math.isfinite(claimed) else None), sound


def predictions(learner: type[Any], folder: Path, kind: str) -> dict[str, Any]:
    schema = pl.Schema.load(folder / SETS[kind] / "schema.json")
    X, y = pl.read_table(folder / SETS[kind] / f"{SETS[kind]}.csv.gz", schema)
    splits = [halves(len(y), repetition) for repetition in range(REPETITIONS)]
    points = []
    for epsilon in EPSILONS:
        scores = []
        for train, test in splits:
            model = built(learner, epsilon, schema)
            model.fit(X.iloc[train], y.iloc[train])
            scores.append(float(model.score(X.iloc[test], y.iloc[test])))
        points.append(point(built(learner, epsilon, schema), epsilon, schema, scores))
    values = np.asarray(y)
    best = [unprotected(schema, X, values, train, test) for train, test in splits]
    return {"rows": len(splits[0][0]), "baseline": baseline(schema, values),
            "unprotected": statistics.mean(best), "delta": model.delta, "points": points}


def selections(learner: type[Any], folder: Path, kind: str) -> dict[str, Any]:
    from feature_selection import load

    schema, X, y, truth = load(folder, SETS[kind])
    points = []
    for epsilon in EPSILONS:
        scores = []
        for _ in range(REPETITIONS):
            model = built(learner, epsilon, schema).fit(X, y)
            best = set(truth[: model.k].tolist())
            found = set(np.flatnonzero(model.get_support()).tolist())
            scores.append(len(best & found) / model.k)
        points.append(point(built(learner, epsilon, schema), epsilon, schema, scores))
    return {"rows": len(y), "baseline": 5 / X.shape[1], "unprotected": 1.0,
            "delta": model.delta, "points": points}


def point(model: Any, epsilon: float, schema: pl.Schema, scores: list[float]) -> dict[str, Any]:
    claimed, sound = price(model, schema)
    return {"epsilon": epsilon, "scores": [round(score, 4) for score in scores],
            "claimed": claimed, "sound": sound}


def measured(name: str, folder: Path) -> dict[str, Any]:
    learner = pl.load_learner(name)
    kind = kind_of(learner)
    found = (selections if kind == "selection" else predictions)(learner, folder, kind)
    relations = learner.info.relations
    return {"summary": learner.info.summary, "paper": learner.info.paper, "data": SETS[kind],
            "relation": "add_remove" if "add_remove" in relations else relations[0],
            "measure": MEASURES[kind], "machine": machine(), **found}


def main() -> None:
    arguments = asked(__doc__, data=str, only=[str])
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name in (arguments.only or pl.plugins.learner_names()) if arguments.data else ():
        print(f"measuring {name}", file=sys.stderr, flush=True)
        kept[name] = measured(name, Path(arguments.data))
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")
    gallery_drawing.write(kept, DOCS)


if __name__ == "__main__":
    main()
