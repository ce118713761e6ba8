"""The table of docs/claimed-versus-sound.md, made by running every finding."""

from __future__ import annotations

from functools import cache

from tests.bench.published import boosting, selecting, trees
from tests.bench.published.base import Row

HEAD = ("", "Step as printed", "Where", "Claimed", "Realised", "What the ledger does",
        "Cheapest repair", "Its cost")


@cache
def rows() -> tuple[Row, ...]:
    """All of them, by number. Each one tries its step through the public API."""
    found = [make() for make in (*trees.ROWS, *selecting.ROWS, *boosting.ROWS)]
    return tuple(sorted(found, key=lambda row: (int(row.name[1:].rstrip("b")), row.name)))


def markdown() -> str:
    """The table as the page has it."""
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in rows())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
