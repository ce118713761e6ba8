"""Per-record spend is in the unit that the ledger adds up, whatever the filter counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.guard import data_spend
from privledger.ledger.view_records import record_spend
from privledger.reports.page.people import ShownPerson, people
from tests.worlds import schema_of

ONE = schema_of("one", {"x": (-1.0, 1.0)})
NOISE = pl.Gaussian(10.0)
VALUES = [1.0, -1.0, 0.5, 0.0]
FILTERS = {"gdp": {}, "zcdp": {}, "rdp": {"order": 32.0}, "basic": {}}


def open_ledger(kind):
    return pl.Ledger.create(None, budget=pl.Budget(30.0, 1e-6), filter=kind, **FILTERS[kind])


def spend(ledger, plan, node, rounds, scope=None, noise=NOISE):
    data = ledger.protect({"x": VALUES}, ONE, name="people")
    with ledger.request(plan, data, learner="a", delta=1e-7,
                        **({"scope": scope} if scope else {})) as session:
        for _ in range(rounds):
            session.release(noise, session.filtered(None if scope else node).sum("x"))
        if plan is not node and isinstance(plan, pl.Sequential):
            for child in plan.nodes[1:]:
                session.release(child, data.count())


def truth(ledger, mu_squared, delta=1e-7):
    """What one Gaussian of so many squared mu costs in the ledger's unit."""
    if not mu_squared:
        return 0.0
    if ledger.state.rule.kind == "basic":
        return pl.epsilon(pl.Gaussian(mu_squared**-0.5), delta)
    return mu_squared * {"gdp": 1.0, "zcdp": 0.5, "rdp": 16.0}[ledger.state.rule.kind]


@pytest.mark.parametrize("kind", FILTERS)
def test_a_gaussian_filter_is_told_in_the_ledgers_unit(kind):
    """As filed: rdp at order 32, a cap of .01 squared mu was told as .01, and is .16."""
    ledger, node = open_ledger(kind), pl.IndividualFilter("gdp", 0.01)
    spend(ledger, node, node, 1)
    full = ledger.record(0)
    assert full.total == pytest.approx(truth(ledger, 0.01), rel=1e-9)
    assert full.lines[0].cap == pytest.approx(truth(ledger, 0.01), rel=1e-9)
    if kind == "rdp":
        assert full.total == pytest.approx(0.16)
    half = ledger.record(2).total
    assert truth(ledger, 0.0025) * (1 - 1e-12) <= half
    assert half <= truth(ledger, 0.01 * (0.25 + 1 / 64 + 1e-6)) * (1 + 1e-9)
    assert ledger.record(3).total == 0


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["gdp", "zcdp", "rdp"]), st.integers(1, 6), st.floats(4.0, 40.0))
def test_never_below_what_each_record_was_charged_and_never_above_the_plan(kind, rounds, beside):
    ledger, node = open_ledger(kind), pl.IndividualFilter("gdp", 0.035)
    plan = pl.Sequential([node, pl.Gaussian(beside)])
    spend(ledger, plan, node, rounds)
    for row, value in enumerate(VALUES):
        took = ledger.record(row).lines[0].rounds
        exact = truth(ledger, took * value**2 / 100) + truth(ledger, beside**-2)
        assert exact * (1 - 1e-13) <= ledger.record(row).total <= exact * (1 + 1e-9)


@pytest.mark.parametrize("kind", FILTERS)
def test_grants_of_one_scope_add_up_to_what_it_cost(kind):
    ledger, node = open_ledger(kind), pl.IndividualFilter("gdp", 0.04)
    scope = ledger.open_scope(node, delta=1e-7)
    for _ in range(3):
        spend(ledger, pl.IndividualFilter("gdp", 0.04), node, 1, scope)
    total = ledger.record(0).total
    assert truth(ledger, 0.03) * (1 - 1e-12) <= total
    assert total <= truth(ledger, 0.03 + 0.04 / 64 + 1e-9) * (1 + 1e-9)
    assert total <= ledger.spent * 32 + 1


@pytest.mark.parametrize("order", [8.0, 32.0])
def test_a_renyi_filter_counts_at_the_ledgers_order_too(order):
    ledger, node = open_ledger("rdp"), pl.IndividualFilter("renyi", 0.4, 32.0)
    spend(ledger, node, node, 2)
    assert ledger.record(0).total == pytest.approx(0.32)


def test_a_renyi_filter_in_a_basic_ledger_is_told_as_epsilon():
    ledger, node = open_ledger("basic"), pl.IndividualFilter("renyi", 0.4, 32.0)
    spend(ledger, node, node, 1)
    first = ledger.record(0)
    assert first.lines[0].basis == "individual, in 64 steps"
    least = pl.epsilon(pl.IndividualFilter("renyi", 0.16, 32.0), 1e-7)
    assert least <= first.total <= from_ledger(ledger)


def from_ledger(ledger):
    return ledger.state.rule.epsilon_of(ledger.state.units)


def test_a_part_without_the_filter_is_not_free():
    """The dearer of two parts counts, whoever was in the filter's."""
    ledger, node = open_ledger("gdp"), pl.IndividualFilter("gdp", 0.04)
    plan = pl.Parallel([node, pl.Gaussian(10.0)])
    from privledger.ledger.view_records import currency

    found = currency(plan, ledger_rule(ledger), "add_remove", 0, 0.0)
    assert found.prices[0] == 0 or found.prices[0] <= found.cap
    units = ledger_rule(ledger).price(pl_cost(plan), 0.0)[0]
    found = currency(plan, ledger_rule(ledger), "add_remove", units, 0.0)
    assert found.amounts(np.zeros(1, np.int64))[0] >= 0.01


def ledger_rule(ledger):
    from privledger.ledger import fixed_filter

    return fixed_filter("gdp", ledger.budget)


def pl_cost(plan):
    from privledger.graph import cost_of

    return cost_of(plan, "add_remove")


def test_a_minimum_of_theorems_is_not_read_along_a_chord():
    from privledger.ledger.view_records import currency

    ledger = open_ledger("gdp")
    plan = pl.nodes.Group(2, pl.IndividualFilter("gdp", 0.04))
    found = currency(plan, ledger_rule(ledger), "add_remove", 1 << 185, 0.0)
    assert found.whole
    assert found.amounts(np.zeros(1, np.int64))[0] == found.cap


@pytest.mark.parametrize("kind", FILTERS)
def test_every_surface_has_the_same_figure(kind):
    ledger, node = open_ledger(kind), pl.IndividualFilter("gdp", 0.03)
    spend(ledger, node, node, 2)
    store, state = ledger._history.store, ledger.state
    both = data_spend(store, state, "people")
    (page,) = people(store, state, store.read(), ShownPerson(vectors=True))
    for row in range(4):
        total = ledger.record(row).total
        assert both.spent[row] == pytest.approx(total, rel=1e-12)
        assert both.spent[row] >= total or total == 0
    assert page.most == pytest.approx(ledger.record(0).total, rel=1e-12)
    assert both.cap == pytest.approx(page.cap, rel=1e-12)


def test_no_record_beyond_the_known_ones_and_no_count_in_the_refusal():
    """As filed: record 999999 of a table of 8,000 rows was answered."""
    ledger = open_ledger("gdp")
    data = ledger.protect({"x": np.linspace(-1, 1, 8000)}, ONE, name="people")
    with ledger.request(NOISE, data, learner="a") as session:
        session.release(NOISE, data.count())
    assert ledger.record(7999).known
    for row in (8000, 999_999):
        with pytest.raises(pl.errors.DataError, match="no such record is known") as refused:
            ledger.record(row)
        assert "8000" not in str(refused.value).replace(str(row), "")
    # A reader that holds no table, of a ledger that never counted: it says that it cannot know.
    elsewhere = record_spend(ledger._history.store, ledger.state, 999_999, None)
    assert not elsewhere.known
    assert elsewhere.total == ledger.record(0).total


def test_a_declared_number_of_rows_is_known_to_every_reader():
    schema = pl.Schema("one", ONE.columns, public_rows=3)
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-6), relation="replace_one")
    data = ledger.protect({"x": [0.1, 0.2, 0.3]}, schema, name="people")
    with ledger.request(NOISE, data, learner="a") as session:
        session.release(NOISE, data.sum("x"))
    with pytest.raises(pl.errors.DataError, match="no such record is known"):
        record_spend(ledger._history.store, ledger.state, 3, None)
    assert record_spend(ledger._history.store, ledger.state, 2, None).known
