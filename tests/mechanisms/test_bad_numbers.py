"""Numbers that can never be right are refused wherever a number enters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import privledger as pl
from tests.all_cases import all_cases

NAN = float("nan")
NEVER = [NAN, math.inf, -math.inf, -1, -1.0, True, False, "1", None, 1j, [1.0], b"1",
         np.bool_(True), np.float64("nan"), np.float32("inf"), 10**400]
SUBNORMAL = 5e-324
BAD_POSITIVE = [*NEVER, 0, 0.0, -0.0, SUBNORMAL]
BAD_COUNT = [*NEVER, 0, 1.5, 1.0]
BAD_RATE = [*NEVER, 0, 0.0, SUBNORMAL, 1.0000001, 2]
BAD_DELTA = [*NEVER, 1, 1.0, 1.5, SUBNORMAL]
# 10**400 is a fine count, although a silly one.
BAD_COUNT = [value for value in BAD_COUNT if not (isinstance(value, int) and value == 10**400)]


def cases(**builders):
    """One case for each builder and bad value."""
    for name, (build, values) in builders.items():
        for value in values:
            yield pytest.param(build, value, id=f"{name}-{str(value)[:12]}")


G = pl.Gaussian(1.0)


@all_cases(("build", "value"), [
    *cases(
        laplace_scale=(lambda v: pl.Laplace(scale=v), BAD_POSITIVE),
        laplace_sensitivity=(lambda v: pl.Laplace(1.0, l1_sensitivity=v), BAD_POSITIVE),
        gaussian=(lambda v: pl.Gaussian(v), BAD_POSITIVE),
        gaussian_share=(lambda v: pl.Gaussian(1.0, (0.5, v)), BAD_POSITIVE),
        discrete_laplace=(lambda v: pl.DiscreteLaplace(v), BAD_POSITIVE),
        discrete_laplace_sensitivity=(lambda v: pl.DiscreteLaplace(1.0, v), BAD_COUNT),
        discrete_gaussian=(lambda v: pl.DiscreteGaussian(v), BAD_POSITIVE),
        discrete_gaussian_sensitivity=(lambda v: pl.DiscreteGaussian(1.0, v), BAD_COUNT),
        exponential=(lambda v: pl.Exponential(v), BAD_POSITIVE),
        asserted=(lambda v: pl.Asserted(v, "why"), BAD_POSITIVE),
        response=(lambda v: pl.RandomizedResponse(v), BAD_RATE),
        buckets=(lambda v: pl.RandomizedResponse(0.5, v), [*BAD_COUNT, 1]),
        repeat=(lambda v: pl.Repeat(G, v), BAD_COUNT),
        rate=(lambda v: pl.PoissonSample(v, G), BAD_RATE),
        group=(lambda v: pl.nodes.Group(v, G), BAD_COUNT),
        filter_cap=(lambda v: pl.IndividualFilter("gdp", v), BAD_POSITIVE),
        filter_order=(lambda v: pl.IndividualFilter("renyi", 1.0, v), [*BAD_POSITIVE, 1, 0.5]),
        budget=(lambda v: pl.Budget(v, 1e-6), BAD_POSITIVE),
        budget_delta=(lambda v: pl.Budget(1.0, v), BAD_DELTA),
        epsilon_delta=(lambda v: pl.epsilon(G, delta=v), BAD_DELTA),
        delta_epsilon=(lambda v: pl.delta(G, epsilon=v), [*NEVER, SUBNORMAL]),
        rdp_order=(lambda v: pl.rdp(G, [2.0, v]), [*BAD_POSITIVE, 1, 0.5]),
        calibrate=(lambda v: pl.calibrate(pl.Gaussian, v, 1e-6), BAD_POSITIVE),
        calibrate_delta=(lambda v: pl.calibrate(pl.Gaussian, 1.0, v), BAD_DELTA),
        ledger_order=(lambda v: pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="rdp",
                                   order=v),
                      [v for v in [*BAD_POSITIVE, 1, 0.5] if v is not None]),
        seed=(lambda v: pl.Ledger.create(None, budget=pl.Budget(1.0), mode="simulation", seed=v),
              [NAN, 1.5, -1, True, "1"]),
    ),
])
def test_impossible_number_is_refused(build, value):
    with pytest.raises(pl.InvalidValue):
        build(value)


@pytest.mark.parametrize("value", [-1.0, 0.0, math.inf, NAN, "1", None, True])
def test_impossible_numbers_are_value_errors_too(value):
    with pytest.raises(ValueError):
        pl.Laplace(value)


@pytest.mark.parametrize("orders", [[], (), [1.0], [0.5, 2.0]])
def test_orders_must_lie_above_one(orders):
    with pytest.raises(pl.InvalidValue):
        pl.rdp(G, orders)


@pytest.mark.parametrize("relation", ["", "add-remove", "ADD_REMOVE", None, 1, True,
                                      ["add_remove"]])
def test_unknown_relation_is_refused_everywhere(relation):
    for build in (lambda: pl.epsilon(G, 1e-6, relation=relation),
                  lambda: pl.delta(G, 1.0, relation=relation),
                  lambda: pl.rdp(G, [2.0], relation=relation),
                  lambda: pl.calibrate(pl.Gaussian, 1.0, 1e-6, relation=relation),
                  lambda: pl.Ledger.create(None, budget=pl.Budget(1.0), relation=relation)):
        with pytest.raises(pl.InvalidValue):
            build()


@pytest.mark.parametrize("budget", [1.0, (1.0, 1e-6), None, "1"])
def test_a_budget_is_a_budget(budget):
    with pytest.raises(pl.InvalidValue):
        pl.Ledger.create(None, budget=budget)


@pytest.mark.parametrize("shares", [(0.6, 0.6), (1.0, 1e-9), (1.0000001,)])
def test_shares_sum_to_at_most_one(shares):
    with pytest.raises(pl.errors.InvalidMechanism):
        pl.Gaussian(1.0, shares)


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_an_assertion_needs_a_reason(why):
    with pytest.raises(pl.errors.InvalidMechanism):
        pl.Asserted(1.0, why)


@pytest.mark.parametrize("build", [
    lambda d, v: d.poisson(v), lambda d, v: d.custom(lambda t: t["size"], v, "why"),
    lambda d, v: d.score("squared", [0.0]).gradient(v),
    lambda d, v: pl.questions.CustomValue(lambda t: t["size"], v, "why"),
    lambda d, v: pl.questions.Ones(clip=v),
    lambda d, v: d.score("squared", [0.0], scale=v), lambda d,
    v: pl.questions.ColumnValue("size", 0.0, v),
    lambda d, v: pl.questions.ColumnValue("size", 0.0, 1.0, clip=v),
], ids=["poisson", "custom", "gradient", "custom-block", "ones-clip", "scale", "column-scale",
        "column-clip"])
@pytest.mark.parametrize("value", [NAN, math.inf, -1.0, 0.0, SUBNORMAL, True, "1", None])
def test_impossible_number_in_a_query_is_refused(guarded, build, value):
    with pytest.raises((pl.InvalidValue, TypeError)) as caught:
        build(guarded[1], value)
    # A parameter that does not exist is as good as a refused one.
    assert isinstance(caught.value, pl.InvalidValue) or "unexpected keyword" in str(caught.value)


@pytest.mark.parametrize("value", [NAN, math.inf, "1", True, [1.0]])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_impossible_bound_of_a_sum_is_refused(guarded, value, end):
    with pytest.raises(pl.InvalidValue):
        guarded[1].sum("size", **{end: value})


@pytest.mark.parametrize("value", [0, 1, -2, True, 1.5, NAN, "3", None])
def test_impossible_number_of_parts_is_refused(guarded, value):
    with pytest.raises(pl.InvalidValue):
        guarded[1].partition(value)


@pytest.mark.parametrize("value", [NAN, math.inf, -1e-9, 1.0, 2, True, "1", None])
def test_impossible_delta_of_a_request_is_refused(guarded, value):
    ledger, data = guarded
    with pytest.raises(pl.InvalidValue):
        ledger.request(G, data, delta=value)
    with pytest.raises(pl.InvalidValue):
        ledger.open_scope(pl.IndividualFilter("gdp", 0.1), delta=value)
    assert ledger.spent == 0


@pytest.mark.parametrize("row", [-1, 1.0, NAN, True, "1", None])
def test_impossible_record_number_is_refused(guarded, row):
    ledger, data = guarded
    with ledger.request(G, data) as session:
        session.release(G, data.count())
    with pytest.raises(pl.InvalidValue):
        ledger.record(row)


def test_numpy_scalars_and_fractions_price_like_floats():
    assert pl.epsilon(pl.Laplace(np.float64(2.0))) == pl.epsilon(pl.Laplace(2.0))
    assert pl.epsilon(pl.Laplace(Fraction(2))) == pl.epsilon(pl.Laplace(2.0))
    assert pl.epsilon(pl.Repeat(pl.Laplace(2.0), np.int64(3))) == pl.epsilon(
        pl.Repeat(pl.Laplace(2.0), 3))


@pytest.mark.parametrize("plan", [
    pl.Gaussian(np.float64(30)), pl.Gaussian(np.float32(30)), pl.Gaussian(Fraction(61, 2)),
    pl.Repeat(pl.Gaussian(30.0), np.int64(2)), pl.Gaussian(np.int32(30)),
    pl.Gaussian(30.0, tuple(np.array([0.5, 0.5], dtype=np.float32))),
], ids=["float64", "float32", "fraction", "int64-count", "int32", "float32-shares"])
def test_what_can_be_priced_can_be_requested(guarded, plan):
    """A number that a record accepts must also fit into the history."""
    ledger, data = guarded
    pl.epsilon(plan, 1e-6)
    ledger.request(plan, data).close()
    assert ledger.verify() == []
