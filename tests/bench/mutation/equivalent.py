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
    Equivalent("standalone/closed_forms.py",
               "near = 0.0 if first < 0 < last else min(abs(first), abs(last))",
               "comparison: Lt -> LtE", "at zero the smaller distance from zero is zero, too"),
    Equivalent("broker/seccomp.py",
               "WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000 | 0o10000000",
               "constant: 512 -> 513", "the first flag of the list has that bit"),
    Equivalent("tables/person_ids.py",
               "(0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),",
               "constant: 12644 -> 12645", "both letters become others by NFKC before that"),
    Equivalent("lockstep/locking.py", "return False", "return: None",
               "a verdict whether something broke is asked for its truth only"),
    Equivalent("lockstep/shown.py", "alone, longest = np.arange(len(who)), 0.0",
               "constant: 0.0 -> 1.0", "it is compared with 1 and above only"),
    Equivalent("guard/reserve.py", "seconds: float = 0.0) -> QueuePosition:",
               "constant: 0.0 -> 1.0", "without seconds the place is compared and never written"),
)
