"""A checkpoint changes how long opening takes, and nothing else."""

import json
import os
import sqlite3
from contextlib import suppress

import pytest
from attrs import asdict, evolve, fields
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.graph import canonical
from privledger.ledger import History, State, audit, checkpoint
from privledger.ledger.checkpoint import Checkpoint, is_known, read_ours, remember_checkpoint
from privledger.ledger.events import Refused
from privledger.ledger.history import resumed
from privledger.ledger.line import QueuePosition
from privledger.storage import MemoryStore, SQLiteStore
from tests.bodies import body_of, said
from tests.doctored import doctor
from tests.worlds import refused, schema_of

G = pl.Gaussian(50.0)
SCOPE = pl.IndividualFilter("gdp", 0.001)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(checkpoint, "CADENCE", 4)


def opened(store):
    """The state after opening."""
    return History(store).refresh()


def folded(store):
    """The same without a checkpoint: every entry, one by one."""
    state = State(compact=True)
    full = State()
    for entry in store.read():
        full.apply(entry)
    for entry in store.read():
        if entry.event.kind == "corrected":  # what a history does when it meets one
            name = body_of(entry)["grant"]
            if name not in state.grants and name in state.closed_names:
                before = State()
                for earlier in store.read()[: entry.position]:
                    before.apply(earlier)
                state.grants[name] = before.grants[name]
        state.apply(entry)
    assert state.units == full.units and state.knows("x") == full.knows("x")
    return state


def plain(state):
    return asdict(state)


def a_ledger(place=None, caps=()):
    ledger = pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=caps)
    schema = schema_of("n", {"x": (0, 1)})
    return ledger, ledger.protect({"x": [0.1, 0.2, 0.3]}, None, schema, name="rows")


STEPS = ("settle", "release", "leave", "refund", "scope", "correct", "void", "refuse", "crash",
         "reopen")


def step(ledger, data, what, names):
    if what in ("settle", "release", "leave", "refund", "crash"):
        session = ledger.request(G, data, labels={"team": "a"})
        names.append(session.grant)
        if what == "release":
            session.release(G, data.count())
        if what == "crash":
            crash = said(("crashed", {"grant": names[-1], "time": ""}))
            ledger._history.commit(lambda state: crash)
        if what in ("settle", "release", "refund"):
            session.close(failed=KeyError if what == "refund" else None)
    elif what == "scope":
        scope = ledger.open_scope(SCOPE, name="s")
        with ledger.request(SCOPE, data, scope=scope) as session:
            session.release(pl.Gaussian(100.0), session.filtered().count())
    elif names and what in ("correct", "void"):
        with suppress(pl.PrivledgerError):  # it was handed back
            ledger.correct(names[0], None if what == "void" else pl.Gaussian(40.0), "because")
    else:
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.01), data))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(STEPS), max_size=16))
def test_opening_with_and_without_a_checkpoint_is_the_same(steps):
    ledger, data = a_ledger(caps=[pl.Cap(pl.Budget(0.9, 1e-6), labels={"team": "a"})])
    store, names = ledger._history.store, []
    for what in steps:
        try:
            step(ledger, data, what, names)
        except pl.BudgetExceeded:
            assert "void" in steps  # from there on nothing fits
    ledger._history.flush()
    with_one = opened(store)
    assert plain(with_one) == plain(folded(store))
    assert plain(ledger._history.refresh()) == plain(with_one)
    findings = audit(store)
    assert not [found for found in findings if found.rule != "never-over-the-cap"]
    assert "void" in steps or findings == []


def test_a_checkpoint_is_written_now_and_then():
    ledger, data = a_ledger()
    store, positions = ledger._history.store, set()
    for _ in range(12):
        ledger.request(G, data).close()
        kept = store.checkpoint()
        positions |= set() if kept is None else {kept[0].position}
    assert 3 <= len(positions) <= len(store.read()) // 4
    assert opened(store).position == len(store.read()) - 1


def test_nothing_is_due_before_it_pays(monkeypatch):
    """The more a checkpoint holds, the longer until the next: O(1) for each entry."""
    state = State(position=100)
    assert checkpoint.is_due(state, 96) and not checkpoint.is_due(state, 97)
    state.grants = dict.fromkeys(range(50))
    assert checkpoint.is_due(state, 50) and not checkpoint.is_due(state, 51)


def test_every_part_of_a_state_is_in_a_checkpoint_or_follows_from_one():
    """Whoever adds a field to State must bring it through a checkpoint."""
    known = {"compact", "_creation", "uuid", "budget", "relation", "mode", "filter_asked", "rule",
             "units", "delta_units", "position", "head", "grants", "scopes", "tables", "refusals",
             "caps", "cap_spent", "closed", "closed_names", "format", "window", "windows",
             "charges", "policy", "unit", "enrolled", "line"}
    listener = {"ended", "recalled"}  # of what a state lets go of; no part of it
    assert {field.name for field in fields(State)} == known | listener


def busy(place=None):
    """A store with some history and a checkpoint in it."""
    ledger, data = a_ledger(place)
    ledger.request(G, data)  # stays open
    waits = QueuePosition(
        "grant-waits", "people", {"team": "a"}, 2**200, 0, "2999-01-01T00:00:00+00:00")
    ledger._history.commit(lambda state: [
        Refused("somebody", waits=waits), Refused("other", waits=evolve(waits, grant="grant-over")),
        Refused("other", left_line="grant-over")])
    for _ in range(5):
        with ledger.request(G, data) as session:
            session.release(G, data.count())
    return ledger


def doctored(kept, text_of_names, **changes):
    value = json.loads(kept.state) | changes
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return Checkpoint(kept.position, kept.head, text,
                      checkpoint._seal(kept.position, kept.head, text)), text_of_names


@pytest.mark.parametrize("changes", [
    {"units": 0}, {"delta_units": 5}, {"refusals": 9}, {"grants": []}, {"cap_spent": [[0, 0]]},
    {"created": {}}, {"filter": None}, {"names": 0}, {"digest": "0" * 64}, {"version": 0},
    {"scopes": [{"scope": "x", "position": 1, "body": {}}]}])
def test_a_doctored_checkpoint_is_found_whatever_its_seal_says(changes):
    store = busy()._history.store
    assert audit(store) == []
    kept, names = store.checkpoint()
    assert names and json.loads(kept.state)["grants"]
    store._checkpoint, text = doctored(kept, names, **changes)
    store._names = [text]
    assert [found.rule for found in audit(store)] == ["checkpoint-matches"]


@pytest.mark.parametrize("change", ["position", "head", "state", "seal", "names", "behind"])
def test_a_damaged_checkpoint_is_ignored_and_found(change):
    store = busy()._history.store
    right = plain(opened(store))
    kept, _ = store.checkpoint()
    store._checkpoint = {
        "position": evolve(kept, position=kept.position - 1), "head": evolve(kept, head="0" * 64),
        "state": evolve(kept, state=kept.state.replace('"units":', '"units":1')),
        "seal": evolve(kept, seal="0" * 64), "names": kept,
        "behind": evolve(kept, position=10**6)}[change]
    if change == "names":
        store._names = store._names[:-1]
    assert plain(opened(store)) == right
    assert [found.rule for found in audit(store)] == ["checkpoint-matches"]


def test_the_checkpoint_of_another_ledger_is_ignored_and_found():
    mine, other = busy()._history.store, busy()._history.store
    right = plain(opened(mine))
    mine._checkpoint, mine._names = other._checkpoint, other._names
    assert plain(opened(mine)) == right
    assert [found.rule for found in audit(mine)] == ["checkpoint-matches"]


def test_an_entry_edited_at_the_checkpoint_is_found_when_opening(tmp_path):
    path = tmp_path / "x.ledger"
    busy(path).close()
    store = SQLiteStore(path)
    (kept, _) = store.checkpoint()
    store.close()
    doctor(
        path, f"UPDATE entries SET body = replace(body, 'e', 'f') WHERE position = {kept.position}")
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(path))


def test_a_checkpoint_of_a_later_version_is_left_to_it():
    store = busy()._history.store
    right = plain(opened(store))
    store._checkpoint, _ = doctored(*store.checkpoint(), version=checkpoint.VERSION + 1)
    assert plain(opened(store)) == right and audit(store) == []


# In a file.

def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("statements", [
    (), ("DROP TABLE checkpoint", "DROP TABLE closed"),
    ("DELETE FROM closed",), ("DELETE FROM closed WHERE number = 2",),
    ("UPDATE checkpoint SET state = '{}'",), ("UPDATE checkpoint SET seal = 'ü'",),
    ("UPDATE closed SET names = 'x' WHERE number = 1",), ("DELETE FROM checkpoint",),
    ("UPDATE closed SET names = '\"a\",\"a\"'",),
    ("UPDATE closed SET names = replace(names, 'grant', 'grand')",)])
def test_a_file_goes_on_whatever_became_of_its_checkpoint(tmp_path, statements):
    path = tmp_path / "x.ledger"
    with busy(path) as ledger:
        spent, right = ledger.spent, plain(ledger._history.refresh())
    edit(path, *statements)
    with pl.Ledger.open(path) as ledger:
        assert ledger.spent == spent and plain(ledger._history.refresh()) == right
        _, data = ledger, ledger.protect({"x": [0.1]}, None, schema_of("n", {"x": (0, 1)}))
        for _ in range(4):
            ledger.request(G, data).close()
        assert ledger.verify() == []  # a new checkpoint took the place of what was damaged
    store = SQLiteStore(path)
    assert plain(opened(store)) == plain(folded(store))
    assert checkpoint.restore_state(*store.checkpoint()) is not None
    store.close()


@pytest.mark.parametrize("user", ["the same", "another"])
def test_a_checkpoint_with_a_new_seal_frees_no_budget(tmp_path, user, monkeypatch):
    path = tmp_path / "x.ledger"
    with busy(path) as ledger:
        spent, right = ledger.spent, plain(ledger._history.refresh())
        kept, _ = ledger._history.store.checkpoint()
    forged = json.loads(kept.state) | {"units": 0}
    text = canonical(forged)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE checkpoint SET state = ?, seal = ?",
                           (text, checkpoint._seal(kept.position, kept.head, text)))
    connection.close()
    if user == "another":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    for read_only in (True, False):
        with pl.Ledger.open(path, read_only=read_only) as ledger:
            assert ledger.spent == spent and plain(ledger._history.refresh()) == right


@pytest.mark.parametrize("user", ["the same", "another"])
def test_the_user_who_wrote_a_checkpoint_reads_on_from_it(tmp_path, user, monkeypatch):
    """All others read every entry: the seal of a checkpoint proves nothing to them."""
    with busy(tmp_path / "x.ledger"):
        pass
    if user == "another":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    store = SQLiteStore(tmp_path / "x.ledger")
    found = resumed(store, *store.checkpoint())
    store.close()
    assert (found is not None) is (user == "the same")


def test_seals_that_somebody_else_could_have_written_count_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remember_checkpoint("l", "../../uuid", "a" * 64)
    (file,) = (tmp_path / "privledger").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and is_known("l", "../../uuid", "a" * 64)
    for seal in "bcdefghijk":
        remember_checkpoint("l", "../../uuid", seal * 64)
    assert is_known("l", "../../uuid", "k" * 64) and file.stat().st_size == 8 * 65
    file.chmod(0o666)
    assert not is_known("l", "../../uuid", "k" * 64)
    file.unlink()
    (tmp_path / "elsewhere").write_text("k" * 64)
    file.symlink_to(tmp_path / "elsewhere")
    assert not is_known("l", "../../uuid", "k" * 64)
    file.unlink()
    os.mkfifo(file)
    assert not is_known("l", "../../uuid", "k" * 64)


def test_a_file_that_others_may_write_is_not_ours(tmp_path):
    """Of all modes; what others may read or run is no matter."""
    (file := tmp_path / "seals").write_bytes(b"x")
    for mode in range(0o400, 0o1000):
        file.chmod(mode)
        assert read_ours(file, 9) == (b"" if mode & 0o022 else b"x")


def test_one_of_the_two_tables_alone_was_made_by_nobody(tmp_path):
    path = tmp_path / "x.ledger"
    busy(path).close()
    edit(path, "DROP TABLE closed")
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(path), match="'closed' is missing")


def test_two_writers_of_one_file_agree_on_its_checkpoints(tmp_path):
    path = tmp_path / "x.ledger"
    one, data = a_ledger(path)
    two = pl.Ledger.open(path)
    other = two.protect({"x": [0.1]}, None, data.schema)
    for turn in range(30):
        ledger, rows = ((one, data), (two, other))[(turn // 3) % 2]
        session = ledger.request(G, rows)
        if turn % 5:
            session.close()
        kept = ledger._history.store.checkpoint()
        assert turn < 3 or checkpoint.restore_state(*kept) is not None
    assert one.verify() == [] and two.verify() == []
    rows = sqlite3.connect(path).execute("SELECT names FROM closed").fetchall()
    assert len(rows) > 5  # added to, not written anew each time
    store = SQLiteStore(path)
    assert plain(opened(store)) == plain(folded(store))
    for last in (store, one, two):
        last.close()


def test_what_the_state_forgot_can_still_be_seen_and_corrected(tmp_path):
    path = tmp_path / "x.ledger"
    with busy(path) as ledger:
        first = list(ledger.state.grants)[1]
        assert first not in ledger._history.state.grants
    with pl.Ledger.open(path) as ledger:
        assert ledger.state.grants[first].status == "settled"
        assert len(ledger.graph().nodes) == 6 and ledger.record(0).lines[1].grant == first
        before = ledger.spent
        assert ledger.correct(first, pl.Gaussian(30.0), "it was louder") > before
        refused(pl.NotGranted, lambda: ledger.correct("grant-nobody", None, "x"))
        spent = ledger.spent
        assert ledger.verify() == []
    with pl.Ledger.open(path) as ledger:
        assert ledger.spent == spent and ledger.verify() == []
        ledger.correct(first, None, "nothing is certain")
        assert "nothing is certain" in ledger.state.broken
    with pl.Ledger.open(path) as ledger, pytest.raises(pl.BudgetExceeded):
        ledger.request(G, ledger.protect({"x": [0.1]}, None, schema_of("n", {"x": (0, 1)})))


def test_the_name_of_a_grant_that_is_over_stays_taken():
    ledger = busy()
    body = next(body_of(entry) for entry in ledger._history.store.read()
                if entry.event.kind == "granted")
    with pytest.raises(pl.errors.LedgerCorrupt, match="twice"):
        ledger._history.commit(lambda state: said(("granted", body)))
    assert ledger.verify() == []


def test_an_empty_memory_store_has_none():
    assert MemoryStore().checkpoint() is None


def test_a_checkpoint_keeps_the_line_and_both_verifiers_compare_it(tmp_path):
    """Whoever opens at a checkpoint sees who waited before it."""
    ledger = busy(tmp_path / "l.ledger")
    assert list(opened(ledger._history.store).line) == ["grant-waits"]
    assert opened(ledger._history.store) == folded(ledger._history.store)
    kept, names = ledger._history.store.checkpoint()
    assert [one["grant"] for one in json.loads(kept.state)["line"]] == ["grant-waits"]
    assert audit(ledger._history.store) == []
    ledger._history.store.checkpoint = lambda: doctored(kept, names, line=[])
    assert [one.rule for one in audit(ledger._history.store)] != []
