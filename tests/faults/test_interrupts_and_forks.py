"""Ctrl-C and forks beside busy threads: nothing hangs, nothing is lost, nothing is spent twice."""

import os
import subprocess
import sys
import threading
from textwrap import dedent

import pytest

import privledger as pl
from privledger.mutex import Mutex
from privledger.noise.source import SystemSource
from tests.faults.small import guard

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

BEGIN = """
import _thread, os, random, signal, sys, threading, time
import numpy as np
import privledger as pl
signal.alarm(120)
SCHEMA = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
path = sys.argv[1]
ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp")
data = ledger.protect({"x": np.linspace(0, 1, 50)}, SCHEMA, name="rows")
query = pl.questions.Query(data, (pl.questions.Ones(),))
G = pl.Gaussian(400.0)
stop = threading.Event()

def use():
    with ledger.request(G, data) as session:
        session.release(G, query)
    return session.grant
"""


def run(tmp_path, text):
    """A script of its own: an interrupt must not hit the test runner. A hang is killed."""
    done = subprocess.run([sys.executable, "-c", dedent(BEGIN) + dedent(text),
                           str(tmp_path / "x.ledger")], timeout=240, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] or f"killed by {-done.returncode}"
    return done.stdout


def test_ctrl_c_while_two_threads_share_a_ledger_hangs_nobody(tmp_path):
    run(tmp_path, """
        mine, others, broken = [], [], []
        def other():
            try:
                while not stop.is_set():
                    others.append(use())
            except BaseException as error:  # an interrupt is for the thread it came to
                broken.append(error)
        def teaser():
            for _ in range(60):
                time.sleep(random.random() * 0.01)
                _thread.interrupt_main()
            stop.set()
        threads = [threading.Thread(target=other), threading.Thread(target=teaser)]
        def work():
            while not stop.is_set():
                mine.append(use())
        def hit(number, frame):
            while frame is not None:  # only while it works: the rest of this script is no subject
                if frame.f_code is work.__code__:
                    raise KeyboardInterrupt
                frame = frame.f_back
        signal.signal(signal.SIGINT, hit)
        [one.start() for one in threads]
        while not stop.is_set():
            try:
                work()
            except KeyboardInterrupt:
                pass
        [one.join(120) for one in threads]
        assert not any(one.is_alive() for one in threads)
        use()
        state = ledger.state
        assert not broken, broken
        assert set(mine) | set(others) <= set(state.grants) and len(set(others)) == len(others)
        assert all(state.grants[name].releases == 1 for name in others)
        assert ledger.verify() == []
        # A grant that an interrupt took from its owner stays charged.
        assert state.units == sum(grant.charged[0] for grant in state.grants.values())
        ledger.close()
    """)


@needs_fork
def test_a_fork_beside_busy_threads_leaves_the_child_free(tmp_path):
    """Ten of ten. A child's grants survive that its parent, or its sister, closes first."""
    run(tmp_path, """
        def other():
            while not stop.is_set():
                use()
        threads = [threading.Thread(target=other) for _ in range(3)]
        [one.start() for one in threads]
        pids = []
        for number in range(10):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    signal.alarm(120)
                    time.sleep(0.02)
                    use()
                    status = 0
                finally:
                    os._exit(status)
            pids.append(pid)
        stop.set()
        [one.join() for one in threads]
        before = len(ledger.state.grants)
        ledger.close()
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 10
        with pl.Ledger.open(path) as again:
            mine = [one for one in again.state.grants.values()
                    if one.event.holder.pid in pids]
            assert len(mine) == 10 and {one.releases for one in mine} == {1}
            assert again.verify() == []
    """)


@needs_fork
def test_a_child_writes_on_although_its_parent_closed_first(tmp_path):
    """SQLite's own locks must be the child's: else the last to close removes its log."""
    run(tmp_path, """
        use()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(120)
                use()
                os.write(write, b"x")
                time.sleep(0.3)
                use()
                status = 0
            finally:
                os._exit(status)
        assert os.read(read, 1) == b"x"
        ledger.close()
        with pl.Ledger.open(path) as other:
            pass
        assert os.waitpid(pid, 0)[1] == 0
        with pl.Ledger.open(path) as again:
            assert len(again.state.grants) == 3 and again.verify() == []
    """)


@needs_fork
def test_a_fork_in_the_middle_of_a_transaction_is_refused_in_the_child(tmp_path):
    run(tmp_path, """
        def decide(state):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    signal.alarm(120)
                    use()
                except pl.LedgerError as error:
                    status = 0 if "forked" in str(error) else 2
                finally:
                    os._exit(status)
            assert os.waitpid(pid, 0)[1] == 0
            return []
        ledger._history.commit(decide)
        use()
        assert len(ledger.state.grants) == 1 and ledger.verify() == []
    """)


@needs_fork
def test_no_lock_of_a_vault_a_session_or_a_source_crosses_a_fork(tmp_path):
    run(tmp_path, """
        from privledger.guard.handle import _granted
        session = ledger.request(pl.Repeat(G, 3), data)
        granted = _granted(session)
        source = granted._source
        held, go = threading.Event(), threading.Event()
        def hold():
            with granted._lock, granted.vault.lock, ledger._history._lock:
                source._pool._lock.acquire()
                held.set()
                go.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(120)
                session.close()  # its parent's: nothing happens
                use()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        go.set()
        thread.join()
    """)


# The lock.

def test_a_lock_whose_holder_left_is_taken_over():
    lock = Mutex()

    def leave():
        lock.take(sys._getframe())

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    with lock as outermost:
        assert outermost


def test_a_lock_that_its_own_thread_lost_is_taken_over_at_once():
    lock = Mutex()

    def leave():
        lock.take(sys._getframe())

    leave()
    with lock as outermost:
        assert outermost

    def inside():
        with lock as outer:
            return outer

    with lock:
        assert not inside()
        with lock as again:
            assert not again
        assert lock.is_mine()
    assert not lock.is_mine()


def test_a_holder_that_works_long_is_waited_for():
    lock, order, held, go = Mutex(), [], threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            go.wait(120)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(120)
    threading.Timer(0.2, go.set).start()
    with lock:
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_look_that_ends_in_a_generator_proves_nothing(monkeypatch):
    """The thread of the holder may run on during the look, and leave a generator."""
    def numbers():
        yield 1

    generator, lock = numbers(), Mutex()
    next(generator)
    lock.take(sys._getframe())
    held = lock._newest()
    stacks = {held.thread: generator.gi_frame}
    monkeypatch.setattr("privledger.mutex.threads.stacks", lambda: stacks, raising=False)
    assert not held.gone()
    stacks.clear()
    assert held.gone()


# The noise.

def interrupted(call, line):
    """Run `call` and raise an interrupt at the `line`-th line event; whether it came."""
    left = [line]

    def local(frame, event, arg):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return local

    def trace(frame, event, arg):
        return local if "noise/source" in frame.f_code.co_filename else None

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupt_leaves_no_used_or_wiped_words_for_the_next_release():
    line = 1
    while True:
        source = SystemSource()
        first = source.integers64(5)
        hit = interrupted(lambda source=source: source.integers64(100), line)
        more = [*first, *source.integers64(50), *source.integers64(60), *source.integers64(8000)]
        assert 0 not in more and len(set(more)) == len(more)
        if not hit:
            break
        line += 1
    assert line > 10


def test_a_fit_goes_on_where_the_lock_of_the_noise_was_lost(tmp_path):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    ledger._source._pool._lock.acquire()
    data = guard(ledger)
    with ledger.request(pl.Gaussian(5.0), data) as session:
        session.release(pl.Gaussian(5.0), pl.questions.Query(data, (pl.questions.Ones(),)))
