"""How large the report is, how long it takes to write, and how soon a browser has it ready."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import spread, table

import privledger as pl
from privledger.cli.report import read_page
from privledger.reports.page import ShownPerson, render_page

SCHEMA = pl.Schema("stays", (pl.Column("stay", "numeric", "feature", 0.0, 60.0),))
ROUND = pl.Gaussian(20.0)
FILTER = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(ROUND, 12))
RUNS = 3


def lived(place: Path, plans: int, records: int) -> str:
    """Plans of ten distinct nodes each, and one filter over all records."""
    rng = np.random.default_rng(20260101)
    with pl.Ledger.create(place, budget=pl.Budget(8.0, 1e-6), filter="gdp") as ledger:
        stays = np.clip(rng.gamma(2, 9, records), 0, 60)
        data = ledger.protect({"stay": stays}, SCHEMA, name="patients")
        for number in range(plans):
            nodes = [pl.Gaussian(float(noise)) for noise in rng.uniform(3000, 30000, 9)]
            ledger.request(pl.Sequential(nodes), data, learner=f"learner {number % 7}").close()
        with ledger.request(FILTER, data, learner="sums") as session:
            handle = session.filtered(FILTER)
            for _ in range(12):
                session.release(ROUND, handle.sum("stay"))
    return str(place)


def written(
    ledger: str, place: Path, shown: ShownPerson, runs: int
) -> tuple[list[float], list[float]]:
    """Seconds of wall and CPU time to write the page, ledger verified first."""
    wall, cpu = [], []
    for _ in range(runs):
        start, used = time.perf_counter(), time.process_time()
        place.write_text(render_page(read_page(ledger, shown, False)), encoding="utf-8")
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return wall, cpu


def opened(browser: Any, place: Path, record: int | None) -> tuple[list[float], list[float], int]:
    """Milliseconds until ready, seconds until a record is answered, requests beside the file."""
    ready, answered, asked = [], [], []
    for _ in range(RUNS):
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(place.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        ready.append(float(page.evaluate("document.documentElement.dataset.ready")))
        if record is not None:
            start = time.perf_counter()
            page.fill("form.record input", str(record))
            page.click("form.record button")
            page.locator("#answer0 p").first.wait_for()
            answered.append(time.perf_counter() - start)
        page.close()
    return ready, answered, len(asked) - RUNS


def report(_: object = None) -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pages = []
        for plans, records, shown, goal in (
                (1000, 10**6, ShownPerson(), "600 kB, 3 s, 500 ms"),
                (1000, 10**6, ShownPerson(vectors=True), "3500 kB, 3 s, 500 ms")):
            source = Path(folder) / f"{plans}.ledger"
            ledger = str(source) if source.exists() else lived(source, plans, records)
            place = Path(folder) / f"{plans}-{shown.vectors}.html"
            wall, cpu = written(ledger, place, shown, RUNS)
            name = f"{plans * 10:,} nodes, {records:,} records"
            pages.append((f"{name}{', every record in it' if shown.vectors else ''}", place, wall,
                          cpu, goal, 777_777 if shown.vectors else None))
        rows = _browsed(pages)
    return ("## The report\n\nOne page for a ledger with that many distinct nodes, written by "
            "`privledger report` (which verifies the ledger first) and opened from a file in "
            "headless Chromium. Answering for a record unpacks every record once.\n\n"
            + table(["page", "size", "written, s", "CPU, s", "ready, ms", "record, s",
                     "requests", "goal"], rows))


def _browsed(pages: list[tuple[Any, ...]]) -> list[list[str]]:
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    rows = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"),
                                       args=["--no-sandbox"] if root else [])
        for name, place, wall, cpu, goal, record in pages:
            ready, answered, requests = opened(browser, place, record)
            rows.append([name, f"{place.stat().st_size / 1000:.0f} kB", spread(wall), spread(cpu),
                         spread(ready), spread(answered) if answered else "–", str(requests),
                         goal])
        browser.close()
    return rows
