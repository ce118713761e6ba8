"""One mutant at a time in a copy of the tree, against the tests nearest to it."""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from attrs import define, field, frozen

from tests.bench.mutation.nearest import Nearest
from tests.bench.mutation.operators import Place

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", re.MULTILINE)


@frozen
class Mutant:
    """A place of a file, which is named from the root of the tree."""

    path: Path
    place: Place
    line: str  # its text, as it was

    def __str__(self) -> str:
        return f"{self.path}:{self.place.line} {self.place.what}   {self.line.strip()}"


@frozen
class Outcome:
    """What became of a mutant: killed by a test, by a time limit, or it survived."""

    mutant: Mutant
    killed: bool
    by: str  # the first test that failed, or what happened instead
    tests: tuple[Path, ...]


@define
class Copy:
    """A copy of the files git knows or would know, where mutants are put and taken back."""

    root: Path
    near: int  # test files for each mutant
    limit: float  # CPU seconds for each mutant; ten times as many by the clock
    _honest: dict[str, bool] = field(factory=dict)  # test -> whether it passes without a mutant
    _nearest: Nearest = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._nearest = Nearest(self.root)

    @classmethod
    def of(cls, tree: Path, folder: Path, near: int, limit: float) -> Copy:
        names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=tree,
                               check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (tree / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, folder / name)
        return cls(folder, near, limit)

    def tried(self, mutant: Mutant) -> Outcome:
        tests = tuple(self._nearest.rank(mutant.path, mutant.place.line)[:self.near])
        file = self.root / mutant.path
        whole = file.read_text(encoding="utf-8")
        try:
            self._put(file, mutant.place.apply(whole))
            answer = self._pytest([str(test) for test in tests])
        finally:
            self._put(file, whole)
        return self._judged(mutant, tests, answer)

    def _judged(self, mutant: Mutant, tests: tuple[Path, ...], answer: str | None) -> Outcome:
        if answer is None:  # a mutant that hangs is noticed; tests that are only long are not
            hangs = self._pytest([str(test) for test in tests]) is not None
            return Outcome(mutant, hangs, f"no answer in {self.limit:g} CPU s", tests)
        for test in FAILED.findall(answer):
            if test not in self._honest:
                alone = self._pytest([test])
                self._honest[test] = alone is not None and " passed" in alone
            if self._honest[test]:
                return Outcome(mutant, True, test, tests)
        broken = not re.search(r"\d+ (passed|skipped|deselected)", answer)
        return Outcome(mutant, broken, "nothing starts" if broken else "", tests)

    def _put(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()  # may be of the same second and size as this text

    def _pytest(self, tests: list[str]) -> str | None:
        """What pytest prints; None if it does not come to an end in time."""
        path = os.pathsep.join([str(self.root), str(self.root / "learners")])
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rfE",
             "-p", "no:cacheprovider", *tests],
            cwd=self.root, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "400"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        most = math.ceil(self.limit)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most))
        try:
            said = process.communicate(timeout=10 * self.limit)[0]
            return said if process.returncode >= 0 else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
