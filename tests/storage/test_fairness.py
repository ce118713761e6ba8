"""Processes that race for one file: each gets its turns, and none gets more than there is."""

import multiprocessing
import sqlite3
import threading
import time

import numpy as np
import pytest

import privledger as pl
from privledger.storage import SQLiteStore, sqlite_open
from tests.worlds import schema_of

SCHEMA = schema_of("numbers", {"x": (0, 1)})
PLAN = pl.Gaussian(1000.0)


def race(place, number, got, start, rounds):
    with pl.Ledger.open(place) as ledger:
        data = ledger.protect({"x": np.linspace(0, 1, 10)}, None, SCHEMA)
        start.wait(120)
        while sum(got) < rounds:
            ledger.request(PLAN, data).close()
            got[number] += 1  # nobody else writes here


@pytest.mark.parametrize(("processes", "rounds"), [
    (3, 120), pytest.param(8, 1000, marks=pytest.mark.slow)])
def test_processes_get_their_turns(tmp_path, processes, rounds):
    place = str(tmp_path / "x.ledger")
    pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp").close()
    context = multiprocessing.get_context("spawn")
    got = context.Array("i", processes, lock=False)
    start = context.Barrier(processes)
    children = [context.Process(target=race, args=(place, number, got, start, rounds))
                for number in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    assert min(got) >= 0.05 * sum(got), list(got)
    with pl.Ledger.open(place) as ledger:
        assert len(ledger.state.grants) == sum(got) and ledger.verify() == []


def test_who_waits_for_the_lock_gets_it_soon_after_it_is_free(tmp_path):
    """SQLite's own waiting would come back after a tenth of a second, and later and later."""
    store = SQLiteStore(tmp_path / "x.ledger", create=True)
    holder = sqlite3.connect(store.location, isolation_level=None, check_same_thread=False)
    freed, gaps = [], []

    def free():
        time.sleep(0.3)
        freed.append(time.monotonic())
        holder.execute("ROLLBACK")

    for _ in range(5):
        holder.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=free)
        thread.start()
        with store.transaction():
            gaps.append(time.monotonic() - freed[-1])
        thread.join()
    assert min(gaps) < 10 * sqlite_open.WAIT  # the best of five: others use this machine too
    holder.close()
    store.close()
