"""How many reservations a second, how fair, and how a ledger of a million entries behaves."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import resource
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import fsync_rate, spread, status_megabytes, table

import privledger as pl
from privledger.graph import cost_of
from privledger.guard.handle import _granted
from privledger.ledger import audit
from privledger.ledger.entries import this_process
from privledger.ledger.events import Event, Granted, Holder, Released, Settled, released_node
from privledger.ledger.log import ReleaseLog
from privledger.reports import survey
from privledger.storage import store_at

SCHEMA = pl.Schema("numbers", (pl.Column("x", "numeric", "feature", 0, 1),
                               pl.Column("y", "numeric", "target", 0, 1)))
ROUNDS = 1000
FITS = 333_333


def _noise(count: int) -> pl.Node:
    """A release of which `count` fit."""
    return pl.Gaussian(pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), count), 0.9, 1e-6))


def _create(place: str) -> None:
    pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp").close()


def _guard(ledger: pl.Ledger) -> pl.Dataset:
    values = np.linspace(0, 1, 100)
    return ledger.protect({"x": values}, values, SCHEMA)


def _rate(seconds: float, work: Callable[[], object]) -> float:
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        done += 1
    return done / (time.perf_counter() - start)


def raw_sqlite(folder: str) -> float:
    """Commits of one conditional UPDATE a second, WAL and synchronous=FULL: no ledger."""
    connection = sqlite3.connect(Path(folder) / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE budget (spent INTEGER)")
    connection.execute("INSERT INTO budget VALUES (0)")
    return _rate(2.0, lambda: connection.execute(
        "UPDATE budget SET spent = spent + 1 WHERE spent + 1 <= 1000000000"))


def raw_postgres(server: Any, clients: int) -> float:
    """The same in PostgreSQL, by as many clients on one row."""
    server.sql("DROP TABLE IF EXISTS budget", "CREATE TABLE budget (spent bigint)",
               "INSERT INTO budget VALUES (0)")
    done, stop = [0] * clients, time.perf_counter() + 2.0

    def work(number: int) -> None:
        with server.connect() as connection:
            while time.perf_counter() < stop:
                connection.execute(
                    "UPDATE budget SET spent = spent + 1 WHERE spent + 1 <= 1000000000")
                done[number] += 1

    _threads(clients, work)
    return sum(done) / 2.0


def _threads(count: int, work: Callable[[int], None]) -> float:
    """Seconds until all have finished."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def reservations(place: str, threads: int, each: int, *, settle: bool = False) -> float:
    """Durable reservations a second by threads of one process on one ledger."""
    node = _noise(100_000)
    with pl.Ledger.open(place) as ledger:
        data = _guard(ledger)

        def work(number: int) -> None:
            for _ in range(each):
                session = ledger.request(node, data)
                if settle:
                    session.close()

        return threads * each / _threads(threads, work)


def shares_of_threads(place: str, threads: int = 8) -> list[int]:
    """Grants that each thread got out of `ROUNDS`."""
    got, node, lock = [0] * threads, _noise(100_000), threading.Lock()
    with pl.Ledger.open(place) as ledger:
        data = _guard(ledger)

        def work(number: int) -> None:
            while sum(got) < ROUNDS:
                ledger.request(node, data).close()
                with lock:
                    got[number] += 1

        _threads(threads, work)
    return got


def _race(place: str, number: int, got: Any, start: Any) -> None:
    node = _noise(100_000)
    with pl.Ledger.open(place) as ledger:
        data = _guard(ledger)
        start.wait()
        while sum(got) < ROUNDS:
            ledger.request(node, data).close()
            got[number] += 1  # nobody else writes here


def shares_of_processes(place: str, processes: int = 8) -> list[int]:
    """Grants that each process got out of `ROUNDS`, on one file."""
    context = multiprocessing.get_context("spawn")
    got, start = context.Array("i", processes, lock=False), context.Barrier(processes)
    children = [context.Process(target=_race, args=(place, number, got, start))
                for number in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return list(got)


def _share(shares: list[int]) -> str:
    return f"{100 * min(shares) / sum(shares):.1f} % to {100 * max(shares) / sum(shares):.1f} %"


def sqlite_rows(folder: str) -> list[list[str]]:
    place = str(Path(folder) / "rates.ledger")
    _create(place)
    beside = f"{fsync_rate():.0f} fsyncs/s; raw SQLite {raw_sqlite(folder):.0f} commits/s"
    rows = []
    for threads, each in ((1, 1000), (8, 250), (64, 60)):
        rows.append([f"SQLite, {threads} threads", f"{reservations(place, threads, each):.0f}/s",
                     "2,000/s or 5 x one thread" if threads == 64 else "", beside])
    rows.append(["SQLite, 64 threads, each settled too",
                 f"{reservations(place, 64, 40, settle=True):.0f}/s", "", beside])
    rows.append([f"share of one of 8 threads, {ROUNDS} grants", _share(shares_of_threads(place)),
                 "at least 5 %", ""])
    rows.append([f"share of one of 8 processes, {ROUNDS} grants",
                 _share(shares_of_processes(place)), "at least 5 %", ""])
    return rows


def _server(folder: str) -> Any:
    """The tests' own PostgreSQL server, or None."""
    if importlib.util.find_spec("psycopg") is None:
        return None
    path = Path(__file__).resolve().parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_conftest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    programs = module._installed()
    return module.PostgresServer(programs[0], Path(folder)) if programs else None


def _as_client(server: Any, place: str) -> str:
    """The same ledger for a role that may do what clients may."""
    server.sql("CREATE ROLE client LOGIN", "GRANT USAGE ON SCHEMA privledger TO client",
               "GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO client",
               "GRANT EXECUTE ON FUNCTION privledger.lock, privledger.append, privledger.keep, "
               "privledger.markable TO client")
    return place.replace("owner@", "client@")


def postgres_rows() -> list[list[str]]:
    folder = tempfile.mkdtemp(prefix="pl-pg-")
    server = _server(folder)
    if server is None:
        return []
    try:
        place = server.url()
        _create(place)
        place = _as_client(server, place)
        beside = (f"raw conditional UPDATE: {raw_postgres(server, 1):.0f}/s by one client, "
                  f"{raw_postgres(server, 8):.0f}/s by 8 on one row")
        return [[f"PostgreSQL, {threads} threads",
                 f"{reservations(place, threads, each):.0f}/s",
                 "0.8 x raw" if threads == 64 else "", beside]
                for threads, each in ((1, 500), (8, 200), (64, 40))]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def load() -> str:
    """How many others wanted the processors."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def fill(place: str, fits: int) -> None:
    """Entries as fits of one release leave them, many in one transaction."""
    node = _noise(fits * 2)
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp") as ledger:
        rule, holder, left = ledger.state.rule, this_process(), fits
        assert rule is not None
        units = rule.price(cost_of(node, "add_remove", rule.orders), 0.0)[0]
        while left:
            count = min(300, left)
            left -= count
            ledger._history.commit(lambda state, count=count: [
                line for _ in range(count) for line in _fit(node, units, holder)])


def _fit(node: pl.Node, units: int, holder: Holder) -> list[Event]:
    name, moment = f"grant-{secrets.token_hex(6)}", "2026-01-01T00:00:00+00:00"
    return [
        Granted(name, "benchmark", "rows", pl.nodes.to_json(node), 0.0, units, 0, moment,
                holder=holder),
        Released(name, 0, ["count"], [released_node((), node)], [[0, 0, 1]],
                 "operating-system entropy"),
        Settled(name, True, 1, moment)]


def _both(action: Callable[[], object], runs: int) -> str:
    """Seconds of wall and of CPU time."""
    walls, cpus = [], []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return f"{spread(walls)} s; CPU {spread(cpus)} s"


def size_rows(folder: str) -> list[list[str]]:
    place = str(Path(folder) / "million.ledger")
    fill(place, FITS)
    entries = 3 * FITS + 2
    rows = [[f"file of {entries:,} entries", f"{os.path.getsize(place) / 1e6:.0f} MB", "", ""]]
    before = status_megabytes("VmRSS")
    took = _both(lambda: pl.Ledger.open(place).close(), 5)
    rows.append([f"open {entries:,} entries", took, "2 s", load()])
    with pl.Ledger.open(place):
        rows.append(["memory of the open ledger",
                     f"{status_megabytes('VmRSS') - before:.0f} MB", "", ""])
    store = store_at(place, read_only=True)
    findings: list[pl.Finding] = []
    took = _both(lambda: findings.extend(audit(store)), 2)
    rows.append([f"verify {entries:,} entries (clean: {not findings})", took, "5 s", load()])
    took = _both(lambda: findings.extend(survey(store).findings), 2)
    store.close()
    rows.append([f"the same with all that `check` sums up (clean: {not findings})", took, "6 s",
                 load()])
    connection = sqlite3.connect(place)
    connection.execute("DROP TABLE checkpoint")
    connection.commit()
    connection.close()
    rows.append(["open the same without its checkpoint",
                 _both(lambda: pl.Ledger.open(place).close(), 1), "", load()])
    return rows


def fit_rows(folder: str, total: int = 100_000) -> list[list[str]]:
    place, node, commits = str(Path(folder) / "fit.ledger"), _noise(100_000), 0
    _create(place)

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement.startswith("COMMIT")

    with pl.Ledger.open(place) as ledger:
        data = _guard(ledger)
        ledger._history.store._connect().set_trace_callback(count)  # type: ignore[attr-defined]
        start = time.perf_counter()
        session = ledger.request(pl.Repeat(node, total), data)
        before = commits
        for _ in range(total):
            _granted(session)._inside.charge(node, (), "question", 1)
        middle = time.perf_counter() - start
        session.close()
        whole = time.perf_counter() - start
    log = ReleaseLog()
    for _ in range(total):
        log.add((), node, "question", 1)
    bytes_each = len(log._items) * log._items.itemsize / total
    return [[f"ledger time of a fit of {total:,} releases",
             f"{whole:.2f} s ({middle:.2f} s until it is settled)", "6 s", ""],
            ["commits before data may be opened", str(before), "1", ""],
            ["hot columns, for each release", f"{bytes_each:.0f} bytes", "64 bytes", ""]]


def _command(code: str) -> str:
    """CPU seconds of a fresh process that runs `code`."""
    took = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"CPU {spread(took)} s"


def start_rows(folder: str, nodes: int = 10_000) -> list[list[str]]:
    """What commands cost before they read anything, and on a plan of many different nodes."""
    plan, place = Path(folder) / "plan.json", Path(folder) / "small.ledger"
    plan.write_text(json.dumps(pl.nodes.to_json(
        pl.Sequential([pl.Gaussian(1000.0 + number) for number in range(nodes)]))),
        encoding="utf-8")
    _create(str(place))
    call = "from privledger.cli import main; main({})"
    return [
        ["start: `import privledger.cli`", _command("import privledger.cli"), "0.25 s", load()],
        ["start: what `verify` needs", _command("import privledger.cli.verify"), "", load()],
        ["start: what `check` of a ledger needs", _command("import privledger.cli.check"), "",
         load()],
        [f"price a plan of {nodes:,} different nodes on a ledger (`whatif --plan`), process "
         "included", _command(call.format(["whatif", str(place), "--plan", str(plan)])), "1 s",
         load()]]


def report(_: object = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        rows = sqlite_rows(folder) + postgres_rows() + fit_rows(folder) + size_rows(folder)
        rows += start_rows(folder)
    return ("## Throughput and size of the ledger\n\nReservations are durable when they are "
            "counted. The raw rates are of the same run: one conditional UPDATE per commit, "
            "without a ledger. A fit leaves three entries.\n\n"
            + table(["what", "measured", "goal", "this machine"], rows))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    print(report())
