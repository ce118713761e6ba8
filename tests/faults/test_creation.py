"""A ledger appears whole or not at all: killed at every step, on a full disk, in a race."""

import errno
import os
import random
import resource
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

import privledger as pl
from privledger.storage import sqlite_open
from tests.faults.small import die, guard, in_child
from tests.worlds import refused, together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

BUDGET = pl.Budget(1.0, 1e-6)
G = pl.Gaussian(9.0)
STEPS = ("lexists", "scandir", "open", "fchmod", "write", "fsync", "link", "unlink", "close")
POINTS = [(step, when) for step in STEPS for when in ("before", "after")]


class Doomed:
    """The module `os`, whose process dies, or whose call fails, at one step of a creation."""

    def __init__(self, step, when, error=0):
        self._step, self._when, self._error = step, when, error
        self.path = self

    def lexists(self, name):
        return self._meet("lexists", os.path.lexists, name)

    def realpath(self, name):
        return os.path.realpath(name)

    def samestat(self, *two):
        return os.path.samestat(*two)

    def _meet(self, name, call, *arguments):
        hit = name == self._step
        if hit and self._error:
            raise OSError(self._error, os.strerror(self._error))
        if hit and self._when == "before":
            die()
        done = call(*arguments)
        if hit:
            die()
        return done

    def __getattr__(self, name):
        found = getattr(os, name)
        return (lambda *more: self._meet(name, found, *more)) if name in STEPS else found


def test_a_disk_with_no_room_for_its_log_keeps_no_empty_ledger(tmp_path, monkeypatch):
    """The file itself would fit: only what its first opening writes beside it would not."""
    room, wrote = len(sqlite_open._content([])) + 40_000, [0]

    def write(descriptor, data):
        wrote[0] += len(data)
        if wrote[0] > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    real = os.write
    monkeypatch.setattr(os, "write", write)
    refused(pl.LedgerError, lambda: create(tmp_path / "a.ledger"), match="othing was made")
    assert list(tmp_path.iterdir()) == []


def create(path):
    return pl.Ledger.create(path, budget=BUDGET, filter="gdp")


def whole_or_nothing(path):
    """Whether there is a ledger; if there is, it is whole, and goes on."""
    try:
        ledger = pl.Ledger.open(path)
    except pl.errors.LedgerMissing:
        create(path).close()  # and the name is free
        ledger = pl.Ledger.open(path)
        there = False
    else:
        there = True
    with ledger:
        first, second = ledger._history.store.read()[:2]
        assert (first.event.kind, second.event.kind) == ("created", "filter")
        ledger.request(G, guard(ledger)).close()
        assert ledger.verify() == []
    assert sorted(os.listdir(path.parent)) == [path.name]  # what was left is cleared away
    return there


@pytest.mark.parametrize(("step", "when"), POINTS)
def test_killed_at_every_step(tmp_path, monkeypatch, step, when):
    path = tmp_path / "l.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_open, "os", Doomed(step, when))
        assert in_child(lambda: create(path)) == signal.SIGKILL
    for left in os.listdir(tmp_path):
        assert left == "l.db" or left.startswith("l.db.unfinished-")
    there = whole_or_nothing(path)
    assert there is ((step, when) in [("link", "after"), ("unlink", "before"), ("unlink", "after"),
                                      ("close", "before"), ("close", "after")])


@pytest.mark.parametrize("read_only", [False, True])
def test_the_second_name_of_a_killed_maker_is_taken_away_by_whoever_comes(
        tmp_path, monkeypatch, read_only):
    path = tmp_path / "l.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_open, "os", Doomed("unlink", "before"))
        assert in_child(lambda: create(path)) == signal.SIGKILL
    assert path.stat().st_nlink == 2
    pl.Ledger.open(path, read_only=read_only).close()
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "link"])
def test_a_step_that_fails_leaves_nothing(tmp_path, monkeypatch, step, error):
    path = tmp_path / "l.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_open, "os", Doomed(step, "", error))
        refused(pl.LedgerError, lambda: create(path), match="othing was made")
    assert os.listdir(tmp_path) == []
    assert whole_or_nothing(path) is False


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 8192, 12288, 16383, 16384, 20000])
def test_a_file_that_may_not_grow_leaves_nothing_or_a_whole_one(tmp_path, size):
    """The system's own limit, which SQLite meets, too."""
    path = tmp_path / "l.db"

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        refused(pl.LedgerError, lambda: create(path))

    assert in_child(work) == 0
    for suffix in ("-wal", "-shm"):  # of a ledger that is there, and that SQLite could not open
        assert path.exists() or not Path(f"{path}{suffix}").exists()
    whole_or_nothing(path)


def test_many_makers_of_one_name_make_one(tmp_path):
    path, made, turned_away = tmp_path / "l.db", [], []
    start = threading.Barrier(8)

    def work():
        start.wait(120)
        try:
            made.append(create(path))
        except pl.LedgerError as error:
            turned_away.append(str(error))

    together(8, work)
    assert len(made) == 1 and len(turned_away) == 7
    assert all("exists already" in text for text in turned_away)
    made[0].close()
    assert os.listdir(tmp_path) == ["l.db"]


@pytest.mark.parametrize("there", ["file", "folder", "link to nothing", "log", "journal"])
def test_nothing_that_is_there_is_touched(tmp_path, there):
    path = tmp_path / "l.db"
    {"file": lambda: path.write_bytes(b""), "folder": path.mkdir,
     "link to nothing": lambda: path.symlink_to(tmp_path / "none"),
     "log": lambda: Path(f"{path}-wal").write_bytes(b"old"),
     "journal": lambda: Path(f"{path}-journal").write_bytes(b"old")}[there]()
    before = os.listdir(tmp_path)
    refused(pl.LedgerError, lambda: create(path))
    assert os.listdir(tmp_path) == before


def test_what_is_no_path_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong in (object(), 3, 1.5, ["x"], Ellipsis):
        with pytest.raises(pl.InvalidValue, match="path"):
            pl.Ledger.create(wrong, budget=BUDGET)
        with pytest.raises(pl.InvalidValue, match="path"):
            pl.Ledger.open(wrong)
    assert os.listdir(tmp_path) == []


def test_a_beginning_that_is_no_history_makes_no_file(tmp_path):
    with pytest.raises(pl.InvalidValue):
        pl.Ledger.create(tmp_path / "l.db", budget=BUDGET, filter="nonsense")
    assert os.listdir(tmp_path) == []


# --- who may read it ------------------------------------------------------------------------------


def modes(folder):
    return {name: stat.S_IMODE((folder / name).stat().st_mode) for name in os.listdir(folder)}


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o277, 0o777])
def test_a_ledger_is_for_its_owner_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "l.db"
    before = os.umask(umask)
    try:
        ledger = create(path)
    finally:
        os.umask(before)
    with ledger:
        ledger.request(G, guard(ledger)).close()
        assert modes(tmp_path) == {"l.db": 0o600, "l.db-wal": 0o600, "l.db-shm": 0o600}


def test_the_unfinished_file_is_for_its_owner(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_open, "os", Doomed("fchmod", "before"))
            in_child(lambda: create(tmp_path / "l.db"))
    finally:
        os.umask(before)
    assert list(modes(tmp_path).values()) == [0o600]


@pytest.mark.parametrize("mode", [0o640, 0o660, 0o644])
def test_an_owner_may_widen_it_and_the_log_follows(tmp_path, mode):
    path = tmp_path / "l.db"
    create(path).close()
    path.chmod(mode)
    with pl.Ledger.open(path) as ledger:
        ledger.request(G, guard(ledger)).close()
        assert set(modes(tmp_path).values()) == {mode}
    assert modes(tmp_path) == {"l.db": mode}


def test_a_log_that_was_left_follows_the_ledger_s_mode(tmp_path):
    path = tmp_path / "l.db"
    create(path).close()
    path.chmod(0o644)

    def work():
        ledger = pl.Ledger.open(path)
        ledger.request(G, guard(ledger)).close()
        die()

    assert in_child(work) == signal.SIGKILL
    path.chmod(0o600)
    assert modes(tmp_path)["l.db-wal"] == 0o644
    with pl.Ledger.open(path) as ledger:
        assert set(modes(tmp_path).values()) == {0o600} and len(ledger.state.grants) == 1


@pytest.mark.slow
def test_killed_five_hundred_times_while_creating(tmp_path):
    """At random times."""
    luck, there = random.Random(20261122), 0
    for number in range(500):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "l.db"
        pid = os.fork()
        if pid == 0:
            try:
                create(path)
            finally:
                os._exit(0)
        time.sleep(luck.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        there += whole_or_nothing(path)
    print(f"{there} of 500 were there")
    assert 0 < there < 500
