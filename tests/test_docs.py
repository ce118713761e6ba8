"""The documentation runs, its links lead somewhere, and every command has its section."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import privledger

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("changelog.d/*.md")])
CLI_PAGE = ROOT / "docs" / "cli.md"

_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
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
    script, work, told = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        os.chdir(work)
        sys.argv, code = [script], 1
        for number in (1, 2):
            os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        try:
            runpy.run_path(script, run_name="__main__")
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
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
    """Each page in a process of its own: a page may not depend on another one."""
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
    nursery.stdin.write(f"{script}\t{work}\t{told}\n")
    nursery.stdin.flush()
    assert nursery.stdout.readline() == "0\n", f"{name_of(page)}:\n{told.read_text()[-3000:]}"


TWICE = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")


def test_the_first_pages_run_again_and_beside_each_other(tmp_path: Path) -> None:
    """In one folder: twice in a row, then both at once."""
    calls = []
    for page in TWICE:
        script = tmp_path / f"{page.stem}.py"
        script.write_text("\n".join(code for _, code in blocks_of(page)), encoding="utf-8")
        calls.append([sys.executable, str(script)])
    for several in ([call] for call in (*calls, *calls)):
        run_all(several, tmp_path)
    run_all([*calls, *calls], tmp_path)


def run_all(calls: list[list[str]], folder: Path) -> None:
    search = os.pathsep.join(path for path in sys.path if path)
    started = [subprocess.Popen(call, cwd=folder, env={**os.environ, "PYTHONPATH": search},
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for call in calls]
    for call, process in zip(calls, started, strict=True):
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, (call, said[-3000:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_local_links_resolve(page: Path) -> None:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{name_of(page)} links to {link}, which does not exist"
        assert found.is_relative_to(ROOT), f"{name_of(page)} links outside the repository: {link}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors_of(found), f"{name_of(page)}: {link} has no such heading"


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


@pytest.mark.parametrize("module", modules())
def test_docstring_examples_hold(module: str) -> None:
    loaded = importlib.import_module(module)
    public = {name: getattr(privledger, name) for name in privledger.__all__}
    public |= {name: getattr(home, name) for home in (privledger.nodes, privledger.questions)
               for name in home.__all__}
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for case in finder.find(loaded, module, globs={**public, **vars(loaded)}):
        runner.run(case, out=report.append)
    assert runner.failures == 0, "".join(report)


def commands() -> list[str]:
    try:
        from privledger.cli import main
    except ImportError:
        return []
    return sorted(getattr(main, "commands", {}))


@pytest.mark.parametrize("command", commands())
def test_command_is_documented(command: str) -> None:
    assert f"### `privledger {command}`" in CLI_PAGE.read_text(encoding="utf-8")
