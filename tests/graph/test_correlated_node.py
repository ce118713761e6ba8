"""Correlated noise on record: what a record moves, by enumeration; and never under a sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import privledger as pl
from privledger.errors import InvalidMechanism
from privledger.graph.correlated import moved_squared
from privledger.graph.nodes import to_json
from privledger.standalone import prices
from privledger.standalone.reading import Bad, Table, check_coefficients
from tests.all_cases import all_cases
from tests.graph.test_correlated import allowed
from tests.worlds import refused, schema_of

Correlated = pl.nodes.Correlated
G = pl.Gaussian(2.0)


def toeplitz(coefficients, steps):
    matrix = np.zeros((steps, steps))
    for lag, value in enumerate(coefficients):
        matrix += value * np.eye(steps, k=-lag)
    return matrix


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9),
       st.integers(0, 2**32 - 1), st.booleans())
def test_no_allowed_steps_move_more_and_some_move_as_much(steps, apart, most, width, seed, falls):
    apart = min(apart, steps)
    rng = np.random.default_rng(seed)
    width = min(width, steps if falls else apart)
    held = np.sort(rng.uniform(size=width))[::-1] if falls else rng.normal(size=width)
    held[0] = abs(held[0]) + 1e-3
    node = Correlated(G, held, steps, apart, most)
    matrix = toeplitz(held, steps)
    gram = np.abs(matrix.T @ matrix)
    truth = max(gram[np.ix_(one, one)].sum() for one in allowed(steps, apart, most))
    assert truth * (1 - 1e-13) <= moved_squared(node) <= truth * (1 + 1e-12)


def test_it_costs_what_the_gaussian_for_its_matrix_costs():
    for held, apart in (((1.0, -0.5, 0.3), 4), ((1.0, 0.5, 0.375, 0.3125), 2)):
        node = Correlated(pl.Gaussian(3.0), held, 12, apart, 3)
        bound = pl.nodes.correlated_gaussian(toeplitz(held, 12), 3.0, separation=apart,
                                             participations=3)
        ours, theirs = pl.epsilon(node, 1e-6), pl.epsilon(bound, 1e-6)
        assert ours <= theirs * (1 + 1e-9)
        if len(held) <= apart:
            assert ours == pytest.approx(theirs, rel=1e-9)
    plain = Correlated(pl.Gaussian(3.0), (1.0,), 100, 10, 4)
    assert pl.epsilon(plain, 1e-6) == pytest.approx(
        pl.epsilon(pl.Repeat(pl.Gaussian(3.0), 4), 1e-6), rel=1e-9)
    assert pl.epsilon(pl.nodes.AsReplaceOne(plain), 1e-6, "replace_one") == pytest.approx(
        pl.epsilon(pl.Repeat(pl.Gaussian(1.5), 4), 1e-6), rel=1e-9)


@pytest.mark.parametrize("around", [
    lambda node: pl.PoissonSample(0.1, node),
    lambda node: pl.PoissonSample(0.1, pl.Repeat(node, 2)),
    lambda node: pl.nodes.RandomAllocation(5, node),
    lambda node: pl.nodes.TruncatedPoissonSample(0.1, 5, 20, node)])
def test_it_is_never_amplified(around):
    refused(pl.errors.UnsupportedNode, lambda: pl.epsilon(around(Correlated(G, (1.0, 0.5), 10, 2,
            2)), 1e-6), lambda: pl.epsilon(pl.nodes.FixedSizeSample(5, 20,
            pl.nodes.AsReplaceOne(Correlated(G, (1.0, 0.5), 10, 2, 2))), 1e-6, "replace_one"),
            match="correlated noise")


@all_cases("arguments", [
    (pl.Laplace(1.0), (1.0,), 5, 1, 1), (pl.Repeat(G, 2), (1.0,), 5, 1, 1),
    (pl.Gaussian(2.0, (0.5, 0.5)), (1.0,), 5, 1, 1), (G, (), 5, 1, 1), (G, (0.0,), 5, 1, 1),
    (G, (-1.0,), 5, 1, 1), (G, (1.0,) * 6, 5, 1, 1), (G, (1.0, 2.0), 5, 1, 2),
    (G, (1.0, -0.5), 5, 1, 2), (G, (1.0, 0.5, 0.6), 5, 2, 2), (G, (1e101,), 5, 1, 1),
    (G, (1.0, 1e101), 5, 2, 1), (G, "12", 5, 1, 1)])
def test_strategies_it_cannot_bound_are_refused(arguments):
    refused(InvalidMechanism, lambda: Correlated(*arguments))


def test_relation_and_release():
    node = Correlated(G, (1.0, 0.5), 10, 2, 2)
    with pytest.raises(pl.errors.RelationMismatch, match="AsReplaceOne"):
        pl.epsilon(node, 1e-6, "replace_one")
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), filter="gdp")
    schema = schema_of("one", {"x": (0.0, 1.0)})
    data = ledger.protect({"x": [0.5, 0.25]}, schema)
    with ledger.request(node, data) as session, pytest.raises(pl.errors.NotGranted):
        session.release(G, data.count())
    assert "and 17 more" in pl.nodes.label(Correlated(G, (1.0,) * 20, 20, 1, 1))


def stick(a, q, mu):
    """H_a of one sampled Gaussian, removed: by its closed form, for arrays of a above 0."""
    if mu == 0:
        return np.maximum(0, 1 - a)
    with np.errstate(divide="ignore"):
        edge = np.where(a > 1 - q, (np.log(np.maximum(a - 1 + q, 1e-300) / q) + mu**2 / 2) / mu,
                        -50.0)
    return (1 - q) * stats.norm.sf(edge) + q * stats.norm.sf(edge - mu) - a * stats.norm.sf(edge)


@pytest.mark.parametrize("rule", [
    lambda one, two, ratio: np.where(ratio > 1, 1.0, 0.0),
    lambda one, two, ratio: np.where(one > two, -1.0, 0.5),
    lambda one, two, ratio: np.ones_like(one)], ids=["once seen", "turned", "always"])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("epsilon", [0.05, 0.4])
def test_no_contribution_that_follows_rows_loses_more(rule, added, epsilon):
    """Four steps in bands of two: the second contribution is chosen from the first block's rows.

    By quadrature, to 1e-6 of 1.
    """
    held, noise, q, h = (0.8, -0.6), 1.0, 0.3, 0.04
    a, (one, two) = np.exp(epsilon), np.meshgrid(np.arange(-8, 8, h), np.arange(-8, 8, h))
    shift = (held[0] * one + held[1] * two) / noise - np.square(held).sum() / noise**2 / 2
    before, ratio = stats.norm.pdf(one) * stats.norm.pdf(two) * h * h, 1 - q + q * np.exp(shift)
    chosen, norm, found = rule(one, two, ratio), np.hypot(*held) / noise, 0.0
    for size in np.unique(chosen):
        at = chosen == size
        if added:  # H_a of the mirror image is 1 - a + a H_(1/a)
            level = a * ratio[at]
            part = 1 - level + level * stick(1 / level, q, abs(size) * norm)
            found += float((before[at] * part).sum())
        else:
            found += float((before[at] * ratio[at] * stick(
                a / ratio[at], q, abs(size) * norm)).sum())
    node = Correlated(pl.PoissonSample(q, pl.Gaussian(noise)), held, 4, 2, 2)
    most = pl.delta(node, epsilon)
    assert found <= most + 1e-6
    if chosen.min() == 1 and not added:  # always the whole clip
        assert found >= 0.99 * most


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 40), st.integers(1, 30),
       st.integers(0, 2**32 - 1))
def test_the_verifier_adds_up_the_same(steps, apart, most, width, seed):
    rng = np.random.default_rng(seed)
    held = np.sort(rng.uniform(0.01, 1, size=min(width, steps)))[::-1]
    node = Correlated(G, held, steps, min(apart, steps), most)
    read = Table().node(to_json(node))
    assert prices.correlated(read, "add_remove").exact == pytest.approx(
        moved_squared(node) / 4, rel=1e-12)


def test_a_run_of_100_000_steps():
    """Square-root factors of prefix sums, cut off; 2,048 coefficients are on record at most."""
    held = np.cumprod(np.append(1.0, 1 - 0.5 / np.arange(1, 2048)))
    for apart, most in ((1000, 100), (1, 10**6)):
        node = Correlated(pl.Gaussian(100.0), held, 100_000, apart, most)
        read = Table().node(to_json(node))
        assert prices.correlated(read, "add_remove").exact == pytest.approx(
            moved_squared(node) / 1e4, rel=1e-9)
    with pytest.raises(InvalidMechanism, match="2048 at most"):
        Correlated(G, np.ones(2049), 100_000, 1, 1)
    refused(Bad, lambda: check_coefficients((1.0,) * 2049, 100_000, 1))
