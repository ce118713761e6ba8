"""`python -m privledger.testing.lockstep WITNESS.json`: run the lock of a witness again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from privledger.rounding import upward
from privledger.testing.lockstep.witnesses import replay_witness

UNKNOWN = 5  # as `privledger audit --lockstep` ends


def main_lockstep(arguments: Sequence[str] | None = None) -> int:
    """Print what breaks, or how near the price the loss comes; 1 if a premise breaks, 5 if
    something is not replayable."""
    parser = argparse.ArgumentParser(prog="python -m privledger.testing.lockstep",
                                     description="Run the lock of a witness again. Simulation: "
                                                 "NOT PRIVATE, on tables of the kit.")
    parser.add_argument("witness", type=Path, help="what `privledger audit --witness` wrote")
    found = replay_witness(json.loads(parser.parse_args(arguments).witness.read_text("utf-8")))
    for one in found.broken:
        print(f"{one.premise} is broken, release {one.release}: {one.why}")
    if not found.broken and found.unknown:
        print(f"not replayable, release {found.unknown[0].release}: {found.unknown[0].why}")
        return UNKNOWN
    if not found.broken:
        print(f"every premise held; the worst loss is {upward(found.ratio)} times its price")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main_lockstep())
