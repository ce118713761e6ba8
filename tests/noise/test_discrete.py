"""Discrete noise: floats and integers agree, edges are exact, impossible numbers are refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import exp, floor, mp, mpf

from privledger.errors import InvalidValue
from privledger.noise import discrete
from privledger.noise.samplers import MARGIN
from tests.all_cases import all_cases


class Words:
    """Given words, then zeros."""

    def __init__(self, *given: int) -> None:
        self.left = list(given)

    def __call__(self, size: int) -> np.ndarray:
        taken, self.left = self.left[:size], self.left[size:]
        return np.array(taken + [0] * (size - len(taken)), dtype=np.uint64)


def edge(parameter: float, k: int) -> int:
    """floor(2^63 P(|X| >= k)), to 60 digits."""
    mp.dps = 60
    chance = 2 * exp(-mpf(parameter) * k) / (1 + exp(-mpf(parameter)))
    return int(floor(chance * mpf(2) ** 63))


@all_cases("parameter", [3.0, 0.7, 1 / 9, 2.0**-20 / 1.1])
@all_cases("far", [1.1, 3.0, 20.0])
def test_the_words_beside_an_edge_fall_on_its_two_sides(parameter, far):
    k = math.ceil(far / parameter)
    at = edge(parameter, k)
    for sign, negative in ((1, 0), (-1, 1 << 63)):
        inside, outside = (discrete.discrete_laplace(parameter, 1, Words(word | negative))[0]
                           for word in (at - 1, at + 1))
        assert inside >= k > sign * outside if sign == 1 else inside <= -k < outside


@pytest.mark.parametrize("parameter", [2.0, 0.3, 2.0**-30])
def test_floats_and_integers_say_the_same(parameter):
    words = np.random.default_rng(5).integers(0, 1 << 64, 400, dtype=np.uint64)
    fast = discrete.discrete_laplace(parameter, 400, Words(*words.tolist()))
    one_by_one = [int(discrete.discrete_laplace(parameter, 1, Words(word), margin=1e9)[0])
                  for word in words.tolist()]
    assert fast.tolist() == one_by_one


@pytest.mark.parametrize("sigma", [0.3, 1.0, 17.3, 2.0**40 / 3])
def test_coins_by_floats_and_by_integers_are_the_same(sigma):
    rng, whole = np.random.default_rng(6), math.floor(sigma) + 1
    tried = np.rint(rng.laplace(size=300) * whole).astype(np.int64)
    words = rng.integers(0, 1 << 64, 300, dtype=np.uint64).tolist()
    fast = discrete._kept(tried, sigma, whole, Words(*words), MARGIN)
    for x, word, kept in zip(tried.tolist(), words, fast.tolist(), strict=True):
        away = (abs(x) - Fraction(sigma) ** 2 / whole) ** 2 / (2 * Fraction(sigma) ** 2)
        mp.dps = 60
        ratio = exp(-mpf(away.numerator) / mpf(away.denominator))
        assert kept == (mpf(word) < ratio * mpf(2) ** 64)
        (slow,) = discrete._kept(np.array([x]), sigma, whole, Words(word), 1e30)
        assert slow == kept


@all_cases("value", [0, -1.0, math.nan, math.inf, True, 2.0**-60, 2.0**60, "1"])
def test_impossible_numbers_are_refused(value):
    for draw in (discrete.discrete_laplace, discrete.discrete_gaussian):
        with pytest.raises(InvalidValue):
            draw(value, 3, Words())
