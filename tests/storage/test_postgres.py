"""Ledgers in a database: tables, names, roles, and passwords that nobody gets to see."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger import audit
from privledger.ledger.codec import decode
from privledger.ledger.entries import GENESIS, make_entry
from privledger.storage import catalog, migrate, store_at
from privledger.storage.address import parse_address
from tests.worlds import refused

G = pl.Gaussian(9.0)
BUDGET = pl.Budget(2.0, 1e-6)
SCRIPTS = migrate.scripts()
NEXT = max(SCRIPTS) + 1
MORE = ("CREATE TABLE privledger.more (x integer);"
        f"INSERT INTO privledger.migrations (number) VALUES ({NEXT})")


@pytest.fixture
def url(postgres, schema, table):
    """A ledger with a settled grant and a vector, in a database of its own."""
    place = postgres.url("book", database=postgres.empty())
    with pl.Ledger.create(place, budget=BUDGET, filter="gdp") as ledger:
        data = ledger.protect(*table, schema, name="rows")
        with ledger.request(G, data) as session:
            session.release(G, data.count())
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="ü\0\ud800 scope")
        with ledger.request(scope.node, data, scope=scope) as session:
            session.release(pl.Gaussian(50.0), session.filtered().count())
    return place


def database(url):
    return parse_address(url).parameters["dbname"]


def look(url):
    with pl.Ledger.open(url) as ledger:
        return ledger.spent, ledger.verify()


# Tables.

def test_a_database_opens_twice_and_holds_many_ledgers(postgres, url):
    spent, findings = look(url)
    assert spent > 0 and findings == []
    other = url.replace("ledger=book", "ledger=other")
    pl.Ledger.create(other, budget=BUDGET).close()
    assert look(other) == (0, []) and look(url) == (spent, [])
    name = database(url)
    assert postgres.sql("SELECT number FROM privledger.migrations", database=name) == [
        (number,) for number in SCRIPTS]
    assert postgres.sql("SELECT name FROM privledger.ledgers ORDER BY name", database=name) == [
        ("book",), ("other",)]


def test_the_ledger_is_called_main_if_it_has_no_name(postgres):
    bare = postgres.url("x", database=postgres.empty()).replace("&ledger=x", "")
    pl.Ledger.create(bare, budget=BUDGET).close()
    with pl.Ledger.open(bare) as ledger:
        assert "ledger=main" in ledger.path
        again = ledger.path
    assert look(again) == (0, [])


def test_a_second_creation_is_refused(url):
    refused(pl.LedgerError, lambda: pl.Ledger.create(url, budget=BUDGET), match="exists")
    assert look(url)[1] == []


@pytest.mark.parametrize("what", ["ledger", "tables", "database"])
def test_what_is_not_there_is_a_ledger_error(postgres, url, what):
    missing = {"ledger": lambda: url.replace("=book", "=none"),
               "tables": lambda: postgres.url("x", database=postgres.empty()),
               "database": lambda: postgres.url("x", database="nowhere")}[what]()
    refused(pl.LedgerError, lambda: pl.Ledger.open(missing), match="does not exist")
    if what == "tables":  # looking made none
        assert postgres.sql("SELECT to_regclass('privledger.migrations')",
                            database=database(missing)) == [(None,)]


def test_eight_clients_make_the_tables_at_once(postgres):
    from concurrent.futures import ThreadPoolExecutor

    name = postgres.empty()
    places = [postgres.url(database=name) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: pl.Ledger.create(place, budget=BUDGET).close(), places))
    assert [look(place) for place in places] == [(0, [])] * 8


def test_a_migration_that_fails_leaves_nothing(postgres, monkeypatch):
    place = postgres.url("x", database=postgres.empty())
    monkeypatch.setattr(migrate, "scripts", lambda: SCRIPTS | {NEXT: "CREATE TABLE broken ("})
    refused(pl.LedgerError, lambda: pl.Ledger.create(place, budget=BUDGET))
    monkeypatch.undo()
    pl.Ledger.create(place, budget=BUDGET).close()
    assert look(place) == (0, [])


def test_older_tables_are_migrated_by_a_writer_and_not_by_a_reader(url, monkeypatch):
    spent, _ = look(url)
    lines = catalog.expected()
    monkeypatch.setattr(migrate, "scripts", lambda: SCRIPTS | {NEXT: MORE})
    monkeypatch.setattr(catalog, "expected", lambda: lines | frozenset([
        "column more 1 x integer not null f identity  generated  dropped f default",
        "relation r more p heap rls f f options owner t"]))
    with pytest.raises(pl.LedgerError, match="the ledger for writing once"):
        pl.Ledger.open(url, read_only=True)
    assert look(url) == (spent, [])
    assert look(url) == (spent, [])
    monkeypatch.undo()
    refused(pl.errors.LedgerTooNew, lambda: look(url))


@pytest.mark.parametrize("statement", [
    "INSERT INTO privledger.migrations (number) VALUES (99)",
    "UPDATE privledger.ledgers SET format = 99, position = position + 1"])
def test_too_new(postgres, url, statement):
    postgres.sql(statement, database=database(url))
    refused(pl.errors.LedgerTooNew, lambda: look(url))


@pytest.mark.parametrize("statement", [
    "UPDATE privledger.entries SET body = '{}' WHERE position = 2",
    "UPDATE privledger.entries SET kind = 'x'", "DELETE FROM privledger.entries",
    "DELETE FROM privledger.entries WHERE position = 5", "TRUNCATE privledger.entries",
    "TRUNCATE privledger.ledgers CASCADE", "DELETE FROM privledger.ledgers",
    "UPDATE privledger.ledgers SET position = 0", "UPDATE privledger.ledgers SET name = 'y'",
    "INSERT INTO privledger.entries SELECT ledger, 99, kind, body, previous, hash "
    "FROM privledger.entries WHERE position = 1",
    "INSERT INTO privledger.entries SELECT ledger, 1 + max(position), 'x', '{}', repeat('0', 64), "
    "repeat('0', 64) FROM privledger.entries GROUP BY ledger"])
def test_the_history_is_append_only(postgres, url, statement):
    import psycopg

    before = look(url)
    refused(psycopg.Error, lambda: postgres.sql(statement, database=database(url)))
    assert look(url) == before


OFF = "SET session_replication_role = replica"  # what the server's owner can do: no triggers


@pytest.mark.parametrize("wrong", [
    "UPDATE privledger.entries SET body = replace(body, '\"units\":', '\"units\":0,\"x\":') "
    "WHERE kind = 'granted'",
    "UPDATE privledger.entries SET hash = upper(hash) WHERE position = 3",
    "UPDATE privledger.entries SET body = 'not json' WHERE position = 3",
    "UPDATE privledger.entries SET body = '[]' WHERE position = 3",
    "UPDATE privledger.entries SET body = '{\"a\":NaN}' WHERE position = 3",
    "UPDATE privledger.entries SET body = '{\"a\":-Infinity}' WHERE position = 3",
    "UPDATE privledger.entries SET body = '{\"a\":1e999}' WHERE position = 3",
    "UPDATE privledger.entries SET body = repeat('[', 100000) WHERE position = 3",
    "DELETE FROM privledger.entries WHERE position = 3", "DELETE FROM privledger.entries",
    "DELETE FROM privledger.entries WHERE position >= 5",  # the head row knows of them
    "UPDATE privledger.ledgers SET head = repeat('0', 64)",
    "DROP TABLE privledger.entries", "DROP TABLE privledger.ledgers CASCADE",
    "ALTER TABLE privledger.entries RENAME COLUMN body TO text"])
def test_an_edited_history_does_not_open(postgres, url, wrong):
    postgres.sql(OFF, wrong, database=database(url))
    refused(pl.errors.LedgerCorrupt, lambda: look(url))


def test_a_tail_cut_under_an_open_ledger_is_found_before_the_next_grant(postgres, url, schema,
                                                                      table):
    with pl.Ledger.open(url) as ledger:
        data = ledger.protect(*table, schema)
        postgres.sql(OFF, "DELETE FROM privledger.entries WHERE position >= 5",
                     database=database(url))
        with pytest.raises(pl.errors.LedgerCorrupt, match="does not end where"):
            ledger.request(G, data)
        assert data._vault.opened == 0
        ledger._history._pending.clear()


def test_a_head_that_moved_without_the_lock_is_a_second_guard(postgres, url):
    """As if the lock had not held: the conditional update refuses, and nothing is kept."""
    store = store_at(url)
    before = store.read()

    def write():
        with store.transaction() as transaction:
            transaction.append(make_entry(len(before), decode("x", {}), before[-1].hash))
            transaction._head = GENESIS

    refused(pl.errors.LedgerBusy, write)
    assert store.read() == before
    store.close()


def test_edited_vectors_are_found(postgres, url):
    postgres.sql("UPDATE privledger.vectors SET data = '\\x00'", database=database(url))
    assert [finding.rule for finding in look(url)[1]] == ["vectors-match"]
    postgres.sql("DELETE FROM privledger.vectors", database=database(url))
    assert [finding.rule for finding in look(url)[1]] == ["vectors-match"]


def test_a_commit_waits_for_the_disk_whatever_the_database_says(postgres):
    name = postgres.database()
    postgres.sql(f"ALTER DATABASE {name} SET synchronous_commit = off",
                 f"ALTER DATABASE {name} SET default_transaction_isolation = serializable",
                 f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    store = store_at(postgres.url(database=name), create=True)
    with store.transaction() as transaction:
        for name, value in {"synchronous_commit": "on", "lock_timeout": "1min",
                            "transaction_isolation": "read committed"}.items():
            assert transaction._connection.execute(f"SHOW {name}").fetchone() == (value,)
    store.close()


def test_a_server_that_forgets_is_refused(postgres, url):
    try:
        postgres.sql("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf(), pg_sleep(0.3)")
        refused(pl.LedgerError, lambda: pl.Ledger.open(url), match="fsync")
        pl.Ledger.open(url, read_only=True).close()
    finally:
        postgres.sql("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf(), pg_sleep(0.3)")
    assert look(url)[1] == []


# Who may do what.

def test_reading_only_grants_nothing(url, schema, table):
    with pl.Ledger.open(url, read_only=True) as ledger:
        assert ledger.verify() == [] and audit(ledger._history.store) == []
        data = ledger.protect(*table, schema)
        refused(pl.LedgerError, lambda: ledger.request(G, data))
        assert data._vault.opened == 0
        ledger._history._pending.clear()


def test_roles(postgres, url, schema, table):
    """The grants of docs/postgres.md, word for word: a client asks functions, an auditor reads."""
    name = database(url)
    page = (Path(__file__).resolve().parents[2] / "docs" / "postgres.md").read_text("utf-8")
    (block,) = [part.partition("```")[0] for part in page.split("```sql\n")[1:]
                if "TO client" in part.partition("```")[0]]
    grants = re.sub(r"\b(client|auditor)\b", r"pl_\1", block)
    postgres.sql("DROP ROLE IF EXISTS pl_client", "DROP ROLE IF EXISTS pl_auditor",
                 "CREATE ROLE pl_client LOGIN", "CREATE ROLE pl_auditor LOGIN")
    postgres.sql(*[line for line in grants.split(";") if line.strip()], database=name)
    client, auditor = (url.replace("owner@", f"{who}@") for who in ("pl_client", "pl_auditor"))
    with pl.Ledger.open(client) as ledger:
        data = ledger.protect(*table, schema)
        ledger.request(G, data).close()
        assert ledger.verify() == []
    with pytest.raises(pl.LedgerError, match="permission denied"):
        pl.Ledger.create(client.replace("=book", "=other"), budget=BUDGET)
    with pl.Ledger.open(auditor, read_only=True) as ledger:
        assert ledger.verify() == [] and ledger.spent > 0
    with pl.Ledger.open(auditor) as ledger:
        data = ledger.protect(*table, schema)
        refused(pl.LedgerError, lambda: ledger.request(G, data), match="permission denied")
        ledger._history._pending.clear()
    postgres.sql("DROP OWNED BY pl_client, pl_auditor", "DROP ROLE pl_client, pl_auditor",
                 database=name)


def test_commands_take_a_url(url, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("[policy]\nmax_epsilon = 2.0\nmax_delta = 1e-5\n", encoding="utf-8")
    for arguments in (["show", url], ["record", url, "0"], ["verify", url], ["overlap", url],
                      ["check", url, "--policy", str(policy)]):
        for more in ([], ["--format", "json"]):
            done = CliRunner().invoke(main, [*arguments, *more])
            assert done.exit_code == 0, done.output
