"""What a ledger's policy forbids and its history holds: found by both readers, entry by entry."""

from __future__ import annotations

import copy

import pytest

import privledger as pl
from privledger.ledger import audit
from privledger.storage import MemoryStore
from tests.alone import verify_history
from tests.doctored import entries_of
from tests.standalone import histories
from tests.standalone.conftest import chained, text_of


@pytest.fixture(scope="module")
def lines():
    policy = pl.Policy(max_epsilon=2.0, max_delta=1e-5, mechanisms=("Gaussian", "Asserted"),
                       learners=("", "x"), windows=("q1",))
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", policy=policy)
    data = ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="t")
    ledger.open_window("q1")
    with ledger.request(pl.Repeat(histories.G, 2), data, learner="x") as session:
        session.release(histories.G, data.count())
    return histories.lines_of(ledger)


def rules(made):
    """Of our findings about the policy, and whether the other reader speaks of one."""
    store = MemoryStore()
    made = chained(made)
    store._entries = entries_of(made)
    book = verify_history.Book()
    for line in text_of(made).splitlines():
        book.take(line)
    ours = [found for found in audit(store) if found.rule == "policy-is-kept"]
    assert bool(ours) == any("the ledger's policy" in text for _, text in book.faults)
    return [(found.position, found.message.partition(":")[0]) for found in ours]


def place_of(lines, kind):
    return [line["kind"] for line in lines].index(kind)


CHANGES = {
    "asserted-node": ("released", lambda body: body.update(questions=["asserted: so they say"])),
    "mechanism-not-allowed": ("granted", lambda body: body.update(
        plan={"node": "Laplace", "scale": 1e3, "l1_sensitivity": 1.0})),
    "learner-not-allowed": ("granted", lambda body: body.update(learner="another")),
    "window-not-allowed": ("window", lambda body: body.update(window="q2")),
}


@pytest.mark.parametrize("rule", CHANGES)
def test_a_rule_that_was_broken_is_found_at_its_entry(lines, rule):
    kind, change = CHANGES[rule]
    made = copy.deepcopy(lines)
    change(made[place_of(made, kind)]["body"])
    assert (place_of(made, kind), rule) in rules(made)


def test_a_vouched_for_cost_is_found_where_it_was_granted_and_nowhere_else(lines):
    made = copy.deepcopy(lines)
    made[place_of(made, "granted")]["body"]["plan"] = {
        "node": "Asserted", "epsilon": 0.01, "delta": 0.0, "why": "so they say"}
    assert rules(made) == [(place_of(made, "granted"), "asserted-node")]


def test_a_derived_question_and_a_grant_that_says_asserted_break_nothing(lines):
    assert rules(lines) == []
    made = copy.deepcopy(lines)
    made[place_of(made, "released")]["body"]["questions"] = ["count: not asserted: at all"]
    made[place_of(made, "granted")]["body"]["questions"] = ["asserted: of no meaning here"]
    assert rules(made) == []
