"""Measure, keep the results, and renew docs/benchmarks.md. See README.md in this folder."""

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
    "peers": "Beside other packages",
    "individual": "Where individual accounting pays",
    "ledger": "Ledger, filters and noise",
    "recall": "Kept answers",
    "throughput": "Throughput and size of the ledger",
    "accounting": "Accounting",
    "wide_prices": "Accounting beside others",
    "random_trees": "Prices of random trees",
    "per_record": "One round, record by record",
    "scaling": "Growth with rows and trees",
    "isolation": "Isolation",
    "page": "The report",
    "long": "Long ledgers",
    "locks": "Audits by replay",
    "enrolling": "People",
    "chunks": "Tables in chunks",
    "bins": "Bins, bought or public",
    "gradients": "S-GBDT beside LightGBM",
    "federated_calls": "Several owners over a network",
    "summaries": "Summaries beside other packages"}


def _alone(body: str, parts: list[str], machine: str) -> str:
    """Say by what and where the measurements of a section were made."""
    threads = os.environ.get("OMP_NUM_THREADS")
    command = (f"OMP_NUM_THREADS={threads} " if threads else "") + (
        "python tests/bench/run.py --data DIR"
        + ("" if len(parts) == len(PARTS) else f" --only {' '.join(parts)}"))
    return f"Measured by `{command}`, on {machine}.\n\n{body}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of data sets, one folder each")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS),
                        help="parts to measure; the others' results are kept as they are")
    parser.add_argument("--python", nargs="+", default=[], metavar="NAME=PYTHON",
                        help="the Python of a package that lives in another environment")
    parser.add_argument("--scratch", help="a folder with room for 6 GB; default: the system's")
    return parser.parse_args()


def main() -> None:
    sys.path[:0] = [str(HERE), str(HERE.parents[1])]
    arguments = _arguments()
    from measure import machine

    from tests.made_pages import blocks_of, keep, measured_parts, renew

    left = []
    wanted = [part for part in PARTS if part in arguments.only]
    for part in wanted:
        print(f"running {part}", file=sys.stderr, flush=True)
        try:
            section = importlib.import_module(part).report(arguments)
        except ModuleNotFoundError as missing:
            left.append(f"{part}: kept as it was ({missing})")
            continue
        heading, _, body = section.partition("\n\n")
        assert heading == f"## {PARTS[part]}", heading
        keep(measured_parts() | {PARTS[part]: blocks_of(_alone(body, wanted, machine()))})
    renew()
    print("\n".join(left))


if __name__ == "__main__":
    main()
