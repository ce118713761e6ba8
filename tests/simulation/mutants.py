"""Faults put in on purpose: the simulation must notice each of them."""

from __future__ import annotations

from collections import deque

from privledger import mutex
from privledger.errors import LedgerError
from privledger.guard.session import GrantedPlan
from privledger.ledger import history as history_module
from privledger.ledger import settle as settle_module
from privledger.ledger.history import History
from privledger.ledger.queue import CommitQueue, Ticket
from privledger.mutex import Mutex


class Plain:
    """A lock that lives by being given back, as those of the system do."""

    def __init__(self, begin=None):
        self._held, self._bell = None, mutex.threads.bell()

    def __enter__(self):
        me = mutex.threads.ident()
        while self._held is not None and self._held != me:
            mutex.threads.sleep(0.01)
        self._held, mine = me, self._held is None
        return mine

    def __exit__(self, *_):
        self._held = None


class OldTicket(Ticket):
    """As it was in version 0.1, with a bell of the world."""

    __slots__ = ("bell", "leads")

    def __init__(self, decide, vectors):
        super().__init__(decide, vectors)
        self.leads, self.bell = False, mutex.threads.bell()

    def wait(self):
        while not self.bell.wait(10.0):
            pass

    def call(self):
        self.bell.ring()


class OldQueue:
    """The queue of version 0.1: what an interrupted leader popped is lost."""

    def __init__(self, write):
        self._write, self._lock, self._waiting = write, Plain(), deque()
        self._busy = False

    def run(self, ticket):
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

    def _lead(self, own):
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._write(batch)
        except BaseException as error:
            for ticket in batch:
                ticket.entries, ticket.error = [], LedgerError("the commit was interrupted")
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

    def _hand_over(self):
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].call()

    def _give_up(self, ticket):
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            led, ticket.leads = ticket.leads and not ticket.done, False
        if led:
            self._hand_over()


def the_queue_of_before(patch):
    patch.setattr(history_module, "CommitQueue", OldQueue)
    patch.setattr(history_module, "Ticket", OldTicket)


def locks_that_can_be_lost(patch):
    patch.setattr(mutex._Hold, "gone", lambda self: False)


def nobody_holds_the_lead(patch):
    patch.setattr(Mutex, "take", lambda self, frame, unless=None, seconds=None: True)


def the_batch_is_forgotten(patch):
    """Tickets leave the line before they are done, and nobody keeps them."""
    def serve(self):
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if batch:
            self._write(batch)

    patch.setattr(CommitQueue, "_serve", serve)


def nobody_asks_what_arrived(patch):
    patch.setattr(History, "_land", lambda self: None)


def everything_in_flight_is_believed(patch):
    def land(self):
        flight, self._flight = self._flight, None
        for ticket, entries in flight.written if flight else ():
            ticket.answer(entries)

    patch.setattr(History, "_land", land)


def a_torn_state_is_kept(patch):
    patch.setattr(History, "_mend", lambda self: setattr(self, "_torn", False))


def done_before_it_is_durable(patch):
    right = History._add

    def add(self, draft, ticket, notes, entries):
        draft = right(self, draft, ticket, notes, entries)
        ticket.done = True
        return draft

    patch.setattr(History, "_add", add)


def a_second_close_is_silent(patch):
    right = GrantedPlan.close

    def close(self, failed=None):
        if not self.active:
            return
        right(self, failed)

    patch.setattr(GrantedPlan, "close", close)
    patch.setattr(settle_module, "settle_left", lambda history: None)
    patch.setattr(settle_module, "_kept", lambda history, settlement, error: settle_module
                  .NotSettled(grant="", releases=0, cause="", spill=None))
    patch.setattr(settle_module, "_others", lambda history: None)


def it_settles_without_looking(patch):
    def write(history, settlement):
        history.commit(lambda state: list(settlement.lines), settlement.vectors)
        history.unsettled.pop(settlement.grant, None)

    patch.setattr(settle_module, "_write", write)


def a_spill_is_taken_up_without_looking(patch):
    def append(history, one):
        history.commit(lambda state: list(one.lines))

    patch.setattr(settle_module, "_append", append)


def a_child_keeps_the_line_of_its_parent(patch):
    patch.setattr(History, "_check_process", lambda self: None)
    locks_that_can_be_lost(patch)


MUTANTS = [
    ("queue", the_queue_of_before), ("queue", locks_that_can_be_lost),
    ("queue", nobody_holds_the_lead), ("queue", the_batch_is_forgotten),
    ("queue", nobody_asks_what_arrived), ("queue", everything_in_flight_is_believed),
    ("lines", a_torn_state_is_kept), ("queue", done_before_it_is_durable),
    ("session", a_second_close_is_silent), ("session", it_settles_without_looking),
    ("session", a_spill_is_taken_up_without_looking),
    ("forked", a_child_keeps_the_line_of_its_parent),
]
