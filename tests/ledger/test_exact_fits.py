"""A round that fits exactly is run, however many went before; no record ever passes its cap."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import ScopeSpend
from privledger.ledger.individual import PARTS, RECORD_UNITS, whole_and_parts
from privledger.questions.sums import LIGHTER
from tests.alone import VERIFIER

ONE = pl.Schema("one", (pl.Column("x", "numeric", "feature", -1.0, 1.0),))
QUICK = settings(max_examples=150, deadline=None)
decimals = st.integers(1, 9999).flatmap(lambda whole: st.integers(1, 8).map(
    lambda places: Fraction(whole, 10**places)))


def fresh(cap, records=1):
    return ScopeSpend(cap, np.zeros(records, np.int64), np.zeros(records, np.int32))


def rounds_run(cap, cost, most):
    spend = fresh(cap)
    return sum(bool(spend.admit(np.array([cost]))[0]) for _ in range(most)), spend


@QUICK
@given(decimals, st.integers(1, 400))
def test_decimals_that_fit_exactly_all_run_and_not_one_more(cost, rounds):
    run, spend = rounds_run(float(cost * rounds), float(cost) * LIGHTER, rounds + 3)
    assert run == rounds
    assert spend.spent[0] <= RECORD_UNITS


@pytest.mark.parametrize(("cap", "cost", "rounds"), [
    (0.0125, 0.0025, 5), (0.03, 0.01, 3), (0.3, 0.1, 3), (0.7, 0.1, 7), (1.0, 1 / 3, 3),
    (1.0, 0.001, 1000), (2.0, 1e-4, 20_000), (7e-9, 1e-9, 7), (1e-120, 2e-121, 5)])
def test_the_filed_case_and_its_siblings(cap, cost, rounds):
    assert rounds_run(cap, cost * LIGHTER, rounds + 2)[0] == rounds


@QUICK
@given(st.floats(1e-6, 1e6), st.lists(st.floats(0, 1.2), min_size=1, max_size=60))
def test_what_was_run_never_passes_the_cap_and_is_never_counted_as_less(cap, shares):
    """Exactly, in rational numbers."""
    spend, total = fresh(cap), Fraction(0)
    for share in shares:
        cost = share * cap
        if spend.admit(np.array([cost]))[0]:
            total += Fraction(cost)
        assert Fraction(int(spend.spent[0]), RECORD_UNITS) * Fraction(cap) >= total
    assert total <= Fraction(cap)


def test_what_is_counted_stays_above_what_the_wider_noise_costs():
    """With room for a few roundings: 2**-50 is eight of them."""
    truth = 1 / (1 + Fraction(1, 2**40)) ** 2
    assert truth * (1 + Fraction(1, 2**50)) < Fraction(LIGHTER) < 1 - Fraction(1, 2**50)


@QUICK
@given(st.lists(st.floats(1e-20, 1e-3), min_size=1, max_size=40), st.integers(0, 3))
def test_traces_add_up_without_being_rounded_up_each(costs, before):
    """The sum is rounded up to a unit, not every cost: at most one unit too many is counted."""
    spend = fresh(1.0)
    spend.spent[:] = before
    for cost in costs:
        assert spend.admit(np.array([cost]))[0]
    counted = Fraction(int(spend.spent[0]) - before, RECORD_UNITS)
    exact = sum(map(Fraction, costs))
    assert exact <= counted < exact + Fraction(1, RECORD_UNITS) + Fraction(200, 2**92)


@QUICK
@given(st.floats(1e-300, 1e300), st.floats(0, 2.5))
def test_parts_are_rounded_up_and_by_two_of_them_at_most(cap, share):
    cost = cap * share
    if not math.isfinite(cost) or 0 < cost < 1e-300:
        return
    whole, parts = whole_and_parts(np.array([cost]), cap)
    found = (int(whole[0]) << PARTS) + int(parts[0])
    exact = min(Fraction(cost) / Fraction(cap), Fraction(4)) * (RECORD_UNITS << PARTS)
    if exact < 2 * (RECORD_UNITS << PARTS) * Fraction(99, 100):
        assert exact <= found <= exact + 3


def test_five_releases_of_a_twentieth_run_on_a_filter_of_five():
    """The case as it was filed: cap .0125, five rounds of .0025."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": [1.0, -1.0, 0.5]}, ONE)
    node, noise = pl.IndividualFilter("gdp", 0.0125), pl.Gaussian(20.0)
    with ledger.request(node, data) as session:
        for _ in range(6):
            session.release(noise, session.filtered(node).sum("x"))
    line = ledger.record(0).lines[0]
    assert line.rounds == 5
    assert line.amount == pytest.approx(0.0125, rel=1e-12)
    assert ledger.record(2).lines[0].rounds == 6
    assert ledger.verify() == []


@pytest.mark.parametrize(("kind", "rate", "order"), [("gdp", 1.0, 0.0), ("renyi", 1.0, 8.0),
                                                     ("renyi", 0.1, 8.0)])
@pytest.mark.parametrize("rounds", [3, 50])
def test_a_cap_of_so_many_rounds_runs_so_many(kind, rate, order, rounds):
    noise = pl.Gaussian(9.0)
    plan = noise if rate == 1.0 else pl.PoissonSample(rate, noise)
    cap = 1 / 81 if kind == "gdp" else float(pl.rdp(plan, [order])[0])
    ledger = pl.Ledger.create(None, budget=pl.Budget(50.0, 1e-6),
                              **({"filter": "gdp"} if kind == "gdp" else
                                 {"filter": "rdp", "order": order}))
    data = ledger.protect({"x": [1.0, -1.0]}, ONE)
    node = pl.IndividualFilter(kind, cap * rounds, order)
    with ledger.request(node, data) as session:
        for _ in range(rounds + 2):
            handle = session.filtered(node)
            session.release(noise, (handle if rate == 1.0 else handle.poisson(rate)).sum("x"))
    assert ledger.record(0).lines[0].rounds == rounds
    assert ledger.record(0).total <= ledger.record(0).lines[0].cap
    assert ledger.verify() == []


TABLE = pl.Schema.from_dict({"name": "t", "target": "y", "columns": [
    {"name": "a", "kind": "numeric", "lower": 0, "upper": 1},
    {"name": "y", "kind": "numeric", "lower": 0, "upper": 1}]})


def ledger_after(budget, plans, delta=0.0, path=None):
    ledger = pl.Ledger.create(path, budget=pl.Budget(budget, delta), filter="basic")
    data = ledger.protect({"a": [.1] * 4}, [.5] * 4, TABLE)
    for plan in plans:
        ledger.request(plan, data=data, learner="x")
    return ledger, data


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("budget", "plans"), [
    (1.0, [pl.Laplace(1.0)]), (1.0, [pl.Laplace(2.0)] * 2), (1.0, [pl.Laplace(10.0)] * 10),
    (1.0, [pl.Laplace(3.0)] * 3), (.3, [pl.Laplace(10.0)] * 3), (.7, [pl.Laplace(10.0)] * 7),
    (1.0, [pl.Repeat(pl.Laplace(10.0), 10)]), (1.0, [pl.Sequential([pl.Laplace(7.0)] * 7)]),
    (1.0, [pl.Repeat(pl.Laplace(6.0), 3), pl.Laplace(2.0)]), (.1, [pl.PermuteAndFlip(.1)]),
    (.3, [pl.Exponential(.3)]), (1.0, [pl.PermuteAndFlip(.5)] * 2), (1e-9, [pl.Laplace(1e9)]),
    (1.0, [pl.DiscreteLaplace(.25, 2)] * 2), (100.0, [pl.Laplace(.01, .5), pl.Laplace(.02)]),
])
def test_what_adds_up_to_the_budget_fits_and_nothing_more(budget, plans, delta, tmp_path):
    ledger, data = ledger_after(budget, plans, delta, tmp_path / "l.ledger")
    assert ledger.spent == budget
    whole = budget in (1.0, .7) or plans[0] == pl.Laplace(10.0)  # elsewhere a float is a trace less
    for more in (*([pl.Laplace(1e100)] if whole else []), pl.Laplace(1e12 / budget), plans[0]):
        with pytest.raises(pl.BudgetExceeded):
            ledger.request(more, data=data, learner="x")
    assert ledger.spent == budget
    ledger.close()
    with pl.Ledger.open(tmp_path / "l.ledger") as again:
        assert again.verify() == []
    alone = subprocess.run([sys.executable, str(VERIFIER), str(tmp_path / "l.ledger")],
                           capture_output=True, text=True)
    assert alone.returncode == 0, alone.stdout


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1.0, .3, .7, .1, 2.5, 1 / 3]), st.lists(st.one_of(
    st.integers(1, 60).map(float), st.floats(1.0, 1e3), st.decimals(1, 50, places=2).map(float)),
    min_size=1, max_size=25))
def test_the_exact_sum_never_passes_the_budget_as_written(budget, scales):
    from privledger.graph import cost_of
    from privledger.ledger import fixed_filter
    from privledger.rounding import as_written

    rule = fixed_filter("basic", pl.Budget(budget))
    total, units = Fraction(0), 0
    for scale in scales:
        part = 1 / Fraction(scale)
        if part > as_written(budget):
            continue
        more, _ = rule.price(cost_of(pl.Laplace(scale), "add_remove"), 0.0)
        fits = units + more <= rule.cap_units
        assert not fits or total + part <= as_written(budget)
        assert fits or total + part > as_written(budget) * (1 - Fraction(1, 2**100))
        if fits:
            total, units = total + part, units + more
    assert as_written(rule.epsilon_of(units)) >= total


@pytest.mark.parametrize("whole", [1.0, .3, 1e-6, 7.3])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10, 30, 31, 97])
def test_parts_of_a_budget_fit_together(whole, parts):
    from privledger.rounding import as_written

    split = pl.Budget(whole, whole / 1e5).split(parts)
    assert len(split) == parts and len(set(split)) == 1
    assert sum(as_written(one.epsilon) for one in split) <= as_written(whole)
    assert sum(as_written(one.delta) for one in split) <= as_written(whole / 1e5)
    assert math.isclose(split[0].epsilon * parts, whole, rel_tol=1e-15)
    with pytest.raises(pl.InvalidValue):
        pl.Budget(whole).split(0)


@pytest.mark.parametrize(("node", "relation"), [
    (pl.nodes.Group(10, pl.Laplace(10.0)), "add_remove"),
    (pl.nodes.AsReplaceOne(pl.Laplace(2.0)), "replace_one"),
    (pl.SparseVector(2.0, 4.0, 1), "add_remove"),
    (pl.SparseVector(2.0, 10.0, 5, monotone=True), "add_remove"),
    (pl.nodes.Group(2, pl.Sequential([pl.Laplace(4.0), pl.Laplace(4.0)])), "add_remove"),
])
def test_nodes_around_pure_noise_are_fractions_too(node, relation):
    from privledger.graph import cost_of
    from privledger.ledger import fixed_filter

    rule, cost = fixed_filter("basic", pl.Budget(1.0)), cost_of(node, relation)
    assert cost.pure_part == 1 and cost.pure == 1.0
    assert rule.price(cost, 0.0) == (rule.cap_units, 0)
