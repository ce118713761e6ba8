"""`run` isolates what is not shipped; `--model` keeps, `predict` reads back."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.broker import RemoteLearner
from privledger.broker.sandbox import BROKEN
from privledger.cli import main
from tests.bodies import body_of

PLUGINS = Path(__file__).resolve().parent.parent / "broker" / "plugins"
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SCHEMA = {"name": "tiny", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
    {"name": "label", "kind": "categorical", "categories": ["no", "yes"], "role": "target"}]}
RUN = """
[run]
learner = "counting"
[data]
schema = "schema.json"
table = "table.csv"
[budget]
epsilon = 1.0
delta = 1e-6
[labels]
team = "a"
"""


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def able(done):
    if "isolation is not available here" in done.output and BROKEN not in done.output:
        pytest.skip(done.output)
    return done


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A run of a learner that another distribution brought."""
    monkeypatch.delenv("PRIVLEDGER_DATA", raising=False)
    site = tmp_path / "site"
    info = site / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[privledger.learners]\n" "counting = honest:Counting\n")
    shutil.copy(PLUGINS / "honest.py", site)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "honest", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    rows = "".join(f"{n / 40},{'yes' if n % 4 else 'no'}\n" for n in range(40))
    (folder / "table.csv").write_text("x,label\n" + rows)
    (folder / "new.csv").write_text("x\n0.5\n0.25\n")
    (folder / "run.toml").write_text(RUN)
    yield folder
    sys.modules.pop("honest", None)


def grants(folder):
    with pl.Ledger.open(folder / "run.ledger", read_only=True) as ledger:
        return [body_of(grant) for grant in ledger.state.grants.values()]


def test_a_learner_of_somebody_else_is_isolated_by_default(stranger):
    done = able(call("run", stranger / "run.toml", "--model", stranger / "kept.model",
                     "--format", "json"))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["isolation"] == "brokered"
    (body,) = grants(stranger)
    assert (body["isolation"], body["labels"], body["learner"]) == (
        "brokered", {"team": "a"}, "counting")
    said = able(call("predict", stranger / "kept.model", stranger / "new.csv"))
    assert said.exit_code == 0, said.output
    assert said.stdout.splitlines() == ["label", "yes", "yes"]
    assert "honest" not in sys.modules
    with pl.Ledger.open(stranger / "run.ledger", read_only=True) as ledger:
        assert len(ledger.state.grants) == 1  # predicting costs nothing
    here = call("predict", stranger / "kept.model", stranger / "new.csv", "--no-isolate",
                "--format", "json")
    assert json.loads(here.stdout)["predictions"] == ["yes", "yes"]
    assert "honest" in sys.modules


def test_without_isolation_if_the_owner_says_so(stranger):
    done = call("run", stranger / "run.toml", "--no-isolate", "--format", "json")
    assert done.exit_code == 0, done.output
    (body,) = grants(stranger)
    assert (body["isolation"], body["labels"]) == ("guarded", {"team": "a"})


@pytest.mark.parametrize("command", ["run", "plan"])
def test_where_the_kernel_cannot_it_is_refused(stranger, monkeypatch, command):
    def start(*_, **__):
        raise pl.errors.IsolationUnavailable("isolation is not available here: no namespaces")

    monkeypatch.setattr(RemoteLearner, "start", start)
    done = call(command, stranger / "run.toml")
    assert done.exit_code == 2
    assert "--no-isolate" in done.output and "no namespaces" in done.output
    assert not (stranger / "run.ledger").exists()
    assert "honest" not in sys.modules
    assert call(command, stranger / "run.toml", "--no-isolate").exit_code == 0


def test_a_learner_cannot_choose_its_labels_in_this_process_either(stranger):
    with pl.Ledger.create(stranger / "l", budget=pl.Budget(1.0, 1e-6)) as ledger:
        ledger.owner_labels = {"team": "a"}
        data = ledger.protect({"x": [0.5]}, ["no"], pl.Schema.from_dict(SCHEMA))
        for labels in ({"team": "b"}, {"team": "a", "x": "y"}):
            with pytest.raises(pl.NotGranted, match="set by the ledger's owner"):
                ledger.request(pl.Gaussian(50.0), data, labels=labels)
        for labels in (None, {}, {"team": "a"}):
            ledger.request(pl.Gaussian(50.0), data, labels=labels).close()
        assert [body_of(grant)["labels"] for grant in ledger.state.grants.values()] == [
            {"team": "a"}] * 3


@pytest.mark.parametrize("text", ['team = 3', 'team = ["a"]', '"" = "a"', f'team = "{"a" * 201}"'])
def test_odd_labels_are_refused(stranger, text):
    (stranger / "run.toml").write_text(RUN.replace('team = "a"', text))
    done = call("run", stranger / "run.toml")
    assert done.exit_code == 2 and "labels" in done.output


@pytest.mark.parametrize(("more", "options"), [
    ("[isolation]\ncpu = 3", ()), ("[isolation]\ncpu_seconds = -1", ()),
    ("[isolation]\nthreads = 1.5", ()),
    ("[isolation]\nmemory_mb = 64", ()), ("", ("--limit", "threads=-1")),
    ("", ("--limit", "threads")), ("", ("--limit", "speed=5"))])
def test_odd_limits_are_refused(stranger, more, options):
    (stranger / "run.toml").write_text(RUN + more)
    assert call("run", stranger / "run.toml", *options).exit_code == 2
    assert not (stranger / "run.ledger").exists()


@pytest.mark.parametrize("by_option", [True, False])
def test_limits_of_the_run_file_and_of_options_are_those_of_the_process(stranger, by_option):
    if not by_option:
        (stranger / "run.toml").write_text(RUN + "[isolation]\ntotal_seconds = 0.01\n")
    options = ("--limit", "total_seconds=0.01") if by_option else ()
    done = able(call("run", stranger / "run.toml", *options, "--format", "json"))
    assert done.exit_code == 4, done.output
    assert "total_seconds" in done.output
    assert not (stranger / "run.ledger").exists()


@pytest.fixture
def pay(tmp_path, monkeypatch):
    """The example run, fitted and kept in this process."""
    monkeypatch.delenv("PRIVLEDGER_DATA", raising=False)
    for path in EXAMPLES.glob("pay.*"):
        if path.suffix != ".ledger":
            shutil.copy(path, tmp_path)
    done = call("run", tmp_path / "pay.toml", "--model", tmp_path / "pay.model")
    assert done.exit_code == 0, done.output
    return tmp_path


def test_a_kept_model_predicts_what_it_predicted(pay):
    schema = pl.Schema.load(pay / "pay.schema.json")
    X, _ = pl.read_table(pay / "pay.csv", schema)
    expected = pl.load_model(pay / "pay.model").predict(X)
    done = call("predict", pay / "pay.model", pay / "pay.csv")
    assert done.exit_code == 0, done.output
    lines = list(csv.reader(io.StringIO(done.stdout)))
    assert lines[0] == [schema.target.name]
    np.testing.assert_array_equal([float(line[0]) for line in lines[1:]], expected)
    done = call("predict", pay / "pay.model", pay / "pay.csv", "-o", pay / "out.csv",
                "--format", "json", "--schema", pay / "pay.schema.json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == len(expected)
    assert len((pay / "out.csv").read_text().splitlines()) == len(expected) + 1


def test_another_schema_table_or_file_is_refused(pay):
    other = json.loads((pay / "pay.schema.json").read_text())
    other["name"] = "other"
    (pay / "other.json").write_text(json.dumps(other))
    (pay / "short.csv").write_text("x\n1\n")
    (pay / "cut.model").write_bytes((pay / "pay.model").read_bytes()[:-1])
    (pay / "old.pkl").write_bytes(b"\x80\x04N.")
    for arguments in ((pay / "pay.model", pay / "pay.csv", "--schema", pay / "other.json"),
                      (pay / "pay.model", pay / "short.csv"), (pay / "cut.model", pay / "pay.csv"),
                      (pay / "old.pkl", pay / "pay.csv"), (pay / "pay.csv", pay / "pay.csv"),
                      (pay, pay / "pay.csv"),
                      (pay / "pay.model", pay / "pay.csv", "-o", pay / "no" / "out.csv")):
        done = call("predict", *arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert "Traceback" not in done.output
