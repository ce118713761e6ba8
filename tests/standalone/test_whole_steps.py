"""Noise of whole steps, and samples of a fixed size, priced alone: as the package does, to a
percent, and soon, whatever a file says."""

from __future__ import annotations

import contextlib
import math
import time

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.ledger import filters
from privledger.standalone.distributions import whole_steps_pair
from privledger.standalone.reading import Node, NoPrice
from tests.all_cases import all_cases
from tests.alone import verify_history

SCHEMA = pl.Schema("s", (pl.Column("a", "numeric", "feature", 0, 1),
                         pl.Column("y", "categorical", "target", categories=("u", "v"))))
PLANS = [
    *(pl.Repeat(pl.DiscreteGaussian(sigma, shift), count)
      for sigma, shift, count in [(3.0, 1, 10), (30.0, 2, 100), (150.0, 5, 1), (1000.0, 5, 100)]),
    *(pl.Repeat(pl.DiscreteLaplace(parameter, shift), count)
      for parameter, shift, count in [(0.3, 1, 200), (0.05, 3, 100), (0.006, 1, 300)]),
    pl.Sequential((pl.DiscreteLaplace(0.1, 2), pl.DiscreteGaussian(20.0), pl.Gaussian(3.0))),
    *(pl.Repeat(pl.nodes.FixedSizeSample(size, 100, pl.Gaussian(noise)), 30)
      for size, noise in [(1, 2.0), (5, 1.0), (50, 5.0), (99, 20.0)]),
]


MIXED = [
    (pl.Laplace(1.0), pl.Gaussian(0.7)), (pl.Laplace(3.0), pl.Gaussian(2.0)),
    (pl.Repeat(pl.PoissonSample(0.1, pl.Gaussian(1.0)), 20),), (pl.Repeat(pl.Laplace(4.0), 10),),
    (pl.PoissonSample(0.3, pl.Gaussian(0.8)), pl.Laplace(2.0)),
    (pl.Exponential(1.0), pl.Gaussian(1.0)), (pl.DiscreteGaussian(1.0), pl.Laplace(1.0)),
    (pl.ReportNoisyMax(1.0, "laplace"), pl.Gaussian(1.0)),
    (pl.Repeat(pl.nodes.TruncatedPoissonSample(0.1, 5, 30, pl.Gaussian(1.0)), 4),),
    (pl.nodes.FixedSizeSample(5, 50, pl.Gaussian(1.0)), pl.Gaussian(2.0)),
]


@all_cases("parts", MIXED)
def test_mixed_compositions_are_priced_to_a_thousandth(parts):
    plan = pl.Sequential(parts)
    relation = "replace_one" if "FixedSizeSample" in str(plan) else "add_remove"
    node = verify_history.Table().node(pl.nodes.to_json(plan))
    verify_history.price(node, relation)
    for delta in (1e-6, 1e-2):
        found = verify_history.epsilon_of_losses(node, relation, delta)
        assert found == pytest.approx(pl.epsilon(plan, delta, relation=relation), rel=1e-3)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_what_was_granted_is_right_and_a_tenth_less_is_not(plan, delta, tmp_path, monkeypatch):
    price = pl.epsilon(plan, delta, relation="replace_one")
    assert granted(plan, price, delta, tmp_path / "right.db") == []
    real = filters.epsilon_at
    monkeypatch.setattr(filters, "epsilon_at", lambda cost, share: evolve(
        real(cost, share), epsilon=0.9 * real(cost, share).epsilon))
    fresh = pl.Sequential((plan, pl.nodes.Public("another plan: its price is not known yet")))
    assert granted(fresh, price, delta, tmp_path / "wrong.db") != []


@pytest.mark.parametrize(("filter", "epsilon"), [
    ("rdp", 9.0), ("zcdp", 9.0), ("gdp", 9.0), ("basic", 2.0), ("basic", 0.8)])
def test_rounds_of_other_noise_are_released_and_both_verifiers_accept_them(
        filter, epsilon, tmp_path):
    plan = pl.nodes.RandomAllocation(30, pl.Repeat(pl.Laplace(2.0), 2))
    with pl.Ledger.create(tmp_path / "a.db", budget=pl.Budget(epsilon, 1e-6),
                          filter=filter) as ledger:
        data = ledger.protect({"a": np.zeros(100)}, np.array(["u"] * 100), SCHEMA)
        with ledger.request(plan, data, delta=1e-6 if filter == "basic" else 0.0) as session:
            for round_ in data.random_allocation(30):
                assert math.isfinite(session.release(pl.Laplace(2.0), round_.count()))
            with pytest.raises(pl.NotGranted):
                session.release(pl.Laplace(2.0), data.count())
        assert not ledger.verify() and session.releases == 30
    assert verify_history.read_history(str(tmp_path / "a.db")).faults == []


@pytest.mark.parametrize(("count", "delta"), [(1, 1e-6), (3, 0.271)])
def test_a_delta_that_suffices_is_granted_and_both_verifiers_say_so(count, delta, tmp_path):
    plan = pl.Repeat(pl.Asserted(1.0, "so they say", 0.1 if count > 1 else delta), count)
    with pl.Ledger.create(tmp_path / "a.db", budget=pl.Budget(float(count), delta),
                          filter="basic") as ledger:
        data = ledger.protect({"a": np.zeros(100)}, np.array(["u"] * 100), SCHEMA)
        ledger.request(plan, data).close()
        assert not ledger.verify()
    assert verify_history.read_history(str(tmp_path / "a.db")).faults == []


def granted(plan, price, delta, path):
    """What the stand-alone verifier has to say of a ledger with one grant."""
    with pl.Ledger.create(path, budget=pl.Budget(1.01 * price, delta), filter="basic",
                          relation="replace_one") as ledger:
        data = ledger.protect({"a": np.zeros(100)}, np.array(["u"] * 100), SCHEMA)
        ledger.request(plan, data).close()
    return verify_history.read_history(str(path)).faults


@pytest.mark.parametrize(("name", "fields"), [
    ("DiscreteLaplace", {"parameter": 0.005, "sensitivity": 10**15}),
    ("DiscreteGaussian", {"sigma": 200.0, "sensitivity": 10**15}),
    ("DiscreteLaplace", {"parameter": 1e-9, "sensitivity": 1}),
    ("DiscreteGaussian", {"sigma": 1e12, "sensitivity": 1})], ids=str)
def test_no_number_in_a_file_makes_it_slow(name, fields):
    begun = time.process_time()
    with contextlib.suppress(NoPrice):
        whole_steps_pair(Node(name, fields, ()))
    assert time.process_time() - begun < 5
