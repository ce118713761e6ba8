"""Group commit: decisions of many threads wait in one line and are written together.

First come, first decided. Whoever finds nobody at work leads: takes what waits, writes it, wakes
everybody in it, and hands over to whoever waits longest.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from privledger.errors import LedgerError
from privledger.ledger.entries import Entry
from privledger.ledger.state import State

Line = tuple[str, dict[str, Any]]
Decision = Callable[[State], Sequence[Line]]

MOST = 256
"""Decisions in one transaction, at most: other processes wait for it."""


class Ticket:
    """One decision, and what became of it.

    Attributes:
        decide: chooses the lines of the history, or raises to refuse.
        vectors: per-record vectors that are kept with them.
        entries: what was written for it.
        error: why nothing was.
    """

    __slots__ = ("_called", "decide", "done", "entries", "error", "leads", "vectors")

    def __init__(self, decide: Decision, vectors: dict[str, bytes]) -> None:
        self.decide, self.vectors = decide, vectors
        self.entries: list[Entry] = []
        self.error: BaseException | None = None
        self.done = self.leads = False
        self._called = threading.Lock()
        self._called.acquire()

    def wait(self) -> None:
        """Until it is done, or leads."""
        self._called.acquire()

    def call(self) -> None:
        self._called.release()


class CommitQueue:
    """A line of tickets, and one thread at a time that serves it.

    Args:
        write: decides and writes tickets in order, and says in each what became of it. If it
            raises, nothing of them counts as written.
    """

    def __init__(self, write: Callable[[Sequence[Ticket]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._busy = False

    def run(self, ticket: Ticket) -> list[Entry]:
        """Wait in line; the entries that were written, when they are durable.

        Raises:
            Whatever the decision or the transaction raised.
        """
        try:
            with self._lock:
                self._waiting.append(ticket)
                ticket.leads, self._busy = not self._busy, True
            if not ticket.leads:
                ticket.wait()
            if ticket.leads:
                self._lead(ticket)
        except BaseException:
            self._give_up(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.entries

    def _lead(self, own: Ticket) -> None:
        """Serve one batch, the leader's own ticket first, and hand over."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
        try:
            self._write(batch)
        except BaseException as error:
            for ticket in batch:
                ticket.entries, ticket.error = [], _for_others(error)
            own.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            own.leads = False
            for ticket in batch:
                ticket.done = True
                if ticket is not own:
                    ticket.call()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].call()

    def _give_up(self, ticket: Ticket) -> None:
        """An interrupt while waiting: leave the line, and the lead if it was just handed over."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            led, ticket.leads = ticket.leads and not ticket.done, False
        if led:
            self._hand_over()


def _for_others(error: BaseException) -> BaseException:
    """An error for another thread: a copy, so that tracebacks do not pile up in one object."""
    if not isinstance(error, Exception):
        return LedgerError("the commit was interrupted; what it charged, if it did, stays charged")
    try:
        return copy.copy(error)
    except Exception:  # one that cannot be copied
        return error
