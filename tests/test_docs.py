"""The documentation runs, its links lead somewhere, and every command has its section."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import privledger

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("changelog.d/*.md")])
CLI_PAGE = ROOT / "docs" / "cli.md"

_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED = re.compile(r"(?<![\w/.-])(?:tests|privledger|learners|docs)/[\w./*-]*[\w*/]"
                    r"|(?<=[` (:])\w+\.py\b")
NOT_HERE = {"docs/examples/pay.ledger", "verify_history.py", "one.py", "tests/test_learner.py"}
"""Files that are made, and do not lie here."""
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[tuple[int, str]]:
    """Python blocks with the line they start on."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 2, found.group(1))
            for found in _BLOCK.finditer(text)]


def anchors_of(page: Path) -> set[str]:
    headings = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in headings}


NURSERY = """
import os, runpy, signal, sys, traceback
import networkx, numpy, pandas, scipy.optimize, scipy.special, scipy.stats, sklearn.ensemble
for line in sys.stdin:
    children = []
    for several in line.rstrip("\\n").split("\v"):
        script, work, told = several.split("\t")
        child = os.fork()
        if child == 0:
            signal.alarm(240)
            os.chdir(work)
            sys.argv, code = [script], 1
            for number in (1, 2):
                os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            try:
                runpy.run_path(script, run_name="__main__")
                if several == line.rstrip("\\n") and os.listdir():  # what is left, it meets again
                    print("the second time", flush=True)
                    runpy.run_path(script, run_name="__main__")
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        children.append(child)
    print(*(os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children), flush=True)
"""


@pytest.fixture(scope="module")
def nursery():
    """A process that has imported what others make, nothing of ours, and forks for each page."""
    search = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen([sys.executable, "-W", "error::RuntimeWarning", "-c", NURSERY],
                          env={**os.environ, "PYTHONPATH": search}, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.stdin.close()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=name_of)
def test_python_blocks_run(page: Path, tmp_path: Path, nursery) -> None:
    """Each page in a process of its own; twice where it leaves files. None depends on another."""
    # Padding keeps the line numbers of a traceback those of the page.
    source, line = "", 1
    for start, code in blocks_of(page):
        source += "\n" * (start - line) + code
        line = start + code.count("\n")
    script = tmp_path / "page.py"
    script.write_text(source, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    told = tmp_path / "told"
    run_all(nursery, (script, work, told))


TWICE = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")


def test_the_first_pages_run_again_and_beside_each_other(tmp_path: Path, nursery) -> None:
    """In one folder, two of each at once, and then once more."""
    pages = []
    for page in TWICE:
        script = tmp_path / f"{page.stem}.py"
        script.write_text("\n".join(code for _, code in blocks_of(page)), encoding="utf-8")
        pages.append((script, tmp_path, tmp_path / "told"))
    run_all(nursery, *pages, *pages)
    run_all(nursery, pages[0])


def run_all(nursery, *several: tuple[Path, Path, Path]) -> None:
    """At once: (script, the folder that it runs in, the file for what it says)."""
    nursery.stdin.write("\v".join("\t".join(map(str, one)) for one in several) + "\n")
    nursery.stdin.flush()
    codes = set(nursery.stdout.readline().split())
    assert codes == {"0"}, "\n".join(f"{one}:\n{told.read_text()[-3000:]}"
                                     for one, _, told in several)


def test_local_links_resolve() -> None:
    wrong = []
    for page in PAGES:
        for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or not found.is_relative_to(ROOT) or (
                    anchor and found.suffix == ".md" and anchor not in anchors_of(found)):
                wrong.append(f"{name_of(page)} links to {link}")
    assert not wrong


def test_every_file_that_is_named_is_there() -> None:
    """In pages and in Python of the product: `folder/file`, and a file's name alone."""
    files = [place for home in ("tests", "privledger", "learners", "docs", "changelog.d")
             for place in (ROOT / home).rglob("*") if "__pycache__" not in place.parts]
    there = {name_of(place) for place in files} | {place.name for place in files}
    written = [place for place in files if place.suffix == ".py"
               and name_of(place).startswith(("privledger/", "learners/"))]
    wrong = {(name_of(place), name) for place in [*PAGES, *written]
             for name in _NAMED.findall(place.read_text(encoding="utf-8"))
             if not (name.rstrip("/") in there | NOT_HERE
                     or ("*" in name and list(ROOT.glob(name))))}
    assert not wrong, sorted(wrong)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_shipped_example_runs(command: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from privledger.cli import main

    folder = ROOT / "docs" / "examples"
    done = CliRunner().invoke(main, [command, str(folder / "pay.toml"), "--data-dir", str(folder),
                                     "--ledger", str(tmp_path / "pay.ledger")])
    assert done.exit_code == 0, done.output


def modules() -> list[str]:
    found = [item.name for item in pkgutil.walk_packages(privledger.__path__, "privledger.")]
    return ["privledger", *(name for name in found if not name.endswith("__main__"))]


def test_docstring_examples_hold() -> None:
    public = {name: getattr(privledger, name) for name in privledger.__all__}
    public |= {name: getattr(home, name) for home in (privledger.nodes, privledger.questions)
               for name in home.__all__}
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for module in modules():
        loaded = importlib.import_module(module)
        for case in finder.find(loaded, module, globs={**public, **vars(loaded)}):
            runner.run(case, out=report.append)
    assert runner.tries > 50 and runner.failures == 0, "".join(report)


def commands() -> list[str]:
    from privledger.cli import main

    return sorted(main.commands)


def test_every_command_is_documented() -> None:
    page = CLI_PAGE.read_text(encoding="utf-8")
    assert not [command for command in commands() if f"### `privledger {command}`" not in page]


# --- what is no Python block ----------------------------------------------------------------------

_ANY = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def fences(*kinds: str) -> list[tuple[str, str]]:
    """(page and line, text) of fenced blocks of these kinds, of the pages for users."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += [(f"{name_of(page)}:{text.count(chr(10), 0, block.start()) + 1}", block.group(2))
                  for block in _ANY.finditer(text) if block.group(1).strip() in kinds]
    return found


def typed() -> list[tuple[str, list[str]]]:
    """Every `privledger ...` in a block for a shell, in words."""
    found = []
    for kind in ("bash", "console"):
        for where, text in fences(kind):
            for line in text.replace("\\\n", " ").splitlines():
                if kind == "console" and not line.startswith("$ "):
                    continue  # what it printed
                for part in re.split(r"&&|\||;", line.removeprefix("$ ").partition(" #")[0]):
                    if re.match(r" *[./a-z]*privledger ", part):
                        words = shlex.split(part.partition(">")[0])[1:]
                        found.append((where, words))
    return found


def test_every_command_in_the_docs_is_one_that_exists() -> None:
    """Its name, the names of its options, and as many arguments as it takes."""
    from click import Argument, BadParameter, Context

    from privledger.cli import main

    assert len(typed()) > 60
    for where, words in typed():
        command, name = main, "privledger"
        while hasattr(command, "commands"):
            assert words[0] in command.commands, (where, words)
            command, name, words = command.commands[words[0]], words[0], words[1:]
        context = Context(command, info_name=name)
        given, rest, _ = command.make_parser(context).parse_args(list(words))
        assert not rest, (where, words)
        for param in command.params:
            value = given.get(param.name)
            if isinstance(param, Argument):
                assert value is not None or not param.required, (where, words, param.name)
            elif value is not None and not param.multiple and hasattr(param.type, "choices"):
                try:
                    param.type.convert(value, param, context)
                except BadParameter as error:
                    raise AssertionError((where, words)) from error


def test_the_commands_of_the_first_pages_run_again_and_again(tmp_path: Path) -> None:
    """README's four, twice; the quick start's, until the fourth run is refused as it says."""
    from click.testing import CliRunner

    from privledger.cli import main

    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    for left in (tmp_path / "docs" / "examples").glob("*.ledger*"):
        left.unlink()

    def codes(page: str, times: int) -> list[int]:
        several = [words for where, words in typed() if where.startswith(page) and (
            words[-1].endswith("pay.ledger") or "docs/examples/pay.toml" in words)]
        return [CliRunner().invoke(main, words).exit_code for _ in range(times)
                for words in several]

    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert codes("README.md", 2) == [0] * 8
        assert codes("docs/quickstart.md", 1) == [0] * 4
        assert codes("docs/quickstart.md", 1) == [0, 0, 0, 1]
    finally:
        os.chdir(here)


@pytest.mark.parametrize(("where", "text"), fences("toml"), ids=lambda one: one[:40])
def test_toml_in_the_docs_is_read_as_what_it_is(where: str, text: str) -> None:
    value = tomllib.loads(text)
    if "policy" in value:
        privledger.Policy.from_dict(value)
    if {"run", "budget", "data"} <= set(value) and "federation" not in value:
        from privledger.runs import RunFile

        RunFile.from_dict(value, Path("run.toml"))


IMPORTS = [(where, text) for where, text in fences("text", "py", "") if "import " in text]


@pytest.mark.parametrize(("where", "text"), IMPORTS, ids=[where for where, _ in IMPORTS])
def test_what_is_shown_and_not_run_names_what_there_is(where: str, text: str) -> None:
    """Python that needs a server or another library: it parses, and our names in it exist."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("privledger"):
            try:
                home = importlib.import_module(str(node.module))
            except ImportError:
                pytest.skip(f"needs another library: {node.module}")
            for name in node.names:
                assert hasattr(home, name.name), (where, name.name)
        if (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
                and node.value.id == "pl"):
            assert hasattr(privledger, node.attr), (where, node.attr)
