"""Mutants that no test can kill, each reviewed, with the reason: they are not survivors.

A line is named by its text and not by its number, so the list outlives moves; an entry whose line
is nowhere any more fails a test.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Equivalent:
    """One mutant of one line (without its indentation) of one file."""

    file: str  # its last two parts: `accounting/curve.py`
    line: str
    what: str  # as `operators.Place.what` says it
    reason: str

    def is_of(self, path: str, line: str, what: str) -> bool:
        return path.endswith(self.file) and line.strip() == self.line and what == self.what


EQUIVALENT = (
    Equivalent("graph/register.py", "share = pair.p[0] + pair.p[2]", "constant: 0 -> 1",
               "of three answers, the two that were not given are equally likely"),
)
