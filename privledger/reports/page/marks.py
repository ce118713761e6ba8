"""Numbers -> places in a drawing. Every chart is 440 wide, so that its letters stay legible."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from privledger.numerals import many
from privledger.reports.page.ticks import whole_ticks
from privledger.reports.safe_text import clean
from privledger.rounding import upward

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
