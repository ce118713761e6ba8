"""Waiting for budget: a place in the history's line, and a look from time to time.

Nothing is held while one waits: no lock, no budget, no row. Whoever is killed leaves a place that
ends with its process, or with its own time where nobody can see the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from privledger.errors import PrivledgerError
from privledger.ledger import FilterRule, History, State
from privledger.ledger.decide import Charge, Refusal, limits, may_come
from privledger.ledger.entries import Entry
from privledger.ledger.events import Event, Granted, Holder, Refused, ScopeOpened
from privledger.ledger.holder import is_gone, now
from privledger.ledger.line import (
    MOST_PLACES,
    Limit,
    QueuePosition,
    can_come,
    demand_of,
    held_by,
    is_over,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


class Over(Exception):
    """A decision was a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def place_of(asked: Granted | ScopeOpened, charge: Charge, seconds: float = 0.0) -> QueuePosition:
    """What a request would be in the line, for so many seconds."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    if isinstance(asked, ScopeOpened):
        return QueuePosition("", "", {}, charge.units, charge.delta_units, until)
    held = asked.holder or Holder("", 0, "")
    return QueuePosition(
        asked.grant,
        asked.data,
        dict(asked.labels),
        charge.units,
        charge.delta_units,
        until,
        held.host,
        held.pid,
        held.started,
    )


def check_turn(state: State, rule: FilterRule, asked: Granted | ScopeOpened,
               charge: Charge, ended: Container[str] = ()) -> None:
    """Raise `Over` where it is somebody else's turn, who waits for what is asked for.

    Args:
        ended: places that are known to be over.
    """
    if not state.line:
        return
    moment, known = now(), limits(state, rule)
    there = {name: place for name, place in state.line.items() if name not in ended
             and not _is_gone(place, moment) and _waits_for_others(place, known)}
    title = held_by(there, place_of(asked, charge), known)
    if title:
        raise Over(Refusal(rule, charge, state.units, state.delta_units, line=title))


def _is_gone(place: QueuePosition, moment: str) -> bool:
    return is_over(place, moment) or is_gone(Holder(*place.process))


def _clear(history: History, learner: str) -> None:
    """Strike out places that are over, if there is no room for another."""
    moment = now()
    over = history.look(lambda state: {
        name for name, place in state.line.items() if _is_gone(place, moment)
    } if len(state.line) >= MOST_PLACES else set())
    if over:
        over = history.store.markable(over)
        history.commit(lambda state: [Refused(learner, time=moment, left_line=name)
                                      for name in state.line if name in over])


def _waits_for_others(place: QueuePosition, known: tuple[Limit, ...]) -> bool:
    """Whether what it waits for may come without what its own process holds. Else it orders nobody:
    it could wait for ever, and hold up all others for nothing."""
    return can_come(demand_of(place, known), known,
                    lambda refund: refund.process != place.process)


def granted_in_turn(history: History, asked: Granted, lines: Callable[[State], list[Event]],
                    over: Over, seconds: float) -> list[Entry]:
    """Take a place in line, and commit `lines` as soon as it is its turn and they fit.

    Args:
        lines: raises `Over` until then. over: what it raised first.

    Raises:
        Over: the time is over, or what is asked for can never come.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    place = place_of(asked, over.refusal.charge, seconds)

    def stand(state: State) -> list[Event]:
        if len(state.line) >= MOST_PLACES or not may_come(state, place):
            raise over
        return [Refused(asked.learner, time=now(), waits=place)]

    _clear(history, asked.learner)
    history.commit(stand)
    try:
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            history.mark_crashed()  # what a dead process holds never comes back
            if over.refusal.line:
                history.ask_who_left()
            try:
                history.look(lines)
                return history.commit(lines)
            except Over as again:
                over = again
            if not history.look(lambda state: may_come(state, place)):
                break
        raise over
    except BaseException:
        with suppress(PrivledgerError):
            history.commit(lambda state: [
                Refused(asked.learner, time=now(), left_line=asked.grant)
            ] if asked.grant in state.line else [])
        raise
