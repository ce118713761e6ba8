"""The oracle against itself, every accountant against the oracle, and laws of prices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import mpmath as mp  # type: ignore[import-untyped]
import pytest

import privledger as pl
from tests.accounting.oracle import (
    DIRECTIONS,
    Block,
    Direction,
    FiniteLaw,
    GaussianLaw,
    LaplaceLaw,
    Relation,
    binomial_epsilon,
    convolved_epsilon,
    discrete_gaussian,
    discrete_laplace,
    enumerated_delta,
    gaussian_delta,
    laplace_twice_delta,
    lower_bound,
    lower_epsilon,
    product,
    randomized_response,
    single_delta,
    two_candidates,
    worlds,
)
from tests.all_cases import all_cases

TINY = 1e-30
DELTAS = (TINY, 1e-12, 1e-6, 1e-2)
SLACK = 1e-9
PLD = "pld"
MAY_DECLINE = ("gdp", "pure", PLD)

FINITE = {
    "response": randomized_response(1.0),
    "response of five": randomized_response(0.7, others=3),
    "candidates": two_candidates(0.8, -1.0),
    "discrete laplace": discrete_laplace(0.4, 2),
    "discrete gaussian": discrete_gaussian(0.4, 1, delta=1e-4),
    "two on one sample": product(randomized_response(0.5), discrete_laplace(0.3, 1)),
}


# --- the ways agree ---------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize("name", FINITE)
def test_grid_and_counts_never_exceed_an_enumeration(
    name: str, rate: float, direction: Direction
) -> None:
    law = FINITE[name]
    count = 12 if len(law.plain) < 4 else 4 if len(law.plain) < 6 else 2
    block = Block(law, rate, count)
    for delta in DELTAS:
        exact = lower_epsilon(
            lambda e: enumerated_delta(law, rate, direction, count, e), delta, most=200.0)
        grid = convolved_epsilon((block,), direction, delta)
        counts = binomial_epsilon(block, direction, delta)
        assert max(grid, counts) <= exact * (1 + 1e-12)
        # Unequally spaced losses are rounded; the others lose no more than the safety margin.
        spaced = len(law.plain) <= 2 or (rate == 1 and law.step is not None)
        assert grid >= exact * (1 - (1e-4 if spaced else 0.02)) - 1e-9
        if len(law.plain) == 2:
            assert counts >= exact * (1 - 1e-4) - 1e-9


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rate", [0.999, 0.2, 1e-2, 1e-5])
@pytest.mark.parametrize("law", [GaussianLaw(0.05), GaussianLaw(1.0), GaussianLaw(3.0),
                                 LaplaceLaw(0.05), LaplaceLaw(1.0), LaplaceLaw(5.0)])
def test_grid_and_counts_never_exceed_one_exact_round(
    law: GaussianLaw | LaplaceLaw, rate: float, direction: Direction
) -> None:
    block = Block(law, rate)
    for delta in DELTAS:
        exact = lower_epsilon(lambda e: single_delta(law, rate, direction, e), delta)
        grid = convolved_epsilon((block,), direction, delta)
        assert grid <= exact * (1 + 1e-12)
        assert binomial_epsilon(block, direction, delta) <= exact * (1 + 1e-12)
        # Rare large losses next to many tiny ones are what a grid shows worst.
        assert grid >= exact * (1 - 1e-2) - 2.5e-5


@pytest.mark.parametrize("epsilon", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_two_laplace_releases(epsilon: float, delta: float) -> None:
    exact = lower_epsilon(lambda e: laplace_twice_delta(epsilon, e), delta)
    block = Block(LaplaceLaw(epsilon), count=2)
    for direction in DIRECTIONS:
        grid = convolved_epsilon((block,), direction, delta)
        assert exact * (1 - 1e-3) <= grid <= exact * (1 + 1e-12)
        assert binomial_epsilon(block, direction, delta) <= exact * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 300), (0.05, 10_000), (3.0, 2_000)])
@pytest.mark.parametrize("delta", [TINY, 1e-6])
def test_many_responses_are_a_binomial_sum(epsilon: float, count: int, delta: float) -> None:
    with mp.workdps(60):
        e = mp.mpf(epsilon)
        high = 1 / (1 + mp.exp(-e))
        masses = [mp.binomial(count, k) * high**k * (1 - high) ** (count - k)
                  for k in range(count + 1)]

    def exact(goal: float) -> mp.mpf:
        return mp.fsum(mass * -mp.expm1(goal - (2 * k - count) * e)
                       for k, mass in enumerate(masses) if (2 * k - count) * epsilon > goal)

    block = Block(randomized_response(epsilon), count=count)
    for found in (convolved_epsilon((block,), "add", delta),
                  binomial_epsilon(block, "remove", delta)):
        assert exact(found) >= delta
        assert exact(found * (1 + 1e-3)) < delta


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("delta", [TINY, 1e-6, 1e-2])
def test_a_mixture_loses_little_more_than_its_parts(direction: Direction, delta: float) -> None:
    # Fine integer noise is nearly the continuous one, so the whole is nearly one Gaussian.
    world = (Block(GaussianLaw(0.5)), Block(discrete_gaussian(40.0, 4), count=50),
             Block(discrete_gaussian(20.0, 3), count=7))
    mu = math.sqrt(0.25 + 50 / 100 + 7 * 9 / 400)
    exact = lower_epsilon(lambda e: gaussian_delta(mu, e), delta)
    assert exact * (1 - 2e-3) <= convolved_epsilon(world, direction, delta) <= exact * (1 + 1e-9)


def test_a_law_is_a_pair_of_laws() -> None:
    for law in FINITE.values():
        assert isinstance(law, FiniteLaw)
        # Less than one only where far tails were cut.
        assert math.fsum(law.plain) == pytest.approx(1, rel=1e-9)
        assert math.fsum(law.moved) == pytest.approx(1, rel=1e-9)
        for plain, moved, ratio in zip(law.plain, law.moved, law.log_ratio, strict=True):
            assert moved == pytest.approx(plain * math.exp(ratio), rel=1e-10)


# --- accountants ------------------------------------------------------------------------------


@pytest.fixture(params=["best", "rdp", "gdp", "pure", PLD])
def accountant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def possible(node: pl.Node, delta: float, relation: Relation = "add_remove") -> float:
    """The oracle's bound, found once for all accountants."""
    return lower_bound(node, delta, relation)


def price(node: pl.Node, delta: float, relation: Relation, accountant: str) -> float:
    """Epsilon, or infinity where this accountant proves nothing."""
    try:
        return pl.epsilon(node, delta, relation, accountant)
    except pl.errors.UnsupportedNode:
        assert accountant in MAY_DECLINE
        return math.inf


def plan(kind: str, noise: float, rate: float, count: int) -> pl.Node:
    leaves: dict[str, Callable[[], pl.Node]] = {
        "gaussian": lambda: pl.Gaussian(noise),
        "laplace": lambda: pl.Laplace(noise),
        "exponential": lambda: pl.Exponential(1 / noise),
        "discrete laplace": lambda: pl.DiscreteLaplace(0.5 / noise, 2),
        "discrete gaussian": lambda: pl.DiscreteGaussian(noise, 1),
        "response": lambda: pl.RandomizedResponse(1 - 0.5 / noise, 4),
    }
    leaf = leaves[kind]()
    return pl.Repeat(pl.PoissonSample(rate, leaf) if rate < 1 else leaf, count)


@all_cases("kind", ["gaussian", "laplace", "exponential", "discrete laplace"])
@all_cases("rate", [1.0, 0.02])
def test_losses_are_near_what_is_possible(kind: str, rate: float) -> None:
    """Here nothing may be declined, and the bound is tight wherever the oracle is."""
    node = plan(kind, 2.0, rate, 200)
    found = pl.epsilon(node, 1e-6, accountant=PLD)
    slack = 1.25 if kind == "exponential" else 1.01  # one pair stands for all candidates
    assert found <= lower_bound(node, 1e-6) * slack


@pytest.mark.parametrize("count", [1, 40, 10**6])
@pytest.mark.parametrize("noise", [0.7, 5.0])
@pytest.mark.parametrize(("kind", "rate"), [
    *itertools.product(("gaussian", "laplace", "exponential", "discrete laplace",
                        "discrete gaussian"), (1.0, 0.1, 1e-4)),
    ("response", 1.0)])  # a response is not stated for the relation of samples
def test_never_below_what_is_possible(
    kind: str, noise: float, rate: float, count: int, accountant: str
) -> None:
    relation: Relation = "replace_one" if kind == "response" else "add_remove"
    node = plan(kind, noise, rate, count)
    for delta in (TINY, 1e-6):
        found = price(node, delta, relation, accountant)
        assert found >= possible(node, delta, relation) * (1 - SLACK)


@pytest.mark.parametrize(("epsilon", "count", "delta"), [
    (1.8449018258830805, 385, 5.3e-29), (2.0, 354, 1e-22), (2.0, 360, 1e-22), (5.0, 1000, 1e-6)])
def test_losses_too_large_for_exp(
    epsilon: float, count: int, delta: float, accountant: str
) -> None:
    """Nearly the whole of a pure bound can be needed, and then exp(epsilon) is no float."""
    node = pl.Repeat(pl.Asserted(epsilon, "vouched for"), count)
    found = price(node, delta, "replace_one", accountant)
    assert found >= possible(node, delta, "replace_one") * (1 - SLACK)


@pytest.mark.parametrize("node", [
    pl.IndividualFilter("gdp", 0.7), pl.IndividualFilter("renyi", 0.4, 12.0),
    pl.nodes.Group(3, pl.Gaussian(4.0)), pl.nodes.Group(3, pl.Laplace(4.0)),
    pl.PoissonSample(0.1, pl.Repeat(pl.Gaussian(2.0), 3)),
    pl.PoissonSample(0.1, pl.Repeat(pl.Exponential(0.3), 3)),
    pl.PoissonSample(0.1, pl.Sequential([pl.Gaussian(2.0), pl.Laplace(1.0)])),
    pl.PoissonSample(0.1, pl.PoissonSample(0.3, pl.Gaussian(1.0))),
    pl.PoissonSample(0.2, pl.Parallel([pl.Gaussian(2.0), pl.Laplace(1.0)])),
    pl.Sequential([pl.Parallel([pl.Gaussian(2.0), pl.Laplace(0.5)]), pl.Exponential(1.0),
                   pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 500)])])
def test_composites_are_never_below_what_is_possible(node: pl.Node, accountant: str) -> None:
    for delta in DELTAS:
        assert price(node, delta, "add_remove", accountant) >= possible(node, delta) * (
            1 - SLACK)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("rate", [0.5, 0.01])
@pytest.mark.parametrize("noise", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.001, 0.3, 2.0])
def test_delta_of_one_sampled_round(
    kind: str, rate: float, noise: float, epsilon: float, accountant: str
) -> None:
    law = GaussianLaw(1 / noise) if kind == "gaussian" else LaplaceLaw(1 / noise)
    exact = max(single_delta(law, rate, direction, epsilon) for direction in DIRECTIONS)
    try:
        found = pl.delta(plan(kind, noise, rate, 1), epsilon, accountant=accountant)
    except pl.errors.UnsupportedNode:
        assert accountant in MAY_DECLINE
        return
    assert found >= exact * (1 - mp.mpf(10) ** -12)


# --- laws -------------------------------------------------------------------------------------

PIECES: tuple[pl.Node, ...] = (
    pl.Repeat(pl.PoissonSample(0.02, pl.Gaussian(1.2)), 300), pl.Gaussian(3.0), pl.Laplace(4.0),
    pl.Repeat(pl.Exponential(0.1), 20), pl.DiscreteLaplace(0.2, 2),
)


def total(node: pl.Node, accountant: str, relation: Relation = "add_remove") -> float:
    return price(node, 1e-7, relation, accountant)


def test_order_does_not_matter(accountant: str) -> None:
    found = [total(pl.Sequential(order), accountant)
             for order in itertools.islice(itertools.permutations(PIECES), 0, 120, 13)]
    assert max(found) == min(found) or max(found) <= min(found) * (1 + 1e-9)


@pytest.mark.parametrize("noises", [(0.8, 0.9, 1.5, 10.0)])
@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("kind", [
    "gaussian", "laplace", "exponential", "discrete laplace", "discrete gaussian"])
def test_more_noise_costs_less(
    kind: str, rate: float, noises: tuple[float, ...], accountant: str
) -> None:
    found = [total(plan(kind, noise, rate, 30), accountant) for noise in noises]
    for dear, cheap in itertools.pairwise(found):
        assert cheap <= dear * (1 + SLACK)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "exponential", "discrete laplace"])
def test_a_larger_sample_and_more_rounds_cost_more(kind: str, accountant: str) -> None:
    by_rate = [total(plan(kind, 1.5, rate, 30), accountant)
               for rate in (1e-5, 1e-3, 0.05, 0.051, 0.9, 0.9999)]
    by_count = [total(plan(kind, 1.5, 0.05, count), accountant)
                for count in (1, 2, 3, 50, 51, 10_000)]
    for found in (by_rate, by_count):
        for less, more in itertools.pairwise(found):
            assert less <= more * (1 + SLACK)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "exponential", "discrete laplace"])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.9999])
def test_a_sample_costs_no_more_than_all(kind: str, rate: float, accountant: str) -> None:
    sample, everything = (total(plan(kind, 1.5, of, 30), accountant) for of in (rate, 1.0))
    assert sample <= everything * (1 + SLACK)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "exponential"])
def test_a_smaller_delta_costs_more(kind: str, accountant: str) -> None:
    node = plan(kind, 2.0, 0.1, 100)
    found = [price(node, delta, "add_remove", accountant) for delta in (0.1, 1e-2, 1e-6, 1e-30)]
    for less, more in itertools.pairwise(found):
        assert less <= more * (1 + SLACK)


@pytest.mark.parametrize("node", PIECES)
def test_a_sample_of_all_is_no_sample(node: pl.Node, accountant: str) -> None:
    assert total(pl.PoissonSample(1.0, node), accountant) == pytest.approx(
        total(node, accountant), rel=SLACK)


@pytest.mark.parametrize("two", list(itertools.combinations(PIECES, 2)))
def test_parts_cost_no_more_than_a_sequence(
    two: tuple[pl.Node, pl.Node], accountant: str
) -> None:
    together = total(pl.Parallel(two), accountant)
    assert together <= total(pl.Sequential(two), accountant) * (1 + SLACK)
    assert together >= max(total(node, accountant) for node in two) * (1 - SLACK)


@pytest.mark.parametrize("node", [*PIECES[1:], pl.Parallel(PIECES[1:3]),
                                  pl.Sequential(PIECES[1:])])
def test_a_replacement_costs_at_least_a_removal(node: pl.Node, accountant: str) -> None:
    replaced = total(node, accountant, "replace_one")
    assert replaced >= total(node, accountant) * (1 - SLACK)


@pytest.mark.parametrize("node", PIECES)
def test_what_only_reads_releases_is_free(node: pl.Node, accountant: str) -> None:
    padded = pl.Sequential([pl.nodes.Public("size"), node, pl.nodes.PostProcess("mean")])
    assert total(padded, accountant) == pytest.approx(total(node, accountant), rel=SLACK)
    assert total(pl.Parallel([pl.nodes.PostProcess(), node]), accountant) == pytest.approx(
        total(node, accountant), rel=SLACK)


def test_nothing_is_free_to_lower_bounds_either() -> None:
    assert worlds(pl.Sequential([pl.nodes.PostProcess(), pl.nodes.Public()])) == [()]
    assert lower_bound(pl.nodes.PostProcess(), 1e-6) == 0
    with pytest.raises(TypeError):
        lower_bound("a node", 1e-6)  # type: ignore[arg-type]
