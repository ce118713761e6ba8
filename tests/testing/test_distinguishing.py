"""The statistics of an audit: exact bounds, power where there is a leak, silence where not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from privledger.errors import PrivledgerError
from privledger.testing import distinguish
from privledger.testing.distinguishing import clopper_pearson, runs_needed


@given(st.integers(1, 60), st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 0.2))
@settings(max_examples=80, deadline=None)
def test_bounds_miss_no_more_often_than_they_say(runs, share, miss):
    """By the binomial weights themselves, so this test has no false alarms."""
    hits = np.arange(runs + 1)
    low, high = clopper_pearson(hits, runs, miss)
    weights = binom.pmf(hits, runs, share)
    assert weights[low > share].sum() <= miss * (1 + 1e-6) + 1e-12
    assert weights[high < share].sum() <= miss * (1 + 1e-6) + 1e-12
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all()


def laplace(rng, epsilon, shift, runs):
    return rng.laplace(shift, 1 / epsilon, (runs, 1))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_an_exact_mechanism_is_not_accused_and_a_louder_one_is(epsilon):
    """Seeded. An accusation of the first has probability at most 1e-6."""
    rng = np.random.default_rng(1)
    first, second = (laplace(rng, epsilon, shift, 20_000) for shift in (0.0, 1.0))
    found = distinguish(first, second)
    assert 0.4 * epsilon < found.epsilon_low <= epsilon
    first, second = (laplace(rng, 2 * epsilon, shift, 20_000) for shift in (0.0, 1.0))
    assert distinguish(first, second).epsilon_low > epsilon


@pytest.mark.parametrize("seed", range(100))
def test_outputs_that_never_overlap_are_always_told_apart(seed):
    """As filed: a cut at the largest output that was seen left one or two of the next beyond it,
    and one look in thirty at a whole leak proved too little."""
    rng = np.random.default_rng(seed)
    runs = runs_needed(1.2)
    found = distinguish(rng.random((runs, 1)), 3 + 5 * rng.random((runs, 1)))
    assert found.epsilon_low >= 1.2 and 0 in found.hits


def test_no_difference_proves_nothing():
    """Seeded. Above 0 it would be a false alarm, of probability at most 1e-6 each."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        sample = rng.integers(0, 3, (2, 200, 4)).astype(float)
        assert distinguish(*sample).epsilon_low == 0.0


def test_delta_is_taken_off():
    """A leak in one run of twenty: infinite epsilon at delta 0, none at delta 0.1."""
    first = np.zeros((4000, 1))
    second = (np.arange(4000) % 20 == 0).astype(float)[:, None]
    assert distinguish(first, second).epsilon_low > 1.0
    assert distinguish(first, second, delta=0.1).epsilon_low == 0.0


def test_a_leak_in_one_direction_of_many_outputs_is_found():
    rng = np.random.default_rng(3)
    secret = rng.standard_normal(30)
    noise = rng.standard_normal((2, 3000, 30)) * 3
    assert distinguish(noise[0], noise[1] + secret).epsilon_low > 1.5


def test_a_leak_in_the_combination_of_outputs_is_found():
    """Each output alone says nothing; together they are equal on one table only."""
    coins = np.random.default_rng(4).integers(0, 2, (2, 2000)).astype(float)
    first = np.column_stack([coins[0], coins[0]])
    second = np.column_stack([coins[1], 1 - coins[1]])
    assert distinguish(first, second).epsilon_low > 3


@given(st.floats(0.05, 4.0))
def test_enough_runs_for_a_whole_leak(epsilon):
    runs = runs_needed(epsilon)
    low = distinguish(np.zeros((runs, 1)), np.ones((runs, 1))).epsilon_low
    assert epsilon <= low <= epsilon + 0.5 or (low >= epsilon and runs <= 60)
    fewer = runs - 4
    assert distinguish(np.zeros((fewer, 1)), np.ones((fewer, 1))).epsilon_low < epsilon


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1e-6, math.nan, True])
def test_impossible_probabilities_are_refused(wrong):
    with pytest.raises(PrivledgerError):
        distinguish(np.zeros((8, 1)), np.zeros((8, 1)), false_alarm=wrong)
    if wrong:
        with pytest.raises(PrivledgerError):
            distinguish(np.zeros((8, 1)), np.zeros((8, 1)), delta=wrong)
