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
from privledger.facts.schema import Column, Schema
from privledger.graph import LabelOnly, PoissonSample, Repeat, Tuning
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.ledger import Budget
from privledger.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    RandomizedResponse,
    TopK,
)
from privledger.noise.source import NoiseSource
from privledger.noise.trials_law import TrialsLaw
from privledger.questions.blocks import ColumnValue, Ones
from privledger.questions.cells import IntervalCells
from privledger.questions.cross_cells import CrossCells
from privledger.questions.custom_scores import CustomScores
from privledger.questions.grown import GrownCells
from privledger.questions.query import Query
from privledger.testing.distances import (
    FLOATS,
    Finding,
    Floats,
    Ints,
    Survival,
    by_flips,
    by_weight,
    chi_square,
    continuous,
    gaussian_tail,
    kolmogorov,
    laplace_tail,
    of_table,
)
from privledger.testing.sampler_laws import (
    WORD,
    Bench,
    last_true,
    response_distance,
    trials_table,
)
from privledger.testing.stratified import strata

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
    found, steps = [], []
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


_QUIET = Laplace(0.01, 1.0)
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
        node = PoissonSample(rate, _QUIET)
        with ledger.request(node, data) as session:
            counts = session.release(_QUIET, data.poisson(rate).query((Ones(),), made.cells))
        inside = np.rint(counts[made.counts > 0])
        members.append(inside)
        odd = float(((inside != 0) & (inside != 1)).sum())
        found.append(Finding(odd, 0.0, records))
        found.append(Finding(abs(float(inside.mean()) - rate), 1 / records + FLOATS, records,
                             dealer.clean))
    both = members[0] * 2 + members[1]
    return [*found, chi_square(np.bincount(both.astype(np.int64), minlength=4),
                               [0.81, 0.09, 0.09, 0.01])]


def session_coins(bench: Bench) -> list[Finding]:
    """Parts by private coins: as likely as their weights say, and drawn afresh."""
    made = grid(_side(bench, 1 << 16), every=True)
    found, held = [], []
    for parts, law in ((3, (1 / 3, 1 / 3, 1 / 3)), (3, (1 / 3, 1 / 3, 1 / 3)),
                       ((4, 1), (0.8, 0.2))):
        ledger = ledger_over(bench.plain(4 * made.side**2), "add_remove")
        data = ledger.protect(made.X, made.schema)
        with ledger.request(_QUIET, data) as session:
            part = data.partition(parts)
            counts = session.release(_QUIET, data.query((Ones(),), CrossCells(
                made.cells.first, part.cells)))
        table = np.rint(counts).reshape(made.side, len(law))
        whole = table[: made.side - 1]
        same = float((whole.sum(axis=1) != made.side - 1).sum())
        found += [Finding(same, 0.0, whole.size),
                  chi_square(whole.sum(axis=0).astype(np.int64), law)]
        held.append(whole)
    again = float((held[0] == held[1]).all())
    return [*found, Finding(again, 0.0, 1)]


_CLASSES = ("x", "y", "z")
_IN_LEAF = (3, 1, 0)


def _leaves(count: int) -> tuple[Schema, dict[str, Floats], NDArray[np.str_]]:
    """A table with 3 records of x and one of y in each of `count` leaves."""
    place: Floats = np.repeat(np.arange(float(count)), sum(_IN_LEAF)) + np.float64(0.5)
    labels = np.tile(np.repeat(_CLASSES, _IN_LEAF), count)
    schema = Schema("leaves of a test", (
        Column("a", "numeric", "feature", 0.0, float(count)),
        Column("label", "categorical", "target", categories=_CLASSES)))
    return schema, {"a": place}, labels


def _tree(data: Dataset, count: int) -> GrownCells:
    """The tree whose leaf j has the records between j and j + 1."""
    tree, width = data.root(data.bins(count)), count
    while width > 1:
        begins = np.arange(tree.count) * width
        width //= 2
        tree = tree.grow(np.zeros(tree.count, dtype=np.int64), begins + width)
    return tree


def _choices(source: NoiseSource, mechanism: Exponential | PermuteAndFlip, relation: str,
             leaves: int, times: int) -> Ints:
    """Classes chosen in every leaf, release after release."""
    schema, X, y = _leaves(leaves)
    ledger = ledger_over(source, relation)
    data = ledger.protect(X, y, schema)
    with ledger.request(Repeat(mechanism, times), data) as session:
        tree, labels = _tree(data, leaves), data.cells("label")
        picks = [np.asarray(session.release(mechanism, data.choose_label(tree, labels)))
                 for _ in range(times)]
    return np.concatenate(picks)


def session_exponential(bench: Bench) -> list[Finding]:
    """Choices of labels: exp(epsilon * count / (2 * sensitivity)), two under replace-one."""
    found = []
    for relation, sensitivity in (("add_remove", 1.0), ("replace_one", 2.0)):
        times = max(1, bench.few(1 << 14) >> 10)
        size = times << 10
        source, dealer = bench.over(strata(size, bench.random))
        picks = _choices(source, Exponential(1.7, (0.0, 1.0)), relation, 1 << 10, times)
        law = by_weight([3.0, 1.0, 0.0], [1, 1, 1], 1.7 / (2 * sensitivity))
        found.append(Finding(of_table(picks, law), 1 / size + FLOATS, size, dealer.clean))
    return found


def session_flips(bench: Bench) -> list[Finding]:
    """Choices of labels by permute-and-flip: counts are monotone, so the rate is epsilon / s."""
    found = []
    for relation, sensitivity in (("add_remove", 1.0), ("replace_one", 2.0)):
        times, rate = max(1, bench.few(1 << 14) >> 10), 1.0 / sensitivity
        node = PermuteAndFlip(1.0)
        picks = _choices(bench.plain(times << 13), node, relation, 1 << 10, times)
        found.append(chi_square(np.bincount(picks, minlength=3),
                                by_flips([3.0, 1.0, 0.0], rate)))

        def second(word: int, relation: str = relation,
                   node: PermuteAndFlip = node) -> bool:
            # Coins of the three classes, the last one never a head; the last of the heads wins.
            deck = np.array([0, word, WORD - 1, WORD - 1], dtype=np.uint64)
            source, _ = bench.over(deck, singles=True)
            return int(_choices(source, node, relation, 1, 1)[0]) == 1

        true = math.exp(-2 * rate)
        found.append(Finding(abs(last_true(second) / WORD - true), FLOATS, 44))
    return found


def session_top_k(bench: Bench) -> list[Finding]:
    """Features by top-k: of two, the word at which the worse one wins."""
    schema = Schema("two features", (
        Column("a", "numeric", "feature", 0.0, 1.0), Column("b", "numeric", "feature", 0.0, 1.0),
        Column("t", "numeric", "target", 0.0, 1.0)))
    held = np.linspace(0.0, 1.0, 5)
    scores = CustomScores(lambda X, y: np.array([1.0, 0.0]), 1.0, "a test", (-1.0, 1.0))
    found = []
    for node in (TopK(1, 1.6), TopK(1, 1.6, "gumbel")):
        first = int(bench.random.integers64(1)[0]) | 1 << 62

        def second(word: int, node: TopK = node, first: int = first) -> bool:
            source, _ = bench.over(np.array([first, word], dtype=np.uint64), singles=True)
            ledger = ledger_over(source, "add_remove")
            data = ledger.protect({"a": held, "b": held}, held, schema)
            with ledger.request(node, data) as session:
                return int(session.release(node, data.features_by(scores))[0]) == 1

        shrunk = math.exp(-1.6 / 2 * 0.5 * 2)  # rate times the difference of the losses, 1
        share = first / WORD
        true = share * shrunk if node.noise == "exponential" else 1 - (1 - share) ** shrunk
        # Sensitivities have room for rounding: the rate is lower by at most 2**-18 of itself.
        found.append(Finding(abs(last_true(second) / WORD - true), 2.0**-18, 44))
    return found


def session_responses(bench: Bench) -> list[Finding]:
    """Labels by randomised response: the node's probability and buckets."""
    size, noise, classes = bench.few(1 << 16), 0.4, ("w", "x", "y", "z")
    schema = Schema("labels of a test", (
        Column("a", "numeric", "feature", 0.0, 1.0),
        Column("label", "categorical", "target", categories=classes)))
    source, dealer = bench.over(strata(size, bench.random))
    ledger = ledger_over(source, "replace_label")
    data = ledger.protect({"a": np.zeros(size)}, np.full(size, "y"), schema, public_features=True)
    node = RandomizedResponse(noise, 4)
    with ledger.request(LabelOnly(node), data) as session:
        answers = session.release(node, data.labels())
    return [response_distance(np.asarray(answers), 2, 4, noise, dealer)]


def session_trials(bench: Bench) -> list[Finding]:
    """How often a tuning runs its trial."""
    found = []
    for node, law in (
            (Tuning(_QUIET, shape=1.0, success=0.25), TrialsLaw("negative_binomial", 1.0, 0.25)),
            (Tuning(_QUIET, "poisson", mean=2.5), TrialsLaw("poisson", mean=2.5))):
        for k in (1, 3):
            def at_most(word: int, node: Tuning = node, k: int = k) -> bool:
                return _ran(bench, node, word) <= k

            true = math.fsum(trials_table(law, k))
            found.append(Finding(abs(last_true(at_most) / WORD - true), FLOATS, 44))
    return found


def _ran(bench: Bench, node: Tuning, word: int) -> int:
    """Runs of a tuning whose first word is `word`."""
    source, _ = bench.over(np.array([word], dtype=np.uint64), singles=True)
    ledger, ran = ledger_over(source, "add_remove"), 0

    def trial(data: Dataset, candidate: int) -> tuple[float, None]:
        nonlocal ran
        ran += 1
        return 0.0, None

    data = ledger.protect({"a": np.zeros(2)}, Schema("one", (
        Column("a", "numeric", "feature", 0.0, 1.0),)))
    with ledger.request(node, data) as session:
        session.best_of(node, 1, trial)
    return ran
