"""Our defaults beside packages that others recommend, on the same splits.

Peers are no dependencies of this project, and want other versions of shared packages than each
other: each runs under the Python that is named for it (`--python DP-EBM=PYTHON diffprivlib=PYTHON
MST=PYTHON`). Their figures are kept in tests/bench/kept/peers.jsonl; those of a package without a
Python stay as they are. Ours are measured anew.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from measure import table
from peer_fits import SYSTEMS, scored
from privledger_learners import AutoClassifier, AutoRegressor

import privledger as pl
from learners import load

KEPT = Path(__file__).resolve().parent / "kept" / "peers.jsonl"
SETS = ("banknote", "bank", "abalone", "parkinsons_telemonitoring", "appliances_energy", "adult")
EPSILONS = (0.3, 1.0, 3.0)
SEEDS = 3
DELTA = 1e-6
OURS = {"ours": DELTA, "ours, delta 0": 0.0}
PACKAGES = {"DP-EBM": "interpret-core", "diffprivlib": "diffprivlib",
            "MST": "smartnoise-synth and mbi"}


class Codes:
    """Our learner on the coded table that peers see, for one way of scoring."""

    def __init__(self, model: Any, X: Any, schema: pl.Schema) -> None:
        self.model, self.X, self.schema = model, X, schema

    def predict(self, rows: np.ndarray) -> np.ndarray:
        found = np.asarray(self.model.predict(self.X.iloc[rows]))
        return found if self.schema.task == "regression" else coded(found, self.schema)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        places = [list(self.model.classes_).index(name) for name in self.schema.target.categories]
        return np.asarray(self.model.predict_proba(self.X.iloc[rows]))[:, places]


def coded(labels: Any, schema: pl.Schema) -> np.ndarray:
    places = {str(name): place for place, name in enumerate(schema.target.categories)}
    return np.array([places[str(label)] for label in labels], dtype=float)


def plain(schema: pl.Schema, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Numbers, codes of categories and public facts: what a peer may know.

    A missing number is the middle of its public range, a missing category one of its own.
    """
    columns, facts = [], []
    for column, array in zip(schema.features, pl.encode_features(X, schema).arrays, strict=True):
        values = np.asarray(array, dtype=float)
        if column.kind == "numeric":
            middle = (column.lower + column.upper) / 2
            columns.append(np.clip(np.where(np.isnan(values), middle, values),
                                   column.lower, column.upper))
            facts.append({"size": 0, "lower": column.lower, "upper": column.upper})
        else:
            size = len(column.categories)
            columns.append(np.where(values < 0, size, values))
            facts.append({"size": size + 1, "lower": 0, "upper": size})
    target, number = schema.target, schema.task == "regression"
    whole = {"features": facts,
             "classes": [] if number else list(range(len(target.categories))),
             "lower": target.lower if number else 0, "upper": target.upper if number else 0}
    values = np.asarray(y, dtype=float) if number else coded(np.asarray(y), schema)
    return np.column_stack(columns), values, whole


def split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three quarters to learn from, the rest to test."""
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 4:], order[: n // 4]


def of_ours(system: str, schema: pl.Schema, X: Any, y: Any,
            wanted: list[tuple[int, float]]) -> Iterator[dict[str, Any]]:
    """Our default, as a user gets it; the row count is declared, as peers take it as known."""
    _, values, facts = plain(schema, X, y)
    kind = AutoRegressor if schema.task == "regression" else AutoClassifier
    for seed, epsilon in wanted:
        train, test = split(len(values), seed)
        declared = evolve(schema, expected_rows=len(train), expected_rows_provenance="declared: "
                          "the size of a published table")
        model = kind(epsilon=epsilon, delta=OURS[system], schema=declared, unaccounted=True)
        start = time.process_time()
        model.fit(X.iloc[train], np.asarray(y)[train])
        seconds = time.process_time() - start
        figures = scored(Codes(model, X, schema), test, values[test], facts)
        yield {"seed": seed, "epsilon": epsilon, "seconds": round(seconds, 3),
               "chosen": str(getattr(model, "chosen_", "")),
               **{key: round(value, 5) for key, value in figures.items()}}


def of_peer(system: str, python: str, schema: pl.Schema, X: Any, y: Any,
            wanted: list[tuple[int, float]]) -> Iterator[dict[str, Any]]:
    """A peer's fits, in a process of its own."""
    arrays, values, facts = plain(schema, X, y)
    with tempfile.TemporaryDirectory() as folder:
        held, job = Path(folder) / "table.npz", Path(folder) / "job.json"
        parts = {}
        for seed in {seed for seed, _ in wanted}:
            parts[f"train{seed}"], parts[f"test{seed}"] = split(len(values), seed)
        np.savez(held, X=arrays, y=values, **parts)
        job.write_text(json.dumps({"system": system, "facts": facts, "delta": DELTA,
                                   "wanted": wanted}), encoding="utf-8")
        script = Path(__file__).with_name("peer_fits.py")
        with subprocess.Popen([python, str(script), str(held), str(job)], text=True,
                              stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        if child.returncode:
            yield {"skipped": f"it failed, status {child.returncode}"}


def lines(kept: Path) -> list[dict[str, Any]]:
    if not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]


def measure(data: Path, pythons: dict[str, str], held: list[dict[str, Any]]) -> Iterator[
        dict[str, Any]]:
    """What is kept of systems that are not measured now, then what is."""
    def python_of(system: str) -> str | None:
        return sys.executable if system in OURS else next(
            (path for word, path in pythons.items() if system.startswith(word)), None)

    yield from (one for one in held if python_of(one["system"]) is None)
    wanted = [(seed, epsilon) for seed in range(SEEDS) for epsilon in EPSILONS]
    for name in SETS:
        schema, X, y = load(data, name)
        for system in (*OURS, *SYSTEMS):
            python = python_of(system)
            if python is None:
                continue
            for one in (of_ours(system, schema, X, y, wanted) if system in OURS else
                        of_peer(system, python, schema, X, y, wanted)):
                yield {"set": name, "system": system, **one}


def shown(kept: list[dict[str, Any]], of: str, digits: int) -> str:
    """A table of means and standard errors over seeds: `score`, `auc` or `seconds`."""
    held: dict[tuple[str, float, str], list[float]] = {}
    for one in kept:
        if one.get(of) is not None:
            held.setdefault((one["set"], one["epsilon"], one["system"]), []).append(one[of])
    names = [name for name in (*OURS, *SYSTEMS) if any(key[2] == name for key in held)]

    def cell(values: list[float] | None) -> str:
        if not values:
            return "-"
        if len(values) == 1:
            return f"{values[0]:.{digits}f} (one fit)"
        spread = statistics.stdev(values) / len(values) ** 0.5
        return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"

    rows = [[name, f"{epsilon:g}", *(cell(held.get((name, epsilon, each))) for each in names)]
            for name in dict.fromkeys([*SETS, *(one["set"] for one in kept)])
            for epsilon in EPSILONS if any(key[:2] == (name, epsilon) for key in held)]
    return table(["set", "epsilon", *names], rows)


def behind(kept: list[dict[str, Any]], of: str) -> str:
    """Where the mean of a package is above that of our default."""
    held: dict[tuple[str, float], dict[str, list[float]]] = {}
    for one in kept:
        if one.get(of) is not None:
            held.setdefault((one["set"], one["epsilon"]), {}).setdefault(
                one["system"], []).append(one[of])
    means = {place: {system: statistics.mean(values) for system, values in found.items()}
             for place, found in held.items()}
    lost = [f"{name} at epsilon {epsilon:g} ({peer} {found[peer]:.3f}, ours {found['ours']:.3f})"
            for (name, epsilon), found in means.items() for peer in SYSTEMS
            if found.get(peer, -math.inf) > found.get("ours", math.inf)]
    return f"Ours leads on all of {len(means)} but {len(lost)}: " + "; ".join(lost) + "." if lost \
        else f"Ours leads on all of {len(means)}."


def report(arguments: Any) -> str:
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    kept = []
    for one in measure(Path(arguments.data), pythons, lines(KEPT)):
        kept.append(one)
        print(one, file=sys.stderr, flush=True)
    KEPT.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    return ("## Beside other packages\n\nOur defaults (`AutoClassifier`, `AutoRegressor`; delta "
            f"{DELTA:g}, and delta 0) and other packages on the same splits: three quarters of the "
            f"rows to learn from, {SEEDS} seeds (fewer for MST), mean ± standard error. All take "
            "bounds, categories and the number of rows as public, and run with their defaults. "
            "They are interpret 0.7.8 (DP-EBM), diffprivlib 0.6.5 with scikit-learn 1.4.2, and "
            "smartnoise-synth: MST at 32 equal bins, followed by histogram gradient boosting on as "
            "many made-up rows. Each lives in an environment of its own: `--python DP-EBM=... "
            "diffprivlib=... MST=...`; where none is named, its earlier figures stand. `-`: the "
            "package has no learner for the task, or was not run; regressions of diffprivlib lose "
            "to the mean, and a fit of MST takes 20 to 90 s.\n\n" + "\n\n".join(
                f"{said}:\n\n{shown(kept, of, digits)}" + (
                    "" if of == "seconds" else "\n\n" + behind(kept, of))
                for of, said, digits in (
                    ("score", "Accuracy, or R2 (predictions cut to the public range)", 3),
                    ("auc", "Area under the curve (two classes)", 3),
                    ("seconds", "CPU seconds of a fit", 1))))
