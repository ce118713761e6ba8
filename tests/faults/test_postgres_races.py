"""Many clients on one PostgreSQL ledger: they race, die and lose their connection."""

import os
import threading
import time

import pytest

import privledger as pl
from privledger.storage import store_at
from tests.faults.small import die, guard, in_child
from tests.worlds import refused, together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

G = pl.Gaussian(8.0)
LAST = pl.Budget(pl.epsilon(G, 1e-6) * 1.2, 1e-6)  # room for one grant
CLIENTS = 8


@pytest.fixture
def url(postgres):
    place = postgres.url()
    pl.Ledger.create(place, budget=pl.Budget(2.0, 1e-6), filter="gdp").close()
    return place


def test_threads_with_their_own_connections_never_pass_the_budget(postgres):
    place = postgres.url()
    pl.Ledger.create(place, budget=pl.Budget(2.0, 1e-6), filter="gdp").close()
    with pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp") as model:
        room, data = 0, guard(model)
        while room < 500:
            try:
                model.request(G, data).close()
            except pl.BudgetExceeded:
                break
            room += 1
    granted, barrier = [], threading.Barrier(CLIENTS)

    def ask():
        with pl.Ledger.open(place) as ledger:
            data = guard(ledger)
            barrier.wait(120)
            for _ in range(room):
                try:
                    ledger.request(G, data).close()
                    granted.append(1)
                except pl.BudgetExceeded:
                    break

    together(CLIENTS, ask)
    assert len(granted) == room > 1
    with pl.Ledger.open(place) as ledger:
        assert ledger.verify() == []


def test_of_two_creations_at_once_one_wins(postgres):
    for _ in range(5):
        place, barrier, made, turned_away = postgres.url(), threading.Barrier(4), [], []

        def create(place=place, barrier=barrier, made=made, turned_away=turned_away):
            store = store_at(place, create=True)  # all four find nothing there
            barrier.wait(120)
            try:
                with store.transaction() as transaction:
                    made.append(transaction.ledger)
            except pl.LedgerError as error:
                turned_away.append(str(error))
            store.close()

        together(4, create)
        assert len(made) == 1 and len(turned_away) == 3 and "exists" in turned_away[0]


class Scripted:
    """A connection that does something before, or after, a statement that begins with a word."""

    def __init__(self, connection, word, before=None, after=None):
        self._connection, self._word = connection, word
        self._before, self._after = before, after

    def execute(self, statement, *more, **options):
        hit = str(statement).startswith(self._word)
        if hit and self._before:
            self._before()
        done = self._connection.execute(statement, *more, **options)
        if hit and self._after:
            self._after()
            self._connection.execute("SELECT 1")
        return done

    def __getattr__(self, name):
        return getattr(self._connection, name)


def script(ledger, word, **when):
    store = ledger._history.store
    store._connection = Scripted(store._connect(), word, **when)


@pytest.mark.parametrize("word", ["SELECT privledger.write", "COMMIT"])
def test_a_client_killed_inside_a_transaction_leaves_nothing(url, word):
    def work():
        ledger = pl.Ledger.open(url)
        data = guard(ledger)
        script(ledger, word, before=die)
        ledger.request(G, data)

    assert os.WIFSIGNALED(in_child(work))
    with pl.Ledger.open(url) as ledger:
        assert ledger.spent == 0 and ledger.state.grants == {} and ledger.verify() == []
        ledger.request(G, guard(ledger)).close()  # and its lock is gone


def test_a_client_killed_after_its_grant_leaves_its_reservation_spent(url):
    def work():
        ledger = pl.Ledger.open(url)
        data = guard(ledger)
        ledger.request(G, data).release(G, data.count())
        die()

    assert os.WIFSIGNALED(in_child(work))
    with pl.Ledger.open(url) as ledger:
        (grant,) = ledger.state.grants.values()
        assert grant.status == "crashed" and ledger.verify() == []
        assert ledger.spent == pytest.approx(pl.epsilon(G, 1e-6), rel=1e-9)


def test_a_killed_creation_leaves_no_ledger(postgres):
    place = postgres.url()

    def work():
        store = store_at(place, create=True)
        with store.transaction():
            die()

    assert os.WIFSIGNALED(in_child(work))
    refused(pl.LedgerError, lambda: pl.Ledger.open(place), match="does not exist")
    pl.Ledger.create(place, budget=LAST).close()


def test_a_lock_held_elsewhere_is_busy_and_grants_nothing(postgres, url, monkeypatch):
    monkeypatch.setattr("privledger.storage.postgres.BUSY_SECONDS", 0.2)
    ledger = pl.Ledger.open(url)
    data = guard(ledger)
    with postgres.connect() as holder:
        holder.execute("BEGIN; SELECT * FROM privledger.ledgers FOR UPDATE")
        started = time.monotonic()
        refused(pl.errors.LedgerBusy, lambda: ledger.request(G, data), match="lock")
        assert time.monotonic() - started < 60 and data._vault.opened == 0
        assert ledger.spent == 0  # reading needs no lock
        holder.execute("ROLLBACK")
    ledger.request(G, data).close()
    assert len(ledger.state.grants) == 1 and ledger.verify() == []
    ledger.close()


def end_sessions(postgres):
    postgres.sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                 "WHERE application_name = 'privledger'")


def test_a_connection_lost_between_two_uses_is_made_again(postgres, url):
    with pl.Ledger.open(url) as ledger:
        data = guard(ledger)
        end_sessions(postgres)
        session = ledger.request(G, data)
        session.release(G, data.count())
        end_sessions(postgres)
        session.close()
        end_sessions(postgres)
        assert ledger.state.grants[session.grant].status == "settled" and ledger.verify() == []


def test_a_connection_lost_inside_a_transaction_grants_nothing(postgres, url):
    with pl.Ledger.open(url) as ledger:
        data = guard(ledger)
        script(ledger, "COMMIT", before=lambda: end_sessions(postgres))
        refused(pl.LedgerError, lambda: ledger.request(G, data))
        assert data._vault.opened == 0 and ledger.spent == 0
        ledger.request(G, data).close()
        assert len(ledger.state.grants) == 1 and ledger.verify() == []


def test_a_commit_whose_answer_was_lost_is_asked_for(postgres, url):
    """The grant is in the history: a client that took it for refused would lose its budget."""
    with pl.Ledger.open(url) as ledger:
        data = guard(ledger)
        script(ledger, "COMMIT", after=lambda: end_sessions(postgres))
        session = ledger.request(G, data)
        session.release(G, data.count())
        session.close()
        assert len(ledger.state.grants) == 1 and ledger.verify() == []


@pytest.mark.slow
def test_a_server_that_stops_and_starts_keeps_every_grant(postgres, url):
    with pl.Ledger.open(url) as ledger:
        data = guard(ledger)
        ledger.request(G, data).close()
        spent, receipt = ledger.spent, ledger.receipt
        postgres.stop()
        try:
            refused(pl.LedgerError, lambda: ledger.request(G, data))
            assert data._vault.opened == 0
        finally:
            postgres.start()
        assert ledger.spent == spent and ledger.receipt == receipt
        ledger.request(G, data).close()
        assert ledger.verify() == []


def test_a_forked_child_shares_the_budget_and_not_the_connection(url):
    ledger = pl.Ledger.open(url)
    data, store = guard(ledger), ledger._history.store
    ledger.request(G, data).close()
    session = store._connection.info.backend_pid

    def work():
        ledger.request(G, data).close()
        other = store._connection.info.backend_pid
        ledger.close()
        if len(ledger.state.grants) != 2 or other == session:
            die()

    assert in_child(work) == 0
    assert len(ledger.state.grants) == 2  # the parent's connection still works
    ledger.request(G, data).close()
    assert len(ledger.state.grants) == 3 and ledger.verify() == []
    ledger.close()
