"""The state machine, the chain, and what an audit finds in an edited history."""

import copy
import pickle

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.ledger import FORMAT, State, audit
from privledger.ledger.auditing import chain_findings
from privledger.ledger.entries import make_entry
from privledger.ledger.events import Refused
from privledger.storage import MemoryStore
from tests.all_cases import all_cases
from tests.bodies import body_of, chained, stored
from tests.worlds import protected, refused

G = pl.Gaussian(10.0)
CREATED = {"format": FORMAT, "uuid": "u", "time": "", "relation": "add_remove", "filter": "auto",
           "budget": {"epsilon": 1.0, "delta": 1e-6}, "mode": "private", "noise": ""}
HOLDER = {"host": "elsewhere", "pid": 1, "started": "x"}


def rule(kind="gdp", epsilon=1.0, delta=1e-6):
    from privledger.ledger import fixed_filter

    fixed = fixed_filter(kind, pl.Budget(epsilon, delta))
    return ("filter", {"kind": fixed.kind, "order": fixed.order, "cap_units": fixed.cap_units,
                       "delta_cap_units": fixed.delta_cap_units, "theorem": fixed.theorem})


def granted(name="g", plan=G, units=None, **more):
    from privledger.graph import cost_of
    from privledger.rounding import units_up

    units = units_up(cost_of(plan).gdp_squared) if units is None else units
    return ("granted", {"grant": name, "time": "", "learner": "", "data": "d",
                        "plan": pl.nodes.to_json(plan), "delta": 0.0, "holder": HOLDER,
                        "scope": None,
                        "units": units, "delta_units": 0} | more)


def released(name="g", leaves=(G,), under=()):
    return ("released", {"grant": name, "first": 0, "questions": ["count"], "noise": "",
                         "nodes": [{"under": list(under), "leaf": pl.nodes.to_json(leaf)}
                                   for leaf in leaves],
                         "items": [[place, 0, 1] for place in range(len(leaves))]})


def settled(name="g"):
    return ("settled", {"grant": name, "time": "", "touched": True, "releases": 1})


def aborted(name="g", touched=False):
    return ("aborted", {"grant": name, "time": "", "touched": touched, "releases": 0})


START = [("created", CREATED), rule()]


def rules_found(*lines):
    return sorted({finding.rule for finding in audit(stored(*lines))})


def test_a_clean_history_has_no_findings():
    assert audit(stored(*START, granted(), released(), settled())) == []


@all_cases(("lines", "found"), [
    ([*START, granted(), released(leaves=(G, G)), settled()], "releases-are-granted"),
    ([*START, granted(), released(leaves=(pl.Gaussian(1.0),)), settled()], "releases-are-granted"),
    ([*START, released("nobody")], "releases-are-granted"),
    ([*START, granted(units=1), released(), settled()], "prices-are-right"),
    ([*START, granted(), granted()], "states-follow"),
    ([*START, granted(), settled(), settled()], "states-follow"),
    ([*START, granted(), settled(), released()], "states-follow"),
    ([*START, ("invented", {})], "states-follow"),
    ([*START, ("created", CREATED)], "states-follow"),
    ([*START, rule("rdp")], "states-follow"),
    ([START[1]], "states-follow"),
    ([*START, granted(plan=pl.Gaussian(1.0)), released(leaves=(pl.Gaussian(1.0),)), settled()],
     "never-over-the-cap"),
    ([START[0], rule(epsilon=9.0)], "prices-are-right"),
    ([("created", CREATED | {"filter": "basic"}), rule()], "prices-are-right"),
    ([*START, granted(scope="nobody", units=0, worst=0.0, plan=pl.IndividualFilter("gdp", 1.0))],
     "scopes-are-paid"),
    ([*START, granted(units=-1)], "states-follow"),
    ([("created", CREATED | {"budget": {"epsilon": -1, "delta": 0}})], "states-follow"),
    ([("created", CREATED | {"format": FORMAT + 1})], "states-follow"),
    ([("created", [])], "states-follow"),
    ([*START, ("granted", {"grant": "g"})], "states-follow"),
    ([*START, granted(plan=pl.RandomizedResponse(0.5), units=5)], "prices-are-right"),
    ([*START, granted(), ("settled", None)], "states-follow")])
def test_an_audit_names_the_rule_that_does_not_hold(lines, found):
    assert found in rules_found(*lines)


@all_cases("body", [None, [], 3, "x", {"grant": ["g"]}, {"grant": {}},
                    {"grant": "g", "items": 5}, {"grant": "g", "nodes": [5]}])
@all_cases("kind", ["filter", "protected", "scope", "granted", "released", "settled",
                    "aborted", "crashed"])
def test_a_malformed_body_is_corrupt_and_never_stops_an_audit(kind, body):
    lines = [*START, granted(), (kind, body)]
    state = State()
    try:
        for entry in chained(*lines):
            state.apply(entry)
    except pl.PrivledgerError:
        assert audit(stored(*lines))
    else:
        audit(stored(*lines))


def test_the_chain_is_checked_entry_by_entry():
    entries = chained(*START, granted())
    entries[2] = evolve(entries[2], event=evolve(entries[2].event, units=0))
    refused(pl.errors.LedgerCorrupt, lambda: _fold(entries), match="hash")
    refused(pl.errors.LedgerCorrupt, lambda: _fold([entries[0], entries[2]]), match="follow")
    refused(pl.errors.LedgerCorrupt, lambda: _fold(list(reversed(entries[:2]))))


def _fold(entries):
    state = State()
    for entry in entries:
        state.apply(entry)
    return state


def test_a_refund_needs_that_nothing_was_touched():
    assert _fold(chained(*START, granted(), aborted())).units == 0
    kept = _fold(chained(*START, granted()))
    assert _fold(chained(*START, granted(), aborted(touched=True))).units == kept.units
    assert _fold(chained(*START, granted(), released(), aborted())).units == kept.units


def test_a_crash_keeps_the_whole_charge_and_may_still_settle():
    crash = ("crashed", {"grant": "g", "time": ""})
    assert _fold(chained(*START, granted(), crash)).units > 0
    assert _fold(chained(*START, granted(), crash, released(), settled())).grants[
        "g"].status == "settled"


def test_an_empty_history_is_no_ledger():
    assert audit(MemoryStore())
    with pytest.raises(pl.errors.LedgerCorrupt):
        pl.Ledger(MemoryStore(), pl.guard.ledger.SystemSource())


# The ledger object.

@pytest.fixture
def ledger(make_ledger):
    return make_ledger(1.0)


def test_copies_are_the_same_object(ledger, schema, table):
    from sklearn.base import BaseEstimator, clone

    class Estimator(BaseEstimator):
        def __init__(self, ledger=None, data=None):
            self.ledger, self.data = ledger, data

    data = ledger.protect(*table, schema)
    assert copy.copy(ledger) is ledger and copy.deepcopy(ledger) is ledger
    assert copy.copy(data) is data and copy.deepcopy(data) is data
    twin = clone(Estimator(ledger, data))
    assert twin.ledger is ledger and twin.data is data
    assert copy.deepcopy({"a": [ledger, data]}) == {"a": [ledger, data]}


def test_pickling_is_refused(ledger, schema, table):
    data = ledger.protect(*table, schema)
    session = ledger.request(G, data)
    for thing in (ledger, data, data._vault, session, [ledger], {"x": data}):
        for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
            with pytest.raises(TypeError):
                pickle.dumps(thing, protocol)


def test_changing_what_the_ledger_shows_changes_nothing(ledger, schema, table):
    """`state` is there to be read; whoever writes into it must not gain budget."""
    data = ledger.protect(*table, schema)
    ledger.request(G, data).close()
    spent = ledger.spent
    shown = ledger.state
    shown.units = 0
    shown.rule = None
    shown.grants.clear()
    assert ledger.spent == spent
    for body in (body_of(grant) for grant in ledger.state.grants.values()):
        body["units"] = 0
    assert ledger.verify() == []


def test_a_closed_session_may_be_closed_again(ledger, schema, table):
    data = ledger.protect(*table, schema)
    session = ledger.request(G, data)
    session.close()
    entries = ledger.receipt.entries
    session.close()
    session.close(failed=ValueError)
    assert ledger.receipt.entries == entries and ledger.spent > 0


def test_receipts_name_the_last_entry(ledger, schema, table):
    data = ledger.protect(*table, schema)
    with ledger.request(G, data) as session:
        session.release(G, data.count())
    receipt = session.receipt
    assert receipt == ledger.receipt
    assert receipt.epsilon == ledger.spent and receipt.mode == "private"
    assert receipt.as_dict()["head"] == ledger.state.head
    ledger.request(G, data).close()
    assert ledger.receipt.head != receipt.head


def test_graph_is_what_was_paid_for(ledger, schema, table):
    data = ledger.protect(*table, schema)
    ledger.request(G, data).close()
    ledger.request(pl.Gaussian(20.0), data).close(failed=ValueError)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.001))
    ledger.request(scope.node, data, scope=scope).close()
    assert ledger.graph() == pl.Sequential([G, scope.node])


def test_repr_shows_totals_only(ledger, schema, table):
    ledger.protect(*table, schema)
    assert "epsilon 0 of 1" in repr(ledger) and "add_remove" in repr(ledger)
    assert "NOT PRIVATE" not in repr(ledger)
    simulated = pl.Ledger.create(None, budget=pl.Budget(1.0), mode="simulation", seed=3)
    assert "NOT PRIVATE" in repr(simulated)


@pytest.mark.parametrize("options", [
    {"mode": "private", "seed": 3}, {"mode": "test"}, {"mode": None}, {"relation": "both"}])
def test_modes_and_seeds(options):
    refused(pl.InvalidValue, lambda: pl.Ledger.create(None, budget=pl.Budget(1.0), **options))


def test_a_private_ledger_takes_no_seeded_noise():
    from privledger.noise.seeded import SeededSource

    store = stored(*START)
    refused(pl.InvalidValue, lambda: pl.Ledger(store, SeededSource(1)))


def test_simulation_is_repeatable_and_marked(schema, table):
    answers = []
    for _ in range(2):
        ledger, data = protected(pl.Budget(1.0, 1e-6), *table, schema, mode="simulation", seed=5)
        with ledger.request(G, data) as session:
            answers.append(float(session.release(G, data.count())))
        assert session.receipt.mode == "simulation"
    assert answers[0] == answers[1]


@pytest.mark.parametrize("plan", [None, "Gaussian", 3, [G], {"node": "Gaussian"}, pl.Gaussian])
def test_a_plan_is_a_node(ledger, schema, table, plan):
    data = ledger.protect(*table, schema)
    refused(pl.PrivledgerError, lambda: ledger.request(plan, data))
    assert ledger.spent == 0


def test_a_request_is_for_this_ledgers_data(ledger, make_ledger, schema, table):
    data = ledger.protect(*table, schema)
    other = make_ledger().protect(*table, schema)
    for wrong in (other, data.poisson(0.1), data.partition(2)[0], None, table[0], data.schema):
        with pytest.raises(pl.InvalidValue):
            ledger.request(G, wrong)
    assert ledger.spent == 0


def test_randomised_orders_of_grants_and_refunds_balance(make_ledger, schema, table):
    ledger = make_ledger(5.0)
    data = ledger.protect(*table, schema)
    rng = np.random.default_rng(0)
    from privledger.graph import cost_of
    from privledger.rounding import units_up

    expected = 0
    for _ in range(60):
        plan = pl.Gaussian(float(rng.uniform(20, 90)))
        session = ledger.request(plan, data)
        fate = rng.integers(3)
        if fate == 0:
            session.close(failed=KeyError)
            continue
        expected += units_up(cost_of(plan).gdp_squared)
        if fate == 1:
            session.release(plan, data.count())
        session.close(failed=KeyError if fate == 1 and rng.integers(2) else None)
    assert ledger.state.units == expected
    assert ledger.verify() == []


def test_a_long_line_of_releases_does_not_hide_a_known_one_behind_it():
    """What was over the plan passed for the first release of another grant's form."""
    settle = [("settled", {"grant": name, "time": "t", "touched": True, "releases": releases})
              for name, releases in (("f", 1), ("g", 2))]
    long = released("g")[1] | {"questions": ["count" * 1000]}
    store = stored(("created", CREATED), rule(), granted("f", time="t"), released("f"), settle[0],
                   granted("g", time="t"), ("released", long), released("g"), settle[1])
    assert {finding.rule for finding in audit(store)} == {"releases-are-granted"}


def test_a_hundred_breaks_of_a_chain_are_told_and_no_more():
    store = stored(("created", CREATED), *[("noted", {"number": place}) for place in range(150)])
    store._entries[:] = [evolve(entry, previous="0" * 64) for entry in store._entries]
    assert len(chain_findings(store)[0]) == 100


def test_an_entry_that_does_not_follow_is_refused_whenever_one_looks():
    """It came after the history was read: nothing of it counts, and every look says so."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    history, store = ledger._history, ledger._history.store
    before = history.refresh().position
    right = make_entry(before + 1, Refused(learner="x"), history.state.head)
    store._entries.append(evolve(right, hash="0" * 64))
    for _ in range(2):
        with pytest.raises(pl.LedgerError):
            history.refresh()
        with pytest.raises(pl.LedgerError):
            ledger.spent  # noqa: B018
        assert (history.state.position, history.state.refusals) == (before, 0)
    store._entries[-1] = right
    assert history.refresh().refusals == 1
