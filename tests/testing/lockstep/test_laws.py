"""Losses of single draws against enumeration: mpmath, fractions, every subset."""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger.individual import RECORD_UNITS
from privledger.testing.lockstep.kept import Chosen, ChosenSet, Responses
from privledger.testing.lockstep.laws import (
    TOLERANCE,
    log_flips,
    response_law,
    selection_loss,
    set_loss,
)
from privledger.testing.lockstep.shown import _vectors
from tests.all_cases import all_cases
from tests.certified.claims import additive_shift, ratio

NOTHING = np.zeros(0, dtype=np.int64)
scores_of = st.lists(st.floats(-20, 20), min_size=1, max_size=6)
rates = st.floats(0.01, 3.0)


def chosen(law, scores, rate=1.0, weights=None, starts=None):
    scores = np.asarray(scores, dtype=np.float64)
    weights = np.ones(len(scores)) if weights is None else weights
    starts = [0, len(scores)] if starts is None else starts
    return Chosen(law, scores, np.asarray(weights).astype(np.int64), np.asarray(starts), rate,
                  NOTHING)


def drawn_set(scores, k, noise, rate=1.0, gamma=0.5):
    return ChosenSet(np.asarray(scores, dtype=np.float64), k, rate, noise, gamma, NOTHING)


def flips_exactly(scores, rate):
    """Logs of permute-and-flip's chances, by a polynomial in t, in 60 digits.

    The logs are taken in these digits, too: at fewer than its argument has, the library's log of
    a number just above 1/4 is that of a number just above 1.
    """
    with mpmath.workdps(60):
        heads = [mpmath.exp(mpmath.mpf(rate) * (mpmath.mpf(s) - max(scores))) for s in scores]
        found = []
        for i, own in enumerate(heads):
            product = [mpmath.mpf(1)]
            for j, other in enumerate(heads):
                if j != i:
                    product = [a - other * b for a, b in
                               zip([*product, 0], [0, *product], strict=True)]
            found.append(mpmath.log(own * sum(c / (power + 1) for power, c in enumerate(product))))
        return found


def loss_of(y, scores, gamma):
    outside = max(s for i, s in enumerate(scores) if i not in y)
    return (1 - gamma) * outside - gamma * min(scores[i] for i in y)


def sets_exactly(scores, k, noise, rate, gamma):
    utilities = [-loss_of(y, scores, gamma) for y in itertools.combinations(range(len(scores)), k)]
    if noise == "exponential":
        return [float(p) for p in flips_exactly(utilities, rate)]
    values = rate * (np.array(utilities) - max(utilities))
    return values - np.log(np.exp(values).sum())


def gaps(p, q):
    values = [a - b for a, b in zip(p, q, strict=True)]
    return max(values), max(-value for value in values)


@given(st.data(), rates)
def test_exponential_over_runs_is_exponential_over_single_outcomes(data, rate):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    whole = sum(lengths)
    flat = data.draw(st.lists(st.floats(-9, 9), min_size=whole, max_size=whole))
    scores = data.draw(st.lists(st.floats(-9, 9), min_size=len(lengths), max_size=len(lengths)))
    a = chosen("exponential", scores, rate, lengths)
    b = chosen("exponential", flat, rate)
    found = selection_loss(a, b)
    logs = []
    for values in (np.repeat(scores, lengths), np.array(flat)):
        with mpmath.workdps(40):
            mass = [mpmath.exp(mpmath.mpf(rate) * mpmath.mpf(v)) for v in values.tolist()]
            logs.append([mpmath.log(m / sum(mass)) for m in mass])
    up, down = gaps(*logs)
    assert found.aligned
    for shown, exact in zip((found.up, found.down, found.width), (up, down, up + down),
                            strict=True):
        assert exact - 1e-11 <= shown[0] <= exact + (1e-15 if exact < 1e-9 else 0)


def test_segments_are_compared_one_by_one_and_add_up():
    a = chosen("exponential", [0, 1, 5, 5, 2], 0.5, [1, 2, 1, 1, 1], [0, 2, 5])
    b = chosen("exponential", [0, 0, 1, 5, 5, 3], 0.5, [1, 1, 1, 1, 1, 1], [0, 3, 6])
    found = selection_loss(a, b)
    parts = [selection_loss(chosen("exponential", [0, 1], 0.5, [1, 2]),
                            chosen("exponential", [0, 0, 1], 0.5)),
             selection_loss(chosen("exponential", [5, 5, 2], 0.5),
                            chosen("exponential", [5, 5, 3], 0.5))]
    assert np.allclose(found.up, [part.up[0] for part in parts], atol=1e-13)
    assert np.allclose(found.down, [part.down[0] for part in parts], atol=1e-13)
    assert found.pure == max(found.up.sum(), found.down.sum())
    assert found.range == pytest.approx(found.up.sum() + found.down.sum())


def test_weights_beyond_64_bits_are_added_exactly():
    big = (1 << 62) - 1
    a = chosen("exponential", [0, 1, 2], 1.0, [big, big, 1])
    assert selection_loss(a, a).pure == 0
    b = chosen("exponential", [0, 1, 2], 1.0, [big, big - 1, 2])
    assert selection_loss(a, b).pure == pytest.approx(1.0, abs=1e-9)
    c = chosen("exponential", [0, 1, 2], 1.0, [big, big, 2])
    assert not selection_loss(a, c).aligned


@pytest.mark.parametrize(("one", "other", "word"), [
    (chosen("exponential", [1, 2]), chosen("exponential", [1, 2], weights=[1, 2]), "weight"),
    (chosen("exponential", [1, 2]), chosen("exponential", [1, 2], starts=[0, 1, 2]), "segments"),
    (chosen("exponential", [1, 2]), chosen("exponential", [1, 2], 2.0), "alike"),
    (chosen("exponential", [1, 2]), chosen("permute_and_flip", [1, 2]), "alike"),
    (chosen("permute_and_flip", [1, 2]), chosen("permute_and_flip", [1, 2, 3]), "candidates"),
    (chosen("exponential", [1, math.nan]), chosen("exponential", [1, 2]), "number"),
    (chosen("exponential", [1, 2], starts=[0, 2, 2]), chosen("exponential", [1, 2],
                                                             starts=[0, 2, 2]), "candidate")])
def test_draws_of_other_outcomes_lose_everything(one, other, word):
    found = selection_loss(one, other)
    assert not found.aligned and word in found.why and math.isinf(found.pure)


@given(scores_of, st.data(), rates)
def test_permute_and_flip_is_exact(scores, data, rate):
    other = data.draw(st.lists(st.floats(-20, 20), min_size=len(scores), max_size=len(scores)))
    found = selection_loss(chosen("permute_and_flip", scores, rate),
                           chosen("permute_and_flip", other, rate))
    logs = [flips_exactly(side, rate) for side in (scores, other)]
    up, down = gaps(*logs)
    assert up - 1e-10 <= found.up[0] <= max(up, 0) and down - 1e-10 <= found.down[0] <= max(down, 0)


def test_permute_and_flip_tells_apart_no_scores_that_are_next_to_equal():
    one, other = [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.1754943508222875e-38]
    found = selection_loss(chosen("permute_and_flip", one), chosen("permute_and_flip", other))
    up, down = gaps(flips_exactly(one, 1.0), flips_exactly(other, 1.0))
    assert 0 <= up < 1e-37 and 0 <= down < 1e-37 and found.pure < 1e-10


def test_permute_and_flip_of_two_equal_candidates_is_a_fraction():
    heads = [Fraction(1), Fraction(1, 2), Fraction(1, 2)]  # exponents are logs of these
    exact = []
    for i, own in enumerate(heads):
        one, other = (h for j, h in enumerate(heads) if j != i)
        exact.append(own * (1 - (one + other) / 2 + one * other / 3))
    found = log_flips(np.log([1.0, 0.5, 0.5]), np.zeros(3))
    assert np.allclose(np.exp(found), [float(p) for p in exact], rtol=1e-13, atol=0)
    assert sum(exact) == 1


@all_cases("n", [1, 2, 31, 200, 3000])
@all_cases("spread", [0.0, 0.01, 1.0, 30.0])
def test_many_candidates_still_sum_to_one(n, spread):
    scores = -np.sort(np.random.default_rng(n).exponential(spread, n))
    logs = log_flips(scores - scores.max(), np.zeros(n))
    assert math.fsum(np.exp(logs)) == pytest.approx(1, abs=1e-11)


def test_long_products_are_right_to_the_stated_error():
    scores = [-0.07 * i for i in range(120)]
    exact = [float(p) for p in flips_exactly(scores, 1.0)]
    assert np.abs(log_flips(np.array(scores), np.zeros(120)) - exact).max() < 1e-11


def test_classes_stand_for_their_members():
    exponents, sizes = np.array([0.0, -0.5, -3.0]), np.array([2, 5, 40])
    one = log_flips(exponents, np.log(sizes))
    each = log_flips(np.repeat(exponents, sizes), np.zeros(47))
    assert np.allclose(np.repeat(one, sizes), each, atol=1e-12, rtol=0)


@settings(max_examples=60)
@given(st.integers(2, 6), st.data(), rates, st.sampled_from(["exponential", "gumbel"]),
       st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_sets_are_compared_one_by_one(d, data, rate, noise, gamma):
    numbers = st.one_of(st.integers(0, 4).map(float), st.floats(-6, 6))
    sides = [data.draw(st.lists(numbers, min_size=d, max_size=d)) for _ in range(2)]
    k = data.draw(st.integers(1, d - 1))
    found = set_loss(*(drawn_set(side, k, noise, rate, gamma) for side in sides))
    up, down = gaps(*(sets_exactly(side, k, noise, rate, gamma) for side in sides))
    assert up - 1e-10 <= found.up[0] <= max(up, 0)
    assert down - 1e-10 <= found.down[0] <= max(down, 0)
    assert found.aligned and not found.why


def test_sets_of_many_candidates_stay_within_their_price():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 30, 60).astype(float)
    moved = scores + rng.uniform(-1, 1, 60)
    for noise in ("exponential", "gumbel"):
        found = set_loss(drawn_set(scores, 10, noise, 0.5), drawn_set(moved, 10, noise, 0.5))
        assert 0.3 < found.pure <= 1 and found.aligned
    assert found.range <= 1


def test_sets_that_are_not_drawn_alike_lose_everything():
    one = drawn_set([1, 2, 3], 1, "gumbel")
    for other in (drawn_set([1, 2, 3], 2, "gumbel"), drawn_set([1, 2, 3], 1, "exponential"),
                  drawn_set([1, 2], 1, "gumbel"), drawn_set([1, 2, 3], 1, "gumbel", 2.0),
                  drawn_set([1, 2, math.inf], 1, "gumbel")):
        assert not set_loss(one, other).aligned


@given(st.floats(1e-6, 1), st.integers(2, 50))
def test_one_answer_of_randomised_response(p, m):
    with mpmath.workdps(40):
        exact = mpmath.log((1 - mpmath.mpf(p) + mpmath.mpf(p) / m) / (mpmath.mpf(p) / m))
    found = response_law(Responses(NOTHING, m, p, NOTHING))
    assert exact * (1 - TOLERANCE) <= found <= exact


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_an_answer_that_is_no_answer_loses_everything(p):
    assert math.isinf(response_law(Responses(NOTHING, 2, p, NOTHING)))


def test_distances_of_answers():
    found = additive_shift([[1.0, 2.0]], [[4.0, -2.0]], [3.0, 4.0], 0.5)
    assert found.l1 == pytest.approx(4.0) and found.l2 == pytest.approx(math.sqrt(8))
    assert additive_shift([1.0], [1.0], [0.0]).l1 == 0
    for other, scale in (([1.0], [0.0]), ([math.nan], [1.0]), ([1.0, 2.0], [1.0])):
        assert math.isinf(additive_shift([0.0], other, scale).l2)


def test_a_ratio_rounds_down_and_never_hides():
    assert ratio(1.0, 1.0) < 1 and ratio(0.0, 0.0) == 0
    assert math.isinf(ratio(1.0, 0.0)) and math.isinf(ratio(math.nan, 1.0))
    assert ratio(1.0 + 1e-8, 1.0) > 1


@all_cases("kind", ["gdp", "renyi"])
def test_a_record_pays_what_it_showed_and_no_less(kind):
    """A squared mu of 3 of a cap of 20: at order 8, a Renyi bound of 12."""
    node = pl.IndividualFilter(kind, 20.0, 8.0 if kind == "renyi" else 0.0)
    scope, share = SimpleNamespace(node=node), RECORD_UNITS * (12 if kind == "renyi" else 3) // 20

    def told(mine, theirs, sampled=()):
        first, second = ((scope, np.array(taken, np.int64), np.ones(len(taken), np.int32))
                         for taken in (mine, theirs))
        return [one.why.split(",")[0] for one in _vectors(first, second, 3.0, sampled)]

    assert told([5], [5, share + 1]) == told([5, 0], [5, share + 1]) == []
    less = "a record paid less than what it showed"
    assert told([5], [5, share - share // 10**5]) == told([5, 0], [5, 0]) == [less]
    assert told([5], [6, share + 1]) == ["what other records paid depends on the one that differs"]
    assert told([], [RECORD_UNITS + 1]) == ["a record paid more than its cap"]
    assert told([], [share + 1], [(0.5, 3.0)]) == ([less] if kind == "renyi" else [])
