"""OpenDP: the map is called first, and what it says is charged before the measurement runs."""

import pytest

import privledger as pl
from privledger.adapters.opendp import invoke, price
from tests.all_cases import all_cases
from tests.worlds import refused


class Measurement:
    """The contract: two names, a map, a call."""

    def __init__(self, metric, measure, cost, log):
        self.input_metric, self.output_measure = metric, measure
        self.cost, self.log = cost, log

    def map(self, d_in):
        self.log.append("map")
        return self.cost if isinstance(self.cost, tuple) else self.cost * d_in

    def __call__(self, arg):
        self.log.append(self.ledger.spent)
        return "answer"


def made(epsilon=2.0, **options):
    return pl.Ledger.create(None, budget=pl.Budget(epsilon, 1e-5), **options)


def measured(ledger, metric="SymmetricDistance()", measure="MaxDivergence", cost=0.5):
    one = Measurement(metric, measure, cost, [])
    one.ledger = ledger
    return one


def test_the_charge_comes_before_the_answer():
    ledger = made()
    one = measured(ledger)
    assert invoke(ledger, one, [1], d_in=1, table="t") == "answer"
    assert one.log[0] == "map" and one.log[1] > 0
    assert ledger.verify() == []


def test_an_answer_that_fails_stays_paid():
    ledger = made()
    one = measured(ledger)
    one.ledger = None
    refused(AttributeError, lambda: invoke(ledger, one, [1], d_in=1, table="t"))
    assert ledger.spent > 0


@pytest.mark.parametrize(("measure", "cost", "node"), [
    ("MaxDivergence", 0.5, pl.Asserted), ("MaxDivergence(f64)", 0.5, pl.Asserted),
    ("ZeroConcentratedDivergence", 0.1, pl.AssertedZCDP),
    ("Approximate(MaxDivergence)", (0.5, 1e-7), pl.Asserted)])
def test_measures_have_prices(measure, cost, node):
    found = price(measured(None, measure=measure, cost=cost), 1, "add_remove")
    assert type(found) is node
    if isinstance(cost, tuple):
        assert (found.epsilon, found.delta) == cost


@all_cases(("metric", "measure", "relation", "d_in", "error"), [
    ("AbsoluteDistance(i32)", "MaxDivergence", "add_remove", 1, pl.errors.RelationMismatch),
    ("SymmetricDistance()", "MaxDivergence", "replace_one", 1, pl.errors.RelationMismatch),
    ("ChangeOneDistance()", "MaxDivergence", "add_remove", 1, pl.errors.RelationMismatch),
    ("SymmetricDistance()", "MaxDivergence", "replace_label", 2, pl.errors.RelationMismatch),
    ("SymmetricDistance()", "RenyiDivergence", "add_remove", 1, pl.errors.UnsupportedNode),
    ("SymmetricDistance()", "SmoothedMaxDivergence", "add_remove", 1, pl.errors.UnsupportedNode),
    ("SymmetricDistance()", "MaxDivergence", "add_remove", 0, pl.InvalidValue),
    ("SymmetricDistance()", "MaxDivergence", "add_remove", True, pl.InvalidValue)])
def test_what_is_not_known_is_refused(metric, measure, relation, d_in, error):
    one = measured(None, metric, measure)
    refused(error, lambda: price(one, d_in, relation))
    assert "answer" not in one.log


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0, 0.0, None, "1"])
def test_a_map_that_says_no_number_is_refused(cost):
    one = measured(None)
    one.map = lambda d_in: cost
    refused(pl.PrivledgerError, lambda: price(one, 1, "add_remove"))


def test_a_refusal_runs_nothing():
    ledger = made(epsilon=0.1)
    one = measured(ledger)
    refused(pl.BudgetExceeded, lambda: invoke(ledger, one, [1], d_in=1, table="t"))
    assert one.log == ["map"] and ledger.spent == 0


def test_with_opendp_itself():
    dp = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    ledger = made(filter="basic")
    answer = invoke(ledger, space >> dp.t.then_count() >> dp.m.then_laplace(scale=2.0),
                    list(range(100)), d_in=1, table="t")
    assert 0 < answer < 200 and ledger.spent == pytest.approx(0.5)
    concentrated = made(filter="zcdp")
    invoke(concentrated, space >> dp.t.then_count() >> dp.m.then_gaussian(scale=5.0),
           list(range(100)), d_in=1, table="t")
    assert concentrated.spent > 0 and concentrated.verify() == []
    refused(pl.errors.RelationMismatch, lambda: invoke(made(relation="replace_one"),
            space >> dp.t.then_count() >> dp.m.then_laplace(2.0), [1], d_in=1, table="t"))
