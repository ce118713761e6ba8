"""Run the papers' steps as they are printed, and see what they really cost.

    python docs/examples/published.py              a list to read
    python docs/examples/published.py --markdown   the table of docs/claimed-versus-sound.md

Needs a checkout: the printed steps live in tests/bench/published/ and in no installed package.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.published.table import HEAD, markdown, rows


def main() -> None:
    """Try every step on its counterexample and print what happened."""
    if "--markdown" in sys.argv:
        print(markdown())
        return
    for row in rows():
        name, step, *rest = row.cells()
        print(f"{name} {step}")
        for title, cell in zip(HEAD[2:], rest, strict=True):
            print(f"    {title.lower():<21}{cell}")


if __name__ == "__main__":
    main()
