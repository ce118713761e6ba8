"""Faults that tables in chunks had, each once."""

import fcntl
import os
import warnings
from contextlib import suppress

import numpy as np
import pytest

from privledger.engines.catalogue import Catalogue, Read
from privledger.engines.messages import DONE, Said, said_to_bytes
from privledger.errors import EngineError, SpoolError, UnsupportedNode
from privledger.questions.cells import CategoryCells
from privledger.questions.score import Score
from privledger.tables.layout import narrow
from privledger.tables.spool import Folder, clear_left_behind
from privledger.tables.stored_chunk import StoredChunk
from tests.engines.mischief import Mischief
from tests.engines.test_spool_faults import (
    NOISE,
    ROWS,
    chunks_of,
    columns,
    counted,
    ledger,  # noqa: F401
    protected,
)
from tests.worlds import refused


@pytest.fixture
def folder(tmp_path):
    return Folder.at(tmp_path / "spool")


@pytest.mark.parametrize("written", [0, 7])
def test_a_disk_that_was_full_for_a_moment_doubles_no_update(folder, monkeypatch, written):
    catalogue, score, cells = Catalogue(folder), Score("squared", [0.5]), CategoryCells("c", 3)
    for value in (0.25, 0.5, 0.75):
        score.add(cells, np.full(3, value))
    real, left = Catalogue._write, [3]  # the score, its cells, one update

    def full(self, line):
        left[0] -= 1
        if left[0] < 0:
            with open(self.folder.file(self.name), "ab") as file:
                file.write(bytes([5]) * written)  # half a line
            raise SpoolError("full")
        real(self, line)

    with monkeypatch.context() as patch:
        patch.setattr(Catalogue, "_write", full)
        refused(SpoolError, lambda: catalogue.number(score))
    number = catalogue.number(score)
    read = Read(folder, catalogue.name)
    read.follow(catalogue.lines)
    assert [values[0] for _, values in read._objects[number].updates()] == [0.25, 0.5, 0.75]


def test_an_object_that_could_not_be_written_down_has_no_number(folder, monkeypatch):
    catalogue, cells = Catalogue(folder), CategoryCells("c", 3)

    def full(self, line):
        raise SpoolError("full")

    with monkeypatch.context() as patch:
        patch.setattr(Catalogue, "_write", full)
        refused(SpoolError, lambda: catalogue.number(cells))
    read = Read(folder, catalogue.name)
    number = catalogue.number(cells)
    read.follow(catalogue.lines)
    assert read._objects[number].count == 3


def test_one_byte_of_what_a_chunk_kept_makes_it_none(folder):
    """The version of a score was not in the sum: an edited one added its last update twice."""
    stored = StoredChunk(folder, 0, "a" * 64, bytes(32), str)
    stored.keep_scores("s", 3, np.arange(9, dtype=np.int32))
    path = next(folder.path.glob("score-*"))
    whole = path.read_bytes()
    assert stored.scores("s")[0] == 3
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert stored.scores("s") is None


def test_what_was_kept_of_other_rows_is_none(folder):
    StoredChunk(folder, 0, "a" * 64, bytes(32), str).put("codes", "x", np.arange(4))
    assert StoredChunk(folder, 0, "a" * 64, bytes(32), str).found("codes", "x") is not None
    assert StoredChunk(folder, 0, "b" * 64, bytes(32), str).found("codes", "x") is None


def test_a_function_of_the_script_itself_is_refused_before_the_charge(ledger, monkeypatch):  # noqa: F811
    def script(table):
        return table["secret_a"]

    monkeypatch.setattr(script, "__module__", "__main__")
    monkeypatch.setattr(script, "__qualname__", "script")
    monkeypatch.setattr("__main__.script", script, raising=False)
    data = protected(ledger)
    with ledger.request(NOISE, data) as session:
        with pytest.raises(UnsupportedNode, match="Nothing was read"):
            session.release(NOISE, data.custom(script, 1.0, "a column"))
        assert session.release(NOISE, data.count()) is not None


def test_a_spool_that_grew_is_gone_on_with(ledger, tmp_path):  # noqa: F811
    """Late arrivals wrote a list of their own chunks alone over the list of all."""
    place = tmp_path / "spool"
    data = protected(ledger, spool=place)
    X, y = columns()
    more = ledger.append(data, {name: one[:150] for name, one in X.items()}, y[:150])
    assert counted(ledger, more) == ROWS + 150
    again = protected(ledger, spool=place)
    assert chunks_of(again).notes == chunks_of(data).notes


def test_what_a_killed_ingest_was_writing_goes(tmp_path):
    place = tmp_path / "spool"
    Folder.at(place)
    scratch = place / ".chunk-0000003.0123456789ab"
    scratch.write_bytes(b"rows")
    Folder.at(place)
    assert not scratch.exists()
    (place / "spool.key").rename(place / ".spool.key.0123456789ab")  # killed before its key
    assert len(Folder.at(place).key) == 32


def test_a_forked_child_leaves_the_spool_to_its_parent():
    folder = Folder.temporary()
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.is_dir()
    folder.remove()
    assert not folder.path.exists()


@pytest.mark.parametrize("remove", [Folder.remove, lambda folder: fcntl.flock(
    folder._lock, fcntl.LOCK_UN) or clear_left_behind()])
def test_a_worker_that_is_late_leaves_no_rows_behind(monkeypatch, remove):
    """It wrote a chunk while the folder was removed: the folder stayed, without its owner."""
    folder, real = Folder.temporary(), os.rmdir
    late = Folder(folder.path, folder.key, lasting=True)

    def removing(path, **named):
        with suppress(SpoolError):
            late.write("chunk-0000001", [b"rows"])
        real(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", removing)
        remove(folder)
    assert not list(folder.path.parent.glob(folder.path.name + "*"))


class Killed(BaseException):
    """What no handler of the product catches."""


@pytest.mark.parametrize("after", range(5))
def test_a_removal_that_was_cut_short_is_finished_at_the_next_start(monkeypatch, after):
    """Its owner's file had gone with the first ones: no later start knew whose rows they were."""
    folder, real, calls = Folder.temporary(), os.unlink, []
    for name in ("a", "chunk-0000001", "zz"):
        folder.write(name, [b"rows"])

    def cut(path, **named):
        calls.append(path)
        if len(calls) > after:
            raise Killed
        real(path, **named)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(os, "unlink", cut)
        folder.remove()
    left = list(folder.path.parent.glob(folder.path.name + "*"))
    assert left and len(calls) == after + 1
    fcntl.flock(folder._lock, fcntl.LOCK_UN)  # as the system does for one that is killed
    clear_left_behind()
    assert not any(one.exists() for one in left)


def test_values_that_no_float32_holds_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert narrow(np.array([1e300, 0.0])).dtype == np.float64


class Lying(Mischief):
    """Its replies have the key's mark, and say what `lie` makes of them."""

    lie = staticmethod(lambda said: said)

    def answered(self, message):
        from privledger.engines.messages import message_said

        key = self.bench(message[0], 0).folder.key
        return said_to_bytes(key, self.lie(message_said(key, super().answered(message))))


@pytest.mark.parametrize("lie", [
    lambda said: Said(said.release, said.chunks, said.layout, said.rows + 1, DONE, (), said.sketch),
    lambda said: Said(said.release, said.chunks, "other", said.rows, DONE, (), said.sketch),
    lambda said: Said(said.release, said.chunks[:1], said.layout, said.rows, DONE, (), said.sketch),
    lambda said: Said("0" * 32, said.chunks, said.layout, said.rows, DONE, (), said.sketch),
    lambda said: Said(said.release, said.chunks, said.layout, said.rows, DONE, (), 5)])
def test_a_reply_that_lies_about_what_it_read_is_a_typed_error(ledger, lie):  # noqa: F811
    engine = Lying(chunk_rows=20)
    engine.lie = lie
    data = protected(ledger, engine)
    refused(EngineError, lambda: counted(ledger, data), match="the charge stands")
