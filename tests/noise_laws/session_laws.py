"""Laws of whole releases: a ledger, a table made here, a grant, and answers minus the truth.

What a release promises is computed here from its node and from the relation, with the table of
sensitivities of docs/proofs/queries.md; nothing is asked of the code that draws. The ledgers are
simulation ledgers: nothing here protects anybody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.graph import (
    Correlated,
    FixedSizeSample,
    PoissonSample,
    RandomAllocation,
    Repeat,
    TruncatedPoissonSample,
)
from privledger.graph.additive import Gaussian, Laplace
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.ledger import Budget
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import ColumnValue, Ones
from privledger.questions.cells import CrossCells, IntervalCells
from privledger.questions.query import Query
from privledger.tables.schema import Column, Schema
from tests.noise_laws.distances import (
    FLOATS,
    Finding,
    Floats,
    Ints,
    Survival,
    chi_square,
    continuous,
    gaussian_tail,
    kolmogorov,
    laplace_tail,
)
from tests.noise_laws.sampler_laws import Bench
from tests.noise_laws.stratified import Dealer, strata

_RECORDS = 3000
_CLIP = 2.0
_DENSITY = 0.5  # no law here of scale 1 is denser


@frozen(eq=False)
class Grid:
    """A table on a square of cells, and what is true of it.

    Attributes:
        side: cells in each direction. counts, sums: of every cell, shape (side ** 2,); sums are
            of the second feature, cut to [-2, 2].
    """

    side: int
    schema: Schema
    X: dict[str, Floats]
    counts: Ints
    sums: Floats

    @property
    def cells(self) -> CrossCells:
        """Cell number: place in the first direction times side, plus place in the second."""
        edges = tuple(float(place) for place in range(1, self.side - 1))
        return CrossCells(IntervalCells("a", edges), IntervalCells("b", edges))


def grid(side: int, every: bool = False) -> Grid:
    """A table by arithmetic: one record in each whole cell if `every`, else a few thousand."""
    inner = side - 1  # the last cell of each direction is for missing values
    place = np.arange(inner * inner if every else _RECORDS, dtype=np.int64)
    first, second = ((place // inner, place % inner) if every else
                     (place * 37 % inner, place * place * 11 % inner))
    held: dict[str, Floats] = {
        name: column.astype(np.float64) for name, column in (
            ("a", first + 0.5), ("b", second + 0.5), ("c", (place % 41 - 20) / 8))}
    where = first * side + second
    value: Floats = np.clip(held["c"], -_CLIP, _CLIP)
    schema = Schema("cells of a test", (
        Column("a", "numeric", "feature", 0.0, float(side)),
        Column("b", "numeric", "feature", 0.0, float(side)),
        Column("c", "numeric", "feature", -4.0, 4.0)))
    sums: Floats = np.bincount(where, weights=value, minlength=side * side).astype(np.float64)
    return Grid(side, schema, held, np.bincount(where, minlength=side * side), sums)


def ledger_over(source: NoiseSource, relation: str) -> Ledger:
    """A simulation ledger without a limit to speak of, whose noise is `source`."""
    ledger = Ledger.create(None, budget=Budget(1e9, 1e-3), relation=relation, filter="basic",
                           mode="simulation", seed=0)
    ledger._source = source
    return ledger


def session_gaussian(bench: Bench) -> list[Finding]:
    """Joint Gaussian releases: sigma is sensitivity * noise_multiplier / sqrt(share)."""
    shares, multiplier, found = (0.3, 0.7), 1.3, []
    for relation, sensitivities in (("add_remove", (1.0, _CLIP)),
                                    ("replace_one", (math.sqrt(2), 2 * _CLIP))):
        scales = [each * multiplier / math.sqrt(share)
                  for each, share in zip(sensitivities, shares, strict=True)]
        found += _releases(bench, Gaussian(multiplier, shares), relation, scales, gaussian_tail,
                           sensitivities)
    return found


def session_laplace(bench: Bench) -> list[Finding]:
    """Joint Laplace releases: b is the node's scale, and the node covers the sensitivity."""
    found = []
    for relation, sensitivities in (("add_remove", (1.0, _CLIP)),
                                    ("replace_one", (2.0, 2 * _CLIP))):
        scale, total = 3.1, math.fsum(sensitivities)
        found += _releases(bench, Laplace(scale, total), relation, [scale, scale], laplace_tail,
                           sensitivities)
        found.append(_refused(bench, Laplace(scale, total * (1 - 1e-6)), relation))
    return found


def _asked(data: Dataset, made: Grid) -> Query:
    return data.query((Ones(), ColumnValue("c", 0.0, 1.0, _CLIP)), made.cells)


def _releases(bench: Bench, mechanism: Gaussian | Laplace, relation: str, scales: Sequence[float],
              tail: Survival, sensitivities: Sequence[float]) -> list[Finding]:
    """Two releases under one grant and one under another, of two blocks each."""
    made = grid(_side(bench, 1 << 16))
    cells = made.side**2
    source, dealer = bench.over(np.concatenate([strata(cells, bench.random) for _ in range(6)]))
    ledger = ledger_over(source, relation)
    data = ledger.protect(made.X, made.schema)
    noises: list[Floats] = []
    for times in (2, 1):
        with ledger.request(Repeat(mechanism, times), data, delta=1e-5) as session:
            for _ in range(times):
                counts, sums = session.release(mechanism, _asked(data, made))
                noises += [counts - made.counts, sums - made.sums]
    return _judged(noises, scales, tail, sensitivities, dealer)


def session_correlated(bench: Bench) -> list[Finding]:
    """Rows of a stream: the strategy times the sums, and fresh noise of the node's own width."""
    made, held = grid(_side(bench, 1 << 16)), (1.0, 0.5)
    source, dealer = bench.over(np.concatenate([
        strata(made.side**2, bench.random) for _ in range(3)]))
    data = ledger_over(source, "add_remove").protect(made.X, made.schema)
    node, noises = Correlated(Gaussian(1.3), held, 3, 1, 3), list[Floats]()
    with data.ledger.request(node, data, delta=1e-5) as session:
        stream = data.correlated()
        for step in range(3):
            row = session.release(node, stream.step(data.query((Ones(),), made.cells)))
            noises.append(row - math.fsum(held[:step + 1]) * made.counts)
    return _judged(noises, (1.3, 1.3), gaussian_tail, (1.0, 1.0), dealer)


def _judged(noises: Sequence[Floats], scales: Sequence[float], tail: Survival,
            sensitivities: Sequence[float], dealer: Dealer) -> list[Finding]:
    """Blocks of two kinds in turn, each against its own law and all against each other."""
    found, steps, cells = [], [], len(noises[0])
    for place, noise in enumerate(noises):
        scale, most = scales[place % 2], sensitivities[place % 2]
        at = continuous(tail, scale)
        # The grid: a power of two, below twice the larger of two public numbers.
        steps.append(2 * max(most * 2.0**-20, scale * 2.0**-26) / scale)
        limit = 1 / cells + _DENSITY * steps[-1] / 2 + FLOATS
        found.append(Finding(kolmogorov(noise, at, at), limit, cells, dealer.clean))
    return found + _echoes(noises, max(steps))


def _echoes(noises: Sequence[Floats], step: float) -> list[Finding]:
    """Numbers that come again, in one batch or in two at one place; quarters that go together.

    Args:
        step: of the grid, over the scale: how likely equal numbers are by chance.
    """
    found, cells = [], len(noises[0])
    within = _by_chance(cells**3 * step**2 / 60)
    across = _by_chance(cells * step)
    for place, one in enumerate(noises):
        again = cells - len(np.unique(one))
        found += [Finding(float(again), within, cells), _together(one[:-1], one[1:])]
        for other in noises[place + 1 :]:
            same = int((np.abs(one) == np.abs(other)).sum())
            found += [Finding(float(same), across, cells), _together(one, other)]
    return found


def _by_chance(mean: float) -> float:
    """What a number of equal pairs passes with probability below 2e-9, if `mean` is above its
    mean: Chatterjee 2007 (Stein's method for concentration inequalities), Proposition 1.1."""
    return mean + 21 + math.sqrt(430 + 84 * mean)


def _together(one: Floats, other: Floats) -> Finding:
    """Whether quarters of one batch go with quarters of the other, by chi-square."""
    first, second = (np.searchsorted(np.quantile(held, (0.25, 0.5, 0.75)), held)
                     for held in (one, other))
    counts = np.bincount(first * 4 + second, minlength=16)
    return chi_square(counts, np.full(16, 1 / 16))


def _refused(bench: Bench, mechanism: Laplace, relation: str) -> Finding:
    """Zero if a node that promises less than the derived sensitivity is refused, else one."""
    made = grid(8)
    source, _ = bench.over(np.zeros(0, dtype=np.uint64))
    ledger = ledger_over(source, relation)
    data = ledger.protect(made.X, made.schema)
    with ledger.request(mechanism, data) as session:
        try:
            session.release(mechanism, _asked(data, made))
        except UnsupportedNode:
            return Finding(0.0, 0.0, 1)
    return Finding(1.0, 0.0, 1)


def _side(bench: Bench, most: int) -> int:
    """A power of two whose square is at most the number of draws."""
    return 1 << ((bench.few(most).bit_length() - 1) // 2)


QUIET = Laplace(0.01, 1.0)
"""Noise that a count of whole records outshouts: above 1/2 with probability exp(-50)."""


def session_sample(bench: Bench) -> list[Finding]:
    """Poisson samples: one coin for each record, at the handle's rate; fresh for each handle."""
    found, members, made = [], [], grid(_side(bench, 1 << 16), every=True)
    records = (made.side - 1) ** 2
    for rate in (0.1, 0.1, 0.75):
        source, dealer = bench.over(np.concatenate([
            strata(records, bench.random), strata(made.side**2, bench.random)]))
        ledger = ledger_over(source, "add_remove")
        data = ledger.protect(made.X, made.schema)
        node = PoissonSample(rate, QUIET)
        with ledger.request(node, data) as session:
            counts = session.release(QUIET, data.poisson(rate).query((Ones(),), made.cells))
        inside = np.rint(counts[made.counts > 0])
        members.append(inside)
        odd = float(((inside != 0) & (inside != 1)).sum())
        found.append(Finding(odd, 0.0, records))
        found.append(Finding(abs(float(inside.mean()) - rate), 1 / records + FLOATS, records,
                             dealer.clean))
    both = members[0] * 2 + members[1]
    return [*found, chi_square(np.bincount(both.astype(np.int64), minlength=4),
                               [0.81, 0.09, 0.09, 0.01])]


def session_fixed(bench: Bench) -> list[Finding]:
    """Samples of a fixed size: exactly so many, anywhere, and drawn afresh for each handle."""
    found, members, made = [], [], grid(_side(bench, 1 << 16), every=True)
    records = (made.side - 1) ** 2
    quiet, size = Laplace(0.01, 2.0), records // 2
    ledger = ledger_over(bench.plain(2 * (records + made.side**2)), "replace_one")
    data = ledger.protect(made.X, made.schema)
    for _ in range(2):
        with ledger.request(FixedSizeSample(size, records, quiet), data) as session:
            counts = session.release(quiet, data.fixed_size(size, records).query(
                (Ones(),), made.cells))
        inside = np.rint(counts[made.counts > 0]).astype(np.int64)
        members.append(inside)
        found.append(Finding(float(abs(int(inside.sum()) - size)), 0.0, records))
        found.append(Finding(float(((inside != 0) & (inside != 1)).sum()), 0.0, records))
        found += _spread(inside, records)
    return [*found, chi_square(np.bincount(members[0] * 2 + members[1], minlength=4),
                               [(records - size) ** 2 / records**2,
                                size * (records - size) / records**2,
                                size * (records - size) / records**2, size**2 / records**2])]


LOUD = Gaussian(0.01)
"""As `QUIET`, where Gaussian noise is priced only: above 1/2 with probability exp(-1250)."""


def session_truncated(bench: Bench) -> list[Finding]:
    """Samples that are cut off: at most so many, exactly so many where more came, anybody."""
    found, made = [], grid(_side(bench, 1 << 16), every=True)
    records = (made.side - 1) ** 2
    source = bench.plain(5 * records + 2 * made.side**2)
    for most, full in ((records // 4, True), (records, False)):
        ledger = ledger_over(source, "add_remove")
        data = ledger.protect(made.X, made.schema)
        node = TruncatedPoissonSample(0.5, most, 10**15, LOUD)
        with ledger.request(node, data) as session:
            counts = session.release(LOUD, data.truncated_poisson(0.5, most, 10**15).query(
                (Ones(),), made.cells))
        inside = np.rint(counts[made.counts > 0]).astype(np.int64)
        found.append(Finding(float(((inside != 0) & (inside != 1)).sum()), 0.0, records))
        if full:
            found.append(Finding(float(abs(int(inside.sum()) - most)), 0.0, records))
            found += _spread(inside, records)
        else:
            found.append(chi_square(np.bincount(inside, minlength=2), [0.5, 0.5]))
    return found


def _spread(inside: NDArray[np.int64], records: int) -> list[Finding]:
    """Those inside are as many among every sixteenth record, and in every stretch of them.
    Without replacement the counts vary less than the law that chi-square assumes."""
    there = np.flatnonzero(inside == 1)
    return [chi_square(np.bincount(there % 16, minlength=16), [
        len(range(place, records, 16)) / records for place in range(16)]),
            chi_square(np.bincount(there * 16 // records, minlength=16), [
                len(range(-(-place * records // 16), -(-(place + 1) * records // 16))) / records
                for place in range(16)])]


def session_allocation(bench: Bench) -> list[Finding]:
    """Random allocations: every record in exactly one round, any as likely, drawn afresh."""
    found, drawn, made, steps = [], [], grid(_side(bench, 1 << 16), every=True), 3
    records = (made.side - 1) ** 2
    source = bench.plain(2 * (records + steps * made.side**2))
    for _ in range(2):
        ledger = ledger_over(source, "add_remove")
        data = ledger.protect(made.X, made.schema)
        with ledger.request(RandomAllocation(steps, LOUD), data) as session:
            rounds = data.random_allocation(steps)
            inside = np.array([np.rint(session.release(LOUD, rounds[step].query(
                (Ones(),), made.cells))[made.counts > 0]) for step in range(steps)])
        found.append(Finding(float((np.sort(inside, axis=0) != [[0], [0], [1]]).sum()), 0.0,
                             records))
        drawn.append(np.argmax(inside, axis=0))
    return [*found, chi_square(np.bincount(drawn[0] * steps + drawn[1], minlength=steps**2),
                               [1 / steps**2] * steps**2)]


def session_coins(bench: Bench) -> list[Finding]:
    """Parts by private coins: as likely as their weights say, and drawn afresh."""
    made = grid(_side(bench, 1 << 16), every=True)
    found, held = [], []
    for parts, law in ((3, (1 / 3, 1 / 3, 1 / 3)), (3, (1 / 3, 1 / 3, 1 / 3)),
                       ((4, 1), (0.8, 0.2))):
        ledger = ledger_over(bench.plain(4 * made.side**2), "add_remove")
        data = ledger.protect(made.X, made.schema)
        with ledger.request(QUIET, data) as session:
            part = data.partition(parts)
            counts = session.release(QUIET, data.query((Ones(),), CrossCells(
                made.cells.first, part.cells)))
        table = np.rint(counts).reshape(made.side, len(law))
        whole = table[: made.side - 1]
        same = float((whole.sum(axis=1) != made.side - 1).sum())
        found += [Finding(same, 0.0, whole.size),
                  chi_square(whole.sum(axis=0).astype(np.int64), law)]
        held.append(whole)
    again = float((held[0] == held[1]).all())
    return [*found, Finding(again, 0.0, 1)]
