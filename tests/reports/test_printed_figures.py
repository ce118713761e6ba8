"""The law of every surface: a printed charge reads back as no less, a remainder as no more."""

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import privledger as pl
from privledger.cli.explain import _granted
from privledger.cli.ledger_gate import PrintedAnswer, gate_numbers
from privledger.cli.plan import render_price
from privledger.cli.record import render_record
from privledger.cli.show import render_ledger
from privledger.cli.whatif import _render as render_whatif
from privledger.gate import Facts, Policy, compare
from privledger.graph import explain
from privledger.ledger.view_timeline import timeline
from privledger.plot import burn_down_points
from privledger.pytest_plugin.using import spend_properties
from privledger.reports import ledger_report
from privledger.reports.changes import ledger_changes
from privledger.reports.ci import Outcome, ci_text
from privledger.reports.page.facts import page_of
from privledger.reports.page.render import render_page
from privledger.reports.pricing import price_plan
from tests.worlds import schema_of

NUMBER = r"([0-9][0-9.]*(?:e[+-][0-9]+)?)"
SCHEMA = schema_of("t", {"x": (0.0, 1.0)})
noises = st.floats(3.0, 60.0)
plans = st.lists(st.one_of(noises.map(pl.Gaussian), noises.map(pl.Laplace)), min_size=1, max_size=3)


@st.composite
def ledgers(draw):
    """Random budgets, filters and plans, some of which are refused."""
    kind = draw(st.sampled_from(["gdp", "rdp", "zcdp", "basic"]))
    ledger = pl.Ledger.create(None, budget=pl.Budget(draw(st.floats(0.5, 3.0)), 1e-6), filter=kind)
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, SCHEMA, name="people")
    for node in draw(plans):
        try:
            with ledger.request(pl.Repeat(node, draw(st.integers(1, 9))), data, learner="a",
                                delta=1e-7) as session:
                session.release(node, data.count())
        except (pl.BudgetExceeded, pl.errors.UnsupportedNode):
            pass
    return ledger


def text_of(draw):
    page = Console(file=io.StringIO(), width=400, color_system=None)
    draw(page)
    return page.file.getvalue()


def no_less(page, pattern, *values):
    """Every figure that the pattern finds, against the true ones in the same order."""
    found = [float(one) for one in re.findall(pattern, page)]
    assert len(found) >= len(values), (pattern, page)
    for printed, true in zip(found, values, strict=False):
        assert true <= printed <= true * 1.002 + 1e-300


def no_more(page, pattern, value):
    found = [float(one) for one in re.findall(pattern, page)]
    assert found, (pattern, page)
    assert all(value * 0.998 <= printed <= value for printed in found)


@settings(max_examples=8, deadline=None)
@given(ledgers())
def test_no_surface_prints_less_than_was_spent_or_more_than_is_left(ledger):
    state, store, spent, left = ledger.state, ledger._history.store, ledger.spent, ledger.left
    report = ledger_report(store, state)
    entries = store.read()
    no_less(repr(ledger), rf"epsilon {NUMBER} of", spent)
    no_less(ledger._repr_html_(), rf"spent</th><td>epsilon {NUMBER} ", spent)
    no_more(ledger._repr_html_(), rf"left</th><td>epsilon {NUMBER}", left)
    shown = text_of(lambda out: render_ledger(out, report))
    no_less(shown, rf"Spent \[[#.]+\] epsilon {NUMBER} of", spent)
    no_less(shown, rf"spent +epsilon {NUMBER}", spent)
    no_less(shown, rf"grant-\w+ +\S+ on \S+ +{NUMBER} ", *[one.epsilon for one in report.grants])
    no_more(shown, rf"(?:run of up to|except for) epsilon {NUMBER}\.", left)
    html = render_page(page_of(store, state, report, entries))
    no_less(html, rf"Within budget: epsilon {NUMBER} of", spent)
    no_less(html, rf'class="big">{NUMBER} <small>of', spent)
    no_less(html, rf"<dt>Spent</dt><dd>epsilon {NUMBER} at", spent)
    no_more(html, rf"a plan of epsilon {NUMBER}; epsilons", left)
    if left:
        no_more(html, rf"(?:run of up to|Room for) epsilon {NUMBER}\.", left)
    grants = list(state.grants.values())
    costs = [state.rule.epsilon_of(grant.charged[0]) for grant in grants]
    for grant, cost in zip(grants, costs, strict=True):
        no_less(" ".join(_granted(state, grant.grant)[1]), rf"booked epsilon {NUMBER} of", cost)
    log = "\n".join(event.text for event in timeline(entries))
    no_less(log, rf"people: epsilon {NUMBER},", *costs)
    no_less(dict(spend_properties(ledger))["privledger_epsilon"], NUMBER, spent)
    if spent:
        assert burn_down_points(ledger)[-1][1] == left


@settings(max_examples=8, deadline=None)
@given(ledgers(), noises)
def test_prices_comparisons_and_refusals(ledger, noise):
    state = ledger.state
    node = pl.Repeat(pl.Gaussian(noise), 40)
    price = price_plan(node, 1e-7, budget=ledger.budget, filter="gdp",
                       state=state if state.rule else None)
    page = text_of(lambda out: render_price(out, price, 40))
    no_less(page, rf"price +epsilon {NUMBER} at", price.epsilon)
    no_less(page, rf"charge +{NUMBER} of", price.amount)
    no_less(page, rf"books epsilon {NUMBER}", price.charged)
    asked = text_of(lambda out: render_whatif(out, price, "", [], None))
    no_less(asked, rf"alone +epsilon {NUMBER} at", price.epsilon)
    if price.error is not None:
        words = str(price.error)
        no_less(words, rf"asks for epsilon {NUMBER},", price.error.asked)
        no_less(words, rf"\({NUMBER} spent\)", price.error.spent)
        if price.error.left:
            no_more(words, rf"{NUMBER} of the ledger is left", price.error.left)
    found = explain(pl.Gaussian(noise), 1e-7)
    no_less(str(found), rf"epsilon <= {NUMBER} at", found.epsilon)
    facts = Facts(price.epsilon, 1.2345678e-7, "add_remove", ("a",), ("Gaussian",))
    policy = Policy(1e-9, 1e-9)
    over, delta = compare(facts, policy)[:2]
    no_less(over.message, rf"^epsilon {NUMBER} is over", price.epsilon)
    no_less(delta.message, rf"^delta {NUMBER} is over", facts.delta)
    rows = dict(gate_numbers(PrintedAnswer(1, "refused", facts, ()), policy))
    no_less(rows["epsilon"], rf"^{NUMBER} of", price.epsilon)
    for kind in ("junit", "github", "sarif"):
        made = ci_text(kind, Outcome("x", "1", 1, "refused", {}, (over, delta), rows))
        no_less(made, rf"epsilon {NUMBER} is over", price.epsilon)
    changed = ledger_changes(pl.Ledger.create(None, budget=ledger.budget).state, state)
    for grant in changed.grants:
        true = state.rule.epsilon_of(state.grants[grant.what].charged[0])
        no_less(grant.after, rf"epsilon {NUMBER},", true)


def test_a_records_spend_is_printed_upwards():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, SCHEMA, name="people")
    with ledger.request(pl.Gaussian(7.123456789), data, learner="a") as session:
        session.release(pl.Gaussian(7.123456789), data.count())
    spend = ledger.record(3)
    page = text_of(lambda out: render_record(out, spend, "mu squared", False))
    no_less(page, rf"people: {NUMBER} mu squared", spend.total)
    no_less(page, rf"    {NUMBER} of", spend.lines[0].amount)


@pytest.mark.parametrize("share", [0.1234, 0.00123, 0.99999, 1.0, 0.0])
def test_the_pages_own_numbers_round_up_and_its_remainders_down(share):
    from privledger.reports.page.people import packed
    from privledger.reports.page.render import at_least, short, shown_number

    assert float(shown_number(share)) >= share >= float(at_least(share))
    assert short(share) >= share
    assert packed(np.array([share]), 1.0, 4095)


def test_a_cap_for_one_table_does_not_stop_a_price():
    """Which table a run will ask for is known when it asks."""
    caps = [pl.Cap(pl.Budget(0.1, 1e-6), data="rows")]
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=caps)
    price = price_plan(pl.Gaussian(10.0), 1e-6, budget=ledger.budget, state=ledger.state)
    assert price.refusal is None
