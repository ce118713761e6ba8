"""`python -m tests.bench.mutation`: sample mutants, run them, list the survivors."""

from __future__ import annotations

import argparse
import queue
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.mutation.equivalent import EQUIVALENT
from tests.bench.mutation.operators import places
from tests.bench.mutation.running import Copy, Mutant, Outcome

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("privledger", "learners/privledger_learners")
WANTED = 0.9  # of all mutants, killed by the tests nearest to them


def changed_lines(diff: str) -> dict[Path, set[int]]:
    """File -> its new or changed lines, from `git diff -U0`."""
    found: dict[Path, set[int]] = {}
    for line in diff.splitlines():
        if line.startswith("+++ "):
            lines = found.setdefault(Path(line[4:].removeprefix("b/")), set())
        elif match := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(match[1]), int(match[2] or 1)
            lines.update(range(first, first + count))
    return found


def mutants(root: Path, base: str | None, only: list[str]) -> list[Mutant]:
    """All there are: in changed lines, or in the whole package; known equivalents left out."""
    lines = None
    if base is not None:
        lines = changed_lines(subprocess.run(
            ["git", "diff", "-U0", base, "--", *PACKAGES], cwd=root, check=True,
            capture_output=True, text=True).stdout)
    found = []
    for path in sorted(file.relative_to(root) for package in PACKAGES
                       for file in (root / package).rglob("*.py")):
        if only and not any(str(path).startswith(one) for one in only):
            continue
        source = (root / path).read_text(encoding="utf-8")
        text = source.split("\n")
        found += [Mutant(path, place, text[place.line - 1]) for place in places(source)
                  if lines is None or place.line in lines.get(path, ())]
    return [mutant for mutant in found if not any(
        one.is_of(str(mutant.path), mutant.line, mutant.place.what) for one in EQUIVALENT)]


def tried(chosen: list[Mutant], jobs: int, near: int, limit: float) -> list[Outcome]:
    """Every mutant's outcome, said as soon as it is known."""
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()

    def one(mutant: Mutant) -> Outcome:
        copy = copies.get()
        try:
            found = copy.tried(mutant)
        finally:
            copies.put(copy)
        print("killed  " if found.killed else "SURVIVED", mutant, found.by, sep="  ", flush=True)
        return found

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(jobs):
            copies.put(Copy.of(ROOT, Path(folder) / str(number), near, limit))
        pool = ThreadPoolExecutor(jobs)
        try:
            return list(pool.map(one, chosen))
        finally:  # an interrupt ends with the mutants that are on their way
            pool.shutdown(cancel_futures=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="mutants to run (200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--changed", metavar="BASE", help="only lines changed since this commit")
    parser.add_argument("--only", action="append", default=[], metavar="PATH",
                        help="only files whose path starts so; may be repeated")
    parser.add_argument("--near", type=int, default=8, help="test files for each (8)")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds for each (120)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (1)")
    options = parser.parse_args(arguments)
    every = mutants(ROOT, options.changed, options.only)
    chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    print(f"{len(chosen)} of {len(every)} mutants, seed {options.seed}")
    found = tried(chosen, options.jobs, options.near, options.limit)
    survivors = [outcome for outcome in found if not outcome.killed]
    print(f"{len(found) - len(survivors)} of {len(found)} killed by the tests nearest to them")
    for outcome in sorted(survivors, key=lambda outcome: str(outcome.mutant)):
        print(f"survivor {outcome.mutant} {outcome.by}\n    tried: "
              + " ".join(map(str, outcome.tests)))
    return int(len(found) - len(survivors) < WANTED * len(found))


if __name__ == "__main__":
    sys.exit(main())
