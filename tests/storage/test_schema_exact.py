"""The schema of a file is exactly what privledger writes; with anything else it grants nothing.

Repeats the attacks that freed budgets: a planted trigger, a dropped one, a view for a table.
"""

import shutil
import sqlite3
import time
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger import audit, checkpoint
from privledger.ledger.checkpoint import Checkpoint
from privledger.ledger.entries import GENESIS, make_entry
from privledger.ledger.store import PLACE
from privledger.storage import SQLiteStore, sqlite, sqlite_open, store_at
from privledger.storage.sqlite_open import CHECKPOINTS, TABLES, TRIGGERS, differences
from tests.bodies import body_of, said
from tests.worlds import refused, schema_of

SCHEMA = schema_of("one", {"x": (0.0, 1.0)})
G = pl.Gaussian(9.0)
EATING = ("CREATE TRIGGER z AFTER INSERT ON entries WHEN new.position>5 "
          "BEGIN DELETE FROM entries WHERE position=new.position; END")
IGNORING = "CREATE TRIGGER z BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END"
ON_SETTLED = ("CREATE TRIGGER z AFTER INSERT ON entries WHEN new.kind='settled' "
              "BEGIN DELETE FROM entries WHERE position > 1; END")
ENDLESS = ("CREATE VIEW entries AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) "
           "SELECT i AS position, 'x' AS kind, '{}' AS body, '' AS previous, '' AS hash FROM n")
FREE = "DROP TRIGGER entries_stay"

# What somebody did to the schema. In the last ones through the rows of the schema itself.
PLANTED = {
    "a trigger that eats charges": (FREE, EATING),
    "a trigger beside ours": (EATING,),
    "a trigger that ignores charges": (IGNORING,),
    "a trigger on settling": (FREE, ON_SETTLED),
    "a trigger on vectors": ("CREATE TRIGGER z AFTER INSERT ON vectors BEGIN "
                             "DELETE FROM vectors; END",),
    "no trigger against deleting": (FREE,),
    "no trigger against changing": ("DROP TRIGGER entries_keep",),
    "a trigger of our name that does nothing": (
        FREE, "CREATE TRIGGER entries_stay BEFORE DELETE ON entries BEGIN SELECT 1; END"),
    "a trigger with one more space": (FREE, TRIGGERS[1].replace("BEFORE", "BEFORE ")),
    "an endless view": ("DROP TABLE entries", ENDLESS),
    "a view instead of vectors": ("DROP TABLE vectors",
                                  "CREATE VIEW vectors AS SELECT 'x' AS name, x'' AS data"),
    "a view beside": ("CREATE VIEW v AS SELECT * FROM entries",),
    "an index": ("CREATE INDEX i ON entries (kind)",),
    "a covering index": ("CREATE INDEX i ON entries (position, kind, body, previous, hash)",),
    "a partial index": ("CREATE UNIQUE INDEX i ON entries (kind) WHERE position > 99",),
    "a table": ("CREATE TABLE t (x)",),
    "statistics": ("ANALYZE",),
    "a column": ("ALTER TABLE entries ADD COLUMN more TEXT",),
    "a generated column": ("ALTER TABLE entries ADD COLUMN more TEXT AS (kind) VIRTUAL",),
    "another order of text": ("DROP TABLE vectors", TABLES[1].replace("KEY", "KEY COLLATE NOCASE")),
    "no strict types": ("DROP TABLE vectors", TABLES[1].replace(" STRICT", "")),
    "no row numbers": ("DROP TABLE vectors", TABLES[1].replace("STRICT", "STRICT, WITHOUT ROWID")),
    "half of a checkpoint": (CHECKPOINTS[0],),
    "a counter": ("CREATE TABLE t (x INTEGER PRIMARY KEY AUTOINCREMENT)", "DROP TABLE t"),
    "rows on the pages of others": (
        *CHECKPOINTS, "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET rootpage=(SELECT rootpage FROM sqlite_master WHERE "
        "name='entries') WHERE name='closed'"),
    "a text that SQLite reads alike": (
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql=sql || ' ' WHERE name='entries'"),
    "a text that goes on behind a zero": (
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql=CAST(sql || x'00' || 'x' AS TEXT) WHERE name='entries'"),
    "a text that no SQL is": (
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql='CREATE nonsense' WHERE name='entries_keep'")}


def plant(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def guard(ledger):
    return ledger.protect({"x": np.linspace(0, 1, 20)}, None, SCHEMA, name="rows")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "l.db"
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp") as ledger:
        ledger.request(G, guard(ledger)).close()
    return path


@pytest.fixture
def path(original, tmp_path):
    return shutil.copy(original, tmp_path / "l.db")


def test_a_fresh_file_and_one_with_a_checkpoint_have_no_difference(tmp_path):
    with pl.Ledger.create(tmp_path / "l.db", budget=pl.Budget(1.0)) as ledger:
        store = ledger._history.store
        assert store.inspect() == []
        with store.transaction() as transaction:
            transaction.put_checkpoint(Checkpoint(0, "a", "b", "c"), "", afresh=True)
        assert store.inspect() == []
        connection = store._connect()
        texts = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master") if sql}
    assert texts == {*TABLES, *TRIGGERS, *CHECKPOINTS}


def test_no_text_of_the_schema_ever_changes():
    """Files of the formats 1 to 3 are out there; a new text needs a new format."""
    from hashlib import sha256

    texts = "\n".join((*TABLES, *TRIGGERS, *CHECKPOINTS))
    assert sha256(texts.encode()).hexdigest() == (
        "ce44120f91da4a9a0c2a6d6898cefa564c4fd15dc6df397c820d5125f11556b7")


@pytest.mark.parametrize("name", PLANTED)
def test_a_writer_refuses_to_open_it(path, name):
    plant(path, *PLANTED[name])
    before = path.read_bytes()
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(path),
            lambda: pl.Ledger.open(path, read_only=True))
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", PLANTED)
def test_a_ledger_that_is_open_meanwhile_refuses_the_next_request(path, name):
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        spent = ledger._history.state.units
        plant(path, *PLANTED[name])
        refused(pl.errors.LedgerCorrupt, lambda: ledger.request(G, data))
        assert data._vault.opened == 0 and ledger._history.state.units == spent
        with pytest.raises(pl.errors.LedgerCorrupt):
            _ = ledger.spent  # a reader looks, too
        ledger._history._pending.clear()


def test_a_later_version_that_took_the_file_over_stops_this_one(path):
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        plant(path, "PRAGMA user_version = 99")
        refused(pl.errors.LedgerTooNew, lambda: ledger.request(G, data))
        ledger._history._pending.clear()


@pytest.mark.parametrize("command", ["verify", "show", "check", "report"])
@pytest.mark.parametrize("name", ["a trigger beside ours", "no trigger against deleting",
                                  "an endless view", "an index", "a text that no SQL is"])
def test_every_command_answers_and_says_it(path, tmp_path, command, name):
    plant(path, *PLANTED[name])
    (tmp_path / "p.toml").write_text("[policy]\nmax_epsilon = 2.0\nmax_delta = 1e-6\n")
    more = {"check": ["--policy", str(tmp_path / "p.toml")],
            "report": ["-o", str(tmp_path / "page.html")]}.get(command, [])
    start = time.thread_time()
    result = CliRunner().invoke(main, [command, str(path), *more])
    assert time.thread_time() - start < 5
    assert result.exit_code == 3, result.output
    said = " ".join(result.output.split())
    if "no SQL" in name:
        assert "malformed database schema" in said
    elif command != "report" or name == "an endless view":
        assert "privledger made" in said or "is missing" in said, said
    else:
        assert "NOT TRUSTED" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_finding_stands_beside_those_of_the_history(path):
    plant(path, FREE, "DROP TRIGGER entries_keep",
          "UPDATE entries SET kind = 'x' WHERE position = 1")
    store = store_at(path, read_only=True)
    rules = [finding.rule for finding in audit(store)]
    store.close()
    assert rules[:2] == [PLACE, PLACE] and "chain-is-unbroken" in rules


def test_names_from_the_file_are_shown_short_and_plain(path):
    plant(path, 'CREATE TABLE "\x1b[31m' + "x" * 5000 + '\u202e" (a)')
    store = store_at(path, read_only=True)
    (found,) = store.inspect()
    store.close()
    assert len(found.message) < 200 and found.message.isprintable() and found.message.isascii()


def test_a_trigger_that_comes_and_goes_without_a_mark_does_not_stay_in_mind(path):
    """SQLite keeps the schema it read; rows that vanish without a new schema version stay in it."""
    with pl.Ledger.open(path) as ledger:
        data, store = guard(ledger), ledger._history.store
        plant(path, EATING)
        refused(pl.errors.LedgerCorrupt, lambda: store.read())
        plant(path, "PRAGMA writable_schema=ON", "DELETE FROM sqlite_master WHERE name='z'")
        assert differences(store._connect().execute(
            "SELECT type, name, tbl_name, rootpage, sql, length(sql) FROM sqlite_master"
        ).fetchall()) == []
        for _ in range(3):
            ledger.request(G, data).close()
        assert len(ledger.state.grants) == 4 and ledger.verify() == []


def test_behind_the_comparison_stands_what_is_read_back(path, monkeypatch):
    """A second fence; from Python 3.12 on triggers are off besides."""
    monkeypatch.setattr(sqlite, "differences", lambda found: [])
    plant(path, FREE, EATING)
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        for _ in range(3):
            try:
                ledger.request(G, data).close()
            except pl.LedgerError:
                ledger._history._pending.clear()
                break
        else:
            assert len(ledger.state.grants) == 4
        assert data._vault.opened == 0


@pytest.mark.parametrize("afresh", [False, True])
def test_settings_of_a_connection_also_those_that_make_a_commit_durable(path, tmp_path, afresh):
    store = SQLiteStore(tmp_path / "new.db", create=True) if afresh else SQLiteStore(path)
    connection = store._connect()
    asked = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in (
        "trusted_schema", "cell_size_check", "recursive_triggers", "synchronous", "journal_mode")}
    assert asked == {"trusted_schema": 0, "cell_size_check": 1, "recursive_triggers": 0,
                     "synchronous": 2, "journal_mode": "wal"}
    with pytest.raises(sqlite3.DatabaseError, match="too many attached"):
        connection.execute("ATTACH ':memory:' AS other")
    if hasattr(connection, "getconfig"):
        assert connection.getconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE)
        assert not connection.getconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW)
    store.close()


def test_a_schema_that_takes_long_to_read_is_given_up(path, monkeypatch):
    plant(path, *(f"CREATE TABLE t{number} (x)" for number in range(300)))
    monkeypatch.setattr(sqlite_open, "_STEPS", 10)
    monkeypatch.setattr(sqlite_open, "_SCHEMA_SECONDS", 0.0)
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(path))


# --- what was written is read back ----------------------------------------------------------------


class Losing:
    """A transaction of a store that loses or changes what it was given."""

    def __init__(self, inner, fault, vector):
        self._inner, self._fault = inner, fault
        if vector is not None:
            self.vector = lambda name: vector

    def rows(self, after):
        rows = self._inner.rows(after)
        return self._fault(rows) if rows else rows

    def __getattr__(self, name):
        return getattr(self._inner, name)


def losing(patch, store, fault=list, vector=None):
    right = type(store).transaction

    @contextmanager
    def transaction(self):
        with right(self) as inner:
            yield Losing(inner, fault, vector)

    patch.setattr(type(store), "transaction", transaction)


FAULTS = {
    "nothing": lambda rows: [], "one less": lambda rows: rows[:-1],
    "one more": lambda rows: [*rows, rows[-1]],
    "another body": lambda rows: [*rows[:-1], (*rows[-1][:2], rows[-1][2].replace("9.0", "8.0"),
                                               *rows[-1][3:])],
    "another hash": lambda rows: [*rows[:-1], (*rows[-1][:4], "0" * 64)],
    "another kind": lambda rows: [*rows[:-1], (rows[-1][0], "x", *rows[-1][2:])]}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_grant_that_does_not_come_back_is_none(tmp_path, monkeypatch, kind, fault):
    place = None if kind == "memory" else tmp_path / "l.db"
    ledger = pl.Ledger.create(place, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = guard(ledger)
    ledger.request(G, data).close()
    units, head = ledger._history.state.units, ledger._history.state.head
    with monkeypatch.context() as patch:
        losing(patch, ledger._history.store, FAULTS[fault])
        with pytest.raises(pl.errors.LedgerCorrupt, match="does not read back"):
            ledger.request(G, data)
        assert data._vault.opened == 0
        assert (ledger._history.state.units, ledger._history.state.head) == (units, head)
        assert len(ledger._history.store.read()) == ledger._history.state.position + 1
    ledger.request(G, data).close()  # the store is well again
    assert ledger.verify() == [] and len(ledger.state.grants) == 2
    ledger.close()


@pytest.mark.parametrize("place", [None, "l.db"])
def test_a_vector_that_does_not_come_back_is_not_settled(tmp_path, monkeypatch, place):
    ledger = pl.Ledger.create(place and tmp_path / place, budget=pl.Budget(2.0, 1e-6))
    history = ledger._history
    losing(monkeypatch, history.store, vector=b"other")
    with pytest.raises(pl.errors.LedgerCorrupt, match="vector"):
        history.commit(lambda state: [], {"v": b"data"})
    assert history.store.vector("v") is None
    ledger.close()


@pytest.mark.parametrize("place", [None, "l.db"])
def test_a_commit_returns_what_the_store_gave_back(tmp_path, place):
    """Its bodies are made from the stored text: nobody else holds them."""
    ledger = pl.Ledger.create(place and tmp_path / place, budget=pl.Budget(2.0, 1e-6))
    body = {"data": "d", "schema": "s", "schema_sha256": "0", "time": "", "rows": 5}
    (entry,) = ledger._history.commit(lambda state: said(("protected", body)))
    assert body_of(entry) == body and body_of(entry) is not body
    body["rows"] = 6
    assert body_of(entry)["rows"] == 5 and ledger._history.store.read()[-1] == entry
    ledger.close()


def test_a_history_that_lost_its_last_entry_takes_no_other(tmp_path):
    """Another history came to where this one was: what this process knows is not there."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = guard(ledger)
    ledger.request(G, data).close()
    store = ledger._history.store
    for cut in (1, len(store._entries)):
        kept = list(store._entries)
        del store._entries[-cut:]
        with pytest.raises(pl.errors.LedgerCorrupt, match="has changed since it was read"):
            ledger.request(G, data)
        store._entries[:] = kept
    last = kept[-1]
    store._entries[-1] = make_entry(last.position, last.event, GENESIS)
    with pytest.raises(pl.errors.LedgerCorrupt, match="has changed since it was read"):
        ledger.request(G, data)


def test_a_checkpoint_that_another_process_makes_is_no_difference(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "CADENCE", 4)
    with pl.Ledger.open(path) as one, pl.Ledger.open(path) as two:
        first, second = guard(one), guard(two)
        for _ in range(4):
            one.request(G, first).close()
            two.request(G, second).close()
        assert one._history.store.checkpoint() is not None
        assert one.verify() == two.verify() == []
