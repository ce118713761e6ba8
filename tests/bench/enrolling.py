"""Protecting tables of people, and looking one up: what it costs beside a ledger of rows."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from measure import table

import privledger as pl

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
BUDGET, KEY = pl.Budget(1.0, 1e-6), b"k" * 32
WIDE = pl.Gaussian(300.0)
GOALS = {"by row": 2.0, "whole numbers": 6.0, "texts": 10.0}
ROWS, PEOPLE = 10_000_000, 1_000_000


def protecting(folder: Path, rows: int, people: int) -> list[list[str]]:
    """CPU seconds of `protect` and of a question, for both kinds of ids, and by row."""
    draw = np.random.default_rng(0)
    ids = draw.integers(0, people, rows)
    X = {"x": draw.uniform(-1, 1, rows)}
    kinds = {"by row": None, "whole numbers": ids,
             "texts": np.array([f"m{one:07d}" for one in ids.tolist()], dtype=object)}
    found = []
    for name, given in kinds.items():
        more = {} if given is None else {"unit": "person", "people_key": KEY}
        with pl.Ledger.create(folder / name, budget=BUDGET, filter="gdp", **more) as ledger:
            start = time.process_time()
            data = ledger.protect(X, schema=SCHEMA, name="t", people=given)
            taken = time.process_time() - start
            start = time.process_time()
            with ledger.request(WIDE, data) as session:
                session.release(WIDE, data.sum("x"))
            asked = time.process_time() - start
        found += [[f"protect, {name}", f"{taken:.2f} s", f"{GOALS[name]:g} s"],
                  [f"one sum, {name}", f"{asked:.2f} s", ""]]
    return found


def looking_up(folder: Path, people: int) -> list[str]:
    """Milliseconds of one person's record: 3 tables, 50 grants, of which 12 under a filter."""
    draw = np.random.default_rng(1)
    with pl.Ledger.create(folder / "l", budget=BUDGET, filter="gdp", unit="person",
                          people_key=KEY) as ledger:
        tables = [ledger.protect({"x": draw.uniform(-1, 1, people // part)}, schema=SCHEMA,
                                 name=name, people=draw.permutation(people)[:people // part])
                  for name, part in (("a", 1), ("b", 2), ("c", 4))]
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-3), name="scope")
        for place in range(50):
            data = tables[place % 3]
            if place < 12:
                with ledger.request(scope.node, data, scope=scope) as session:
                    session.release(WIDE, session.filtered().sum("x"))
            else:
                with ledger.request(WIDE, data) as session:
                    session.release(WIDE, data.count())
    found = []
    for person in range(5):
        with pl.Ledger.open(folder / "l", people_key=KEY, read_only=True) as opened:
            start = time.perf_counter()
            opened.record(person=person)
            found.append(1000 * (time.perf_counter() - start))
    return ["record of one person", f"{max(found):.1f} ms at most of 5", "50 ms"]


def report(_: object = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        rows = [*protecting(Path(folder), ROWS, PEOPLE), looking_up(Path(folder), PEOPLE)]
    return (f"## People\n\n{ROWS:,} rows of {PEOPLE:,} people, one column, one core; CPU time of "
            "`protect` with digests, roster and pieces on the disk. The record is one person's in "
            f"a ledger of {PEOPLE:,} people, three tables and 50 grants, of which 12 under a "
            "filter: wall time.\n\n" + table(["", "measured", "goal"], rows))
