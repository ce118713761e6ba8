"""The command itself, on a package of three functions."""

import subprocess
from pathlib import Path

import pytest

from tests.bench.mutation import __main__ as command
from tests.bench.mutation.equivalent import EQUIVALENT, Equivalent
from tests.bench.mutation.nearest import Nearest
from tests.bench.mutation.operators import places

SOURCE = """
def larger(a, b):
    return a > b


def nobody_tries(a):
    return a + 1


def hangs_without(count):
    while count > 0:
        count -= 1
"""
TESTS = """
from privledger.sizes import hangs_without, larger


def test_larger():
    assert larger(2, 1) and not larger(1, 1)
    hangs_without(3)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, text in {"privledger/__init__.py": "", "privledger/sizes.py": SOURCE,
                       "tests/test_sizes.py": TESTS,
                       "tests/test_other.py": "def test_other():\n    pass\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # The toy has no plugin to be loaded, the package that is installed here has one.
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:privledger.pytest_plugin --import-mode=importlib\n")
    for arguments in (["init", "-q"], ["add", "-A"],
                      ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    return tmp_path


def kept(tree):
    return {path: path.read_bytes() for path in tree.rglob("*.py")}


def test_survivors_are_listed_and_the_tree_is_left_alone(tree, capsys):
    before = kept(tree)
    found = command.mutants(tree, None, [])
    wanted = {"comparison: Gt -> GtE": True, "arithmetic: Add -> Sub": False}
    chosen = [mutant for mutant in found if mutant.place.what in wanted
              and "while" not in mutant.line]
    assert len(chosen) == 2
    outcomes = command.tried(chosen, 1, 8, 60.0)
    assert {one.mutant.place.what: one.killed for one in outcomes} == wanted
    assert [one.by for one in outcomes if one.killed] == ["tests/test_sizes.py::test_larger"]
    assert "SURVIVED  privledger/sizes.py:7 arithmetic" in capsys.readouterr().out
    assert kept(tree) == before


@pytest.mark.slow
def test_a_mutant_that_never_ends_is_noticed(tree):
    chosen = [mutant for mutant in command.mutants(tree, None, [])
              if mutant.place.what == "arithmetic: Sub= -> Add="]
    [outcome] = command.tried(chosen, 1, 8, 5.0)
    assert outcome.killed and outcome.by == "no answer in 5 CPU s"


def test_changed_lines_only(tree):
    source = tree / "privledger" / "sizes.py"
    source.write_text(SOURCE.replace("a + 1", "a + 2"))
    found = command.mutants(tree, "HEAD", [])
    assert {mutant.place.line for mutant in found} == {7}
    assert {mutant.place.what for mutant in found} == {
        "arithmetic: Add -> Sub", "constant: 2 -> 3", "return: None"}
    assert command.mutants(tree, "HEAD", ["privledger/other"]) == []


def test_equivalent_mutants_are_left_out(tree, monkeypatch):
    one = Equivalent("sizes.py", "return a + 1", "constant: 1 -> 2", "for the test")
    every = command.mutants(tree, None, [])
    monkeypatch.setattr(command, "EQUIVALENT", (one,))
    assert [mutant for mutant in every if mutant not in command.mutants(tree, None, [])] == [
        mutant for mutant in every if one.is_of(str(mutant.path), mutant.line, mutant.place.what)]


@pytest.mark.parametrize("one", EQUIVALENT, ids=str)
def test_what_is_listed_as_equivalent_is_still_there_and_has_a_reason(one):
    assert len(one.reason.split()) > 3
    assert any(one.is_of(str(path), line, place.what)
               for path in (command.ROOT / "privledger").rglob("*.py")
               if str(path).endswith(one.file)
               for source in [path.read_text(encoding="utf-8")]
               for place in places(source) for line in [source.split("\n")[place.line - 1]])


def test_hunks_of_a_diff():
    assert command.changed_lines("+++ b/privledger/a.py\n@@ -1 +2,3 @@\n+x\n@@ -9,0 +7 @@\n+y\n"
                                 "+++ b/privledger/b.py\n@@ -4,2 +3,0 @@\n-z\n") == {
        Path("privledger/a.py"): {2, 3, 4, 7}, Path("privledger/b.py"): set()}


def test_the_nearest_tests_come_first(tree):
    assert Nearest(tree).rank(Path("privledger/sizes.py"), 3) == [Path("tests/test_sizes.py")]


def test_words_that_are_everywhere_do_not_lead_to_another_room():
    near = Nearest(Path(__file__).resolve().parents[3])
    for file, test in [
            ("standalone/closed_forms.py", "accounting/test_currencies.py"),
            ("cli/plan.py", "cli/test_every_surface.py"),
            ("questions/sums.py", "questions/test_roundings.py")]:
        assert Path("tests") / test in near.rank(Path("privledger") / file, 1)[:8], file
