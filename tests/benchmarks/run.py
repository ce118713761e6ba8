"""Write docs/benchmarks.md. See README.md in this folder."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {  # module: the heading of its section
    "learners": "S-GBDT",
    "boosting": "DPBoost",
    "feature_selection": "Feature selection",
    "feature_sketches": "Scores of features from sums",
    "forests": "Trees and forests",
    "partitioning": "Partitioning ensembles",
    "individual": "Where individual accounting pays",
    "ledger": "Ledger, filters and noise",
    "throughput": "Throughput and size of the ledger",
    "accounting": "Accounting",
    "per_record": "One round, record by record",
    "gradients": "One tree of S-GBDT",
    "scaling": "Growth with rows and trees",
    "isolation": "Isolation",
    "page": "The report",
    "long": "Long ledgers",
}
TAIL = HERE / "notes.md"


def _sections(path: Path) -> dict[str, str]:
    """Heading -> section, of an earlier run; the head is under ''."""
    if not path.exists():
        return {}
    head, *rest = path.read_text(encoding="utf-8").split("\n## ")
    return {"": head.strip()} | {one.partition("\n")[0]: f"## {one}".strip() for one in rest}


def _alone(section: str, parts: list[str], machine: str) -> str:
    """Say how a section came about that was not made with the rest."""
    heading, _, body = section.partition("\n\n")
    threads = os.environ.get("OMP_NUM_THREADS")
    command = (f"OMP_NUM_THREADS={threads} " if threads else "") + (
        f"python tests/benchmarks/run.py --data DIR --only {' '.join(parts)}")
    return f"{heading}\n\nMeasured later than the rest, by `{command}`, on {machine}.\n\n{body}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of data sets, one folder each")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS),
                        help="parts to measure; the others' sections are kept as they are")
    parser.add_argument("--output", default=str(HERE.parents[1] / "docs" / "benchmarks.md"))
    return parser.parse_args()


def main() -> None:
    sys.path.insert(0, str(HERE))
    arguments = _arguments()
    from measure import machine

    wanted = [part for part in PARTS if part in arguments.only]
    kept = _sections(Path(arguments.output)) if len(wanted) < len(PARTS) else {}
    head = ("# Benchmarks\n\nWritten by `OMP_NUM_THREADS=1 python tests/benchmarks/run.py --data "
            f"DIR`. Machine: {machine()}. Times are median (min to max) of wall time on a shared "
            "machine.")
    sections = [kept.get("", head)]
    for part, heading in PARTS.items():
        if part in wanted:
            print(f"running {part}", file=sys.stderr, flush=True)
            section = importlib.import_module(part).report(arguments)
            assert section.startswith(f"## {heading}\n"), heading
            sections.append(_alone(section, wanted, machine()) if kept else section)
        elif heading in kept:
            sections.append(kept[heading])
    tail = TAIL.read_text(encoding="utf-8").strip()
    by_hand = [text for heading, text in kept.items() if heading not in ("", *PARTS.values())
               and f"## {heading}\n" not in tail]
    sections += [*by_hand, tail]
    text = "\n\n".join(sections) + "\n"
    Path(arguments.output).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
