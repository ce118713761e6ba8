"""Words, reasons and sums that can never be right; and numbers of other types that can."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privledger as pl
from tests.worlds import refused

NAN = float("nan")
G = pl.Gaussian(1.0)


@pytest.mark.parametrize("value", [-1.0, 0.0, math.inf, NAN, "1", None, True])
def test_impossible_numbers_are_value_errors_too(value):
    refused(ValueError, lambda: pl.Laplace(value))


@pytest.mark.parametrize("orders", [[], (), [1.0], [0.5, 2.0]])
def test_orders_must_lie_above_one(orders):
    refused(pl.InvalidValue, lambda: pl.rdp(G, orders))


@pytest.mark.parametrize("relation", ["", "add-remove", "ADD_REMOVE", None, 1, True,
                                      ["add_remove"]])
def test_unknown_relation_is_refused_everywhere(relation):
    refused(pl.InvalidValue, lambda: pl.epsilon(G, 1e-6, relation=relation),
            lambda: pl.delta(G, 1.0, relation=relation), lambda: pl.rdp(G, [2.0],
            relation=relation), lambda: pl.calibrate(pl.Gaussian, 1.0, 1e-6, relation=relation),
            lambda: pl.Ledger.create(None, budget=pl.Budget(1.0), relation=relation))


@pytest.mark.parametrize("budget", [1.0, (1.0, 1e-6), None, "1"])
def test_a_budget_is_a_budget(budget):
    refused(pl.InvalidValue, lambda: pl.Ledger.create(None, budget=budget))


@pytest.mark.parametrize("shares", [(0.6, 0.6), (1.0, 1e-9), (1.0000001,)])
def test_shares_sum_to_at_most_one(shares):
    refused(pl.errors.InvalidMechanism, lambda: pl.Gaussian(1.0, shares))


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_an_assertion_needs_a_reason(why):
    refused(pl.errors.InvalidMechanism, lambda: pl.Asserted(1.0, why))


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
