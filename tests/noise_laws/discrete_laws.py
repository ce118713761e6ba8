"""Laws of discrete noise: single draws, and releases of counts and sums in whole steps."""

from __future__ import annotations

import math

import numpy as np

from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace
from privledger.questions.blocks import ColumnValue, Ones
from privledger.questions.query import Query
from tests.noise_laws.distances import FLOATS, Finding, Floats, Ints, chi_square, kolmogorov
from tests.noise_laws.sampler_laws import Bench
from tests.noise_laws.session_laws import grid, ledger_over
from tests.noise_laws.stratified import strata


def discrete_laplace(bench: Bench) -> list[Finding]:
    """One word for each draw: at most about 1/N from the law."""
    found = []
    for parameter in (2.0, 0.7, 1 / 9, 2.0**-20 / 1.1):
        source, dealer = bench.over(strata(bench.size, bench.random))
        draws = source.discrete_laplace(parameter, bench.size)
        found.append(Finding(_away(draws, parameter), 1 / bench.size + FLOATS, bench.size,
                             dealer.clean))
    return found


def _away(draws: Ints, parameter: float) -> float:
    def at(k: Floats) -> Floats:
        """P(X > k) is exp(-parameter (k + 1)) / (1 + exp(-parameter)) for k of at least zero."""
        beyond = np.where(k >= 0, k + 1, -k)
        tail = np.exp(-parameter * beyond) / (1 + math.exp(-parameter))
        return np.where(k >= 0, 1 - tail, tail)

    return kolmogorov(draws, at, lambda k: at(k - 1))


def discrete_gaussian(bench: Bench) -> list[Finding]:
    """Narrow ones value by value, wide ones in ranges of equal length, by chi-square."""
    size = bench.few(1 << 16)
    found = [_by_masses(bench.plain(size).discrete_gaussian(sigma, size), sigma)
             for sigma in (0.4, 1.0, 2.7, 300.5)]
    return [*found, _by_masses(bench.plain(size).discrete_gaussian(2.0**13 / 3, size), 2.0**13 / 3)]


def _by_masses(draws: Ints, sigma: float) -> Finding:
    reach = math.ceil(40 * sigma)
    steps = np.arange(-reach, reach + 1)
    law = np.exp(-np.square(steps / sigma) / 2)
    return _ranges(draws, steps, law / law.sum())


def _ranges(draws: Ints, steps: Ints, law: Floats) -> Finding:
    """Values are put together until at least 25 draws are expected of each range."""
    if not len(draws) or np.abs(draws).max() > steps[-1]:
        return Finding(math.inf, 0.0, len(draws))
    least = max(25 / len(draws), float(law.max()) / 40)
    upto = np.cumsum(law)
    place, ends = 0.0, []
    for at, whole in enumerate(upto[:-1].tolist()):
        if whole - place >= least and 1 - whole >= least:
            ends.append(at)
            place = whole
    edges = steps[np.array(ends)]
    seen = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(ends) + 1)
    return chi_square(seen, np.diff(upto[np.array(ends)], prepend=0.0, append=1.0))


def session_discrete(bench: Bench) -> list[Finding]:
    """Releases: the answer minus the truth is the node's own noise, times a step."""
    table, found = grid(64), []
    query = table.cells
    for relation, node, block, step, truth in (
        ("add_remove", DiscreteLaplace(0.4), Ones(), 1.0, table.counts),
        ("add_remove", DiscreteGaussian(3.0, 16), ColumnValue("c", 0.0, 1.0, 2.0), 0.125,
         table.sums)):
        source = bench.plain(1 << 16)
        ledger = ledger_over(source, relation)
        data = ledger.protect(table.X, schema=table.schema)
        with ledger.request(node, data) as session:
            answer = session.release(node, Query(data, (block,), query))
        moved = (np.asarray(answer) - truth).ravel() / step
        draws = np.rint(moved).astype(np.int64)
        if not np.array_equal(draws, moved):
            found.append(Finding(math.inf, 0.0, len(moved)))
        elif isinstance(node, DiscreteGaussian):
            found.append(_by_masses(draws, node.sigma))
        else:
            steps = np.arange(-200, 201)
            law = np.exp(-node.parameter * np.abs(steps))
            found.append(_ranges(draws, steps, law / law.sum()))
    return found
