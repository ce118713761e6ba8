"""How commands end when they do not end well."""

import json
import os
import signal
import subprocess
import sys
import time

import privledger as pl
from privledger.cli import run
from tests.doctored import doctor


def test_usage_errors_are_json_too(call):
    for arguments in (("show", "nosuch.ledger"), ("plan", "nosuch.toml"), ("record", "x", "-1")):
        found = call(*arguments, "--format", "json")
        value = json.loads(found.stdout)
        assert found.exit_code == value["exit"] == 2
        assert value["message"]


def test_an_interrupted_run_says_what_stays_spent(call, run_file, monkeypatch, tmp_path):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "train", interrupt)
    found = call("run", run_file)
    assert found.exit_code == 130
    assert "stays spent" in found.stderr
    found = call("run", run_file, "--format", "json")
    assert json.loads(found.stdout)["exit"] == 130


def test_a_run_does_not_continue_a_ledger_that_does_not_verify(call, run_file, tmp_path):
    assert call("run", run_file).exit_code == 0
    ledger = tmp_path / "run.ledger"
    doctor(ledger, "UPDATE entries SET body = replace(body, '\"releases\":3', "
                   "'\"releases\":2') WHERE kind = 'settled'")
    before = ledger.read_bytes()
    found = call("run", run_file)
    assert found.exit_code == 3
    assert ledger.read_bytes() == before


def test_a_model_that_cannot_be_written_is_no_success(call, run_file, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "save", lambda model, path: False)
    assert call("run", run_file, "--model", tmp_path / "m.pkl").exit_code == 4


def test_repeated_runs_are_about_the_same_records(call, as_json, run_file, tmp_path):
    text = run_file.read_text().replace('name = "people"\n', "").replace(
        "epsilon = 1.0\ndelta = 1e-6\n[ledger]", "epsilon = 2.0\ndelta = 1e-6\n[ledger]").replace(
        "rounds = 3", "rounds = 3\nepsilon = 0.5")
    run_file.write_text(text)
    for _ in range(2):
        assert call("run", run_file).exit_code == 0
    assert len(as_json("record", tmp_path / "run.ledger", "3")["lines"]) == 2


KILLED = """
import sys, numpy as np, privledger as pl
from privledger_learners import SGBDTRegressor
schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),
                         pl.Column("y", "numeric", "target", 0, 1)))
ledger = pl.Ledger.create(sys.argv[1], budget=pl.Budget(1.0, 1e-6))
X = {"x": np.linspace(0, 1, 5000)}
data = ledger.protect(X, X["x"], schema)
ledger.on_release = lambda done: print(done, flush=True)
SGBDTRegressor(epsilon=0.9, delta=1e-6, schema=schema, n_trees=100000).fit(data)
"""


def test_kill_in_the_middle_of_a_fit_keeps_the_charge_and_show_says_so(call, tmp_path):
    path = tmp_path / "killed.ledger"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(5):
        child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait(120)
    time.sleep(0.05)
    shown = call("show", path)
    assert "crashed" in shown.stdout
    assert "stays spent" in shown.stdout
    with pl.Ledger.open(path) as ledger:
        assert 0.899 < ledger.spent <= 0.9
        assert [grant.status for grant in ledger.state.grants.values()] == ["crashed"]
        assert ledger.verify() == []
