"""Write docs/benchmarks.md. See README.md in this folder."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("learners", "individual", "ledger", "accounting", "scaling")
TAIL = HERE / "notes.md"


def main() -> None:
    sys.path.insert(0, str(HERE))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of data sets, one folder each")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--output", default=str(HERE.parents[1] / "docs" / "benchmarks.md"))
    arguments = parser.parse_args()
    from measure import machine

    head = ("# Benchmarks\n\nWritten by `OMP_NUM_THREADS=1 python tests/benchmarks/run.py --data "
            f"DIR`. Machine: {machine()}. Times are median (min to max) of wall time on a shared "
            "machine.")
    sections = [head]
    for part in arguments.only:
        print(f"running {part}", file=sys.stderr, flush=True)
        sections.append(importlib.import_module(part).report(arguments))
    sections.append(TAIL.read_text(encoding="utf-8").strip())
    text = "\n\n".join(sections) + "\n"
    Path(arguments.output).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
