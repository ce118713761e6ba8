"""What the commands take on long ledgers, each as a process of its own, by the system's account."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from attrs import evolve
from measure import spread, table
from page import lived
from throughput import _noise, fill

import privledger as pl
from privledger.graph import cost_of
from privledger.ledger.events import Event, Granted, Released, Settled
from privledger.ledger.holder import this_process
from privledger.ledger.log import released_node

FITS = 333_333
RUNS = 3
NOISES, LEARNERS, TABLES = 200, 20, 50
_CALL = "import sys; from privledger.cli import main; main(sys.argv[1:])"


def mixed(place: str, fits: int) -> None:
    """Fits that differ: noise, learner, table, process, time, number of cells."""
    source, base = random.Random(1), _noise(2 * fits).noise_multiplier
    nodes = [pl.Gaussian(base * (1 + step / 1000)) for step in range(NOISES)]
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp") as ledger:
        rule = ledger.state.rule
        assert rule is not None
        units = [rule.price(cost_of(node, "add_remove", rule.orders), 0.0)[0] for node in nodes]
        for first in range(0, fits, 300):
            lines = [line for number in range(first, min(fits, first + 300))
                     for line in _fit(source, number, nodes, units)]
            ledger._history.commit(lambda state, lines=lines: lines)


def _fit(source: random.Random, number: int, nodes: list[pl.Node],
         units: list[int]) -> list[Event]:
    which, name = source.randrange(NOISES), f"grant-{secrets.token_hex(6)}"
    moment = f"2026-{1 + number // 30000 % 12:02d}-01T{number // 3600 % 24:02d}:00:00+00:00"
    return [
        Granted(name, f"learner-{source.randrange(LEARNERS)}",
                f"table-{source.randrange(TABLES)}", pl.nodes.to_json(nodes[which]), 0.0,
                units[which], 0, moment,
                holder=evolve(this_process(), pid=source.randrange(30_000))),
        Released(name, 0, ["count"], [released_node((), nodes[which])],
                 [[0, 0, source.randrange(1, 100)]], "operating-system entropy"),
        Settled(name, True, 1, moment),
    ]


def called(*words: str) -> tuple[float, float]:
    """CPU seconds and megabytes of one command."""
    with subprocess.Popen([sys.executable, "-c", _CALL, *words], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _row(title: str, goal: str, *words: str) -> list[str]:
    runs = [called(*words) for _ in range(RUNS)]
    return [title, spread([cpu for cpu, _ in runs]), f"{max(peak for _, peak in runs):.0f} MB",
            goal]


def report(_: object = None) -> str:
    rows = [_row("`privledger --help`", ".15 s", "--help")]
    with tempfile.TemporaryDirectory() as folder:
        for title, make in (("alike", fill), ("mixed", mixed)):
            place = str(Path(folder) / f"{title}.ledger")
            make(place, FITS)
            count = f"{3 * FITS + 2:,} {title} entries"
            rows.append(_row(f"`show`, {count}", "3 s, 300 MB", "show", place))
            rows.append(_row(f"`verify`, {count}", "8 s" if title == "mixed" else "5 s", "verify",
                             place))
        place, page = Path(folder) / "nodes.ledger", str(Path(folder) / "page.html")
        lived(place, 1000, 100)
        rows.append(_row("`report`, 100,000 different nodes", "6 s", "report", str(place), "-o",
                         page, "--force"))
    return ("## Long ledgers\n\nEach command as a process of its own: CPU seconds and peak memory "
            "by the operating system's account. Mixed entries differ in noise (200 levels), "
            "learner, table, process, time and cells. `show` of a history this long checks every "
            "hash and prices nothing again, which its first line says; `verify` prices "
            "everything.\n\n"
            + table(["command", "CPU, s", "memory", "goal"], rows))
