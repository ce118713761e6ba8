"""Costs compose in every currency, and a certificate names its theorem."""

import math
import random
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting import (
    DEFAULT_ORDERS,
    Cost,
    RdpCurve,
    bounded_range_rdp,
    certificate,
    delta_at,
    epsilon_at,
    epsilon_from_mu,
    gaussian_rdp,
    laplace_rdp,
    maximum,
    mu_from_pure,
    pairwise_parallel,
    poisson_gaussian_rdp,
    repeat,
    sequential,
)
from privledger.accounting.cost import any_fails
from privledger.errors import InvalidCurve, InvalidValue, RelationMismatch, UnsupportedNode


def gaussian(noise: float, relation: str = "add_remove") -> Cost:
    return Cost(relation, math.inf, 1 / noise**2, gaussian_rdp(noise))  # type: ignore[arg-type]


def laplace(epsilon: float, relation: str = "add_remove") -> Cost:
    return Cost(relation, epsilon, None, laplace_rdp(epsilon))  # type: ignore[arg-type]


def sampled(rate: float, noise: float) -> Cost:
    return Cost("add_remove", math.inf, None, poisson_gaussian_rdp(rate, noise))


def currencies(cost: Cost) -> np.ndarray:
    exact = math.inf if cost.mu_squared is None else cost.mu_squared
    return np.array([cost.pure, exact, cost.gdp_squared, *cost.curve.bounds])


PARTS = [gaussian(2.0), laplace(0.3), gaussian(7.0), sampled(0.01, 1.0), laplace(1e-3)]


def test_order_of_composition_does_not_matter() -> None:
    source = random.Random(1)
    for _ in range(20):
        shuffled = source.sample(PARTS, len(PARTS))
        nested = sequential([sequential(shuffled[:2]), sequential(shuffled[2:])])
        np.testing.assert_allclose(
            currencies(nested), currencies(sequential(PARTS)), rtol=1e-12)


def test_parallel_never_costs_more_than_sequential() -> None:
    for parts in (PARTS, PARTS[:1], PARTS[1:3], [gaussian(1.0), gaussian(2.0)]):
        assert (currencies(maximum(parts)) <= currencies(sequential(parts))).all()


def test_repeat_is_a_sum() -> None:
    for part in PARTS:
        np.testing.assert_allclose(
            currencies(repeat(part, 5)), currencies(sequential([part] * 5)), rtol=1e-12)
        assert repeat(part, 0) == Cost.zero("add_remove")
        assert repeat(part, 1) == part
        assert (currencies(repeat(part, 5)) >= 5 * currencies(part)).all()


def test_zero_changes_nothing() -> None:
    zero = Cost.zero("add_remove")
    np.testing.assert_allclose(
        currencies(sequential([zero, PARTS[1]])), currencies(PARTS[1]), rtol=1e-14)
    assert epsilon_at(zero, 0.0).epsilon == 0
    assert delta_at(zero, 0.0).delta == 0


def test_gaussians_compose_exactly() -> None:
    total = sequential([gaussian(2.0), gaussian(2.0), gaussian(math.sqrt(2))])
    found = epsilon_at(total, 1e-6)
    assert found.accountant == "gdp"
    assert "exact" in found.theorem
    assert found.epsilon == pytest.approx(epsilon_from_mu(1.0, 1e-6), rel=1e-12)
    assert epsilon_at(total, 1e-6, "rdp").epsilon > found.epsilon


def test_pure_parts_count_as_gaussians() -> None:
    mixed = sequential([gaussian(2.0), laplace(0.5)])
    assert mixed.mu_squared is None
    assert mixed.gdp_squared == pytest.approx(0.25 + mu_from_pure(0.5) ** 2, rel=1e-12)
    assert "exact" not in epsilon_at(mixed, 1e-6, "gdp").theorem
    assert sequential([mixed, sampled(0.1, 1.0)]).gdp() == math.inf


def test_best_is_the_smallest() -> None:
    for part in (*PARTS, sequential(PARTS), repeat(laplace(0.01), 1000)):
        best = epsilon_at(part, 1e-6).epsilon
        for accountant in ("pure", "gdp", "rdp"):
            try:
                assert epsilon_at(part, 1e-6, accountant).epsilon >= best
            except UnsupportedNode:
                continue


def test_epsilon_and_delta_are_inverse() -> None:
    for part in (*PARTS, sequential(PARTS)):
        for accountant in ("pure", "gdp", "rdp", "best"):
            try:
                found = epsilon_at(part, 1e-7, accountant)
                back = delta_at(part, found.epsilon, accountant).delta
            except UnsupportedNode:
                continue
            assert back <= 1e-7 * (1 + 1e-8)
            if accountant != "best" and found.epsilon > 0:
                assert back >= 1e-7 * (1 - 1e-6)


def test_pure_at_delta() -> None:
    assert epsilon_at(laplace(1.0), 0.0).epsilon == 1.0
    assert 1 - 2e-6 <= epsilon_at(laplace(1.0), 1e-6).epsilon < 1.0
    assert delta_at(laplace(1.0), 1.0).delta == 0
    assert epsilon_at(laplace(1.0), 0.9, "pure").epsilon == 0


def test_one_cost_is_converted_once_and_an_equal_one_by_itself(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """To choose a filter, to see whether it fits and to charge it: one and the same conversion.
    Only the very object is known again; whoever makes an equal one has it priced."""
    asked = []
    real = certificate._EPSILON["gdp"]

    def counted(cost: Cost, delta: float) -> certificate.Certificate | None:
        asked.append((id(cost), delta))
        return real(cost, delta)

    monkeypatch.setitem(certificate._EPSILON, "gdp", counted)
    one, other = gaussian(3.21), gaussian(3.21)
    assert one == other
    first = epsilon_at(one, 1e-6)
    assert [epsilon_at(one, 1e-6) for _ in range(3)] == [first] * 3
    assert asked == [(id(one), 1e-6)]
    assert epsilon_at(other, 1e-6) == first
    assert epsilon_at(one, 1e-7).epsilon > first.epsilon
    assert asked == [(id(one), 1e-6), (id(other), 1e-6), (id(one), 1e-7)]


def test_nothing_finite_is_refused() -> None:
    nothing = Cost("add_remove", math.inf, None, RdpCurve((2.0,), (math.inf,)))
    with pytest.raises(UnsupportedNode):
        epsilon_at(nothing, 1e-6)
    with pytest.raises(UnsupportedNode):
        delta_at(nothing, 1.0)
    with pytest.raises(InvalidValue):
        epsilon_at(gaussian(1.0), 0.0)
    with pytest.raises(UnsupportedNode):
        epsilon_at(gaussian(1.0), 1e-6, "pure")
    for ask in (epsilon_at, delta_at):
        with pytest.raises(UnsupportedNode):
            ask(gaussian(1.0), 1e-6, "pld")
        with pytest.raises(InvalidValue):
            ask(gaussian(1.0), 1e-6, "clt")


def test_pairs_of_parts_under_replace_one() -> None:
    move = [gaussian(1.0), gaussian(2.0), gaussian(3.0)]
    stay = [gaussian(0.5 * n, "replace_one") for n in (2.0, 4.0, 6.0)]
    total = pairwise_parallel(stay, move)
    assert total.relation == "replace_one"
    assert total.mu_squared == pytest.approx(1.25)
    assert total.curve.at(2.0) == pytest.approx(1.25)
    assert pairwise_parallel(stay[:1], move[:1]) == stay[0]
    with pytest.raises(RelationMismatch):
        pairwise_parallel(move, move)
    with pytest.raises(InvalidValue):
        pairwise_parallel(stay, move[:2])


def test_relations_and_orders_never_mix() -> None:
    with pytest.raises(RelationMismatch):
        sequential([gaussian(1.0), gaussian(1.0, "replace_one")])
    other = Cost("add_remove", 1.0, None, laplace_rdp(1.0, (2.0, 3.0)))
    for combine in (sequential, maximum):
        with pytest.raises(InvalidCurve):
            combine([gaussian(1.0), other])
        with pytest.raises(InvalidValue):
            combine([])


@pytest.mark.parametrize("bad", [math.nan, -1.0, -math.inf, True, "1", 1e-310])
def test_bad_numbers_are_refused(bad: float) -> None:
    curve = gaussian_rdp(1.0)
    for call in (
        lambda: Cost("add_remove", bad, None, curve), lambda: Cost("add_remove", 1.0, bad, curve),
        lambda: Cost("add_remove", 1.0, None, curve, bad), lambda: repeat(laplace(1.0), bad),
        lambda: epsilon_at(laplace(1.0), bad), lambda: delta_at(laplace(1.0), bad),
        lambda: Cost(bad, 1.0, None, curve), lambda: Cost("add_remove", 1.0, None, bad),
    ):
        with pytest.raises(InvalidValue):
            call()


@pytest.mark.parametrize("plans", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_plans_have_a_finite_price(plans: int) -> None:
    source = random.Random(11)
    orders = DEFAULT_ORDERS[::4]
    for _ in range(plans):
        noise, rate = 10 ** source.uniform(-1.5, 4), 10 ** source.uniform(-6, 0)
        pure = 10 ** source.uniform(-9, 1.5)
        parts = [
            Cost("add_remove", math.inf, noise**-2, gaussian_rdp(noise, orders)),
            Cost("add_remove", math.inf, None, poisson_gaussian_rdp(rate, noise, orders)),
            Cost("add_remove", pure, None, bounded_range_rdp(pure, orders)),
        ]
        chosen = source.sample(parts, source.randint(1, 3))
        total = repeat(sequential(chosen), source.randint(1, 10**5))
        delta = 10 ** source.uniform(-30, -1)
        assert 0 <= epsilon_at(total, delta).epsilon < math.inf
        assert 0 <= delta_at(total, 10 ** source.uniform(-3, 3)).delta <= 1


def test_import_needs_no_scipy_stats() -> None:
    code = "import sys, privledger.accounting; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_failures_compose_as_coins_of_which_none_tells():
    """1 - product of (1 - delta), attained by coins that tell openly; a delta that suffices."""
    plan = pl.Repeat(pl.Asserted(1.0, "a coin", 0.1), 3)
    assert pl.epsilon(plan, 0.271) == 3.0 and pl.epsilon(pl.Asserted(1.0, "one", 1e-6), 1e-6) == 1
    with pytest.raises(pl.InvalidValue):
        pl.epsilon(plan, 0.2709)
    mixed = pl.Sequential([pl.Asserted(0.5, "a", 0.1), pl.Asserted(0.25, "b", 0.2),
                           pl.Gaussian(2.0)])
    chances = [(0.1, 0.5), (0.2, 0.25)]
    for epsilon in (0.0, 0.5, 1.0):
        told = 1 - math.prod(1 - delta for delta, _ in chances)
        pure = [(1 - delta, pl.Asserted(pure, "pure")) for delta, pure in chances]
        rest = pl.delta(pl.Sequential([*(one for _, one in pure), pl.Gaussian(2.0)]), epsilon)
        true = told + (1 - told) * rest
        for accountant in ("best", "pld"):
            found = pl.delta(mixed, epsilon, accountant=accountant)
            assert true * (1 - 1e-4) <= found <= true * (1 + 1e-4)
        assert pl.delta(mixed, epsilon, accountant="gdp") >= true * (1 - 1e-9)


@given(st.lists(st.tuples(st.floats(1e-12, 0.5), st.integers(1, 400)), min_size=1, max_size=4))
def test_failures_are_rounded_up_and_hardly(failures):
    found = any_fails(failures)
    with mp.workdps(60):
        true = 1 - mp.fprod((1 - mp.mpf(failure)) ** times for failure, times in failures)
        assert true <= found <= true * (1 + mp.mpf(10) ** -12) + mp.mpf(10) ** -300
