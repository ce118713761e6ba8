"""What a learner in a confined process of its own costs: to start, and per fit."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from measure import table

import privledger as pl
from privledger.broker import RemoteLearner
from privledger.plugins import find_learner

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT.parent / "docs" / "examples"
TICK = os.sysconf("SC_CLK_TCK")
TINY = pl.Schema("tiny", (
    pl.Column("x", "numeric", "feature", 0.0, 1.0),
    pl.Column("label", "categorical", "target", categories=("no", "yes"))))
TIMES = 9


def owner() -> float:
    """Processor seconds of this process."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def learner(remote: RemoteLearner) -> float:
    """Processor seconds of the learner's process."""
    text = Path(f"/proc/{remote._process.pid}/stat").read_text(encoding="ascii")
    return sum(int(part) for part in text.rpartition(")")[2].split()[11:13]) / TICK


def start(point: EntryPoint, schema: pl.Schema) -> RemoteLearner:
    return RemoteLearner.start(point, {"epsilon": 1.0, "delta": 1e-6}, schema, "add_remove")


def starting(make: Callable[[], RemoteLearner]) -> list[float]:
    """Median processor seconds: the learner's process, the owner's."""
    rows = []
    for _ in range(TIMES):
        own = owner()
        remote = make()
        rows.append((learner(remote), owner() - own))
        remote.close()
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def fitting(brokered: bool, schema: pl.Schema, rows: Any) -> list[float]:
    point, found = find_learner("sgbdt-regressor"), []
    for _ in range(TIMES):
        model: Any = start(point, schema) if brokered else point.load()(
            epsilon=1.0, delta=1e-6, schema=schema)
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
        data = ledger.protect(*rows, schema)
        own = owner()
        there = learner(model) if brokered else 0.0
        model.fit(data)
        found.append((learner(model) - there if brokered else 0.0, owner() - own))
        if brokered:
            model.close()
    return [statistics.median(column) for column in zip(*found, strict=True)]


def importing() -> list[float]:
    """The plugin's import in a fresh owner's process, which a guarded run pays."""
    program = ("import resource, privledger\n"
               "before = resource.getrusage(0).ru_utime + resource.getrusage(0).ru_stime\n"
               "import privledger_learners.sgbdt\n"
               "print(resource.getrusage(0).ru_utime + resource.getrusage(0).ru_stime - before)")
    found = [float(subprocess.run([sys.executable, "-c", program], capture_output=True,
                                  check=True).stdout) for _ in range(TIMES)]
    return [0.0, statistics.median(found)]


def report(_: object = None) -> str:
    sys.path.append(str(ROOT / "broker" / "plugins"))
    schema = pl.Schema.load(EXAMPLES / "pay.schema.json")
    rows = pl.read_table(EXAMPLES / "pay.csv", schema)
    small = EntryPoint("plain", "hostile:Plain", "privledger.learners")
    lines = [
        ("start, confine and price a small learner", starting(lambda: start(small, TINY))),
        ("the same for S-GBDT (imports scikit-learn)",
         starting(lambda: start(find_learner("sgbdt-regressor"), schema))),
        ("import of S-GBDT in the owner's process, for a guarded run", importing()),
        ("S-GBDT, 202 releases, guarded", fitting(False, schema, rows)),
        ("S-GBDT, 202 releases, brokered", fitting(True, schema, rows))]
    body = [[name, *(f"{value:.2f}" for value in values)] for name, values in lines]
    return ("## Isolation\n\n`run --isolate` against a guarded run, on `docs/examples/pay.csv`: "
            f"seconds of processor time, medians of {TIMES}. On an idle machine the clock "
            "shows their sum and a little more: the two processes wait for each other. A process "
            "starts once in a run.\n\n"
            + table(["", "learner's process", "owner's process"], body))
