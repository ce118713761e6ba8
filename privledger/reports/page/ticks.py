"""Round places on an axis: 0, 50, 100 and not 0, 58.5, 117; first days of months."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

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
