"""The file: append-only, and whatever happens to it is found and named."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

import privledger as pl
from privledger.ledger.codec import decode
from privledger.ledger.entries import GENESIS, make_entry
from privledger.storage import SQLiteStore
from privledger.storage.sqlite_open import APPLICATION_ID, IN_USE
from tests.doctored import doctor
from tests.worlds import refused

G = pl.Gaussian(9.0)


@pytest.fixture(scope="module")
def original(tmp_path_factory, schema, table):
    """A closed ledger file with three settled grants, and its receipt."""
    path = tmp_path_factory.mktemp("ledger") / "original.db"
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6)) as ledger:
        data = ledger.protect(*table, schema, name="rows", fingerprint_key=b"k" * 16)
        for _ in range(3):
            with ledger.request(G, data) as session:
                session.release(G, data.count())
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="s")
        with ledger.request(scope.node, data, scope=scope) as session:
            session.release(pl.Gaussian(50.0), session.filtered().sum("size"))
        assert ledger.verify() == []
        receipt = ledger.receipt
    return path, receipt


@pytest.fixture
def path(original, tmp_path):
    copied = tmp_path / "copy.db"
    shutil.copy(original[0], copied)
    return copied


def edit(path, *statements):
    """Change a file as somebody would who knows SQL."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()



def look(path):
    """Open and use a ledger: what a user would do first."""
    with pl.Ledger.open(path) as ledger:
        return ledger.spent, ledger.verify()


def test_a_copy_opens_and_verifies(path, original):
    spent, findings = look(path)
    assert findings == [] and spent == original[1].epsilon


@pytest.mark.parametrize("statement", [
    "UPDATE entries SET body = '{}' WHERE position = 2", "UPDATE entries SET kind = 'x'",
    "DELETE FROM entries WHERE position = 5", "DELETE FROM entries",
    "INSERT OR REPLACE INTO entries VALUES (2, 'x', '{}', '', '')"])
def test_the_history_is_append_only(path, statement):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA recursive_triggers = ON")  # REPLACE deletes too
    refused(sqlite3.Error, lambda: connection.execute(statement))
    connection.close()
    assert look(path)[1] == []


def test_settings_that_make_a_commit_durable(tmp_path):
    store = SQLiteStore(tmp_path / "x.db", create=True)
    connection = store._connect()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_truncated_file_is_corrupt(path, share):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(int(size * share))
    refused(pl.errors.LedgerCorrupt, lambda: look(path))


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_a_file_cut_at_a_page_is_corrupt(path, pages):
    with open(path, "r+b") as file:
        file.truncate(4096 * pages)
    refused(pl.errors.LedgerCorrupt, lambda: look(path))


@pytest.mark.parametrize("content", [
    b"", b"\0", b"hello, this is no ledger\n" * 200, b"SQLite format 3\0" + b"x" * 5000,
    random.Random(4).randbytes(9000), b"{}", b"\x1f\x8b" + b"0" * 100,
], ids=["empty", "nul", "text", "magic-only", "random", "json", "gzip"])
def test_what_is_no_ledger_is_corrupt(tmp_path, content):
    path = tmp_path / "x.db"
    path.write_bytes(content)
    refused(pl.errors.LedgerCorrupt, lambda: look(path))
    assert path.read_bytes() == content  # looking changed nothing


@pytest.mark.parametrize("seed", range(25))
def test_random_damage_is_found_or_harmless(path, original, seed):
    """A few random bytes anywhere: a typed error, a finding, or a page nobody uses."""
    source = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(8):
        content[source.randrange(len(content))] = source.randrange(256)
    path.write_bytes(content)
    try:
        spent, findings = look(path)
    except pl.LedgerError:
        return
    assert findings or spent == original[1].epsilon


def test_another_database_is_no_ledger(tmp_path):
    path = tmp_path / "x.db"
    edit(path, "CREATE TABLE entries (position, kind, body, previous, hash)")
    refused(pl.errors.LedgerCorrupt, lambda: look(path))


def test_our_mark_on_an_empty_database_is_not_enough(tmp_path):
    path = tmp_path / "x.db"
    edit(path, f"PRAGMA application_id = {APPLICATION_ID}")
    refused(pl.errors.LedgerCorrupt, lambda: look(path))


@pytest.mark.parametrize("statement", ["DROP TABLE entries", "DROP TABLE vectors",
                                       "ALTER TABLE entries RENAME COLUMN body TO text"])
def test_a_missing_table_is_corrupt(path, statement):
    edit(path, statement)
    def use():
        with pl.Ledger.open(path) as ledger:
            ledger.verify()
            ledger.record(0)

    refused(pl.errors.LedgerCorrupt, use)


def test_a_newer_file_is_too_new(path):
    edit(path, "PRAGMA user_version = 99")
    refused(pl.errors.LedgerTooNew, lambda: look(path))


def test_a_newer_format_in_the_first_entry_is_too_new(tmp_path):
    store = SQLiteStore(tmp_path / "x.db", create=True)
    body = {"format": 99, "uuid": "u", "relation": "add_remove", "mode": "private",
            "filter": "auto", "budget": {"epsilon": 1.0, "delta": 0.0}}
    with store.transaction() as transaction:
        transaction.append(make_entry(0, decode("created", body), GENESIS))
    store.close()
    refused(pl.errors.LedgerTooNew, lambda: look(tmp_path / "x.db"))


@pytest.mark.parametrize("wrong", [
    "UPDATE entries SET body = replace(body, '\"units\":', '\"units\":0,\"x\":') "
    "WHERE kind = 'granted'",
    "UPDATE entries SET kind = 'noted' WHERE position = 3",
    "UPDATE entries SET hash = upper(hash) WHERE position = 3",
    "UPDATE entries SET previous = hash WHERE position = 3",
    "UPDATE entries SET previous = 'ü' WHERE position = 3",
    "UPDATE entries SET body = 'not json' WHERE position = 3",
    "UPDATE entries SET body = '' WHERE position = 3",
    "UPDATE entries SET body = '[]' WHERE position = 3",
    "UPDATE entries SET body = 'null' WHERE position = 3",
    "UPDATE entries SET body = '{\"a\":NaN}' WHERE position = 3",
    "UPDATE entries SET body = '{\"a\":1e999}' WHERE position = 3",
    "UPDATE entries SET body = '{\"a\":\"\\ud800\"}' WHERE position = 3",
    "UPDATE entries SET body = CAST(x'ff00fe' AS TEXT) WHERE position = 3",
    "DELETE FROM entries WHERE position = 3", "DELETE FROM entries WHERE position = 0",
    "DELETE FROM entries"])
def test_an_edited_history_does_not_open_and_an_audit_finds_it(path, wrong):
    doctor(path, wrong)
    refused(pl.LedgerError, lambda: look(path))
    from privledger.ledger import audit

    store = SQLiteStore(path)
    try:
        assert audit(store)
    except pl.errors.LedgerCorrupt:
        pass  # a row that cannot even be read
    finally:
        store.close()


def test_a_deeply_nested_entry_is_corrupt(path):
    doctor(path, "UPDATE entries SET body = '" + "[" * 100_000 + "' WHERE position = 3")
    refused(pl.errors.LedgerCorrupt, lambda: look(path))


def test_a_cut_tail_is_found_with_a_receipt(path, original):
    """The chain alone cannot see that its end is missing; the receipt can."""
    receipt = original[1]
    doctor(path, f"DELETE FROM entries WHERE position >= {receipt.entries - 2}")
    with pl.Ledger.open(path) as ledger:
        found = ledger.receipt
        assert found.uuid == receipt.uuid
        assert found.entries < receipt.entries and found.head != receipt.head


def test_an_old_copy_is_found_with_a_receipt(path, original, schema, table):
    receipt = original[1]
    with pl.Ledger.open(path) as ledger:
        entries = ledger._history.store.read()
        assert entries[receipt.entries - 1].hash == receipt.head
        data = ledger.protect(*table, schema, name="rows", fingerprint_key=b"k" * 16)
        ledger.request(G, data).close()
        newer = ledger.receipt
    with pl.Ledger.open(original[0]) as old:
        assert old.receipt.entries < newer.entries


def test_an_edited_vector_is_found(path):
    edit(path, "UPDATE vectors SET data = zeroblob(length(data))")
    with pl.Ledger.open(path) as ledger:
        assert [finding.rule for finding in ledger.verify()] == ["vectors-match"]


def test_a_missing_vector_is_found_and_counts_in_full(path, schema, table):
    edit(path, "DELETE FROM vectors")
    with pl.Ledger.open(path) as ledger:
        assert [finding.rule for finding in ledger.verify()] == ["vectors-match"]
        data = ledger.protect(*table, schema, name="rows", fingerprint_key=b"k" * 16)
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="s")
        with ledger.request(scope.node, data, scope=scope) as session:
            # Whoever lost the vector lost the proof: nobody has anything left.
            answer = session.release(pl.Gaussian(50.0), session.filtered().count())
        assert abs(answer) < 50 * 10


def test_an_auditor_may_ask_for_a_record_whose_vector_is_damaged(path):
    edit(path, "UPDATE vectors SET data = x'00ff'")
    with pl.Ledger.open(path) as ledger, pytest.raises(pl.PrivledgerError):
        ledger.record(0)


def test_a_second_creation_is_refused(path, tmp_path):
    before = path.read_bytes()
    refused(pl.LedgerError, lambda: pl.Ledger.create(path, budget=pl.Budget(1.0)), match="exists")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["missing.db", "folder/missing.db", "."])
def test_a_missing_file_is_a_ledger_error(tmp_path, name):
    refused(pl.LedgerError, lambda: pl.Ledger.open(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_a_ledger_error(tmp_path):
    with pytest.raises(pl.LedgerError):
        pl.Ledger.create(tmp_path / "no" / "x.db", budget=pl.Budget(1.0))


def test_reading_only_grants_nothing(path, schema, table, original):
    with pl.Ledger.open(path, read_only=True) as ledger:
        assert ledger.spent == original[1].epsilon and ledger.verify() == []
        data = ledger.protect(*table, schema)
        refused(pl.LedgerError, lambda: ledger.request(G, data))
        assert data._vault.opened == 0
        ledger._history._pending.clear()
    assert look(path)[0] == original[1].epsilon


def test_reading_only_leaves_the_file_alone_although_a_line_is_pending(path, schema, table):
    """Looking, protecting and closing must work for somebody who may not write."""
    with pl.Ledger.open(path, read_only=True) as ledger:
        ledger.protect(*table, schema)
    assert look(path)[1] == []


def test_two_handles_on_one_file_see_each_other(path, schema, table):
    with pl.Ledger.open(path) as one, pl.Ledger.open(path) as two:
        data = one.protect(*table, schema)
        before = two.spent
        one.request(G, data).close()
        assert two.spent == one.spent > before
        assert two.verify() == []


def test_ledgers_outlive_the_process_by_their_path(path, schema, table):
    with pl.Ledger.open(str(path)) as ledger:
        spent = ledger.spent
        assert ledger.path == str(path)
        assert ledger.budget == pl.Budget(2.0, 1e-6) and ledger.relation == "add_remove"
    with pl.Ledger.open(path) as ledger:
        assert ledger.spent == spent
        with pytest.raises(pl.BudgetExceeded):
            ledger.request(pl.Gaussian(0.7), ledger.protect(*table, schema))


def test_what_a_fork_left_behind_leaves_no_mark_without_its_log(tmp_path):
    """Where no other process has the file, SQLite copies all of the log and removes it."""
    path = tmp_path / "x.ledger"
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6))
    ledger.open_window("first")
    store = ledger._history.store
    log = Path(f"{path}-wal")
    assert log.exists() and path.read_bytes()[68:72] == IN_USE.to_bytes(4, "big")
    store.close_inherited()
    assert not log.exists() and path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")
    store.close()
    with pl.Ledger.open(path) as again:
        assert again.verify() == []
