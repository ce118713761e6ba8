"""The benchmarks of charges start: on tiny sizes, so that a name that moves is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent / "bench"
TINY = f"""
import sys
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(BENCHMARKS.parents[1])!r}]
import ledger, per_record
rows = ledger.charging((3, 5), 2) + ledger.per_record(1000)
per_record.RECORDS, per_record.SAMPLE, per_record.CASES = 100, 4, per_record.CASES[:2]
print(len(rows), per_record.report().splitlines()[0])
"""


def test_charges_and_records_are_measured():
    done = subprocess.run([sys.executable, "-c", TINY], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.split("\n")[0] == "7 ## One round, record by record", done.stderr
