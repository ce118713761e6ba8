"""`privledger reproduce`: nothing runs twice, nothing is skipped in silence, prices are booked."""

import json

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner
from privledger_papers import command, rendering, running
from privledger_papers.forms import Form, Refused
from privledger_papers.published_cells import chosen, only
from privledger_papers.results import VERSION, Result, Results
from privledger_papers.rows import ONE_CLASS, STATUSES, rows
from privledger_papers.scores import of_one_class
from privledger_papers.systems import SYSTEMS, default, printed
from privledger_papers.tasks import load

from privledger.cli import main
from tests.all_cases import all_cases
from tests.worlds import refused

BANKNOTE = only(chosen(["000.T2", "001.T1", "001.T2", "004.T1"]), "data", ["Banknote", "Banknotes"])


def call(*words):
    return CliRunner().invoke(main, ["reproduce", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, folder):
    """One fit of everything on the made-up bank notes, by the command itself."""
    path = tmp_path_factory.mktemp("kept") / "r.jsonl"
    done = call("000.T2", "001.T1", "001.T2", "--sets", "Banknote", "--sets", "Banknotes", "--data",
                folder, "--repetitions", 1, "--results", path, "--workers", 1, "--format", "json")
    assert done.exit_code == 0, done.output
    return path, json.loads(done.stdout)


def test_every_private_fit_has_a_charge_and_a_receipt(kept):
    path, shown = kept
    results = list(Results(path).all())
    private = [one for one in results if one.charge is not None]
    assert private and all(0 < one.charge <= 2.0 and one.receipt for one in private)
    assert {one.learner for one in results if one.charge is None} <= {"Encoded"}
    for row in shown:
        assert row["status"] in STATUSES
        if row["own"] and row["cell"]["epsilon"] is not None:
            assert row["own"]["charge"] is not None


def test_the_default_of_a_task_is_one_fit_for_all_its_systems(kept):
    """Never the better of two: one learner by public facts, whose fits all systems share."""
    path, _ = kept
    defaults = [one for one in Results(path).all() if one.form == "default"]
    assert len({(one.cell, one.repetition) for one in defaults}) == len(defaults)
    assert {one.learner for one in defaults} == {"AutoClassifier", "LabelPrivateClassifier"}
    supervised = [one for one in defaults if one.cell.startswith("001.T1")]
    assert len(supervised) == 1


def test_resume_repeats_nothing_and_without_it_results_are_not_touched(kept, folder, monkeypatch):
    path, _ = kept
    before = path.read_bytes()
    words = ("000.T2", "001.T1", "001.T2", "--sets", "Banknote", "--sets", "Banknotes", "--data",
             folder, "--repetitions", 1, "--results", path, "--workers", 1)
    assert call(*words).exit_code == 2
    ran = []
    plain = running.one
    monkeypatch.setattr(running, "one", lambda job, folder: ran.append(job) or plain(job, folder))
    assert call(*words, "--resume").exit_code == 0
    assert path.read_bytes() == before
    assert all(plain(job, folder) is None for job in ran)  # refused, or without a default


def test_a_missing_set_is_a_status(folder, tmp_path):
    done = call("000.T1", "--data", folder, "--quick", "--results", tmp_path / "r", "--workers", 1,
                "--format", "json")
    assert {row["status"] for row in json.loads(done.stdout)} == {"data missing"}


def test_without_data_what_is_kept_is_shown_and_the_rest_is_not_run(kept):
    path, _ = kept
    done = call("all", "--results", path, "--format", "json")
    statuses = [row["status"] for row in json.loads(done.stdout)]
    assert len(statuses) == 490 and statuses.count("not run") > 300
    page = call("all", "--results", path, "--format", "md").stdout
    assert page.count("\n| 00") >= 490


@all_cases("words", [[], ["009"], ["all", "--systems", "XGBoost"], [
    "000", "--sets", "Zoo"], ["all", "--format", "csv"], ["all", "--repetitions", "0"],
    ["all", "--seed", "-1"], ["all", "--data", "/nowhere"]])
def test_what_nobody_printed_is_a_usage_error(words):
    assert call(*words).exit_code == 2


def test_a_torn_last_line_is_dropped_and_any_other_is_an_error(kept, tmp_path):
    path, _ = kept
    lines = path.read_text().splitlines(keepends=True)
    torn = tmp_path / "torn"
    torn.write_text("".join(lines[:2]) + lines[2][:20])
    assert len(list(Results(torn).all())) == 2
    Results(torn).add(_result(0.5))
    assert len(list(Results(torn).all())) == 3
    broken = tmp_path / "broken"
    broken.write_text(lines[0] + "{}\n" + lines[1])
    refused(ValueError, lambda: Results(broken), match="line 2")
    done = call("all", "--results", broken)
    assert done.exit_code == 1 and "line 2" in done.stderr


def _result(score, cell="c", repetition=0, charge=1.0):
    return Result(cell, "printed", 0, repetition, VERSION, score, charge, 0.0, "r", "L", 0.1)


def test_a_result_is_never_replaced(tmp_path):
    results = Results(tmp_path / "r")
    results.add(_result(0.5))
    results.add(_result(0.9))
    assert [one.score for one in Results(tmp_path / "r").all()] == [0.5]
    refused(ValueError, lambda: results.add(_result(float("nan"), "other")), match="JSON")


@pytest.mark.parametrize("cell", BANKNOTE, ids=lambda cell: cell.key)
def test_a_form_is_something_to_fit_or_says_why_not(folder, cell):
    table = load(cell.paper, cell.data, folder)
    found = printed(cell, table)
    assert isinstance(found, Form | Refused)
    assert isinstance(found, Form) or found.why
    if isinstance(found, Form) and found.private and cell.epsilon is not None:
        plan = found.learner.plan(table.schema)
        import privledger as pl

        relation = "replace_label" if isinstance(plan, pl.nodes.LabelOnly) else "add_remove"
        assert pl.epsilon(plan, 0.0, relation=relation) <= cell.epsilon * (1 + 1e-9)
    usual = default(cell, table)
    assert (usual is None) == (cell.epsilon is None)


def test_systems_are_of_printed_cells():
    known = {(cell.paper, cell.system) for cell in chosen()}
    drawn = {("003", "DPBoost no GDF"), ("002", "two-stage"), ("003", "S-GBDT distributed")}
    assert set(SYSTEMS) - drawn <= known


def row(value, scores, metric="accuracy", kind="none", spread=None, charge=1.0, tmp=None):
    cell = evolve(only(chosen(["000.T2"]), "data", ["Banknote"])[3], value=value, metric=metric,
                  kind=kind, spread=spread)
    results = Results(tmp / f"r{len(list(tmp.iterdir()))}")
    for repetition, score in enumerate(scores):
        results.add(_result(score, cell.key, repetition, charge))
    return rows([cell], results, None, 0)[0]


@pytest.mark.parametrize(("value", "scores", "status"), [
    (0.90, [0.90, 0.91, 0.89], "reproduced"), (0.90, [0.80, 0.81, 0.79], "differs"),
    (0.90, [0.94, 0.94, 0.94], "differs"), (0.90, [0.905], "uncertain"),
    (0.90, [0.5], "differs"), (0.90, [0.94, 0.90, 0.86], "uncertain")])
def test_reproduced_means_close_and_within_the_intervals(tmp_path, value, scores, status):
    assert row(value, scores, tmp=tmp_path).status == status


@pytest.mark.parametrize(("metric", "score", "flat"), [
    ("accuracy", 0.75, True), ("accuracy", 0.25, True), ("accuracy", 0.74, False),
    ("accuracy_percent", 75.0, True), ("test_error_percent", 25.0, True),
    ("test_error_percent", 15.0, False), ("r2", 0.75, None)])
def test_the_share_of_a_class_is_seen(metric, score, flat):
    cell = evolve(only(chosen(["000.T2"]), "data", ["Banknote"])[3], metric=metric)
    assert of_one_class(cell, score, np.array(["a"] * 75 + ["b"] * 25)) is flat


def test_every_fit_must_be_of_one_class_to_be_flagged(tmp_path):
    cell = only(chosen(["000.T2"]), "data", ["Banknote"])[3]
    results = Results(tmp_path / "r")
    for repetition, flat in enumerate([True, True, False]):
        results.add(evolve(_result(0.557, cell.key, repetition), one_class=flat))
        found = rows([cell], results, None, 0)[0]
        assert (ONE_CLASS in found.why) == flat
        assert any(ONE_CLASS in said and f"{int(flat)} cells" in said
                   for said in rendering.summary([found]))


def test_a_fast_fit_is_due_ten_times_and_a_slow_one_comes_last(tmp_path, folder, monkeypatch):
    first, second = only(chosen(["000.T2"]), "data", ["Banknote"])[3:5]
    results = Results(tmp_path / "r")
    results.add(evolve(_result(0.5, first.key), seconds=running.FAST))
    results.add(_result(0.5, second.key))
    slow, fast = rows([first, second], results, None, 0)
    assert (slow.own.due, fast.own.due) == (0, running.ENOUGH - 1)
    ran = []
    monkeypatch.setattr(running, "one", lambda job, folder: ran.append(job))
    running.run([first, second], folder, results, most=3, seed=0, workers=1, said=lambda *_: None)
    own = [job.cell for job in ran if job.form == "printed"]
    assert own == [second, second, first, first]


def test_prices_are_rounded_up(tmp_path):
    own = row(0.9, [0.9], charge=1.0000001, tmp=tmp_path)
    assert rendering.price(own.own) == "1.001"
    assert rendering.price(None) == "-"


def test_help_says_what_it_is():
    assert "five papers" in CliRunner().invoke(command.reproduce, ["--help"]).output
