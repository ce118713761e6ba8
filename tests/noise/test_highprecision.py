"""Integer enclosures and comparisons against mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privledger.errors import PrivledgerError
from privledger.noise import highprecision as hp
from tests.all_cases import all_cases


def true_survival(kind: str, t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(-t) if kind == "laplace" else mpmath.erfc(t / mpmath.sqrt(2))


MASK = (1 << 64) - 1
SURVIVALS = {"laplace": hp.laplace_survival, "gaussian": hp.gaussian_survival}


@pytest.mark.parametrize("kind", SURVIVALS)
@settings(max_examples=150, deadline=None)
@given(
    numerator=st.integers(1, 1 << 70),
    denominator=st.integers(1, 1 << 70),
    precision=st.sampled_from([1, 20, 95, 159, 400]))
def test_survival_is_enclosed(kind: str, numerator: int, denominator: int, precision: int) -> None:
    low, high = SURVIVALS[kind](numerator, denominator, precision)
    with mpmath.workprec(precision + 250):
        t = mpmath.mpf(numerator) / denominator
        exact = true_survival(kind, t) * mpmath.mpf(2) ** precision
        assert low <= exact <= high
    assert high - low <= 2


@all_cases("kind", SURVIVALS)
@all_cases("t", [0.001, 0.5, 1.0, 3.9, 7.99, 8.0, 8.3, 11.4, 11.6, 20.0, 60.0, 200.0])
@all_cases("precision", [95, 159, 1000])
def test_survival_is_tight_at_chosen_points(kind: str, t: float, precision: int) -> None:
    low, high = SURVIVALS[kind](*t.as_integer_ratio(), precision)
    with mpmath.workprec(precision + 3000):
        exact = true_survival(kind, mpmath.mpf(t)) * mpmath.mpf(2) ** precision
        assert low <= exact <= high
    assert high - low <= 2


@pytest.mark.parametrize("width", [64, 127, 128, 500, 4200])
def test_constants_are_enclosed(width: int) -> None:
    with mpmath.workprec(width + 100):
        unit = mpmath.mpf(2) ** width
        low, high = hp._pi(width)
        assert low <= mpmath.pi * unit <= high
        low, high = hp._root_two_over_pi(width)
        assert low <= mpmath.sqrt(2 / mpmath.pi) * unit <= high
    assert high - low < 1 << 20


@given(answer=st.integers(0, 10**6), guess=st.integers(0, 10**6))
def test_any_guess_finds_the_same_answer(answer: int, guess: int) -> None:
    assert hp._last_true(lambda k: k <= answer, guess) == answer


@all_cases("guess", [0, 1, hp.LIMIT - 3, hp.LIMIT])
@all_cases("excess", [-2, -1, 0, 1, 2, 10**6])
def test_search_is_right_about_the_limit(guess: int, excess: int) -> None:
    found = hp._last_true(lambda k: k <= hp.LIMIT + excess, guess)
    assert found == hp.LIMIT + excess if excess <= 0 else found > hp.LIMIT


def feed(words: list[int]) -> Callable[[], int]:
    stream: Iterator[int] = iter(words)
    return lambda: next(stream)


@all_cases("kind", SURVIVALS)
@all_cases("scale", [0.3, 1.0, 7.5, 2.0**20 / 3, 2.0**52])
@all_cases("sigmas", [0.01, 0.7, 2.5, 6.0, 9.0])
def test_bits_beside_a_boundary_decide(kind: str, scale: float, sigmas: float) -> None:
    """V agreeing with a boundary for 63, 127 or 191 bits lands on the right side of it."""
    steps = max(1, round(scale * sigmas))
    with mpmath.workprec(1000):
        boundary = true_survival(kind, (mpmath.mpf(steps) - mpmath.mpf("0.5")) / scale)
        bits = int(mpmath.floor(boundary * mpmath.mpf(2) ** 319))
    first, tail = bits >> 256, [bits >> shift & MASK for shift in (192, 128, 64, 0)]
    for agreed in range(3):
        for side in (-1, 1):
            word = tail[agreed] + side
            if not 0 <= word <= MASK:
                continue
            uniform = hp.LazyUniform(first, 63, feed([*tail[:agreed], word]))
            found = hp.rounded_magnitude(uniform, SURVIVALS[kind], scale, steps)
            assert (found >= steps) == (side < 0)


@pytest.mark.parametrize("kind", SURVIVALS)
@pytest.mark.parametrize("scale", [2.3e-308, 1.0, 2.0**30])
def test_a_source_stuck_at_zero_is_noticed(kind: str, scale: float) -> None:
    uniform = hp.LazyUniform(0, 63, lambda: 0)
    with pytest.raises(PrivledgerError, match="entropy source"):
        hp.rounded_magnitude(uniform, SURVIVALS[kind], scale, 0)


def test_a_magnitude_beyond_the_limit_is_refused() -> None:
    uniform = hp.LazyUniform(0, 63, lambda: 0)
    with pytest.raises(PrivledgerError, match="coarser grid"):
        hp.rounded_magnitude(uniform, hp.laplace_survival, 2.0**52, hp.LIMIT)
