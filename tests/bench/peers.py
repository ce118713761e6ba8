"""Our defaults beside packages that others recommend, on the same splits. JSONL, resumed.

    OMP_NUM_THREADS=1 python tests/bench/peers.py --data DIR [--systems ...]
        [--python diffprivlib=PYTHON DP-EBM=PYTHON MST=PYTHON]

Peers are no dependencies of this project, and want other versions of shared packages than each
other: each runs under the Python that is named for it, else under this one. What is not installed
is said. Figures are kept in tests/bench/kept/peers.jsonl; `--show` prints their tables, which
are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
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
from measure import machine, table
from peer_fits import SYSTEMS, scored
from privledger_learners import AutoClassifier, AutoRegressor

import privledger as pl
from learners import load

KEPT = Path(__file__).resolve().parent / "kept" / "peers.jsonl"
SETS = ("banknote", "bank", "abalone", "parkinsons_telemonitoring", "appliances_energy", "adult")
EPSILONS = (0.3, 1.0, 3.0)
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


def measure(arguments: argparse.Namespace) -> None:
    """All that is wanted and not there yet."""
    held = lines(arguments.kept)
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    done = {(one["set"], one["system"], one.get("seed"), one.get("epsilon")) for one in held
            if "skipped" not in one}
    never = {(one["set"], one["system"]) for one in held
             if one.get("skipped", "").startswith("for ")}
    for name in arguments.sets:
        schema, X, y = load(Path(arguments.data), name)
        for system in arguments.systems:
            wanted = [(seed, epsilon) for seed in range(arguments.seeds)
                      for epsilon in arguments.epsilons
                      if (name, system, seed, epsilon) not in done]
            if not wanted or (name, system) in never:
                continue
            python = next((path for word, path in pythons.items() if system.startswith(word)),
                          sys.executable)
            found = (of_ours(system, schema, X, y, wanted) if system in OURS else
                     of_peer(system, python, schema, X, y, wanted))
            for one in found:
                line = {"set": name, "system": system, **one}
                arguments.kept.parent.mkdir(exist_ok=True)
                with arguments.kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, file=sys.stderr, flush=True)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of data sets, one folder each")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--systems", nargs="+", default=[*OURS, *SYSTEMS],
                        choices=[*OURS, *SYSTEMS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--python", nargs="+", default=[], metavar="WORD=PYTHON",
                        help="the Python of systems whose name begins with WORD")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--show", action="store_true", help="print what is kept, measure nothing")
    arguments = parser.parse_args()
    if not arguments.show:
        measure(arguments)
    print(machine(), *(f"{of}:\n\n{shown(lines(arguments.kept), of, digits)}" for of, digits in (
        ("score", 3), ("auc", 3), ("seconds", 1))), sep="\n\n")


if __name__ == "__main__":
    main()
