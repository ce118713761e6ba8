"""Protecting tables of people, and looking one of them up: what it costs beside a ledger of rows.

    python tests/bench/enrolling.py [--rows 10000000] [--people 1000000]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from measure import asked

import privledger as pl

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
BUDGET, KEY = pl.Budget(1.0, 1e-6), b"k" * 32
WIDE = pl.Gaussian(300.0)
GOALS = {"whole numbers": 6.0, "texts": 10.0}


def protecting(folder: Path, rows: int, people: int) -> None:
    """CPU seconds of `protect` and of a question, for both kinds of ids, and by row."""
    draw = np.random.default_rng(0)
    ids = draw.integers(0, people, rows)
    X = {"x": draw.uniform(-1, 1, rows)}
    kinds = {"by row": None, "whole numbers": ids,
             "texts": np.array([f"m{one:07d}" for one in ids.tolist()], dtype=object)}
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
        goal = f"<= {GOALS[name]:g} s" if name in GOALS else ""
        print(f"| protect, {name} | {taken:.2f} s | {goal} |")
        print(f"| one sum, {name} | {asked:.2f} s | |")


def looking_up(folder: Path, people: int) -> None:
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
    print(f"| record of one person | {max(found):.1f} ms at most of 5 | <= 50 ms |")


def main() -> None:
    given = asked(__doc__, rows=10_000_000, people=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        protecting(Path(folder), given.rows, given.people)
        looking_up(Path(folder), given.people)


if __name__ == "__main__":
    main()
