"""Workflows of continuous integration say what this repository has: versions, extras, commands."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
         for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}


def steps(flow):
    return [step for job in flow["jobs"].values() for step in job["steps"]]


def test_every_kind_of_check_has_a_workflow():
    assert set(FLOWS) == {"lint", "tests", "docs", "wheel", "release"}


@pytest.mark.parametrize("name", FLOWS)
def test_a_workflow_may_read_and_nothing_else_and_comes_to_an_end(name):
    flow = FLOWS[name]
    assert flow["name"] == name and flow["permissions"] == {"contents": "read"}
    # YAML reads the key `on` as true.
    if name == "release":
        assert flow[True] == {"push": {"tags": ["v*"]}}
        assert "permissions" not in flow["jobs"]["build"]  # what runs our code may only read
        assert flow["jobs"]["publish"]["permissions"] == {"contents": "write"}
    else:
        assert {"push", "pull_request"} == set(flow[True])
        assert all("permissions" not in job for job in flow["jobs"].values())
    assert all(0 < job["timeout-minutes"] <= 60 for job in flow["jobs"].values())
    assert "secrets." not in str(flow)


@pytest.mark.parametrize("name", FLOWS)
def test_extras_and_paths_of_commands_exist(name):
    lines = [line for step in steps(FLOWS[name]) for line in step.get("run", "").splitlines()]
    extras = re.findall(r"\.\[([a-z,]+)\]", " ".join(lines))
    assert {one for group in extras for one in group.split(",")} <= set(
        PROJECT["optional-dependencies"])
    for line in lines:
        if line.startswith("ruff check "):
            assert all((ROOT / path).is_dir() for path in line.split()[2:])
        if line.startswith("privledger "):
            from privledger.cli import main
            assert line.split()[1] == "--version" or line.split()[1] in main.list_commands(None)
    for step in steps(FLOWS[name]):
        assert (ROOT / step.get("working-directory", ".")).is_dir()


@pytest.mark.parametrize("name", ["tests", "wheel"])
def test_every_supported_python_is_run(name):
    (job,) = FLOWS[name]["jobs"].values()
    said = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(
        r"Python :: 3\.\d+$", text)]
    assert job["strategy"]["matrix"]["python"] == said
