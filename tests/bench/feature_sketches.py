"""Scores of features from sums of chunks: how large the sketches are, and what they cost."""

from __future__ import annotations

import time
from typing import Any

import attrs
import numpy as np
from measure import table

import privledger as pl
from privledger.noise.seeded import SeededSource
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns

CHUNK, CHUNKS, FEATURES = 1 << 18, 8, 20


def _schema(classes: int) -> pl.Schema:
    target = (pl.Column("y", "categorical", "target", categories=tuple(range(classes)))
              if classes else pl.Column("y", "numeric", "target", -8.0, 8.0))
    return pl.Schema("many", (*(pl.Column(f"x{j}", "numeric", "feature", -8.0, 8.0)
                                for j in range(FEATURES)), target))


def _rows(schema: pl.Schema, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    arrays = tuple(np.clip(rng.normal(size=CHUNK), -8, 8) for _ in range(FEATURES))
    classes = len(schema.target.categories)
    known = arrays[0] + rng.normal(size=CHUNK)
    target = (np.clip(np.floor(known + classes / 2), 0, classes - 1).astype(np.int32) if classes
              else np.clip(known, -8, 8))
    return Rows(Columns(schema, arrays, CHUNK), target, SeededSource(seed))


def _bytes(sketch: Any) -> int:
    if isinstance(sketch, np.ndarray):
        return sketch.nbytes
    if isinstance(sketch, tuple):
        return sum(map(_bytes, sketch))
    return sum(_bytes(value) for value in attrs.asdict(sketch, recurse=False).values()
               ) if attrs.has(type(sketch)) else 8


def report(arguments: Any) -> str:
    rows = []
    for what, score, classes in (
            ("agreement, 2 classes", "agreement", 2), ("agreement, 8 classes", "agreement", 8),
            ("rank, 2 classes", "rank", 2), ("rank, a number", "rank", 0),
            ("correlation", "correlation", 0), ("votes of 10 blocks",
                                                pl.questions.Votes(10, 5), 0)):
        schema = _schema(classes)
        question = pl.Dataset(schema, object()).features_by(score)
        spent, whole = np.zeros(3), None
        for seed in range(CHUNKS):
            chunk = _rows(schema, seed)
            start = time.process_time()
            sketch = question.sketch(chunk, 1.0)
            middle = time.process_time()
            one = _bytes(sketch)
            whole = sketch if whole is None else question.merge(whole, sketch)
            spent[:2] += middle - start, time.process_time() - middle
        size, start = _bytes(whole), time.process_time()
        question.scores(whole)
        spent[2] = time.process_time() - start
        values = CHUNK * CHUNKS * FEATURES
        rows.append([what, f"{1e9 * spent[0] / values:.1f}", f"{1e9 * spent[1] / values:.1f}",
                     f"{one / 2**20:.2f}", f"{size / 2**20:.2f}", f"{spent[2]:.3f}"])
    head = table(["score", "sketch, ns per value", "merging, ns per value",
                  "one chunk's sketch, MiB", f"{CHUNKS} merged, MiB", "scores of them, s"], rows)
    return (f"## Scores of features from sums\n\n{CHUNKS} chunks of {CHUNK:,} rows x {FEATURES} "
            "normal features over sixteen standard deviations, CPU seconds of one thread. Sketches "
            f"stop growing: at most 8 bytes for each of the grid's keys of a feature.\n\n{head}")
