"""Epsilon on the usual workloads, and how long it takes, beside dp-accounting's RDP."""

from __future__ import annotations

import statistics
from typing import Any

from measure import table, times

import privledger as pl

CASES = (
    ("Poisson .01, noise 1, 1,000 rounds", 0.01, 1.0, 1000, 1e-5),
    ("Poisson .001, noise .8, 100,000 rounds", 0.001, 0.8, 100_000, 1e-6),
    ("Poisson .1, noise 5, 500 rounds", 0.1, 5.0, 500, 1e-6),
    ("full batch, noise 50, 200 rounds", 1.0, 50.0, 200, 1e-6),
)


def _ours(rate: float, noise: float, rounds: int, delta: float) -> float:
    node: pl.Node = pl.Gaussian(noise)
    if rate < 1:
        node = pl.PoissonSample(rate, node)
    # A new curve each time: the fold's cache would make the figure meaningless.
    pl.graph.fold._cached.cache_clear()
    return pl.epsilon(pl.Repeat(node, rounds), delta)


def _peer(rate: float, noise: float, rounds: int, delta: float) -> float:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    event: Any = GaussianDpEvent(noise)
    if rate < 1:
        event = PoissonSampledDpEvent(rate, event)
    accountant = RdpAccountant()
    accountant.compose(SelfComposedDpEvent(event, rounds))
    return float(accountant.get_epsilon(delta))


def report(_: object = None) -> str:
    rows = []
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        peer = None
    else:
        peer = _peer
    for name, *case in CASES:
        cells = [name, f"{_ours(*case):.5f}", f"{_milliseconds(_ours, case):.2f}"]
        if peer is not None:
            cells += [f"{peer(*case):.5f}", f"{_milliseconds(peer, case):.2f}"]
        rows.append(cells)
    return ("## Accounting\n\nUpper bounds on epsilon; median of nine runs. Full batch is exact "
            "Gaussian DP. Privacy-loss distributions are not in this version.\n\n"
            + table(["workload", "epsilon", "ms", "dp-accounting RDP", "ms"], rows))


def _milliseconds(price: Any, case: list[Any]) -> float:
    price(*case)
    return statistics.median(times(lambda: price(*case), 9)) * 1e3
