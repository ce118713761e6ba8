"""Laws of single calls of a noise source: its words come from a deck, its samplers are real.

Every bound is proved in docs/proofs/noise-law.md, under the name of the law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from attrs import frozen

from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource
from privledger.noise.trials_law import TrialsLaw, number_of_trials
from tests.noise_laws.distances import (
    FLOATS,
    Finding,
    Floats,
    Ints,
    Survival,
    by_flips,
    by_weight,
    chi_square,
    gaussian_tail,
    kolmogorov,
    laplace_tail,
    negative_binomial,
    of_table,
    poisson,
    rounded_to,
)
from tests.noise_laws.stratified import Dealer, Deck, in_order, strata

WORD = 1 << 64
Noises = Literal["exponential", "gumbel"]


@frozen
class Bench:
    """What a law is looked at with.

    Attributes:
        make: a source of noise over a stream of words.
        size: draws of a law that costs little for each; others have fewer.
        random: where the words lie inside their strata.
    """

    make: Callable[[Dealer], NoiseSource]
    size: int
    random: SeededSource

    def few(self, most: int) -> int:
        """A number of draws for a law that is slow."""
        return min(self.size, most)

    def over(self, deck: Deck, *, singles: bool = False) -> tuple[NoiseSource, Dealer]:
        """A source over a deck, and who deals it."""
        dealer = Dealer(deck, self.random, singles=singles)
        return self.make(dealer), dealer

    def plain(self, size: int) -> NoiseSource:
        """A source over `size` independent words; more may be asked for."""
        return self.make(Dealer(self.random.integers64(size), self.random, singles=True))


def gaussian(bench: Bench) -> list[Finding]:
    """Rounded Gaussian draws, of a third of a grid step to 2**34 of them."""
    return _rounded(bench, "gaussian", gaussian_tail)


def laplace(bench: Bench) -> list[Finding]:
    """Rounded Laplace draws, likewise."""
    return _rounded(bench, "laplace", laplace_tail)


_SCALES = (0.3, 3.7, 2.0**26 / 1.1, 2.0**34)


def _rounded(bench: Bench, law: Literal["gaussian", "laplace"], tail: Survival) -> list[Finding]:
    size, found = bench.size, []
    deck = strata(size, bench.random)
    for scale in _SCALES:
        source, dealer = bench.over(deck)
        draws = getattr(source, law)(scale, size)
        found.append(_away(draws, tail, scale, dealer.clean))
    # One scale per draw: each half has a deck of its own.
    half = size // 2
    source, dealer = bench.over(np.concatenate([strata(half, bench.random) for _ in "ab"]))
    draws = getattr(source, law)(np.repeat([5.5, 2.0**20 / 3], half), 2 * half)
    found += [_away(draws[:half], tail, 5.5, dealer.clean),
              _away(draws[half:], tail, 2.0**20 / 3, dealer.clean)]
    return [*found, _far(bench, law, tail, 2.0**26 / 1.1, 20), _far(bench, law, tail, 3.7, 45)]


def _away(draws: Ints, tail: Survival, scale: float, sound: bool) -> Finding:
    at = rounded_to(tail, scale)
    distance = kolmogorov(draws, at, lambda k: at(k - 1))
    return Finding(distance, 1 / len(draws) + FLOATS, len(draws), sound)


def _far(bench: Bench, law: str, tail: Survival, scale: float, bits: int) -> Finding:
    """The law of what lies beyond all but 2**-bits: its words are those that say so."""
    size = bench.few(1 << 9)
    words = strata(size, bench.random)
    sign = words & np.uint64(1 << 63)
    deck = sign | ((words ^ sign) >> np.uint64(bits))
    source, dealer = bench.over(deck)
    draws = getattr(source, law)(scale, size)
    at = rounded_to(tail, scale, within=2.0**-bits)
    distance = kolmogorov(draws, at, lambda k: at(k - 1))
    return Finding(distance, 1 / size + FLOATS, size, dealer.clean)


def bernoulli(bench: Bench) -> list[Finding]:
    """Coins: how many fall, and which words just do."""
    size, deck, found = bench.size, strata(bench.size, bench.random), []
    for rate in (0.5, 1 / 3, 0.01, 0.999, 2.0**-12):
        source, dealer = bench.over(deck)
        heads = source.bernoulli(rate, size)
        found.append(Finding(abs(float(heads.mean()) - rate), 1 / size + FLOATS, size,
                             dealer.clean))
        least = int(Fraction(rate) * WORD)  # the first word that is no head
        near = np.array([least - 1, least, least + 1], dtype=np.uint64)
        source, dealer = bench.over(near)
        wrong = source.bernoulli(rate, 3) != np.array([True, False, False])
        found.append(Finding(float(wrong.sum()), 0.0, 3, dealer.clean))
    source, dealer = bench.over(np.zeros(0, dtype=np.uint64))
    sure = source.bernoulli(1.0, size).sum() + 0.0 - source.bernoulli(0.0, size).sum()
    return [*found, Finding(abs(float(sure) - size), 0.0, 2 * size)]


def uniform(bench: Bench) -> list[Finding]:
    """Whole numbers below a bound: one word each below a power of two, else by rejection."""
    found = []
    for bound in (2, 1 << 10, 1 << 40, 3, 5, 1000, 3 << 60):
        size = bench.size if bound & (bound - 1) == 0 else bench.few(1 << 17)
        source, dealer = bench.over(strata(size, bench.random))
        draws = source.uniform_below(np.full(size, bound, dtype=np.int64))
        found.append(_below(draws, bound, dealer))
    size = bench.few(1 << 12)
    source, dealer = bench.over(strata(size, bench.random), singles=True)
    each = [source.integer_below(1 << 20) for _ in range(size)]
    found.append(_below(np.array(each, dtype=np.int64), 1 << 20, dealer))
    return found


def _below(draws: Ints, bound: int, dealer: Dealer) -> Finding:
    def at(k: Floats) -> Floats:
        return np.clip((k + 1) / bound, 0.0, 1.0)

    if int(draws.min()) < 0 or int(draws.max()) >= bound:
        return Finding(math.inf, 0.0, len(draws))
    size = len(draws)
    ends = 2 * (dealer.rounds + 1) if dealer.rounds else 1
    limit = ends / size + FLOATS
    return Finding(kolmogorov(draws, at, lambda k: at(k - 1)), limit, size, dealer.clean)


_CHOICES = (
    ([0.0, -1.0, 0.5, 2.0, 0.25], [1, 1, 1, 1, 1], 0.9),
    ([3.0, 1.0], [1, 1], 0.6),
    ([-2.0, 0.0, 1.0, 4.0], [100, 7, 30, 1], 1.1))


def exponential(bench: Bench) -> list[Finding]:
    """The exponential mechanism: one word for each choice among a few weighted candidates."""
    found, size = [], bench.few(1 << 16)
    for scores, weights, rate in _CHOICES:
        source, dealer = bench.over(strata(size, bench.random))
        wide = len(scores)
        picks = source.choose(np.tile(scores, size), np.tile(weights, size),
                              np.arange(size + 1, dtype=np.int64) * wide, rate)
        place = picks - np.arange(size, dtype=np.int64) * wide
        distance = of_table(place, by_weight(scores, weights, rate))
        found.append(Finding(distance, 1 / size + FLOATS, size, dealer.clean))
    return found


def permute_and_flip(bench: Bench) -> list[Finding]:
    """Two candidates with a number bound; then several, by chi-square."""
    found = []
    for rate, far in ((0.7, 1.4), (1.0, 1.0), (2.0, 0.1)):
        size = bench.size
        deck = _flips(bench, size, math.exp(-rate * far))
        source, dealer = bench.over(deck)
        picks = source.permute_and_flip(np.tile([5.0, 5.0 - far], size),
                                        np.arange(size + 1, dtype=np.int64) * 2, rate)
        place = picks - np.arange(size, dtype=np.int64) * 2
        # (5.0 - far) is a float: the law is that of the number it is.
        distance = of_table(place, by_flips([5.0, 5.0 - far], rate))
        found.append(Finding(distance, 2 / size + FLOATS, size, dealer.clean))
    return [*found, _several_flips(bench)]


def _flips(bench: Bench, size: int, accepted: float) -> Deck:
    """Coins of (best, other), the other's in rising order, so that the first `size * accepted`
    of them fall; and among these first ones the words of the rank are a deck of their own."""
    coins = np.empty(2 * size, dtype=np.uint64)
    coins[0::2] = strata(size, bench.random)
    coins[1::2] = in_order(size, bench.random)
    heads = min(max(round(size * accepted), 2), size - 2)
    return np.concatenate([coins, strata(heads, bench.random), strata(size - heads, bench.random)])


def _several_flips(bench: Bench) -> Finding:
    scores, rate, size = [0.0, -0.5, 0.0, -1.5, -0.2], 0.8, bench.few(1 << 15)
    picks = bench.plain(6 * size).permute_and_flip(
        np.tile(scores, size), np.arange(size + 1, dtype=np.int64) * len(scores), rate)
    place = picks - np.arange(size, dtype=np.int64) * len(scores)
    return chi_square(np.bincount(place, minlength=len(scores)), by_flips(scores, rate))


def randomized_response(bench: Bench) -> list[Finding]:
    """Codes that are kept or drawn anew, and the words between which that changes."""
    found, size = [], bench.few(1 << 17)
    for code, buckets, noise in ((0, 2, 0.5), (1, 3, 0.25), (3, 4, 0.9), (6, 7, 0.01)):
        source, dealer = bench.over(strata(size, bench.random))
        answers = source.randomized_response(np.full(size, code), buckets, noise)
        found.append(response_distance(answers, code, buckets, noise, dealer))
        kept = int((1 - Fraction(noise)) * WORD)  # words below keep the code
        source, dealer = bench.over(np.array([kept - 1] * 64 + [kept] * 64, dtype=np.uint64))
        answers = source.randomized_response(np.full(128, code), buckets, noise)
        wrong = (answers[:64] != code).any() or (answers[64:] == code).all()
        found.append(Finding(float(wrong), 0.0, 128, dealer.clean))
    return found


def response_distance(answers: Ints, code: int, buckets: int, noise: float,
                      dealer: Dealer) -> Finding:
    """Distance of the answers of equal codes from their law."""
    law = [noise / buckets + (1 - noise) * (j == code) for j in range(buckets)]
    limit = (1 + 2 * dealer.rounds) / len(answers) + FLOATS
    return Finding(of_table(answers, law), limit, len(answers), dealer.clean)


_SETS = (([1.0, 0.0], 1, 0.8, 0.5), ([0.6, 0.5, 0.0, -0.1, -0.6], 3, 2.0, 0.25))


def top_k_exponential(bench: Bench) -> list[Finding]:
    """The canonical Lipschitz mechanism: which words change the set, and how often each falls."""
    return _top_k(bench, "exponential")


def top_k_gumbel(bench: Bench) -> list[Finding]:
    """The same with Gumbel noise: the exponential mechanism over sets."""
    return _top_k(bench, "gumbel")


def _top_k(bench: Bench, noise: Noises) -> list[Finding]:
    found = []
    for scores, k, rate, gamma in _SETS:
        found += [_edge(bench, scores, k, rate, gamma, noise, which)
                  for which in range(len(classes_of(scores, k)))]
    scores, k, rate, gamma = _SETS[1]
    size = bench.few(1 << 9)
    sets, values = zip(*utilities(scores, k, rate, gamma), strict=True)
    law = (by_flips(values, 1.0) if noise == "exponential" else
           by_weight(values, [1] * len(values), 1.0))
    source, counts = bench.plain(40 * size), dict.fromkeys(sets, 0)
    for _ in range(size):
        drawn = tuple(source.top_k(np.array(scores), k, rate, noise, gamma).tolist())
        counts[drawn] = counts.get(drawn, 0) + 1  # one that is no set has no place in the law
    return [*found, chi_square(list(counts.values()), law)]


def utilities(scores: list[float], k: int, rate: float,
              gamma: float) -> list[tuple[tuple[int, ...], float]]:
    """Every set of k candidates, and -rate times its loss."""
    every, found = range(len(scores)), []
    for inside in itertools.combinations(every, k):
        outside = max(scores[i] for i in every if i not in inside)
        least = min(scores[i] for i in inside)
        found.append((inside, -rate * ((1 - gamma) * outside - gamma * least)))
    return found


def classes_of(scores: list[float], k: int) -> list[tuple[float, float, list[int]]]:
    """Sets by (largest score outside, smallest inside), as their words are drawn: those that
    hold more of the best first. For falling scores without ties.

    Returns:
        (largest outside, smallest inside, places of the sets in `utilities`).
    """
    found: dict[tuple[float, float], list[int]] = {}
    for place, inside in enumerate(itertools.combinations(range(len(scores)), k)):
        outside = max(score for i, score in enumerate(scores) if i not in inside)
        found.setdefault((outside, min(scores[i] for i in inside)), []).append(place)
    order = sorted(found, key=lambda pair: (pair[0], -pair[1]))
    return [(*pair, found[pair]) for pair in order]


def _edge(bench: Bench, scores: list[float], k: int, rate: float, gamma: float, noise: Noises,
          which: int) -> Finding:
    """All words but one are fixed; the one at which the set changes, against the law's."""
    classes = classes_of(scores, k)
    sets = [inside for inside, _ in utilities(scores, k, rate, gamma)]
    worths = [-rate * ((1 - gamma) * outside - gamma * least) for outside, least, _ in classes]
    words = [int(w) | 1 << 62 for w in bench.random.integers64(len(classes))]

    def wins(word: int) -> bool:
        deck = np.array([*words[:which], word, *words[which + 1 :]], dtype=np.uint64)
        source, _ = bench.over(deck, singles=True)
        drawn = tuple(source.top_k(np.array(scores), k, rate, noise, gamma).tolist())
        return any(sets[place] == drawn for place in classes[which][2])

    rivals = max(worth + _largest(noise, (WORD - 1 - word) / WORD, len(own[2]))
                 for i, (worth, own, word) in enumerate(zip(worths, classes, words, strict=True))
                 if i != which)
    need = rivals - worths[which]
    true = 1 - _at_most(noise, need) ** len(classes[which][2])
    return Finding(abs(last_true(wins) / WORD - true), FLOATS, 44)


def last_true(holds: Callable[[int], bool]) -> int:
    """Where a rule on words ends that holds up to some word; 40 bits of it."""
    low, high = 0, WORD
    for _ in range(44):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _at_most(noise: Noises, z: float) -> float:
    """P(one noise <= z)."""
    if noise == "exponential":
        return 1 - math.exp(-z) if z > 0 else 0.0
    return math.exp(-math.exp(-z))


def _largest(noise: Noises, share: float, size: int) -> float:
    """Where the largest of `size` noises has the distribution function `share`."""
    one = share ** (1 / size)
    return -math.log1p(-one) if noise == "exponential" else -math.log(-math.log(one))


_TUNINGS: tuple[tuple[TrialsLaw, float], ...] = (
    (TrialsLaw("negative_binomial", shape=1.0, success=0.2), 5.0),
    (TrialsLaw("negative_binomial", shape=0.0, success=0.1), 4.0),
    (TrialsLaw("negative_binomial", shape=2.5, success=0.3), 6.0),
    (TrialsLaw("negative_binomial", shape=-0.5, success=0.05), 4.0),
    (TrialsLaw("poisson", mean=6.5), 6.5))


def trials(bench: Bench) -> list[Finding]:
    """Numbers of trials of a tuning: one word each; and the words at which the number changes."""
    found, size = [], bench.few(1 << 9)
    for law, mean in _TUNINGS:
        source, dealer = bench.over(strata(size, bench.random), singles=True)
        draws = np.array([number_of_trials(law, mean, source) for _ in range(size)])
        table = trials_table(law, int(draws.max()))
        distance = max(of_table(draws, table), abs(1 - sum(table)) - 1 / size)
        found.append(Finding(distance, 1 / size + FLOATS, size, dealer.clean))
        found += [_step(bench, law, mean, k) for k in (law.least, 3, 11)]
    return found


def _step(bench: Bench, law: TrialsLaw, mean: float, k: int) -> Finding:
    """The last word that gives at most k trials, against the law's P(K <= k)."""
    def at_most(word: int) -> bool:
        source, _ = bench.over(np.array([word], dtype=np.uint64), singles=True)
        return number_of_trials(law, mean, source) <= k

    true = math.fsum(trials_table(law, k))
    return Finding(abs(last_true(at_most) / WORD - true), FLOATS, 44)


def trials_table(law: TrialsLaw, most: int) -> list[float]:
    """P(K = 0), ..., P(K = most)."""
    if law.distribution == "poisson":
        return poisson(law.mean, most)
    return negative_binomial(law.shape, law.success, most)

