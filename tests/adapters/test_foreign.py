"""Runs of other libraries: charged first, never handed back, held to what was reserved."""

import copy
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.guard.elsewhere import Steps
from privledger.tables.person_keys import make_people_key
from tests.worlds import refused, schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})
RUN = pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 3)
WHO = {"table": "patients", "library": "opacus", "version": "1.6.0", "hook": "step_hook"}


def made(path=None, epsilon=3.0, **options):
    return pl.Ledger.create(path, budget=pl.Budget(epsilon, 1e-6),
                            **{"filter": "rdp", "order": 8.0} | options)


def test_the_charge_is_durable_first_and_never_handed_back(tmp_path):
    path = tmp_path / "l.ledger"
    ledger = made(path)
    run = ledger.foreign(RUN, **WHO)
    seen = pl.Ledger.open(path, read_only=True)
    assert seen.state.grants[run.grant].event.units > 0  # before foreign code has control
    with pytest.raises(RuntimeError), run:
        raise RuntimeError
    (grant,) = ledger.state.grants.values()
    assert grant.status == "settled" and grant.end.failed and ledger.spent > 0
    assert grant.event.isolation == "foreign"
    assert grant.event.labels == {key: WHO[key] for key in ("library", "version", "hook")}
    assert ledger.verify() == []


def test_a_run_that_dies_keeps_its_charge(tmp_path):
    path = tmp_path / "l.ledger"
    made(path)
    child = os.fork()
    if not child:
        pl.Ledger.open(path).foreign(RUN, **WHO)
        os._exit(9)
    os.waitpid(child, 0)
    (grant,) = pl.Ledger.open(path).state.grants.values()
    assert grant.status == "crashed" and pl.Ledger.open(path).spent > 0


def test_a_refusal_charges_nothing():
    ledger = made(epsilon=0.01, filter="basic", order=None)
    refused(pl.BudgetExceeded, lambda: ledger.foreign(pl.Asserted(2.0, "x"), **WHO))
    assert ledger.spent == 0 and not ledger.state.grants


def test_caps_of_the_table_and_of_the_library_hold():
    caps = [pl.Cap(pl.Budget(0.2, 1e-6), data="patients"),
            pl.Cap(pl.Budget(0.3, 1e-6), labels={"library": "opendp"})]
    ledger = made(caps=caps)
    refused(pl.BudgetExceeded, lambda: ledger.foreign(pl.Asserted(0.9, "x"), **WHO),
            lambda: ledger.foreign(pl.Asserted(0.9, "x"),
            **WHO | {"table": "u", "library": "opendp"}))
    ledger.foreign(pl.Asserted(0.9, "x"), **WHO | {"table": "u"}).close()


def test_policies_name_it():
    kept = made(policy=pl.Policy(3.0, 1e-6, isolation=("guarded",)))
    refused(pl.errors.PolicyViolation, lambda: kept.foreign(RUN, **WHO))
    word = made(policy=pl.Policy(3.0, 1e-6, isolation=("foreign",)))
    with pytest.raises(pl.errors.PolicyViolation):
        word.foreign(pl.Asserted(0.1, "x"), **WHO)  # allow_asserted is another question
    word.foreign(RUN, **WHO).close()
    assert word.verify() == []


@given(st.floats(0.5, 2), st.floats(0.001, 0.03))
def test_a_step_is_admitted_only_if_it_costs_no_more(noise, rate):
    steps = Steps(0.01, 1.0, 1)
    fits = noise >= 1.0 and rate <= 0.01
    if fits:
        steps.check(0, noise, rate)
        inside = pl.PoissonSample(rate, pl.Gaussian(noise))
        one = pl.PoissonSample(0.01, pl.Gaussian(1.0))
        assert pl.epsilon(inside, 1e-5) <= pl.epsilon(one, 1e-5) * (1 + 1e-9)
    else:
        refused(pl.NotGranted, lambda: steps.check(0, noise, rate))


def test_steps_run_out_and_end_with_the_grant():
    run = made().foreign(RUN, **WHO)
    for _ in range(3):
        run.step(noise=1.5, rate=0.01)
    refused(pl.NotGranted, lambda: run.step(noise=1.5, rate=0.01), match="all 3 reserved steps")
    other = made().foreign(RUN, **WHO)
    other.close()
    other.close()
    refused(pl.NotGranted, lambda: other.step(noise=1.0, rate=0.01))
    with pytest.raises(pl.NotGranted, match="equal steps"):
        made().foreign(pl.Asserted(0.1, "x"), **WHO).step(noise=9.0, rate=0.01)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 0.0, True, "1", None])
def test_a_step_is_told_in_numbers(bad):
    run = made().foreign(RUN, **WHO)
    for given_ in ({"noise": bad, "rate": 0.01}, {"noise": 1.0, "rate": bad}):
        with pytest.raises(pl.InvalidValue):
            run.step(**given_)
    assert run.taken == 0


def test_one_grant_stays_one():
    run = made().foreign(RUN, **WHO)
    assert copy.copy(run) is run and copy.deepcopy(run) is run
    refused(TypeError, lambda: pickle.dumps(run))
    child = os.fork()
    if not child:
        try:
            run.step(noise=1.0, rate=0.01)
        except pl.NotGranted:
            run.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0 and run.active


@pytest.mark.parametrize("change", [
    {"table": ""}, {"table": "\x1b[2J"}, {"library": 3}, {"version": "x" * 300},
    {"labels": {"library": "mine"}}])
def test_words_are_checked(change):
    ledger = made()
    refused(pl.InvalidValue, lambda: ledger.foreign(RUN, **WHO | change))
    assert ledger.spent == 0


def test_people_are_not_rows(tmp_path):
    key = make_people_key(tmp_path / "key")
    ledger = made(tmp_path / "l.ledger", unit="person", people_key=str(tmp_path / "key"))
    assert key
    refused(pl.errors.UnsupportedNode, lambda: ledger.foreign(RUN, **WHO))


def test_records_of_the_table_are_charged_all_of_it():
    ledger = made()
    ledger.protect({"x": np.arange(9) / 9}, SCHEMA, name="patients")
    ledger.foreign(pl.Asserted(0.5, "x"), **WHO).close()
    assert ledger.record(3).total > 0


FILTER = pl.IndividualFilter("gdp", 0.1, node=pl.Repeat(pl.Gaussian(1.0), 1000))


@pytest.mark.parametrize("plan", [
    FILTER, pl.Sequential([pl.Gaussian(9.0), FILTER]), pl.IndividualFilter("gdp", 0.1),
    pl.nodes.Public("x"), pl.Sequential([]), pl.Sequential([pl.nodes.PostProcess("x")])],
    ids=lambda plan: type(plan).__name__)
def test_what_nobody_enforces_elsewhere_is_no_price(plan):
    """History: a filter's cap of mu .316 paid for 1000 rounds that nobody was left out of."""
    ledger = made(filter="gdp", order=None)
    with pytest.raises(pl.errors.UnsupportedNode, match="othing was granted"):
        ledger.foreign(plan, **WHO)
    assert not ledger.state.grants
