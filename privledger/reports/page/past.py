"""A history as the page tells it: what moved the total, when, and the entries of findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve, frozen

from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.ledger import Entry
from privledger.ledger.entries import entry_of
from privledger.ledger.events import Refused, WindowOpened
from privledger.ledger.view import View
from privledger.ledger.view_figures import clean
from privledger.ledger.view_timeline import Moment, Telling, timeline

MOST_FINDINGS = 200
"""That a page lists; each leads to its entry in words."""
NEAR, ENDS, MOST_TOLD = 2, 20, 600
UNREADABLE = "this is no entry: it cannot be read"
PUBLIC = ("created", "filter", "granted", "refused", "scope", "window", "corrected")
"""Kinds of entries that are decided from plans and totals alone."""
Row = tuple[object, ...]


@frozen
class PageMark:
    """One thing on the time line.

    Attributes:
        kind: `granted`, `scope`, `corrected` or `aborted`, which move the total; `window` or
            `refused`, which do not.
        place: how many moves there were up to it. time: as the entry has it.
        share: of the budget that was spent after it, 0 to 1, or more if it is overspent.
        what: the grant or scope; of others what the entry says.
    """

    kind: str
    place: int
    time: str
    share: float
    what: str


@frozen
class Told:
    """One entry in words. `grant` is the grant or scope that it is about; empty if none."""

    position: int
    kind: str
    time: str
    text: str
    grant: str


@frozen
class PageHistory:
    """The marks in order, entries that were asked for, and the times of both ends."""

    marks: tuple[PageMark, ...] = ()
    told: tuple[Told, ...] = ()
    begun: str = ""
    last: str = ""

    @property
    def moves(self) -> tuple[PageMark, ...]:
        """Every change of the total."""
        return tuple(one for one in self.marks if one.kind not in ("window", "refused"))


def past(view: View, told: Iterable[Moment] = ()) -> PageHistory:
    """The history of a view whose entries were given, or audited.

    Args:
        told: entries in words.
    """
    charges, words = {one.position: one for one in view.charges}, Telling()
    marks, moves = list[PageMark](), 0
    for at, share in zip(view.marks.places, view.marks.shares, strict=True):
        event, one = view.marks.events.get(at), charges.get(at)
        moved = not isinstance(event, WindowOpened | Refused)
        moves += moved
        if event is not None:
            kind, time = event.kind, str(event.__dict__.get("time") or "")
            what = str(getattr(event, "grant", "")) if moved else clean(words.said(event)[0])
        else:
            assert one is not None
            kind = "granted" if one.kind == "grant" else "scope"
            time, what = one.time or "", one.name
        marks.append(PageMark(kind, moves, clean(time, 40), share, what))
    return PageHistory(tuple(marks), tuple(
        Told(one.position, one.kind, clean(one.time, 40), clean(one.text), one.grant)
        for one in told), clean(view.marks.begun, 40), clean(view.marks.last, 40))


def undated(seen: PageHistory) -> PageHistory:
    """Without times, which may depend on the rows: so does how long a fit took."""
    return PageHistory(tuple(evolve(one, time="") for one in seen.marks), _public(seen.told))


def _public(told: Iterable[Told]) -> tuple[Told, ...]:
    return tuple(evolve(one, time="", text=one.text if one.kind in PUBLIC else "") for one in told)


@frozen
class FindingLine:
    """One finding. `entry` is the entry it links to; -1 where it is about the whole file."""

    rule: str
    entry: int
    message: str


@frozen
class FindingText:
    """What a page says of findings: `more` are not listed; `told` are entries, in order."""

    lines: tuple[FindingLine, ...] = ()
    more: int = 0
    told: tuple[Told, ...] = ()

    @property
    def faulty(self) -> frozenset[int]:
        """Entries that a finding is about."""
        return frozenset(line.entry for line in self.lines)


def said_of(findings: Sequence[Finding], told: Sequence[Told]) -> FindingText:
    """Each finding with its place among the entries that could be told."""
    there = {one.position for one in told}
    kept = findings[:MOST_FINDINGS]
    lines = tuple(FindingLine(clean(one.rule, 80), one.position if one.position in there else -1,
                              clean(one.message)) for one in kept)
    return FindingText(lines, len(findings) - len(kept), tuple(told))


def told_as_they_read(rows: Sequence[Row], location: str, findings: Sequence[Finding], *,
                      publishable: bool) -> FindingText:
    """Of a history that cannot be believed: both ends, and whatever stands near a finding.

    Args:
        rows: of the store, as they are; one that is no entry says so.
    """
    faults = {one.position for one in findings[:MOST_FINDINGS]}
    wanted = {at + step for at in faults if at >= 0 for step in range(-NEAR, NEAR + 1)}
    wanted |= set(range(min(ENDS, len(rows)))) | set(range(max(0, len(rows) - ENDS), len(rows)))
    told = tuple(one for place, one in enumerate(_told(rows, location))
                 if place in wanted or one.position in wanted)[:MOST_TOLD]
    return said_of(findings, _public(told) if publishable else told)


def _told(rows: Iterable[Row], location: str) -> Iterator[Told]:
    """Every row in words. Nothing is verified."""
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
