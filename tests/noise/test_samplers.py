"""Chosen bits in, exact draws out; the float margin against mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from privledger.errors import InvalidValue, PrivledgerError
from privledger.noise import samplers
from privledger.noise.samplers import GAUSSIAN, LAPLACE, MARGIN, SamplerLaw
from tests.all_cases import all_cases
from tests.noise.words import Chosen
from tests.worlds import refused

LAWS = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=lambda law: law.name)


def survival(law: SamplerLaw, t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(-t) if law is LAPLACE else mpmath.erfc(t / mpmath.sqrt(2))


def inverse(law: SamplerLaw, start: float, tail: mpmath.mpf) -> mpmath.mpf:
    """Newton from a good float; independent of the package's own arithmetic."""
    if law is LAPLACE:
        return -mpmath.log(tail)
    t = mpmath.mpf(start)
    for _ in range(3):
        density = mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-t * t / 2)
        t += (survival(law, t) - tail) / density
    return t


def dense_fractions() -> list[int]:
    """63-bit numbers the float path may see: ends, around the branch of ndtri, between."""
    least, most = 1 << 46, (1 << 63) - 1
    rng = np.random.default_rng(5)
    found = [least + i for i in range(40)] + [most - i for i in range(40)]
    found += [int(2.0 ** e) for e in np.linspace(46, 62.999, 2500)]
    found += rng.integers(least, most, size=2500).tolist()
    for branch in (2 * math.exp(-2.0), 0.5, 2.0**-17, 2.0**-16, 1.0):
        centre = int(branch * 2.0**63)
        found += [centre + int(s * 4.0**j) for j in range(28) for s in (-1, 0, 1)]
        value = branch
        for _ in range(40):  # neighbouring floats on both sides
            value = math.nextafter(value, 0)
            found += [int(value * 2.0**63), int((2 * branch - value) * 2.0**63)]
    return [fraction for fraction in found if least <= fraction <= most]


@LAWS
def test_float_quantile_is_well_inside_the_margin(law: SamplerLaw) -> None:
    fractions = dense_fractions()
    middles = (np.array(fractions, dtype=np.int64).astype(np.float64) + 0.5) * 2.0**-63
    floats = law.quantile(middles).tolist()
    worst = 0.0
    with mpmath.workprec(130):
        for fraction, x in zip(fractions, floats, strict=True):
            for end in (fraction, fraction + 1):
                if end == 1 << 63:
                    error = abs(mpmath.mpf(x))  # the quantile is zero there
                else:
                    error = abs(inverse(law, x, mpmath.mpf(end) / 2**63) - x)
                worst = max(worst, float(error / (1 + abs(x))))
    assert worst < 0.05 * MARGIN  # measured: 0.011; the rest is for other builds and processors


@LAWS
@pytest.mark.parametrize("scale", [1e-300, 0.06, 0.3, 1.0, 7.5, 1e3 / 3, 2.0**24, 1e9, 2.0**40])
def test_deciding_every_draw_by_integers_changes_nothing(law: SamplerLaw, scale: float) -> None:
    fast = samplers.rounded(law, scale, 800, Chosen(seed=3))
    slow = samplers.rounded(law, scale, 800, Chosen(seed=3), margin=math.inf)
    assert fast.tolist() == slow.tolist()


@LAWS
def test_one_scale_per_draw_matches_scalars(law: SamplerLaw) -> None:
    scales = np.array([0.4, 3.0, 1e6, 2.0**45] * 5_000)
    scales[-1] = 0.7
    draws = samplers.rounded(law, scales, len(scales), Chosen(seed=1))
    words = Chosen(seed=1)(len(scales))
    # Only the first chunk: an extension of V there would shift the words of the next.
    for index in (*range(300), 16_383):
        single = samplers.rounded(law, float(scales[index]), 1, Chosen(int(words[index])))
        assert draws[index] == single[0]


@LAWS
@pytest.mark.parametrize("scale", [0.3, 5.5, 2.0**20, 2.0**30])
def test_draws_match_inversion_by_mpmath(law: SamplerLaw, scale: float) -> None:
    words = Chosen(seed=9)(300)
    draws = samplers.rounded(law, scale, 300, Chosen(*words.tolist()))
    with mpmath.workprec(200):
        for word, draw in zip(words.tolist(), draws.tolist(), strict=True):
            tail = mpmath.mpf(2 * (word % 2**63) + 1) / 2**64
            start = float(law.quantile(np.array([float(tail)]))[0])
            steps = int(mpmath.floor(scale * inverse(law, start, tail) + mpmath.mpf("0.5")))
            assert draw == (-steps if word >> 63 else steps)


@LAWS
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 2.0**20 / 3, 2.0**33])
@pytest.mark.parametrize("sign", [0, 1])
def test_ambiguous_words_are_decided_by_the_bits_that_follow(
    law: SamplerLaw, scale: float, sign: int
) -> None:
    for steps in {1, 2, math.ceil(scale), math.ceil(2.2 * scale), math.ceil(4 * scale)}:
        with mpmath.workprec(400):
            edge = survival(law, (steps - mpmath.mpf("0.5")) / scale)
            bits = int(mpmath.floor(edge * mpmath.mpf(2) ** 127))
        word, follow = sign << 63 | bits >> 64, bits % 2**64
        for offset, expected in ((-1, steps), (1, steps - 1)):
            chosen = Chosen(word, follow + offset)
            draw = int(samplers.rounded(law, scale, 1, chosen)[0])
            assert draw == (-expected if sign else expected)
            assert chosen.taken == 2


@LAWS
@pytest.mark.parametrize("word", [0, 1, 2, 1 << 20, (1 << 46) - 1, 1 << 46, (1 << 46) + 1])
def test_extreme_tails(law: SamplerLaw, word: int) -> None:
    scale, follow = 1e6, 0x0123456789ABCDEF
    draw = int(samplers.rounded(law, scale, 1, Chosen(word, follow, 1 << 63))[0])
    with mpmath.workprec(400):
        tail = (mpmath.mpf((word << 64) + follow) + mpmath.mpf("0.5")) / mpmath.mpf(2) ** 127
        low, high = mpmath.mpf(0), mpmath.mpf(100)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if survival(law, middle) > tail else (low, middle)
        exact = int(mpmath.floor(scale * low + mpmath.mpf("0.5")))
    # The word alone may already decide, whatever follows; otherwise `follow` does.
    assert draw == exact


@LAWS
def test_words_of_all_ones_give_zero(law: SamplerLaw) -> None:
    assert samplers.rounded(law, 1.0, 3, lambda n: np.full(n, 2**64 - 1, np.uint64)).tolist() == [
        0, 0, 0]


@LAWS
def test_words_of_all_zeros_are_refused(law: SamplerLaw) -> None:
    with pytest.raises(PrivledgerError):
        samplers.rounded(law, 1.0, 3, lambda n: np.zeros(n, np.uint64))


@LAWS
def test_the_law_of_the_first_bits_is_symmetric(law: SamplerLaw) -> None:
    words = Chosen(seed=4)(2000)
    flipped = words ^ np.uint64(1 << 63)
    left = samplers.rounded(law, 9.0, 2000, lambda n: words[:n])
    right = samplers.rounded(law, 9.0, 2000, lambda n: flipped[:n])
    assert left.tolist() == (-right).tolist()


def constant(word: int) -> samplers.Words:
    return lambda size: np.full(size, word, dtype=np.uint64)


@pytest.mark.parametrize("rate", [2.0**-64, 1e-9, 0.1, 0.5, math.nextafter(1.0, 0)])
def test_bernoulli_compares_with_the_rate_rounded_down(rate: float) -> None:
    threshold = int(mpmath.floor(mpmath.mpf(rate) * 2**64))
    assert samplers.bernoulli(rate, 1, constant(threshold - 1)).tolist() == [True]
    assert samplers.bernoulli(rate, 1, constant(threshold)).tolist() == [False]


@pytest.mark.parametrize("rate", [0, 0.0, 1e-30])
def test_bernoulli_below_one_unit_is_never_true(rate: float) -> None:
    assert not samplers.bernoulli(rate, 5, constant(0)).any()


def test_bernoulli_at_one_is_always_true() -> None:
    assert samplers.bernoulli(1, 5, constant(2**64 - 1)).all()


def test_integer_below_takes_top_bits_and_rejects() -> None:
    stream = Chosen(7 << 61, 5 << 61, 4 << 61)
    assert samplers.integer_below(5, stream) == 4
    assert stream.taken == 3
    assert samplers.integer_below(1, constant(0)) == 0
    assert samplers.integer_below(2**64, constant(2**64 - 1)) == 2**64 - 1
    assert 0 <= samplers.integer_below(10**40, Chosen(seed=2)) < 10**40


def test_integer_below_notices_a_stuck_source() -> None:
    refused(PrivledgerError, lambda: samplers.integer_below(3, constant(2**64 - 1)))


@all_cases(
    "value",
    [math.nan, math.inf, -math.inf, 0, 0.0, -1.0, True, False, "1", None, 5e-324, 1e-310, 2.0**53,
     10**400, 1j, [1.0, 1.0], np.True_, np.nan])
def test_impossible_scales_are_refused(value: object) -> None:
    refused(InvalidValue, lambda: samplers.checked_scale("sigma", value, 2))


@all_cases(
    "value",
    [np.array([1.0, bad]) for bad in (math.nan, math.inf, -1.0, 0.0, 1e-310, 2.0**53)]
    + [np.ones(3), np.ones((2, 1)), np.array(1.0), np.array([True, True]),
       np.array(["1", "2"]), np.array([1.0, None]), np.ones(2, dtype=complex),
       np.ones(2, dtype=np.longdouble)])
def test_impossible_scale_arrays_are_refused(value: object) -> None:
    refused(InvalidValue, lambda: samplers.checked_scale("sigma", value, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
def test_scale_arrays_of_numbers_are_taken(dtype: type) -> None:
    given = np.array([1, 2], dtype=dtype)
    scales = samplers.checked_scale("sigma", given, 2)
    assert isinstance(scales, np.ndarray)
    assert scales.dtype == np.float64
    assert not np.shares_memory(scales, given)


@all_cases("rate", [math.nan, -0.1, 1.1, True, "0.5", None, 1e-310, math.inf])
def test_impossible_rates_are_refused(rate: object) -> None:
    refused(InvalidValue, lambda: samplers.bernoulli(rate, 1, constant(0)))


@pytest.mark.parametrize("bound", [0, -1, 1.0, True, "3", None, math.nan])
def test_impossible_bounds_are_refused(bound: object) -> None:
    refused(InvalidValue, lambda: samplers.integer_below(bound, constant(0)))
