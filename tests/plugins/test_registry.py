"""Which learner a name means: exactly one, or none; and whose it is."""

import json
from importlib.metadata import EntryPoint

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.plugins import find_learner, is_shipped, learner_names
from tests.worlds import refused

CODE = "raise SystemExit('it was imported')\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution with one learner on the path."""
    def add(dist, name, value="evil:Learner", lines=None):
        folder = tmp_path / dist
        info = folder / f"{dist}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        text = lines or f"{name} = {value}\n"
        (info / "entry_points.txt").write_text(f"[privledger.learners]\n{text}")
        (folder / "evil.py").write_text(CODE)
        monkeypatch.syspath_prepend(str(folder))

    return add


def test_a_name_that_two_distributions_use_is_refused(install):
    install("evil-one", "sgbdt-regressor")
    for use in (find_learner, pl.load_learner):
        with pytest.raises(pl.errors.LearnerError,
                           match=r"more than once.*evil-one 1\.0.*privledger"):
            use("sgbdt-regressor")
    assert learner_names().count("sgbdt-regressor") == 1


def test_two_strangers_are_refused_both(install):
    install("first", "same")
    install("second", "same")
    with pytest.raises(pl.errors.LearnerError, match=r"first 1\.0.*second 1\.0"):
        pl.load_learner("same")


def test_one_distribution_that_says_a_name_twice_is_refused(install):
    install("double", "same", lines="same = evil:One\nsame = evil:Two\n")
    refused(pl.errors.LearnerError, lambda: find_learner("same"), match="evil:One.*evil:Two")


def test_a_distribution_that_lies_on_the_path_twice_is_one(install, tmp_path, monkeypatch):
    install("only", "once", value="json:JSONDecoder")
    monkeypatch.syspath_prepend(str(tmp_path / "only"))
    assert find_learner("once").value == "json:JSONDecoder"


def test_the_list_of_learners_marks_them(install):
    install("evil-one", "sgbdt-regressor")
    found = json.loads(CliRunner().invoke(main, ["learners", "--format", "json"]).stdout)
    marked = {item["name"]: item.get("error", "") for item in found["learners"]}
    assert "evil-one 1.0" in marked["sgbdt-regressor"]
    assert marked["sgbdt-classifier"] == ""


def test_what_is_shipped():
    for name in learner_names():
        if find_learner(name).module.startswith("privledger_learners"):
            assert is_shipped(find_learner(name))
    assert not is_shipped(EntryPoint("x", "privledger_learners.sgbdt:SGBDTRegressor", "g"))


def test_a_stranger_is_not_shipped_whatever_it_points_at(install):
    install("stranger", "mine", value="privledger_learners.sgbdt:SGBDTRegressor")
    assert not is_shipped(find_learner("mine"))
