"""What charging, settling, refusing, filtering and noise cost."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from long import called
from measure import fsync_rate, spread, table, times

import privledger as pl
from privledger.guard.handle import _granted
from privledger.ledger import ScopeSpend
from privledger.noise.source import SystemSource

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "pay.toml"
SCHEMA = pl.Schema("numbers", (pl.Column("x", "numeric", "feature", 0, 1),
                               pl.Column("y", "numeric", "target", 0, 1)))


def _ledger(folder: str) -> tuple[pl.Ledger, pl.Dataset]:
    ledger = pl.Ledger.create(Path(folder) / "bench.ledger", budget=pl.Budget(1.0, 1e-6))
    values = np.linspace(0, 1, 100)
    return ledger, ledger.protect({"x": values}, values, SCHEMA)


def charging(sizes: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000),
             grants: int = 200) -> list[list[str]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ledger, data = _ledger(folder)
        total = sum(sizes)
        noise = pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), total), 0.9, 1e-6)
        node = pl.Gaussian(noise)
        session = ledger.request(pl.Repeat(node, total), data, learner="benchmark")
        inside = _granted(session)._inside
        for size in sizes:
            start = time.perf_counter()
            for _ in range(size):
                inside.charge(node, (), "question", 1)
            each = (time.perf_counter() - start) / size * 1e6
            rows.append([f"charge in memory, after {size} more", f"{each:.2f} us", "10 us"])
        start = time.perf_counter()
        session.close()
        rows.append([f"settle {total} itemised releases", f"{time.perf_counter() - start:.2f} s",
                     "6 s for 100,000"])
        start = time.perf_counter()
        clean = ledger.verify() == []
        rows.append([f"verify the same (clean: {clean})", f"{time.perf_counter() - start:.2f} s",
                     ""])
        plan = pl.Repeat(node, total)

        def refused() -> None:
            try:
                ledger.request(plan, data)
            except pl.BudgetExceeded:
                return

        refused()
        found = [value * 1e6 for value in times(refused, 2 * grants)]
        rows.append(["refusal", spread(found) + " us", "200 us"])
        ledger.close()
    with tempfile.TemporaryDirectory() as folder:
        ledger, data = _ledger(folder)
        small = pl.Gaussian(pl.calibrate(
            lambda z: pl.Repeat(pl.Gaussian(z), 2 * grants), 0.9, 1e-6))
        found = []
        for _ in range(grants):
            start = time.perf_counter()
            with ledger.request(small, data):
                found.append((time.perf_counter() - start) * 1e3)
        rows.append(["durable reservation (one fsync)", spread(found) + " ms",
                     f"this disk: {fsync_rate():.0f} fsyncs/s"])
        ledger.close()
    return rows


def in_memory(settings: tuple[tuple[int, int], ...] = ((0, 1), (1000, 1), (1000, 1000)),
              batches: int = 40) -> list[list[str]]:
    """CPU of a grant, one count and its settlement, and of a refusal: batches of 25.

    Args:
        settings: numbers of caps, each on a label, and of learners with labels of their own.
    """
    rows, node = [], pl.Gaussian(20_000.0)
    for count, learners in settings:
        some = tuple(pl.Cap(pl.Budget(1.0, 1e-6), labels={"team": f"t{place}"})
                     for place in range(count))
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=some)
        data = ledger.protect({"x": np.linspace(0, 1, 100)}, np.linspace(0, 1, 100), SCHEMA)
        who = itertools.cycle([(f"learner {place}", {"team": f"t{place}", "user": f"u{place}"})
                               for place in range(learners)])

        def granted(ledger: pl.Ledger = ledger, data: pl.Dataset = data,
                    who: Iterator[tuple[str, dict[str, str]]] = who) -> None:
            learner, labels = next(who)
            with ledger.request(node, data, learner=learner, labels=labels) as session:
                session.release(node, data.count())

        def refused(ledger: pl.Ledger = ledger, data: pl.Dataset = data,
                    who: Iterator[tuple[str, dict[str, str]]] = who) -> None:
            learner, labels = next(who)
            with suppress(pl.BudgetExceeded):
                ledger.request(pl.Gaussian(0.5), data, learner=learner, labels=labels)

        for _ in range(learners):  # all are known
            granted()
        for name, work, goal in (("grant, count and settle", granted, "0.5 ms"),
                                 ("refusal", refused, "0.15 ms")):
            found = []
            for _ in range(batches + 1):
                start = time.process_time()
                for _ in range(25):
                    work()
                found.append((time.process_time() - start) / 25 * 1e3)
            more = f", labels of {learners} learners" if learners > 1 else ""
            rows.append([f"{name} in memory, {count} caps{more}, CPU", spread(found[1:]) + " ms",
                         goal])
    return rows


def started(kinds: tuple[str, ...] = ("basic", "rdp", "gdp"), runs: int = 9) -> list[list[str]]:
    """CPU of whole processes: `show` of a ledger of one grant or two, and a plan."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            place = Path(folder) / f"{kind}.ledger"
            with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter=kind) as ledger:
                data = ledger.protect({"x": [0.5]}, [0.5], SCHEMA)
                for node in (pl.Laplace(20.0), pl.Gaussian(50.0))[:1 + (kind != "basic")]:
                    with ledger.request(node, data) as session:
                        session.release(node, data.count())
            rows.append([f"`show` of a small ledger, filter `{kind}`", ["show", str(place)],
                         "0.4 s"])
        rows.append(["`plan docs/examples/pay.toml`", ["plan", str(EXAMPLE)], "0.9 s"])
        return [[f"{name}, CPU", spread([called(*words)[0] for _ in range(runs + 1)][1:]) + " s",
                 goal] for name, words, goal in rows]


def per_record(n: int = 1_000_000) -> list[list[str]]:
    spend = ScopeSpend(1.0, np.zeros(n, np.int64), np.zeros(n, np.int32))
    costs = np.random.default_rng(0).random(n) * 1e-3
    found = [value * 1e3 for value in times(lambda: spend.admit(costs), 30)]
    return [["individual filter step, 10^6 records", spread(found) + " ms", "15 ms"]]


def noise() -> list[list[str]]:
    source = SystemSource()
    rows = []
    for name, draw in (("Gaussian", source.gaussian), ("Laplace", source.laplace)):
        small = [value * 1e6 for value in times(lambda d=draw: d(2.0**20, 128), 300)]
        large = [1 / value for value in times(lambda d=draw: d(2.0**20, 1_000_000), 5)]
        rows.append([f"exact {name}, 128 draws", spread(small) + " us", ""])
        rows.append([f"exact {name}, 10^6 draws a second", spread(large) + " million",
                     "1.1 to 1.8 (prototype)"])
    return rows


def report(_: object = None) -> str:
    rows = charging() + in_memory() + started() + per_record() + noise()
    return "## Ledger, filters and noise\n\n" + table(["what", "measured", "goal"], rows)
