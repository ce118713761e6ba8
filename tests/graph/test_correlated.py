"""Correlated noise: what a record moves is never more than the bound, which is exact for bands."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.errors import InvalidMechanism, InvalidValue
from tests.all_cases import all_cases
from tests.worlds import refused

correlated = pl.nodes.correlated_gaussian


def allowed(size, apart, most):
    """Every set of steps that a record may take part in."""
    return [steps for number in range(1, most + 1)
            for steps in itertools.combinations(range(size), number)
            if all(b - a >= apart for a, b in itertools.pairwise(steps))]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1),
       st.booleans())
def test_no_record_moves_more(size, apart, most, seed, signed):
    rng = np.random.default_rng(seed)
    apart = min(apart, size)
    matrix = np.tril(rng.normal(size=(size, size)) if signed else rng.uniform(size=(size, size)))
    matrix[np.arange(size), np.arange(size)] += 1e-3
    node = correlated(matrix, 1.0, separation=apart, participations=most)
    bound = 1 / node.noise_multiplier
    gram = np.abs(matrix.T @ matrix)
    most_moved = 0.0
    for steps in allowed(size, apart, most):
        most_moved = max(most_moved, gram[np.ix_(steps, steps)].sum())
        vectors = rng.normal(size=(len(steps), 3))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        assert np.linalg.norm(matrix[:, steps] @ vectors) <= bound * (1 + 1e-12)
    assert most_moved**0.5 <= bound * (1 + 1e-12)
    if most == 1:
        assert bound <= np.linalg.norm(matrix, axis=0).max() * (1 + 1e-12)


@pytest.mark.parametrize(("band", "apart", "most"), [(1, 1, 3), (3, 3, 4), (4, 6, 3)])
def test_bands_no_wider_than_the_separation_are_exact(band, apart, most):
    size = 14
    matrix = np.tril(np.triu(np.random.default_rng(1).uniform(size=(size, size)).T, 1 - band))
    matrix = np.tril(matrix)
    for i, j in itertools.product(range(size), repeat=2):
        if i - j >= band:
            matrix[i, j] = 0.0
    found = correlated(matrix, 2.0, separation=apart, participations=most)
    norms = (matrix**2).sum(axis=0)
    exact = max(norms[list(steps)].sum() for steps in allowed(size, apart, most))
    assert found.noise_multiplier == pytest.approx(2 / exact**0.5, rel=1e-12)
    assert found.noise_multiplier <= 2 / exact**0.5


def test_independent_noise_is_as_many_gaussians():
    node = correlated(np.eye(100), 3.0, separation=10, participations=10)
    assert pl.epsilon(node, 1e-6) == pytest.approx(pl.epsilon(pl.Repeat(pl.Gaussian(3.0), 10),
                                                              1e-6), rel=1e-10)
    assert correlated(np.eye(100), 3.0, separation=10, participations=99) == node  # ten fit


def test_an_adaptive_record_gains_nothing():
    """Each contribution follows from what was released; the loss stays that of one Gaussian.

    The mean of e^-loss over runs that the filter theorem covers is 1, and of the loss at most
    mu^2/2: 40,000 runs, 6 standard errors (a chance below 1e-8 each).
    """
    rng = np.random.default_rng(5)
    matrix = np.tril(np.ones((6, 6)))
    node = correlated(matrix, 6.0, separation=1, participations=6)
    mu = 1 / node.noise_multiplier
    loss = np.zeros(40_000)
    past = np.zeros((40_000, 0))
    for step in range(6):
        last = past[:, -1] if step else np.zeros(40_000)
        past = np.column_stack([past, np.sign(last) + (last == 0)])  # v_s in {-1, 1}
        moved = past @ matrix[step, :step + 1]
        noise = rng.normal(0, 6.0, 40_000)
        loss += (2 * moved * noise + moved**2) / (2 * 36)
        past[:, -1] *= np.sign(noise + moved)
    assert abs(np.exp(-loss).mean() - 1) < 6 * np.exp(-loss).std() / 200
    assert loss.mean() <= mu**2 / 2 + 6 * loss.std() / 200


@pytest.mark.parametrize("size", [2.6e-162, 1e-150, 1e-141])
def test_numbers_whose_products_leave_the_floats_are_refused(size):
    """[[2.6e-162]] with noise 1e-162 gave .45 where .385 is right: its square is subnormal."""
    with pytest.raises((InvalidMechanism, InvalidValue)):
        correlated([[size]], size, separation=1, participations=1)
    assert correlated([[1e-139]], 1e-100, separation=1, participations=1).noise_multiplier <= 1e39


@all_cases("wrong", [
    [], [[]], [[0.0]], [[1.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]], np.zeros((3, 3)),
    np.ones((2, 3)), np.ones(3)[:, None]])
def test_what_is_no_strategy_is_refused(wrong):
    with pytest.raises((InvalidMechanism, InvalidValue)):
        correlated(wrong, 1.0, separation=1, participations=1)


@pytest.mark.parametrize("wrong", [[[True]], [["1"]], [[float("nan")]], [[float("inf")]],
                                   np.array([[True]]), [[1.0, 0.0], [True, 1.0]]])
def test_what_is_no_number_is_refused(wrong):
    refused(InvalidValue, lambda: correlated(wrong, 1.0, separation=1, participations=1))


@pytest.mark.parametrize("rule", ["plain", "if it showed", "other way"])
@pytest.mark.parametrize("added", [False, True])
def test_cyclic_samples_cost_no_less_than_two_blocks_seen_in_full(rule, added):
    """Four steps in two groups; the second contribution is chosen from the first block's rows.

    Each block is seen through its one direction, where the record moves it by its column's norm.
    """
    own, rate, noise = (0.8, -0.6), 0.3, 0.9
    plan = pl.nodes.cyclic_poisson(own, noise, rate=rate, groups=2, steps=4)
    assert plan.count == 2 and plan.node.node.noise_multiplier == pytest.approx(noise, rel=1e-9)
    x = np.linspace(-9, 10, 1501)
    density = np.exp(-0.5 * x * x) * (x[1] - x[0]) / np.sqrt(2 * np.pi)

    def ratio(size):
        return 1 - rate + rate * np.exp(size * x / noise - 0.5 * (size / noise) ** 2)

    first = ratio(1.0)
    second = {"plain": np.ones_like(x), "if it showed": np.where(first > 1, 1.0, 0.0),
              "other way": np.where(first > 1, -0.5, 1.0)}[rule]
    both = np.array([one * ratio(size) for one, size in zip(first, second, strict=True)])
    base = np.multiply.outer(density, density)
    for epsilon in (0.0, 0.4, 1.5):
        excess = 1 - np.exp(epsilon) * both if added else both - np.exp(epsilon)
        true = float((base * np.maximum(excess, 0)).sum())
        found = pl.delta(plan, epsilon)
        assert true <= found * (1 + 1e-6)
        if rule == "plain" and not added:
            assert found <= true * 1.01


def test_bands_wider_than_the_groups_overlap_and_are_refused():
    refused(InvalidMechanism, lambda: pl.nodes.cyclic_poisson([1.0, 0.5, 0.2], 1.0, rate=0.1,
            groups=2, steps=10), lambda: pl.nodes.cyclic_poisson([0.0], 1.0, rate=0.1, groups=2,
            steps=10))
    long = pl.nodes.cyclic_poisson([0.9, 0.4], 1.0, rate=0.01, groups=100, steps=10**7)
    assert pl.epsilon(long, 1e-6) < pl.epsilon(pl.Repeat(long.node, 10**7), 1e-6)
