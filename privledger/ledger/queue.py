"""Group commit: decisions of many threads wait in one line and are written together.

First come, first decided. The thread that holds the lead takes what waits and writes it; each that
waits can take the lead as soon as it is free. Nothing depends on what an interrupted thread still
does: its lead ends with its call, and what it took from the line stays in the batch for the next.
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable, Sequence

from privledger.ledger.entries import Entry
from privledger.ledger.events import Event
from privledger.ledger.state import State
from privledger.mutex import Mutex

Decision = Callable[[State], Sequence[Event]]
"""Chooses the lines of the history, or raises."""

MOST = 256
"""Decisions in one transaction, at most: other processes wait for it."""


class Ticket:
    """One decision, and what became of it.

    Attributes:
        decide: chooses the lines of the history, or raises to refuse.
        vectors: per-record vectors that are kept with them.
        entries: what was written for it.
        error: why nothing was.
        done: what it says is final. Set last, and read first.
        left: no thread waits for it any more.
    """

    __slots__ = ("decide", "done", "entries", "error", "left", "vectors")

    def __init__(self, decide: Decision, vectors: dict[str, bytes]) -> None:
        self.decide, self.vectors = decide, vectors
        self.entries: list[Entry] = []
        self.error: BaseException | None = None
        self.done = self.left = False

    def is_done(self) -> bool:
        """Whether it was written, or could not be."""
        return self.done

    def answer(self, entries: list[Entry], error: BaseException | None = None) -> None:
        """Say what became of it, for good."""
        if not self.done:
            self.entries, self.error = entries, error
            self.done = True


class CommitQueue:
    """A line of tickets, and one thread at a time that serves it.

    Args:
        write: decides and writes tickets in order, and says in each what became of it. If it
            raises an `Exception`, they have failed. After an interrupt nothing is known: the
            same tickets come again, and `write` finds out which of them were written.
    """

    def __init__(self, write: Callable[[Sequence[Ticket]], None]) -> None:
        self._write = write
        self._lead = Mutex()
        self._waiting: deque[Ticket] = deque()
        self._batch: list[Ticket] = []

    def run(self, ticket: Ticket) -> list[Entry]:
        """Wait in line; the entries that were written, when they are durable.

        Raises:
            Whatever the decision or the transaction raised. After an interrupt of this very
            call it may have been written all the same: then its charge stands.
        """
        here = sys._getframe()
        try:
            self._waiting.append(ticket)
            while not ticket.done:
                if self._lead.take(here, unless=ticket.is_done):
                    self._serve()
                self._lead.give(here)
        except BaseException:
            ticket.left = True
            raise
        finally:
            self._lead.give(here)  # nothing, unless an interrupt came
            del here
        if ticket.error is not None:
            raise ticket.error
        return ticket.entries

    def _serve(self) -> None:
        """Write one batch. Called by the leader only.

        A ticket is in the batch before it leaves the line, and done before it leaves the batch.
        """
        self._batch = batch = [one for one in self._batch if not (one.done or one.left)]
        while self._waiting and len(batch) < MOST:
            first = self._waiting[0]
            if not (first.left or first.done or (batch and batch[-1] is first)):
                batch.append(first)
            self._waiting.popleft()
        if not batch:
            return
        try:
            self._write(batch)
        except Exception as error:
            for ticket in batch:
                ticket.answer([], _own(error))
        for ticket in batch:
            ticket.done = True
        self._batch = []


def _own(error: Exception) -> Exception:
    """A copy for one thread, so that tracebacks do not pile up in one object."""
    try:
        return copy.copy(error)
    except Exception:  # one that cannot be copied
        return error
