"""The page of a history that cannot be added up: its faults, and its entries as they read.

Hashes do not hold, or an entry is no entry. So there is no total to show, no promise and no spend:
only what is wrong, where, and what stands there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePath

from attrs import frozen

from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.ledger import Entry
from privledger.ledger.entries import entry_of
from privledger.ledger.view_timeline import timeline
from privledger.reports.page.findings_told import MOST_FINDINGS, FindingText, said_of
from privledger.reports.page.past import PUBLIC, Told
from privledger.reports.safe_text import clean
from privledger.reports.verdict import LedgerVerdict
from privledger.storage import shown

NEAR, ENDS, MOST_TOLD = 2, 20, 600
UNREADABLE = "this is no entry: it cannot be read"
Row = tuple[object, ...]


@frozen
class Distrusted:
    """What the page says.

    Attributes:
        name: of the ledger. verdict: NOT TRUSTED, in the line that `verify` says.
        said: findings and the entries shown. entries: how many rows there are.
        publishable: what entries say of fits was left out.
    """

    name: str
    verdict: LedgerVerdict
    said: FindingText
    entries: int
    publishable: bool

    @property
    def faulty(self) -> frozenset[int]:
        """Entries that a finding is about."""
        return frozenset(line.entry for line in self.said.lines)


def distrusted(rows: Sequence[Row], location: str, verdict: LedgerVerdict,
               findings: Sequence[Finding], *, publishable: bool = False) -> Distrusted:
    """Args: rows: of the store, as they are. verdict: about `findings`, of which there is one."""
    wanted = _wanted(len(rows), {one.position for one in findings[:MOST_FINDINGS]})
    told = tuple(one for place, one in enumerate(_told(rows, location))
                 if place in wanted or one.position in wanted)[:MOST_TOLD]
    if publishable:
        told = tuple(Told(one.position, one.kind, "",
                          one.text if one.kind in PUBLIC else "", "") for one in told)
    return Distrusted(clean(PurePath(shown(location)).name, 80) or "ledger in memory",
                      verdict, said_of(findings, told), len(rows), publishable)


def _wanted(rows: int, faults: Collection[int]) -> set[int]:
    """Both ends of the history, and whatever stands near a fault."""
    near = {at + step for at in faults if at >= 0 for step in range(-NEAR, NEAR + 1)}
    return near | set(range(min(ENDS, rows))) | set(range(max(0, rows - ENDS), rows))


def _told(rows: Iterable[Row], location: str) -> Iterator[Told]:
    """Every row in words. Nothing is verified; a row that is no entry says so."""
    entries: list[Entry | None] = []
    places: list[int] = []
    for place, row in enumerate(rows):
        try:
            entries.append(entry_of(row, location))
        except LedgerCorrupt:
            entries.append(None)
        first = row[0] if row else None
        places.append(first if type(first) is int else place)
    moments = timeline(one for one in entries if one is not None)
    for position, entry in zip(places, entries, strict=True):
        if entry is None:
            yield Told(position, "?", "", UNREADABLE, "")
        else:
            one = next(moments)
            yield Told(position, clean(one.kind, 40), clean(one.time, 40), clean(one.text), "")
