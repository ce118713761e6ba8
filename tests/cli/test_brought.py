"""Commands that other packages bring: found by name, loaded when called, never in our way."""

import importlib.metadata
import sys
import types
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

import privledger.plugins  # noqa: F401 - it keeps its own way to entry points
from privledger.cli import app, main


@pytest.fixture
def bring(monkeypatch):
    module = types.ModuleType("stranger")
    module.hello = click.Command("hello", callback=lambda: click.echo("hello"))
    module.number = 7
    monkeypatch.setitem(sys.modules, "stranger", module)

    def make(**places):
        points = [EntryPoint(name.rstrip("2").replace("_", "-"), place, app.GROUP)
                  for name, place in places.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)

    return make


def call(*words):
    return CliRunner().invoke(main, words)


def test_a_command_of_a_stranger_is_listed_and_runs(bring):
    bring(hello_world="stranger:hello")
    assert "hello-world" in call("--help").stdout and "Of stranger." in call("--help").stdout
    assert call("hello-world").stdout == "hello\n"


@pytest.mark.parametrize("place", ["nowhere:x", "stranger:missing", "stranger:number"])
def test_a_broken_one_breaks_nothing_else(bring, place):
    bring(broken=place)
    assert call("--help").exit_code == 0 and "broken" in call("--help").stdout
    assert call("learners").exit_code == 0
    done = call("broken")
    assert done.exit_code == 1 and place.split(":")[0] in done.stderr


def test_ours_are_never_theirs(bring):
    bring(verify="stranger:hello", show="stranger:hello")
    assert "hello" not in call("verify", "--help").stdout


@pytest.mark.parametrize("name", ["Verify", "-x", "a b", "", "ä", "two--dashes", "a/b"])
def test_odd_names_are_not_seen(monkeypatch, name):
    monkeypatch.setattr(importlib.metadata, "entry_points",
                        lambda group: [EntryPoint(name, "stranger:hello", group)])
    assert app.brought(frozenset()) == {}


def test_one_name_of_two_packages_is_nobodys(bring):
    bring(hello="stranger:hello", hello2="stranger:number")
    done = call("hello")
    assert done.exit_code == 1 and "more than one package" in done.stderr


def test_what_does_not_exist_is_a_usage_error(bring):
    bring()
    assert call("hello").exit_code == 2
