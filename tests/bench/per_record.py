"""What a round costs each of a million records: time, time to build the table, excess."""

from __future__ import annotations

import math

import numpy as np
from measure import spread, table, times

import privledger as pl
from privledger.accounting import records

RECORDS = 1_000_000
ORDERS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
SAMPLE = 1000
CASES = (
    ("Gaussian, noise 1", 1.0, None),
    ("Laplace, epsilon 1", None, 1.0),
    ("Poisson .01, Gaussian, noise 1", 1.0, None),
    ("Poisson .0001, Gaussian, noise .5", 0.5, None),
    ("Poisson .1, Gaussian, noise 5", 5.0, None),
    ("Poisson .01, Laplace, epsilon 1", None, 1.0))
_TABLES = tuple(one for one in vars(records).values() if hasattr(one, "cache_clear"))


def _node(name: str, noise: float | None, epsilon: float | None, share: float = 1.0) -> pl.Node:
    node: pl.Node = (pl.Gaussian(noise / share) if noise is not None
                     else pl.Laplace(1 / (epsilon or 1.0) / share))
    rate = name.split()[1].rstrip(",")
    return pl.PoissonSample(float(rate), node) if name.startswith("Poisson") else node


def _forget() -> None:
    # A round with a table of its own: the cache would make the figure meaningless.
    for built in _TABLES:
        built.cache_clear()


def _excess(case: tuple[str, float | None, float | None]) -> tuple[float, float]:
    """Smallest and largest of bound / exact - 1 on a sample of shares, all orders."""
    source = np.random.default_rng(7)
    shares = np.concatenate((source.random(SAMPLE // 2), 10 ** source.uniform(-5, 0, SAMPLE // 2)))
    found = pl.nodes.rdp_per_record(_node(*case), shares, ORDERS)
    exact = np.array([pl.rdp(_node(*case, share), ORDERS) for share in shares.tolist()])
    ratio = found / exact - 1
    return float(ratio.min()), float(ratio.max())


def report(_: object = None) -> str:
    shares = np.random.default_rng(1).random(RECORDS)
    rows = []
    for case in CASES:
        node = _node(*case)

        def run(which: np.ndarray, node: pl.Node = node) -> None:
            _forget()
            pl.nodes.rdp_per_record(node, which, ORDERS)

        run(shares)
        whole = [1e3 * t for t in times(lambda run=run: run(shares), 7)]
        build = [1e3 * t for t in times(lambda run=run: run(shares[:1]), 7)]
        low, high = _excess(case)
        below = "never" if low >= -1e-12 else f"{-low:.1e}"
        shown = "exact" if high < 1e-10 else f"{math.ceil(1e4 * high) / 100:.2f} %"
        rows.append([case[0], spread(whole), spread(build), below, shown])
    return (f"## One round, record by record\n\n`rdp_per_record` for {RECORDS:,} records with "
            f"shares of their own at {len(ORDERS)} orders; milliseconds of seven runs, each with "
            "a new table, and the part that builds it. The last two columns compare "
            f"{SAMPLE:,} shares with the node of smaller sensitivity.\n\n"
            + table(["round", "ms", "of which the table", "below exact", "largest excess"], rows))
