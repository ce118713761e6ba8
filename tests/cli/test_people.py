"""People from run files, on the command line, in exports and on pages."""

import json

import numpy as np
import pytest
from privledger_learners import DiPriMeForestRegressor

import privledger as pl
from privledger.tables.person_keys import make_people_key
from tests.alone import verify_history

SCHEMA = """
name = "visits"
target = "days"

[unit]
person = "member"

[[columns]]
name = "member"
kind = "identifier"
role = "identifier"

[[columns]]
name = "age"
kind = "numeric"
lower = 0
upper = 100

[[columns]]
name = "days"
kind = "numeric"
lower = 0
upper = 30
"""
RUN = """
[run]
learner = "diprime-forest-regressor"

[params]
n_trees = 2
max_depth = 1

[data]
schema = "schema.toml"
table = "visits.csv"
name = "visits"

[budget]
epsilon = 2.0

[ledger]
path = "visits.ledger"
people_key = "people.key"
"""
ABOUT = "one person, with all rows in all tables"


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    lines = [f"{who}.0,{draw.integers(0, 100)},{draw.integers(0, 30)}"
             for who in draw.integers(0, 60, 300)]
    (tmp_path / "visits.csv").write_text("\n".join(["member,age,days", *lines]) + "\n")
    (tmp_path / "run.toml").write_text(RUN)
    make_people_key(tmp_path / "people.key")
    return tmp_path


def test_a_run_of_people_from_its_file_to_one_persons_record(folder, call):
    assert ABOUT in call("plan", folder / "run.toml").stdout
    assert ABOUT in call("run", folder / "run.toml").stdout
    place, key = folder / "visits.ledger", folder / "people.key"
    for words in (["show"], ["verify"], ["log"]):
        assert ABOUT in call(words[0], place).stdout, words
    assert json.loads(call("receipt", place, "--format", "json").stdout)["unit"] == "person"
    shown = call("record", place, "--person", "17", "--people-key", key)
    assert "visits" in shown.stdout and "epsilon 2 of the ledger's 2" in shown.stdout
    value = json.loads(call("record", place, "--person", " 17 ", "--people-key", key,
                            "--format", "json").stdout)
    assert value["tables"] == ["visits"] and len(value["lines"]) == 1
    again = call("run", folder / "run.toml")
    assert again.exit_code == 1
    export = folder / "history.jsonl"
    call("export", place, "-o", export, "--include-records")
    book = verify_history.read_history(str(export))
    assert book.faults == [] and book.people.size > 30


def test_a_letter_in_plain_words(folder, call):
    call("run", folder / "run.toml")
    place, key = folder / "visits.ledger", folder / "people.key"
    said = call("record", place, "--person", "17", "--people-key", key, "--letter").stdout
    assert all(len(line) <= 78 for line in said.splitlines())
    risk = json.loads(call("risk", place, "--format", "json").stdout)["words"][0]
    number = risk.split("at most ")[1].split()[0]
    for words in ("1 table of ours: visits", "1 computation", "never exceeds 2",
                  f"right in at most {number} of 100 cases"):
        assert words in " ".join(said.split())
    assert "17" not in said
    assert call("record", place, "1", "--letter").exit_code == 2


def test_who_is_not_known_is_not_named(folder, call):
    call("run", folder / "run.toml")
    place, key = folder / "visits.ledger", folder / "people.key"
    for words in (["--person", "98765432", "--people-key", key], ["--person", "98765432"], [],
                  ["--person", "98765432.5", "--people-key", key],
                  ["3", "--person", "98765432", "--people-key", key]):
        said = call("record", place, *words)
        assert said.exit_code != 0 and "98765432" not in said.stdout + said.stderr, words
    key.chmod(0o644)
    assert "by its owner only" in call("record", place, "--person", "1", "--people-key", key).stderr


@pytest.mark.parametrize("change", [
    ('people_key = "people.key"', ""), ('people_key = "people.key"', 'people_key = "absent"'),
    ('people_key = "people.key"', 'people_key = "people.key"\nunit = "row"'),
    ('people_key = "people.key"', 'people_key = "people.key"\nunit = "house"')])
def test_what_a_run_file_has_to_say_about_people(folder, call, change):
    (folder / "run.toml").write_text(RUN.replace(*change))
    assert call("run", folder / "run.toml").exit_code != 0
    assert not (folder / "visits.ledger").exists()


def test_a_holdout_keeps_a_persons_rows_together(folder, call):
    from privledger.cli.run import split_off

    schema = pl.Schema.load(folder / "schema.toml")
    X, y = pl.read_table(folder / "visits.csv", schema)
    (private, _), (public, held) = split_off(X, y, schema, 0.3)
    assert not set(private["member"]) & set(public["member"])
    assert 0 < len(held) < 300
    (folder / "run.toml").write_text(RUN + "\n[evaluate]\npublic = true\nholdout = 0.3\n")
    assert "public rows" in call("run", folder / "run.toml").stdout


def test_a_learner_on_a_plain_table_of_people(folder):
    schema = pl.Schema.load(folder / "schema.toml")
    X, y = pl.read_table(folder / "visits.csv", schema)
    model = DiPriMeForestRegressor(epsilon=2.0, schema=schema, n_trees=2, max_depth=1)
    model.fit(X, y)
    assert ABOUT in repr(model.ledger_)
    assert len(model.predict(X[["age"]])) == len(y)
    with pytest.raises(pl.errors.DataError, match="missing column member"):
        DiPriMeForestRegressor(epsilon=2.0, schema=schema, n_trees=2).fit(X[["age"]], y)


def test_a_key_is_made_once(tmp_path, call):
    made = call("people-key", tmp_path / "k", "--format", "json")
    assert json.loads(made.stdout)["check"] == pl.Ledger.create(
        None, budget=pl.Budget(1.0), unit="person",
        people_key=tmp_path / "k").state.creation.key_check
    text = (tmp_path / "k").read_text().split()[-1]
    assert text not in made.stdout + made.stderr
    again = call("people-key", tmp_path / "k")
    assert again.exit_code != 0 and text not in again.stderr


def test_who_spent_most_over_all_tables(tmp_path, call):
    place = tmp_path / "l"
    schema = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp", unit="person",
                          people_key=b"k" * 32) as ledger:
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
        for name, ids, values in (("a", [1, 2, 3], [1.0, 0.5, 0.0]), ("b", [9, 1], [1.0, 1.0])):
            data = ledger.protect({"x": values}, schema=schema, name=name, people=ids)
            with ledger.request(scope.node, data, scope=scope) as session:
                session.release(pl.Gaussian(20.0), session.filtered().sum("x"))
            with ledger.request(pl.Gaussian(50.0), data) as session:
                session.release(pl.Gaussian(50.0), data.count())
        totals = {who: ledger.record(person=who).total for who in (1, 2, 3, 9)}
    found = json.loads(call("top", place, "--people", "--format", "json").stdout)["people"]
    assert sorted((one["spent"] for one in found), reverse=True) == pytest.approx(
        sorted(totals.values(), reverse=True))
    first = found[0]["place"]
    assert json.loads(call("record", place, first, "--format", "json").stdout)["total"] == (
        pytest.approx(totals[1]))
    assert call("top", place, "--records").exit_code == 2
    for said in (call("top", place, "--people"), call("record", place, first)):
        assert "what a person spent" in said.output and "record's" not in said.output
    page = tmp_path / "page.html"
    assert call("report", place, "-o", page, "--include-records").exit_code == 0
    assert "all tables" in page.read_text() and ABOUT in page.read_text()


def test_people_whom_two_ledgers_know_by_one_key(tmp_path, call):
    schema = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
    for name, key, ids in (("a", b"k" * 32, [1, 2, 3, 3]), ("b", b"k" * 32, ["3", "1.0", "9", "8"]),
                           ("c", b"x" * 32, [1, 2, 3, 4])):
        with pl.Ledger.create(tmp_path / name, budget=pl.Budget(1.0, 1e-6), filter="gdp",
                              unit="person", people_key=key) as ledger:
            data = ledger.protect({"x": [0.0, 0.1, 0.2, 0.3]}, schema=schema, people=ids)
            with ledger.request(pl.Gaussian(20.0), data) as session:
                session.release(pl.Gaussian(20.0), data.count())
    places = [tmp_path / name for name in "abc"]
    said = call("overlap", *places, "--format", "json")
    found = json.loads(said.stdout)["people"]
    assert said.exit_code == 1 and [one["people"] for one in found] == [2]
    assert found[0]["epsilon"] >= 2 * found[0]["first"]["epsilon"]
    assert "2 people in both" in call("overlap", *places).stdout
    assert call("overlap", places[0], places[2]).exit_code == 0
