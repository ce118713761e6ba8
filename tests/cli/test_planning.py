"""plan and run: priced first, refused before anything is read, settled afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import privledger as pl
from privledger.cli import plan, run
from privledger.errors import InvalidPlan, InvalidValue
from privledger.runs import RunFile
from tests.worlds import refused, schema_of


def edit(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_plan_prices_without_a_table(call, run_file):
    (run_file.parent / "table.csv").unlink()
    page = call("plan", run_file)
    assert page.exit_code == 0
    for words in ("epsilon 1 at delta 1e-06", "Repeat(count=3)", "3 times in all", "gdp",
                  "Theorem [red]1", "10 x", "infinite", "fits"):
        assert words in page.stdout
    assert not (run_file.parent / "run.ledger").exists()


def test_plan_as_json(as_json, run_file):
    found = as_json("plan", run_file)
    assert found["fits"] is True
    assert found["releases"] == 3
    assert found["claims"][0]["ratio"] == pytest.approx(10)
    assert found["claims"][1]["sound"] == "infinity"
    assert found["plan"]["node"] == "Repeat"


def test_a_plan_over_budget_is_refused(call, run_file):
    page = call("plan", edit(run_file, "rounds = 3", "rounds = 3\nepsilon = 2.0"))
    assert page.exit_code == 1
    assert "refused, nothing was read" in page.stdout


def test_run_settles_and_continues_the_same_ledger(call, as_json, run_file, tmp_path):
    edit(run_file, "rounds = 3", "rounds = 3\nepsilon = 0.6")
    receipt = tmp_path / "receipt.json"
    first = call("run", run_file, "--receipt", receipt, "--model", tmp_path / "model.pkl")
    assert first.exit_code == 0, first.output
    assert "trained and settled" in first.stdout
    assert (tmp_path / "model.pkl").exists()
    assert call("verify", tmp_path / "run.ledger", "--receipt", receipt).exit_code == 0
    second = as_json("run", run_file)
    assert 0.6 < second["spent"] < 1.0
    third = call("run", run_file)
    assert third.exit_code == 1
    assert "1 refused" in call("show", tmp_path / "run.ledger").stdout


def test_a_refused_run_reads_no_table_and_makes_no_ledger(call, run_file, monkeypatch):
    monkeypatch.setattr(run, "read_table", lambda *_: pytest.fail("the table was read"))
    page = call("run", edit(run_file, "rounds = 3", "rounds = 3\nepsilon = 2.0"))
    assert page.exit_code == 1
    assert page.stdout == ""
    assert not (run_file.parent / "run.ledger").exists()


def test_ledger_and_data_dir_options(call, run_file, tmp_path, monkeypatch):
    elsewhere = tmp_path / "runs"
    elsewhere.mkdir()
    moved = elsewhere / "run.toml"
    run_file.rename(moved)
    assert call("plan", moved).exit_code == 2
    book = tmp_path / "other.ledger"
    assert call("run", moved, "--data-dir", tmp_path, "--ledger", book).exit_code == 0
    assert book.exists()
    monkeypatch.setenv("PRIVLEDGER_DATA", str(tmp_path))
    assert call("plan", moved).exit_code == 0


@pytest.mark.parametrize("table", ['test = "table.csv"', "holdout = 0.5"])
def test_public_rows_are_scored(as_json, run_file, table):
    edit(run_file, "[ledger]", f"[evaluate]\npublic = true\n{table}\n[ledger]")
    found = as_json("run", run_file)
    assert found["evaluation"]["model"]["accuracy"] <= 1
    assert found["evaluation"]["rows"] in (range(1, 40) if "holdout" in table else (40,))


@pytest.mark.parametrize("word", ["", "public = false", 'public = "true"'])
def test_a_score_on_rows_not_declared_public_is_refused(call, run_file, word):
    edit(run_file, "[ledger]", f"[evaluate]\nholdout = 0.5\n{word}\n[ledger]")
    page = call("run", run_file)
    assert page.exit_code == 2
    assert "a score on private rows is a release" in page.stderr


def test_an_exception_in_a_learner_shows_no_value(call, run_file, tmp_path):
    page = call("run", edit(run_file, "rounds = 3", "rounds = 3\nfail = true"))
    assert page.exit_code == 4
    assert "RuntimeError" in page.stderr
    assert "4711" not in page.output
    assert "stays spent" in call("show", tmp_path / "run.ledger").stdout


def test_a_run_file_cannot_change_the_promise_of_a_ledger(call, run_file):
    call("run", run_file)
    page = call("plan", edit(run_file, "epsilon = 1.0", "epsilon = 5.0"))
    assert page.exit_code == 2
    assert "[budget]" in page.stderr


BAD = [
    ("[run]", "[oops]\na = 1\n[run]", "oops"),
    ('learner = "tiny"', 'learner = "tiny"\nleaner = 1', "leaner"),
    ('learner = "tiny"', "", "learner"),
    ('learner = "tiny"', 'learner = "no-such-learner"', "no-such-learner"),
    ("rounds = 3", "round = 3", "round"),
    ("rounds = 3", "seed = 3", "no seed"),
    ("rounds = 3", "rounds = nan", "finite"),
    ("rounds = 3", "epsilon = true", "epsilon"),
    ("epsilon = 1.0", "epsilon = nan", "epsilon"),
    ("epsilon = 1.0", "epsilon = -1.0", "epsilon"),
    ("epsilon = 1.0", "epsilon = true", "epsilon"),
    ("delta = 1e-6", "delta = 1", "delta"),
    ('path = "run.ledger"', 'relation = "both"', "both"),
    ('path = "run.ledger"', 'filter = "loose"', "loose"),
    ('schema = "schema.json"', 'schema = "missing.json"', "missing.json"),
    ("[run]", "[run", "TOML"),
    ("[ledger]", "[evaluate]\npublic = true\nholdout = 1.5\n[ledger]", "holdout"),
    ("[ledger]", "[evaluate]\npublic = true\n[ledger]", "test or holdout")]


@pytest.mark.parametrize(("old", "new", "word"), BAD)
def test_bad_run_files_are_usage_errors(call, run_file, old, new, word):
    page = call("plan", edit(run_file, old, new))
    assert page.exit_code == 2, page.output
    assert word in page.stderr


def test_numbers_in_a_run_file_are_typed_errors(run_file):
    refused(InvalidValue, lambda: RunFile.load(edit(run_file, "epsilon = 1.0", "epsilon = inf")))
    refused(InvalidPlan, lambda: RunFile.load(edit(run_file, "[params]", "[parms]")))


def test_unsupported_relations_are_refused(call, run_file):
    page = call("plan", edit(run_file, 'path = "run.ledger"', 'relation = "replace_one"'))
    assert page.exit_code == 1
    assert "replace_one" in page.stderr


def test_holdout_is_a_function_of_each_row(run_file):
    from privledger.cli.run import split_off

    schema = pl.Schema.load(run_file.parent / "schema.json")
    X, y = pl.read_table(run_file.parent / "table.csv", schema)
    (_, private), (_, public) = split_off(X, y, schema, 0.4)
    fewer = [column[1:] for column in (X, y)]
    (_, private_less), (_, public_less) = split_off(*fewer, schema, 0.4)
    assert abs(len(private) - len(private_less)) + abs(len(public) - len(public_less)) == 1


@pytest.mark.parametrize("name", ["abalone", "adult"])
def test_example_run_files_are_understood(name):
    place = Path(__file__).parents[2] / "docs" / "examples" / f"{name}.toml"
    run = RunFile.load(place)
    assert run.evaluate is not None
    assert json.loads(json.dumps(run.params))["delta"] == 1e-6


def test_a_delta_that_nobody_gave_is_said_and_a_long_plan_is_one_line(call, run_file):
    text = run_file.read_text().replace('"tiny"\n[params]\nrounds = 3', '"auto-classifier"')
    run_file.write_text(text.replace("delta = 1e-6\n", ""), encoding="utf-8")
    place = run_file.with_name("schema.json")
    wide = json.loads(place.read_text())
    wide["columns"] += [{"name": f"x{number}", "kind": "numeric", "lower": 0, "upper": 1}
                        for number in range(4)]
    place.write_text(json.dumps(wide), encoding="utf-8")
    done = call("plan", run_file)
    assert done.exit_code == 0 and "gives no delta, so it is 0" in done.stderr
    assert len(done.stdout.splitlines()) < 40 and "--all prints all" in done.stdout
    run_file.write_text(text.replace("delta = 1e-6", "delta = 0.0"), encoding="utf-8")
    assert "gives no delta" not in call("plan", run_file).stderr


def test_the_first_plan_says_what_every_filter_would_cost(call, as_json, run_file):
    found = dict(as_json("plan", run_file)["price"]["fixes"])
    assert set(found) == {"gdp", "zcdp", "rdp", "basic"}
    assert found["gdp"] <= found["zcdp"] and found["gdp"] <= 1.001 <= found["rdp"]
    assert "fixes the filter gdp for every later plan" in " ".join(
        call("plan", run_file).stdout.split())
    edit(run_file, "rounds = 3", "rounds = 3\nepsilon = 0.5")
    ran = call("run", run_file)
    assert ran.exit_code == 0 and "fixes the filter gdp for every later plan; this plan by" in (
        " ".join(ran.stdout.split()))
    assert as_json("plan", run_file)["price"]["fixes"] == []
    assert "fixes the filter" not in call("plan", run_file).stdout


@pytest.mark.parametrize("filter", ["auto", "gdp"])
def test_a_pure_plan_costs_more_in_a_ledger_for_gaussians(filter):
    from privledger.reports.pricing import price_plan

    price = price_plan(pl.Laplace(1 / .3), 0.0, budget=pl.Budget(1.0, 1e-5), filter=filter)
    booked = dict(price.fixes)
    assert booked["basic"] == pytest.approx(.3) and booked["gdp"] > .6
    assert booked[price.filter] == price.charged
    assert dict(price_plan(pl.Laplace(4.0), 0.0, budget=pl.Budget(1.0)).fixes) == {"basic": .25}
    noise, cap = pl.Gaussian(100.0), pl.Budget(1.0, 3.5e-6)  # delta is what runs out
    assert price_plan(noise, 1e-6, budget=cap, filter="basic").like_it == 3


def test_a_pure_plan_under_a_filter_that_an_earlier_plan_fixed(call, as_json, tmp_path):
    """A pure plan of .3 costs more once a Gaussian has fixed the ledger: said, in both formats."""
    book, plan = tmp_path / "b.ledger", tmp_path / "plan.json"
    plan.write_text(json.dumps(pl.nodes.to_json(pl.Laplace(1 / .3))), encoding="utf-8")
    with pl.Ledger.create(book, budget=pl.Budget(2.0, 1e-5)) as ledger:
        data = ledger.protect({"x": [0.5] * 9}, schema_of("t", {"x": (0, 1)}))
        ledger.request(pl.Gaussian(20.0), data, delta=1e-5).close()
    found = as_json("whatif", book, "--plan", plan)["price"]
    assert found["fixes"] == [] and found["filter"] == "gdp" and found["charged"] > .6
    assert dict(found["cheaper"])["basic"] == pytest.approx(.3)
    page = " ".join(call("whatif", book, "--plan", plan).stdout.split())
    assert "the first plan fixed the filter gdp" in page and "basic 0.3" in page


@pytest.fixture
def pay_schema():
    return Path(__file__).parents[2] / "docs" / "examples" / "pay.schema.json"


def test_which_epsilon_an_exactness_needs(call, as_json, pay_schema):
    asked = ["plan", "--for", "mean(pay)", "--for", "count", "--within", 20, "--rows", 5000,
             "--schema", pay_schema]
    found = as_json(*asked)
    assert 0.2 < found["epsilon"] < 0.3
    assert max(line["noise +-"] for line in found["expected"]) <= 20
    assert "mean(pay)" in call(*asked).stdout
    wider = as_json(*asked[:5], "--within", 40, *asked[7:])
    assert wider["epsilon"] < found["epsilon"] < as_json(*asked, "--by", "job")["epsilon"] * 1.01


@pytest.mark.parametrize("words", [
    (), ("--within", 3), ("RUN", "--for", "count", "--within", 3), ("RUN", "--rows", 3),
    ("--for", "count"), ("--for", "count", "--within", "nan", "--schema", "PAY"),
    ("--for", "count", "--within", 3, "--schema", "PAY", "--isolate"),
    ("--for", "std(pay)", "--within", 3, "--schema", "PAY")])
def test_words_of_a_plan_that_do_not_go_together(call, run_file, pay_schema, words):
    known = {"RUN": run_file, "PAY": pay_schema}
    assert call("plan", *(known.get(word, word) for word in words)).exit_code == 2


@pytest.mark.parametrize("few", ["too few people to learn anything", None])
def test_a_table_of_too_few_people_is_said_before_the_price(call, run_file, monkeypatch, few):
    monkeypatch.setattr(plan, "too_few", lambda node, schema: few)
    lines = call("plan", run_file).stdout.splitlines()
    assert (few in lines) == (few is not None) and not any(line.strip() == "None" for line in lines)
