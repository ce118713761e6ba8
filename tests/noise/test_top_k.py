"""Top-k against enumeration of all subsets; the privacy of its law; the printed fault."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from privledger.errors import InvalidValue
from privledger.noise import top_k as module
from privledger.noise.seeded import SeededSource
from privledger.noise.source import SystemSource
from tests.all_cases import all_cases
from tests.noise.words import Chosen

FALSE_ALARM = 1e-8
"""Of each chi-square; under 40 in this file."""

NOISES = pytest.mark.parametrize("noise", ["exponential", "gumbel"])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)  # exact for polynomials up to degree 47
Law = dict[tuple[int, ...], float]


def masses(groups: list[tuple[float, int]], noise: str) -> list[float]:
    """Probability of each group (utility, number of sets) that its best set wins.

    With exponential noise this is permute-and-flip over all sets: the arrival time s of a set
    is uniform, and an earlier set stops the walk with probability s p.
    """
    best = max(utility for utility, _ in groups)
    p = np.array([math.exp(utility - best) for utility, _ in groups])
    m = np.array([size for _, size in groups])
    if noise == "gumbel":
        return (m * p / (m * p).sum()).tolist()
    s = (NODES[:, None] + 1) / 2
    none = np.prod((1 - s * p) ** m, axis=1)
    return [float((WEIGHTS / 2 * none / (1 - s[:, 0] * p[i])).sum() * m[i] * p[i])
            for i in range(len(p))]


def law_by_sets(scores: list[float], k: int, rate: float, noise: str, gamma: float) -> Law:
    """From the definition: every subset is a group of its own."""
    sets, groups = list(itertools.combinations(range(len(scores)), k)), []
    for chosen in sets:
        outside = max(scores[i] for i in range(len(scores)) if i not in chosen)
        inside = min(scores[i] for i in chosen)
        groups.append((-rate * ((1 - gamma) * outside - gamma * inside), 1))
    return dict(zip(sets, masses(groups, noise), strict=True))


def law_by_classes(
    scores: list[float], k: int, rate: float, noise: str, gamma: float, *, printed: bool = False
) -> Law:
    """From the classes (h, t). `printed`: with the overlapping ones of the paper."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    x, first = [scores[i] for i in order], 1 if printed else 2
    members, groups = [[tuple(sorted(order[:k]))]], [
        (-rate * ((1 - gamma) * x[k] - gamma * x[k - 1]), 1)]
    for h, t in itertools.product(range(k), range(k + 1, len(x) + 1)):
        bodies = list(itertools.combinations(range(h + first, t), k - h - 1))
        if bodies:
            members.append([tuple(sorted([*order[:h], *(order[j - 1] for j in body), order[t - 1]]))
                            for body in bodies])
            groups.append((-rate * ((1 - gamma) * x[h] - gamma * x[t - 1]), len(bodies)))
            assert printed or len(bodies) == math.comb(t - h - 2, k - h - 1)
    law: Law = {}
    for sets, mass in zip(members, masses(groups, noise), strict=True):
        for chosen in sets:
            law[chosen] = law.get(chosen, 0) + mass / len(sets)
    return law


CASES = [
    ([3.2, 2.9, 1.0, 0.2], 2, 1.0, 0.5),
    ([1.0, 4.0, 2.0, 0.5, 3.0], 3, 0.7, 0.25),
    ([0.0] * 6, 3, 1.0, 0.5),
    ([2.0, 2.0, 1.0, 1.0, 0.0, 0.0], 4, 0.5, 0.75),
    ([5.0, 1.0, 0.9, 0.8, 0.2, 0.1, 0.0], 3, 0.6, 0.5),
    ([1.0, 0.0], 1, 1.0, 0.5),
    ([1.0, 0.5, 0.0, -1.0], 1, 1.0, 0.0),
    ([1.0, 0.5, 0.0, -1.0], 3, 1.0, 1.0)]


@NOISES
@pytest.mark.parametrize(("scores", "k", "rate", "gamma"), CASES)
def test_classes_give_the_law_of_sets(
    scores: list[float], k: int, rate: float, gamma: float, noise: str
) -> None:
    one = law_by_sets(scores, k, rate, noise, gamma)
    other = law_by_classes(scores, k, rate, noise, gamma)
    assert one.keys() == other.keys()
    assert max(abs(one[chosen] - other[chosen]) for chosen in one) < 1e-12
    assert math.isclose(sum(one.values()), 1, abs_tol=1e-12)


@NOISES
@pytest.mark.parametrize(("scores", "k", "rate", "gamma"), CASES)
def test_draws_follow_the_law(
    scores: list[float], k: int, rate: float, gamma: float, noise: str
) -> None:
    law, n, source = law_by_sets(scores, k, rate, noise, gamma), 2500, SystemSource()
    seen = dict.fromkeys(law, 0)
    for _ in range(n):
        seen[tuple(source.top_k(np.array(scores), k, rate, noise, gamma).tolist())] += 1
    observed, expected = [0.0], [0.0]  # sets by probability, joined until 40 are expected
    for chosen in sorted(law, key=lambda chosen: law[chosen], reverse=True):
        if expected[-1] > 40:
            observed.append(0.0)
            expected.append(0.0)
        observed[-1] += seen[chosen]
        expected[-1] += n * law[chosen]
    if len(expected) > 1 and expected[-1] <= 40:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    left, right = np.array(observed), np.array(expected)
    assert chdtrc(max(len(left) - 1, 1), float(((left - right) ** 2 / right).sum())) > FALSE_ALARM


@settings(deadline=None, max_examples=200)
@given(st.data(), st.sampled_from(["exponential", "gumbel"]), st.sampled_from([0, 0.25, 0.5, 1]),
       st.sampled_from([0.1, 1.0, 3.0]), st.booleans())
def test_no_set_moves_by_more_than_epsilon(
    data: st.DataObject, noise: str, gamma: float, epsilon: float, monotone: bool
) -> None:
    """Scores that move by at most 1: rate epsilon / 2, or epsilon if all move one way."""
    d = data.draw(st.integers(2, 6))
    k = data.draw(st.integers(1, d - 1))
    step = st.sampled_from([0.0, 1.0] if monotone else [-1.0, 0.0, 1.0])
    move = data.draw(st.lists(step | st.floats(0 if monotone else -1, 1), min_size=d, max_size=d))
    score = st.integers(-3, 3).map(float) | st.floats(-4, 4)
    left = data.draw(st.lists(score, min_size=d, max_size=d))
    right = [a + b for a, b in zip(left, move, strict=True)]
    rate = epsilon if monotone else epsilon / 2
    one = law_by_sets(left, k, rate, noise, gamma)
    other = law_by_sets(right, k, rate, noise, gamma)
    losses = [math.log(one[chosen] / other[chosen]) for chosen in one]
    assert max(map(abs, losses)) <= epsilon + 1e-9
    if noise == "gumbel":
        assert max(losses) - min(losses) <= epsilon + 1e-9  # the bounded range


def test_the_printed_classes_are_not_private() -> None:
    """Scores moved by 1e-6, epsilon 0.01: a set's probability halves."""
    left, right = [10 + 1e-6, 10.0, 0.0], [10.0, 10 + 1e-6, 0.0]

    def worst(printed: bool) -> float:
        one, other = (law_by_classes(scores, 2, 0.005, "exponential", 0.5, printed=printed)
                      for scores in (left, right))
        return max(abs(math.log(one[chosen] / other[chosen])) for chosen in one)

    assert worst(printed=True) == pytest.approx(math.log(2), abs=1e-3)
    assert worst(printed=False) < 1e-6


@NOISES
def test_floats_only_put_aside_what_cannot_win(noise: str) -> None:
    rng = np.random.default_rng(2)
    for seed in range(150):
        d = int(rng.integers(2, 9))
        scores = np.round(rng.normal(size=d) * 4, int(rng.integers(0, 3)))
        k, gamma = int(rng.integers(1, d)), float(rng.choice([0, 0.5, 0.9, 1]))
        first = rng.choice(np.array([0, 1, 2**24, 2**63, 2**64 - 1], dtype=np.uint64),
                           size=int(rng.integers(0, 5))).tolist()
        one, other = (
            module.top_k(scores, k, 0.8, noise, Chosen(*first, seed=seed), gamma=gamma,
                         slack=slack).tolist() for slack in (module.SLACK, 1e9))
        assert one == other


@NOISES
@pytest.mark.parametrize("size", [1, 7, 10**30, math.comb(22281, 119)])
def test_decimal_bounds_hold_and_narrow(noise: str, size: int) -> None:
    for numerator in (1, 1 << 30, 1 << 63, (1 << 64) - 2, 0x123456789ABCDEF0):
        uniform = module.LazyUniform(numerator, 64, lambda: 1 << 63)
        rival = module._Rival(0, 2, module.Fraction(-5, 3), size, uniform)
        for _ in range(3):
            low, high = (module._noisy(rival, noise == "gumbel", up=up) for up in (False, True))
            with mpmath.workprec(4000):
                ends = []
                for step in (0, 1):
                    w = mpmath.mpf(uniform.numerator + step) / mpmath.mpf(2) ** uniform.bits
                    a = -mpmath.log(1 - w) / size
                    inner = a if noise == "gumbel" else -mpmath.expm1(-a)
                    ends.append(mpmath.mpf(-5) / 3 - mpmath.log(inner))
                assert mpmath.mpf(str(low)) <= ends[1] < ends[0] <= mpmath.mpf(str(high))
                width = mpmath.mpf(str(high)) - mpmath.mpf(str(low))
                assert width < 1.01 * (ends[0] - ends[1]) + mpmath.mpf(10) ** (-uniform.bits // 4)
            uniform.refine()


def test_many_candidates_and_many_sets() -> None:
    """C(22283, 120) is far above the largest float."""
    source, scores = SystemSource(), np.zeros(22283)
    scores[5000:5120] = 1e6
    assert source.top_k(scores, 120, 1.0, "exponential").tolist() == list(range(5000, 5120))
    flat = source.top_k(np.zeros(22283), 120, 1.0, "gumbel")
    assert len(set(flat.tolist())) == 120
    # A uniform set: its mean is normal, standard deviation 586. False alarm below 1e-11.
    assert abs(flat.mean() - 11141) < 4000


@NOISES
@pytest.mark.parametrize("gamma", [0.0, 2.0**-53, 0.5, 1.0])
def test_extreme_scores(noise: str, gamma: float) -> None:
    source = SystemSource()
    scores = np.array([1.7e308, -1.7e308, 1.7e308, 0.0, 5e-324])
    for rate in (1e-140, 1.0, 1e140):
        for k in (1, 2, 3, 4):
            got = source.top_k(scores, k, rate, noise, gamma)
            assert got.shape == (k,)
            assert (np.diff(got) > 0).all()
    assert source.top_k(scores, 2, 1.0, noise, 0.5).tolist() == [0, 2]


def test_subsets_are_uniform() -> None:
    words, sets = Chosen(seed=9), list(itertools.combinations(range(6), 3))
    seen = dict.fromkeys(sets, 0)
    for _ in range(5000):
        seen[tuple(sorted(module._subset(6, 3, words).tolist()))] += 1
    statistic = sum((count - 250) ** 2 / 250 for count in seen.values())
    assert chdtrc(19, statistic) > FALSE_ALARM
    assert sorted(module._subset(4, 4, words).tolist()) == [0, 1, 2, 3]
    assert module._subset(4, 0, words).shape == (0,)


def test_the_table_of_log_factorials_is_as_good_as_assumed() -> None:
    table = module._log_factorials(100_000)
    for n in [*range(2, 300), 1000, 22283, 65_537, 100_000]:
        exact = mpmath.loggamma(n + 1)
        assert abs(table[n] - exact) < 2.0**-45 * exact
    assert table[0] == table[1] == 0


def test_seeds_repeat() -> None:
    one, other = (SeededSource(4).top_k(np.arange(50.0), 7, 0.01, "gumbel").tolist()
                  for _ in range(2))
    assert one == other


@all_cases(("scores", "k", "rate", "noise", "gamma"), [
    (np.array([12345.5, math.nan]), 1, 1.0, "gumbel", 0.5),
    ([12345.5, 1.0], 1, 1.0, "gumbel", 0.5),
    (np.array([12345.5]), 1, 1.0, "gumbel", 0.5),
    *((np.array([12345.5, 1.0]), *rest) for rest in [
        (0, 1.0, "gumbel", 0.5), (2, 1.0, "gumbel", 0.5), (True, 1.0, "gumbel", 0.5),
        (1, 0.0, "gumbel", 0.5), (1, math.nan, "gumbel", 0.5), (1, 1.0, "laplace", 0.5),
        (1, 1.0, None, 0.5), (1, 1.0, "gumbel", -0.1), (1, 1.0, "gumbel", 1.1),
        (1, 1.0, "gumbel", math.nan), (1, 1.0, "gumbel", True), (1, 1.0, "gumbel", 1e-30)])])
def test_impossible_arguments_are_refused(
    scores: object, k: object, rate: object, noise: object, gamma: object
) -> None:
    with pytest.raises(InvalidValue) as caught:
        module.top_k(scores, k, rate, noise, Chosen(), gamma=gamma)
    assert "12345" not in str(caught.value)
