"""kill -9 at every named write point, and at random times: what was acknowledged is there.

A child works on a ledger and says on a pipe what it was told. It is killed before or after a
statement of its own choosing, or by its parent at a random time. Then the file is opened again.
(Kills between two calls of the C library are in test_torn_files.py.)
"""

import json
import os
import random
import select
import shutil
import signal
from collections import Counter

import pytest

import privledger as pl
from tests.faults.small import die, guard
from tests.worlds import refused

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

SEED = 20261120
G = pl.Gaussian(16.0)
WORDS = ("BEGIN", "SELECT", "INSERT INTO entries", "INSERT INTO vectors", "COMMIT",
         "PRAGMA wal_checkpoint")
POINTS = [(word, when, turn) for word in WORDS for when in ("before", "after")
          for turn in (1, 2, 3, 5)] + [("", "at random", 0)] * 16


class Doomed:
    """A connection whose process dies before or after the n-th statement that begins so."""

    def __init__(self, connection, word, when, turn):
        self._connection, self._word, self._when, self._left = connection, word, when, turn

    def _run(self, method, statement, *more):
        hit = bool(self._word) and str(statement).lstrip().startswith(self._word)
        self._left -= hit
        if hit and self._left == 0 and self._when == "before":
            die()
        done = method(statement, *more)
        if hit and self._left == 0:
            die()
        return done

    def execute(self, statement, *more):
        return self._run(self._connection.execute, statement, *more)

    def executemany(self, statement, *more):
        return self._run(self._connection.executemany, statement, *more)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def work(path, point, tell):
    """Grants, releases, settlements with a vector, a correction, copies of the log."""
    ledger = pl.Ledger.open(path)
    store = ledger._history.store
    store._connection = Doomed(store._connect(), *point)
    data = guard(ledger)
    node = pl.IndividualFilter("gdp", 2 / 16.0**2 * 1.01, node=pl.Repeat(G, 2))
    while True:
        session = ledger.request(pl.Repeat(G, 2), data)
        tell("granted", session.grant)
        session.release(G, data.count())
        session.close()
        tell("settled", session.grant)
        with ledger.request(node, data) as filtered:
            tell("granted", filtered.grant)
            filtered.release(G, filtered.filtered(node).sum("x"))
        tell("settled", filtered.grant)
        ledger.correct(session.grant, pl.Repeat(G, 3), "an audit")
        tell("corrected", session.grant)
        store._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def trial(path, point, patience):
    """What the child said before it died."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            work(path, point, lambda *said: os.write(writing, json.dumps(said).encode() + b"\n"))
        finally:
            os._exit(0)  # it ran out of budget
    os.close(writing)
    if point[0] == "":
        select.select([], [], [], patience)
        os.kill(pid, signal.SIGKILL)
    with open(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    lines = text.splitlines(keepends=True)
    return status, [json.loads(line) for line in lines if line.endswith("\n")]


def check(path, said):
    """Every acknowledged charge is there, at its full price."""
    told = Counter(what for what, _ in said)
    with pl.Ledger.open(path) as ledger:
        assert ledger.verify() == []
        state = ledger.state
        for what, name in said:
            grant = state.grants[name]
            if what == "settled":
                assert grant.status == "settled" and grant.releases == 1
            if what == "corrected":
                assert grant.corrected
        assert {grant.status for grant in state.grants.values()} <= {"settled", "crashed"}
        # What was under way may have arrived without its acknowledgement: once.
        assert told["granted"] <= len(state.grants) <= told["granted"] + 1
        settled = sum(grant.status == "settled" for grant in state.grants.values())
        assert told["settled"] <= settled <= told["settled"] + 1
        assert state.units >= told["granted"] * 2 * 2**192 // 256
    return bool(said)


def trials(template, folder, number, seed=SEED):
    """How many trials ended by the kill, and at how many points."""
    print(f"seed {seed}")
    luck, killed = random.Random(seed), Counter()
    for turn in range(number):
        point = POINTS[turn % len(POINTS)]
        path = folder / f"{turn}.db"
        shutil.copy(template, path)
        status, said = trial(path, point, luck.uniform(0, 0.06))
        killed[point] += status == signal.SIGKILL
        check(path, said)
        for left in folder.glob(f"{turn}.db*"):
            left.unlink()
    return killed


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "template.db"
    pl.Ledger.create(path, budget=pl.Budget(50.0, 1e-6), filter="gdp").close()
    return path


def test_killed_at_every_named_point(template, tmp_path):
    killed = trials(template, tmp_path, len(POINTS))
    assert all(killed[point] for point in POINTS)


@pytest.mark.slow
def test_killed_a_thousand_times(template, tmp_path):
    killed = trials(template, tmp_path, 1000, SEED + 1)
    assert sum(killed.values()) == 1000
    print(f"{sum(killed.values())} of 1000 killed, at {len(killed)} points")


def test_an_acknowledgement_before_the_commit_would_be_noticed(template, tmp_path, monkeypatch):
    """The deliberate fault: a store that says yes and writes later."""
    class Late(Doomed):
        def execute(self, statement, *more):
            if statement == "COMMIT":
                return self._connection.execute("ROLLBACK")
            return super().execute(statement, *more)

    monkeypatch.setitem(globals(), "Doomed", Late)
    _, said = trial(template, ("INSERT INTO entries", "before", 5), 0)
    assert said
    refused((AssertionError, KeyError), lambda: check(template, said))
