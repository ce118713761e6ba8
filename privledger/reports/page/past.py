"""How the budget went down, entry by entry, and where it went: the view's, fit for a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from privledger.ledger import Entry
from privledger.ledger.view import View
from privledger.ledger.view_charges import Part
from privledger.ledger.view_figures import summed
from privledger.ledger.view_timeline import Moment, timeline
from privledger.numerals import many
from privledger.reports.safe_text import clean

MOST_POINTS = 400
MOST_BARS = 12
MOST_MARKS = 100
MARKED = ("window", "refused")
PUBLIC = ("created", "filter", "granted", "refused", "scope", "window", "corrected")
"""Kinds of entries that are decided from plans and totals alone."""
LONGEST = 60
ASPECTS = {"learner": "learner", "mechanism": "mechanism", "data set": "table"}
"""What the page calls its bars, and what the view groups by."""


@frozen
class Move:
    """The total after one entry that moved it.

    Attributes:
        position: of the entry. time: as the entry has it.
        left: share of the filter's cap that is left, 0 to 1; below 0 if it is overspent.
        spent: epsilon, at the budget's delta, that everything so far certifies.
        what: which grant, scope or correction. learner: whose it was.
        place: how many moves there were up to this one.
    """

    position: int
    time: str
    left: float
    spent: float
    what: str
    place: int = 0
    learner: str = ""


@frozen
class TimeMark:
    """What the total did not move by: a window that was opened, or a refusal.

    Attributes:
        place: how many moves came before it. time, left: as of a move, at that moment.
    """

    kind: str
    place: int
    time: str
    left: float
    text: str


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
    """A history as the page tells it.

    Attributes:
        moves: every change of the total, thinned out evenly to at most `MOST_POINTS`.
        windows, refusals: the newest `MOST_MARKS` of each. told: entries that were asked for.
        begun, last: times of the first and the last entry that has one.
        counted: how many windows and refusals there are in all.
    """

    moves: tuple[Move, ...]
    windows: tuple[TimeMark, ...]
    refusals: tuple[TimeMark, ...]
    told: tuple[Told, ...]
    begun: str
    last: str
    counted: tuple[int, ...]


@frozen
class Bar:
    """What one learner, mechanism or data set took.

    Attributes:
        share: of the whole budget, in the filter's unit; shares of one kind add up to the total.
        epsilon: what this part alone certifies. Epsilons do not add up.
        grants: how many charges.
    """

    name: str
    share: float
    epsilon: float
    grants: int


def past(entries: Iterable[Entry], wanted: Collection[int] = (),
         learners: Mapping[str, str] | None = None) -> PageHistory:
    """The history in one pass.

    Args:
        wanted: entries to be told in words. learners: of grants and scopes, by name.
    """
    found: list[tuple[int, Moment]] = []
    marks, told, begun, last = list[TimeMark](), list[Told](), "", ""
    for one in timeline(entries):
        begun, last = begun or one.time, one.time or last
        if one.change:
            found.append((len(found) + 1, one))
        if one.kind in MARKED:
            marks.append(TimeMark(one.kind, len(found), clean(one.time), one.total.share_left.value,
                              clean(one.text)))
        if one.position in wanted:
            told.append(Told(one.position, one.kind, clean(one.time, 40), clean(one.text),
                             one.grant))
    step = -(-len(found) // MOST_POINTS) if found else 1
    kept = found[::-1][::step][::-1]  # the last one always stays
    who = learners or {}
    return PageHistory(
        tuple(Move(one.position, clean(one.time), one.total.share_left.value,
                   one.total.epsilon.value, clean(one.what), place,
                   clean(who.get(one.grant, ""), LONGEST)) for place, one in kept),
        _newest(marks, "window"), _newest(marks, "refused"), tuple(told), clean(begun),
        clean(last), tuple(sum(mark.kind == kind for mark in marks) for kind in MARKED))


def undated(seen: PageHistory) -> PageHistory:
    """Without times and entry numbers, which may depend on the rows: so does how long a fit took,
    and one that released nothing leaves fewer entries."""
    def bare(marks: Sequence[TimeMark]) -> tuple[TimeMark, ...]:
        return tuple(evolve(mark, time="") for mark in marks)

    told = tuple(evolve(one, time="", text=one.text if one.kind in PUBLIC else "")
                 for one in seen.told)
    return evolve(seen, begun="", last="", told=told, windows=bare(seen.windows),
                  refusals=bare(seen.refusals), moves=tuple(
                      evolve(move, time="", position=move.place) for move in seen.moves))


def _newest(marks: Sequence[TimeMark], kind: str) -> tuple[TimeMark, ...]:
    return tuple(mark for mark in marks if mark.kind == kind)[-MOST_MARKS:]


def bars(view: View) -> dict[str, tuple[Bar, ...]]:
    """Charges by learner, mechanism and data set, dearest first, the rest in one bar."""
    if view.rule is None:
        return {}
    return {kind: _ranked([part for part in view.by(aspect).values() if part.amount.units], view)
            for kind, aspect in ASPECTS.items()}


def _ranked(parts: list[Part], view: View) -> tuple[Bar, ...]:
    kept, rest = parts[:MOST_BARS], parts[MOST_BARS:]
    if rest:
        amount = summed([one.amount for one in rest], view.rule)
        kept.append(Part(f"({many(len(rest), 'other')})", amount, sum(one.grants for one in rest),
                         any(one.asserted for one in rest)))
    return tuple(Bar(clean(one.name, LONGEST) or "(no name)", one.amount.share.value,
                     one.amount.epsilon.value, one.grants) for one in kept)
