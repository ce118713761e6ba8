"""Gradients, hessians, sums and scores of a chunk, and an S-GBDT fit beside LightGBM."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import cpu_times, table
from privledger_learners import SGBDTClassifier, SGBDTRegressor

import privledger as pl
from learners import load
from privledger.noise.seeded import SeededSource
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns

CHUNK, FEATURES, DEPTH, TREES = 1 << 18, 20, 6, 25
ROWS, FITTED = 10**6, 50
FEW, GROWN, TIMES = 300, 200, 15  # rows that cost next to nothing, trees, fits of each
Q = pl.questions


def _schema(classes: int) -> pl.Schema:
    target = (pl.Column("y", "categorical", "target", categories=tuple(range(classes)))
              if classes else pl.Column("y", "numeric", "target", -1.0, 1.0))
    return pl.Schema("chunk", (*(pl.Column(f"x{j}", "numeric", "feature", 0.0, 1.0)
                                 for j in range(FEATURES)), target))


def _table(classes: int, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = tuple(rng.random(n) for _ in range(FEATURES))
    known = arrays[0] + arrays[1] ** 2 - 0.8 + 0.3 * rng.normal(size=n)
    y = np.clip(known, -1, 1) if not classes else np.clip(
        np.floor(known + classes / 2), 0, classes - 1).astype(np.int32)
    return arrays, y


def _tree(bins: Any, rng: np.random.Generator) -> Any:
    tests = []
    for level in range(DEPTH):
        feature = int(rng.integers(FEATURES))
        entries = np.zeros(bins.sizes()[feature], dtype=np.uint8)
        entries[rng.integers(1, len(entries) - 1):] = 1 << level
        tests.append(Q.Test(feature, entries))
    return Q.TreeCells(bins, tuple(tests), 1 << DEPTH)


def chunk(loss: str, classes: int) -> list[float]:
    """Smallest CPU nanoseconds per row of cells, sketch, update, and all three in one tree."""
    schema, rng = _schema(classes), np.random.default_rng(1)
    arrays, y = _table(classes, CHUNK)
    rows, data = Rows(Columns(schema, arrays, CHUNK), y, SeededSource(0)), pl.Dataset(schema, None)
    width = classes if loss == "softmax" else 1
    bins, score, found = data.bins(255), data.score(loss, np.zeros(width)), []
    score.of(rows), bins.codes(rows.features)
    for _ in range(TREES):
        tree = _tree(bins, rng)
        question = data.query((score.hessian(), score.gradient(0.5)), tree)
        state = question.prepare(pl.Gaussian(3.0, (0.5, 0.5)), "add_remove")
        times = [time.process_time()]
        for step in (lambda: tree.index(rows), lambda: question.sketch(rows, state),  # noqa: B023
                     lambda: score.of(rows)):
            if len(times) == 3:
                score.add(tree, rng.normal(0, 0.1, (tree.count, width)[: 1 + (width > 1)]))
            step()
            times.append(time.process_time())
        parts = np.diff(times) / CHUNK * 1e9
        found.append([*parts, parts.sum()])
    return np.min(found, axis=0).tolist()


def _fits(classes: int) -> tuple[Callable[[], object], Callable[[], object]]:
    arrays, y = _table(classes, ROWS)
    X, schema = {f"x{j}": array for j, array in enumerate(arrays)}, _schema(classes)
    kind = SGBDTClassifier if classes else SGBDTRegressor

    def ours() -> object:
        return kind(epsilon=1.0, delta=1e-8, schema=schema, n_trees=FITTED, depth=DEPTH).fit(X, y)

    def theirs() -> object:
        import lightgbm

        model = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        return model(n_estimators=FITTED, num_leaves=1 << DEPTH, max_depth=DEPTH, max_bin=255,
                     n_jobs=1, verbose=-1).fit(np.stack(arrays, axis=1), y)

    return ours, theirs


def adult(folder: Path) -> tuple[Callable[[], object], ...]:
    """Fits on Adult: ours, ledger included, LightGBM's, and ours of a few rows: what releases cost
    before they see a row."""
    schema, X, y = load(folder, "adult")
    codes = np.stack([np.asarray(one, float) for one in pl.encode_features(X, schema).arrays], 1)

    def ours(rows: int) -> Callable[[], object]:
        data = pl.Ledger.create(None, budget=pl.Budget(2.0 * TIMES, 1e-5)).protect(
            X.iloc[:rows], y.iloc[:rows], schema)
        return lambda: SGBDTClassifier(epsilon=1.0, delta=1e-8, schema=schema, n_trees=GROWN,
                                       depth=DEPTH).fit(data)

    def theirs() -> object:
        import lightgbm

        return lightgbm.LGBMClassifier(
            n_estimators=GROWN, num_leaves=1 << DEPTH, max_depth=DEPTH, max_bin=255, n_jobs=1,
            verbose=-1).fit(codes, y)

    return ours(len(X)), theirs, ours(FEW)


def report(arguments: Any) -> str:
    parts = [[loss if classes < 3 else f"{loss}, {classes} classes",
              *(f"{value:.1f}" for value in chunk(loss, classes))]
             for loss, classes in (("squared", 0), ("logistic", 2), ("softmax", 3))]
    lines = []
    for name, classes in (("regression", 0), ("two classes", 2)):
        ours, theirs = (min(cpu_times(fit, 3)) for fit in _fits(classes))
        lines.append([name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"])
    *fits, small = adult(Path(arguments.data))
    whole, other = np.min([[cpu_times(fit, 1)[0] for fit in fits] for _ in range(TIMES)], 0)
    few = min(cpu_times(small, TIMES))
    lines.append([f"Adult, {GROWN} trees", f"{whole:.3f}", f"{other:.3f}", f"{whole / other:.2f}"])
    return "\n\n".join([
        "## S-GBDT beside LightGBM\n\nCPU nanoseconds per row, smallest of "
        f"{TREES} trees of depth {DEPTH}, chunk of 2^18 rows in memory, one thread:",
        table(["loss", "cells", "gradient, hessian, sums", "update of scores", "all"], parts),
        f"Whole fits of {FITTED} trees of depth {DEPTH} on {ROWS:,} x {FEATURES}, encoding and "
        "ledger included, one thread, smallest CPU seconds of 3. LightGBM searches its splits, "
        "at 255 bins; S-GBDT draws them and adds noise:",
        table(["task", "S-GBDT, s", "LightGBM, s", "share"], lines),
        f"On {FEW} rows of Adult, where rows cost next to nothing, a fit of {GROWN} trees takes "
        f"{few / GROWN * 1e3:.3f} ms a tree: the cost of a release, with what the learner does "
        "between two."])
