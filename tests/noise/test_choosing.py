"""Choices follow their laws exactly; floats and integers agree; refusals show nothing."""

from __future__ import annotations

import inspect
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import chdtrc

from privledger.errors import InvalidValue
from privledger.noise import exact_choice
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource, SystemSource
from tests.all_cases import all_cases
from tests.noise.words import Chosen
from tests.worlds import refused

FALSE_ALARM = 2e-8
"""Of each chi-square; under 30 in this file. Cells are expected at least 100 times."""

N = 100_000
HUGE = 2.0**70  # a margin so large that every draw takes the integer path


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def assert_fits(draws: NDArray[np.int64], law: list[float]) -> None:
    """Pearson's chi-square, rare cells put together; a cell without mass must stay empty."""
    counts, expected = np.bincount(draws, minlength=len(law)), np.array(law) * len(draws)
    assert math.isclose(sum(law), 1, rel_tol=1e-9)
    assert not counts[expected < 1e-12].any()
    large = expected > 100
    seen = np.append(counts[large], counts[~large].sum())
    mean = np.append(expected[large], expected[~large].sum())
    if mean[-1] <= 100:  # too few for a cell of their own
        seen, mean = seen[:-1], mean[:-1]
    statistic = float(((seen - mean) ** 2 / mean).sum())
    assert len(seen) == 1 or chdtrc(len(seen) - 1, statistic) > FALSE_ALARM


def exponential_law(scores: list[float], weights: list[int], rate: float) -> list[float]:
    best = mpmath.mpf(max(scores))  # differences of mpf do not overflow
    masses = [weight * mpmath.exp(-mpmath.mpf(rate) * (best - mpmath.mpf(score)))
              for score, weight in zip(scores, weights, strict=True)]
    return [float(mass / sum(masses)) for mass in masses]


def flip_law(scores: list[float], rate: float) -> list[float]:
    """Permute-and-flip by its definition: all orders, all coins."""
    accept = [math.exp(rate * (score - max(scores))) for score in scores]
    law = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        alive = 1.0
        for i in order:
            law[i] += alive * accept[i] / math.factorial(len(scores))
            alive *= 1 - accept[i]
    return law


CASES = [
    ([0.0, 1.0, 2.5, -1.0], [1, 1, 1, 1], 0.8),
    ([3.0] * 5, [1, 2, 3, 4, 5], 1.0),
    ([-10.0, 0.0, -40.0], [1 << 15, 1, (1 << 62) - 1], 1.0),
    ([1e300, -1e300, 1e300, 0.0], [3, 1, 1, 7], 1.0),
    ([1.7e308, -1.7e308], [1, 1], 1e-140),
    ([0.0, -5e-324], [1, 2], 1e140),
    ([0.0, -800.0, -700.0], [1, 1 << 61, 1 << 61], 1.0)]


@pytest.mark.parametrize(("scores", "weights", "rate"), CASES)
def test_choices_follow_their_law(scores: list[float], weights: list[int], rate: float) -> None:
    n = len(scores)
    draws = SystemSource().choose(np.tile(scores, N), np.tile(np.array(weights), N),
                                  np.arange(N + 1) * n, rate)
    assert draws.dtype == np.int64
    assert (draws // n == np.arange(N)).all()
    assert_fits(draws % n, exponential_law(scores, weights, rate))


@pytest.mark.parametrize(("scores", "rate"), [
    ([0.0, 1.0, 2.5, -1.0], 0.8), ([2.0] * 5, 1.0), ([1e300, -1e300, 1e300], 1.0), ([7.0], 1.0),
    ([0.0, -0.01, -3.0], 1.0)])
def test_permute_and_flip_follows_its_law(scores: list[float], rate: float) -> None:
    n = len(scores)
    draws = SystemSource().permute_and_flip(np.tile(scores, N), np.arange(N + 1) * n, rate)
    assert (draws // n == np.arange(N)).all()
    assert_fits(draws % n, flip_law(scores, rate))


segments = st.lists(st.lists(st.tuples(
    st.floats(-3, 3) | st.floats(allow_nan=False, allow_infinity=False),
    st.integers(1, (1 << 62) - 1) | st.just(1)), min_size=1, max_size=5), min_size=1, max_size=6)


@settings(deadline=None, max_examples=150)
@given(segments, st.floats(1e-3, 1e3), st.integers(0, 2**32),
       st.lists(st.sampled_from([0, 1, 2**63, 2**63 - 1, 2**64 - 1]), max_size=6))
def test_floats_and_integers_choose_alike(
    rows: list[list[tuple[float, int]]], rate: float, seed: int, first: list[int]
) -> None:
    scores = np.array([score for row in rows for score, _ in row])
    weights = ints(*(weight for row in rows for _, weight in row))
    starts = np.cumsum([0] + [len(row) for row in rows])
    fast = exact_choice.choose(scores, weights, starts, rate, Chosen(*first, seed=seed))
    slow = exact_choice.choose(scores, weights, starts, rate, Chosen(*first, seed=seed),
                               margin=HUGE)
    assert fast.tolist() == slow.tolist()
    assert ((starts[:-1] <= fast) & (fast < starts[1:])).all()
    flipped = [exact_choice.permute_and_flip(scores, starts, rate, Chosen(*first, seed=seed),
                                         margin=margin) for margin in (1.0, HUGE)]
    assert flipped[0].tolist() == flipped[1].tolist()


def boundary_words(scores: list[float], weights: list[int], rate: float) -> list[int]:
    """Words next to each boundary between two candidates, where float errors would show."""
    with mpmath.workprec(400):
        best = max(scores)
        masses = [w * mpmath.exp(mpmath.mpf(rate) * (mpmath.mpf(x) - best))
                  for x, w in zip(scores, weights, strict=True)]
        sums = [sum(masses[:i]) / sum(masses) for i in range(1, len(masses))]
        places = [int(mpmath.floor(share * 2**64)) for share in sums]
    return [min(max(place + step, 0), 2**64 - 1) for place in places
            for step in (-3000, -1, 0, 1, 3000)]


def choices_at_boundaries(margin: float) -> list[int]:
    found = []
    rng = np.random.default_rng(4)
    for n in (2, 3, 7, 40):
        scores = (rng.normal(size=n) * 3).tolist()
        weights = rng.integers(1, 1 << 40, size=n).tolist()
        for word in boundary_words(scores, weights, 0.7):
            found += exact_choice.choose(np.array(scores), ints(*weights), ints(0, n), 0.7,
                                     Chosen(word), margin=margin).tolist()
    return found


def test_the_margin_is_needed_and_enough() -> None:
    exact = choices_at_boundaries(HUGE)
    assert choices_at_boundaries(1.0) == exact
    assert choices_at_boundaries(0.0) != exact  # a margin too small is seen here


def coins_at_boundaries(margin: float) -> list[int]:
    """1 where the second candidate's coin came up; the last word then lets it win."""
    found = []
    for gap in (0.01, 0.5, 3.0, 20.0):
        with mpmath.workprec(200):
            place = int(mpmath.floor(mpmath.exp(-mpmath.mpf(0.7) * gap) * 2**64))
        for step in (-3000, -100, -1, 1, 100, 3000):
            words = Chosen(0, place + step, 2**64 - 1)
            found += exact_choice.permute_and_flip(np.array([0.0, -gap]), ints(0, 2), 0.7, words,
                                               margin=margin).tolist()
    return found


def test_coins_are_right_to_the_last_bit() -> None:
    assert coins_at_boundaries(1.0) == coins_at_boundaries(HUGE) == [1, 1, 1, 0, 0, 0] * 4
    assert coins_at_boundaries(0.0) != coins_at_boundaries(1.0)


def test_the_float_error_is_inside_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """np.exp is assumed to be right to 2**-50; the bound counts on no more."""
    far = np.concatenate([np.linspace(0, 708, 3000), np.logspace(-20, 2.8, 2000)])
    worst = max(abs(mpmath.mpf(float(x)) / mpmath.exp(-mpmath.mpf(float(t))) - 1)
                for t, x in zip(far, np.exp(-far), strict=True))
    assert worst < 2.0**-51


def test_long_and_many_segments() -> None:
    """Chunks of whole segments: longer than a chunk, more than a chunk, mixed."""
    rng = np.random.default_rng(1)
    lengths = np.concatenate([np.ones(5000, int), [100_000, 1, 40_000], rng.integers(1, 9, 3000)])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    scores = rng.normal(size=starts[-1])
    special = rng.integers(starts[:-1], starts[1:])
    scores[special] = 1e4  # certain to win
    weights = np.ones(len(scores), dtype=np.int64)
    source = SystemSource()
    assert (source.choose(scores, weights, starts, 1.0) == special).all()
    assert (source.permute_and_flip(scores, starts, 1.0) == special).all()


def test_one_long_segment_is_uniform() -> None:
    n = 1 << 17
    starts, flat = ints(0, n), np.zeros(n)
    source = SeededSource(3)
    draws = [int(source.choose(flat, np.ones(n, dtype=np.int64), starts, 1.0)[0]) for _ in
             range(400)]
    cells = np.bincount(np.array(draws) >> 15, minlength=4)
    assert chdtrc(3, float(((cells - 100) ** 2 / 100).sum())) > FALSE_ALARM


def test_no_segments_give_no_choices() -> None:
    source = SystemSource()
    none = np.zeros(0, dtype=np.int64)
    assert source.choose(np.zeros(0), none, ints(0), 1.0).shape == (0,)
    assert source.permute_and_flip(np.zeros(0), ints(0), 1.0).shape == (0,)
    assert source.uniform_below(none).shape == (0,)
    assert source.randomized_response(none, 2, 0.5).shape == (0,)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 8, 1000])
def test_numbers_below_a_bound_are_uniform(bound: int) -> None:
    draws = SystemSource().uniform_below(np.full(N * 3, bound))
    assert_fits(draws, [1 / bound] * bound)


@given(st.lists(st.integers(1, (1 << 63) - 1) | st.integers(0, 62).map(lambda e: (1 << e) + 1),
                max_size=8))
def test_numbers_stay_below_their_bounds(bounds: list[int]) -> None:
    draws = SystemSource().uniform_below(ints(*bounds))
    assert ((draws >= 0) & (draws < ints(*bounds))).all()


def test_large_bounds_reach_their_upper_half() -> None:
    bound = (1 << 62) + 1  # just above a power of two: one bit too few would never reach it
    draws = SystemSource().uniform_below(np.full(200, bound))
    assert (draws > bound // 2).any()  # fails with probability 2**-200


@pytest.mark.parametrize(("buckets", "noise"), [(2, 0.3), (5, 0.9), (3, 1.0)])
def test_responses_follow_their_law(buckets: int, noise: float) -> None:
    got = SystemSource().randomized_response(np.full(N, 1), buckets, noise)
    law = [noise / buckets] * buckets
    law[1] += 1 - noise
    assert_fits(got, law)


@all_cases("noise", [1e-300, 2.0**-70, 2.0**-65, 0.1, 1 / 3, 0.5, 0.9, 1.0])
def test_a_code_is_never_kept_too_often(noise: float) -> None:
    """The words around the threshold: `most` is the number of words that keep the code."""
    most = math.floor((1 - Fraction(noise)) * 2**64)
    for word in {max(most - 1, 0), most, min(most + 1, 2**64 - 1)}:
        words = Chosen(word)
        exact_choice.randomized_response(ints(1), 2, noise, words)
        assert (words.taken > 1) == (word >= most)
    assert Fraction(most, 2**64) <= 1 - Fraction(noise) < Fraction(most + 1, 2**64)


def test_responses_leave_their_input_alone() -> None:
    codes = np.zeros(1000, dtype=np.int64)
    SystemSource().randomized_response(codes, 4, 1.0)
    assert not codes.any()


GOOD = np.array([1.25, 2.5])
ONES = np.ones(2, dtype=np.int64)


@all_cases(("scores", "weights", "starts", "rate"), [
    (np.array([12345.25, math.nan]), ONES, ints(0, 2), 1.0),
    (np.array([12345.25, math.inf]), ONES, ints(0, 2), 1.0),
    ([12345.25, 1.0], ONES, ints(0, 2), 1.0),
    (np.array([12345, 1]), ONES, ints(0, 2), 1.0),
    (np.array([[12345.25, 1.0]]), ONES, ints(0, 2), 1.0),
    (np.array([12345.25, 1.0], dtype=np.float32), ONES, ints(0, 2), 1.0),
    (GOOD, ints(0, 12345), ints(0, 2), 1.0),
    (GOOD, ints(-12345, 1), ints(0, 2), 1.0),
    (GOOD, ints(1 << 62, 12345), ints(0, 2), 1.0),
    (GOOD, ints(1), ints(0, 2), 1.0),
    (GOOD, np.ones(2), ints(0, 2), 1.0),
    (GOOD, np.ones(2, dtype=bool), ints(0, 2), 1.0),
    (GOOD, ONES.astype(np.uint64), ints(0, 2), 1.0),
    (GOOD, ONES, ints(0, 1, 1, 2), 1.0),
    (GOOD, ONES, ints(0, 1), 1.0),
    (GOOD, ONES, ints(1, 2), 1.0),
    (GOOD, ONES, ints(0, 2, 1, 2), 1.0),
    (GOOD, ONES, ints(), 1.0),
    *((GOOD, ONES, ints(0, 2), rate) for rate in (0.0, -1.0, math.nan, math.inf, True, 1e-150))])
def test_impossible_choices_are_refused_without_values(
    scores: object, weights: object, starts: object, rate: object
) -> None:
    words = Chosen()
    with pytest.raises(InvalidValue) as caught:
        exact_choice.choose(scores, weights, starts, rate, words)
    assert "12345" not in str(caught.value)
    assert words.taken == 0


@all_cases(("codes", "buckets", "noise"), [
    (ints(0, 12345), 3, 0.5), (ints(-12345), 3, 0.5), (np.zeros(2), 3, 0.5),
    (ints(0), 1, 0.5), (ints(0), True, 0.5), (ints(0), 3, 0.0), (ints(0), 3, 1.5),
    (ints(0), 3, math.nan), (ints(0), 3, True)])
def test_impossible_responses_are_refused(codes: object, buckets: object, noise: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        exact_choice.randomized_response(codes, buckets, noise, Chosen())
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("bounds", [ints(0), ints(3, -1), np.ones(2), np.ones(2, dtype=bool), [3]])
def test_impossible_bounds_are_refused(bounds: object) -> None:
    refused(InvalidValue, lambda: exact_choice.uniform_below(bounds, Chosen()))


def test_both_sources_offer_the_same_choices() -> None:
    names = ("uniform_below", "choose", "permute_and_flip", "randomized_response")
    for name in names:
        shapes = {str(inspect.signature(getattr(kind, name)))
                  for kind in (NoiseSource, SystemSource, SeededSource)}
        assert len(shapes) == 1
    first, second = (SeededSource(5).choose(np.zeros(50), np.ones(50, dtype=np.int64),
                                            np.arange(0, 51, 5), 1.0) for _ in range(2))
    assert first.tolist() == second.tolist()
