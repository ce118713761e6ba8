"""Run files and predictions on Parquet files, folders and patterns."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.cli.plan import private_files
from privledger.runs import RunFile

SCHEMA = {"name": "t", "target": "y", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
    {"name": "job", "kind": "categorical", "categories": ["nurse", "smith"], "missing": True},
    {"name": "y", "kind": "numeric", "lower": 0, "upper": 1}]}
RUN = """
[run]
learner = "diprime-forest-regressor"
[params]
n_trees = 1
max_depth = 1
[data]
schema = "schema.json"
table = "{table}"
[budget]
epsilon = 2.0
[evaluate]
public = true
test = "{table}"
"""
FORMS = ["t.parquet", "parquet", "parquet/*.parquet", "t.csv", "csv", "csv/*.csv", "c*/?.csv"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.random(40), "job": ["nurse", None, "smith", "smith"] * 10,
                      "y": rng.random(40)})
    for name in ("parquet", "csv"):
        (tmp_path / name).mkdir()
    for part, rows in enumerate((table.slice(0, 15), table.slice(15))):
        pq.write_table(rows, tmp_path / "parquet" / f"{part}.parquet")
        rows.to_pandas().to_csv(tmp_path / "csv" / f"{part}.csv", index=False)
    pq.write_table(table, tmp_path / "t.parquet")
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


def test_all_forms_are_one_table(place):
    schema = pl.Schema.load("schema.json")
    X, y = pl.read_table(FORMS[0], schema)
    for form in FORMS[1:]:
        held, target = pl.read_table(place / form, schema)
        assert held.equals(X) and target.equals(y), form


@pytest.mark.parametrize("form", ["parquet", "csv/*.csv"])
def test_a_run_takes_a_folder_and_a_pattern(place, form):
    (place / "run.toml").write_text(RUN.format(table=form))
    done = run("run", "run.toml", "--model", "kept.model")
    assert done.exit_code == 0, done.output
    done = run("predict", "kept.model", "parquet")
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == 41, done.output


@pytest.mark.parametrize("table", ["none/*.parquet", "none", "p*.nothing"])
def test_nothing_there_is_found_before_a_ledger_is_made(place, table):
    (place / "run.toml").write_text(RUN.format(table=table))
    done = run("run", "run.toml")
    assert done.exit_code == 2 and "no such file in the run file" in done.output
    assert not (place / "run.ledger").exists()


def test_a_data_folder_with_the_signs_of_a_pattern(place):
    odd = place / "data[1]*"
    odd.mkdir()
    for name in ("parquet", "schema.json"):
        (place / name).rename(odd / name)
    found = RunFile.from_dict({
        "run": {"learner": "x"}, "budget": {"epsilon": 1.0},
        "data": {"schema": "schema.json", "table": "parquet/*.parquet"}}, place / "run.toml")
    path = found.data_path(found.table, odd, several=True)
    assert len(pl.read_table(path, pl.Schema.load(odd / "schema.json"))[1]) == 40


def test_every_file_of_a_table_is_kept_from_an_isolated_learner(place):
    (place / "elsewhere").mkdir()
    (place / "csv" / "0.csv").rename(place / "elsewhere" / "0.csv")
    (place / "csv" / "0.csv").symlink_to(place / "elsewhere" / "0.csv")
    for form in ("csv", "csv/*.csv"):
        (place / "run.toml").write_text(RUN.format(table=form))
        kept = private_files(RunFile.load("run.toml"), None, None)
        assert place / "elsewhere" / "0.csv" in {path.resolve() for path in kept}


def test_a_folder_of_both_kinds_is_refused(place):
    os.rename(place / "t.csv", place / "parquet" / "t.csv")
    with pytest.raises(pl.errors.DataError, match="Parquet and CSV"):
        pl.read_table("parquet", pl.Schema.load("schema.json"))
