"""What can go wrong with chunks and workers: a typed error or a right answer, never another one."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.engines import messages as sealing
from privledger.engines.driver import ChunkTable
from privledger.errors import EngineError, SpoolError, UnsupportedNode
from privledger.guard.vault import _vault_of
from privledger.tables.spool import Folder, clear_left_behind
from tests.engines.mischief import Mischief
from tests.worlds import refused, schema_of

ROWS = 500
NOISE = pl.Gaussian(0.001)
SCHEMA = schema_of("t", {"secret_a": (0.0, 1.0), "c": ["Alice", "Bob"]}, y=(0.0, 1.0))


def columns(rows=ROWS):
    rng = np.random.default_rng(4)
    return ({"secret_a": rng.random(rows), "c": np.array(["Alice", "Bob"])[
        rng.integers(0, 2, rows)]}, rng.random(rows))


def chunks_of(data) -> ChunkTable:
    return _vault_of(data._vault)._Vault__rows


@pytest.fixture
def ledger(tmp_path):
    with pl.Ledger.create(tmp_path / "ledger.db", budget=pl.Budget(1e9, 1e-6)) as made:
        yield made


def protected(ledger, engine=None, **named):
    X, y = columns()
    return ledger.protect(X, y, SCHEMA, engine=engine or Mischief(chunk_rows=100), **named)


def counted(ledger, data):
    """A count with next to no noise, and how many releases were charged whatever came of it."""
    before = len(ledger.state.grants)
    try:
        with ledger.request(NOISE, data) as session:
            return round(float(session.release(NOISE, data.count())))
    finally:
        assert len(ledger.state.grants) == before + 1
        grant = list(ledger.state.grants.values())[-1]
        assert grant.charged[0] > 0  # whatever happened, the charge stands


def edit(path, place=-1):
    held = bytearray(path.read_bytes())
    held[place] ^= 1
    marks = path.stat()
    path.write_bytes(held)
    os.utime(path, ns=(marks.st_atime_ns, marks.st_mtime_ns))


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


def swap(path):
    other = path.with_name("chunk-0000003")
    held, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(held)


@pytest.mark.parametrize("harm", [Path.unlink, edit, cut, swap, lambda path: edit(path, 200)])
@pytest.mark.parametrize("seen", [False, True])
def test_a_chunk_that_is_not_what_was_ingested_is_refused(ledger, harm, seen):
    data = protected(ledger)
    assert not seen or counted(ledger, data) == ROWS
    harm(chunks_of(data).folder.file("chunk-0000002"))
    refused(SpoolError, lambda: counted(ledger, data), match="the charge stands")


def test_a_catalogue_that_was_cut_or_edited_is_refused(ledger):
    data = protected(ledger)
    counted(ledger, data)
    table = chunks_of(data)
    table.engine._benches.clear()  # a new worker reads all of it
    edit(table.folder.file(table._catalogue.name), 40)
    refused((SpoolError, EngineError, pl.errors.DataError), lambda: counted(ledger, data))


def test_without_its_key_a_spool_is_nothing(ledger):
    data = protected(ledger, pl.engines.Local(1, chunk_rows=100))
    chunks_of(data).folder.file("spool.key").unlink()
    refused(EngineError, lambda: counted(ledger, data), match="the charge stands")


class Tampering(Mischief):
    """Somebody is at the table's folder before every pass."""

    tamper = staticmethod(lambda folder: None)

    def run(self, messages):
        self.tamper(Path(messages[0][0]))
        yield from super().run(messages)


def fit(ledger, tamper):
    """S-GBDT behind a filter."""
    from privledger_learners import SGBDTRegressor

    engine = Tampering(chunk_rows=100)
    engine.tamper = tamper
    return SGBDTRegressor(n_trees=4, delta=1e-6, individual_filter="gdp", extra_rounds=2,
                          random_state=0).fit(protected(ledger, engine))


@pytest.mark.parametrize("harm", [Path.unlink, cut, edit])
@pytest.mark.parametrize("slot", ["score-*", "cells-*", "codes-*"])
def test_what_can_be_computed_again_is(ledger, slot, harm):
    harmed = []

    def tamper(folder):
        for path in sorted(folder.glob(slot))[::2]:
            harm(path)
            harmed.append(path)

    assert fit(ledger, tamper).predict(columns()[0]).shape == (ROWS,)
    assert harmed and ledger.verify() == []


@pytest.mark.parametrize("harm", [Path.unlink, cut, edit])
def test_spends_that_are_lost_are_a_refusal(ledger, harm):
    with pytest.raises(SpoolError, match="the charge stands"):
        fit(ledger, lambda folder: [harm(path) for path in folder.glob("spend-*2-*")])
    assert ledger.verify() == []


def test_a_full_disk_is_a_typed_error_at_ingest_and_in_a_pass(ledger, monkeypatch):
    def full(*args, **named):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("privledger.tables.spool.os.fsync", full)
        refused(SpoolError, lambda: protected(ledger), match="no room left")

    def overwrite(*given):
        raise SpoolError("full")

    monkeypatch.setattr(Folder, "overwrite", overwrite)
    refused(SpoolError, lambda: fit(ledger, lambda folder: None), match="the charge stands")


def test_folder_and_files_are_closed_to_others_and_go(ledger):
    old = os.umask(0)
    try:
        data = protected(ledger)
        counted(ledger, data)
        folder = chunks_of(data).folder.path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o600}
    finally:
        os.umask(old)
    ledger.close()
    assert not folder.exists()


def test_what_a_killed_process_left_is_swept(tmp_path, ledger):
    script = ("import os, sys; from privledger.tables.spool import Folder; "
              "held = Folder.temporary(); print(held.path, flush=True); os.kill(os.getpid(), 9)")
    left = Path(subprocess.run([sys.executable, "-c", script], capture_output=True,
                               text=True).stdout.strip())
    assert left.is_dir()
    protected(ledger)
    assert not left.exists()


def test_any_opening_of_a_ledger_clears_what_a_killed_process_left(tmp_path):
    path = tmp_path / "a.ledger"
    pl.Ledger.create(path, budget=pl.Budget(1.0)).close()
    script = ("import os, sys; from privledger.tables.spool import Folder; "
              "held = Folder.temporary(); held.write('chunk-0000000', [b'rows']); "
              "print(held.path, flush=True); sys.stdin.read(1); os.kill(os.getpid(), 9)")
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    left = Path(child.stdout.readline().strip())
    command = [sys.executable, "-m", "privledger", "show", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    assert left.is_dir()  # its process lives
    child.communicate("x")
    subprocess.run(command, check=True, capture_output=True)
    assert not left.exists()


def test_the_lock_of_a_folder_goes_with_it():
    lock = Folder.temporary()._lock
    gc.collect()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(lock)


def test_a_lock_and_no_number_says_whether_a_process_lives(tmp_path, monkeypatch):
    held = Folder.temporary()
    monkeypatch.setattr("privledger.tables.spool._alive", lambda pid: False)  # another container
    clear_left_behind()
    assert held.path.is_dir()
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, held._lock)  # the lock is given back, and the number stays this test's own
    os.close(other)
    for _ in range(6000):
        clear_left_behind()
        if not held.path.exists():
            break
        time.sleep(0.01)  # another process of the tests may be removing it
    assert not held.path.exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    place = tmp_path / "spool"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    refused(pl.InvalidValue, lambda: Folder.at(place), match="another user")


def test_a_spool_that_stays_is_gone_on_with_by_the_same_rows_only(ledger, tmp_path):
    place = tmp_path / "spool"
    data = protected(ledger, spool=place)
    table = chunks_of(data)
    before = {path.name: path.stat().st_mtime_ns for path in place.glob("chunk-*")}
    lines = place.joinpath("manifest").read_bytes().splitlines(keepends=True)
    place.joinpath("manifest").write_bytes(b"".join(lines[:3]))  # killed after two chunks
    place.joinpath("chunk-0000004").unlink()
    again = chunks_of(protected(ledger, spool=place))
    after = {path.name: path.stat().st_mtime_ns for path in place.glob("chunk-*")}
    assert again.notes == table.notes and len(after) == 5
    assert {name for name in before if before[name] == after[name]} == {
        "chunk-0000000", "chunk-0000001"}
    X, y = columns()
    with pytest.raises(SpoolError, match="other rows"):
        ledger.protect(X, y[::-1].copy(), SCHEMA, engine=Mischief(chunk_rows=100), spool=place)
    with pytest.raises(SpoolError, match="another source"):
        ledger.protect(X, y, SCHEMA, engine=Mischief(chunk_rows=50), spool=place)
    edit(place / "manifest", 3)
    refused(SpoolError, lambda: protected(ledger, spool=place), match="was changed")


def test_a_folder_that_others_may_open_is_refused(ledger, tmp_path):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o750)
    refused(pl.InvalidValue, lambda: protected(ledger, spool=place), match="0700")


def test_what_crosses_says_nothing(ledger):
    engine = Mischief(chunk_rows=100)
    data = protected(ledger, engine)
    engine.seed, seen = 0, []
    real = engine.answered
    engine.answered = lambda message: seen.append(message[1]) or seen.append(real(message)) or (
        seen[-1])
    query = data.query((pl.questions.Ones(),), pl.questions.CategoryCells("c", 3))
    with ledger.request(NOISE, data) as session:
        session.release(NOISE, query)
    wire = b"".join(seen)
    assert len(wire) > 1000
    for word in (b"secret_a", b"Alice", b"Bob", b"Gaussian", b"chunk", b"layout", b"numpy"):
        assert word not in wire
    assert len(set(wire)) == 256  # nothing but noise to whoever has no key


def test_a_message_is_read_by_its_own_key_and_purpose_alone():
    key = bytes(32)
    text = sealing.seal(key, "asked", b"hello")
    assert sealing.unseal(key, "asked", text) == b"hello"
    bad = [text[:-1], text[1:], bytes([text[0] ^ 1]) + text[1:], b"", bytes(60)]
    for other, purpose, message in [(bytes([1]) * 32, "asked", text), (key, "said", text),
                                    *((key, "asked", one) for one in bad)]:
        with pytest.raises(EngineError):
            sealing.unseal(other, purpose, message)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_worker_that_is_killed_costs_an_attempt_and_no_more(ledger, after, monkeypatch):
    from privledger.engines import local

    engine, killed = pl.engines.Local(2, chunk_rows=50), []
    data = protected(ledger, engine)
    real = local._Worker.answer

    def answer(self, path, message):
        if len(killed) <= after:
            killed.append(self)
            if len(killed) == after + 1:
                self.process.send_signal(signal.SIGKILL)
        return real(self, path, message)

    monkeypatch.setattr(local._Worker, "answer", answer)
    assert counted(ledger, data) == ROWS
    assert len(killed) == after + 1
    engine.close()


def test_a_worker_that_hangs_is_given_up(ledger):
    engine = pl.engines.Local(1, chunk_rows=100, patience=120.0)
    data = protected(ledger, engine)
    assert counted(ledger, data) == ROWS
    engine.patience = 1.0  # from here on: a worker takes long to start where others use the machine
    engine._free[0].process.send_signal(signal.SIGSTOP)
    refused(EngineError, lambda: counted(ledger, data), match="in time")
    engine.patience = 120.0
    assert counted(ledger, data) == ROWS  # by another worker
    engine.close()


def test_what_another_process_cannot_load_is_refused_before_the_charge(ledger):
    data = protected(ledger)
    with ledger.request(NOISE, data) as session:
        with pytest.raises(UnsupportedNode, match="Nothing was read"):
            session.release(NOISE, data.custom(lambda t: t["secret_a"], 1.0, "a column"))
        assert round(float(session.release(NOISE, data.count()))) == ROWS


def test_people_are_refused_before_anything_is_read(tmp_path):
    with pl.Ledger.create(tmp_path / "people.db", budget=pl.Budget(1.0, 1e-6), unit="person",
                          people_key=b"k" * 32) as made:
        X, y = columns()
        with pytest.raises(UnsupportedNode, match="several chunks"):
            made.protect(X, y, SCHEMA, people=list(range(ROWS)), engine=Mischief())


def test_scores_of_all_rows_at_once_are_refused_by_name(ledger):
    data = protected(ledger)
    scores = pl.questions.CustomScores(len, 1.0, "of all rows")
    node = pl.Exponential(1.0)
    with ledger.request(node, data) as session, pytest.raises(UnsupportedNode, match="chunks"):
        session.release(node, data.features_by(scores))


def test_the_history_names_the_engine_and_not_how_many_chunks(ledger):
    data = protected(ledger, pl.engines.Local(1, chunk_rows=100))
    counted(ledger, data)
    ledger.close()
    text = Path(ledger.path).read_bytes()
    assert b"local, 1 worker" in text and b"chunk-" not in text
