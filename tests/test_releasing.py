"""A release has one version, a changelog that says it, and fragments that a tool can gather."""

import re
import subprocess
import sys
import tomllib
from importlib import util

import pytest
import yaml

import privledger
from tests import releasing
from tests.releasing import CHANGELOG, CITATION, ROOT
from tests.worlds import refused

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TOWNCRIER = PROJECT["tool"]["towncrier"]
KINDS = {one["directory"] for one in TOWNCRIER["type"]}


def test_the_version_is_said_once_and_cited():
    assert "version" not in PROJECT["project"] and PROJECT["project"]["dynamic"] == ["version"]
    assert ROOT / PROJECT["tool"]["hatch"]["version"]["path"] == releasing.HOME
    assert releasing.found(releasing.VERSION, releasing.HOME) == (privledger.__version__,)
    cited = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    assert cited["version"] == privledger.__version__
    first = releasing.found(releasing.SECTION, CHANGELOG)
    assert first == (privledger.__version__, str(cited["date-released"]))


def test_the_changelog_is_grouped_and_short():
    text = CHANGELOG.read_text(encoding="utf-8")
    assert TOWNCRIER["start_string"] in text and len(text.splitlines()) <= 250
    heads = {line[4:].partition(":")[0] for line in text.splitlines() if line.startswith("### ")}
    assert heads <= {one["name"] for one in TOWNCRIER["type"]}
    versions = [tuple(map(int, one.split("."))) for one, _ in releasing.SECTION.findall(text)]
    assert versions == sorted(versions, reverse=True) and len(set(versions)) == len(versions)


def test_every_fragment_has_a_kind_and_says_something():
    for path in releasing.fragments():
        number, *_, kind, ending = re.split(r"[.]", path.name)
        assert re.match(r"\d+", number) and kind in KINDS and ending == "md", path.name
        assert path.read_text(encoding="utf-8").strip(), path.name


@pytest.mark.slow
def test_fragments_become_lines_of_the_changelog(tmp_path):
    if util.find_spec("towncrier") is None:  # of the extra `dev`; a skip would fail CI
        return
    place = tmp_path / "1.one.fix.md"
    place.write_text("It works\nnow ([page](../docs/cli.md)).\n", encoding="utf-8")
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace(
        'directory = "changelog.d"', f'directory = "{tmp_path}"').replace(
        '".ci/changelog.jinja"', f'"{ROOT / ".ci/changelog.jinja"}"')
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "towncrier", "build", "--draft", "--version",
                           "9.9.9", "--date", "2027-01-01", "--config",
                           str(tmp_path / "pyproject.toml"), "--dir", str(tmp_path)],
                          capture_output=True, text=True, check=True)
    section = done.stdout[done.stdout.index("## 9.9.9"):]
    assert " ".join(section.split()) == (
        "## 9.9.9 (2027-01-01) ### Fixed - It works now ([page](cli.md)).")


def test_a_release_that_is_not_settled_is_not_built(monkeypatch, tmp_path):
    monkeypatch.setattr(releasing, "FRAGMENTS", tmp_path)
    assert releasing.faults() == []
    (tmp_path / "40.fix.md").write_text("One more.\n", encoding="utf-8")
    (wrong,) = releasing.faults()
    assert "40.fix.md" in wrong
    other = tmp_path / "CITATION.cff"
    other.write_text("version: 0.0.1\ndate-released: 2020-01-01\n", encoding="utf-8")
    monkeypatch.setattr(releasing, "CITATION", other)
    assert any("CITATION.cff is of 0.0.1" in one for one in releasing.faults())
    refused(SystemExit, lambda: releasing.name("next"), match="give a version such as")


def test_what_a_release_tests_and_installs_is_there():
    assert all((ROOT / path).exists() for path in releasing.TESTS)
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    flow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    for command in ("python -m tests.releasing dist", "v0.3.0", releasing.VERIFIER, releasing.SUMS):
        assert command in page
    assert "python -m tests.releasing dist" in flow
    needed = PROJECT["project"]["optional-dependencies"]["dev"]
    assert {re.match(r"[a-z]+", one)[0] for one in needed} >= {"towncrier", "build"}
