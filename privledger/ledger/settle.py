"""Settling: the end of a grant is written, or kept where it is found again. It is never lost
in silence: charges stand, and whoever closes is told where the items are."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from privledger import mutex
from privledger.errors import LedgerBusy, LedgerCorrupt, LedgerError, NotSettled
from privledger.findings import Finding
from privledger.ledger import spill
from privledger.ledger.events import Event, Settled
from privledger.ledger.history import History
from privledger.ledger.spill import SpillRefused
from privledger.ledger.state import State
from privledger.ledger.store import Denied

PAUSES = (0.05, 0.2, 0.5)
"""Seconds between tries where the ledger is a file."""
LONG_PAUSES = (*PAUSES, 1.0, 2.0, 4.0)
"""The same where it is a server, which may be starting again."""


@frozen
class Settlement:
    """What a session wants to write at its end.

    Attributes:
        grant: name of the grant.
        lines: `Released` in order, then `Settled` or `Aborted`.
        vectors: per-record vectors that `settled` names.
        releases: how many items there are.
    """

    grant: str
    lines: tuple[Event, ...]
    vectors: dict[str, bytes]
    releases: int


class _Over(Exception):
    """The grant is over already."""


def settle(history: History, settlement: Settlement) -> None:
    """Write a settlement, durably. Again and again the same: it is written once.

    Raises:
        NotSettled: it could not be written. It says where the items are; the charge stands.
    """
    history.unsettled[settlement.grant] = settlement
    try:
        _try(history, settlement, _pauses(history))
    except NotSettled:
        raise
    except Exception as error:
        raise _kept(history, settlement, error) from None
    except BaseException:  # an interrupt: it may have been written, and may be written again
        _kept(history, settlement, None)
        raise
    _others(history)


def settle_left(history: History) -> None:
    """Write what could not be written before.

    Raises:
        NotSettled: the first that still cannot be.
    """
    for settlement in list(history.unsettled.values()):
        settle(history, settlement)


def _pauses(history: History) -> tuple[float, ...]:
    return LONG_PAUSES if "://" in history.store.location else PAUSES


def _try(history: History, settlement: Settlement, pauses: tuple[float, ...]) -> None:
    """Until it is written, or the pauses are over."""
    server = "://" in history.store.location
    for pause in (*pauses, None):
        try:
            _write(history, settlement)
            return
        except LedgerError as error:
            hopeless = isinstance(error, LedgerCorrupt) or (
                isinstance(error, LedgerBusy) and not server)  # it waited long enough
            if pause is None or hopeless:
                raise
            mutex.threads.sleep(pause)


def _write(history: History, settlement: Settlement) -> None:
    def lines(state: State) -> list[Event]:
        grant = state.grants.get(settlement.grant)
        if grant is None or grant.status not in ("granted", "crashed") or grant.releases:
            raise _Over
        return list(settlement.lines)

    try:
        history.commit(lines, settlement.vectors)
    except _Over:
        # By an earlier try of which the answer was lost, or by who took up the spill.
        if not spill.same_lines(history.store.read(), settlement.grant, settlement.lines):
            raise LedgerCorrupt(f"{settlement.grant} was closed by somebody else, and not with "
                                "what this session released") from None
    history.unsettled.pop(settlement.grant, None)
    if settlement.grant in history.spilled:
        spill.drop(history.store.location, history.known(lambda state: state.uuid),
                   settlement.grant)
        history.spilled.discard(settlement.grant)


def _kept(history: History, settlement: Settlement, error: Exception | None) -> NotSettled:
    """Spill it, and say so."""
    cause = str(error) if isinstance(error, LedgerError) else type(error).__name__
    where, why = None, ""
    try:
        where = _spill(history, settlement)
    except LedgerError as refused:
        why = str(refused)
    except Exception as failure:  # whatever else is broken: what is said here comes first
        why = type(failure).__name__
    return NotSettled(grant=settlement.grant, releases=settlement.releases, cause=cause,
                      spill=where, why=why)


def _spill(history: History, settlement: Settlement) -> str:
    if type(settlement.lines[-1]) is not Settled:
        raise SpillRefused("a grant that is handed back has no items")

    def made(state: State) -> spill.Spill:
        grant = state.grants.get(settlement.grant)
        if grant is None:
            raise SpillRefused("the grant is over already")
        return spill.spill_of(state, grant, settlement.lines,
                              history.store.secret(settlement.grant))

    where = spill.put(history.store.location, history.known(made))
    history.spilled.add(settlement.grant)
    return where


def _others(history: History) -> None:
    """The ledger can be written again: so can what is left of other sessions."""
    for settlement in list(history.unsettled.values()):
        try:
            _write(history, settlement)
        except Exception:
            return  # they were told; their spills, or their own close(), come later


def take_up(history: History) -> list[Finding]:
    """Append what spills hold, once, and remove them; what is wrong with the others."""
    location, found = history.store.location, []
    uuid, grants = history.look(lambda state: (state.uuid, set(state.grants)))
    for shelf, path in spill.waiting(location, uuid, grants):
        try:
            one = spill.read_spill(shelf.read(path))
            _append(history, one)
            shelf.remove(path)
        except (SpillRefused, Denied) as refused:
            found.append(Finding(spill.RULE, -1, f"{path}: {refused}"))
    return found


def _append(history: History, one: spill.Spill) -> None:
    state: Any = history.look(lambda state: state.fork())
    if spill.is_taken_up(one, state, history.store.read):
        return
    spill.check_spill(one, state)
    known = history.store.read(one.position - 1)[:1]
    if not known or known[0].hash != one.head:
        raise SpillRefused("it knows another history than this one")

    history.store.hold(one.grant, one.secret)

    def lines(now: State) -> list[Event]:
        grant = now.grants.get(one.grant)
        if grant is None or grant.status not in ("granted", "crashed") or grant.releases:
            return []  # another process was faster with the same file
        return list(one.lines)

    history.commit(lines)
