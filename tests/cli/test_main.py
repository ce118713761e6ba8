"""The group: help without heavy imports, documentation of every command, the demo."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.cli.app import COMMANDS
from privledger.cli.demo import demo_tables
from privledger.reports import clean, plain
from tests.all_cases import all_cases
from tests.worlds import schema_of

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@all_cases("command", sorted(main.commands))
def test_command_is_documented(command):
    text = PAGE.read_text(encoding="utf-8")
    assert f"\n### `privledger {command}`\n" in text
    section = text.split(f"\n### `privledger {command}`\n")[1].split("\n### ")[0]
    found = main.commands[command]
    for parameter in [one for part in getattr(found, "commands", {"": found}).values()
                      for one in part.params]:
        if parameter.param_type_name == "option":
            assert f"`{parameter.opts[0]}" in section


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help_and_a_format(call, command):
    page = call(command, "--help")
    assert page.exit_code == 0
    below = getattr(main.commands[command], "commands", None)
    for each in [page] if below is None else [call(command, name, "--help") for name in below]:
        assert each.exit_code == 0
        assert "--format" in each.stdout
    assert call(command, "--no-such-option").exit_code == 2


def test_help_starts_without_heavy_imports():
    code = ("import sys, privledger.cli; "
            "print([m for m in ('sklearn', 'pandas', 'rich', 'networkx') if m in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_no_color_is_respected(ledger_file, monkeypatch):
    from click.testing import CliRunner

    runner = CliRunner(env={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert "\x1b[32m" not in runner.invoke(main, ["show", str(ledger_file)]).stdout
    assert "\x1b[1;32m" not in runner.invoke(main, ["show", str(ledger_file)]).stdout


def test_texts_and_numbers_are_made_safe():
    assert clean("a\x9b31mb\u2066c\x00") == "a?31mb?c?"
    assert len(clean("x" * 9999)) == 400
    assert plain({"a": float("inf"), "b": (float("nan"), None, True)}) == {
        "a": "infinity", "b": ["nan", None, True]}


def test_the_demo_tells_the_whole_story(call, as_json, tmp_path):
    page = call("demo", "--ledger", tmp_path / "demo.ledger")
    assert page.exit_code == 0, page.output
    for words in ("before any data is read", "majority class", "confidential",
                  "refused, nothing was read", "0 times more for this one",
                  "Every entry was re-read and re-priced", "privledger show"):
        assert words in page.stdout
    assert len(page.stdout.splitlines()) < 80
    assert call("verify", tmp_path / "demo.ledger").exit_code == 0


def test_the_demos_public_part_is_every_fourth_row_and_not_private():
    X, y, public_X, public_y = demo_tables()
    private, public = ({row.tobytes() for row in np.column_stack([X, y == "benign"])}
                       for X, y in ((X, y), (public_X, public_y)))
    assert not private & public and len(private) + len(public) == 569
    assert len(public_X) == len(public_y) == len(public) == 143


def test_the_demo_as_json(as_json, tmp_path):
    found = as_json("demo", "--ledger", tmp_path / "demo.ledger")
    scores = found["evaluation"]
    assert scores["model"]["accuracy"] > scores["baseline"]["accuracy"]
    assert found["refusal"]["opened_before"] == found["refusal"]["opened_after"] > 0
    assert found["ledger"]["verdict"] == "within budget"
    assert found["spend"]["mean_share"] <= 1


def test_help_and_completion_load_no_command(tmp_path):
    """They are typed all the time: the list of commands must not import what they need."""
    code = ("import sys; sys.argv = ['privledger', *{words!r}]\n"
            "from privledger.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "heavy = {{'numpy', 'scipy', 'rich', 'privledger.guard', 'privledger.reports'}}\n"
            "print('LOADED', sorted(heavy & set(sys.modules)), file=sys.stderr)")
    for words, variables in ((["--help"], {}), ([], {
            "_PRIVLEDGER_COMPLETE": "bash_complete", "COMP_WORDS": "privledger sh",
            "COMP_CWORD": "1"})):
        done = subprocess.run([sys.executable, "-c", code.format(words=words)], text=True,
                              capture_output=True, env={**os.environ, **variables}, check=False,
                              timeout=120)
        assert "LOADED []" in done.stderr, done.stderr
        assert "show" in done.stdout


def completed(*words):
    """What a shell would offer for the last of the words."""
    with CliRunner().isolation(env={
            "_PRIVLEDGER_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words)),
            "COMP_WORDS": " ".join(["privledger", *map(str, words)])}) as (out, *_):
        main(prog_name="privledger", standalone_mode=False)
        return [line.partition(",")[2] for line in out.getvalue().decode().splitlines() if line]


def test_learners_grants_and_tables_are_completed(make_ledger, tmp_path):
    place = make_ledger(tmp_path / "book.ledger")
    with pl.Ledger.open(place, read_only=True) as ledger:
        (grant,) = ledger.state.grants
    assert "sgbdt-classifier" in completed("check", "--learner", "sgbdt")
    assert "sgbdt-regressor" in completed("audit", "sgbdt")
    for words in (("explain", place, "g"), ("log", place, "--grant", "g"),
                  ("correct", place, "g"), ("whatif", place, "--again", "g")):
        assert completed(*words) == [grant]
    assert completed("record", place, "--data", "p") == ["people"]
    assert completed("whatif", place, "--table", "p") == ["people"]
    assert completed("explain", place, "zzz") == []
    assert completed("explain", tmp_path / "none.ledger", "g") == []


def test_what_moves_a_cursor_is_not_completed(tmp_path):
    with pl.Ledger.create(tmp_path / "l", budget=pl.Budget(1.0, 1e-6)) as ledger:
        for name in ("plain", "p\x1b[2J"):
            ledger.protect({"x": [0.5]}, schema_of("t", {"x": (0, 1)}), name=name)
    assert completed("record", tmp_path / "l", "--data", "p") == ["plain"]


def test_every_command_has_a_line_of_help(call):
    page = call("--help").stdout
    for name, (_, short) in COMMANDS.items():
        assert f"\n  {name} " in page and short.split()[0] in page


def test_a_module_is_called_after_its_command():
    together = {"show": "log", "record": "top", "explain": "risk", "diff": "overlap",
                "verify": "receipt prove witness", "make": "init new learners",
                "keep": "correct window people-key backup restore"}
    assert {name: place.partition(":")[0] for name, (place, _) in COMMANDS.items()} == {
        name: name for name in COMMANDS} | {
        name: module for module, names in together.items() for name in names.split()}
