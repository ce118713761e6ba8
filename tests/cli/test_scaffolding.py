"""new learner: what it writes is installed by name, passes its own tests, and lints."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.cli.make import names_of, written_files
from privledger.plugins import checked_plugin
from privledger.plugins.model_file import ModelFacts, kept, revived

ROOT = Path(__file__).resolve().parents[2]


def test_what_it_writes_works(call, tmp_path, monkeypatch):
    place = tmp_path / "somewhere"
    done = call("new", "learner", "noisy-counts", "--directory", place)
    assert done.exit_code == 0 and "noisy_counts/learner.py" in done.stdout
    project = tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((name, value),) = project["entry-points"]["privledger.learners"].items()
    monkeypatch.syspath_prepend(str(place))
    found = EntryPoint(name, value, "privledger.learners").load()
    assert checked_plugin(found, name).info.name == name == "noisy-counts"
    _is_kept_as_it_was(found)
    search = os.pathsep.join([str(place), *(path for path in sys.path if path)])
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(place)], cwd=place,
        env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True, timeout=300,
        check=False)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "passed" in tests.stdout


def _is_kept_as_it_was(kind):
    """A model of it that is written to a file and read back predicts what it predicted."""
    schema = pl.Schema.from_dict({"name": "visits", "target": "ill", "columns": [
        {"name": "age", "kind": "numeric", "lower": 0, "upper": 100},
        {"name": "ill", "kind": "categorical", "categories": ["yes", "no"]}]})
    X = {"age": [10.0, 30.0, 60.0, 90.0] * 50}
    learner = kind(epsilon=1.0, schema=schema).fit(X, ["no", "no", "yes", "yes"] * 50)
    again = revived(kept(learner, ModelFacts("noisy-counts", schema, "add_remove")), kind)
    np.testing.assert_array_equal(again.predict_proba(X), learner.predict_proba(X))


def test_it_overwrites_nothing(call, as_json, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    done = call("new", "learner", "counts", "--directory", tmp_path / "mine")
    assert done.exit_code == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    made = as_json("new", "learner", "counts", "--directory", tmp_path / "new")
    assert made["files"] == sorted(written_files("counts"))


@pytest.mark.parametrize("name", ["", "Counts", "my_learner", "-a", "a-", "a--b", "1st", "a/b",
                                  "..", "class", "json", "numpy", "privledger", "tests", "é",
                                  "a\n"])
def test_names_that_cannot_be_packages_are_refused(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert call("new", "learner", "--", name).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_every_file_is_filled_in():
    for path, content in written_files("noisy-counts").items():
        assert "$" not in path
        assert "$" not in content.replace("$ p", "")
        if path.endswith(".py"):
            ast.parse(content)
            assert max(map(len, content.splitlines())) <= 100
    assert names_of("a1-b2")["class"] == "A1B2"
