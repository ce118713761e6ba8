"""Each deliberate fault in the ledger breaks the law named beside it; the laws hold without it.

That a missing fsync loses grants in a power cut: test_torn_files.py.
"""

from __future__ import annotations

import copy
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from attrs import evolve

import privledger as pl
from privledger.graph import Meter
from privledger.guard import Ledger, reserve
from privledger.guard.session import GrantedPlan
from privledger.ledger import state as states
from privledger.ledger.codec import decode
from privledger.ledger.entries import GENESIS, make_entry
from privledger.ledger.events import EVENTS
from privledger.ledger.history import History
from privledger.ledger.queue import CommitQueue
from privledger.ledger.state import State
from privledger.storage import (
    MemoryStore,
    SQLiteStore,
    catalog,
    migrate,
    postgres,
    sqlite,
    sqlite_open,
    store_at,
)
from tests.bodies import body_of, said
from tests.doctored import doctor
from tests.faults import races
from tests.faults.small import guard, in_child
from tests.worlds import refused

G = pl.Gaussian(8.0)
Law = Callable[[Path], None]
Patch = Callable[[pytest.MonkeyPatch], None]


# --- laws -------------------------------------------------------------------------------------


def made(place=None, epsilon=1.0, **options):
    return pl.Ledger.create(place, budget=pl.Budget(epsilon, 1e-6), filter="gdp", **options)


def slowly(monkeypatch):
    """Whoever decides takes so long that everybody else would decide in the meantime."""
    right = reserve.decide

    def decide(*arguments):
        decision = right(*arguments)
        time.sleep(0.1)
        return decision

    monkeypatch.setattr(reserve, "decide", decide)


def together(ledgers):
    """What became of one request each, at the same time: names of errors, or "granted"."""
    barrier, found = threading.Barrier(len(ledgers)), []

    def ask(ledger, who):
        data = guard(ledger, f"rows-{who}")
        barrier.wait(120)
        try:
            ledger.request(G, data)
            found.append("granted")
        except Exception as error:
            found.append(type(error).__name__)

    threads = [threading.Thread(target=ask, args=(ledger, who))
               for who, ledger in enumerate(ledgers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return sorted(found)


ONE = ["BudgetExceeded", "BudgetExceeded", "BudgetExceeded", "granted"]


def threads_share_the_last_unit(folder):
    with pytest.MonkeyPatch.context() as patch:
        slowly(patch)
        ledger = pl.Ledger.create(None, budget=races.LAST, filter="gdp")
        assert together([ledger] * 4) == ONE
        assert len(ledger.state.grants) == 1 and ledger.verify() == []


def handles_in_memory_share_the_last_unit(folder):
    """Threads of one handle wait in one line; only several handles need the store's lock."""
    first = pl.Ledger.create(None, budget=races.LAST, filter="gdp")
    handles = [first, *(pl.Ledger(first._history.store, first._source) for _ in range(3))]
    with pytest.MonkeyPatch.context() as patch:
        slowly(patch)
        assert together(handles) == ONE
    assert first.verify() == []


def handles_share_the_last_unit(folder):
    pl.Ledger.create(folder / "h.db", budget=races.LAST, filter="gdp").close()
    handles = [pl.Ledger.open(folder / "h.db") for _ in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        slowly(patch)
        assert together(handles) == ONE
    assert handles[0].verify() == []


def commits_wait_for_the_disk(folder):
    with made(folder / "s.db") as ledger:
        connection = ledger._history.store._connect()
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def rows_are_read_after_the_reservation(folder):
    with made(folder / "t.db") as ledger:
        data, seen = guard(ledger), []

        def look(columns):
            with pl.Ledger.open(folder / "t.db", read_only=True) as other:
                seen.append(len(other.state.grants))
            return columns["x"]

        node = pl.Gaussian(8.0)
        with ledger.request(node, data) as session:
            session.release(node, data.custom(look, 1.0, "looks at the ledger"))
        assert seen == [1]


def a_refusal_reads_nothing(folder):
    ledger = made()
    data = guard(ledger)
    try:
        with ledger.request(pl.Gaussian(0.1), data) as session:
            session.release(pl.Gaussian(0.1), data.count())
    except pl.BudgetExceeded:
        pass
    assert data._vault.opened == 0 and ledger.spent == 0


def caps_hold(folder):
    ledger = made(caps=[pl.Cap(pl.Budget(0.3, 1e-6), data="rows")])
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(8.0), guard(ledger)))
    ledger.request(pl.Gaussian(8.0), guard(ledger, "other"))


def applied(*lines):
    """Units after these entries of a gdp ledger."""
    state, head, number = State(), GENESIS, 0
    budget = {"epsilon": 1.0, "delta": 1e-6}
    first = [("created", {"format": 1, "uuid": "u", "relation": "add_remove", "mode": "private",
                          "budget": budget, "filter": "gdp"}),
             ("filter", {"kind": "gdp", "order": 0, "cap_units": 100, "delta_cap_units": 0})]
    for kind, body in [*first, *lines]:
        entry = make_entry(number, decode(kind, body), head)
        state.apply(entry)
        head, number = entry.hash, number + 1
    return state.units


GRANT = ("granted", {"grant": "g", "units": 10, "delta_units": 0})


def nothing_is_charged_below_zero(folder):
    for units in (-1, -10):
        with pytest.raises(pl.errors.LedgerCorrupt):
            applied(GRANT, ("granted", {"grant": "h", "units": units, "delta_units": 0}))


def a_grant_is_refunded_only_untouched(folder):
    over = {"grant": "g", "touched": False, "releases": 0}
    assert applied(GRANT, ("aborted", over)) == 0
    assert applied(GRANT, ("aborted", over | {"touched": True})) == 10
    assert applied(GRANT, ("released", {"grant": "g", "items": [1]}), ("aborted", over)) == 10
    assert applied(GRANT, ("settled", over)) == 10
    assert applied(GRANT, ("crashed", {"grant": "g"})) == 10


def a_failed_session_pays_for_what_it_touched(folder):
    ledger = made()
    data = guard(ledger)

    def fail():
        with ledger.request(G, data) as session:
            session.release(G, data.count())
            raise KeyError

    refused(KeyError, fail)
    assert ledger.spent > 0 and ledger.verify() == []


def edits_are_found(folder):
    path = folder / "e.db"
    with made(path) as ledger:
        ledger.request(G, guard(ledger)).close()
    doctor(path, "UPDATE entries SET body = replace(body, '\"learner\":\"\"', "
                 "'\"learner\":\"x\"') WHERE kind = 'granted'")
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(path))


def history_only_grows(folder):
    path = folder / "g.db"
    made(path).close()
    connection = sqlite3.connect(path)
    for statement in ("UPDATE entries SET body = '{}'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.Error, match="append-only"):
            connection.execute(statement)
    connection.close()


def releases_keep_to_the_plan(folder):
    ledger = made()
    data = guard(ledger)
    with ledger.request(pl.Repeat(G, 2), data) as session:
        for _ in range(2):
            session.release(G, data.count())
        refused(pl.NotGranted, lambda: session.release(G, data.count()))


def corrections_only_raise(folder):
    ledger = made()
    session = ledger.request(pl.Repeat(G, 2), guard(ledger))
    session.close()
    before = ledger.spent
    ledger.correct(session.grant, G, "it was less")
    assert ledger.spent == before and ledger.verify() == []


def prices_are_rounded_up(folder):
    ledger = made()
    ledger.request(pl.Gaussian(7.0), guard(ledger))
    assert Fraction(ledger.state.units, 2**192) >= Fraction(1, 49)
    assert ledger.state.units > float(1 / 49.0) * 2**192 - 1


def copies_share_the_budget(folder):
    ledger = made()
    assert copy.copy(ledger) is ledger and copy.deepcopy([ledger])[0] is ledger


def children_do_not_spend_it_again(folder):
    if not hasattr(os, "fork"):
        return
    ledger = made()
    data = guard(ledger)
    assert in_child(lambda: ledger.request(G, data)) != 0


# --- faults -----------------------------------------------------------------------------------


class NoLock:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def no_lock(patch):
    right = MemoryStore.__init__

    def store(self):
        right(self)
        self._lock = NoLock()

    patch.setattr(MemoryStore, "__init__", store)


def everybody_leads(patch):
    """Neither the line of threads nor the store's lock."""
    no_lock(patch)

    def run(self, ticket):
        self._write([ticket])
        if ticket.error is not None:
            raise ticket.error
        return ticket.entries

    patch.setattr(CommitQueue, "run", run)


class Deferred:
    """A connection that takes the write lock late, or never."""

    def __init__(self, connection, words):
        self._connection, self._words = connection, words

    def execute(self, statement, *more):
        return self._connection.execute(self._words.get(statement, statement), *more)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def statements(words):
    def patch(patch):
        right = SQLiteStore._connect
        patch.setattr(SQLiteStore, "_connect", lambda self: Deferred(right(self), words))

    return patch


def late_writes(patch):
    """The state moves at once; the store is told with the next commit."""
    right = History.commit

    def commit(self, decide, vectors=None):
        self.refresh()
        lines = list(decide(self.state))
        if not any(line.kind == "granted" for line in lines):
            return right(self, lambda state: lines, vectors)
        self._pending.extend(lines)
        position, head = self.state.position, self.state.head
        shadow = copy.deepcopy(self.state)
        for event in [*self._pending]:
            entry = make_entry(shadow.position + 1, event, shadow.head)
            shadow.apply(entry)
        self.state.grants |= shadow.grants
        assert (position, head) == (self.state.position, self.state.head)
        return []

    patch.setattr(History, "commit", commit)


def instead(owner, name, value):
    return lambda patch: patch.setattr(owner, name, value)


def without_caps(patch):
    right = reserve.decide
    patch.setattr(reserve, "decide", lambda state, *more: right(
        evolve(state, caps=(), cap_spent=[]), *more))


def no_filter(patch):
    import sys

    patch.setattr(sys.modules["privledger.ledger.decide"], "_fits", lambda *arguments: True)


def any_charge(state, position, event, paid):
    state.charge(int(event.units), int(event.delta_units), paid)


def handler(kind, status):
    """An entry of this kind hands the charge back, whatever happened before."""
    def fault(patch):
        def handle(state, position, event):
            grant = state.grants[event.grant]
            grant.status = status
            granted = grant.event
            state.charge(-int(granted.units), -int(granted.delta_units), granted)

        patch.setitem(states._HANDLERS, EVENTS[kind], handle)

    return fault


def always_refunds(patch):
    """Whoever fails says that nothing was touched, and writes no releases down."""
    right = GrantedPlan.close

    def close(self, failed=None):
        if failed is not None:
            self._pass.touched = False
            self._log = type(self._log)()
        right(self, failed)

    patch.setattr(GrantedPlan, "close", close)


def no_chain(patch):
    patch.setattr(states, "is_whole", lambda entry: True)


def no_triggers(patch):
    patch.setattr(sqlite_open, "TRIGGERS", ())
    patch.setattr(sqlite, "differences", lambda found: [])


def cheaper_corrections(patch):
    right = Ledger.correct

    def correct(self, grant, plan, why):
        right(self, grant, plan, why)
        charged = body_of(self._history.state.grants[grant])
        self._history.commit(lambda state: said(("corrected", {
            "grant": grant, "plan": charged["plan"], "why": why, "units": -charged["units"] // 2,
            "delta_units": 0, "time": ""})))

    patch.setattr(Ledger, "correct", correct)


def rounded_down(patch):
    from privledger.ledger import filters

    patch.setattr(filters, "units_up", lambda value: int(value * 2**100) * 2**92 - 2**150)


def no_process_check(patch):
    right = MemoryStore.transaction

    def transaction(self):
        self._pid = os.getpid()
        return right(self)

    patch.setattr(MemoryStore, "transaction", transaction)


FAULTS: list[tuple[str, Patch, Law]] = [
    ("no lock in memory", no_lock, handles_in_memory_share_the_last_unit),
    ("no line and no lock", everybody_leads, threads_share_the_last_unit),
    ("a lock that is taken late", statements({"BEGIN IMMEDIATE": "BEGIN DEFERRED"}),
     handles_share_the_last_unit),
    ("no transaction at all", statements({"BEGIN IMMEDIATE": "SELECT 1", "COMMIT": "SELECT 1"}),
     handles_share_the_last_unit),
    ("no fsync", statements({"PRAGMA synchronous": "SELECT 0"}), commits_wait_for_the_disk),
    ("touched before it is written", late_writes, rows_are_read_after_the_reservation),
    ("everything fits", no_filter, a_refusal_reads_nothing),
    ("no caps", without_caps, caps_hold),
    ("any charge is taken", instead(states, "_charge", any_charge),
     nothing_is_charged_below_zero),
    ("abort always refunds", handler("aborted", "aborted"), a_grant_is_refunded_only_untouched),
    ("settling refunds", handler("settled", "settled"), a_grant_is_refunded_only_untouched),
    ("a crash refunds", handler("crashed", "crashed"), a_grant_is_refunded_only_untouched),
    ("a failed session says it touched nothing", always_refunds,
     a_failed_session_pays_for_what_it_touched),
    ("no chain", no_chain, edits_are_found),
    ("no triggers", no_triggers, history_only_grows),
    ("no meter", instead(Meter, "admit", lambda self, *arguments: None),
     releases_keep_to_the_plan),
    ("corrections give back", cheaper_corrections, corrections_only_raise),
    ("prices are rounded down", rounded_down, prices_are_rounded_up),
    ("copies are copies", instead(Ledger, "__copy__", lambda self: object()),
     copies_share_the_budget),
    ("deep copies are copies", instead(Ledger, "__deepcopy__", lambda self, memo: object()),
     copies_share_the_budget),
    ("children may write", no_process_check, children_do_not_spend_it_again)]
LAWS = list(dict.fromkeys(law for _, _, law in FAULTS))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_laws_hold(law, tmp_path):
    law(tmp_path)


@pytest.mark.parametrize(("name", "patch", "law"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_every_fault_breaks_its_law(name, patch, law, tmp_path, monkeypatch):
    patch(monkeypatch)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 2.0)
    refused((Exception, pytest.fail.Exception), lambda: law(tmp_path))


# PostgreSQL: the lock of a ledger's row, and the update that moves its head on a condition.


def one_head_for_all(server):
    """As if the lock had not held: somebody else's head moved meanwhile."""
    place = server.url()
    made(place).close()
    store = store_at(place)
    before = store.read()

    def write():
        with store.transaction() as transaction:
            transaction.append(make_entry(len(before), decode("x", {}), before[-1].hash))
            transaction._head = GENESIS

    refused(pl.errors.LedgerBusy, write)
    assert store.read() == before
    store.close()


def clients_share_the_last_unit(server):
    place = server.url()
    pl.Ledger.create(place, budget=races.LAST, filter="gdp").close()
    clients = [pl.Ledger.open(place) for _ in range(4)]
    try:
        with pytest.MonkeyPatch.context() as patch:
            slowly(patch)
            assert together(clients) == ONE
    finally:
        for client in clients:
            client._history._pending.clear()
            client._history.store.close()


class Elsewhere:
    """A database of its own, whose functions are those of a mutant."""

    def __init__(self, server):
        self._server, self._name = server, server.database()

    def url(self):
        return self._server.url(database=self._name)


def no_condition(monkeypatch):
    """The function that writes does not ask whether the head is where the decision saw it."""
    condition = " AND l.position = after\n        AND l.head = tip"
    scripts = migrate.scripts()
    assert condition in scripts[2]
    monkeypatch.setattr(migrate, "scripts", lambda: scripts | {
        2: scripts[2].replace(condition, "")})
    monkeypatch.setattr(catalog, "strange", lambda connection: [])


def no_advisory_lock(monkeypatch):
    monkeypatch.setattr(postgres, "_LOCK", postgres._LOCK.replace(
        "SELECT * FROM privledger.lock('{}')",
        "SELECT id, format, position, head, position, head, position FROM privledger.ledgers "
        "WHERE name = '{}'"))


POSTGRES = [("no condition", no_condition, one_head_for_all),
            ("no lock", no_advisory_lock, clients_share_the_last_unit)]


@pytest.mark.parametrize("law", [one_head_for_all, clients_share_the_last_unit])
def test_the_laws_hold_in_postgres(law, request):
    law(request.getfixturevalue("postgres"))


@pytest.mark.parametrize(("name", "patch", "law"), POSTGRES, ids=[name for name, *_ in POSTGRES])
def test_every_fault_in_postgres_breaks_its_law(name, patch, law, request, monkeypatch):
    server = Elsewhere(request.getfixturevalue("postgres"))
    before = postgres._LOCK, migrate.scripts()
    patch(monkeypatch)
    assert before != (postgres._LOCK, migrate.scripts())
    refused((Exception, pytest.fail.Exception), lambda: law(server))


def test_a_mutant_of_the_functions_is_not_even_opened(request, monkeypatch):
    """What the laws above would miss, the comparison of the schema does not."""
    server = Elsewhere(request.getfixturevalue("postgres"))
    with monkeypatch.context() as patch:
        no_condition(patch)
        place = server.url()
        made(place).close()
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(place), match="function f write")
