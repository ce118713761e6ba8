"""Tables beyond memory: cost against rows, in chunks on disk, beside gradient boosting from disk.

    python tests/bench/chunks.py FOLDER --rows 1e4 1e5 1e6 1e7 --workers 2
    python tests/bench/chunks.py FOLDER --rows 1e8 --workers 2 --peers

FOLDER takes the generated Parquet files (80 bytes a row, kept from run to run) and the spool.
Processor seconds are of all processes together, memory the largest of any worker. Every row of the
table that is printed is one run in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privledger as pl

FEATURES, FILE_ROWS = 20, 1 << 20
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
    engine = None
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        ledger = pl.Ledger.create(Path(scratch) / "ledger.db", budget=pl.Budget(100.0, 1e-6))
        if what.startswith("dask"):
            from dask.distributed import Client, LocalCluster

            cluster = LocalCluster(n_workers=workers, threads_per_worker=1,
                                   dashboard_address=None, host="127.0.0.1")
            engine, what = pl.engines.Dask(Client(cluster)), what.removeprefix("dask-")
        engine = engine or Measured(workers)
        began, spent = time.perf_counter(), processor()
        data = ledger.protect(pl.scan_parquet(place), schema=SCHEMA, target="y", engine=engine)
        ingest, ingest_cpu = time.perf_counter() - began, processor() - spent
        model = learner(what, 1)
        model.fit(data)  # bin codes are made in the first pass
        local = isinstance(engine, Measured)
        before, spent = engine.used()[0] if local else 0.0, processor(children=False)
        began = time.perf_counter()
        learner(what, trees).fit(data)
        found = {"ingest": ingest, "ingest_cpu": ingest_cpu, "fit": time.perf_counter() - began,
                 "driver_cpu": processor(children=False) - spent,
                 "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        if local:
            after, most, own = engine.used()
            found |= {"workers_cpu": after - before, "worker_mb": most, "worker_own_mb": own}
            engine.close()
        ledger.close()
    return found


def in_memory(place: Path, what: str, trees: int) -> dict[str, float]:
    """The same fit from memory."""
    table = pq.read_table(sorted(place.glob("*.parquet")))
    X = {name: table[name].to_numpy() for name in NAMES}
    y = table["y"].to_numpy().astype(str)
    del table
    with tempfile.TemporaryDirectory() as scratch:
        ledger = pl.Ledger.create(Path(scratch) / "ledger.db", budget=pl.Budget(100.0, 1e-6))
        data = ledger.protect(X, y, SCHEMA)
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        learner(what, 1).fit(data)
        began, spent = time.perf_counter(), processor()
        learner(what, trees).fit(data)
        found = {"fit": time.perf_counter() - began, "driver_cpu": processor() - spent}
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


COLUMNS = ("ingest", "ingest_cpu", "fit", "driver_cpu", "workers_cpu", "driver_mb", "worker_mb",
           "worker_own_mb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--what", nargs="+", default=["sgbdt", "joint"])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--memory", action="store_true", help="the same fits from memory, too")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "WORKERS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        place, (what, workers) = generated(given.folder, int(given.rows[0])), given.one
        peers = {"lightgbm": lightgbm, "xgboost": xgboost}
        found = (peers[what](place, given.trees) if what in peers else
                 in_memory(place, what.removeprefix("memory-"), given.trees)
                 if what.startswith("memory-") else one(place, what, int(workers), given.trees))
        print(json.dumps(found))
        return
    print(f"{given.trees} trees of S-GBDT, {FEATURES} columns, chunks of 2^18 rows; seconds, MB\n")
    print("| rows | what | workers | " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * (len(COLUMNS) + 3))
    for rows in map(int, given.rows):
        generated(given.folder, rows)
        runs = [(what, workers) for what in given.what for workers in given.workers]
        runs += [(f"memory-{what}", 0) for what in given.what if given.memory]
        runs += [(peer, 0) for peer in ("lightgbm", "xgboost") if given.peers]
        for what, workers in runs:
            found = apart(str(given.folder), "--rows", str(rows), "--trees", str(given.trees),
                          "--one", what, str(workers))
            cells = [f"{found[name]:.2f}" if name in found else "" for name in COLUMNS]
            print(f"| {rows:,} | {what} | {workers or ''} | " + " | ".join(cells) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
