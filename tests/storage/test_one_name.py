"""One ledger, one file, one name: through a second one it would be spent twice.

Repeats the attacks: a hard link, a rename, a replacement, a copy over it, a removal, while open.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger import audit
from privledger.storage import SQLiteStore, store_at
from privledger.storage import place as places
from tests.bodies import said
from tests.worlds import refused, schema_of, together

SCHEMA = schema_of("one", {"x": (0.0, 1.0)})
G = pl.Gaussian(22.0)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="locks of open descriptors: Linux only")


def guard(ledger):
    return ledger.protect({"x": np.linspace(0, 1, 20)}, None, SCHEMA, name="rows")


def spend(ledger, data, most=100):
    """Requests until one is refused; how many were granted."""
    for number in range(most):
        try:
            ledger.request(G, data).close()
        except pl.BudgetExceeded:
            return number
        except pl.LedgerError:
            ledger._history._pending.clear()
            return number
    return most


@pytest.fixture
def path(tmp_path):
    (tmp_path / "here").mkdir()
    return another(tmp_path / "here" / "l.db")


@pytest.fixture
def fits(tmp_path):
    with pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp") as ledger:
        return spend(ledger, guard(ledger))


def another(place):
    pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp").close()
    return place


def make_afresh(path):
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    another(path)


def copy_over(path):
    """`cp` writes into the same file: neither its name nor its number changes."""
    data = path.read_bytes()
    with open(path, "r+b") as file:
        file.truncate()
        file.write(data)


def move(path):
    (path.parent / "folder").mkdir()
    path.rename(path.parent / "folder" / path.name)


def move_folder(path):
    path.parent.rename(path.parent.with_name("there"))
    path.parent.mkdir()


def written_again(suffix):
    def attack(path):
        beside = Path(f"{path}{suffix}")
        data = beside.read_bytes()
        beside.unlink()
        beside.write_bytes(data)
    return attack


def symlinked_log(path):
    os.rename(f"{path}-wal", f"{path}-elsewhere")
    os.symlink(f"{path}-elsewhere", f"{path}-wal")


ATTACKS = {
    "link": lambda path: os.link(path, path.with_name("other.db")),
    "rename": lambda path: path.rename(path.with_name("other.db")), "move": move,
    "remove": lambda path: path.unlink(),
    "replace": lambda path: os.replace(shutil.copy(path, path.with_name("copy.db")), path),
    "replace by another": lambda path: os.replace(another(path.with_name("other.db")), path),
    "make afresh": make_afresh, "copy over": copy_over, "cut": lambda path: os.truncate(path, 4096),
    "no log": lambda path: Path(f"{path}-wal").unlink(), "another log": written_again("-wal"),
    "linked log": lambda path: os.link(f"{path}-wal", f"{path}-wal-too"),
    "symlinked log": symlinked_log, "another index": written_again("-shm"),
    "linked index": lambda path: os.link(f"{path}-shm", f"{path}-shm-too"),
    "move folder": move_folder}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_open_ledger_refuses_what_became_of_its_file(path, attack):
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    ledger.request(G, data).close()
    units = ledger._history.state.units
    ATTACKS[attack](path)
    for _ in range(2):  # and it does not get used to it
        with pytest.raises(pl.LedgerError) as caught:
            ledger.request(G, data)
        assert isinstance(caught.value, (pl.errors.LedgerMisplaced, pl.errors.LedgerMissing,
                                         pl.errors.LedgerCorrupt))
        if attack == "copy over":
            break  # the same bytes: who opens it afresh finds everything
    assert data._vault.opened == 0 and ledger._history.state.units == units
    ledger._history._pending.clear()
    ledger.close()


@pytest.mark.parametrize("attack", ["link", "rename", "move", "replace"])
def test_two_names_together_never_spend_more_than_there_is(path, fits, attack):
    """44 grants where 22 fit, before."""
    first = pl.Ledger.open(path)
    data = guard(first)
    granted = spend(first, data, 5)
    ATTACKS[attack](path)
    for name in {path, *path.parent.rglob("*.db")}:
        try:
            with pl.Ledger.open(name) as second:
                granted += spend(second, guard(second))
        except pl.LedgerError:
            continue
    granted += spend(first, data)
    first.close()
    assert 5 <= granted <= fits


def test_a_hard_link_is_refused_at_once_and_found_by_an_auditor(path):
    ATTACKS["link"](path)
    for name in (path, path.with_name("other.db")):
        with pytest.raises(pl.errors.LedgerMisplaced, match="hard link"):
            pl.Ledger.open(name)
        store = store_at(name, read_only=True)
        (found,) = audit(store)
        store.close()
        assert found.rule == "place-is-as-written" and "hard link" in found.message
        for command in (["verify"], ["show"]):
            assert CliRunner().invoke(main, [*command, str(name)]).exit_code == 3


def test_a_symbolic_link_is_the_same_ledger(path, fits):
    """It leads to one file and one log, so both names see each other."""
    other = path.parent.with_name("elsewhere")
    other.mkdir()
    (other / "link.db").symlink_to(path)
    with pl.Ledger.open(path) as one, pl.Ledger.open(other / "link.db") as two:
        first, second = guard(one), guard(two)
        assert spend(one, first, fits - 3) + spend(two, second) == fits
        assert not (other / "link.db-wal").exists()
        assert one.spent == two.spent
    with pl.Ledger.open(other / "link.db") as two:
        assert len(two.state.grants) == fits


def test_a_symbolic_link_that_leads_elsewhere_meanwhile_is_refused(path):
    other = another(path.with_name("another.db"))
    name = path.with_name("link.db")
    name.symlink_to(path)
    with pl.Ledger.open(name) as ledger:
        data = guard(ledger)
        name.unlink()
        name.symlink_to(other)
        refused(pl.errors.LedgerMisplaced, lambda: ledger.request(G, data), match="replaced")
        ledger._history._pending.clear()


def test_a_relative_path_stays_where_it_was(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent)
    with pl.Ledger.open("l.db") as ledger:
        data = guard(ledger)
        monkeypatch.chdir(tmp_path)
        ledger.request(G, data).close()
        ledger._history.store._let_go()  # as after a fork: it is opened again
        ledger.request(G, data).close()
        assert len(ledger.state.grants) == 2
    assert not (tmp_path / "l.db").exists()


def test_a_descriptor_s_own_name_is_that_of_its_file(path):
    with open(path, "rb") as file, pl.Ledger.open(f"/proc/self/fd/{file.fileno()}") as ledger:
        data = guard(ledger)
        ledger.request(G, data).close()
        assert Path(f"{path}-wal").exists()
        ATTACKS["rename"](path)
        refused(pl.errors.LedgerMisplaced, lambda: ledger.request(G, data))
        ledger._history._pending.clear()


@LINUX
def test_a_moved_file_is_not_opened_while_its_log_is_in_use_elsewhere(path, fits):
    """What was granted under the old name lies in the old log: nobody else sees it."""
    first = pl.Ledger.open(path)
    data = guard(first)
    granted = spend(first, data, 5)
    move(path)
    moved = path.parent / "folder" / path.name
    with pytest.raises(pl.errors.LedgerMisplaced, match="another log"):
        pl.Ledger.open(moved)
    with pytest.raises(pl.errors.LedgerMisplaced,
                       match="another log"):  # nor read: it would be half
        store_at(moved, read_only=True)
    assert CliRunner().invoke(main, ["verify", str(moved)]).exit_code == 3
    first._history._pending.clear()
    first._history.store.close()  # brings the log into the file, wherever its name is
    with pl.Ledger.open(moved) as second:
        assert len(second.state.grants) == granted == 5
        assert spend(second, guard(second)) == fits - 5


@LINUX
def test_a_new_file_is_not_opened_with_the_log_of_the_one_before(path):
    first = pl.Ledger.open(path)
    guard(first)
    first._history.flush()
    ATTACKS["replace by another"](path)
    with pytest.raises(pl.errors.LedgerMisplaced, match="log beside it is in use"):
        pl.Ledger.open(path)
    first._history.store.close()
    with pl.Ledger.open(path) as second:
        assert second.verify() == []


@LINUX
def test_closing_a_replaced_ledger_removes_no_log_of_its_successor(path):
    first = pl.Ledger.open(path)
    make_afresh(path)
    with pl.Ledger.open(path) as second:
        data = guard(second)
        second.request(G, data).close()
        first._history.store.close()
        assert Path(f"{path}-wal").exists()
        second.request(G, data).close()
        assert len(second.state.grants) == 2


def test_checkpoints_of_the_log_by_anybody_are_no_foreign_writes(path):
    """Copying the log writes to the file; that is told from a foreign write."""
    import sqlite3

    with pl.Ledger.open(path) as one, pl.Ledger.open(path) as two:
        first, second = guard(one), guard(two)
        one._history.store._connect().execute("PRAGMA wal_autocheckpoint = 2")
        with sqlite3.connect(path, isolation_level=None) as other:
            for number in range(12):
                (one if number % 2 else two).request(pl.Gaussian(60.0), (
                    first if number % 2 else second)).close()
                other.execute(f"PRAGMA wal_checkpoint({'PASSIVE' if number % 3 else 'TRUNCATE'})")
        other.close()
        assert len(one.state.grants) == 12 and one.verify() == []


def test_a_commit_whose_file_vanished_meanwhile_is_not_believed(path):
    """Between the look around and the commit: what was granted may be lost, and nobody gets it."""
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        units = ledger._history.state.units

        def late(state):
            path.unlink()
            return said(("window", {"window": "w", "time": ""}))

        with pytest.raises(pl.errors.LedgerMisplaced, match="may be lost"):
            ledger._history.commit(late)
        assert ledger._history.state.window is None
        assert ledger._history.state.units == units and data._vault.opened == 0
        ledger._history._pending.clear()


def test_many_handles_come_and_go_and_no_lock_is_dropped(path):
    """Closing a descriptor would drop SQLite's locks, and let another process take the log."""
    others = set(places._held)
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        for _ in range(3):
            ledger.request(G, data).close()
            pl.Ledger.open(path).close()
            done = subprocess.run([sys.executable, "-c", (
                "import sys, privledger as pl; pl.Ledger.open(sys.argv[1]).close()"), path],
                check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert Path(f"{path}-wal").exists()
        assert len(ledger.state.grants) == 3
    assert not Path(f"{path}-wal").exists() and set(places._held) <= others


def test_threads_that_open_and_close_leave_no_descriptor(path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    others = set(places._held)

    def work():
        for _ in range(5):
            SQLiteStore(path).close()

    together(4, work)
    assert set(places._held) <= others
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_opens_its_own_and_leaves_its_parent_s_alone(path):
    with pl.Ledger.open(path) as ledger:
        data = guard(ledger)
        ledger.request(G, data).close()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                ledger.request(G, data).close()
                ledger.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        ledger.request(G, data).close()
        assert len(ledger.state.grants) == 3 and ledger.verify() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_what_is_no_file_is_no_ledger(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        for read_only in (False, True):
            with pytest.raises(pl.errors.LedgerCorrupt, match="not a file"):
                pl.Ledger.open(tmp_path / name, read_only=read_only)
