"""`python -m tests.bench.zoo`: put every fault in, in turn, and see which tool finds it."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import chain

from tests.bench.zoo.hunting import FAULTS, HUNTS, Outcome, as_row, found_first, honest, hunt
from tests.bench.zoo.page import table, written
from tests.bench.zoo.patching import TOOLS


def _said(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        print(json.dumps(as_row(outcome)), flush=True)
        return
    name = "honest" if outcome.fault is None else outcome.fault.name
    print(f"{name:32} {outcome.suspect:24} {outcome.tool:9} {outcome.seconds:6.2f} s  "
          f"{outcome.by or '-'}"[:160], flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.zoo", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the tools (0)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="faults whose name or family begins so; may be repeated")
    parser.add_argument("--tool", action="append", choices=TOOLS, default=[],
                        help="may be repeated (all that there are)")
    parser.add_argument("--first", action="store_true", help="lockstep and the noise law only, "
                        "the one that is meant for a fault first, until one of them notices")
    parser.add_argument("--honest", action="store_true", help="no fault: count false alarms")
    parser.add_argument("--json", action="store_true", help="one line for each outcome")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/auditing.md")
    options = parser.parse_args(arguments)
    tools = [tool for tool in HUNTS if not options.tool or tool in options.tool]
    faults = [fault for fault in FAULTS if not options.only or any(
        fault.name.startswith(one) or fault.family.startswith(one) for one in options.only)]
    found = []
    outcomes = (honest(tools, options.seed) if options.honest
                else chain.from_iterable(found_first(fault, options.seed) for fault in faults)
                if options.first else hunt(faults, tools, options.seed))
    for outcome in outcomes:
        found.append(outcome)
        _said(outcome, options.json)
    if options.honest:
        return int(any(outcome.by for outcome in found))
    if not options.json:
        print(table(found).rpartition("\n\n")[2])
    if options.write:
        written(found)
    missed = [fault for fault in faults if not any(one.by for one in found if one.fault is fault)]
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
