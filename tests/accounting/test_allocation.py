"""Random allocation: Renyi bounds against exact sums, prices against an oracle written apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import privledger as pl
from privledger.accounting.allocation import (
    allocation_rdp,
    log_moments_minus_one,
    reverse_bound,
)
from tests.accounting import ratios
from tests.alone import verify_history

Allocation = pl.nodes.RandomAllocation


def moment_minus_one(steps, mu, order):
    """E L^a - 1, a coefficient of a power of the series of moments, in 60 digits."""
    with mp.workdps(60):
        series = [mp.exp(mpf(mu) ** 2 * k * (k - 1) / 2) / mp.factorial(k)
                  for k in range(order + 1)]
        power = [mpf(1)] + [mpf(0)] * order
        for _ in range(steps):
            power = [mp.fsum(power[j] * series[n - j] for j in range(n + 1))
                     for n in range(order + 1)]
        return power[order] * mp.factorial(order) / mpf(steps) ** order - 1


@pytest.mark.parametrize(("steps", "mu"), [(2, 1.0), (3, 0.05), (7, 0.4), (12, 2.5), (40, 1.0)])
def test_moments_are_exact_and_never_below(steps, mu):
    found = log_moments_minus_one(steps, mu, 12)
    for order in (2, 3, 5, 12):
        excess = mpf(found[order]) - mp.log(moment_minus_one(steps, mu, order))
        assert 0 <= excess < 1e-10


@pytest.mark.parametrize(("mu", "order"), [(1.0, 1.3), (1.0, 4.0), (0.3, 2.0), (0.3, 9.5),
                                           (2.0, 2.0)])
def test_the_other_direction_is_never_below_a_quadrature_over_the_plane(mu, order):
    x = np.linspace(-14 - 3 * mu * order, 11, 1500)
    weight = np.exp(-0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    ratio = np.exp(mu * x - 0.5 * mu * mu)
    mean = 0.5 * (ratio[:, None] + ratio)
    truth = math.log(weight @ mean ** (1 - order) @ weight) / (order - 1)
    # Of few rounds the transform's digits count twice.
    assert truth * (1 - 1e-12) <= reverse_bound(2, mu, order) <= truth * (1 + 2e-3)


@pytest.mark.parametrize(("steps", "mu"), [(20, 1.0), (500, 0.5)])
def test_the_other_direction_is_close_for_many_rounds(steps, mu):
    ratio, mass = ratios.ratio_law(steps, mu)
    for order in (1.3, 2.0, 7.5):
        truth = math.log(mass @ ratio ** (1 - order)) / (order - 1)
        assert reverse_bound(steps, mu, order) == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize(("steps", "mu"), [(5, 1.0), (1000, 0.5), (30, 2.0), (10**6, 1.0)])
def test_both_directions_are_below_the_curve(steps, mu):
    orders = (1.2, 2.0, 3.5, 8.0, 33.0, 500.0, 700.0)
    curve = allocation_rdp(steps, 1 / mu, orders)
    for order in orders[:5]:
        assert curve.at(order) >= reverse_bound(steps, mu, order) * (1 - 1e-12) or (
            curve.at(order) >= 0.5 * mu * mu * (1 + (order - 1) / steps))
    assert all(bound <= 0.5 * order * mu * mu * (1 + 1e-12)
               for order, bound in zip(orders, curve.bounds, strict=True))
    assert curve.at(700.0) == pytest.approx(350.0 * mu * mu, rel=1e-12)


@pytest.mark.parametrize(("steps", "noise", "delta", "close"), [
    (2, 1.0, 1e-3, 1e-4), (10, 1.0, 1e-6, 2e-4), (10, 2.0, 1e-3, 3e-4), (100, 1.0, 1e-6, 3e-4),
    (100, 0.77, 1e-5, 3e-4), (1000, 2.0, 1e-6, 6e-4),
])
def test_one_pass_is_never_below_the_truth_and_close(steps, noise, delta, close):
    truth = ratios.epsilon(steps, noise, delta)
    ours = pl.epsilon(Allocation(steps, pl.Gaussian(noise)), delta)
    assert truth * (1 - 1e-7) <= ours <= truth * (1 + close)
    assert pl.epsilon(Allocation(steps, pl.Gaussian(noise)), delta, accountant="rdp") >= truth


@pytest.mark.parametrize(("steps", "noise", "passes"), [(50, 1.0, 5), (200, 2.0, 20)])
def test_several_passes_are_never_below_the_truth(steps, noise, passes):
    truth = ratios.epsilon(steps, noise, 1e-6, passes)
    node = pl.Repeat(Allocation(steps, pl.Gaussian(noise)), passes)
    assert truth * (1 - 2e-6) <= pl.epsilon(node, 1e-6) <= truth * (1 + 1e-3)
    assert pl.epsilon(node, 1e-6, accountant="rdp") >= truth


@pytest.mark.slow
@given(steps=st.integers(2, 400), noise=st.floats(0.7, 5.0), log_delta=st.floats(-7, -2),
       passes=st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_random_passes_are_never_below_the_truth(steps, noise, log_delta, passes):
    truth = ratios.epsilon(steps, noise, 10**log_delta, passes)
    node = pl.Repeat(Allocation(steps, pl.Gaussian(noise)), passes)
    assert pl.epsilon(node, 10**log_delta) >= truth * (1 - 1e-5) - 1e-9


def test_it_is_never_dearer_than_one_round_and_one_round_is_itself():
    for noise in (0.05, 1.0, 300.0):
        round_ = pl.Gaussian(noise)
        whole = pl.epsilon(round_, 1e-6)
        assert pl.epsilon(Allocation(1, round_), 1e-6) == whole
        for steps in (2, 10**9):
            assert pl.epsilon(Allocation(steps, round_), 1e-6) <= whole * (1 + 1e-4)
    parts = pl.Parallel([pl.Sequential([pl.Gaussian(2.0)] * 4), pl.Gaussian(5.0)])  # mu 1
    assert pl.epsilon(Allocation(20, parts), 1e-6) == pytest.approx(
        pl.epsilon(Allocation(20, pl.Gaussian(1.0)), 1e-6), rel=1e-9)


def test_nothing_is_said_from_below_beyond_the_table():
    assert pl.epsilon(Allocation(20, pl.Gaussian(0.05)), 1e-6, explain=True).lower == 0


@pytest.mark.parametrize(("steps", "noise", "delta", "passes"), [
    (2, 1.0, 1e-3, 1), (10, 2.0, 1e-3, 1), (100, 1.0, 1e-6, 1), (1000, 2.0, 1e-6, 1),
    (3, 1.0, 1e-4, 1), (50, 1.0, 1e-6, 5), (200, 2.0, 1e-6, 20)])
def test_the_truth_lies_between(steps, noise, delta, passes):
    truth = ratios.epsilon(steps, noise, delta, passes)
    node = pl.Repeat(Allocation(steps, pl.Gaussian(noise)), passes)
    found = pl.epsilon(node, delta, explain=True)
    assert truth * (1 - 1e-3) <= found.lower <= truth * (1 + 2e-6)
    assert found.lower <= found.certificate.epsilon


@pytest.mark.parametrize("node", [
    Allocation(3, pl.nodes.Tuning(pl.Laplace(1.0), success=0.5)),
    Allocation(3, pl.Asserted(1.0, "so they say", 1e-9)),
    Allocation(3, pl.PoissonSample(0.1, pl.Gaussian(1.0))),
    Allocation(3, Allocation(3, pl.Gaussian(1.0))),
    Allocation(3, pl.IndividualFilter("gdp", 0.5)),
    Allocation(3, pl.nodes.Group(2, pl.Gaussian(1.0))),
    pl.PoissonSample(0.1, Allocation(3, pl.Gaussian(1.0))),
])
def test_what_is_not_proved_is_refused(node):
    with pytest.raises(pl.errors.UnsupportedNode, match="no proof"):
        pl.epsilon(node, 1e-6)
    with pytest.raises(verify_history.Bad, match="inside a|allocation of"):
        verify_history.price(verify_history.Table().node(pl.nodes.to_json(node)), "add_remove")


def test_other_relations():
    node = Allocation(3, pl.Gaussian(4.0))
    with pytest.raises(pl.errors.RelationMismatch, match="AsReplaceOne"):
        pl.epsilon(node, 1e-6, "replace_one")
    twice = pl.epsilon(pl.nodes.AsReplaceOne(node), 1e-6, "replace_one")
    assert pl.epsilon(node, 1e-6) < twice < pl.epsilon(pl.Gaussian(2.0), 1e-6) * (1 + 1e-9)
    with pytest.raises(pl.errors.UnsupportedNode, match="LabelOnly"):
        pl.epsilon(pl.nodes.LabelOnly(pl.nodes.AsReplaceOne(node)), 1e-6, "replace_label")


def test_other_handles_are_not_its_rounds():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="rdp")
    schema = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
    data = ledger.protect({"x": [0.5, 0.25]}, schema)
    with ledger.request(Allocation(3, pl.Gaussian(4.0)), data) as session:
        for handle in (data, data.poisson(1 / 3)):
            with pytest.raises(pl.errors.NotGranted):
                session.release(pl.Gaussian(4.0), handle.count())


def test_a_run_elsewhere_is_charged_as_one_and_no_step_of_it_is_counted():
    """A step under a plan of other steps must not pass for one of them."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-5), filter="gdp")
    schema = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
    ledger.protect({"x": [0.5, 0.25]}, schema, name="t")
    for plan in (pl.Repeat(Allocation(100, pl.Gaussian(8.0)), 3), pl.Repeat(
            pl.nodes.TruncatedPoissonSample(0.01, 150, 10_000, pl.Gaussian(8.0)), 3),
            pl.Repeat(pl.nodes.Correlated(pl.Gaussian(8.0), (1.0, 0.5), 9, 2, 3), 3)):
        with ledger.foreign(plan, table="t", library="other", version="1.0", hook="loop",
                            learner="x") as run, pytest.raises(pl.errors.NotGranted):
            run.step(noise=8.0, rate=0.01)
