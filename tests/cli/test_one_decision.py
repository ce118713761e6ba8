"""What plan, check and whatif say of a run is what its ledger would decide: caps included."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from privledger_learners import JointTreeClassifier

import privledger as pl
from privledger.cli import main
from privledger.ledger.view_timeline import timeline
from privledger.reports.pricing import price_plan
from tests.alone import verify_history
from tests.standalone.conftest import exported
from tests.worlds import protected, schema_of

SCHEMA = {"name": "t", "target": "y", "columns": [
    {"name": "a", "kind": "numeric", "lower": 0, "upper": 1},
    {"name": "y", "kind": "numeric", "lower": 0, "upper": 1}]}
CAPS = (pl.Cap(pl.Budget(0.5, 1e-6), data="t.csv"),
        pl.Cap(pl.Budget(0.5, 1e-6), labels={"team": "a"}))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (tmp_path / "t.csv").write_text("a,y\n" + "0.5,0.5\n" * 200, encoding="utf-8")
    (tmp_path / "p.toml").write_text("[policy]\nmax_epsilon = 3.0\nmax_delta = 1e-6\n",
                                     encoding="utf-8")
    pl.Ledger.create("cap.ledger", budget=pl.Budget(3.0, 1e-6), filter="gdp", caps=CAPS).close()
    return tmp_path


def run_file(place, epsilon, name="", team=""):
    (place / "r.toml").write_text(
        '[run]\nlearner = "sgbdt-regressor"\n[data]\nschema = "s.json"\ntable = "t.csv"\n'
        + (f'name = "{name}"\n' if name else "") + (f'[labels]\nteam = "{team}"\n' if team else "")
        + "[budget]\nepsilon = 3.0\ndelta = 1e-6\n[ledger]\npath = \"cap.ledger\"\n"
        f"[params]\nepsilon = {epsilon}\nn_trees = 5\n", encoding="utf-8")


def said(*words):
    done = CliRunner().invoke(main, list(words))
    return done.exit_code, done.output


@pytest.mark.parametrize(("name", "team", "limit"), [
    ("", "", "t.csv"), ("other", "a", "team"), ("other", "", "")])
@pytest.mark.parametrize("epsilon", [1.0, 0.4])
def test_every_command_says_what_run_does(place, name, team, limit, epsilon):
    run_file(place, epsilon, name, team)
    refused = bool(limit) and epsilon > 0.5
    words = ["--learner", "sgbdt-regressor", "--schema", "s.json", "--epsilon", str(epsilon),
             "--delta", "1e-6", "--param", "n_trees=5", "--table", name or "t.csv",
             *(["--label", f"team={team}"] if team else [])]
    answers = {"plan": said("plan", "r.toml"), "check": said("check", "r.toml", "--policy",
                                                             "p.toml"),
               "whatif": said("whatif", "cap.ledger", *words), "run": said("run", "r.toml")}
    assert {command: code for command, (code, _) in answers.items()} == dict.fromkeys(
        answers, int(refused)), answers
    for command, (_, text) in answers.items():
        if refused:
            assert limit in text, (command, text)
    if refused:
        for command in ("plan", "check", "whatif"):
            found = re.search(r"[Ee]psilon ([0-9.]+) of this learner would fit",
                              " ".join(answers[command][1].split()))
            assert found, answers[command]
            assert 0.4 < float(found[1]) <= 0.5
            run_file(place, found[1], name, team)
            assert said("plan", "r.toml")[0] == 0
        run_file(place, found[1], name, team)
        assert said("run", "r.toml")[0] == 0


def test_where_nothing_is_left_no_plan_fits(place):
    run_file(place, 1.0)
    text = (place / "r.toml").read_text().replace("epsilon = 3.0", "epsilon = 1e-7")
    (place / "r.toml").write_text(text.replace("cap.ledger", "small.ledger"))
    code, text = said("plan", "r.toml")
    assert code == 1 and "No plan of this learner fits." in " ".join(text.split())


def test_whatif_without_a_table_asks_every_cap(place):
    words = ("--learner", "sgbdt-regressor", "--schema", "s.json", "--delta", "1e-6", "--param",
             "n_trees=5", "--epsilon")
    assert said("whatif", "cap.ledger", *words, "1.0")[0] == 1
    assert said("whatif", "cap.ledger", *words, "0.4")[0] == 0


def test_would_grant_is_the_grants_decision_and_writes_nothing():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(0.3, 1e-6), labels={"team": "a"})])
    schema = schema_of("t", {"x": (0, 1)})
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, schema, name="t")
    for noise in np.geomspace(2.0, 60.0, 12):
        for labels in ({}, {"team": "a"}):
            plan, before = pl.Gaussian(float(noise)), ledger.receipt
            for asked in (ledger, data.ledger):
                found = asked.would_grant(plan, data, labels=labels)
            assert ledger.receipt == before
            try:
                ledger.request(plan, data, labels=labels).close()
            except pl.BudgetExceeded as refusal:
                assert str(refusal) == str(found)
            else:
                assert found is None


def test_the_policy_of_a_ledger_is_asked():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp",
                              policy=pl.Policy(max_epsilon=1.0, max_delta=1e-6,
                                               mechanisms=("Laplace",)))
    schema = schema_of("t", {"x": (0, 1)})
    data = ledger.protect({"x": [0.5]}, schema)
    assert isinstance(ledger.would_grant(pl.Gaussian(50.0), data), pl.errors.PolicyViolation)
    assert ledger.would_grant(pl.Laplace(50.0), data) is None


def test_what_refused_is_in_the_history(tmp_path):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(0.3, 1e-6), labels={"team": "a"})])
    schema = schema_of("t", {"x": (0, 1)})
    data = ledger.protect({"x": [0.5]}, schema)
    with pytest.raises(pl.BudgetExceeded) as refusal:
        ledger.request(pl.Gaussian(8.0), data, labels={"team": "a"})
    ledger._history.flush()
    entries = ledger._history.store.read()
    assert [e.event for e in entries if e.event.kind == "refused"][-1].limit == refusal.value.scope
    assert refusal.value.scope in " ".join(one.text for one in timeline(entries))
    book = verify_history.Book()
    for line in exported(entries).splitlines():
        book.take(line)
    assert ledger.verify() == [] and book.faults == []


def test_a_plan_that_costs_more_here_is_told_both_numbers():
    """JointTree .3 costs .6 in a gdp ledger; "a plan of epsilon .741 would fit" was no help."""
    schema = schema_of("p", {"age": (0, 120), "bmi": (10, 60)}, y=["no", "yes"])
    rng = np.random.default_rng(0)
    X = {"age": rng.uniform(18, 90, 300), "bmi": rng.normal(27, 5, 300)}
    y = np.where(X["age"] > 55, "yes", "no")
    _, data = protected(pl.Budget(1.0, 1e-5), X, y, schema, filter="gdp")
    JointTreeClassifier(epsilon=0.1, schema=schema).fit(data)
    with pytest.raises(pl.BudgetExceeded) as refusal:
        JointTreeClassifier(epsilon=0.6, schema=schema).fit(data)
    assert refusal.value.own is not None and refusal.value.own < refusal.value.asked
    assert "times what is left" in str(refusal.value)
    assert "a plan of epsilon" not in str(refusal.value)


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "rdp"])
@pytest.mark.parametrize("node", [pl.Asserted(0.1, "so it was said", 1e-4), pl.Sequential([
    pl.nodes.PartitionSelection(9.0, 1.0), pl.Laplace(9.0)])], ids=["asserted", "groups"])
def test_a_plan_with_more_delta_than_the_budget_is_refused_as_any_other(kind, node):
    """It has no epsilon by itself at the budget's delta; the refusal says how much delta is left,
    is noted, and is what plan says."""
    budget = pl.Budget(1.0, 1e-5, failure=3e-6)
    ledger, data = protected(budget, {"x": [0.5]}, schema_of("p", {"x": (0, 1)}), filter=kind)
    with pytest.raises(pl.BudgetExceeded) as refusal:
        ledger.request(node, data)
    assert refusal.value.unit == "delta" and refusal.value.left == 3e-6
    ledger._history.flush()
    assert "refused" in [entry.event.kind for entry in ledger._history.store.read()]
    assert str(price_plan(node, 1e-3, budget=budget, filter=kind).error) == str(refusal.value)
