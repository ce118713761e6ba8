"""What happens to somebody who meets the command line for the first time."""

import errno
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import report
from privledger.cli import run as run_module
from privledger.cli.app import main
from tests.worlds import refused

PROGRAM = "from privledger.cli import main; main()"
NOWHERE = "/proc/privledger-receipt.json"  # a folder in which even root makes no file


def test_a_receipt_of_a_run_leads_to_proofs(call, run_file, tmp_path):
    earlier, later = tmp_path / "earlier.json", tmp_path / "later.json"
    assert call("run", run_file, "--receipt", earlier).exit_code == 0
    ledger = tmp_path / "run.ledger"
    assert call("window", ledger, "2026-Q4").exit_code == 0
    later.write_text(call("receipt", ledger, "--format", "json").stdout)
    assert call("prove", ledger, "--since", earlier, "-o", tmp_path / "proof.json", "--verifier",
                tmp_path / "check.py").exit_code == 0
    checked = subprocess.run([sys.executable, "-I", tmp_path / "check.py", tmp_path / "proof.json",
                              earlier, later], capture_output=True, text=True)
    assert checked.returncode == 0 and "proved: the ledger of" in checked.stdout
    said = call("verify", ledger, "--receipt", earlier).stdout
    assert f"the receipt of {json.loads(earlier.read_text())['time']}" in said


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_proof_that_nobody_could_check_is_not_written(call, tmp_path, option):
    with pl.Ledger.create(tmp_path / "l.ledger", budget=pl.Budget(1.0, 1e-6)) as ledger:
        old = ledger.receipt.as_dict()
    (tmp_path / "old.json").write_text(json.dumps(old))
    asked = ["--entry", "0"] if option == "--until" else []
    done = call("prove", tmp_path / "l.ledger", option, tmp_path / "old.json", *asked, "-o",
                tmp_path / "p.json")
    assert done.exit_code == 2 and "privledger receipt" in done.stderr
    assert not (tmp_path / "p.json").exists()


def test_a_receipt_that_cannot_be_written_does_not_take_the_model(call, run_file, tmp_path):
    done = call("run", run_file, "--receipt", NOWHERE, "--model", tmp_path / "m.model")
    if not os.access("/proc", os.W_OK):  # found out before
        assert done.exit_code == 2 and not (tmp_path / "run.ledger").exists()
        return
    assert done.exit_code == 4 and "the receipt could not be written" in done.stderr
    assert "privledger receipt" in done.stderr and (tmp_path / "m.model").exists()


@pytest.mark.parametrize("option", ["--receipt", "--model"])
def test_a_place_that_may_not_be_written_is_found_before(call, run_file, tmp_path, option,
                                                         monkeypatch):
    monkeypatch.setattr(run_module.os, "access", lambda place, mode: mode != os.W_OK)
    done = call("run", run_file, option, tmp_path / "kept")
    assert done.exit_code == 2 and "may be written" in done.stderr
    assert not (tmp_path / "run.ledger").exists()


def test_a_page_that_cannot_be_written_is_no_internal_error(call, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.EROFS, "its text is not shown")

    monkeypatch.setattr(report, "write", full)
    pl.Ledger.create(tmp_path / "l.ledger", budget=pl.Budget(1.0, 1e-6)).close()
    done = call("report", tmp_path / "l.ledger", "-o", tmp_path / "page.html")
    assert done.exit_code == 4
    assert "cannot be used: OSError (Read-only file system)" in done.stderr
    assert "internal" not in done.stderr and "its text" not in done.stderr


@pytest.mark.parametrize("name", ["run.toml", "schema.json"])
def test_a_byte_order_mark_is_no_part_of_a_file(call, run_file, name):
    place = run_file.parent / name if name != "run.toml" else run_file
    assert place.exists()
    place.write_bytes(b"\xef\xbb\xbf" + place.read_bytes())
    done = call("plan", run_file)
    assert done.exit_code == 0, done.output


def test_questions_without_anybody_to_answer_are_no_interruption(tmp_path):
    done = CliRunner().invoke(main, ["init", str(tmp_path / "s.toml")], input="")
    assert done.exit_code == 2 and "the input ended" in done.stderr
    assert "reservation" not in done.stderr and not (tmp_path / "s.toml").exists()


def test_a_command_of_a_group_is_named_whole(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    done = call("federate", "keygen", "north", "-o", tmp_path)
    assert done.exit_code == 2 and done.stderr.startswith("privledger federate keygen: ")
    assert "pip install 'privledger[federated]'" in done.stderr


def test_tabs_are_named(call, run_file):
    table_file = run_file.parent / "table.csv"
    table_file.write_text(table_file.read_text().replace(",", "\t"))
    done = call("run", run_file)
    assert done.exit_code == 2 and "not tabs" in done.stderr


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_ends_nothing(tmp_path, closed):
    pl.Ledger.create(tmp_path / "l.ledger", budget=pl.Budget(1.0, 1e-6)).close()
    mark = ">&-" if closed == "stdout" else "2>&-"
    done = subprocess.run(["sh", "-c", f'"$0" -c "{PROGRAM}" verify "$1" {mark}', sys.executable,
                           str(tmp_path / "l.ledger")], capture_output=True, text=True)
    assert done.returncode == 0 and "internal" not in done.stderr


@pytest.mark.parametrize("how", [["--lockstep", "--seconds", "0.2"], ["--fits", "20"]])
@pytest.mark.parametrize(("learner", "words"), [
    ("joint-tree-classifier", "for classification"), ("dpsis", "k must be at most")])
def test_what_does_not_fit_the_schema_disproves_nothing(call, tmp_path, learner, words, how):
    (tmp_path / "s.json").write_text(json.dumps({"name": "t", "target": "y", "columns": [
        {"name": name, "kind": "numeric", "lower": 0, "upper": 1} for name in ("x", "y")]}))
    done = call("audit", learner, "--schema", tmp_path / "s.json", "--epsilon", 1, *how)
    assert done.exit_code == 2, done.output
    assert "DISPROVED" not in done.output and words in done.stderr


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "privledger", "--version"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and pl.__version__ in done.stdout


def test_an_engine_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused(ImportError, lambda: pl.engines.Dask(None), match=r"pip install 'privledger\[dask\]'")


def test_a_warning_is_one_line_without_a_line_of_code(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"name": "t", "target": "y", "columns": [
        {"name": name, "kind": "numeric", "lower": 0, "upper": 1} for name in ("x", "y")]}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "audit", "joint-tree-regressor", "--schema",
         str(tmp_path / "s.json"), "--epsilon", "1", "--fits", "20"],
        capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "below" in line]
    assert lines and all(line.startswith("warning: ") for line in lines)
    assert ".py" not in done.stderr and "Warning" not in done.stderr


def test_a_misspelt_learner_has_its_nearest_name():
    with pytest.raises(pl.errors.LearnerError, match="did you mean sgbdt-regressor"):
        pl.load_learner("sgbdt-regresor")
    with pytest.raises(pl.errors.LearnerError, match="is installed; installed: "):
        pl.load_learner("nothing of the kind")
