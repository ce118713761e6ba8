"""Prices of single mechanisms against closed forms and against brute force."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import refused

ORDERS = [1.25, 2.0, 4.0, 8.5, 32.0]


def log_renyi(log_p, log_q, order):
    """Renyi divergence of two finite distributions given by unnormalised logarithms."""
    log_p, log_q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    return float(logsumexp(order * log_p - (order - 1) * log_q)) / (order - 1)


def renyi(p, q, order):
    """Renyi divergence of two finite distributions."""
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    return math.log(float(np.sum(q * (p / q) ** order))) / (order - 1)


def test_gaussian_curve_is_the_closed_form():
    found = pl.rdp(pl.Gaussian(2.0), ORDERS)
    assert np.all(found >= np.array(ORDERS) / 8)
    assert found == pytest.approx(np.array(ORDERS) / 8, rel=1e-12)


def test_laplace_pure_epsilon():
    assert pl.epsilon(pl.Laplace(2.0, l1_sensitivity=3.0)) == pytest.approx(1.5, rel=1e-14)
    assert pl.epsilon(pl.Laplace(2.0, l1_sensitivity=3.0)) >= 1.5


@all_cases("order", ORDERS)
@all_cases("epsilon", [0.05, 0.5, 2.0])
def test_discrete_laplace_curve_covers_the_exact_divergence(order, epsilon):
    x = np.arange(-4000, 4001)
    exact = log_renyi(-epsilon * np.abs(x), -epsilon * np.abs(x - 1), order)
    assert pl.rdp(pl.DiscreteLaplace(epsilon), [order])[0] >= exact * (1 - 1e-9)


@all_cases("order", ORDERS)
@all_cases("sigma", [0.4, 1.0, 3.0])
def test_discrete_gaussian_curve_covers_the_exact_divergence(order, sigma):
    x = np.arange(-200, 201)
    exact = log_renyi(-(x**2) / (2 * sigma**2), -((x - 1) ** 2) / (2 * sigma**2), order)
    assert pl.rdp(pl.DiscreteGaussian(sigma), [order])[0] >= exact * (1 - 1e-9)


@all_cases("order", ORDERS)
@all_cases("epsilon", [0.1, 1.0, 3.0])
def test_exponential_curve_covers_random_selections(order, epsilon):
    """Scores that move by at most the sensitivity, in either direction."""
    rng = np.random.default_rng(1)
    bound = pl.rdp(pl.Exponential(epsilon), [order])[0]
    for _ in range(200):
        before = rng.normal(size=6) * 4
        after = before + rng.choice([-1.0, 1.0], 6) * rng.random() ** 0.2
        p, q = (np.exp(epsilon / 2 * (s - s.max())) for s in (before, after))
        assert renyi(p / p.sum(), q / q.sum(), order) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("noise", "buckets"), [(0.5, 2), (0.1, 2), (0.9, 10), (1.0, 3)])
def test_randomized_response_is_exact(noise, buckets):
    keep = (1 - noise) + noise / buckets
    other = noise / buckets
    node = pl.RandomizedResponse(noise, buckets)
    found = pl.epsilon(node, relation="replace_one")
    assert found == pytest.approx(math.log(keep / other), abs=1e-12)
    assert found >= math.log(keep / other)
    refused(pl.errors.RelationMismatch, lambda: pl.epsilon(node, relation="add_remove"))


def test_shares_do_not_change_the_price():
    assert pl.epsilon(pl.Gaussian(2.0, (0.2, 0.8)), 1e-6) == pl.epsilon(pl.Gaussian(2.0), 1e-6)


def test_discrete_gaussian_claims_no_gaussian_profile():
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.epsilon(pl.DiscreteGaussian(2.0), 1e-6, accountant="gdp")


def test_gaussian_has_no_pure_epsilon():
    refused(pl.InvalidValue, lambda: pl.epsilon(pl.Gaussian(2.0)))


def test_unknown_mechanism_is_refused():
    class Mystery:
        pass

    refused(pl.PrivledgerError, lambda: pl.epsilon(Mystery(), 1e-6))


def test_a_subclass_is_not_the_mechanism():
    """A subclass may answer anything when it is asked for its noise: it is a new, unknown type."""
    class Quieter(pl.Gaussian):
        pass

    refused((pl.PrivledgerError, TypeError), lambda: pl.epsilon(Quieter(1.0), 1e-6))


@pytest.mark.parametrize("node", [
    pl.Laplace(1.0), pl.Gaussian(1.0), pl.DiscreteLaplace(1.0), pl.DiscreteGaussian(1.0),
    pl.Exponential(1.0), pl.RandomizedResponse(0.5), pl.Asserted(1.0, "why")])
def test_records_are_frozen(node):
    with pytest.raises(AttributeError):
        node.scale = 0.0
    assert hash(node) == hash(type(node)(*[getattr(node, a.name) for a in node.__attrs_attrs__]))
