"""Numbers -> places in a drawing. Every chart is 440 wide, so that its letters stay legible."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen

from privledger.ledger.view_figures import clean
from privledger.numerals import many
from privledger.rounding import upward

# Round places on an axis: 0, 50, 100 and not 0, 58.5, 117; first days of months.

MINUTE, HOUR, DAY = 60, 3600, 86400
_STEPS = (1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
          30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)
_MONTH = 30.44 * DAY


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


def time_ticks(start: float, end: float, pieces: int = 7) -> tuple[tuple[float, str], ...]:
    """Round moments between two, with their texts, in UTC.

    Args:
        start, end: seconds since 1970, `start` below `end`.
        pieces: at most about so many.

    >>> time_ticks(1767225600.0, 1767225600.0 + 100 * 86400)
    ((1767225600.0, '2026-01'), (1769904000.0, '2026-02'), (1772323200.0, '2026-03'), \
(1775001600.0, '2026-04'))
    """
    span = end - start
    step = next((one for one in _STEPS if span <= one * pieces), None)
    if step is None:
        return _by_month(start, end, next((one for one in _MONTHS if span <= one * pieces * _MONTH),
                                          _MONTHS[-1]))
    form = "%Y-%m-%d" if step >= DAY else "%m-%d %H:%M" if step >= MINUTE else "%H:%M:%S"
    first = math.ceil(start / step)
    return tuple((float(at * step), _text(at * step, form))
                 for at in range(first, math.floor(end / step) + 1))


def _by_month(start: float, end: float, step: int) -> tuple[tuple[float, str], ...]:
    found, first = [], datetime.fromtimestamp(start, UTC)
    month = (first.year * 12 + first.month - 1) // step * step
    while month // 12 <= datetime.max.year:
        if month >= 12:
            at = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
            if at > end:
                break
            if at >= start:
                found.append((at, _text(at, "%Y" if step % 12 == 0 else "%Y-%m")))
        month += step
    return tuple(found)


def _text(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)


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
    ('1970-01-02', 'in over 100 years')
    """
    if not seconds < 100 * 365.25 * DAY:
        return "in over 100 years"
    return (datetime.fromtimestamp(at, UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%d")


WIDTH, LEFT, RIGHT, TOP = 440, 52, 12, 12


@frozen
class Tick:
    """A place on an axis and its text."""

    at: float
    text: str


@frozen
class Dot:
    """A point with a text for whoever points at it."""

    x: float
    y: float
    text: str


@frozen
class Chart:
    """One line with two axes, in pixels. `bottom` is where the horizontal axis lies."""

    path: str
    dots: tuple[Dot, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    bottom: int
    height: int
    mark: float | None = None
    bars: tuple[tuple[float, float, float, float, str], ...] = ()


def scale(low: float, high: float, start: float, end: float, value: float) -> float:
    """Where `value` lies between two places, if `low` and `high` lie at them."""
    span = high - low
    return round(start + (end - start) * ((value - low) / span if span else 0.0), 1)


def delta_curve(points: Sequence[tuple[float, float]], own: float) -> Chart | None:
    """Epsilon against delta, on a logarithmic axis; `own` is marked."""
    known = [(math.log10(delta), epsilon) for delta, epsilon in points if math.isfinite(epsilon)]
    if len(known) < 2:
        return None
    ticks = whole_ticks(max(epsilon for _, epsilon in known), 4)
    bottom, most = 170, ticks[-1]
    low, high = known[0][0], known[-1][0]
    places = [(scale(low, high, LEFT, WIDTH - RIGHT, at),
               scale(0, most, bottom, TOP, epsilon)) for at, epsilon in known]
    path = "M" + "L".join(f"{x:g},{y:g}" for x, y in places)
    dots = tuple(Dot(x, y, f"delta {upward(10 ** at, 3)}: epsilon {upward(epsilon, 4)}")
                 for (x, y), (at, epsilon) in zip(places, known, strict=True))
    across = tuple(Tick(scale(low, high, LEFT, WIDTH - RIGHT, power), f"1e{power}")
                   for power in range(math.ceil(low), math.floor(high) + 1) if power % 2 == 0)
    up = tuple(Tick(scale(0, most, bottom, TOP, tick), f"{tick:g}") for tick in ticks)
    mark = scale(low, high, LEFT, WIDTH - RIGHT, math.log10(own)) if own > 0 else None
    return Chart(path, dots, across, up, bottom, bottom + 42, mark)


def histogram(counts: Sequence[int], one: str = "record", more: str = "records") -> Chart:
    """Records, or people, by share of the cap."""
    ticks = whole_ticks(float(max(*counts, 1)), 4, counts=True)
    bottom, most = 170, ticks[-1]
    wide = (WIDTH - RIGHT - LEFT) / len(counts)
    bars = tuple(
        (round(LEFT + place * wide + 0.5, 1), scale(0, most, bottom, TOP, count),
         round(wide - 1, 1), round(bottom - scale(0, most, bottom, TOP, count), 1),
         f"{100 * place / len(counts):g} to {100 * (place + 1) / len(counts):g} % of the cap: "
         f"{many(count, one, more)}") for place, count in enumerate(counts) if count)
    across = tuple(Tick(scale(0, 1, LEFT, WIDTH - RIGHT, part), f"{100 * part:g} %")
                   for part in (0.0, 0.25, 0.5, 0.75, 1.0))
    up = tuple(Tick(scale(0, most, bottom, TOP, tick), compact(tick)) for tick in ticks)
    return Chart("", (), across, up, bottom, bottom + 42, None, bars)


def compact(count: float) -> str:
    """A count in few letters: 1.2k, 3.4M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.3g}"


def moment(time: object) -> str:
    """A time of the history, for people: without the T, and in UTC as it is kept.

    >>> moment("2026-11-20T18:29:10+00:00")
    '2026-11-20 18:29:10 UTC'
    """
    text = clean(time, 40)
    return text.replace("T", " ", 1).replace("+00:00", " UTC") if text[4:5] == "-" else text


# A learner's colour: one function, the same answer in every picture.

_KINDS = ("-classifier", "-regressor")
_SALT = "6479"
"""Under it, the learners that stand together in a picture of the documents all differ."""


@frozen
class Shade:
    """One colour, as hexadecimal texts.

    Attributes:
        line: for lines and words on white paper. light, dark: to write on, by day and by night.
    """

    line: str
    light: str
    dark: str


SHADES = (
    Shade("#1f5fa8", "#bcd7f2", "#1f4468"), Shade("#b0530b", "#f9d3a8", "#6b4410"),
    Shade("#2b7a34", "#c3e6c0", "#24552a"), Shade("#c0302c", "#f6c1c0", "#722c2e"),
    Shade("#7442b5", "#dccdf0", "#483370"), Shade("#7a5236", "#e6d5c8", "#54413a"),
    Shade("#b82a86", "#f5cbe4", "#6a2b56"), Shade("#0f7681", "#bfe8ea", "#17535a"),
    Shade("#7d6a00", "#efe6a6", "#56500f"), Shade("#4b5a6b", "#d3dae2", "#3d4854"),
    Shade("#3f48c9", "#ccd0fa", "#363c86"), Shade("#5c7a12", "#dcebb0", "#44560f"))
"""Told apart by most eyes; the words beside them never rest on the colour alone."""


def hue_of(learner: str) -> int:
    """Which of `SHADES` a learner has, from 1: by its name alone, in every ledger and picture.

    One method has one colour, whether it learns classes or numbers.

    >>> hue_of("sgbdt-classifier") == hue_of("sgbdt-regressor") == hue_of("sgbdt")
    True
    """
    family = learner
    for kind in _KINDS:
        family = family.removesuffix(kind)
    text = f"{_SALT} {family}".encode("utf-8", "replace")
    return 1 + zlib.crc32(text) % len(SHADES)


def shade_of(learner: str) -> Shade:
    """The colour itself."""
    return SHADES[hue_of(learner) - 1]


def as_css(kind: str) -> str:
    """Custom properties for a style sheet: `--h1` and on to fill with, `--l1` and on for lines.

    Args:
        kind: `light` or `dark` for fills; `line` for lines by day, `pale` for those by night.
    """
    letter, name = ("l", {"line": "line", "pale": "light"}[kind]) if kind in ("line", "pale") else (
        "h", kind)
    return "".join(f"--{letter}{place}:{getattr(shade, name)};"
                   for place, shade in enumerate(SHADES, 1))


def classes() -> str:
    """Style rules: `.c1` cells, `.e1` boxes and `.l1` dots and bars have the first colour."""
    return "".join(f".c{place}{{--cell:var(--h{place})}}.l{place}{{fill:var(--l{place})}}"
                   f".e{place}{{--edge:var(--h{place})}}"
                   for place in range(1, len(SHADES) + 1))
