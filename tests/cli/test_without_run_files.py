"""fit, doctor, init --like, predict --proba: what people need before they write a run file."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.examining import examined
from tests.worlds import refused

COLUMNS = [{"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
           {"name": "n", "kind": "numeric", "lower": 0, "upper": 9, "integer": True,
            "missing": True, "outside": "refuse"},
           {"name": "label", "kind": "categorical", "categories": ["no", "yes"],
            "role": "target"}]
SCHEMA = pl.Schema.from_dict({"name": "t", "columns": COLUMNS})


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, 600)
    (tmp_path / "t.csv").write_text("x,n,label\n" + "".join(
        f"{one},{place % 10},{'yes' if one > 0.5 else 'no'}\n" for place, one in enumerate(x)))
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA.to_dict()))
    return tmp_path


def fit(call, folder, *more):
    return call("fit", folder / "t.csv", "--schema", folder / "s.json", "--model", folder / "m",
                *more)


def test_a_fit_is_one_command_and_goes_on_with_its_ledger(call, folder):
    done = fit(call, folder, "--epsilon", 1, "--budget", 2, "--holdout", 0.2)
    assert done.exit_code == 0, done.stderr
    assert "private score" in done.stdout
    assert pl.load_model(folder / "m").private_score_.share == 0.2
    assert fit(call, folder, "--epsilon", 1).exit_code == 0
    turned_away = fit(call, folder, "--epsilon", 1)
    assert turned_away.exit_code == 1 and "othing was read" in turned_away.stderr
    with pl.Ledger.open(folder / "t.ledger", read_only=True) as ledger:
        assert ledger.spent == pytest.approx(2.0) and ledger.verify() == []
        assert {one.event.data for one in ledger.state.grants.values()} != {""}


@pytest.mark.parametrize("more", [
    ("--epsilon", "0"), ("--epsilon", "nan"), ("--epsilon", "-1"), ("--epsilon", "inf"),
    ("--epsilon", "1", "--delta", "2"), ("--epsilon", "1", "--learner", "nothing"),
    ("--epsilon", "1", "--holdout", "2"), ("--epsilon", "2", "--budget", "1"),
    ("--epsilon", "1", "--budget", "nan")])
def test_a_fit_that_can_never_be_right_makes_no_ledger(call, folder, more):
    assert fit(call, folder, *more).exit_code in (1, 2)
    assert not (folder / "t.ledger").exists() and not (folder / "m").exists()


def test_a_table_without_a_column_of_its_schema_makes_no_ledger(call, folder):
    (folder / "t.csv").write_text("x,n\n0.5,1\n")
    assert "missing column label" in fit(call, folder, "--epsilon", 1).stderr
    asked = call("ask", folder / "t.csv", "select count(*) from t", "--schema", folder / "s.json",
                 "--epsilon", 1)
    assert "missing column label" in asked.stderr
    assert not (folder / "t.ledger").exists()


@pytest.mark.parametrize(("line", "why"), [
    ("0.5,1,perhaps", "category that its schema does not list"), ("half,1,yes", "column 'x'"),
    ("0.5,1.5,yes", "not whole"), (",1,yes", "missing"), ("0.5,12,yes", "outside its public"),
    ("0.5,1,", "missing"), ("inf,1,yes", "infinity")])
def test_a_table_with_a_wrong_value_makes_no_ledger_and_one_that_is_there_stays(
        call, folder, line, why):
    with (folder / "t.csv").open("a") as table:
        table.write(f"{line}\n")
    (folder / "run.toml").write_text(
        '[run]\nlearner = "sgbdt-classifier"\n[params]\nepsilon = 1.0\n'
        '[data]\nschema = "s.json"\ntable = "t.csv"\n[budget]\nepsilon = 1.0\ndelta = 1e-6\n')
    ask = ("ask", folder / "t.csv", "select count(*) from t", "--schema", folder / "s.json",
           "--epsilon", 1)
    for refuse in (lambda: fit(call, folder, "--epsilon", 1), lambda: call(*ask),
                   lambda: call("run", folder / "run.toml", "--ledger", folder / "t.ledger")):
        told = refuse()
        assert told.exit_code == 2 and why in told.stderr, told.stderr
        assert line.partition(",")[2] not in told.stderr
        assert [one.name for one in folder.glob("t.ledger*")] == []
    pl.Ledger.create(folder / "t.ledger", budget=pl.Budget(1.0)).close()
    assert call(*ask).exit_code == 2
    with pl.Ledger.open(folder / "t.ledger", read_only=True) as ledger:
        assert ledger.spent == 0 and ledger.verify() == []


def test_shares_of_classes(call, folder):
    assert fit(call, folder, "--epsilon", 4).exit_code == 0
    done = call("predict", folder / "m", folder / "t.csv", "--proba")
    lines = done.stdout.splitlines()
    assert lines[0] == "no,yes" and len(lines) == 601
    assert sum(map(float, lines[1].split(","))) == pytest.approx(1.0)
    found = json.loads(call("predict", folder / "m", folder / "t.csv", "--proba", "--format",
                            "json").stdout)
    assert found["classes"] == ["no", "yes"] and len(found["predictions"]) == 600
    isolated = call("predict", folder / "m", folder / "t.csv", "--proba", "--isolate")
    assert isolated.exit_code == 2 and "--proba" in isolated.stderr


def test_a_draft_has_names_and_types_and_nothing_of_rows(call, folder):
    pq.write_table(pa.table({"x": [4711.0, 1.0], "label": ["secret", "no"]}), folder / "t.parquet")
    done = call("init", folder / "d.toml", "--like", folder / "t.parquet", "--target", "label")
    assert done.exit_code == 0 and "FILL IN" in done.stdout
    text = (folder / "d.toml").read_text()
    assert "4711" not in text and "secret" not in text and text.count("FILL IN") == 2
    refused(pl.SchemaError, lambda: pl.Schema.load(folder / "d.toml"))
    filled = text.replace("# FILL IN: lower = 0, upper = 0, if public; integer = true",
                          "lower = 0\nupper = 9").replace(
        "# FILL IN: categories = [], if public", 'categories = ["no", "yes"]')
    (folder / "d.toml").write_text(filled)
    assert pl.Schema.load(folder / "d.toml").target.name == "label"
    assert call("init", folder / "d.toml", "--like", folder / "t.csv").exit_code == 2
    assert call("init", folder / "e.toml", "--like", folder / "t.csv", "--expected-rows",
                5).exit_code == 2
    assert call("init", folder / "e.toml", "--like", folder / "t.csv", "--target",
                "nothing").exit_code == 2


def test_a_doctor_names_every_fault_at_once(call, folder):
    clean = call("doctor", folder / "t.csv", "--schema", folder / "s.json")
    assert clean.exit_code == 0 and "no fault" in clean.stdout
    (folder / "t.csv").write_text("x,n,label,z\n0.5,1,yes,a\n7,2,no,a\n,11,perhaps,a\n"
                                  "word,1.5,,a\n-1,,no,a\n")
    before = sorted(path.name for path in folder.iterdir())
    done = call("doctor", folder / "t.csv", "--schema", folder / "s.json")
    assert done.exit_code == 1 and done.stdout.startswith("CONFIDENTIAL")
    found = json.loads(call("doctor", folder / "t.csv", "--schema", folder / "s.json",
                            "--format", "json").stdout)
    assert found["confidential"].startswith("CONFIDENTIAL")
    assert {(one["column"], tuple(one["rows"])) for one in found["faults"]} == {
        ("x", (3,)), ("x", (4,)), ("n", (3,)), ("n", (4,)), ("label", (3,)), ("label", (4,))}
    assert found["clipped"] == [{"column": "x", "below": 1, "above": 1}]
    assert found["unknown_columns"] == ["z"] and found["rows"] == 5
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_doctor_counts_rows_per_person(call, tmp_path):
    value = {"name": "t", "unit": {"person": "who"}, "columns": [
        COLUMNS[0], {"name": "who", "kind": "identifier", "role": "identifier"}]}
    (tmp_path / "s.json").write_text(json.dumps(value))
    (tmp_path / "t.csv").write_text("x,who\n" + "0.5,a\n" * 5 + "0.1,b\n")
    done = call("doctor", tmp_path / "t.csv", "--schema", tmp_path / "s.json")
    assert done.exit_code == 0 and "2 people, 3 rows each in the median, at most 5" in done.stdout
    (tmp_path / "t.csv").write_text("x,who\n0.5,\n")
    assert call("doctor", tmp_path / "t.csv", "--schema", tmp_path / "s.json").exit_code == 1


cells = st.tuples(st.sampled_from(["0.5", "7", "", "word", "-1", "inf", "nan", "1e999"]),
                  st.sampled_from(["1", "1.5", "", "11", "9.0", "x"]),
                  st.sampled_from(["yes", "no", "", "Yes", "perhaps"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(cells, min_size=1, max_size=8))
def test_no_fault_is_what_the_guard_takes(tmp_path_factory, rows):
    place = tmp_path_factory.mktemp("dirty") / "t.csv"
    place.write_text("x,n,label\n" + "".join(",".join(row) + "\n" for row in rows))
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    try:
        ledger.protect(*pl.read_table(place, SCHEMA), SCHEMA)
    except pl.errors.DataError:
        taken = False
    else:
        taken = True
    found = examined(place, SCHEMA)
    assert taken == (not found.faults)
    assert found.rows == len(rows) or found.faults
