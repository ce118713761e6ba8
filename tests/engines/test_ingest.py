"""Workers that ingest: the same chunks as this process writes, the same refusals, each row once."""

import gzip
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.engines import chunks, exchange, local
from privledger.engines.exchange import PARTS_PER_WORKER
from privledger.engines.messages import message_said, said_to_bytes
from privledger.errors import DataError, EngineError, SpoolError
from privledger.tables import rowfiles
from privledger.tables.ingest import write_part
from privledger.tables.layout import ChunkNote, Layout
from privledger.tables.listing import Piece
from privledger.tables.parts import FilePart
from privledger.tables.spool import Folder, clear_left_behind
from tests.engines.conftest import ROOT
from tests.engines.mischief import Mischief
from tests.engines.test_spool_faults import chunks_of, counted
from tests.worlds import refused

SIZE, PLANTED = 600, 0.7312345678901
SCHEMA = pl.Schema("t", (
    pl.Column("secret_a", "numeric", "feature", 0.0, 1.0),
    pl.Column("b", "numeric", "feature", -1e6, 1e6, missing=True, outside="refuse"),
    pl.Column("c", "categorical", "feature", categories=("u", "v", "Alice")),
    pl.Column("y", "categorical", "target", categories=("no", "yes"))))


def rows(size=SIZE, seed=0):
    """Some columns; in the second half of one only some cells fit into a float32."""
    rng = np.random.default_rng(seed)
    b = rng.integers(-9, 9, size).astype(np.float64)
    b[rng.random(size) < 0.1] = np.nan
    b[size // 2:] *= rng.choice([1.0, 1 / 3], size - size // 2)
    return pa.table({
        "secret_a": rng.random(size, dtype=np.float32), "b": pa.array(b, from_pandas=True),
        "c": rng.choice(["u", "v", "Alice"], size), "y": rng.choice(["no", "yes"], size)})


def put(folder, table, ends=(0, 150, 300, 450, SIZE), group=50):
    folder.mkdir(exist_ok=True)
    for place, (start, stop) in enumerate(pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), folder / f"{place}.parquet",
                       row_group_size=group)
    return pl.scan_parquet(folder)


def put_texts(folder, table, ends, group):
    """The same in CSV files of every kind: zipped, with quotes, empty lines, and other line ends.
    Blocks of a few bytes are what row groups are."""
    folder.mkdir(exist_ok=True)
    for place, (start, stop) in enumerate(pairwise(ends)):
        end, quote = ("\n", "\r\n", "\r", "\n")[place % 4], '"' * (place % 3 == 1)
        lines = [",".join(table.column_names)]
        for row in table.slice(start, stop - start).to_pylist():
            cells = ["" if cell is None else str(cell) for cell in row.values()]
            lines += [",".join([*cells[:2], f"{quote}{cells[2]}{quote}", cells[3]])]
            lines += [""] * (len(lines) % 9 == 5)
        text = ("\ufeff" * (place % 2) + end.join(lines) + end * (place % 3 > 0)).encode()
        name = folder / f"{place}.csv"
        if place % 5 == 3:
            Path(f"{name}.gz").write_bytes(gzip.compress(text))
        else:
            name.write_bytes(text)
    return pl.scan_csv(folder)


def made():
    return pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6))


def protect(source, engine, ledger=None, **more):
    return (ledger or made()).protect(source, schema=SCHEMA, target="y", engine=engine, **more)


def alone(table, chunk=50, ledger=None):
    """What this process writes of a table in memory."""
    return protect(table, Mischief(chunk_rows=chunk), ledger)


def content(data):
    """All chunks, by what the driver knows of them, and by their bytes."""
    table = chunks_of(data)
    return table.notes, [table.folder.file(f"chunk-{note.number:07d}").read_bytes()
                         for note in table.notes]


@cache
def expected():
    """Of the usual rows."""
    return content(alone(rows()))


@contextmanager
def workers_only():
    """This process writes nothing itself."""
    def write(*_):
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "write_part", write)
        yield


@given(st.integers(1, 90), st.lists(st.integers(0, 90), max_size=4), st.integers(1, 40),
       st.integers(7, 40), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_workers_write_what_this_process_writes(size, cuts, group, chunk, workers, seed):
    """Whatever the files, row groups, chunks and parts are, and whatever the engine does."""
    table = rows(size, seed)
    with tempfile.TemporaryDirectory() as folder:
        source = put(Path(folder), table, [0, *sorted(min(cut, size) for cut in cuts), size], group)
        check_parts(source, table, chunk, workers, seed)


def check_parts(source, table, chunk, workers, seed):
    """Workers write all of it, where there are parts."""
    parts = list(source.origin.parts(chunk, PARTS_PER_WORKER * workers))
    assert sum(stop - first for first, stop, _ in parts) == len(table)
    with workers_only() if len(parts) > 1 else nullcontext():
        assert content(protect(source, Mischief(seed, workers, chunk_rows=chunk))) == content(
            protect(table, Mischief(chunk_rows=chunk)))


@given(st.integers(1, 90), st.lists(st.integers(0, 90), max_size=6), st.integers(20, 2000),
       st.integers(7, 40), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_workers_write_what_this_process_writes_of_texts(size, cuts, block, chunk, workers, seed):
    table = rows(size, seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowfiles, "_BLOCK", block)
        patch.setattr(rowfiles, "_HEAD_BLOCK", 7 + block // 9)
        source = put_texts(Path(folder), table,
                           [0, *sorted(min(cut, size) for cut in cuts), size], 0)
        check_parts(source, table, chunk, workers, seed)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 40),
       st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_parts_are_all_rows_once_and_few_are_read_twice(groups, chunk, most):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.parquet"
        table = pa.table({"secret_a": np.arange(sum(groups), dtype=np.float64)})
        with pq.ParquetWriter(path, table.schema) as file:
            for end, size in zip(np.cumsum(groups), groups, strict=True):
                file.write_table(table.slice(end - size, size))
        parts = list(pl.scan_parquet(path).origin.parts(chunk, most))
        found = [np.concatenate([piece.columns["secret_a"].to_numpy() for piece in part.pieces(
            ("secret_a",), 7)]) for _, _, part in parts]
    assert [(first, stop) for first, stop, _ in parts] == [
        (one[0], one[-1] + 1) for one in found]
    assert np.array_equal(np.concatenate([[], *found]), np.arange(sum(groups)))
    assert len(parts) <= most and all(first % chunk == 0 for first, _, _ in parts)
    for _, _, part in parts:
        assert part.skipped < chunk + part.groups[0][-1] / 2 + 1


def test_workers_write_all_of_it(tmp_path):
    with workers_only():
        theirs = protect(put(tmp_path, rows()), Mischief(chunk_rows=50))
    assert content(theirs) == expected() and len(content(theirs)[0]) == 12


def test_late_arrivals_come_behind(tmp_path):
    """Behind a last chunk that is not full."""
    table, more, ours, theirs = rows(470), rows(130, 1), made(), made()
    with workers_only():
        found = theirs.append(
            protect(put(tmp_path / "first", table), Mischief(chunk_rows=50), theirs),
            put(tmp_path / "more", more, (0, 60, 130)), target="y")
    assert content(found) == content(ours.append(alone(table, 50, ours), more, target="y"))
    assert counted(theirs, found) == 600


def test_a_worker_that_is_killed_is_replaced(tmp_path, monkeypatch):
    asked = []
    real = local._Worker.answer

    def answer(self, path, message):
        asked.append(self)
        if len(asked) == 3:
            os.kill(self.process.pid, signal.SIGKILL)
        return real(self, path, message)

    monkeypatch.setattr(local._Worker, "answer", answer)
    engine = pl.engines.Local(2, chunk_rows=50)
    with workers_only():
        theirs = protect(put(tmp_path, rows()), engine)
    engine.close()
    assert len(asked) > 3 and content(theirs) == expected()


class Gone(Mischief):
    """No worker replies."""

    def run(self, messages):
        raise EngineError("gone")
        yield


class Blind(Mischief):
    """Its workers do not see the files."""

    def answered(self, message):
        def blind(*_):
            raise DataError("no such file")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunks, "write_part", blind)
            return super().answered(message)


class Lost(Mischief):
    """Every other message is lost, however often it is sent."""

    def run(self, messages):
        yield from super().run([one for place, one in enumerate(sorted(messages)) if place % 2])


@pytest.mark.parametrize("kind", [Gone, Blind, Lost])
def test_what_no_worker_writes_this_process_does(tmp_path, kind):
    assert content(protect(put(tmp_path, rows()), kind(chunk_rows=50))) == expected()


class Seeing(Mischief):
    """Its messages are kept, and each reply becomes what `lie` makes of it."""

    lie = staticmethod(lambda said: said)

    def answered(self, message):
        key = self.bench(message[0], 0).folder.key
        reply = said_to_bytes(key, self.lie(message_said(key, super().answered(message))))
        self.__dict__.setdefault("wire", []).extend((message[1], reply))
        return reply


def test_messages_say_nothing(tmp_path):
    engine = Seeing(chunk_rows=50)
    protect(put(tmp_path, rows()), engine)
    wire = b"".join(engine.wire)
    for word in (b"secret_a", b"Alice", b"parquet", str(tmp_path).encode(), b"Filling", b"numpy"):
        assert word not in wire


@pytest.mark.parametrize("lie", [
    {"sketch": None}, {"sketch": np.zeros((1, 32), np.int64)}, {"sketch": (1, 2)}, {"rows": 7},
    {"layout": "other"}, {"chunks": (0,)}, {"release": "0" * 32}, {"status": "failed"}])
def test_a_reply_that_is_none_is_as_good_as_none(tmp_path, lie):
    engine = Seeing(chunk_rows=50)
    engine.lie = lambda said: attrs.evolve(said, **lie)
    assert content(protect(put(tmp_path, rows()), engine)) == expected()


def test_a_chunk_that_is_not_what_its_writer_said_is_never_read(tmp_path):
    engine, ledger = Seeing(chunk_rows=50), made()
    engine.lie = lambda said: attrs.evolve(said, sketch=said.sketch ^ 1)
    data = protect(put(tmp_path, rows()), engine, ledger)
    engine.lie = lambda said: said
    refused(SpoolError, lambda: counted(ledger, data), match="the charge stands")


def spoilt(place, column, value):
    """Rows with one cell that does not fit."""
    table = rows()
    cells = table[column].to_pylist()
    cells[place] = value
    return table.set_column(table.column_names.index(column), column, pa.array(cells))


@pytest.mark.parametrize("others", [(), ((590, "c", "Bob"),)])
@pytest.mark.parametrize(("column", "value", "says"), [
    ("b", 2e6, "'b' has a value outside"), ("c", "Bob", "'c' has a category"),
    ("y", None, "'y' has missing cells"), ("secret_a", float("inf"), "'secret_a' contains inf")])
def test_a_wrong_value_is_refused_in_the_same_words(tmp_path, column, value, says, others,
                                                    monkeypatch):
    """Also where a later part has another: the first one counts. Nothing stays behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spools"))
    (tmp_path / "spools").mkdir()
    table = spoilt(310, column, value)
    for place, other, cell in others:
        spoil = spoilt(place, other, cell)[other]
        table = table if other == column else table.set_column(
            table.column_names.index(other), other, spoil)
    source, said = put(tmp_path / "rows", table), []
    for engine in (Mischief(chunk_rows=50), Gone(chunk_rows=50), Mischief(3, chunk_rows=50)):
        ledger = made()
        with pytest.raises(DataError, match=says) as caught:
            protect(source, engine, ledger, name="t")
        said.append(str(caught.value))
        assert "t" not in ledger.state.tables and not ledger.state.grants
        del caught
        assert not list((tmp_path / "spools").glob("*/chunk-*"))
    assert len(set(said)) == 1 and said[0].startswith("2.parquet: ")


@pytest.mark.parametrize(("harm", "says"), [
    (lambda text: text.replace("no\n", "maybe\n", 1), "2.csv: column 'y' has a category"),
    (lambda text: text + "1,2\n", "2.csv: rows of different lengths"),
    (lambda text: text + '1,2,"u,no\n', "2.csv: the file ends within quotes"),
    (lambda text: text.replace("\n", "\0", 2), "2.csv: not a CSV file"),
    (lambda text: text.replace(",", ";"), "2.csv: columns must be separated")])
def test_a_text_that_does_not_fit_is_refused_in_the_same_words(tmp_path, harm, says):
    put_texts(tmp_path, rows(), (0, 150, 300, 450, SIZE), 0)
    path, said = tmp_path / "2.csv", set()
    path.write_text(harm(path.read_text().replace("\r", "\n")), newline="")
    for call in (lambda: protect(pl.scan_csv(tmp_path), Mischief(chunk_rows=50)),
                 lambda: protect(pl.scan_csv(tmp_path), Gone(chunk_rows=50)),
                 lambda: list(pl.scan_csv(tmp_path).batches(SCHEMA, "y"))):
        with pytest.raises(DataError, match=says) as caught:
            call()
        said.add(str(caught.value))
    assert len(said) == 1


class Changing(Mischief):
    """A file is written to while workers read."""

    def run(self, messages):
        for place, message in enumerate(messages):
            if place == 4:
                self.change()
            yield self.answered(message)


@pytest.mark.parametrize("change", [
    lambda folder: put(folder, rows(seed=1)), lambda folder: (folder / "3.parquet").unlink(),
    lambda folder: pq.write_table(rows(9), folder / "4.parquet")])
def test_a_file_that_changes_is_refused(tmp_path, change):
    """While it is read, and before."""
    source, engine = put(tmp_path, rows()), Changing(chunk_rows=50)
    engine.change = lambda: change(tmp_path)
    for one in (engine, Mischief(chunk_rows=50)):
        refused(DataError, lambda one=one: protect(source, one),
                match="has changed since|was removed|has other files")


@pytest.mark.parametrize("more", [-1, 1])
def test_rows_that_were_counted_wrongly_are_found_out(tmp_path, monkeypatch, more):
    """None is left out, and none is taken twice."""
    counted = rowfiles._counted
    monkeypatch.setattr(rowfiles, "_BLOCK", 200)
    monkeypatch.setattr(rowfiles, "_counted", lambda *given: (
        (begin, end, size + more) for begin, end, size in counted(*given)))
    source = put_texts(tmp_path, rows(90, 1), (0, 90), 0)
    parts = [part for _, _, part in source.origin.parts(7, 5)]
    assert len(parts) > 1
    with pytest.raises(DataError, match="other rows"):  # one of them reads a group to its end
        list(chain.from_iterable(part.pieces(("c",), 100) for part in parts))


def test_a_part_of_other_rows_than_it_is_said_to_have_is_refused():
    """Whatever its reader counts: chunks hold what their notes say."""
    table, folder = rows(9, 1), Folder.temporary()
    part = FilePart(lambda file, groups, names, many: iter([Piece("", {
        name: table[name].combine_chunks() for name in names})]), ((None, 0, 1, 12),), 0, 12)
    layout = Layout(SCHEMA, True)
    with pytest.raises(DataError, match="other rows than they state"):
        write_part(folder, layout, part, False, (ChunkNote(0, 0, 12, ""),))
    folder.remove()


def test_a_disk_that_is_full_is_a_typed_error(tmp_path, monkeypatch):
    source, real, left = put(tmp_path, rows()), os.fsync, [5]

    def full(file):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(file)

    monkeypatch.setattr("privledger.tables.spool.os.fsync", full)
    refused(SpoolError, lambda: protect(source, Mischief(chunk_rows=50)), match="no room left")
    left[0] = 10**6
    assert content(protect(source, Mischief(chunk_rows=50))) == expected()


class Killed(Mischief):
    """The driver is gone after some replies."""

    def run(self, messages):
        for message in messages[:3]:
            yield self.answered(message)
        raise KeyboardInterrupt


def test_a_spool_is_gone_on_with(tmp_path):
    place = tmp_path / "spool"
    source = put(tmp_path / "rows", rows())
    with pytest.raises(KeyboardInterrupt):
        protect(source, Killed(chunk_rows=50), spool=place)
    before = {path.name: path.stat().st_mtime_ns for path in place.glob("chunk-*")}
    lines = len(place.joinpath("manifest").read_bytes().splitlines())
    assert 0 < len(before) < 12 and lines == 1 + len(before)
    with workers_only():
        ours = protect(source, Mischief(2, chunk_rows=50), spool=place)
    assert content(ours) == expected()
    after = {path.name: path.stat().st_mtime_ns for path in place.glob("chunk-*")}
    assert len(after) == 12 and before.items() <= after.items()
    other = put(tmp_path / "rows", rows(seed=1))
    refused(SpoolError, lambda: protect(other, Mischief(chunk_rows=50), spool=place),
            match="other rows")


def dies(folder):
    """A process whose worker is at work when it is killed."""
    made_here = made()
    made_here.on_rows = lambda done: os.kill(os.getpid(), signal.SIGKILL)
    protect(pl.scan_parquet(folder), pl.engines.Local(1, chunk_rows=20), made_here)


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_rows_behind(tmp_path):
    """Its worker may go on for a while, and finds no place to write to."""
    put(tmp_path / "rows", rows(8000), range(0, 8001, 1000))
    (tmp_path / "spools").mkdir()
    script = f"from tests.engines.test_ingest import dies; dies({str(tmp_path / 'rows')!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={
        **os.environ, "TMPDIR": str(tmp_path / "spools")}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left, = (tmp_path / "spools").iterdir()
    assert list(left.glob("chunk-*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "spools"))
        clear_left_behind()
    for _ in range(20):
        assert not list((tmp_path / "spools").iterdir())
        time.sleep(0.05)
