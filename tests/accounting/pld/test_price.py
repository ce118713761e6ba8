"""Prices of compositions: enclosed, monotone, and inverse to each other; history of failures."""

from __future__ import annotations

import itertools
import math

import mpmath as mp  # type: ignore[import-untyped]
import pytest

from privledger.accounting.pld import (
    NOTHING,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    Losses,
    both_ways,
    dearest,
    discrete_laplace_pair,
    fixed_size,
    moved,
    poisson,
    pure_pair,
    response_pair,
    together,
)
from privledger.accounting.pld.accountant import epsilon_lower, epsilon_upper
from privledger.accounting.pld.by_pld import delta_by_pld, epsilon_by_pld, epsilon_lower_by_pld
from privledger.accounting.pld.losses import resolve
from tests.accounting.oracle import Block, LaplaceLaw, binomial_epsilon, randomized_response
from tests.accounting.pld import exact

GAUSS, LAPLACE = both_ways(GaussianPair(0.3)), both_ways(LaplacePair(0.2))
CHOICE, RESPONSE = both_ways(BoundedRangePair(0.3)), both_ways(response_pair(0.6, 3))
LEAK = both_ways(pure_pair(0.05, 1e-10))
PLANS: dict[str, Losses] = {
    "gaussian": together([(GAUSS, 7)]),
    "laplace": together([(LAPLACE, 60)]),
    "choices": together([(CHOICE, 40)]),
    "responses": together([(RESPONSE, 25)]),
    "mixed": together([(GAUSS, 5), (LAPLACE, 20), (CHOICE, 4), (LEAK, 10)]),
    "sampled gaussian": together([(poisson(0.02, GAUSS), 900)]),
    "sampled laplace": together([(poisson(0.1, LAPLACE), 200)]),
    "sampled plan": together([(poisson(0.1, together([(GAUSS, 1), (LAPLACE, 3)])), 50)]),
    "fixed size": together([(fixed_size(0.05, GAUSS), 100)]),
    "parts": together([(dearest([GAUSS, LAPLACE, CHOICE]), 12)]),
    "moved": together([(moved([GAUSS, LAPLACE], [GAUSS, LAPLACE]), 6)]),
    "many tiny": together([(both_ways(LaplacePair(1e-5)), 10**8)]),
}
DELTAS = (1e-2, 1e-5, 1e-8)


@pytest.mark.parametrize("name", PLANS)
def test_enclosed_and_monotone(name: str) -> None:
    found = [epsilon_by_pld(PLANS[name], delta).value for delta in DELTAS]
    below = [epsilon_lower_by_pld(PLANS[name], delta) for delta in DELTAS]
    assert all(0 <= low <= high for low, high in zip(below, found, strict=True))
    assert all(a <= b * (1 + 1e-6) for a, b in itertools.pairwise(found))
    assert all(a <= b * (1 + 1e-3) for a, b in itertools.pairwise(below))
    if name in ("gaussian", "laplace", "responses"):
        assert all(low > 0.98 * high - 1e-3 for low, high in zip(below, found, strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_delta_and_epsilon_are_inverse(name: str) -> None:
    for delta in DELTAS[:2]:
        epsilon = epsilon_by_pld(PLANS[name], delta).value
        if epsilon > 0:
            assert delta_by_pld(PLANS[name], epsilon).value == pytest.approx(delta, rel=3e-3)
            assert delta_by_pld(PLANS[name], 1.05 * epsilon).value < delta


def test_none_where_nothing_can_be_certified() -> None:
    leak = together([(both_ways(pure_pair(0.05, 1e-6)), 10), (GAUSS, 2)])
    assert epsilon_by_pld(leak, 1e-6) is None
    assert epsilon_by_pld(leak, 1.1e-5).value > 0


def test_nothing_costs_nothing() -> None:
    assert epsilon_by_pld(NOTHING, 1e-6).value == 0 == delta_by_pld(NOTHING, 0.0).value
    assert epsilon_lower_by_pld(NOTHING, 1e-6) == 0


@pytest.mark.parametrize("name", ["coin", "response", "whole"])
@pytest.mark.parametrize("count", [2, 5, 9])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_against_enumeration(name: str, count: int, rate: float) -> None:
    pair, table = {
        "coin": (pure_pair(0.8), exact.coin(0.8)),
        "response": (response_pair(0.6, 3), exact.response(0.6, 3)),
        "whole": (discrete_laplace_pair(0.3, 2), exact.discrete_laplace(0.3, 2)),
    }[name]
    one = both_ways(pair) if rate == 1 else poisson(rate, both_ways(pair))
    plan = together([(one, count)])
    lanes = [table] if rate == 1 else [table.sampled(rate, lane) for lane in ("remove", "add")]
    truth = [lane.power(count) for lane in lanes]
    for delta in (3e-2, 1e-4):
        upper, lower = epsilon_by_pld(plan, delta).value, epsilon_lower_by_pld(plan, delta)
        with mp.workdps(40):
            assert max(one(mp.mpf(upper)) for one in truth) <= delta * (1 + mp.mpf(10) ** -14)
            if lower > 0:
                assert max(one(mp.mpf(lower)) for one in truth) >= delta * (1 - mp.mpf(10) ** -9)
                assert lower > 0.97 * upper - 1e-3
    for epsilon in (0.0, 0.4, 1.1):
        with mp.workdps(40):
            true = max(one(mp.mpf(epsilon)) for one in truth)
            found = delta_by_pld(plan, epsilon).value
            assert true <= found * (1 + mp.mpf(10) ** -14)
            assert found <= float(true) * 1.001 + 1e-9


def test_gaussians_merge_into_one() -> None:
    plan = together([(both_ways(GaussianPair(0.3)), 16), (both_ways(GaussianPair(0.9)), 1)])
    truth = exact.gaussian(1.5)
    for delta in DELTAS:
        found = epsilon_by_pld(plan, delta)
        assert found.points == 0
        with mp.workdps(40):
            assert truth(mp.mpf(found.value)) <= delta
            assert truth(mp.mpf(found.value) * (1 - mp.mpf(10) ** -10)) > delta


def test_a_part_that_is_larger_everywhere_is_the_price() -> None:
    small, large = both_ways(LaplacePair(0.1)), both_ways(LaplacePair(0.4))
    for delta in DELTAS:
        assert epsilon_by_pld(dearest([small, large]), delta).value == epsilon_by_pld(
            large, delta).value


@pytest.mark.parametrize(("size", "count"), [
    pytest.param(1e-5, 10**8, marks=pytest.mark.slow), (1e-4, 10**5), (1e-3, 10**6)])
def test_losses_far_below_the_mesh_do_not_wrap_from_below(size: float, count: int) -> None:
    """They spread more on the lattice than they are; the window once took no notice of it."""
    for pair, law in ((LaplacePair(size), LaplaceLaw(size)),
                      (pure_pair(size), randomized_response(size))):
        for delta in (1e-3, 1e-9):
            known = binomial_epsilon(Block(law, 1.0, count), "remove", delta, tests=2)
            items = ((pair, count), (GaussianPair(1e-3), 1))  # so that no closed form applies
            for tolerance, soft in ((2e-6, 1 << 17), (2e-3, 1 << 13), (0.1, 1 << 12)):
                upper = epsilon_upper(items, delta, tolerance, soft).value
                lower = epsilon_lower(items, delta, max(tolerance, 1e-4), soft).value
                assert known * (1 - 1e-9) <= upper
                assert lower <= upper < math.inf


@pytest.mark.parametrize("tolerance", [1e-4, 0.3])
@pytest.mark.parametrize(("mu", "rate", "count", "delta"), [
    (0.9507709866783732, 0.10765058741504696, 50, 0.0009330332851708617),
    (0.7429008180302896, 0.016149460448260305, 10, 0.014665190377131479),
    (1.1000259865417599, 0.4574447591354216, 10, 0.0806768105014801),
    (1.3266674502340325, 0.033175699335239506, 5, 6.720487461011927e-06)])
def test_lower_bounds_lie_below_upper_bounds_in_each_lane(
    mu: float, rate: float, count: int, delta: float, tolerance: float
) -> None:
    plan = together([(poisson(rate, both_ways(GaussianPair(mu))), count)])
    for lane in (plan.remove, plan.add):
        items = resolve(lane, 1e-20)
        upper = epsilon_upper(items, delta).value
        assert epsilon_lower(items, delta, tolerance, 1 << 13).value <= upper * (1 + 1e-9)
