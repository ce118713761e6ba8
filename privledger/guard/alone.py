"""One open grant at a time on a filter scope: who is there, whether to wait, and for how long.

A grant that is open counts with its worst case for every record. So two open ones would leave
each other nothing, and both would release noise alone. That is private, and of no use to anybody.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

from privledger.errors import InvalidValue, NotGranted, ScopeBusy
from privledger.guard.spends import Scope, grants_of, worst_of
from privledger.ledger import History, State
from privledger.ledger.entries import Entry
from privledger.ledger.events import Crashed, Event
from privledger.ledger.holder import now
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.view_records import took_nothing
from privledger.rounding import non_negative

MOST_WAIT = 3600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25
# Open grants on scopes: the process and thread that asked, and whether anybody still holds it.
_HERE: dict[str, tuple[int, int, weakref.ref[object]]] = {}


def patience(wait: object) -> float:
    """Seconds to wait for a scope, at most an hour."""
    seconds = non_negative("wait", wait)
    if seconds > MOST_WAIT:
        raise InvalidValue("wait", wait, f"at most {MOST_WAIT:g} seconds")
    return seconds


def note_open(grant: str, held: object) -> None:
    """This thread holds `grant`, and would wait for itself; if `held` goes, nobody settles it."""
    _HERE[grant] = os.getpid(), threading.get_ident(), weakref.ref(held)


class Asking:
    """Stands for a grant until there is a session. It goes with the frame that asks, so a request
    that is interrupted right after it was granted blocks nobody."""


def note_over(grant: str) -> None:
    """The grant is settled."""
    _HERE.pop(grant, None)


def check_alone(state: State, scope: Scope, data: str) -> None:
    """Refuse while another grant is open, or where those that broke off left nothing.

    Raises:
        ScopeBusy: one is open. NotGranted: no record could pay for anything.
    """
    drawn = grants_of(state, scope.name, data)
    holders = tuple(grant.grant for grant in drawn if grant.status == "granted")
    if holders:
        raise _busy(scope.name, holders, "settle it first, or ask with wait=seconds")
    lost = sum(worst_of(grant, scope) for grant in drawn if grant.event.data == data
               and (grant.end is None or grant.end.vector is None) and not took_nothing(grant))
    if lost >= RECORD_UNITS:
        raise NotGranted(
            f"scope {scope.name} is used up: grants that broke off count with their worst case, "
            "and leave nobody anything to pay with. Open another scope. Nothing was read")


def _busy(scope: str, grants: tuple[str, ...], advice: str) -> ScopeBusy:
    return ScopeBusy(
        f"scope {scope}: {', '.join(grants)} is still open, and would count with its worst case "
        f"for everybody; {advice}. Nothing was read, nothing was charged", scope, grants)


def once_alone(history: History, scope: Scope, lines: Callable[[State], list[Event]],
               seconds: float) -> list[Entry]:
    """Commit `lines` as soon as no other grant on the scope is open.

    Args:
        lines: raises `ScopeBusy` while there is one.
        seconds: how long to wait for it.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            history.look(lines)  # a refusal takes no lock
            return history.commit(lines)
        except ScopeBusy as busy:
            if history.mark_crashed() or _mark_dropped(history, busy.grants):
                continue  # whoever held it is gone
            if any(grant in _HERE and _HERE[grant][:2] == (os.getpid(), threading.get_ident())
                   for grant in busy.grants):
                raise _busy(scope.name, busy.grants, "this thread holds it itself, so waiting "
                            "would never end: settle it") from None
            left = deadline - time.monotonic()
            if not left > 0:
                raise
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _mark_dropped(history: History, grants: tuple[str, ...]) -> bool:
    """Record grants of this process whose sessions were let go without being closed.

    Their worst case stays counted, as for a holder that crashed.
    """
    gone = [grant for grant in grants if grant in _HERE
            and _HERE[grant][0] == os.getpid() and _HERE[grant][2]() is None]
    if gone:
        history.commit(lambda state: [
            Crashed(grant, now(), "its session was let go unsettled") for grant in gone
            if grant in state.grants and state.grants[grant].status == "granted"])
        for grant in gone:
            note_over(grant)
    return bool(gone)
