"""A sealed epoch changes how long an audit takes, and nothing else; without its key it is none."""

import gzip
import hmac
import json
import os
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from attrs import evolve
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.cli import main
from privledger.graph import canonical
from privledger.ledger import History, checkpoint, epochs, history
from privledger.ledger.codec import encode
from privledger.ledger.entries import GENESIS, text_hash
from privledger.ledger.epochs import find_epoch
from privledger.ledger.events import EVENTS
from privledger.ledger.store import Chain, StoredRows
from privledger.ledger.view_records import data_names, record_spend
from privledger.reports.spend import GrantReports
from privledger.reports.survey import read_once, survey
from privledger.storage import MemoryStore, SQLiteStore, sqlite_open, store_at
from tests.doctored import doctor
from tests.ledger.test_checkpoints import STEPS, a_ledger, plain, step
from tests.ledger.test_golden import FOLDER, FORMATS, TOTALS

G = pl.Gaussian(50.0)


@pytest.fixture(autouse=True)
def early(monkeypatch, tmp_path):
    monkeypatch.setattr(epochs, "LEAST", 4)
    monkeypatch.setattr(epochs, "BLOCK", 3)
    monkeypatch.setattr(checkpoint, "CADENCE", 6)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def seals(tmp_path):
    return sorted((tmp_path / "state" / "privledger").glob("*.epoch"))


def told(store, *, whole, at=0, head=None):
    """Everything that is said of a history."""
    found, short = (read(store, at, head, whole=whole) for read in (read_once, survey))
    view, past = found.view, found.seen.past
    grants = [] if view is None else [
        (one.as_dict() if hasattr(one, "as_dict") else one) for one in GrantReports(view, "2030")]
    return (found.findings, found.state and plain(
        evolve(found.state, ended=None, recalled=frozenset())),
            view and evolve(view, sealed=None), list(found.seen.federated), grants,
            [] if view is None else [
                {**encode(one.event), "holder": None} for one in view.charges],
            (past.entries, past.uuid, past.hash_at, past.moves_at, past.has_head),
            evolve(short, sealed=None, past=None))


def of_records(store, name):
    """What the first records of a table spent, or why that is not said."""
    try:
        state = History(store, writable=False).full(name)
    except pl.errors.PrivledgerError as error:
        return str(error)
    found = []
    for row in range(3):
        try:
            found.append(record_spend(store, state, row, name))
        except pl.errors.PrivledgerError as error:
            found.append(str(error))
    return found, data_names(state), list(state.tables)


def check(store, at=0, head=None):
    """That an epoch changes no word; whether one was used."""
    used = read_once(store).view
    assert told(store, whole=False, at=at, head=head) == told(store, whole=True, at=at, head=head)
    names = [] if used is None else sorted({one.table for one in used.charges})
    found = [of_records(store, name) for name in names]
    with pytest.MonkeyPatch.context() as without:
        without.setattr(history, "find_epoch", lambda store: None)
        assert found == [of_records(store, name) for name in names]
    return used is not None and used.sealed is not None


class Part(MemoryStore):
    """The first entries of a history, at a place that has a name."""

    location = "part"

    def __init__(self, whole, count):
        super().__init__()
        self._entries, self._whole = whole.read()[:count], whole

    def vector(self, name):
        return self._whole.vector(name)


class Columns(MemoryStore):
    """Rows that are no history, at a place that has a name."""

    location = "columns"

    def __init__(self, rows):
        super().__init__()
        self._stored = rows

    def columns(self, first, count):
        some = self._stored[first:first + count]
        return ["\n".join(map(str, column)).encode() for column in zip(*some, strict=True)
                ] if len(some) == count else None


GOLDEN = [*(f"{kind}.v01" for kind in sorted(TOTALS)), *(f"{name}.gz" for name in sorted(FORMATS))]


def read_in_two(name, tmp_path, cuts):
    """A history whose beginning was sealed at some places; how often that was of use."""
    data, used = (FOLDER / name).read_bytes(), 0
    (tmp_path / "x.ledger").write_bytes(gzip.decompress(data) if name.endswith("gz") else data)
    whole = store_at(tmp_path / "x.ledger", read_only=True)
    entries = whole.read()
    for count in cuts(len(entries)):
        for old in seals(tmp_path):
            old.unlink()
        read_once(Part(whole, count))
        for end in sorted({min(count + 3, len(entries)), len(entries)}):
            used += check(Part(whole, end), at=count - count % 3, head=entries[count - 2].hash)
    whole.close()
    return used


@pytest.mark.parametrize("at", range(1, 5))
def test_a_line_feed_in_a_text_makes_no_block(at):
    """Joined columns could be those of other rows."""
    texts = [["{}", "[]", "{}"], ["{}", "a\nb", "{}"]]
    for bodies, right in zip(texts, (True, False), strict=True):
        rows, previous = [], GENESIS
        for place, body in enumerate(bodies):
            digest = text_hash(place, "crashed", body, previous)
            rows.append([place, "crashed", body, previous, digest])
            previous = digest
        if not right and at != 2:
            rows[1][2], rows[1][at] = "[]", "a\nb"
            rows[2][3] = rows[1][4]  # the link is as it says
        store, chain = Columns(rows), Chain()
        assert len(epochs.follow_blocks(store, "uuid", chain)) == right
        assert chain.expected == 3 * right
        assert len(epochs.follow_blocks(store, "uuid", Chain())) == right


def chained(kinds, first=0, previous=GENESIS):
    """Entries of such kinds, each linked to the one before."""
    rows = []
    for place, kind in enumerate(kinds, first):
        digest = text_hash(place, kind, "{}", previous)
        rows.append([place, kind, "{}", previous, digest])
        previous = digest
    return rows


def test_a_known_block_behind_another_is_looked_at_again():
    """Its bytes are what they were, and its first link leads to what is no longer there."""
    rows = chained(["crashed"] * 9)
    assert len(epochs.follow_blocks(Columns(rows), "other", Chain())) == 3
    rows[3:6] = chained(["aborted"] * 3, 3, rows[2][4])
    chain = Chain()
    assert len(epochs.follow_blocks(Columns(rows), "other", chain)) == 2 and chain.expected == 6


def test_a_kind_that_no_writer_knows_makes_no_block():
    assert not epochs.follow_blocks(Columns(chained(["crashed", "new", "crashed"])), "k", Chain())


def test_a_writer_keeps_blocks_and_goes_on_where_none_can_be_kept(tmp_path, monkeypatch):
    """What is durable stays granted, whatever the store or the folder then does."""
    ledger, data = a_ledger(tmp_path / "w.ledger")
    path = checkpoint.state_path(ledger.receipt.uuid, "chain")
    for _ in range(9):
        ledger.request(G, data).close()
    kept, _ = epochs._blocks_in(path.read_bytes(), epochs._key())
    store, chain = store_at(tmp_path / "w.ledger", read_only=True), Chain()
    assert len(kept) > 2 and epochs.follow_blocks(store, "other", chain)[:len(kept)] == kept
    for name, sql in (("y.ledger", "UPDATE entries SET body = '{}' WHERE position = 1"),
                      ("z.ledger", "DELETE FROM entries WHERE position = 4")):
        store.copy_to(tmp_path / name)
        doctor(tmp_path / name, sql)
        damaged, chain = store_at(tmp_path / name, read_only=True), Chain()
        found = epochs.follow_blocks(damaged, ledger.receipt.uuid, chain)
        assert found == kept[:chain.expected // 3] and chain.expected < 6
        damaged.close()
    assert epochs._blocks_in(path.read_bytes(), epochs._key())[0] == kept
    monkeypatch.setattr(SQLiteStore, "columns", lambda *given: refuse())
    for _ in range(5):
        ledger.request(G, data).close()
    assert ledger.verify() == [] and ledger.receipt.counter == 14
    store.close()
    ledger.close()


def refuse():
    raise pl.errors.LedgerError("nothing is read")


def test_it_says_of_every_kind_of_entry_whether_rules_remember_it():
    assert set(epochs.BY) == set(EVENTS)


@pytest.mark.parametrize("name", GOLDEN[::3])
def test_from_some_place_of_a_history_it_says_the_same(name, tmp_path):
    assert read_in_two(name, tmp_path, lambda count: [count // 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_with_every_kind_of_entry_of_every_format_it_says_the_same_from_everywhere(name, tmp_path):
    assert read_in_two(name, tmp_path, lambda count: range(4, count)) > 3


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from((*STEPS, "look")), max_size=14))
def test_a_history_read_in_stretches_is_the_history_read_whole(steps, tmp_path):
    ledger, data = a_ledger(caps=[pl.Cap(pl.Budget(0.9, 1e-6), labels={"team": "a"})])
    store, names = ledger._history.store, []
    store.location = "a name"
    for what in (*steps, "look"):
        try:
            if what == "look":
                ledger._history.flush()
                check(store, at=len(store.read()) // 2, head=store.read()[0].hash)
            else:
                step(ledger, data, what, names)
        except pl.BudgetExceeded:
            assert "void" in steps


@pytest.fixture
def place(tmp_path):
    """A ledger with a sealed stretch, a scope with a vector in it, and a tail."""
    path = tmp_path / "x.ledger"
    with a_ledger(path)[0] as ledger:
        data = ledger.protect({"x": [0.1, 0.2, 0.3]}, None, pl.Schema(
            "n", (pl.Column("x", "numeric", "feature", 0, 1),)), name="rows")
        for what in ("settle", "scope", "release", "refund", "leave"):
            step(ledger, data, what, [])
        left = store_at(path, read_only=True)
        read_once(left)
        left.close()
        step(ledger, data, "release", [])
    assert len(seals(tmp_path)) == 1
    return path


def found(path):
    """What is said now, which is what is said without the epoch."""
    store = store_at(path, read_only=True)
    try:
        return check(store), [one.rule for one in read_once(store).findings]
    finally:
        store.close()


def test_it_is_used_and_the_first_line_says_what_was_read(place):
    assert found(place) == (True, [])
    lines = [CliRunner().invoke(main, ["verify", str(place), *more]).stdout
             for more in ((), ("--all",))]
    assert "re-priced by this user on 20" in lines[0] and "of them re-priced now" in lines[0]
    assert "Every entry was re-read and re-priced." in lines[1]


def linked(path):
    shutil.copy(path, path.with_name("elsewhere"))
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))


def piped(path):
    path.unlink()
    os.mkfifo(path)


SPOILT = {  # what an attacker, a damaged disk or a restored copy may do to an epoch
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "open to others": lambda path: path.chmod(0o666), "a link": linked, "a pipe": piped,
    "another key": lambda path: path.with_name("epochs.key").write_bytes(bytes(32)),
    "no key": lambda path: path.with_name("epochs.key").unlink(),
    "a key of others": lambda path: path.with_name("epochs.key").chmod(0o622)}


@pytest.mark.parametrize("how", SPOILT)
def test_one_that_is_not_as_it_was_sealed_is_none(place, tmp_path, how):
    SPOILT[how](*seals(tmp_path))
    store = store_at(place, read_only=True)
    assert find_epoch(store) is None
    assert read_once(store).view.sealed is None
    store.close()


def test_no_byte_of_it_can_be_changed_without_the_key(place, tmp_path):
    (path,) = seals(tmp_path)
    data, store = path.read_bytes(), store_at(place, read_only=True)
    assert find_epoch(store) is not None
    for at in range(0, len(data), 41):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        assert find_epoch(store) is None, at
    store.close()


def test_one_whose_view_cannot_be_read_is_none(place, tmp_path):
    """Right under its key, and not what this code writes: as an attacker with the key may do."""
    (path,) = seals(tmp_path)
    value = msgspec.msgpack.decode(path.read_bytes()[32:])
    for seen in ({}, {**value["seen"], "moves": b"1"}, {**value["seen"], "federated": ["{"]}):
        text = msgspec.msgpack.encode({**value, "seen": seen})
        path.write_bytes(hmac.digest(path.with_name("epochs.key").read_bytes(), text, "sha256")
                         + text)
        assert found(place) == (False, [])


@pytest.mark.parametrize("home", ["", None])
def test_one_in_the_working_directory_is_none(place, tmp_path, monkeypatch, home):
    """A checkout belongs to the user who runs a check, and what is in it to its authors."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if home is None:  # a user without a home: it is not expanded
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setattr(os.path, "expanduser", lambda path: "state")
    store = store_at(place, read_only=True)
    assert find_epoch(store) is None
    assert read_once(store).view.sealed is None
    assert (read_once(store).view.sealed is None) is (home is None)
    store.close()


@pytest.mark.parametrize("change", ["group may write", "others may write", "of another user"])
def test_a_folder_that_others_may_write_to_is_not_used(place, tmp_path, monkeypatch, change):
    """Its files may all be ours: who may write to a folder may put old ones back."""
    folder, ours = tmp_path / "state" / "privledger", os.geteuid()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    if change == "of another user":
        monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    else:
        folder.chmod(0o720 if change.startswith("group") else 0o702)
    assert checkpoint.state_folder() == Path(os.devnull, "privledger")
    assert found(place) == found(place) == (False, [])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.setattr(os, "geteuid", lambda: ours)
    folder.chmod(0o700)
    assert found(place) == (True, [])


def test_other_code_reads_everything_again(place, monkeypatch):
    monkeypatch.setattr(epochs, "_code", lambda: "later")
    assert found(place) == (False, [])
    assert found(place) == (True, [])  # sealed anew


@pytest.mark.parametrize(("sql", "rule"), [
    ("UPDATE entries SET body = replace(body, '3', '4') WHERE position = 3", "chain-is-unbroken"),
    ("UPDATE entries SET hash = 'x' || substr(hash, 2) WHERE position = 5", "chain-is-unbroken"),
    ("UPDATE entries SET body = body || char(10) WHERE position = 4", "chain-is-unbroken"),
    ("DELETE FROM entries WHERE position = 4", "chain-is-unbroken"),
    ("UPDATE entries SET kind = 'crashed' WHERE position = 4", "chain-is-unbroken"),
    ("DELETE FROM vectors", "vectors-match"),
    ("UPDATE vectors SET data = x'00'", "vectors-match"),
    ("UPDATE checkpoint SET state = replace(state, '1', '2')", "checkpoint-matches"),
    ("DELETE FROM entries WHERE position > 6", ""),
    ("CREATE TABLE more (x)", "place-is-as-written")])
def test_what_is_wrong_in_the_sealed_stretch_is_found_as_without_it(place, sql, rule):
    doctor(place, sql)
    used, rules = found(place)
    assert not used and (rule in rules or not rule)


def test_bytes_of_a_sealed_stretch_are_hashed_together(place):
    """One by one are only those that fill no block, and long ones; a block is of these alone."""
    store = store_at(place, read_only=True)
    epoch = find_epoch(store)
    assert len(epoch.blocks) == epoch.sealed.entries // epochs.BLOCK > 1
    rows = list(store.rows())
    digests = [row[4] for row in rows[:epoch.sealed.entries]]
    path = checkpoint.state_path(epoch.state.uuid, "chain")
    kept, head = epochs._blocks_in(path.read_bytes(), epochs._key())
    assert kept[:len(epoch.blocks)] == epoch.blocks and head in {row[4] for row in rows}
    path.unlink()
    for known in (None, kept, [], kept[:1], kept[:1] * 2, kept[::-1], [*kept[:1], b"", *kept[2:]]):
        if known is not None:
            epochs._keep(path, epochs._CHAIN + msgspec.msgpack.encode((known, head)))
        seen, chain = [], Chain()
        assert epoch.follow(store, chain, lambda place, *digests, seen=seen: seen.extend(digests))
        assert seen == digests and chain.expected == epoch.sealed.entries
        assert epochs._blocks_in(path.read_bytes(), epochs._key())[0][:len(epoch.blocks)] == (
            epoch.blocks)
    for data in (path.read_bytes()[:40], b"", b"x" * 99, path.with_suffix(".epoch").read_bytes()):
        path.write_bytes(data)
        assert epoch.follow(store, Chain())
    for first, count in ((0, 4), (2, 3), (0, len(rows))):
        assert store.columns(first, count) == [
            "\n".join(map(str, column)).encode() for column in zip(
                *rows[first:first + count], strict=True)]
    assert store.columns(0, len(rows) + 1) is None
    store.close()


@pytest.mark.parametrize("sql", [
    "", "UPDATE entries SET body = replace(body, ':', ': ') WHERE position = 4",
    "UPDATE entries SET body = '{' WHERE position = 4",
    "UPDATE entries SET body = '[]' WHERE position = 4",
    "UPDATE entries SET body = body || char(10) WHERE position = 1",
    "UPDATE entries SET kind = 'crashed' WHERE position = 4",
    "UPDATE entries SET hash = 'x' WHERE position = 1", "DELETE FROM entries WHERE position = 4",
    "UPDATE entries SET previous = 'ü' WHERE position = 4",
    "DELETE FROM entries WHERE position > 4"])
@pytest.mark.parametrize("command", ["export", "log"])
def test_what_is_written_of_a_sealed_stretch_needs_no_seal(place, sql, command, monkeypatch):
    if sql:
        doctor(place, sql)
    words = [command, str(place), *(["-o", "-"] if command == "export" else [])]
    sealed = CliRunner().invoke(main, words)
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    plainly = CliRunner().invoke(main, words)
    assert (sealed.exit_code, sealed.stdout, sealed.stderr) == (
        plainly.exit_code, plainly.stdout, plainly.stderr)
    assert sealed.stdout or sql


def test_long_entries_are_hashed_one_by_one(place, monkeypatch):
    monkeypatch.setattr(sqlite_open, "BATCH_BYTES", 600)
    assert found(place) == (True, [])
    monkeypatch.setattr(epochs, "_code", lambda: "later")
    assert found(place) == (False, [])
    store = store_at(place, read_only=True)
    assert store.columns(0, 3) is None
    assert find_epoch(store).blocks == []
    store.close()
    assert found(place) == (True, [])


@pytest.mark.parametrize("more", [(), ("DELETE FROM checkpoint",)])
def test_a_stretch_that_was_written_anew_is_read_whole(place, more):
    """The attacker charges less, and hashes again: the epoch is of another history then."""
    with sqlite3.connect(place) as connection:
        rows = connection.execute("SELECT * FROM entries ORDER BY position").fetchall()
    connection.close()
    cheap = next(row[0] for row in rows if row[1] == "granted")
    previous, new = GENESIS, []
    for position, kind, text, _, _ in rows:
        if position == cheap:
            text = canonical({**json.loads(text), "units": 1})
        digest = text_hash(position, kind, text, previous)
        new.append(("UPDATE entries SET body = ?, previous = ?, hash = ? WHERE position = ?",
                    (text, previous, digest, position)))
        previous = digest
    doctor(place, *new, *more)
    used, rules = found(place)
    assert not used and "prices-are-right" in rules


def test_a_copy_that_went_another_way_is_read_whole(place, tmp_path):
    (path,) = seals(tmp_path)
    data = path.read_bytes()
    other, _ = a_ledger(tmp_path / "y.ledger")
    other.close()
    store = store_at(tmp_path / "y.ledger", read_only=True)
    uuid = read_once(store).state.uuid
    checkpoint.state_path(uuid, "epoch").write_bytes(data)  # of another ledger, under this name
    assert find_epoch(store) is None
    store.close()


def test_it_holds_no_value_of_a_record_and_only_its_owner_reads_it(place, tmp_path):
    (path,) = seals(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    value = msgspec.msgpack.decode(path.read_bytes()[32:])
    assert set(value) == {"code", "entries", "head", "time", "rows", "state", "names",
                          "checkpoint", "seen", "efforts", "blocks"}


def test_a_finding_is_never_sealed(place, tmp_path):
    for old in seals(tmp_path):
        old.unlink()
    doctor(place, "DELETE FROM vectors")
    store = SQLiteStore(place, read_only=True)
    assert read_once(store).findings and not seals(tmp_path)
    assert len(StoredRows(store)) > 4
    store.close()
