"""Whole-data and individual filters: never past a cap, prices up, caps down."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.graph import cost_of
from privledger.ledger import ScopeSpend, choose_filter, fixed_filter
from privledger.ledger.filters import DELTA_UNIT, delta_units_up
from privledger.ledger.individual import RECORD_UNITS, admit, worst_units
from privledger.ledger.view_records import dearest_records
from privledger.rounding import UNIT, from_units, from_units_down, units_down, units_up
from tests.all_cases import all_cases
from tests.worlds import refused, schema_of

QUICK = settings(max_examples=40, deadline=None)
SMALL = schema_of("one", {"x": (0.0, 1.0)})
noises = st.floats(3.0, 300.0)
plans = {
    "gdp": st.one_of(st.builds(pl.Gaussian, noises), st.builds(pl.Laplace, noises),
                     st.builds(pl.Repeat, st.builds(pl.Gaussian, noises), st.integers(1, 9))),
    "rdp": st.one_of(st.builds(pl.Gaussian, noises), st.builds(pl.Laplace, noises),
                     st.builds(pl.PoissonSample, st.floats(0.01, 0.5),
                               st.builds(pl.Gaussian, noises)),
                     st.builds(pl.DiscreteGaussian, noises)),
    "zcdp": st.one_of(st.builds(pl.Gaussian, noises), st.builds(pl.Exponential,
                                                                st.floats(1e-3, 0.4)),
                      st.builds(pl.DiscreteGaussian, noises)),
    "basic": st.one_of(st.builds(pl.Laplace, noises), st.builds(pl.Exponential,
                                                                st.floats(1e-3, 0.4)),
                       st.builds(pl.Repeat, st.builds(pl.Laplace, noises), st.integers(1, 9)))}


def table(ledger):
    return ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL)


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "rdp", "basic"])
def test_never_over_the_cap_under_random_requests(kind):
    @QUICK
    @given(st.lists(plans[kind], min_size=5, max_size=40))
    def run(requests):
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter=kind)
        data = table(ledger)
        state = ledger.state  # read afresh once for each request: it is the whole history
        for plan in requests:
            before, turned_away = state.units, False
            try:
                ledger.request(plan, data).close()
            except pl.BudgetExceeded as refusal:
                turned_away = True
                assert refusal.left >= 0
            state = ledger.state
            assert state.units <= state.rule.cap_units
            assert state.units == before or not turned_away
        # What was granted, priced afresh as one plan, is within the promise.
        assert ledger.spent <= 1.0
        if kind != "basic":
            assert pl.epsilon(ledger.graph(), 1e-6) <= 1.0 * (1 + 1e-9)
        else:
            assert pl.epsilon(ledger.graph()) <= 1.0 * (1 + 1e-9)
        assert ledger.verify() == []

    run()


@QUICK
@given(st.lists(st.floats(1e-9, 0.3), min_size=1, max_size=30))
def test_basic_composition_counts_deltas(shares):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-3), filter="basic")
    data, asked = table(ledger), Fraction(0)
    for share in shares:
        delta = share * 1e-3
        try:
            ledger.request(pl.Gaussian(5.0), data, delta=delta).close()
            asked += Fraction(delta)
        except pl.BudgetExceeded as refusal:
            assert refusal.unit == "delta"
            assert asked + Fraction(delta) > Fraction(1e-3) * (1 - Fraction(1, 10**12))
        assert asked <= Fraction(1e-3)


@QUICK
@given(st.floats(1e-30, 1e6))
def test_costs_round_up_and_caps_round_down(value):
    exact = Fraction(value) * UNIT
    assert units_up(value) - 1 < exact <= units_up(value)
    assert units_down(value) <= exact < units_down(value) + 1
    assert math.isclose(from_units(units_up(value)), value, rel_tol=1e-9, abs_tol=2**-60)


@given(st.integers(0, 1 << 260) | st.floats(1e-50, 1e20).map(units_up))
@example(0)
@example(UNIT)
@example(UNIT + 1)
@example(UNIT * 2**53 + UNIT)  # half way between two floats
@example(3)  # far below the smallest units of a plan
def test_units_are_read_back_as_the_nearest_safe_float(units):
    """Not lower than they are and less than two floats higher, and the other way round."""
    exact, above, below = Fraction(units, UNIT), from_units(units), from_units_down(units)
    assert Fraction(below) <= exact <= Fraction(above)
    assert above <= math.nextafter(below, math.inf)
    assert (above == below) == (Fraction(float(exact)) == exact)


@given(st.just(0.0) | st.floats(0, 1))
def test_a_delta_is_never_charged_below_itself(delta):
    exact = Fraction(delta) * DELTA_UNIT
    assert delta_units_up(delta) - 1 < exact <= delta_units_up(delta)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]) | st.floats(0, 9), max_size=60),
       st.integers(0, 25))
def test_the_dearest_are_those_of_a_whole_sort(spent, most):
    values = np.array(spent)
    expected = np.argsort(-values, kind="stable")[:most].tolist()
    assert dearest_records(values, most).tolist() == expected


@all_cases("kind", ["gdp", "zcdp", "rdp", "basic"])
@all_cases("epsilon", [0.01, 0.5, 1.0, 8.0])
@all_cases("delta", [1e-9, 1e-5])
def test_a_full_cap_certifies_no_more_than_the_budget(kind, epsilon, delta):
    rule = fixed_filter(kind, pl.Budget(epsilon, delta))
    assert rule.epsilon_of(rule.cap_units) <= epsilon * (1 + 1e-12)
    assert rule.epsilon_of(rule.cap_units) >= epsilon * (1 - 1e-6)
    assert rule.theorem and rule.unit


@all_cases("noise", [0.7, 3.0, 55.5])
@all_cases("kind", ["gdp", "zcdp", "rdp"])
def test_a_price_is_rounded_up(noise, kind):
    rule = fixed_filter(kind, pl.Budget(1.0, 1e-6))
    units, _ = rule.price(cost_of(pl.Gaussian(noise)), 0.0)
    exact = 1 / Fraction(noise) ** 2
    if kind == "rdp":
        exact *= Fraction(rule.order) / 2
    if kind == "zcdp":
        exact /= 2
    assert units >= exact * UNIT
    assert units <= exact * UNIT * (1 + Fraction(1, 10**12)) + 1


@all_cases(("plan", "budget", "kind"), [
    (pl.Gaussian(50.0), pl.Budget(1.0, 1e-6), "gdp"),
    (pl.Repeat(pl.Gaussian(50.0), 9), pl.Budget(1.0, 1e-6), "gdp"),
    (pl.IndividualFilter("gdp", 0.01), pl.Budget(1.0, 1e-6), "gdp"),
    (pl.PoissonSample(0.1, pl.Gaussian(5.0)), pl.Budget(1.0, 1e-6), "rdp"),
    (pl.Sequential([pl.Gaussian(50.0), pl.Laplace(50.0)]), pl.Budget(1.0, 1e-6), "zcdp"),
    (pl.DiscreteGaussian(50.0), pl.Budget(1.0, 1e-6), "zcdp"),
    (pl.Laplace(50.0), pl.Budget(1.0, 1e-6), "basic"),
    (pl.Laplace(200.0), pl.Budget(1.0, 1e-6), "zcdp"),
    (pl.Exponential(0.3), pl.Budget(1.0, 1e-6), "basic"),
    (pl.Repeat(pl.Exponential(0.05), 12), pl.Budget(1.0, 1e-6), "gdp"),
    (pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.6)), 1000), pl.Budget(1.0, 1e-6), "basic"),
    (pl.Laplace(50.0), pl.Budget(1.0), "basic")])
def test_auto_takes_the_filter_that_fits_the_first_plan(plan, budget, kind):
    assert choose_filter(cost_of(plan), budget).kind == kind
    ledger = pl.Ledger.create(None, budget=budget)
    data = table(ledger)
    ledger.request(plan, data).close()
    assert ledger.state.rule.kind == kind
    assert ledger.verify() == []


@QUICK
@given(st.sampled_from([
    lambda z: pl.Laplace(z), lambda z: pl.Exponential(1 / z), lambda z: pl.Gaussian(z),
    lambda z: pl.PoissonSample(0.02, pl.Gaussian(z)), lambda z: pl.PoissonSample(.1, pl.Laplace(z)),
    lambda z: pl.Sequential([pl.Gaussian(9 * z), pl.Repeat(pl.Exponential(1 / z), 5)])]),
    st.floats(1.0, 1e4), st.floats(0.1, 5.0), st.sampled_from([1e-9, 1e-5]))
def test_no_other_filter_affords_many_more_of_the_first_plan(build, noise, epsilon, delta):
    """The kinds that `filter=` names, each with the order that it finds by itself."""
    budget, cost = pl.Budget(epsilon, delta), cost_of(build(noise))
    chosen = choose_filter(cost, budget)

    def fits(rule):
        return rule.cap_units // rule.price(cost, 0.0)[0]

    most = max(fits(fixed_filter(kind, budget)) for kind in ("gdp", "zcdp", "rdp"))
    assert most <= (4 if chosen.kind == "basic" else 1.1) * (fits(chosen) + 1)


def test_auto_stays_open_until_something_is_granted():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    data = table(ledger)
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.1), data))
    assert ledger.state.rule is None and ledger.left == 1.0
    ledger.request(pl.Laplace(10.0), data).close()
    assert ledger.state.rule.kind == "basic"
    refused(pl.PrivledgerError, lambda: ledger.request(pl.Gaussian(0.1), data))


@pytest.mark.parametrize("kind", ["gdp", "rdp", "", "GDP", None, 3, "pld"])
def test_impossible_filters_are_refused(kind):
    with pytest.raises(pl.InvalidValue):
        pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0), filter=kind)


@pytest.mark.parametrize(("kind", "plan"), [
    ("gdp", pl.DiscreteGaussian(50.0)), ("gdp", pl.IndividualFilter("renyi", 0.1, 8.0)),
    ("basic", None)])
def test_a_plan_without_a_price_here_is_unsupported(kind, plan):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0 if plan is None else 1e-6),
                              filter=kind)
    with pytest.raises(pl.errors.UnsupportedNode):
        ledger.request(plan or pl.Gaussian(50.0), table(ledger))
    assert ledger.spent == 0


def test_a_refusal_says_asked_spent_and_left_and_destroys_nothing():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = table(ledger)
    ledger.request(pl.Gaussian(8.0), data).close()
    spent, left = ledger.spent, ledger.left
    with pytest.raises(pl.BudgetExceeded, match="othing was read") as caught:
        ledger.request(pl.Gaussian(1.0), data)
    refusal = caught.value
    assert refusal.asked == pytest.approx(pl.epsilon(pl.Gaussian(1.0), 1e-6), rel=1e-9)
    assert (refusal.spent, refusal.left) == (spent, left)
    assert refusal.unit == "epsilon" and "would fit" in refusal.fits
    assert (ledger.spent, ledger.left) == (spent, left)
    fitting = pl.calibrate(pl.Gaussian, left, 1e-6)
    ledger.request(pl.Gaussian(fitting), data).close()
    with pytest.raises(pl.BudgetExceeded, match="used up|would fit"):
        ledger.request(pl.Gaussian(8.0), data)
    assert ledger.spent <= 1.0
    assert ledger.verify() == []
    assert ledger.state.refusals == 2


def test_a_refusal_pickles_with_its_numbers():
    import pickle

    error = pl.BudgetExceeded(asked=2.0, spent=1.0, left=0.5, fits="less")
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.asked, twin.spent, twin.left, str(twin)) == (2.0, 1.0, 0.5, str(error))


def test_a_calibrated_plan_uses_up_the_budget_and_is_granted():
    for relation in ("add_remove", "replace_one"):
        for build in (pl.Gaussian, lambda z: pl.Repeat(pl.Gaussian(z), 100),
                      lambda z: pl.Sequential([pl.Gaussian(z), pl.Repeat(pl.Gaussian(2 * z), 7)])):
            noise = pl.calibrate(build, 1.0, 1e-6, relation)
            ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), relation=relation)
            ledger.request(build(noise), table(ledger)).close()
            assert 1.0 - 1e-6 < ledger.spent <= 1.0


# Individual filters.

costs = st.lists(st.lists(st.floats(0, 1.5), min_size=3, max_size=3), min_size=1, max_size=40)


@QUICK
@given(costs, st.floats(1e-6, 1e6))
def test_no_record_passes_its_cap(rounds, cap):
    spend = ScopeSpend(cap, np.zeros(3, np.int64), np.zeros(3, np.int32))
    exact = [Fraction(0)] * 3
    for row in rounds:
        each = np.array(row) * cap
        active = spend.admit(each)
        assert active.dtype == np.bool_ and spend.spent.dtype == np.int64
        for record in np.flatnonzero(active):
            exact[record] += Fraction(float(each[record]))
    assert all(total <= Fraction(cap) for total in exact)
    assert (spend.spent <= RECORD_UNITS).all() and (spend.taken() >= 0).all()
    assert (spend.left() >= 0).all()


@QUICK
@given(costs)
def test_a_record_that_can_pay_is_never_left_out(rounds):
    spend = ScopeSpend(1.0, np.zeros(3, np.int64), np.zeros(3, np.int32))
    sums = np.zeros(3)
    for row in rounds:
        each = np.array(row)
        active = spend.admit(each)
        assert (active | (sums + each > 1 - 1e-9)).all()
        sums += np.where(active, each, 0.0)
    assert np.allclose(spend.spent / RECORD_UNITS, sums, atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, -1.0, -1e-300])
def test_an_impossible_cost_is_refused_and_charges_nobody(bad):
    spend = ScopeSpend(1.0, np.zeros(2, np.int64), np.zeros(2, np.int32))
    if bad != -1e-300:  # rounds up to zero, which is no charge to anybody
        refused(pl.InvalidValue, lambda: spend.admit(np.array([0.5, bad])))
        assert not spend.spent.any()


def test_infinite_costs_leave_a_record_out():
    spend = ScopeSpend(1.0, np.zeros(2, np.int64), np.zeros(2, np.int32))
    assert spend.admit(np.array([np.inf, 0.5])).tolist() == [False, True]
    assert spend.spent[0] == 0


def test_units_are_integers_rounded_up():
    spend = ScopeSpend(1.0, np.zeros(6, np.int64), np.zeros(6, np.int32))
    costs = np.array([0.0, 1e-300, 1 / 3, 1 - 2.0**-49, 1.0, 5.0])
    assert spend.admit(costs).tolist() == [True] * 4 + [False] * 2
    assert spend.spent[:2].tolist() == [0, 1]
    for at in (2, 3):
        assert Fraction(costs[at]) * RECORD_UNITS <= spend.spent[at] <= RECORD_UNITS


def test_the_last_unit_can_be_spent_and_not_one_more():
    spent = np.array([RECORD_UNITS - 1, RECORD_UNITS - 1, RECORD_UNITS, RECORD_UNITS - 5], np.int64)
    active = admit(spent, np.array([1, 2, 1, 5], np.int64))
    assert active.tolist() == [True, False, False, True]
    assert spent.tolist() == [RECORD_UNITS, RECORD_UNITS - 1, RECORD_UNITS, RECORD_UNITS]


@QUICK
@given(st.integers(0, RECORD_UNITS), st.integers(1, 60))
@example(4_503_599_627_370_163, 1)  # 333 units: rounding up took more than the margin
def test_what_is_shown_as_left_can_be_spent_and_a_trace_more_cannot(spent, rounds):
    """`left` rounds down and costs round up; a margin of 2**-49 is what a rollover keeps."""
    spend = ScopeSpend(0.3, np.array([spent, spent]), np.zeros(2, np.int32))
    for round_number in range(rounds, 0, -1):
        assert spend.admit(spend.left() / round_number * (1 - 2.0**-49)).all()
    assert (spend.spent <= RECORD_UNITS).all()
    trace = (spend.left() + 0.3 * 2.0**-45)[:1].repeat(2)
    assert not spend.admit(trace).any()


def test_admit_never_overflows():
    spend = ScopeSpend(1.0, np.full(3, RECORD_UNITS, np.int64), np.zeros(3, np.int32))
    assert not spend.admit(np.array([1e290, np.inf, 1.0])).any()
    assert (spend.spent == RECORD_UNITS).all()


@pytest.mark.parametrize(("worst", "expected"), [(math.inf, RECORD_UNITS), (math.nan, RECORD_UNITS),
                                                 (2.0, RECORD_UNITS), (1.0, RECORD_UNITS)])
def test_an_unfinished_grant_counts_its_worst(worst, expected):
    assert worst_units(worst, 1.0) == expected
    assert worst_units(0.25, 1.0) >= RECORD_UNITS // 4


@pytest.mark.parametrize("cap", [0.0, -1.0, math.nan, math.inf, True, None, "1"])
def test_a_cap_is_a_positive_number(cap):
    refused(pl.InvalidValue, lambda: ScopeSpend(cap, np.zeros(1, np.int64), np.zeros(1, np.int32)))
