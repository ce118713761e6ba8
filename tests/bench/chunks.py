"""Tables beyond memory: cost against rows, in chunks on disk, beside gradient boosting from disk.

Processor seconds are of all processes together, memory the largest of any worker. Every row of the
table that is printed is one run in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import table

import privledger as pl
from privledger.engines.engine_choice import local_cluster

FEATURES, FILE_ROWS, TREES = 20, 1 << 20, 10
RUNS = [(10**4, "sgbdt", 1), (10**5, "sgbdt", 1), (10**6, "sgbdt", 1), (10**6, "joint", 1),
        (10**6, "memory-joint", 0), (10**7, "sgbdt", 1), (10**7, "sgbdt", 2),
        (10**7, "dask-sgbdt", 2), (10**7, "memory-sgbdt", 0), (10**7, "lightgbm", 0),
        (10**7, "xgboost", 0)]
"""Rows, what, workers. (10**8, "sgbdt", 2) takes two minutes, and 20 GB of the scratch folder."""
NAMES = [f"x{place}" for place in range(FEATURES)]
SCHEMA = pl.Schema("generated", (
    *(pl.Column(name, "numeric", "feature", 0.0, 1.0) for name in NAMES),
    pl.Column("y", "categorical", "target", categories=("0", "1"))))


def generated(folder: Path, rows: int) -> Path:
    """A folder of Parquet files: uniform features, and a class that two of them and a third tell
    with noise. Made once."""
    place = folder / f"rows-{rows}"
    if (place / "done").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        size = min(FILE_ROWS, rows - start)
        X = rng.random((FEATURES, size), dtype=np.float32)
        logit = 6 * (X[0] - 0.5) + 4 * (X[1] - 0.5) * (X[2] > 0.3)
        y = (rng.random(size, dtype=np.float32) < 1 / (1 + np.exp(-logit))).astype(np.int8)
        table = pa.table({**{name: X[one] for one, name in enumerate(NAMES)}, "y": y})
        pq.write_table(table, place / f"part-{number:05d}.parquet", compression="none")
    (place / "done").touch()
    return place


def processor(children: bool = True) -> float:
    """Processor seconds of this process, and of those that it waited for."""
    kinds = [resource.RUSAGE_SELF] + ([resource.RUSAGE_CHILDREN] if children else [])
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, kinds))


class Measured(pl.engines.Local):
    """Local workers whose time and memory are read from the system."""

    def used(self) -> tuple[float, float, float]:
        """Processor seconds of all; the largest memory of one, and of that its own, in MB."""
        seconds, most, own = 0.0, 0.0, 0.0
        for worker in self._free:
            stat = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            status = dict(line.split(":", 1) for line in Path(
                f"/proc/{worker.process.pid}/status").read_text().splitlines())
            most = max(most, int(status["VmHWM"].split()[0]) / 1024)
            own = max(own, int(status["RssAnon"].split()[0]) / 1024)
        return seconds, most, own


def learner(name: str, trees: int):
    """The learner that a row of the table is about."""
    from privledger_learners import JointTreeClassifier, SGBDTClassifier

    if name == "sgbdt":
        return SGBDTClassifier(epsilon=1.0, delta=1e-8, n_trees=trees, random_state=0)
    return JointTreeClassifier(epsilon=1.0, random_state=0)


def one(place: Path, what: str, workers: int, trees: int) -> dict[str, float]:
    """Ingest and one fit."""
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch, ExitStack() as open_:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        ledger = open_.enter_context(pl.Ledger.create(
            Path(scratch) / "ledger.db", budget=pl.Budget(100.0, 1e-6)))
        if local := not what.startswith("dask"):
            engine = Measured(workers)
            open_.callback(engine.close)
        else:
            client = open_.enter_context(local_cluster(workers))
            engine, what = pl.engines.Dask(client), what.removeprefix("dask-")

        def used() -> float:
            """Processor seconds of the workers."""
            return engine.used()[0] if local else sum(client.run(time.process_time).values())

        began = time.perf_counter()
        for path in place.glob("*.parquet"):
            file = pq.ParquetFile(path, pre_buffer=False)
            for _ in file.iter_batches(1 << 14, use_threads=False):
                pass
        read = time.perf_counter() - began
        began, spent = time.perf_counter(), processor() + (0.0 if local else used())
        data = ledger.protect(pl.scan_parquet(place), schema=SCHEMA, target="y", engine=engine)
        found = {"read": read, "ingest": time.perf_counter() - began,
                 "ingest_cpu": processor() + used() - spent}
        model = learner(what, 1)
        model.fit(data)  # bin codes are made in the first pass
        before, spent = used(), processor(children=False)
        began = time.perf_counter()
        learner(what, trees).fit(data)
        found |= {"fit": time.perf_counter() - began,
                  "driver_cpu": processor(children=False) - spent,
                  "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                  "workers_cpu": used() - before}
        if local:
            _, most, own = engine.used()
            found |= {"worker_mb": most, "worker_own_mb": own}
    return found


def in_memory(place: Path, what: str, trees: int) -> dict[str, float]:
    """The same fit from memory."""
    table = pq.read_table(sorted(place.glob("*.parquet")))
    X = {name: table[name].to_numpy() for name in NAMES}
    y = table["y"].to_numpy().astype(str)
    del table
    with tempfile.TemporaryDirectory() as scratch:
        ledger = pl.Ledger.create(Path(scratch) / "ledger.db", budget=pl.Budget(100.0, 1e-6))
        began, spent = time.perf_counter(), processor()
        data = ledger.protect(X, y, SCHEMA)
        found = {"ingest": time.perf_counter() - began, "ingest_cpu": processor() - spent}
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        learner(what, 1).fit(data)
        began, spent = time.perf_counter(), processor()
        learner(what, trees).fit(data)
        found |= {"fit": time.perf_counter() - began, "driver_cpu": processor() - spent}
        ledger.close()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found | {"driver_mb": most, "more_mb": most - base}


def lightgbm(place: Path, trees: int) -> dict[str, float]:
    """LightGBM, read in pieces and held in bins: 64 leaves, 255 bins, a thread for each core."""
    import lightgbm as lgb

    class Parts(lgb.Sequence):
        batch_size = 1 << 16

        def __init__(self, path: Path) -> None:
            self.file = pq.ParquetFile(path)
            self.held = None

        def __getitem__(self, place):
            if self.held is None:
                table = self.file.read(NAMES)
                self.held = np.stack([table[name].to_numpy() for name in NAMES], axis=1)
            return self.held[place].astype(np.float64)

        def __len__(self) -> int:
            return self.file.metadata.num_rows

    files = sorted(place.glob("*.parquet"))
    y = np.concatenate([pq.read_table(path, columns=["y"])["y"].to_numpy() for path in files])
    began, spent = time.perf_counter(), processor()
    data = lgb.Dataset([Parts(path) for path in files], label=y,
                       params={"max_bin": 255, "verbose": -1}).construct()
    ingest, ingest_cpu = time.perf_counter() - began, processor() - spent
    began, spent = time.perf_counter(), processor()
    lgb.train({"objective": "binary", "num_leaves": 64, "max_depth": 6, "max_bin": 255,
               "verbose": -1}, data, trees)
    return {"ingest": ingest, "ingest_cpu": ingest_cpu, "fit": time.perf_counter() - began,
            "driver_cpu": processor() - spent,
            "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def xgboost(place: Path, trees: int) -> dict[str, float]:
    """XGBoost's external memory: histogram method, depth 6, 255 bins."""
    import xgboost as xgb

    files = sorted(place.glob("*.parquet"))

    class Batches(xgb.DataIter):
        def __init__(self) -> None:
            self.at = 0
            super().__init__(cache_prefix=str(place.parent / "xgb-cache"))

        def next(self, input_data) -> bool:
            if self.at == len(files):
                return False
            table = pq.read_table(files[self.at])
            X = np.stack([table[name].to_numpy() for name in NAMES], axis=1)
            input_data(data=X, label=table["y"].to_numpy())
            self.at += 1
            return True

        def reset(self) -> None:
            self.at = 0

    began, spent = time.perf_counter(), processor()
    data = xgb.ExtMemQuantileDMatrix(Batches(), max_bin=255)
    ingest, ingest_cpu = time.perf_counter() - began, processor() - spent
    began, spent = time.perf_counter(), processor()
    xgb.train({"objective": "binary:logistic", "max_depth": 6, "tree_method": "hist",
               "max_bin": 255}, data, trees)
    return {"ingest": ingest, "ingest_cpu": ingest_cpu, "fit": time.perf_counter() - began,
            "driver_cpu": processor() - spent,
            "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def apart(*arguments: str) -> dict[str, float]:
    """One measurement in a process of its own; what it printed last."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-400:], file=sys.stderr)
        return {}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


HEADS = {"read": "reading, s", "ingest": "ingest, s", "ingest_cpu": "ingest, CPU s",
         "fit": f"{TREES} trees, s", "driver_cpu": "driver, CPU s",
         "workers_cpu": "workers, CPU s", "driver_mb": "driver, MB",
         "worker_mb": "largest worker, MB"}
PEERS = {"lightgbm": lightgbm, "xgboost": xgboost}


def run(folder: Path, rows: int, what: str, workers: int) -> dict[str, float]:
    """One measurement, in this process."""
    place = generated(folder, rows)
    if what in PEERS:
        return PEERS[what](place, TREES)
    if what.startswith("memory-"):
        return in_memory(place, what.removeprefix("memory-"), TREES)
    return one(place, what, workers, TREES)


def report(arguments: Any) -> str:
    cells = []
    with tempfile.TemporaryDirectory(dir=getattr(arguments, "scratch", None)) as folder:
        for rows, what, workers in RUNS:
            generated(Path(folder), rows)
            found = apart(folder, str(rows), what, str(workers))
            name = what.replace("sgbdt", "S-GBDT").replace("joint", "JointTree")
            cells.append([f"{rows:,}", name, workers or "",
                          *(f"{found[one]:.2f}" if one in found else "" for one in HEADS)])
            print(*cells[-1], file=sys.stderr, flush=True)
    return (f"## Tables in chunks\n\nRows of {FEATURES} float32 columns and two classes in Parquet "
            f"files, chunks of 2^18 rows, {TREES} trees, after a first fit that makes the codes of "
            "its bins. Reading is one thread that decodes all files; ingest starts the workers, "
            "too, and from memory it is `protect`. A fit without `dask` or `memory` runs on local "
            "workers. CPU seconds of all "
            "workers together; memory is the largest of any worker. Each line is one run in a "
            "process of its own.\n\n" + table(["rows", "what", "workers", *HEADS.values()], cells)
            + "\n\nLightGBM and XGBoost (64 leaves or depth 6, 255 bins, two threads) search for "
            "their splits; S-GBDT draws them. The comparison is of passes over the rows, not of "
            "trees of equal worth. An empty line: the package is not installed.")


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
