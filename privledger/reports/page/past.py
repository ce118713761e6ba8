"""How the budget went down, entry by entry, and where it went: the view's, fit for a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from attrs import evolve, frozen

from privledger.findings import Finding
from privledger.ledger import Entry, State
from privledger.ledger.events import Granted
from privledger.ledger.filters import FilterRule
from privledger.ledger.view import View
from privledger.ledger.view_charges import ChargeFigures, Part, how_often
from privledger.ledger.view_figures import CHOSEN, Amount, Figure, clean, summed_figures
from privledger.ledger.view_timeline import Moment, timeline
from privledger.numerals import many
from privledger.reports.page.marks import (
    DAY,
    MINUTE,
    Tick,
    day_after,
    hue_of,
    moment,
    scale,
    seconds_of,
    time_ticks,
)
from privledger.rounding import downward_percent, upward

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
        amount = summed_figures([one.amount for one in rest], view.rule)
        kept.append(Part(f"({many(len(rest), 'other')})", amount, sum(one.grants for one in rest),
                         any(one.asserted for one in rest)))
    return tuple(Bar(clean(one.name, LONGEST) or "(no name)", one.amount.share.value,
                     one.amount.epsilon.value, one.grants) for one in kept)


# The budget along time: what was left after each charge, windows with their limits, refusals.

WIDTH, LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 1000, 58, 980, 34, 232, 274
MOST_DOTS = 120
NARROW = 70.0
"""A window that is narrower has no name on the picture; the pointer tells it."""


@frozen
class Spot:
    """A charge or a refusal on the line; `hue` is its learner's, 0 for none."""

    x: float
    y: float
    text: str
    hue: int


@frozen
class Span:
    """A window: where it begins, how wide it is, and the height of its limit, if it has one."""

    x: float
    width: float
    limit: float | None
    title: str
    text: str


@frozen
class TimeLine:
    """The drawing. `dated` tells whether its axis is time; else it is the order of charges."""

    path: str
    spots: tuple[Spot, ...]
    refusals: tuple[Spot, ...]
    windows: tuple[Span, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    dated: bool


@frozen
class LimitLine:
    """One budget, and how long it lasts.

    Attributes:
        name: `the ledger`, or a cap's title. epsilon: as it was chosen. gone: share of it.
        left: epsilon of the largest plan that still fits.
        more: how many charges like the newest one under it fit; empty where there was none.
        until: the day on which nothing is left if spending goes on as it did; empty if unknown.
    """

    name: str
    epsilon: str
    gone: str
    left: str
    more: str
    until: str


def time_line(past: PageHistory, state: State) -> TimeLine | None:
    """The picture; None where nothing was charged."""
    moves = past.moves
    if not moves:
        return None
    stamps = _stamps(past)
    start, end = (stamps[0], stamps[-1]) if stamps else (0.0, float(moves[-1].place))
    xs = _places(past, stamps)
    low = min(0.0, *(move.left for move in moves))

    def across(at: float) -> float:
        return scale(start, end, LEFT, RIGHT, at)

    def up(left: float) -> float:
        return scale(low, 1.0, BOTTOM, TOP, left)

    steps = "".join(f"H{across(x):g}V{up(move.left):g}"
                    for x, move in zip(xs[0], moves, strict=True))
    spots = tuple(Spot(across(x), up(move.left), _told(move),
                       hue_of(move.learner) if move.learner else 0)
                  for x, move in zip(xs[0], moves, strict=True)) if len(moves) <= MOST_DOTS else ()
    refused = tuple(Spot(across(x), up(mark.left),
                         f"refused{' ' if mark.time else ''}{moment(mark.time)}: {mark.text}", 0)
                    for x, mark in zip(xs[2], past.refusals, strict=True))
    ticks = tuple(Tick(across(at), text) for at, text in time_ticks(start, end)) if stamps else (
        Tick(across(0), "start"), Tick(across(end), f"charge {moves[-1].place}"))
    return TimeLine(
        f"M{LEFT},{up(1.0):g}{steps}H{RIGHT}", spots, refused,
        _spans(past.windows, [across(x) for x in xs[1]], _window_share(state), up), ticks,
        tuple(Tick(up(part), f"{100 * part:g} %") for part in (0.0, 0.25, 0.5, 0.75, 1.0)),
        bool(stamps))


def _told(move: Move) -> str:
    said = " ".join(part for part in (f"charge {move.place}", moment(move.time), move.learner,
                                      move.what) if part)
    return f"{said}: {downward_percent(move.left)} left, epsilon {upward(move.spent, 4)} spent"


def _stamps(past: PageHistory) -> list[float] | None:
    """Begin, moves, windows, refusals and end as seconds; None where the dates tell nothing."""
    marks = sorted([*((move.place, 1, move.time) for move in past.moves),
                    *((mark.place, 2, mark.time) for mark in (*past.windows, *past.refusals))],
                   key=lambda one: (one[0], one[1], one[2]))
    found = seconds_of([past.begun, *(time for _, _, time in marks), past.last])
    return found if found and found[-1] - found[0] >= MINUTE else None


def _places(past: PageHistory, stamps: list[float] | None) -> tuple[list[float], ...]:
    """Of moves, windows and refusals, on the axis."""
    def at(one: Move | TimeMark) -> float:
        if stamps:
            found = seconds_of([one.time])
            assert found
            return found[0]
        return float(one.place)

    return tuple([at(one) for one in group]
                 for group in (past.moves, past.windows, past.refusals))


def _window_share(state: State) -> float | None:
    """The least share of the budget that any cap allows to everybody in each window."""
    if state.rule is None:
        return None
    shares = [_of(cap.rule(state.rule), state.rule) for cap in state.caps
              if cap.per_window and cap.data is None and not cap.labels]
    return min(shares, default=None)


def _of(part: FilterRule, whole: FilterRule) -> float:
    return float(Fraction(part.cap_units, whole.cap_units)) if whole.cap_units else 0.0


def _spans(windows: Sequence[TimeMark], starts: Sequence[float], share: float | None,
           up: Callable[[float], float]) -> tuple[Span, ...]:
    found = []
    ends = [*starts[1:], float(RIGHT)][:len(starts)]
    for mark, x, end in zip(windows, starts, ends, strict=True):
        name = clean(mark.text.removesuffix(" is open"), 40)
        wide = max(0.0, round(end - x, 1))
        least = None if share is None else max(0.0, mark.left - share)
        limit = None if least is None else up(least)
        found.append(Span(x, wide, limit, name if wide >= NARROW else "",
                          f"window {name}{' ' if mark.time else ''}{moment(mark.time)}"
                          + ("" if least is None else
                             f": may go down to {downward_percent(least)} left")))
    return tuple(found)


def limits(
    view: View, state: State, past: PageHistory, *, dated: bool = True
) -> tuple[LimitLine, ...]:
    """Every budget of the ledger: its own, and those of its caps in the open window."""
    if state.rule is None or state.budget is None:
        return ()
    found = [_limit("the ledger", state.rule, Amount(state.units, state.delta_units, state.rule),
                    view.charges, past.begun if dated else "", past.last)]
    for cap, (units, delta_units) in zip(state.caps, state.cap_spent, strict=True):
        rule = cap.rule(state.rule)
        begun = past.begun
        if cap.per_window or cap.window:
            begun = past.windows[-1].time if past.windows else ""
        found.append(_limit(cap.title, rule, Amount(units, delta_units, rule),
                            [one for one in view.charges
                             if cap.matches(state.window, one.event
                                            if isinstance(one.event, Granted) else None)],
                            begun if dated else "", past.last))
    return tuple(found)


def _limit(name: str, rule: FilterRule, amount: Amount, charges: Sequence[ChargeFigures],
           begun: str, last: str) -> LimitLine:
    newest = next((one.asked for one in reversed(charges)
                   if one.asked.units and one.paid), None)
    times = None if newest is None else how_often(
        rule, newest.units, newest.delta_units, amount.units, amount.delta_units)
    return LimitLine(clean(name, 80), Figure(rule.budget.epsilon, direction=CHOSEN).text(),
                 amount.share.text(), amount.left.text(4), "" if times is None else str(times),
                 _until(amount, rule, begun, last))


def _until(amount: Amount, rule: FilterRule, begun: str, last: str) -> str:
    if amount.units >= rule.cap_units:
        return "nothing is left"
    between = seconds_of([begun, last]) if begun and last else None
    if between is None or not amount.units:
        return ""
    span = between[1] - between[0]
    if span < DAY:
        return "too early to tell"
    return day_after(between[1], span * ((rule.cap_units - amount.units) / amount.units))


# Findings, each with the entry that it is about, so that a reader gets from one to the other.

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
    lines = tuple(FindingLine(clean(one.rule, 80), one.position if one.position in there else -1,
                              clean(one.message)) for one in kept)
    return FindingText(lines, len(findings) - len(kept), tuple(told))
