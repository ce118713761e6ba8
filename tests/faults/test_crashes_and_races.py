"""Processes that die, race or run out of disk: the budget is never handed out twice."""

import os
import sqlite3
import threading
import time

import pytest

import privledger as pl
from privledger.rounding import from_units
from privledger.storage import SQLiteStore
from tests.faults.small import die, guard, in_child
from tests.worlds import refused, together

G = pl.Gaussian(5.0)
PLAN = pl.Repeat(G, 4)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@pytest.fixture
def path(tmp_path):
    pl.Ledger.create(tmp_path / "l.db", budget=pl.Budget(2.0, 1e-6), filter="gdp").close()
    return tmp_path / "l.db"


def reserve_and_die(path, releases):
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    session = ledger.request(PLAN, data)
    for _ in range(releases):
        session.release(G, data.count())
    die()


@needs_fork
@pytest.mark.parametrize("releases", [0, 1, 3])
def test_a_killed_process_leaves_its_whole_reservation_spent(path, releases):
    status = in_child(lambda: reserve_and_die(path, releases))
    assert os.WIFSIGNALED(status)
    with pl.Ledger.open(path) as ledger:
        (grant,) = ledger.state.grants.values()
        assert grant.status == "crashed"
        assert ledger.spent == pytest.approx(pl.epsilon(PLAN, 1e-6), rel=1e-9)
        assert ledger.verify() == []
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(1.0), guard(ledger)))
    with pl.Ledger.open(path) as ledger:  # marked once, not at every opening
        assert [e.event.kind for e in ledger._history.store.read()].count("crashed") == 1


@needs_fork
def test_killed_before_the_commit_means_nothing_was_granted(path):
    def work():
        ledger = pl.Ledger.open(path)
        data = guard(ledger)

        def stop(statement):
            if statement.startswith("COMMIT"):
                die()

        ledger._history.store._connect().set_trace_callback(stop)
        ledger.request(PLAN, data)

    assert os.WIFSIGNALED(in_child(work))
    with pl.Ledger.open(path) as ledger:
        assert ledger.spent == 0 and ledger.state.grants == {} and ledger.verify() == []


@needs_fork
def test_killed_while_settling_keeps_the_charge(path):
    def work():
        ledger = pl.Ledger.open(path)
        data = guard(ledger)
        session = ledger.request(PLAN, data)
        session.release(G, data.count())
        ledger._history.store._connect().set_trace_callback(
            lambda statement: die() if statement.startswith("INSERT") else None)
        session.close()

    assert os.WIFSIGNALED(in_child(work))
    with pl.Ledger.open(path) as ledger:
        assert ledger.spent == pytest.approx(pl.epsilon(PLAN, 1e-6), rel=1e-9)
        assert next(iter(ledger.state.grants.values())).status == "crashed"
        assert ledger.verify() == []


def test_a_living_holder_is_not_marked_as_crashed(path):
    with pl.Ledger.open(path) as ledger:
        session = ledger.request(PLAN, guard(ledger))
        with pl.Ledger.open(path) as other:
            assert next(iter(other.state.grants.values())).status == "granted"
        session.close()
        assert next(iter(ledger.state.grants.values())).status == "settled"


@needs_fork
def test_a_crash_in_a_scope_counts_in_full(path):
    cap = 4 / 20.0**2 * (1 + 1e-9)
    node = pl.IndividualFilter("gdp", cap)
    inside = pl.IndividualFilter("gdp", cap, node=pl.Repeat(pl.Gaussian(20.0), 2))

    def work():
        ledger = pl.Ledger.open(path)
        scope = ledger.open_scope(node, name="s")
        session = ledger.request(inside, guard(ledger), scope=scope)
        session.release(pl.Gaussian(20.0), session.filtered().sum("x"))
        die()

    in_child(work)
    with pl.Ledger.open(path) as ledger:
        scope = ledger.open_scope(node, name="s")
        line = ledger.record(0).lines[0]
        assert line.basis == "unfinished, worst case"
        assert line.share == pytest.approx(0.5, rel=1e-6)
        with ledger.request(node, guard(ledger), scope=scope) as session:
            handle = session.filtered()
            big = [session.release(pl.Gaussian(20.0), handle.count()) for _ in range(4)]
        # Two more full rounds fit below the cap of four; the two after that find nobody.
        assert all(abs(answer - 50) < 200 for answer in big[:2])
        assert ledger.record(0).lines[1].rounds == 2
        assert ledger.verify() == []


# Threads. (Races for the last unit, of threads and processes: test_races.py.)

@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_threads_race_for_the_last_of_the_budget(tmp_path, where):
    mu = 1 / 8.0**2
    ledger = pl.Ledger.create(None if where == "memory" else tmp_path / "l.db",
                              budget=pl.Budget(2.0, 1e-6), filter="gdp")
    room = int(from_units(ledger.state.rule.cap_units) / mu)
    data, granted, barrier = guard(ledger), [], threading.Barrier(8)

    def ask():
        barrier.wait(120)
        for _ in range(room):
            try:
                with ledger.request(pl.Gaussian(8.0), data) as session:
                    session.release(pl.Gaussian(8.0), data.count())
                granted.append(1)
            except pl.BudgetExceeded:
                pass

    together(8, ask)
    assert len(granted) == room
    assert data._vault.opened == room
    assert ledger.verify() == []


def test_threads_share_one_grant_without_exceeding_it(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)
    session = ledger.request(pl.Repeat(G, 50), data)
    done, turned_away, barrier = [], [], threading.Barrier(6)

    def ask():
        barrier.wait(120)
        for _ in range(20):
            try:
                session.release(G, data.count())
                done.append(1)
            except pl.NotGranted:
                turned_away.append(1)

    together(6, ask)
    session.close()
    assert (len(done), len(turned_away), session.releases) == (50, 70, 50)
    assert ledger.verify() == []


def test_threads_of_one_scope_never_pass_a_cap_together(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)
    node = pl.IndividualFilter("gdp", 10 / 20.0**2 * (1 + 1e-9))
    scope = ledger.open_scope(node)
    barrier = threading.Barrier(4)

    def ask():
        barrier.wait(120)
        for _ in range(6):
            with ledger.request(pl.IndividualFilter(
                    "gdp", node.cap, node=pl.Gaussian(20.0)), data, scope=scope,
                    wait=120.0) as session:
                session.release(pl.Gaussian(20.0), session.filtered().count())

    together(4, ask)
    assert [grant.status for grant in ledger.state.grants.values()] == ["settled"] * 24
    assert [line.rounds for line in ledger.record(0).lines].count(1) == 10
    assert ledger.record(0).total <= node.cap * (1 + 1e-12)
    assert ledger.verify() == []


# Disk.

def full(store):
    """Let the file grow by nothing more."""
    connection = store._connect()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_grants_nothing_and_reads_nothing(path):
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    full(ledger._history.store)
    granted = 0
    while granted < 200:
        try:
            ledger.request(pl.Gaussian(1e5), data, learner="x" * 200)
        except pl.LedgerError as error:
            assert "full" in str(error)
            break
        granted += 1
    assert granted < 200
    assert data._vault.opened == 0
    assert len(ledger.state.grants) == granted
    spent = ledger.spent
    ledger._history.store._connect().execute("PRAGMA max_page_count = 100000")
    ledger.request(G, data).close()  # space again: the ledger goes on where it was
    assert ledger.spent > spent and ledger.verify() == []
    ledger.close()


class Broken:
    """A connection whose statements fail from a certain one on."""

    def __init__(self, connection, word, error):
        self._connection, self._word, self._error = connection, word, error

    def execute(self, statement, *more):
        if statement.startswith(self._word):
            raise self._error
        return self._connection.execute(statement, *more)

    def cursor(self):
        return Broken(self._connection.cursor(), self._word, self._error)

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.mark.parametrize("word", ["BEGIN", "INSERT", "COMMIT", "SELECT position"])
@pytest.mark.parametrize(("message", "kind"), [
    ("database or disk is full", pl.LedgerError), ("disk I/O error", pl.LedgerError),
    ("database is locked", pl.errors.LedgerBusy),
    ("attempt to write a readonly database", pl.LedgerError),
    ("database disk image is malformed", pl.errors.LedgerCorrupt)])
def test_a_failing_store_grants_nothing(path, word, message, kind):
    ledger = pl.Ledger.open(path)
    data, store = guard(ledger), ledger._history.store
    sound = store._connect()
    store._connection = Broken(sound, word, sqlite3.OperationalError(message))
    refused(kind, lambda: ledger.request(G, data))
    assert data._vault.opened == 0
    store._connection = sound
    assert ledger.spent == 0 and ledger.state.grants == {}
    ledger.request(G, data).close()
    assert ledger.verify() == []
    ledger.close()


def test_a_store_that_fails_while_settling_keeps_the_charge(path):
    ledger = pl.Ledger.open(path)
    data, store = guard(ledger), ledger._history.store
    session = ledger.request(G, data)
    session.release(G, data.count())
    sound = store._connect()
    store._connection = Broken(sound, "COMMIT", sqlite3.OperationalError("disk is full"))
    refused(pl.LedgerError, lambda: session.close())
    store._connection = sound
    refused(pl.NotGranted, lambda: session.release(G, data.count()))
    assert ledger.spent == pytest.approx(pl.epsilon(G, 1e-6), rel=1e-9)
    ledger.close()


def test_a_lock_held_elsewhere_is_busy_and_grants_nothing(path, monkeypatch):
    monkeypatch.setattr("privledger.storage.sqlite.BUSY_SECONDS", 0.2)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    ledger = pl.Ledger.open(path)
    data, started = guard(ledger), time.monotonic()
    refused(pl.errors.LedgerBusy, lambda: ledger.request(G, data))
    assert time.monotonic() - started < 60 and data._vault.opened == 0
    holder.execute("ROLLBACK")
    ledger.request(G, data).close()
    assert len(ledger.state.grants) == 1
    ledger.close()
    holder.close()


# Exceptions inside a grant.

class Oops(Exception):
    pass


@pytest.mark.parametrize("error", [Oops, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("touched", [False, True])
def test_an_exception_keeps_the_charge_unless_nothing_was_touched(make_ledger, error, touched):
    ledger = make_ledger()
    data = guard(ledger)

    def fail():
        with ledger.request(PLAN, data) as session:
            if touched:
                session.release(G, data.count())
            raise error

    refused(error, fail)
    assert bool(ledger.spent) is touched
    (grant,) = ledger.state.grants.values()
    assert grant.status == ("settled" if touched else "aborted")
    assert grant.releases == touched and ledger.verify() == []


def test_an_unused_grant_that_ends_well_is_spent(make_ledger):
    """Only a grant that failed before it touched anything is handed back."""
    ledger = make_ledger()
    ledger.request(PLAN, guard(ledger)).close()
    assert ledger.spent > 0


def test_a_failed_release_counts_as_a_touch(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)

    def bad(columns):
        raise Oops("secret 0.123456")

    with pytest.raises(pl.errors.DataError), ledger.request(PLAN, data) as session:
        session.release(G, data.custom(bad, 1.0, "why"))
    assert ledger.spent > 0
    assert next(iter(ledger.state.grants.values())).touched


def test_a_refused_release_counts_as_no_touch(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)
    with pytest.raises(pl.NotGranted), ledger.request(PLAN, data) as session:
        session.release(pl.Gaussian(0.1), data.count())
    assert ledger.spent == 0 and data._vault.opened == 0


def test_a_hook_that_stops_the_fit_keeps_the_charge(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)

    def stop(releases):
        raise Oops

    ledger.on_release = stop
    with pytest.raises(Oops), ledger.request(PLAN, data) as session:
        session.release(G, data.count())
    assert ledger.spent > 0


# Forks.

def answer_of_child(work):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = repr(work())
        except BaseException as error:
            found = type(error).__name__
        os.write(writer, found.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return file.read().decode()


@needs_fork
def test_a_forked_child_cannot_use_its_parents_grant(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)
    with ledger.request(PLAN, data) as session:
        assert answer_of_child(lambda: session.release(G, data.count())) == "NotGranted"
        assert answer_of_child(lambda: session.close()) == "None"
        session.release(G, data.count())
    assert ledger.verify() == [] and session.releases == 1


@needs_fork
def test_a_forked_child_cannot_spend_a_copy_of_a_ledger_in_memory(make_ledger):
    ledger = make_ledger()
    data = guard(ledger)
    assert answer_of_child(lambda: ledger.request(G, data)) == "LedgerError"
    ledger.request(G, data).close()


@needs_fork
def test_a_forked_child_shares_the_budget_of_a_file(path):
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    ledger.request(G, data).close()

    def work():
        ledger.request(G, data).close()
        return len(ledger.state.grants)

    assert answer_of_child(work) == "2"
    assert len(ledger.state.grants) == 2
    assert ledger.verify() == []
    ledger.close()


@needs_fork
def test_parent_and_child_never_draw_equal_noise(make_ledger, path):
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    source = ledger._source
    source.gaussian(1e9, 1)
    child = answer_of_child(lambda: source.gaussian(1e9, 4).tolist())
    assert child != repr(source.gaussian(1e9, 4).tolist())
    assert data is not None
    ledger.close()


def test_a_ledger_file_opens_in_a_store_without_a_thread_of_its_own(path):
    found = []

    def work():
        with pl.Ledger.open(path) as ledger:
            ledger.request(G, guard(ledger)).close()
            found.append(ledger.spent)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert found and found[0] > 0
    store = SQLiteStore(path)
    assert len(store.read()) == 5  # created, filter, protected, granted, settled
    store.close()
