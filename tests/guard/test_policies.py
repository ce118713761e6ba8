"""A ledger's own policy: what it forbids is refused before a row is read."""

import pickle

import numpy as np
import pytest

import privledger as pl
from privledger.ledger import audit
from tests.all_cases import all_cases
from tests.bodies import body_of, lines_of, stored
from tests.worlds import refused

SCHEMA = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),), expected_rows=5,
                   expected_rows_provenance="declared: five places were planned")
BUDGET, NODE = pl.Budget(2.0, 1e-6), pl.Gaussian(20.0)


def policy(**rules):
    return pl.Policy(**{"max_epsilon": 2.0, "max_delta": 1e-6, **rules})


def made(kept, **options):
    return pl.Ledger.create(None, **{"budget": BUDGET, "policy": kept, **options})


def table(ledger, schema=SCHEMA, name="a"):
    return ledger.protect({"x": np.linspace(0, 1, 5)}, schema=schema, name=name)


def rules(caught):
    return [rule for rule, _ in caught.value.findings]


@all_cases(("rule", "kept", "plan", "learner"), [
    ("mechanism-not-allowed", {"mechanisms": ("Laplace",)}, NODE, "a"),
    ("mechanism-not-allowed", {"mechanisms": ("Gaussian",)},
     pl.Sequential([NODE, pl.Repeat(pl.Laplace(50.0, 1.0), 2)]), "a"),
    ("learner-not-allowed", {"learners": ("b",)}, NODE, "a"),
    ("learner-not-allowed", {"learners": ("b",)}, NODE, ""),
    ("asserted-node", {}, pl.Asserted(0.1, "somebody said so"), "a"),
    ("asserted-node", {}, pl.AssertedZCDP(0.001, "somebody said so"), "a"),
    ("isolation-not-allowed", {"isolation": ("brokered",)}, NODE, "a"),
    ("too-few-rows", {"min_rows": 6}, NODE, "a")])
def test_a_request_that_breaks_a_rule_spends_and_reads_nothing(rule, kept, plan, learner):
    ledger = made(policy(**kept), filter="basic")
    with pytest.raises(pl.errors.PolicyViolation, match="othing was read") as caught:
        ledger.request(plan, table(ledger), learner=learner, delta=1e-8)
    assert set(rules(caught)) == {rule}
    assert ledger.state.units == 0 and not ledger.state.grants
    assert pickle.loads(pickle.dumps(caught.value)).findings == caught.value.findings
    ledger.verify()
    (note,) = [body_of(entry) for entry in ledger._history.store.read()
               if entry.event.kind == "refused"]
    assert note["unit"] == "policy" and set(note["rules"]) == {rule}


def test_rows_must_be_declared():
    ledger = made(policy(min_rows=5))
    ledger.request(NODE, table(ledger)).close()
    silent = pl.Schema("one", SCHEMA.columns)
    with pytest.raises(pl.errors.PolicyViolation, match="declares no number"):
        ledger.request(NODE, table(ledger, silent, "b"))
    assert ledger.verify() == []


def test_an_asserted_query_is_refused_unread():
    read = []
    for allowed in (False, True):
        ledger = made(policy(allow_asserted=allowed))
        data = table(ledger)
        with ledger.request(NODE, data) as session:
            question = data.custom(lambda t, a=allowed: read.append(a) or t["x"], 1.0, "trust me")
            if allowed:
                session.release(NODE, question)
            else:
                with pytest.raises(pl.errors.PolicyViolation, match="asserted-node"):
                    session.release(NODE, question)
                assert session.releases == 0
        assert ledger.verify() == []
    assert set(read) == {True}


@pytest.mark.parametrize(("rule", "kept", "options"), [
    ("over-epsilon", {"max_epsilon": 1.0}, {}), ("over-delta", {"max_delta": 1e-7}, {}),
    ("under-delta", {"max_delta": 1e-2, "min_delta": 1e-5}, {}),
    ("wrong-relation", {"relation": "replace_one"}, {}),
    ("simulation-noise", {}, {"mode": "simulation"})])
def test_a_ledger_that_breaks_a_rule_is_not_made(rule, kept, options, tmp_path):
    with pytest.raises(pl.errors.PolicyViolation) as caught:
        pl.Ledger.create(tmp_path / "x.db", budget=BUDGET, policy=policy(**kept), **options)
    assert rules(caught) == [rule]
    assert not (tmp_path / "x.db").exists()


def test_a_pure_ledger_is_not_under_the_least_delta():
    made(policy(min_delta=1e-7), budget=pl.Budget(1.0))


def test_only_the_named_windows_are_opened():
    ledger = made(policy(windows=("2026-Q4",)))
    ledger.open_window("2026-Q4")
    with pytest.raises(pl.errors.PolicyViolation, match="window-not-allowed"):
        ledger.open_window("2027-Q1")
    assert ledger.window == "2026-Q4"


def test_a_scope_is_held_to_it_too():
    ledger = made(policy(mechanisms=("Gaussian",)))
    refused(pl.errors.PolicyViolation, lambda: ledger.open_scope(pl.IndividualFilter("gdp", 0.01)))


def test_limits_of_tables_are_caps():
    kept = pl.Policy.from_dict({"policy": {"max_epsilon": 2.0, "max_delta": 1e-6, "data": {
        "a": {"max_epsilon": 0.5, "max_delta": 1e-6}}}})
    ledger = made(kept)
    with pytest.raises(pl.BudgetExceeded, match="the cap for data a"):
        ledger.request(pl.Gaussian(5.0), table(ledger))
    ledger.request(pl.Gaussian(5.0), table(ledger, name="b")).close()


def test_it_survives_reopening(tmp_path):
    kept = policy(mechanisms=("Laplace",), learners=("b",), relation=("add_remove", "replace_one"),
                  min_rows=3, windows=("w",), isolation=("guarded",), require_receipt=True)
    made(kept, budget=BUDGET).close()
    path = tmp_path / "x.db"
    pl.Ledger.create(path, budget=BUDGET, policy=kept).close()
    with pl.Ledger.open(path) as again:
        assert again.state.policy == kept
        refused(pl.errors.PolicyViolation, lambda: again.request(NODE, table(again), learner="b"))


def rewritten(ledger, change):
    lines = lines_of(ledger)
    change(lines[0][1])
    return [(found.rule, found.position) for found in audit(stored(*lines))]


@pytest.mark.parametrize("rule", [
    {"mechanisms": ["Laplace"]}, {"learners": ["b"]}, {"min_rows": 6}, {"isolation": ["brokered"]}])
def test_the_audit_finds_what_it_should_have_stopped(rule):
    ledger = made(policy())
    ledger.request(NODE, table(ledger), learner="a").close()
    assert ledger.verify() == []
    found = rewritten(ledger, lambda created: created["policy"].update(rule))
    assert [name for name, _ in found] == ["policy-is-kept"]


def test_a_policy_of_a_later_version_is_not_ignored():
    ledger = made(policy())
    found = rewritten(ledger, lambda created: created["policy"].update(max_learners=3))
    assert "states-follow" in [name for name, _ in found]
