"""Findings, each with the entry that it is about, so that a reader gets from one to the other."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from privledger.findings import Finding
from privledger.reports.page.past import Told
from privledger.reports.safe_text import clean

MOST_FINDINGS = 200
"""That a page lists; each leads to its entry in words."""


@frozen
class FindingLine:
    """One finding. `entry` is the entry it links to; -1 where it is about the whole file."""

    rule: str
    entry: int
    message: str


@frozen
class FindingText:
    """What a page says of findings: `more` are not listed; `told` are their entries, in order."""

    lines: tuple[FindingLine, ...]
    more: int
    told: tuple[Told, ...]


def said_of(findings: Sequence[Finding], told: Sequence[Told]) -> FindingText:
    """Each finding with its place among the entries that could be told."""
    there = {one.position for one in told}
    kept = findings[:MOST_FINDINGS]
    return FindingText(
        tuple(
            FindingLine(
                clean(one.rule, 80),
                one.position if one.position in there else -1,
                clean(one.message),
            )
            for one in kept
        ),
        len(findings) - len(kept),
        tuple(told),
    )
