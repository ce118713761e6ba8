"""What a learner's process may use up: every limit has a default, an option and a typed end."""

import json
import os
import time

import numpy as np
import pytest
from attrs import fields

import privledger as pl
from privledger.broker import DEFAULTS, Limits
from privledger.broker.allowance import ResourceLimits
from privledger.broker.server import Server, scope_prefix
from privledger.errors import IsolationLimit
from privledger.graph import fold
from privledger.tables.values import array_out
from tests.all_cases import all_cases
from tests.bodies import body_of
from tests.worlds import protected, refused, schema_of

ROWS = {"x": [0.5]}
SMALL = {
    "cpu_seconds": 0.5, "memory_mb": 1500, "threads": 20, "total_seconds": 0.5,
    "silence_seconds": 0.5, "message_mb": 2, "traffic_mb": 8, "plan_nodes": 20_000,
    "pricing_seconds": 0.3}


@pytest.mark.parametrize("name", SMALL)
def test_passing_a_limit_ends_the_learner_and_keeps_the_charge(start, tiny, name):
    ledger, data = tiny
    if name == "pricing_seconds":  # the filter that has to know every sample's curve
        ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6), filter="rdp")
        data = ledger.protect({"x": [0.1, 0.9]}, ["no", "yes"], data.schema)
    # Those of time begin when it is loaded: loading takes long where the machine is busy.
    later = name.endswith("_seconds") and name != "pricing_seconds"
    limits = Limits.of({name: SMALL[name]})
    learner = start("Wasteful", patience=None, limits=DEFAULTS if later else limits, what=name)
    if later:
        watch = learner._channel.watch
        watch.limits = limits
        watch.started = time.monotonic()
        if name == "silence_seconds":
            learner._channel.patience = SMALL[name]
        elif name == "cpu_seconds":
            watch.limits = Limits(cpu_seconds=SMALL[name] + watch.cpu)
    begun = time.thread_time()
    with pytest.raises(IsolationLimit) as caught:
        learner.fit(data)
    assert caught.value.limit == name
    assert caught.value.allowed == pytest.approx(SMALL[name], abs=5)
    assert name in str(caught.value)
    assert time.thread_time() - begun < 20
    assert learner._process.poll() is not None
    (grant,) = ledger.state.grants.values()
    assert (grant.status, grant.touched, grant.releases) == ("settled", True, 1)
    assert ledger.spent >= 1 - 1e-6
    assert ledger.verify() == []


def test_a_message_that_grows_when_it_is_read_is_refused(start, tiny):
    with pytest.raises(pl.errors.IsolationError, match="values"):
        start("Wasteful", what="values").fit(tiny[1])


@all_cases("name", sorted({one.name for one in fields(Limits)}))
def test_every_limit_is_stated_and_checked(name):
    assert getattr(DEFAULTS, name) > 0
    for bad in (0, -1, float("nan"), float("inf"), True, "9", None):
        with pytest.raises(pl.InvalidValue):
            Limits.of({name: bad})


def test_an_unknown_limit_is_refused_by_name():
    refused(pl.errors.InvalidPlan, lambda: Limits.of({"cpu": 5}), match="one of silence_seconds")


@pytest.mark.parametrize("depth", [101, 200, 5000])
def test_a_deep_plan_is_refused_by_its_depth(start, tiny, depth):
    if depth == 5000:  # beyond what the child's own writer can say
        _, data = tiny
        node = {"node": "Gaussian", "noise_multiplier": 50.0}
        for _ in range(depth):
            node = {"node": "Sequential", "nodes": [node]}
        said = Server(data, "x").answer({"ask": "request", "define": [], "plan": node, "data": 0,
                                         "delta": 0.0})
    else:
        learner = start("DeepPlan", what=str(depth))
        learner.fit(tiny[1])
        said = json.loads(learner.predict(ROWS)[0])
    assert said["error"] == "InvalidPlan"
    assert "at most 100 deep" in said["text"]
    assert tiny[1]._vault.opened == 0


def test_an_answer_that_no_message_carries_is_not_worked_out(tiny):
    """10^9 cells took the owner's memory and an hour of noise, for an answer it could not send."""
    _, data = tiny
    server = Server(data, "x")
    plan = pl.Gaussian(50.0)
    opened = server.answer({"ask": "request", "plan": pl.nodes.to_json(plan), "data": 0,
                            "delta": 0.0,
                            "define": []})
    assert opened["session"] == 0
    coins = [{"id": place, "is": "CoinCells", "count": 31_623, "weights": []} for place in (1, 2)]
    with pytest.raises(IsolationLimit) as caught:
        server.answer({"ask": "release", "session": 0, "mechanism": pl.nodes.to_json(plan),
                       "rollover": 0,
                       "define": [*coins, {"id": 3, "is": "CrossCells", "first": 1, "second": 2}],
                       "query": {"is": "Query", "data": 0, "blocks": [{"is": "Ones"}], "cells": 3,
                                 "what": "q"}})
    assert caught.value.limit == "message_mb"
    assert data._vault.opened == 0


@pytest.mark.parametrize("kind", ["responses", "labels", "some labels", "numbers"])
def test_an_answer_for_every_row_that_no_message_carries_is_not_charged(kind):
    """The check knew sums and choices only: one answer for each row was charged, then refused.
    And numbers travel in base64, 4 bytes for 3."""
    schema = schema_of("long", {"c": ["a", "b"]}, y=["a", "b"])
    n = 110_000  # 8 n bytes are within 1 MiB, 32 n / 3 are not
    relation = "replace_one" if kind in ("responses", "numbers") else "replace_label"
    ledger, data = protected(pl.Budget(30.0, 1e-6), {"c": np.full(n, "a")}, np.full(n, "a"), schema,
                             relation=relation, public_features=relation == "replace_label")
    server = Server(data, "x", resources=ResourceLimits(Limits.of({"message_mb": 1})))
    leaf = pl.Gaussian(2.0) if kind == "numbers" else pl.RandomizedResponse(0.3, 2)
    wrap = {"numbers": pl.nodes.AsReplaceOne, "responses": lambda node: node}.get(
        kind, pl.nodes.LabelOnly)
    plan, leaf = pl.nodes.to_json(wrap(leaf)), pl.nodes.to_json(leaf)
    opened = server.answer({"ask": "request", "plan": plan, "data": 0, "delta": 0.0, "define": []})
    assert opened["session"] == 0
    define = [{"id": 1, "is": "CoinCells", "count": n, "weights": []}] * (kind == "numbers")
    query = {"responses": {"is": "ResponseQuery", "data": 0, "name": "c", "what": "q"},
             "labels": {"is": "LabelQuery", "data": 0, "rows": None, "candidates": None,
                        "what": "q"},
             "some labels": {"is": "LabelQuery", "data": 0, "candidates": None, "what": "q",
                             "rows": array_out(np.arange(n - 1))},
             "numbers": {"is": "Query", "data": 0, "blocks": [{"is": "Ones"}], "cells": 1,
                         "what": "q"}}[kind]
    with pytest.raises(IsolationLimit) as caught:
        server.answer({"ask": "release", "session": 0, "mechanism": leaf, "rollover": 0,
                       "define": define, "query": query})
    assert caught.value.limit == "message_mb"
    assert data._vault.opened == 0
    assert not any(grant.releases for grant in ledger.state.grants.values())


def team_ledger():
    ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6), caps=[
        pl.Cap(pl.Budget(1.0, 1e-6), labels={"team": "a"}),
        pl.Cap(pl.Budget(2.0, 1e-6), labels={"team": "b"})])
    schema = schema_of("tiny", {"x": (0.0, 1.0)}, label=["no", "yes"])
    return ledger, ledger.protect({"x": [0.1, 0.9]}, ["no", "yes"], schema)


def test_the_owners_labels_are_on_every_grant(start):
    """A learner that gives none still falls under its team's cap."""
    ledger, data = team_ledger()
    start("Plain", labels={"team": "a"}).fit(data)
    (grant,) = ledger.state.grants.values()
    assert body_of(grant)["labels"] == {"team": "a"}
    refused(pl.BudgetExceeded, lambda: start("Plain", labels={"team": "a"}).fit(data))
    start("Plain", labels={"team": "b"}).fit(data)
    assert 1.0 < ledger.spent < 2.0


@all_cases("message", [
    {"labels": {"team": "b"}}, {"labels": {"team": "a"}}, {"labels": [["team", "b"]]},
    {"labels": "team"}, {"lease": 1.0}, {"lease": 0}, {"delta": 0.5}, {"delta": True}])
def test_what_the_owner_says_cannot_be_said_by_a_learner(message):
    ledger, data = team_ledger()
    server = Server(data, "x", {"team": "a"})
    ask = {"ask": "request", "define": [], "plan": pl.nodes.to_json(pl.Gaussian(50.0)), "data": 0,
           "delta": 0.0, "scope": None, "learner": "y", "isolation": "guarded"}
    assert server.answer(ask | message)["error"] in ("NotGranted", "InvalidValue")
    assert ledger.state.grants == {}
    assert "grant" in server.answer(ask)
    (grant,) = ledger.state.grants.values()
    assert (body_of(grant)["learner"], body_of(grant)["isolation"]) == ("x", "brokered")


def test_a_scope_of_somebody_else_cannot_be_drawn_on_by_its_name(start, tiny):
    ledger, data = tiny
    node = pl.IndividualFilter("gdp", 0.01)
    ledger.open_scope(node, name="shared")
    before = ledger.spent
    names = []
    for labels in ({}, {"team": "a"}, {"team": "a"}):
        learner = start("Scopes", what="shared", labels=labels)
        learner.fit(data)
        names.append(json.loads(learner.predict(ROWS)[0])["name"])
    assert "shared" not in names
    assert names[0] != names[1] == names[2]
    assert ledger.spent > before
    assert len(ledger.state.scopes) == 3
    assert names[0].startswith(scope_prefix("test-scopes", {}))


def test_limits_hold_for_a_learner_that_is_only_loaded(start):
    """Its plan is made and asked for before anything is granted."""
    refused(IsolationLimit, lambda: start("ManyNodes", patience=None), match="plan_nodes")


def test_no_process_is_left(start, tiny):
    learner = start("Wasteful", what="silence_seconds")
    learner._channel.patience = 0.3
    refused(IsolationLimit, lambda: learner.fit(tiny[1]))
    refused(ProcessLookupError, lambda: os.kill(learner._process.pid, 0))


def test_a_request_finds_the_price_that_was_made_before_its_lock(tiny, monkeypatch):
    """Else it is made again while others wait for the ledger."""
    made = []
    monkeypatch.setattr(fold, "check_time", lambda: made.append(1))
    server = Server(tiny[1], "x")
    real = Server._priced
    monkeypatch.setattr(Server, "_priced", lambda *given: (real(*given), made.clear())[0])
    plan = pl.Repeat(pl.PoissonSample(0.0123, pl.Gaussian(78.9)), 45)
    said = server.answer({"ask": "request", "plan": pl.nodes.to_json(plan), "data": 0,
                          "delta": 0.0, "define": []})
    assert said["session"] == 0 and not made


def test_classes_of_leaves_that_no_message_carries_are_not_counted(tiny):
    """512 leaves of 99,000 classes took 1.3 GB of the owner's memory, for 512 numbers."""
    server, plan = Server(tiny[1], "x"), pl.nodes.to_json(pl.Exponential(0.1))
    assert server.answer({"ask": "request", "plan": plan, "data": 0, "delta": 0.0,
                          "define": []})["session"] == 0
    empty = array_out(np.zeros(0, dtype=np.int32))
    trees = [{"id": 1, "is": "Bins", "schema": [tiny[1].schema.features[0].name],
              "numeric_bins": 4, "grid": 1024, "cuts": []},
             {"id": 2, "is": "GrownCells", "bins": 1, "parent": None, "feature": empty,
              "cut": empty}]
    for depth in range(9):
        nothing = array_out(np.full(2 ** depth, -1, dtype=np.int32))
        trees.append({"id": 3 + depth, "is": "GrownCells", "bins": 1, "parent": 2 + depth,
                      "feature": nothing, "cut": nothing})
    labels = {"id": 20, "is": "IntervalCells", "name": "",
              "edges": np.linspace(0.0, 1.0, 99_000).tolist()}
    with pytest.raises(IsolationLimit) as caught:
        server.answer({"ask": "release", "session": 0, "mechanism": plan, "rollover": 0,
                       "define": [*trees, labels],
                       "query": {"is": "LabelChoice", "data": 0, "cells": 11, "labels": 20,
                                 "what": "q"}})
    assert caught.value.limit == "message_mb" and tiny[1]._vault.opened == 0
