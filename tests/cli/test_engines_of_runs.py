"""`run --engine`: the same run on chunks, from the command line and from run files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from privledger.cli import main
from privledger.engines.engine_choice import EngineChoice
from privledger.errors import InvalidPlan, InvalidValue
from privledger.runs import RunFile
from tests.worlds import refused

SCHEMA = {"name": "t", "target": "y", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
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


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.random(40), "y": rng.random(40)})
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "parts").mkdir()
    for part in range(2):
        pq.write_table(table.slice(20 * part, 20), tmp_path / "parts" / f"{part}.parquet")
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
