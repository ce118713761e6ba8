"""Very small, very large and very deep: typed answers, never below the truth, never slow."""

from __future__ import annotations

import time
import warnings

import mpmath as mp
import pytest

import privledger as pl
from tests.all_cases import all_cases

DELTAS = [1e-300, 1e-100, 1e-22, 1e-16, 1e-9, 1e-3]


def coins(noise, count, delta):
    """Epsilon of `count` binary randomized responses, in 60 digits, from below."""
    with mp.workdps(60):
        wrong = mp.mpf(noise) / 2
        right = 1 - wrong
        loss = mp.log(right / wrong)

        def missing(epsilon):
            return mp.fsum(mp.binomial(count, k) * (
                right**k * wrong**(count - k) - mp.exp(epsilon) * wrong**k * right**(count - k))
                for k in range(count + 1) if (2 * k - count) * loss > epsilon)

        low, high = mp.mpf(0), count * loss
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (low, middle) if missing(middle) <= mp.mpf(delta) else (middle, high)
        return low


@pytest.mark.parametrize("count", [2, 10, 33])
@pytest.mark.parametrize("noise", [0.5, 0.1, 0.9])
def test_repeated_coins_are_never_below_the_truth(noise, count):
    """As filed: at delta of 1e-22 and less it was 1.5e-15 nats below."""
    node = pl.Repeat(pl.RandomizedResponse(noise, 2), count)
    for delta in DELTAS:
        found = pl.epsilon(node, delta, "replace_one")
        truth = coins(noise, count, delta)
        assert mp.mpf(found) >= truth
        assert found <= float(truth) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("noise", "buckets"), [(0.5, 2), (0.1, 3), (1e-9, 7), (0.999, 1000),
                                                (2.3e-308, 2), (2.3e-308, 10**15), (1.0, 4)])
def test_one_response_is_never_below_the_truth(noise, buckets):
    with mp.workdps(400):
        truth = mp.log(1 + buckets * (1 - mp.mpf(noise)) / mp.mpf(noise))
        found = mp.mpf(pl.epsilon(pl.RandomizedResponse(noise, buckets), 0.0, "replace_one"))
        assert truth <= found <= truth * (1 + mp.mpf(10) ** -13)


@all_cases("accountant", ["best", "pld", "rdp", "gdp", "pure", "zcdp"])
@all_cases("delta", [1e-2, 0.0050001, 0.3])
def test_a_failing_assertion_repeated_never_divides_by_zero(accountant, delta):
    """As filed: Repeat(Asserted(1, "x", delta=1e-3), 5) at delta 1e-2."""
    node = pl.Repeat(pl.Asserted(1, "x", delta=1e-3), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pl.epsilon(node, delta, accountant=accountant)
        pl.epsilon(node, delta, explain=True)
    assert found >= float(failing(delta))


def failing(delta):
    """What five times (1, 1e-3) allows at `delta`, exactly: Kairouz, Oh, Viswanath 2015."""
    with mp.workdps(40):
        kept, likely = (1 - mp.mpf("1e-3")) ** 5, mp.e / (1 + mp.e)

        def missing(epsilon):
            return 1 - kept + kept * mp.fsum(
                mp.binomial(5, k) * likely**k * (1 - likely) ** (5 - k)
                * (1 - mp.exp(epsilon - (2 * k - 5))) for k in range(6) if 2 * k - 5 > epsilon)

        low, high = mp.mpf(0), mp.mpf(5)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if missing(middle) <= delta else (middle, high)
        return low * (1 - mp.mpf("1e-15"))


def sampled(depth, between=lambda node: node, rate=0.9):
    node = between(pl.Gaussian(1.0))
    for _ in range(depth):
        node = between(pl.PoissonSample(rate, node))
    return node


@pytest.mark.parametrize("between", [
    lambda node: node,
    lambda node: pl.Repeat(node, 1),
    lambda node: pl.Sequential([node, pl.nodes.PostProcess("nothing")]),
], ids=["directly", "repeated once", "beside nothing"])
def test_samples_of_samples_are_one_sample_at_any_depth(between):
    """As filed: the time doubled with every level."""
    depth = 99 if between(pl.Gaussian(1.0)) == pl.Gaussian(1.0) else 45
    started = time.process_time()
    found = pl.epsilon(sampled(depth, between, 0.99), 1e-5)
    assert time.process_time() - started < 60
    whole = pl.epsilon(pl.PoissonSample(0.99**depth, pl.Gaussian(1.0)), 1e-5)
    assert whole * (1 - 1e-9) <= found <= whole * (1 + 1e-6)


def test_samples_of_fixed_sizes_are_one_sample_too():
    node = pl.nodes.FixedSizeSample(40, 60, pl.Laplace(1.0))
    node = pl.nodes.FixedSizeSample(60, 80, pl.Repeat(node, 1))
    found = pl.epsilon(node, 1e-5, "replace_one")
    whole = pl.epsilon(pl.nodes.FixedSizeSample(40, 80, pl.Laplace(1.0)), 1e-5, "replace_one")
    assert whole * (1 - 1e-9) <= found <= whole * (1 + 1e-6)


def test_too_deep_a_plan_is_a_typed_refusal():
    """As filed: 1,000 Sequentials were a raw RecursionError."""
    def nested(depth):
        node = pl.Gaussian(1.0)
        for _ in range(depth):
            node = pl.Sequential([node])
        return node

    with pytest.raises(pl.errors.InvalidPlan, match="deep"):
        nested(1000)
    assert pl.epsilon(nested(99), 1e-5) == pl.epsilon(pl.Gaussian(1.0), 1e-5)


@all_cases("ask", [
    lambda: pl.epsilon(pl.PoissonSample(1e-100, pl.Gaussian(50.0)), 0.5),
    lambda: pl.delta(pl.Laplace(1e100), 1e140),
    lambda: pl.epsilon(pl.Gaussian(1e-140), 1e-300),
    lambda: pl.epsilon(pl.Gaussian(1e140), 1e-300),
    lambda: pl.rdp(pl.Laplace(1e-140), [1.0000001, 1e6]),
    lambda: pl.epsilon(pl.Repeat(pl.AssertedZCDP(1e-300, "x"), 10**15), 1e-300),
    lambda: pl.epsilon(pl.Exponential(700.0), 1e-9),
    lambda: pl.delta(pl.Exponential(1e140), 700.0),
])
def test_no_warning_and_no_raw_exception_at_the_ends(ask):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (ask() >= 0) is not False


@pytest.mark.parametrize("leaf", [pl.PermuteAndFlip(1.0), pl.ReportNoisyMax(1e-9)])
def test_delta_far_beyond_every_loss_is_zero_at_once(leaf):
    """The quotient of the two was infinite, or counted down from by ones for hours."""
    begin = time.process_time()
    assert pl.delta(pl.Repeat(leaf, 10**6), epsilon=1e300) == 0.0
    assert time.process_time() - begin < 20


def test_no_warning_where_an_order_times_a_loss_is_beyond_the_floats():
    node = pl.nodes.OneOf([pl.Asserted(1.7e308, "x"), pl.Gaussian(1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pl.delta(node, epsilon=700.0, accountant="rdp") <= 1.0
        assert pl.epsilon(node, delta=1e-300, accountant="rdp") > 0


def test_very_many_runs_are_priced_soon():
    """The mesh spread over 2 * 10^8 points: minutes, and gigabytes."""
    node = pl.Repeat(pl.TopK(50, 473.67, "gumbel"), 10**15)
    begin = time.process_time()
    for relation, delta in (("replace_one", 1 - 2.0**-53), ("replace_one", 1e-6)):
        assert pl.epsilon(node, delta, relation) > 1e15
    assert time.process_time() - begin < 20


def test_a_tuning_alone_costs_no_more_than_any_accountant_says():
    """Its pair is pure DP's, which the Renyi bound may be below: it was not asked."""
    node = pl.nodes.Tuning(pl.Repeat(pl.Laplace(10.0), 2), shape=1.0, success=0.3)
    says = {name: pl.epsilon(node, 1e-6, accountant=name) for name in ("pure", "rdp", "pld")}
    assert pl.epsilon(node, 1e-6) == min(says.values()) == says["rdp"] < 0.571
