"""Decisions of many threads in one transaction: order, refusals, failures, and who sees what."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.guard.ledger import Ledger
from privledger.ledger import History, audit
from privledger.ledger.queue import CommitQueue, Ticket
from privledger.storage import MemoryStore, SQLiteStore
from tests.bodies import body_of, said
from tests.worlds import protected, refused, schema_of
from tests.worlds import together as at_once

G = pl.Gaussian(10.0)
(NOTED,) = said(("refused", {"number": "noted"}))


class Gate:
    """A store whose transactions wait, at their begin or before their commit."""

    def __init__(self, store):
        self._store = store
        self.begin, self.commit = threading.Event(), threading.Event()
        self.begin.set()
        self.commit.set()
        self.entered = threading.Event()
        self.transactions = 0
        self.error = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextmanager
    def transaction(self):
        self.transactions += 1
        self.entered.set()
        assert self.begin.wait(120)
        with self._store.transaction() as transaction:
            yield transaction
            assert self.commit.wait(120)
            if self.error is not None:
                error, self.error = self.error, None
                raise error


@pytest.fixture(params=["memory", "sqlite"])
def gate(request, tmp_path):
    plain = MemoryStore() if request.param == "memory" else SQLiteStore(
        tmp_path / "x.ledger", create=True)
    yield Gate(plain)
    plain.close()


@pytest.fixture
def history(gate):
    """A history with its first two entries, and nothing counted yet."""
    ledger = Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    lines = [entry.event for entry in ledger._history.store.read()]
    history = History(gate)
    history.commit(lambda state: lines)
    gate.transactions = 0
    gate.entered.clear()
    return history


def note(number):
    return lambda state: said(("refused", {"number": number}))


def numbers(history):
    return [body_of(entry)["number"] for entry in history.store.read()
            if entry.event.kind == "refused"]


def together(history, gate, decisions):
    """Let one commit wait in its transaction until the others stand in line, in their order.

    Returns what each of them returned or raised; the first is a commit of its own.
    """
    found = [None] * (len(decisions) + 1)

    def run(place, decide):
        try:
            found[place] = history.commit(decide)
        except BaseException as error:
            found[place] = error

    gate.begin.clear()
    threads = [threading.Thread(target=run, args=(0, note("first")))]
    threads[0].start()
    assert gate.entered.wait(120)
    for place, decide in enumerate(decisions, 1):
        threads.append(threading.Thread(target=run, args=(place, decide)))
        threads[-1].start()
        until(lambda place=place: len(history._queue._waiting) == place)
    gate.begin.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return found


def until(true):
    stop = time.monotonic() + 120
    while not true():
        assert time.monotonic() < stop
        time.sleep(0.001)


def test_who_waits_is_written_in_one_transaction_first_come_first(history, gate):
    found = together(history, gate, [note(number) for number in range(20)])
    assert gate.transactions == 2  # the first alone, then all that waited for it
    assert numbers(history) == ["first", *range(20)]
    assert [body_of(entries[0])["number"] for entries in found] == ["first", *range(20)]
    assert history.state.position == history.store.read()[-1].position


def test_a_long_line_is_cut_into_batches(history, gate, monkeypatch):
    monkeypatch.setattr("privledger.ledger.queue.MOST", 3)
    together(history, gate, [note(number) for number in range(8)])
    assert gate.transactions == 4 and numbers(history) == ["first", *range(8)]


class No(Exception):
    pass


def refuse(state):
    raise No


def twice(state):
    """Lines of which the second cannot follow: the first must not stay."""
    return said(("refused", {"number": "torn"}), ("invented", {}))


@pytest.mark.parametrize(("bad", "error"), [(refuse, No), (twice, pl.errors.LedgerCorrupt)])
def test_a_refusal_in_the_middle_is_nobody_elses(history, gate, bad, error):
    history.note(NOTED)
    found = together(history, gate, [note(1), bad, note(2), bad, note(3)])
    assert [type(found[place]) for place in (2, 4)] == [error, error]
    assert numbers(history) == ["noted", "first", 1, 2, 3] and gate.transactions == 2
    assert history.state.refusals == 5 and audit(history.store) == []
    history.commit(note(4))
    assert numbers(history)[-1] == 4 and audit(history.store) == []


def test_a_refusal_alone_writes_nothing_not_even_what_was_noted(history):
    history.note(NOTED)
    refused(No, lambda: history.commit(refuse))
    assert numbers(history) == []
    history.flush()
    assert numbers(history) == ["noted"]


@pytest.mark.parametrize("error", [pl.LedgerError("the disk is full"), sqlite3.OperationalError(
    "disk I/O error"), No(), KeyboardInterrupt()])
def test_a_transaction_that_fails_fails_everybody_in_it(history, gate, error):
    before = history.state.position
    history.note(NOTED)
    gate.commit.clear()
    gate.error = error
    release = threading.Timer(0.1, gate.commit.set)
    release.start()
    found = together(history, gate, [note(1), note(2)])
    # The first transaction failed, with its only ticket; the second was fine.
    assert isinstance(found[0], BaseException) and numbers(history) == ["noted", 1, 2]

    gate.begin.clear()
    gate.entered.clear()
    gate.error = error
    found = together(history, gate, [])
    assert isinstance(found[0], BaseException)
    assert numbers(history) == ["noted", 1, 2] and history.state.position == before + 3
    history.commit(note(3))
    assert numbers(history) == ["noted", 1, 2, 3] and audit(history.store) == []


class FailsOnce:
    """A store whose transaction number `which` fails: at its commit, or when all is durable."""

    def __init__(self, store, which, error, *, durable=False):
        self._store, self._left, self._error, self._durable = store, which, error, durable

    def __getattr__(self, name):
        return getattr(self._store, name)

    def _fails(self, durable):
        if self._left == 0 and durable is self._durable:
            raise self._error

    @contextmanager
    def transaction(self):
        self._left -= 1
        with self._store.transaction() as transaction:
            yield transaction
            self._fails(False)
        self._fails(True)


def test_nobody_of_a_failed_batch_is_told_that_it_was_written(history, gate):
    gate._store = FailsOnce(gate._store, 2, pl.LedgerError("full"))
    found = together(history, gate, [note(1), refuse, note(2)])
    assert body_of(found[0][0]) == {"number": "first"} and numbers(history) == ["first"]
    assert all(isinstance(one, BaseException) for one in found[1:])
    history.commit(note(3))
    assert numbers(history) == ["first", 3] and history.state.refusals == 2
    assert audit(history.store) == []


@pytest.mark.parametrize("durable", [False, True])
def test_an_interrupt_is_for_the_thread_it_came_to(history, gate, durable):
    """The others of its batch are decided again, or are told what has arrived: each once."""
    gate._store = FailsOnce(gate._store, 2, KeyboardInterrupt(), durable=durable)
    history.note(NOTED)
    found = together(history, gate, [note(1), refuse, note(2), note(3)])
    hit = [place for place, one in enumerate(found) if isinstance(one, KeyboardInterrupt)]
    assert len(hit) == 1 and (hit == [2] or isinstance(found[2], No))
    told = [body_of(one[0])["number"] for one in found if isinstance(one, list)]
    there = numbers(history)
    assert len(told) >= 3 and set(told) <= set(there) and len(set(there)) == len(there)
    assert history.refresh().refusals == len(there) and audit(history.store) == []
    history.commit(note(9))
    assert numbers(history)[-1] == 9 and not history._pending and audit(history.store) == []


def test_a_commit_that_was_durable_although_it_failed_is_found_afterwards(history, gate):
    """The answer was lost, not the entry: the charge stands."""
    gate._store = FailsOnce(gate._store, 1, pl.LedgerError("connection lost"), durable=True)
    refused(pl.LedgerError, lambda: history.commit(note(1)))
    assert history.refresh().refusals == 1 and numbers(history) == [1]
    history.commit(note(2))
    assert numbers(history) == [1, 2] and history.state.refusals == 2


def test_nobody_sees_what_is_not_durable_yet(history, gate):
    gate.commit.clear()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(history.commit(note(1))))
    thread.start()
    until(lambda: gate.transactions == 1)
    time.sleep(0.05)  # it is decided and waits for its commit
    assert history.state.refusals == 0 and history.receipt().entries == 2 and not seen
    gate.commit.set()
    thread.join(120)
    assert history.state.refusals == 1 and history.receipt().entries == 3 and seen


def test_each_decision_sees_what_was_decided_before_it(history, gate):
    def once(state):
        if state.refusals >= 3:
            raise No
        return note(state.refusals)(state)

    found = together(history, gate, [once] * 9)
    assert sum(isinstance(one, No) for one in found) == 7
    assert numbers(history) == ["first", 1, 2]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_never_get_more_than_there_is(kind, tmp_path, schema, table):
    place = None if kind == "memory" else tmp_path / "x.ledger"
    ledger, data = protected(pl.Budget(1.0, 1e-6), *table, schema, place=place, filter="gdp")
    plan = pl.Gaussian(pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), 40), 1.0, 1e-6))
    granted, barrier = [], threading.Barrier(16)

    def work():
        barrier.wait()
        for _ in range(6):
            with suppress(pl.BudgetExceeded):
                granted.append(ledger.request(plan, data).grant)

    at_once(16, work)
    assert len(granted) == len(set(granted)) == len(ledger.state.grants) == 40
    assert ledger.spent <= 1.0 and ledger.verify() == []
    ledger.close()


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(st.lists(st.sampled_from(["ok", "no", "torn"]), max_size=6), max_size=6))
def test_any_batches_leave_what_one_after_the_other_would(batches):
    """A batch is decided by hand here, without threads: the same code, every outcome."""
    history = History(Ledger.create(None, budget=pl.Budget(1.0), filter="basic")._history.store)
    expected, count = [], 0
    for batch in batches:
        tickets = []
        for what in batch:
            count += 1
            tickets.append(Ticket({"ok": note(count), "no": refuse, "torn": twice}[what], {}))
            expected += [count] if what == "ok" else []
        history._write(tickets)
        assert [ticket.error is None for ticket in tickets] == [what == "ok" for what in batch]
        assert numbers(history) == expected and history.state.refusals == len(expected)
        assert audit(history.store) == []


# The line itself.

@pytest.mark.parametrize("when", ["in line", "when it could lead"])
def test_one_who_gives_up_is_not_served_and_holds_nobody_up(when):
    served, release, started = [], threading.Event(), threading.Event()

    def write(tickets):
        started.set()
        release.wait(120)
        served.extend(ticket.decide for ticket in tickets)

    queue = CommitQueue(write)

    class Interrupted(Ticket):
        def is_done(self):
            if when == "in line" or release.is_set():
                raise KeyboardInterrupt
            return False

    def give_up():
        refused(KeyboardInterrupt, lambda: queue.run(Interrupted("interrupted", {})))

    threads = [threading.Thread(target=queue.run, args=(Ticket("first", {}),)),
               threading.Thread(target=give_up),
               threading.Thread(target=queue.run, args=(Ticket("last", {}),))]
    for number, thread in enumerate(threads):
        thread.start()
        if number == 0:
            assert started.wait(120)
        else:
            until(lambda number=number: len(queue._waiting) == number)
    release.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if when != "in line":  # somebody else may have taken the lead, and served it, before
        served = [one for one in served if one != "interrupted"]
    assert served == ["first", "last"] and not queue._waiting


def test_threads_get_their_turns(tmp_path):
    """Every thread has its share while all of them ask, and a commit takes the disk's time."""
    got, barrier, left = [0] * 8, threading.Barrier(8), iter(range(8))
    ledger = pl.Ledger.create(tmp_path / "x.ledger", budget=pl.Budget(1.0), filter="basic")

    def work():
        number = next(left)
        barrier.wait()
        while sum(got) < 400:
            ledger._history.commit(note(number))
            got[number] += 1

    at_once(8, work)
    assert min(got) >= 0.05 * sum(got)
    ledger.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads(tmp_path):
    """Another thread led a commit while the process forked; in the child nobody leads."""
    schema = schema_of("s", {"x": (0.0, 1.0)})
    ledger, data = protected(pl.Budget(9.0, 0.0), {"x": [0.5]}, schema, place=tmp_path / "l.db")
    ledger.request(pl.Laplace(8.0), data).close()
    leading, done = threading.Event(), threading.Event()

    def decide(state):
        leading.set()
        done.wait(120)
        return []

    thread = threading.Thread(target=lambda: ledger._history.commit(decide))
    thread.start()
    leading.wait(120)
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that waits for ever is killed
        try:
            ledger.request(pl.Laplace(8.0), data).close()
        except BaseException:
            os._exit(3)
        os._exit(0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(ledger.state.grants) == 2
    assert ledger.verify() == []
