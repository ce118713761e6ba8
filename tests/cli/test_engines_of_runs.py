"""Runs on chunks (`run --engine`), and runs and predictions on files, folders and patterns."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.cli.plan import private_files
from privledger.engines.engine_choice import EngineChoice
from privledger.errors import InvalidPlan, InvalidValue
from privledger.runs import RunFile
from tests.worlds import refused

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
{more}
"""
TEST = '[evaluate]\npublic = true\ntest = "t.csv"\n'
FORMS = ["t.parquet", "parts", "parts/*.parquet", "t.csv", "csv", "csv/*.csv", "c*/?.csv"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.random(40), "job": ["nurse", None, "smith", "smith"] * 10,
                      "y": rng.random(40)})
    for name in ("parts", "csv"):
        (tmp_path / name).mkdir()
    for part, rows in enumerate((table.slice(0, 15), table.slice(15))):
        pq.write_table(rows, tmp_path / "parts" / f"{part}.parquet")
        rows.to_pandas().to_csv(tmp_path / "csv" / f"{part}.csv", index=False)
    pq.write_table(table, tmp_path / "t.parquet")
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def write(place, table="parts", more=TEST):
    (place / "run.toml").write_text(RUN.format(table=table, more=more))


def run(*arguments):
    return CliRunner().invoke(main, ["run", "run.toml", *map(str, arguments)])


@pytest.mark.parametrize("table", ["parts", "parts/*.parquet", "t.csv"])
def test_a_run_in_chunks(place, table):
    write(place, table)
    spool = place / "spool"
    made = run("--engine", "local", "--workers", 1, "--spool", spool, "--format", "json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["engine"].startswith("local, 1 worker, kernels sha256:")
    assert told["evaluation"]["rows"] == 40
    assert {one.name for one in spool.iterdir()} >= {"spool.key", "chunk-0000000"}
    assert all(one.stat().st_mode & 0o077 == 0 for one in spool.iterdir())
    told = CliRunner().invoke(main, ["log", "run.ledger"]).output
    assert "answered by local, 1 worker" in " ".join(told.split())


def test_a_run_file_says_so_itself(place):
    write(place, more=TEST + '[engine]\nname = "local"\nworkers = 1\n')
    priced = CliRunner().invoke(main, ["plan", "run.toml"])
    assert priced.exit_code == 0, priced.output
    assert "answered by local, 1 worker" in run().stdout


def test_without_an_engine_a_run_is_in_memory(place):
    write(place)
    assert json.loads(run("--format", "json").stdout)["engine"] is None


@pytest.mark.parametrize(("arguments", "named"), [
    (["--workers", "2"], "--engine"), (["--spool", "s"], "--engine"),
    (["--engine", "local", "--scheduler", "tcp://127.0.0.1:1"], "scheduler"),
    (["--engine", "dask", "--scheduler", "tls://h:1", "--workers", "2"], "workers"),
    (["--engine", "dask", "--tls-ca", "t.csv"], "tls_ca")])
def test_options_that_do_not_go_together_are_refused_first(place, arguments, named):
    write(place)
    made = run(*arguments)
    assert made.exit_code == 2 and named in made.stderr
    assert not (place / "run.ledger").exists()


def test_a_holdout_beside_an_engine_is_refused_by_name(place):
    write(place, more="[evaluate]\npublic = true\nholdout = 0.5\n")
    made = run("--engine", "local")
    assert made.exit_code == 2 and "holdout" in made.stderr and "test" in made.stderr
    assert not (place / "run.ledger").exists()


@pytest.mark.parametrize(("given", "named"), [
    ({}, "name"), ({"name": "ray"}, "name"), ({"name": "local", "threads": 2}, "key"),
    ({"name": "local", "spool": 3}, "spool"), ({"name": "dask", "scheduler": ""}, "scheduler"),
    ({"name": "dask", "tls_ca": "a", "tls_cert": "b", "tls_key": "c"}, "tls_ca")])
def test_a_table_of_an_engine_is_checked(given, named):
    refused(InvalidPlan, lambda: EngineChoice.of(given, Path()), match=named)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2", float("nan"), 10**9])
def test_workers_are_a_count(workers):
    refused(InvalidValue, lambda: EngineChoice.of({"name": "local", "workers": workers}, Path()))


def test_files_of_a_run_file_lie_beside_it_and_options_go_over_them(place):
    write(place, more='[engine]\nname = "dask"\nworkers = 3\nspool = "s"\n')
    choice = RunFile.load(place / "run.toml").engine
    assert choice == EngineChoice("dask", 3, spool=str(place / "s"))
    assert choice.over({"workers": 1}, Path()).workers == 1
    assert choice.over({"workers": 1}, Path()).spool == str(place / "s")
    assert choice.over({"name": "local"}, Path()) == EngineChoice("local")
    assert place / "s" in choice.files


def test_a_scheduler_that_is_not_there(place):
    """The address is in no message: it may hold what nobody else has to know."""
    write(place)
    made = run("--engine", "dask", "--scheduler", "nowhere://secret-host:1")
    assert made.exit_code == 4 and "secret" not in made.output
    assert "cannot be reached" in made.stderr


# Files, folders and patterns.

def test_all_forms_are_one_table(place):
    schema = pl.Schema.load("schema.json")
    X, y = pl.read_table(FORMS[0], schema)
    for form in FORMS[1:]:
        held, target = pl.read_table(place / form, schema)
        assert held.equals(X) and target.equals(y), form


@pytest.mark.parametrize("form", ["parts", "csv/*.csv"])
def test_a_run_takes_a_folder_and_a_pattern(place, form):
    write(place, form, TEST.replace("t.csv", form))
    done = run("--model", "kept.model")
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["predict", "kept.model", "parts"])
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == 41, done.output


@pytest.mark.parametrize("table", ["none/*.parquet", "none", "p*.nothing"])
def test_nothing_there_is_found_before_a_ledger_is_made(place, table):
    write(place, table, TEST.replace("t.csv", table))
    done = run()
    assert done.exit_code == 2 and "no such file in the run file" in done.output
    assert not (place / "run.ledger").exists()


def test_a_data_folder_with_the_signs_of_a_pattern(place):
    odd = place / "data[1]*"
    odd.mkdir()
    for name in ("parts", "schema.json"):
        (place / name).rename(odd / name)
    found = RunFile.from_dict({
        "run": {"learner": "x"}, "budget": {"epsilon": 1.0},
        "data": {"schema": "schema.json", "table": "parts/*.parquet"}}, place / "run.toml")
    path = found.data_path(found.table, odd, several=True)
    assert len(pl.read_table(path, pl.Schema.load(odd / "schema.json"))[1]) == 40


def test_every_file_of_a_table_is_kept_from_an_isolated_learner(place):
    (place / "elsewhere").mkdir()
    (place / "csv" / "0.csv").rename(place / "elsewhere" / "0.csv")
    (place / "csv" / "0.csv").symlink_to(place / "elsewhere" / "0.csv")
    for form in ("csv", "csv/*.csv"):
        write(place, form, TEST.replace("t.csv", form))
        kept = private_files(RunFile.load("run.toml"), None, None)
        assert place / "elsewhere" / "0.csv" in {path.resolve() for path in kept}


def test_a_folder_of_both_kinds_is_refused(place):
    os.rename(place / "t.csv", place / "parts" / "t.csv")
    with pytest.raises(pl.errors.DataError, match="Parquet and CSV"):
        pl.read_table("parts", pl.Schema.load("schema.json"))
