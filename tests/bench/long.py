"""What the commands take on long ledgers, each as a process of its own, by the system's account."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from measure import spread, table
from throughput import _noise

import privledger as pl
from privledger.graph import cost_of
from privledger.ledger.entries import this_process
from privledger.ledger.events import Event, Granted, Released, Settled, released_node

GRANTS = 100_000
RUNS = 1
NOISES, LEARNERS, TABLES = 200, 20, 50
COMMANDS = {"show": "1 s", "verify --all": "4 s", "verify": "4 s", "check": "4 s",
            "top": "4 s", "risk": "4 s", "log": "4 s", "export": "4 s", "record": "2 s",
            "report": "8 s"}
"""Each with its goal; 300 MB for all of them."""
_CALL = """
import atexit, re, sys
from pathlib import Path
from privledger.cli import main
peak = lambda: re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
atexit.register(lambda: print(peak(), file=sys.stderr))
main(sys.argv[1:])
"""
"""A command that says its own peak at last: the system's account begins with its parent's."""


def mixed(place: str, fits: int, releases: int = 1) -> None:
    """Fits that differ: noise, learner, table, process, time, number of cells.

    Args:
        releases: of each fit, each in an entry of its own.
    """
    source = random.Random(1)
    base = _noise(2 * fits * releases).noise_multiplier
    nodes = [pl.Gaussian(base * (1 + step / 1000)) for step in range(NOISES)]
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp") as ledger:
        rule = ledger.state.rule
        assert rule is not None
        plans = [node if releases == 1 else pl.Repeat(node, releases) for node in nodes]
        units = [rule.price(cost_of(plan, "add_remove", rule.orders), 0.0)[0] for plan in plans]
        kinds = list(zip(nodes, map(pl.nodes.to_json, plans), units, strict=True))
        for first in range(0, fits, 300):
            lines = [line for number in range(first, min(fits, first + 300))
                     for line in _fit(source, number, kinds, releases)]
            ledger._history.commit(lambda state, lines=lines: lines)


def _fit(source: random.Random, number: int, kinds: list[tuple[pl.Node, dict[str, Any], int]],
         releases: int) -> list[Event]:
    (node, plan, units), name = source.choice(kinds), f"grant-{secrets.token_hex(6)}"
    moment = f"2026-{1 + number // 30000 % 12:02d}-01T{number // 3600 % 24:02d}:00:00+00:00"
    return [
        Granted(name, f"learner-{source.randrange(LEARNERS)}",
                f"table-{source.randrange(TABLES)}", plan, 0.0, units, 0, moment,
                holder=evolve(this_process(), pid=source.randrange(30_000))),
        *(Released(name, place, ["count"], [released_node((), node)],
                   [[0, 0, source.randrange(1, 100)]], "operating-system entropy")
          for place in range(releases)),
        Settled(name, True, releases, moment)]


def called(*words: str) -> tuple[float, float]:
    """CPU seconds and megabytes of one command."""
    with subprocess.Popen([sys.executable, "-c", _CALL, *words], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read().split()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return used.ru_utime + used.ru_stime, int(said[-1]) / 1024


def words_of(command: str, place: str) -> list[str]:
    """A command on a ledger, with what it cannot do without."""
    command, *flags = command.split()
    if command == "check":
        policy = Path(f"{place}.toml")
        policy.write_text("[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n", encoding="ascii")
        flags += ["--policy", str(policy)]
    more = {"record": ["0", "--data", "table-1"],
            "export": ["-o", f"{place}.jsonl", "--force"],
            "report": ["-o", f"{place}.html", "--force"]}
    return [command, place, *flags, *more.get(command, [])]


def report(_: object = None) -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for releases in (1, 8):
            place = str(Path(folder) / f"{releases}.ledger")
            mixed(place, GRANTS, releases)
            entries = (2 + releases) * GRANTS + 2
            for command, goal in COMMANDS.items():
                runs = [called(*words_of(command, place)) for _ in range(RUNS)]
                rows.append([f"`{command}`", f"{entries:,}", spread([cpu for cpu, _ in runs]),
                             f"{max(peak for _, peak in runs):.0f} MB", goal])
    return ("## Long ledgers\n\nEach command as a process of its own on a ledger of "
            f"{GRANTS:,} grants with one release or eight in an entry of its own each: CPU seconds "
            "and peak memory by the operating system's account. Grants differ in noise (200 "
            "levels), learner, table, process, time and cells. `show` of a history this long "
            "prices nothing again, which its first line says; it compares every stored byte with "
            "digests of blocks that the writer kept, and checks every other hash. `verify --all` "
            "prices everything and leaves a seal; with it `verify`, `check`, `top`, `risk` and "
            "`report` check every hash, and price what is new. The goals are those for an idle "
            "machine, and 300 MB each.\n\n"
            + table(["command", "entries", "CPU, s", "memory", "goal"], rows))
