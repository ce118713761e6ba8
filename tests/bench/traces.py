"""What a reader has to open: files entered, and moves between packages, of six usual traces.

`python tests/bench/traces.py` prints the table; `--files` also names the files. Every call
of a function of ours counts, comprehensions and properties too; imports do not, because each
trace runs once before it is watched. A move is a call of another part of the house than the
call before: `privledger/guard` after `privledger/graph`, or one of the learners' files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import privledger_learners

import privledger as pl

ROOTS = tuple(Path(package.__file__).parent for package in (pl, privledger_learners))
SCHEMA = pl.Schema("traced", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("colour", "categorical", "feature", categories=("red", "green")),
    pl.Column("target", "numeric", "target", 0.0, 10.0)))
GAUSSIAN = pl.Gaussian(50.0)


class Trace(NamedTuple):
    """Calls per file, named from the folder above its package, and moves between packages."""

    files: Counter[str]
    moves: int

    def entered(self, *without: str) -> list[str]:
        """Files that were entered, but for those below the packages `without`."""
        return sorted(name for name in self.files if _package(name) not in without)


def _package(name: str) -> str:
    """`privledger/guard` for a file below it; `privledger` for a file at the top."""
    return "/".join(name.split("/")[:-1][:2])


def trace(work: Callable[[], Any]) -> Trace:
    """Watch one call of `work`, in this thread."""
    files, packages = Counter[str](), list[str]()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        for root in ROOTS:
            if frame.f_code.co_filename.startswith(f"{root}/"):
                name = str(Path(frame.f_code.co_filename).relative_to(root.parent))
                files[name] += 1
                packages.append(_package(name))

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Trace(files, sum(one != other for one, other in pairwise(packages)))


def table(rows: int = 200) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A little table that fits `SCHEMA`; the same each time."""
    place = np.arange(rows)
    columns = {"size": place / rows, "colour": np.array(["red", "green"])[place % 2]}
    return columns, (place % 11).astype(float)


NAMES = ("plan", "reserve", "one release", "record", "verify", "three-tree fit")


def traces(names: Sequence[str] = NAMES) -> Iterator[tuple[str, Trace]]:
    """Name and trace of each; the second of two runs, so that what is loaded late is loaded."""
    for name in names:
        for _ in range(2):
            found = trace(_work(name))
        yield name, found


def _work(name: str) -> Callable[[], Any]:
    """What is watched under this name, with a ledger of its own and one fit in it."""
    learner = privledger_learners.SGBDTRegressor(
        epsilon=1.0, delta=1e-6, schema=SCHEMA, n_trees=3, random_state=0)
    ledger = pl.Ledger.create(None, budget=pl.Budget(10.0, 1e-6), filter="gdp")
    data = ledger.protect(*table(), SCHEMA, name="t")
    plan, query = pl.Repeat(GAUSSIAN, 2), data.count()
    with ledger.request(plan, data, learner="before") as session:
        session.release(GAUSSIAN, query)
    if name == "one release":
        session = ledger.request(plan, data)
        return lambda: session.release(GAUSSIAN, query)
    return {
        "plan": lambda: learner.plan(SCHEMA), "reserve": lambda: ledger.request(GAUSSIAN, data),
        "record": lambda: ledger.record(3, "t"), "verify": ledger.verify,
        "three-tree fit": lambda: learner.fit(data),
    }[name]


def main() -> None:
    """Print the table, and the files with `--files`."""
    print(f"{'trace':16}{'files':>7}{'without accounting and noise':>30}{'moves':>8}")
    for name, found in traces():
        fewer = found.entered("privledger/accounting", "privledger/noise")
        print(f"{name:16}{len(found.entered()):7}{len(fewer):30}{found.moves:8}")
        if "--files" in sys.argv:
            for file in found.entered():
                print(f"    {found.files[file]:6} {file}")


if __name__ == "__main__":
    main()
