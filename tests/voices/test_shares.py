"""A share of a mechanism costs at most this share of its price: what parts of people rest on."""

import numpy as np

import privledger as pl
from privledger.accounting import DEFAULT_ORDERS
from privledger.accounting.pld import choices_squared
from privledger.graph.register import leaf_cost
from tests.all_cases import all_cases

LEAVES = {
    "laplace": lambda share: pl.Laplace(1 / share),
    "gaussian": lambda share: pl.Gaussian(1 / share),
    "exponential": pl.Exponential, "rising": lambda share: pl.Exponential(share, (0, 1)),
    "gain": lambda share: pl.Exponential(share, (-1, 1 / 3)), "flips": pl.PermuteAndFlip,
    "top": lambda share: pl.TopK(3, share)}


@all_cases("relation", ["add_remove", "replace_one"])
@all_cases("name", LEAVES)
def test_prices_are_star_shaped(name, relation):
    shares = np.geomspace(1e-3, 30, 60)
    costs = [leaf_cost(LEAVES[name](float(share)), relation, DEFAULT_ORDERS) for share in shares]
    prices = np.array([[*cost.curve.bounds, cost.pure, cost.gdp_squared, cost.zcdp]
                       for cost in costs])
    each = prices[:, np.isfinite(prices).all(axis=0)] / shares[:, None]
    assert each.shape[1] >= len(DEFAULT_ORDERS)
    assert (each[1:] >= each[:-1] * (1 - 1e-9)).all()


@all_cases("count", [2, 3, 7, 32, 100])
def test_prices_of_many_choices_are_star_shaped(count):
    shares = np.geomspace(2e-6, 2, 24)
    each = np.array([choices_squared([(float(share), count)]) for share in shares]) / shares
    assert (each[1:] >= each[:-1]).all()
