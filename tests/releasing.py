"""A release: its version and changelog, and what is built, installed elsewhere and tested there.

    python -m tests.releasing --version 0.3.0    # write the version, and the changelog's section
    python -m tests.releasing dist               # build, install the wheel, test it, add the rest

Nothing is uploaded and nothing is tagged: docs/releasing.md says what a person does then.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from privledger.standalone.build import one_file

ROOT = Path(__file__).resolve().parents[1]
HOME, CITATION = ROOT / "privledger" / "__init__.py", ROOT / "CITATION.cff"
CHANGELOG, FRAGMENTS = ROOT / "docs" / "changelog.md", ROOT / "changelog.d"
VERIFIER, SUMS = "verify_history.py", "SHA256SUMS"
VERSION = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
CITED = re.compile(r"^version: (\S+)\ndate-released: (\S+)$", re.MULTILINE)
SECTION = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
TESTS = ("tests/ledger", "tests/standalone", "tests/models", "tests/test_public_names.py",
         *(f"tests/cli/test_{name}.py" for name in ("exports", "first_runs", "receipts")))
"""What is run against the installed wheel. The whole suite runs before, in a clone."""


def found(pattern: re.Pattern[str], place: Path) -> tuple[str, ...]:
    """The first match in a file.

    Raises:
        SystemExit: there is none.
    """
    match = pattern.search(place.read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit(f"{place.relative_to(ROOT)}: no text of the form {pattern.pattern!r}")
    return match.groups()


def fragments() -> list[Path]:
    """Changes that no version has yet."""
    return sorted(path for path in FRAGMENTS.glob("*.md") if path.name != "README.md")


def faults() -> list[str]:
    """What must be put right before a release is built."""
    version = found(VERSION, HOME)[0]
    wrong = [f"{what} is of {said}, not of {version}" for what, said in (
        ("CITATION.cff", found(CITED, CITATION)[0]),
        ("the first section of docs/changelog.md", found(SECTION, CHANGELOG)[0]))
        if said != version]
    if fragments():
        wrong.append(f"{len(fragments())} changes are not in docs/changelog.md, such as "
                     f"{fragments()[0].name}")
    return wrong


def name(version: str) -> None:
    """Write the version to the one place that says it, to the citation, and to the changelog."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"{version}: give a version such as 0.3.0")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for pattern, place, text in (
            (VERSION, HOME, f'__version__ = "{version}"'),
            (CITED, CITATION, f"version: {version}\ndate-released: {today}")):
        found(pattern, place)
        place.write_text(pattern.sub(text, place.read_text(encoding="utf-8"), count=1),
                         encoding="utf-8")
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", today)
    print("next: edit the new section of docs/changelog.md, and commit")


def run(*words: object, at: Path = ROOT) -> str:
    """A command, shown before it runs; its failure ends the release."""
    print("+", *words, flush=True)
    done = subprocess.run([str(word) for word in words], cwd=at, text=True, check=False,
                          stdout=subprocess.PIPE, env=os.environ | {"CI": "true"})
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{words[0]} ended with code {done.returncode}")
    return done.stdout


def build(place: Path, *more: str) -> tuple[Path, Path]:
    """The source distribution and, of it, the wheel; both new."""
    if place.exists() and any(place.iterdir()):
        raise SystemExit(f"{place} is not empty")
    run(sys.executable, "-m", "build", "--outdir", place.resolve(), *more)
    return next(place.glob("*.tar.gz")), next(place.glob("*.whl"))


def smoke(python: Path, at: Path, version: str, verifier: Path, examples: Path) -> None:
    """What the README tells a reader to type, by the wheel, in an empty folder."""
    command = python.with_name("privledger")
    if run(command, "--version", at=at).split()[-1] != version:
        raise SystemExit("the wheel is of another version")
    run(command, "demo", "--ledger", "demo.ledger", at=at)
    run(command, "verify", "demo.ledger", at=at)
    run(command, "export", "demo.ledger", "-o", "demo.jsonl", at=at)
    run(python, "-I", verifier, "demo.jsonl", at=at)
    for words in (("plan", "pay.toml"), ("run", "pay.toml", "--ledger", "pay.ledger"),
                  ("show", "pay.ledger"), ("learners",)):
        run(command, *words, at=shutil.copytree(examples, at / "examples", dirs_exist_ok=True))


def tried(sdist: Path, wheel: Path, verifier: Path, *, tests: bool) -> None:
    """Install the wheel where nothing else is, use it, and run tests that see no sources."""
    with tempfile.TemporaryDirectory(prefix="privledger-release-") as temporary:
        folder = Path(temporary)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (clone,) = (path for path in folder.iterdir() if path.is_dir())
        for own in ("privledger", "learners"):  # what is imported now is the wheel's
            shutil.rmtree(clone / own)
        run(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel.resolve())
        empty = folder / "empty"
        empty.mkdir()
        smoke(python, empty, found(VERSION, HOME)[0], verifier.resolve(), clone / "docs/examples")
        if tests:
            run(python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[test]")
            print(run(python, "-m", "pytest", "-q", "-n", "2", *TESTS, at=clone)[-2000:])


def main() -> None:
    """Name a version, or make what is released of it."""
    asked = argparse.ArgumentParser(prog="python -m tests.releasing")
    asked.add_argument("place", nargs="?", type=Path, help="empty folder for what is released")
    asked.add_argument("--version", help="name the next version, and build nothing")
    asked.add_argument("--no-isolation", action="store_true", help="build with what is installed")
    asked.add_argument("--no-tests", action="store_true", help="only use the wheel")
    given = asked.parse_args()
    if (given.place is None) == (given.version is None):
        asked.error("give a folder, or --version")
    if given.version is not None:
        name(given.version)
        return
    if wrong := faults():
        raise SystemExit("; ".join(wrong))
    sdist, wheel = build(given.place, *(["--no-isolation"] if given.no_isolation else []))
    verifier = given.place / VERIFIER
    verifier.write_text(one_file(), encoding="utf-8")
    tried(sdist, wheel, verifier, tests=not given.no_tests)
    (given.place / SUMS).write_text("".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(given.place.iterdir()) if path.name != SUMS), encoding="utf-8")
    print(f"released files are in {given.place}:", *sorted(
        path.name for path in given.place.iterdir()))


if __name__ == "__main__":
    main()
