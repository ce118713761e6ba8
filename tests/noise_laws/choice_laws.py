"""Laws of whole releases that choose or answer: labels, features, responses, tunings.

As `session_laws.py`: what a release promises is computed here, from its node and the relation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privledger.graph import LabelOnly, Repeat, Tuning
from privledger.graph.selection import Exponential, PermuteAndFlip, RandomizedResponse, TopK
from privledger.guard.dataset import Dataset
from privledger.noise.source import NoiseSource
from privledger.noise.trials_law import TrialsLaw
from privledger.questions.feature_scores import CustomScores
from privledger.questions.grown import GrownCells
from privledger.tables.schema import Column, Schema
from tests.noise_laws.distances import (
    FLOATS,
    Finding,
    Floats,
    Ints,
    by_flips,
    by_weight,
    chi_square,
    of_table,
)
from tests.noise_laws.sampler_laws import WORD, Bench, last_true, response_distance, trials_table
from tests.noise_laws.session_laws import QUIET, ledger_over
from tests.noise_laws.stratified import strata

Chooser = Exponential | PermuteAndFlip | TopK
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
        found.append(chi_square(np.bincount(picks, minlength=3), by_flips([3.0, 1.0, 0.0], rate)))

        def second(word: int, relation: str = relation, node: PermuteAndFlip = node) -> bool:
            # Coins of the three classes, the last one never a head; the last of the heads wins.
            deck = np.array([0, word, WORD - 1, WORD - 1], dtype=np.uint64)
            source, _ = bench.over(deck, singles=True)
            return int(_choices(source, node, relation, 1, 1)[0]) == 1

        true = math.exp(-2 * rate)
        found.append(Finding(abs(last_true(second) / WORD - true), FLOATS, 44))
    return found


def session_features(bench: Bench) -> list[Finding]:
    """Choices of one of two features: the word at which the other one wins."""
    first = int(bench.random.integers64(1)[0]) | 1 << 62
    share, shrunk = first / WORD, math.exp(-1.6 / 2)  # scores are 1 apart and move both ways
    cases: tuple[tuple[Chooser, list[int], list[int], int, float], ...] = (
        (Exponential(1.6), [], [], 0, 1 / (1 + shrunk)),
        (PermuteAndFlip(1.6), [0], [WORD - 1], 1, shrunk),
        (TopK(1, 1.6), [first], [], 1, share * shrunk),
        (TopK(1, 1.6, "gumbel"), [first], [], 1, 1 - (1 - share) ** shrunk))
    found = []
    for node, before, behind, wanted, true in cases:
        def wins(word: int, node: Chooser = node, wanted: int = wanted,
                 before: list[int] = before, behind: list[int] = behind) -> bool:
            deck = np.array([*before, word, *behind], dtype=np.uint64)
            return _feature(bench.over(deck, singles=True)[0], node) == wanted

        # Sensitivities have room for rounding: the rate is lower by at most 2**-18 of itself.
        found.append(Finding(abs(last_true(wins) / WORD - true), 2.0**-18, 44))
    return found


def _feature(source: NoiseSource, node: Chooser) -> int:
    """Which of two features is chosen, the first being better by 1."""
    schema = Schema("two features", (
        Column("a", "numeric", "feature", 0.0, 1.0), Column("b", "numeric", "feature", 0.0, 1.0),
        Column("t", "numeric", "target", 0.0, 1.0)))
    held = np.linspace(0.0, 1.0, 5)
    scores = CustomScores(lambda X, y: np.array([1.0, 0.0]), 1.0, "a test", (-1.0, 1.0))
    ledger = ledger_over(source, "add_remove")
    data = ledger.protect({"a": held, "b": held}, held, schema)
    with ledger.request(node, data) as session:
        return int(np.asarray(session.release(node, data.features_by(scores))).ravel()[0])


def session_responses(bench: Bench) -> list[Finding]:
    """Labels by randomised response: the node's probability and buckets; then among candidates,
    where a label outside of them counts as a uniform one."""
    size, noise = bench.few(1 << 16), 0.4
    source, dealer = bench.over(strata(size, bench.random))
    answers = _answers(source, RandomizedResponse(noise, 4), size, None)
    found = [response_distance(answers, 2, 4, noise, dealer)]
    for candidates, law in (((0, 2), {0: noise / 2, 2: 1 - noise / 2}), ((3, 1), {3: 0.5, 1: 0.5})):
        among = np.tile(np.array(candidates, dtype=np.int64), (size, 1))
        answers = _answers(bench.plain(4 * size), RandomizedResponse(noise, 2), size, among)
        counts = np.bincount(answers, minlength=4)
        found += [chi_square(counts[list(candidates)], [law[code] for code in candidates]),
                  Finding(float(size - counts[list(candidates)].sum()), 0.0, size)]
    return found


def _answers(source: NoiseSource, node: RandomizedResponse, size: int,
             candidates: Ints | None) -> Ints:
    """What `size` records of the third of four classes answer."""
    schema = Schema("labels of a test", (
        Column("a", "numeric", "feature", 0.0, 1.0),
        Column("label", "categorical", "target", categories=("w", "x", "y", "z"))))
    ledger = ledger_over(source, "replace_label")
    data = ledger.protect({"a": np.zeros(size)}, np.full(size, "y"), schema, public_features=True)
    with ledger.request(LabelOnly(node), data) as session:
        return np.asarray(session.release(node, data.labels(candidates=candidates)))


def session_trials(bench: Bench) -> list[Finding]:
    """How often a tuning runs its trial."""
    found = []
    for node, law in (
            (Tuning(QUIET, shape=1.0, success=0.25), TrialsLaw("negative_binomial", 1.0, 0.25)),
            (Tuning(QUIET, "poisson", mean=2.5), TrialsLaw("poisson", mean=2.5))):
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
