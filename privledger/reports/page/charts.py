"""Charts as places: shares of the width across, pixels up, so that letters never scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from attrs import field, frozen

from privledger.ledger.view import View
from privledger.ledger.view_charges import NO_TABLE, UNNAMED, ChargeFigures
from privledger.ledger.view_figures import SHARE, Amount, Figure, clean, summed_figures
from privledger.numerals import many
from privledger.reports.page.past import PageHistory

MINUTE, HOUR, DAY = 60, 3600, 86400
_STEPS = (1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
          30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)
_MONTH = 30.44 * DAY
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def whole_ticks(most: float, pieces: int = 5, *, counts: bool = False) -> tuple[float, ...]:
    """From 0 to the first round number that is no less than `most`: 1, 2 or 5 times a power of 10.

    Args:
        pieces: at most so many steps.
        counts: whole numbers only.

    >>> whole_ticks(117.0), whole_ticks(2.43), whole_ticks(1.0, counts=True)
    ((0.0, 50.0, 100.0, 150.0), (0.0, 0.5, 1.0, 1.5, 2.0, 2.5), (0.0, 1.0))
    """
    if not 1e-300 < most < 1e300:
        return 0.0, 1.0
    power = 10.0 ** (math.floor(math.log10(most)) - 1)
    sizes = [size * power * scale for scale in (1, 10, 100) for size in (1, 2, 5)]
    step = next(size for size in sizes if most <= size * pieces)
    if counts:
        step = max(1.0, float(math.ceil(step)))
    return tuple(float(f"{place * step:.12g}") for place in range(math.ceil(most / step) + 1))


def time_ticks(start: float, end: float, pieces: int = 8) -> tuple[tuple[float, str], ...]:
    """Round moments between two, with their texts, in UTC.

    Args:
        start, end: seconds since 1970, `start` below `end`.
        pieces: at most about so many.

    >>> time_ticks(1767225600.0, 1767225600.0 + 100 * 86400)
    ((1767225600.0, 'Jan 2026'), (1769904000.0, 'Feb 2026'), (1772323200.0, 'Mar 2026'), \
(1775001600.0, 'Apr 2026'))
    """
    span = end - start
    step = next((one for one in _STEPS if span <= one * pieces), None)
    if step is None:
        return _by_month(start, end, next((one for one in _MONTHS if span <= one * pieces * _MONTH),
                                          _MONTHS[-1]))
    first = math.ceil(start / step)
    return tuple((float(at * step), _short(at * step, step))
                 for at in range(first, math.floor(end / step) + 1))


def _short(at: float, step: int) -> str:
    one = datetime.fromtimestamp(at, UTC)
    if step < MINUTE:
        return one.strftime("%H:%M:%S")
    return f"{one.day} {_NAMES[one.month - 1]}" + (one.strftime(" %H:%M") if step < DAY else "")


def _by_month(start: float, end: float, step: int) -> tuple[tuple[float, str], ...]:
    found, first = [], datetime.fromtimestamp(start, UTC)
    month = (first.year * 12 + first.month - 1) // step * step
    while month // 12 <= datetime.max.year:
        if month >= 12:
            at = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
            if at > end:
                break
            if at >= start:
                name = "" if step % 12 == 0 else f"{_NAMES[month % 12]} "
                found.append((at, f"{name}{month // 12}"))
        month += step
    return tuple(found)


@lru_cache(maxsize=4096)
def day_text(time: object) -> str:
    """A time of the history as a day for people; in UTC, as it is kept.

    >>> day_text("2026-11-20T18:29:10+00:00"), day_text("nonsense")
    ('20 Nov 2026', 'nonsense')
    """
    found = seconds_of([str(time)])
    if found is None:
        return clean(time, 40)
    one = datetime.fromtimestamp(found[0], UTC)
    return f"{one.day} {_NAMES[one.month - 1]} {one.year}"


def seconds_of(times: Sequence[str]) -> list[float] | None:
    """Moments of a history as seconds since 1970; None where one is missing, wrong or too early.

    A history's times are for information only: a clock can jump back, and then there is no axis.
    """
    found: list[float] = []
    for text in times:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if moment.tzinfo is None or not 1970 <= moment.year < 9000:
            return None
        at = moment.timestamp()
        if found and at < found[-1]:
            return None
        found.append(at)
    return found


def day_after(at: float, seconds: float) -> str:
    """The day that lies so many seconds after a moment; in words where that is far away.

    >>> day_after(0.0, 86400.0), day_after(0.0, 1e12)
    ('2 Jan 1970', 'in over 100 years')
    """
    if not seconds < 100 * 365.25 * DAY:
        return "in over 100 years"
    return day_text((datetime.fromtimestamp(at, UTC) + timedelta(seconds=seconds)).isoformat())


@frozen
class Tick:
    """A place on an axis and its text."""

    at: float
    text: str


def percent_across(low: float, high: float, value: float) -> float:
    """Where `value` lies between two, in percent of the width."""
    return round(100 * (value - low) / (high - low), 3) if high > low else 50.0


def pixels_up(top: float, value: float) -> float:
    """How far down a share lies in a plot of `BOTTOM` that reaches up to `top`."""
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 1)


# The budget along time: a stair of what was spent, windows, and refusals in a lane of their own.

TOP, BOTTOM, HEIGHT = 30, 208, 242
MOST_DOTS, MOST_WINDOWS, CLOSE = 150, 12, 1.8
"""More moves than `MOST_DOTS` are a stair without dots; refusals nearer than `CLOSE` are one."""


@frozen
class Dot:
    """A move on the stair, or a heap of refusals.

    Attributes:
        x, y: in percent across, in pixels down. hue: of the table, 1 to 5; 0 for none.
        corrected: drawn as a diamond. grant: whose it is. number: of refusals in the heap.
    """

    x: float
    y: float
    text: str
    hue: int = 0
    corrected: bool = False
    grant: str = ""
    number: int = 1


@frozen
class TimeLine:
    """The drawing. `dated`: its axis is time; else it is the order of charges.

    Attributes:
        path: the stair, in thousandths across and pixels down. limit: where the budget lies.
        dots: what is drawn; places: of every grant's newest move, for a script.
        refused: how many refusals there are; `refusals` are their marks, if there are dates.
    """

    path: str
    limit: float
    dots: tuple[Dot, ...]
    places: dict[str, tuple[float, float]]
    refusals: tuple[Dot, ...]
    refused: int
    windows: tuple[Tick, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    end: Tick
    dated: bool


def time_line(seen: PageHistory, hues: Mapping[str, int],
              names: Mapping[str, str]) -> TimeLine | None:
    """The picture; None where nothing was charged.

    Args:
        hues, names: of grants and scopes: the colour of its table, and what a mark is called.
    """
    moves = seen.moves
    if not moves:
        return None
    stamps = seconds_of([seen.begun, *(one.time for one in seen.marks), seen.last])
    dated = stamps is not None and stamps[-1] - stamps[0] >= MINUTE
    at = stamps[1:-1] if dated and stamps else [float(one.place) for one in seen.marks]
    start, end = (at[0], at[-1]) if dated else (0.0, float(moves[-1].place))
    most = min(max(1.0, *(one.share for one in moves)), 1e9)
    steps = (0.0, 0.25, 0.5, 0.75, 1.0) if most == 1.0 else whole_ticks(most)
    stair, places = dict[float, float](), dict[str, tuple[float, float]]()
    dots, heaps, windows = list[Dot](), list[Dot](), list[Tick]()
    few = len(moves) <= MOST_DOTS
    for mark, when in zip(seen.marks, at, strict=True):
        x, y = percent_across(start, end, when), pixels_up(steps[-1], min(mark.share, most))
        date = f"{day_text(mark.time)}: " if dated else ""
        if mark.kind == "window":
            windows.append(Tick(x, clean(mark.what.removesuffix(" is open"), 24)))
        elif mark.kind == "refused" and heaps and x - heaps[-1].x < CLOSE:
            last = heaps[-1]
            more = "" if last.number > 5 else f"; {date}{mark.what}"
            heaps[-1] = Dot(last.x, 0, last.text + more, number=last.number + 1)
        elif mark.kind == "refused":
            heaps.append(Dot(x, 0, date + mark.what))
        else:
            stair[round(10 * x, 1 if few else 0)] = y  # a pixel, if many
            places[mark.what] = x, y
            corrected = mark.kind == "corrected"
            said = "correction of " if corrected else "handed back: " if (
                mark.kind == "aborted") else ""
            if corrected or few:
                total = Figure(mark.share, SHARE).text()
                dots.append(Dot(x, y, f"{date}{said}{names.get(mark.what, mark.what)}; total "
                                      f"{total}", hues.get(mark.what, 0), corrected, mark.what))
    first = percent_across(start, end, at[0] if dated else 0.0)
    across = tuple(Tick(percent_across(start, end, when), text)
                   for when, text in time_ticks(start, end)) if dated else (
        Tick(0.0, "start"), Tick(100.0, f"charge {moves[-1].place}"))
    path = "".join(f"H{x:.6g}V{y:.6g}" for x, y in stair.items())
    return TimeLine(
        f"M{10 * first:.6g},{BOTTOM}{path}H1000", pixels_up(steps[-1], 1.0),
        tuple(dots), places,
        tuple(heaps) if dated else (), sum(one.kind == "refused" for one in seen.marks),
        tuple(windows[-MOST_WINDOWS:]) if dated else (), across,
        tuple(Tick(pixels_up(steps[-1], one), f"{100 * one:.6g} %") for one in steps),
        Tick(pixels_up(steps[-1], min(moves[-1].share, most)), Figure(moves[-1].share,
                                                                      SHARE).text()), dated)


# Cost as area: the whole spend, by table, learner, mechanisms and grant, row under row.
#
# Widths are charges in the ledger's own whole numbers, which add up; epsilons would not.

ROW, MOST_CELLS, HUES = 34, 1500, 5
NARROWEST = 0.35
"""Percent of its parent that a cell needs to be drawn by itself, and of the whole to be seen."""


@frozen
class Cell:
    """One rectangle.

    Attributes:
        x, width: in percent of the whole spend. level: its row, from 0.
        path: places among siblings from the top, "0/2/1"; empty for the whole.
        name, share: what it says: `share` of the budget. grants: how many. hue: of its table.
        few: it stands for the smaller of so many siblings; 0 for a cell of its own.
    """

    x: float
    width: float
    level: int
    path: str
    name: str
    share: str
    grants: int
    hue: int
    few: int = 0

    @property
    def shown(self) -> bool:
        """Whether it is wide enough while the whole is looked at."""
        return self.width >= NARROWEST

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.name}: {self.share} of the budget, {many(self.grants, 'grant')}"


@frozen
class Icicle:
    """Cells from top to bottom, and where each grant, by its name, lies in them."""

    cells: tuple[Cell, ...] = ()
    paths: Mapping[str, str] = field(factory=dict)


def icicle(view: View, hues: Mapping[str, int], names: Mapping[str, str]) -> Icicle:
    """What was spent; empty while nothing was.

    Args:
        hues: of tables. names: what the cell of a grant or scope is called.
    """
    levels: tuple[Callable[[ChargeFigures], str], ...] = (
        lambda one: one.table or NO_TABLE, lambda one: one.learner or one.library or UNNAMED,
        lambda one: ", ".join(one.mechanisms or ()) or "nothing is promised",
        lambda one: one.name)
    charged = [one for one in view.charges if one.amount.units]
    whole = summed_figures([one.amount for one in charged], view.rule)
    cells, paths = list[Cell](), dict[str, str]()
    # Of many charges, each level has at most a quarter of the cells.
    least = 4 * whole.units / MOST_CELLS if 4 * len(charged) > MOST_CELLS else 0

    def below(charges: Sequence[ChargeFigures], x: float, level: int, path: str) -> None:
        parts: dict[str, list[ChargeFigures]] = {}
        for one in charges:
            parts.setdefault(levels[level](one), []).append(one)
        sized = sorted(((summed_figures([one.amount for one in part], view.rule), name, part)
                        for name, part in parts.items()),
                       key=lambda each: (-each[0].units, each[2][0].position))
        own = sum(amount.units for amount, _, _ in sized)
        for place, (amount, name, part) in enumerate(sized):
            here, width = f"{path}{place}", _percent(amount, whole)
            if level == len(levels) - 1:
                paths[name] = here
            if 100 * amount.units < NARROWEST * own or amount.units < least:
                for one in part:
                    paths[one.name] = f"{path}few"
            else:
                said = names.get(name, name) if level == len(levels) - 1 else name
                cells.append(_cell(x, amount, whole, level + 1, here, said, part, hues))
                if level < len(levels) - 1:
                    below(part, x, level + 1, f"{here}/")
            x += width
        if len(sized) > 1:  # the script sizes it: what is too narrow changes with the zoom
            hidden = [each for each in sized if _percent(each[0], whole) < NARROWEST
                      or each[0].units < least]
            rest = summed_figures([each[0] for each in hidden], view.rule)
            cells.append(_cell(x - _percent(rest, whole), rest, whole, level + 1, f"{path}few",
                               f"{len(hidden)} smaller",
                               [one for each in hidden for one in each[2]], hues, len(sized)))

    if charged:
        cells.append(_cell(0.0, whole, whole, 0, "", "everything", charged, {}))
        below(charged, 0.0, 0, "")
    return Icicle(tuple(cells), paths)


def _percent(amount: Amount, whole: Amount) -> float:
    return 100 * (amount.units / whole.units)


def _cell(x: float, amount: Amount, whole: Amount, level: int, path: str, name: str,
          part: Sequence[ChargeFigures], hues: Mapping[str, int], few: int = 0) -> Cell:
    tables = {one.table for one in part}
    return Cell(round(x, 4), round(_percent(amount, whole), 4), level, path, clean(name, 80),
                amount.share.text(), sum(one.grants for one in part),
                hues.get(tables.pop(), 0) if len(tables) == 1 else 0, few)


def hues_of(view: View) -> dict[str, int]:
    """The colour of every table: 1 to `HUES` by what it took, and then again from 1."""
    found = dict.fromkeys([*view.by("table"), *(one.table for one in view.charges)])
    return {name: 1 + place % HUES for place, name in enumerate(found)}


@frozen
class Bars:
    """A histogram: (x, width, y, height, text) of every bar, and ticks of both axes."""

    bars: tuple[tuple[float, float, float, float, str], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def spread_bars(counts: Sequence[int], one: str = "record", more: str = "records") -> Bars:
    """Records, or people, by share of the cap."""
    ticks = whole_ticks(float(max(*counts, 1)), 4, counts=True)
    wide = 100 / len(counts)
    found = []
    for place, count in enumerate(counts):
        y = pixels_up(ticks[-1], count)
        found.append((round(place * wide, 3), round(wide * 0.92, 3), y, round(BOTTOM - y, 1),
                      f"{place * wide:.3g} to {(place + 1) * wide:.3g} % of the cap: "
                      f"{many(count, one, more)}"))
    return Bars(tuple(bar for bar, count in zip(found, counts, strict=True) if count),
                tuple(Tick(part, f"{part:.0f} %") for part in (0.0, 25.0, 50.0, 75.0, 100.0)),
                tuple(Tick(pixels_up(ticks[-1], tick), compact(tick)) for tick in ticks))


def compact(count: float) -> str:
    """A count in few letters: 1.2k, 3.4M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.3g}"
