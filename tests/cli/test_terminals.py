"""What a terminal shows: no figure is lost on a narrow one, colours are asked for, bars vanish."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys

import pytest
from click.testing import CliRunner

from privledger.cli import main, terminal
from privledger.plugins import learner_names
from privledger.reading import SHOWN, stepwise
from tests.cli import surfaces

WORLDS = ("honest", "of_people", "capped")
ESCAPE, COLOUR = "\x1b[", re.compile(r"\x1b\[[\d;]*3[0-7]m")
_FIGURE = re.compile(r"(?<![\w.-])\d[\d.,]*(?:e[+-]\d+)?(?![\w.-])")
_TIME = re.compile(r"\d\d:\d\d:\d\d")  # a receipt's own: the next one is of another second


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worlds")
    surfaces.made(folder)
    return folder


def said(words, width):
    return CliRunner().invoke(main, [str(one) for one in words], env={"COLUMNS": str(width)}).stdout


def figures(text):
    return set(_FIGURE.findall(_TIME.sub("", text)))


def texts_of(world, folder):
    """Every question that prints a text, and writes no file."""
    for words in surfaces.asked(world, folder):
        if "--format" not in words and "-o" not in words:
            yield words


@pytest.mark.parametrize("world", WORLDS)
def test_a_narrow_terminal_loses_no_figure_and_breaks_no_table(worlds, world):
    with contextlib.chdir(worlds):
        for words in texts_of(world, worlds):
            # From 100 columns on, `show` has room for two more columns, in brief.
            ample = said(words, 99 if words[0] == "show" else 200)
            sentences = set(ample.splitlines())
            for width in (40, 60):
                narrow = said(words, width)
                lost = figures(ample) - figures(narrow)
                assert not lost, (words, width, lost)
                wide = [line for line in narrow.splitlines() if len(line.rstrip()) > width]
                assert set(wide) <= sentences, (words, width, wide)


@pytest.mark.parametrize("learner", ["dpboost-classifier", "private-ensemble-classifier"])
def test_a_plan_fits_a_screen_and_all_unfolds_it(tmp_path, learner):
    assert learner in learner_names()
    columns = [{"name": f"x{place}", "kind": "numeric", "lower": 0, "upper": 1}
               for place in range(6)]
    target = {"name": "y", "kind": "categorical", "role": "target", "categories": ["no", "yes"]}
    (tmp_path / "s.json").write_text(json.dumps({
        "name": "t", "expected_rows": 5000, "expected_rows_provenance": "public",
        "columns": [*columns, target]}))
    run = tmp_path / "run.toml"
    run.write_text(f'[run]\nlearner = "{learner}"\n[params]\nepsilon = 1.0\ndelta = 1e-6\n'
                   '[data]\nschema = "s.json"\ntable = "t.csv"\n'
                   '[budget]\nepsilon = 1.0\ndelta = 1e-6\n[ledger]\npath = "no.ledger"\n')
    folded, whole = (said(("plan", run, *more), 100) for more in ((), ("--all",)))
    assert len(folded.splitlines()) <= 40
    assert "fits" in folded.splitlines()[0]
    told = re.search(r"--all prints all (\d+) lines", folded)
    assert ("OneOf" in folded) == ("OneOf" in whole)
    if told is not None:
        assert sum("─ " in line for line in whole.splitlines()) == int(told[1])
        assert "--all" not in whole
    assert set(_FIGURE.findall(said(("plan", run), 200))) <= set(_FIGURE.findall(
        said(("plan", run), 40)))


def test_colours_follow_no_color_and_force_color(worlds):
    def coloured(**names):
        with contextlib.chdir(worlds):
            return CliRunner().invoke(main, ["show", "capped.ledger"], env=names).stdout

    nothing = {"NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm-256color"}
    assert ESCAPE not in coloured(**nothing)
    assert COLOUR.search(coloured(**nothing | {"FORCE_COLOR": "1"}))
    assert not COLOUR.search(coloured(**nothing | {"FORCE_COLOR": "1", "NO_COLOR": "1"}))
    with contextlib.chdir(worlds):
        text = CliRunner().invoke(main, ["show", "capped.ledger", "--format", "json"],
                                  env={"FORCE_COLOR": "1"}).stdout
    assert json.loads(text)


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown_by(monkeypatch, *words, screen=None, **names):
    monkeypatch.setattr(terminal, "DELAY", 0.0)
    for name, value in {"CI": "", "TERM": "xterm", "COLUMNS": "100", **names}.items():
        monkeypatch.setenv(name, value)
    screen = Screen() if screen is None else screen
    monkeypatch.setattr(sys, "stderr", screen)
    with contextlib.suppress(SystemExit):
        main.main([str(one) for one in words], standalone_mode=False)
    return screen.getvalue()


@pytest.mark.parametrize(("words", "title"), [
    (("verify", "honest.ledger"), "entries verified"),
    (("verify", "honest.ledger", "--format", "json"), "entries verified"),
    (("report", "honest.ledger", "--force", "-o", "p.html"), "entries verified"),
    (("export", "honest.ledger", "--force", "-o", "p.jsonl"), "entries read"),
    (("check", "honest.ledger", "--policy", "policy.toml"), "entries verified")])
def test_long_work_shows_how_far_it_is_on_a_terminal_alone(worlds, monkeypatch, words, title,
                                                           capsys):
    monkeypatch.chdir(worlds)
    assert title in shown_by(monkeypatch, *words)
    told = capsys.readouterr().out
    for quiet in ({"screen": io.StringIO()}, {"CI": "true"}):
        assert title not in shown_by(monkeypatch, *words, **quiet)
        assert capsys.readouterr().out == told
    assert title not in shown_by(monkeypatch, *words, "--quiet")
    assert SHOWN.get() is None


def test_a_fit_an_answer_and_an_audit_show_their_steps(run_file, monkeypatch, capsys):
    monkeypatch.chdir(run_file.parent)
    assert "releases" in shown_by(monkeypatch, "run", "run.toml")
    assert "releases" in shown_by(
        monkeypatch, "ask", "table.csv", "SELECT COUNT(*) FROM t", "--schema", "schema.json",
        "--epsilon", "0.5")
    assert "fits, 8 at a time" in shown_by(
        monkeypatch, "audit", "joint-tree-classifier", "--schema", "schema.json", "--epsilon",
        "1", "--fits", "20")


def test_steps_are_the_items_themselves_and_bars_wait():
    assert list(stepwise("nothing", [1, 2])) == [1, 2]
    bars = terminal.StepBars()
    assert list(bars("quick", iter("abc"))) == ["a", "b", "c"]
    assert bars._bars is None  # gone before anybody could read it
