"""A round that fits exactly is run, however many went before; no record ever passes its cap."""

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import ScopeSpend, individual
from privledger.ledger.individual import PARTS, RECORD_UNITS, whole_and_parts
from privledger.questions.sums import LIGHTER
from tests.all_cases import all_cases
from tests.alone import VERIFIER
from tests.worlds import protected, refused, schema_of

ONE = schema_of("one", {"x": (-1.0, 1.0)})
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


@all_cases(("cap", "cost", "rounds"), [
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
    ledger, data = protected(pl.Budget(20.0, 1e-6), {"x": [1.0, -1.0, 0.5]}, ONE, filter="gdp")
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
    ledger, data = protected(pl.Budget(50.0, 1e-6), {"x": [1.0, -1.0]}, ONE,
                             **{"filter": "gdp"} if kind == "gdp" else {"filter": "rdp",
                             "order": order})
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
    (1.0, [pl.DiscreteLaplace(.25, 2)] * 2), (100.0, [pl.Laplace(.01, .5), pl.Laplace(.02)])])
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


PURE = {
    "PermuteAndFlip": pl.PermuteAndFlip, "Exponential": pl.Exponential,
    "Exponential, monotone": lambda e: pl.Sequential([pl.Exponential(e, (0, 1))] * 2),
    "ReportNoisyMax": pl.ReportNoisyMax,
    "ReportNoisyMax, gumbel": lambda e: pl.ReportNoisyMax(e, "gumbel"),
    "ReportNoisyMax, laplace": lambda e: pl.ReportNoisyMax(e, "laplace"),
    "TopK": lambda e: pl.TopK(3, e), "TopK, gumbel": lambda e: pl.TopK(3, e, "gumbel"),
    "Asserted": lambda e: pl.Asserted(e, "their word"),
    "DiscreteLaplace": pl.DiscreteLaplace, "Laplace": lambda e: pl.Laplace(1.0, e),
    "SparseVector": lambda e: pl.SparseVector(2.0, 4.0, 1, e),
    "RandomizedResponse": lambda e: pl.RandomizedResponse(
        pl.calibrate(pl.RandomizedResponse, e, 0.0, "replace_one")),
    "Repeat": lambda e: pl.Repeat(pl.PermuteAndFlip(e), 1),
    "Parallel": lambda e: pl.Parallel([pl.PermuteAndFlip(e), pl.Exponential(e)]),
    "OneOf": lambda e: pl.nodes.OneOf([pl.PermuteAndFlip(e), pl.DiscreteLaplace(e)]),
    "Group": lambda e: pl.nodes.Group(2, pl.PermuteAndFlip(e / 2)),
    "AsReplaceOne": lambda e: pl.nodes.AsReplaceOne(pl.PermuteAndFlip(e / 2)),
    "LabelOnly": lambda e: pl.nodes.LabelOnly(pl.PermuteAndFlip(e)),
    "Federated": lambda e: pl.nodes.Federated(pl.PermuteAndFlip(e), 3, 1),
    "PoissonSample": lambda e: pl.PoissonSample(.5, pl.PermuteAndFlip(pl.calibrate(
        lambda x: pl.PoissonSample(.5, pl.PermuteAndFlip(x)), e, largest=True)))}
RELATION = {"RandomizedResponse": "replace_one", "AsReplaceOne": "replace_one",
            "LabelOnly": "replace_label"}
CONCENTRATED = {
    "AssertedZCDP": lambda rho: pl.AssertedZCDP(rho, "their word"),
    "Gaussian": lambda rho: pl.Gaussian(math.nextafter(math.sqrt(1 / (2 * rho)), 9e9)),
    "MixtureOfGaussians": lambda rho: pl.nodes.MixtureOfGaussians(
        math.nextafter(math.sqrt(1 / (2 * rho)), 9e9), (0.0, 1.0), (0.5, 0.5)),
    "DiscreteGaussian": lambda rho: pl.DiscreteGaussian(
        math.nextafter(math.sqrt(1 / (2 * rho)), 9e9)),
    "Exponential": lambda rho: pl.Exponential(math.nextafter(math.sqrt(8 * rho), 0)),
    "TopK": lambda rho: pl.TopK(2, math.nextafter(math.sqrt(8 * rho), 0), "gumbel"),
    "Group": lambda rho: pl.nodes.Group(2, pl.AssertedZCDP(rho / 4, "their word")),
    "Parallel": lambda rho: pl.Parallel([pl.AssertedZCDP(rho, "their word")] * 2)}


def test_every_mechanism_with_a_price_of_its_own_has_a_row_here():
    from typing import get_args

    from privledger.graph.register import Mechanism

    rows = {name.split(",")[0] for name in (*PURE, *CONCENTRATED)}
    with_delta = {"PartitionSelection"}  # neither pure nor zCDP
    assert {kind.__name__ for kind in get_args(Mechanism)} - with_delta <= rows


def whole_and_one_more(rule, relation, node, parts):
    """Whether so many fit, one by one and as one plan, and whether one more does."""
    from privledger.graph import cost_of

    def units(plan):
        return rule.price(cost_of(plan, relation), 0.0)[0]

    inside = node.node if isinstance(node, pl.nodes.LabelOnly) else node
    around = pl.nodes.LabelOnly if isinstance(node, pl.nodes.LabelOnly) else lambda plan: plan
    fits = [units(node) * parts, units(around(pl.Repeat(inside, parts))),
            units(around(pl.Sequential([inside] * parts)))]
    return (all(found <= rule.cap_units for found in fits),
            units(node) * (parts + 1) <= rule.cap_units)


@all_cases("name", PURE)
def test_equal_parts_of_a_pure_budget_fit_so_many_times_and_not_once_more(name):
    from privledger.ledger import fixed_filter

    for whole in (1.0, .3, .7, .1, 2.5, 7.3):
        rule = fixed_filter("basic", pl.Budget(whole))
        for parts in (1, 2, 3, 7, 10, 13):
            node = PURE[name](pl.Budget(whole).split(parts)[0].epsilon)
            assert whole_and_one_more(rule, RELATION.get(name, "add_remove"), node, parts) == (
                True, False), (whole, parts)


@all_cases(("whole", "part", "parts"), [
    (1.0, .1, 10), (.3, .1, 3), (.7, .1, 7), (1.0, .2, 5), (.9, .3, 3), (2.1, .7, 3),
    (1.1, .1, 11)])
@all_cases("name", [name for name in PURE if "Sample" not in name])
def test_tenths_are_tenths(whole, part, parts, name):
    from privledger.ledger import fixed_filter

    rule = fixed_filter("basic", pl.Budget(whole))
    assert whole_and_one_more(rule, RELATION.get(name, "add_remove"), PURE[name](part),
                              parts) == (True, False)


@pytest.mark.parametrize("name", CONCENTRATED)
def test_equal_parts_of_rho_fit_so_many_times_and_not_once_more(name):
    from privledger.ledger import fixed_filter

    for budget in (pl.Budget(1.0, 1e-6), pl.Budget(.3, 1e-9), pl.Budget(5.0, 1e-5)):
        rule = fixed_filter("zcdp", budget)
        for parts in (1, 2, 3, 7, 10, 13, 97):
            rho = float(Fraction(rule.cap_units, 1 << 192) / parts)
            node = CONCENTRATED[name](math.nextafter(rho, 0))
            assert whole_and_one_more(rule, "add_remove", node, parts) == (True, False)


@QUICK
@given(st.one_of(decimals.map(float), st.floats(1e-9, 100)))
def test_what_is_charged_is_never_less_than_what_is_drawn(epsilon):
    """The law's own rate, as a fraction, against the price."""
    from privledger.graph import cost_of
    from privledger.questions import question as rates
    from privledger.rounding import as_promised, down

    class Scores:
        bound = rates.Bound(1.0, (-1.0, 1.0))

        def sensitivity(self, relation):
            return .7

        def check_chooser(self, mechanism):
            pass

    for node in (pl.PermuteAndFlip(epsilon), pl.Exponential(epsilon), pl.TopK(2, epsilon)):
        rate = rates.rate_of(node, Scores(), "add_remove")
        assert 2 * Fraction(.7) * Fraction(rate) <= cost_of(node, "add_remove").pure_part
    assert Fraction(down(epsilon)) <= as_promised(epsilon) <= Fraction(epsilon)
    assert cost_of(pl.DiscreteLaplace(epsilon), "add_remove").pure_part == as_promised(epsilon)


def test_discrete_noise_is_drawn_for_the_float_below():
    asked = []

    class Told:
        def discrete_laplace(self, parameter, size):
            asked.append(parameter)
            return np.zeros(size, np.int64)

    from privledger.questions.blocks import Ones
    from privledger.questions.sums import _drawn, whole_recipe

    node = pl.DiscreteLaplace(.1)
    made = whole_recipe(node, (Ones(),), "add_remove", moves=False)
    _drawn(node, np.array([made.noise]), Told())
    assert asked == [math.nextafter(.1, 0)]


@pytest.mark.parametrize("node", [pl.PermuteAndFlip(.1), pl.TopK(1, .1), pl.DiscreteLaplace(.1)])
def test_ten_tenths_are_granted_and_both_verifiers_say_so(node, tmp_path):
    ledger, data = ledger_after(1.0, [node] * 10, 0.0, tmp_path / "l.ledger")
    assert ledger.spent == 1.0 and ledger.receipt.epsilon == 1.0
    refused(pl.BudgetExceeded, lambda: ledger.request(node, data=data, learner="x"))
    assert ledger.verify() == []
    ledger.close()
    alone = subprocess.run([sys.executable, str(VERIFIER), str(tmp_path / "l.ledger")],
                           capture_output=True, text=True)
    assert alone.returncode == 0, alone.stdout


@pytest.mark.parametrize("whole", [1e-5, 1e-6, 3e-6, 2.5e-8])
def test_parts_of_delta_fit_together_as_charges(whole):
    from privledger.ledger import fixed_filter
    from privledger.ledger.filters import delta_units_up

    rule = fixed_filter("basic", pl.Budget(1.0, whole))
    for parts in range(1, 100):
        part = pl.Budget(1.0, whole).split(parts)[0].delta
        assert delta_units_up(part) * parts <= rule.delta_cap_units


@all_cases("whole", [1.0, .3, 1e-6, 7.3])
@all_cases("parts", [1, 2, 3, 7, 10, 30, 31, 97])
def test_parts_of_a_budget_fit_together(whole, parts):
    from privledger.rounding import as_written

    split = pl.Budget(whole, whole / 1e5).split(parts)
    assert len(split) == parts and len(set(split)) == 1
    assert sum(as_written(one.epsilon) for one in split) <= as_written(whole)
    assert sum(as_written(one.delta) for one in split) <= as_written(whole / 1e5)
    assert math.isclose(split[0].epsilon * parts, whole, rel_tol=1e-15)
    refused(pl.InvalidValue, lambda: pl.Budget(whole).split(0))


@pytest.mark.parametrize(("node", "relation"), [
    (pl.nodes.Group(10, pl.Laplace(10.0)), "add_remove"),
    (pl.nodes.AsReplaceOne(pl.Laplace(2.0)), "replace_one"),
    (pl.SparseVector(2.0, 4.0, 1), "add_remove"),
    (pl.SparseVector(2.0, 10.0, 5, monotone=True), "add_remove"),
    (pl.nodes.Group(2, pl.Sequential([pl.Laplace(4.0), pl.Laplace(4.0)])), "add_remove")])
def test_nodes_around_pure_noise_are_fractions_too(node, relation):
    from privledger.graph import cost_of
    from privledger.ledger import fixed_filter

    rule, cost = fixed_filter("basic", pl.Budget(1.0)), cost_of(node, relation)
    assert cost.pure_part == 1 and cost.pure == 1.0
    assert rule.price(cost, 0.0) == (rule.cap_units, 0)


def test_runs_of_records_are_charged_as_all_at_once(monkeypatch):
    """And what is wrong with a late record is said before any is charged."""
    rng, cap, n = np.random.default_rng(7), 0.37, 1000
    rounds = [np.where(rng.random(n) < 0.1, 0.0, rng.random(n) * 10.0 ** rng.integers(-9, 1))
              for _ in range(20)]
    found = []
    for together in (7, 1 << 15):
        monkeypatch.setattr(individual, "_TOGETHER", together)
        spend = ScopeSpend(cap, np.zeros(n, np.int64), np.zeros(n, np.int32))
        found.append([spend.admit(one) for one in rounds] + [
            spend.spent.copy(), spend.above.copy(), spend.rounds.copy()])
    assert all((one == other).all() for one, other in zip(*found, strict=True))
    assert not all(one.all() for one in found[0][:20])
    monkeypatch.setattr(individual, "_TOGETHER", 7)
    for wrong in (np.append(np.full(n - 1, 1e-3), math.nan), np.full(n - 1, 1e-3), np.full(1, 1.0)):
        with pytest.raises(pl.InvalidValue):
            spend.admit(wrong)
        assert (spend.spent == found[1][20]).all() and (spend.rounds == found[1][22]).all()
