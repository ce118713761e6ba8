"""The file: append-only, and whatever happens to it is found and named."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

import privledger as pl
from privledger.ledger import audit
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


def cut(share=1, pages=0):
    def spoil(path):
        with open(path, "r+b") as file:
            file.truncate(4096 * pages or int(path.stat().st_size * share))
    return spoil


def written(content):
    return lambda path: path.write_bytes(content)


def edited(*statements):
    return lambda path: edit(path, *statements)


def of_format_99(path):
    path.unlink()
    store = SQLiteStore(path, create=True)
    body = {"format": 99, "uuid": "u", "relation": "add_remove", "mode": "private",
            "filter": "auto", "budget": {"epsilon": 1.0, "delta": 0.0}}
    with store.transaction() as transaction:
        transaction.append(make_entry(0, decode("created", body), GENESIS))
    store.close()


def another(*statements):
    def spoil(path):
        path.unlink()
        edit(path, *statements)
    return spoil


SPOILT = {
    **{f"{share} of it": cut(share) for share in (0.0, .001, .01, .1, .3, .5, .7, .9, .99)},
    **{f"{pages} pages": cut(pages=pages) for pages in (1, 2, 3)},
    "empty": written(b""), "nul": written(b"\0"), "json": written(b"{}"),
    "text": written(b"hello, this is no ledger\n" * 200), "gzip": written(b"\x1f\x8b" + b"0" * 100),
    "magic only": written(b"SQLite format 3\0" + b"x" * 5000),
    "random": written(random.Random(4).randbytes(9000)),
    "another database": another(
        "CREATE TABLE entries (position, kind, body, previous, hash)"),
    "another one with a log": another("PRAGMA journal_mode = WAL", "PRAGMA application_id = 12345",
                                      "CREATE TABLE t (x)"),
    "our mark alone": another(f"PRAGMA application_id = {APPLICATION_ID}"),
    "no entries": edited("DROP TABLE entries"), "no vectors": edited("DROP TABLE vectors"),
    "another column": edited("ALTER TABLE entries RENAME COLUMN body TO text"),
    "deep": lambda path: doctor(
        path, "UPDATE entries SET body = '" + "[" * 100_000 + "' WHERE position = 3"),
    "newer file": edited("PRAGMA user_version = 99"), "newer format": of_format_99}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_no_ledger_of_ours_is_named_and_left_alone(path, what):
    SPOILT[what](path)
    content = path.read_bytes()
    refused(pl.errors.LedgerTooNew if "newer" in what else pl.errors.LedgerCorrupt,
            lambda: look(path))
    assert path.read_bytes() == content


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
    store = SQLiteStore(path)
    try:
        assert audit(store)
    except pl.errors.LedgerCorrupt:
        pass  # a row that cannot even be read
    finally:
        store.close()


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
def test_a_missing_file_or_folder_is_a_ledger_error(tmp_path, name):
    refused(pl.LedgerError, lambda: pl.Ledger.open(tmp_path / name),
            lambda: pl.Ledger.create(tmp_path / "no" / "x.db", budget=pl.Budget(1.0)))
    assert list(tmp_path.iterdir()) == []


def test_reading_only_grants_nothing_and_leaves_the_file_alone(path, schema, table, original):
    with pl.Ledger.open(path, read_only=True) as ledger:  # a line is pending when it is closed
        ledger.protect(*table, schema)
    assert look(path)[1] == []
    with pl.Ledger.open(path, read_only=True) as ledger:
        assert ledger.spent == original[1].epsilon and ledger.verify() == []
        data = ledger.protect(*table, schema)
        refused(pl.LedgerError, lambda: ledger.request(G, data))
        assert data._vault.opened == 0
        ledger._history._pending.clear()
    assert look(path)[0] == original[1].epsilon


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
