"""Numbers -> places in a drawing. Every chart is 440 wide, so that its letters stay legible."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from privledger.numerals import many
from privledger.reports.page.past import Move
from privledger.reports.safe_text import clean
from privledger.rounding import downward_percent, upward

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


def _scale(low: float, high: float, start: float, end: float, value: float) -> float:
    span = high - low
    return round(start + (end - start) * ((value - low) / span if span else 0.0), 1)


def burn_down(moves: Sequence[Move], word: str = "entry") -> Chart | None:
    """What was left after each charge, as steps from the whole budget downwards.

    Args:
        word: what a move's position counts.
    """
    if not moves:
        return None
    bottom, last = 170, len(moves)
    low = min(0.0, *(move.left for move in moves))
    xs = [_scale(0, last, LEFT, WIDTH - RIGHT, place) for place in range(last + 1)]
    ys = [_scale(low, 1, bottom, TOP, left) for left in (1.0, *(move.left for move in moves))]
    steps = "".join(f"H{x:g}V{y:g}" for x, y in zip(xs[1:], ys[1:], strict=True))
    dots = tuple(
        Dot(x, y, f"{word} {move.position} {moment(move.time)} {move.what}: "
                  f"{downward_percent(move.left)} left, epsilon {upward(move.spent, 4)} spent")
        for x, y, move in zip(xs[1:], ys[1:], moves, strict=True)) if last <= 60 else ()
    across = (Tick(xs[0], "start"), Tick(xs[-1], f"{word} {moves[-1].position}"))
    up = tuple(Tick(_scale(low, 1, bottom, TOP, part), f"{100 * part:g} %")
               for part in (0.0, 0.25, 0.5, 0.75, 1.0))
    return Chart(f"M{xs[0]:g},{ys[0]:g}{steps}", dots, across, up, bottom, bottom + 42)


def delta_curve(points: Sequence[tuple[float, float]], own: float) -> Chart | None:
    """Epsilon against delta, on a logarithmic axis; `own` is marked."""
    known = [(math.log10(delta), epsilon) for delta, epsilon in points if math.isfinite(epsilon)]
    if len(known) < 2:
        return None
    bottom, most = 170, max(epsilon for _, epsilon in known) or 1.0
    low, high = known[0][0], known[-1][0]
    places = [(_scale(low, high, LEFT, WIDTH - RIGHT, at),
               _scale(0, most, bottom, TOP, epsilon)) for at, epsilon in known]
    path = "M" + "L".join(f"{x:g},{y:g}" for x, y in places)
    dots = tuple(Dot(x, y, f"delta {upward(10 ** at, 3)}: epsilon {upward(epsilon, 4)}")
                 for (x, y), (at, epsilon) in zip(places, known, strict=True))
    across = tuple(Tick(_scale(low, high, LEFT, WIDTH - RIGHT, power), f"1e{power}")
                   for power in range(math.ceil(low), math.floor(high) + 1) if power % 2 == 0)
    up = tuple(Tick(_scale(0, most, bottom, TOP, most * part), f"{most * part:.3g}")
               for part in (0.0, 0.5, 1.0))
    mark = _scale(low, high, LEFT, WIDTH - RIGHT, math.log10(own)) if own > 0 else None
    return Chart(path, dots, across, up, bottom, bottom + 42, mark)


def histogram(counts: Sequence[int], one: str = "record", more: str = "records") -> Chart:
    """Records, or people, by share of the cap."""
    bottom, most = 170, max(*counts, 1)
    wide = (WIDTH - RIGHT - LEFT) / len(counts)
    bars = tuple(
        (round(LEFT + place * wide + 0.5, 1), _scale(0, most, bottom, TOP, count),
         round(wide - 1, 1), round(bottom - _scale(0, most, bottom, TOP, count), 1),
         f"{100 * place / len(counts):g} to {100 * (place + 1) / len(counts):g} % of the cap: "
         f"{many(count, one, more)}") for place, count in enumerate(counts) if count)
    across = tuple(Tick(_scale(0, 1, LEFT, WIDTH - RIGHT, part), f"{100 * part:g} %")
                   for part in (0.0, 0.25, 0.5, 0.75, 1.0))
    up = tuple(Tick(_scale(0, most, bottom, TOP, most * part), compact(most * part))
               for part in (0.0, 0.5, 1.0))
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
