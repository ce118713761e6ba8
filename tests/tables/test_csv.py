"""CSV by RFC 4180, strictly: nobody's record can make others vanish."""

import csv
import io
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables import rowfiles
from privledger.tables.sources import read_features
from tests.worlds import refused

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 10.0, missing=True),
                         pl.Column("c", "categorical", "feature", categories=("a", "b"),
                                   missing=True),
                         pl.Column("y", "categorical", "target", categories=("no", "yes"))))
SECRET = "SECRET77"
HEAD = "x,note\n"


def scanned(path, content, names=("x", "note")):
    """Cells by RFC 4180 of a whole file, as the library reads them."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    origin = rowfiles.csv_files(path)
    columns = [[] for _ in names]
    for piece in origin.pieces(names, 1 << 18):
        for name, held in zip(names, columns, strict=True):
            held.extend(piece.columns[name].texts)
    return list(zip(*columns, strict=True))


def count(path, content):
    """How many records, or None for a file that is refused."""
    try:
        return len(scanned(path, content))
    except pl.errors.DataError:
        return None


@pytest.mark.parametrize(("text", "rule"), [
    (f'1,"{SECRET}\n2,a\n', "never closed"), (f'1,"{SECRET}', "never closed"),
    (f'1,"{SECRET}"b\n', "behind a closing quote"), (f'1,"{SECRET}" \n', "behind a closing quote"),
    (f'1,{SECRET} 6"\n', "quote within a cell"), (f'1, "{SECRET}"\n', "quote within a cell"),
    (f'1,{SECRET}""\n', "quote within a cell"),
    (f'1,"{SECRET}\n2,a\n3,b"\n', "whole row by itself"),
    (f"1,{SECRET}\r2,a\n", "line break of another kind"),
    (f"1,{SECRET}\r\r\n", "line break of another kind"), (f"1,{SECRET}\0\n", "NUL"),
    (f"1,{SECRET},3\n", "different lengths"), (f"{SECRET}\n", "different lengths"),
    (f"1,{SECRET},\n", "different lengths"), (" \n", "different lengths"),
    (f'1,"{SECRET}' + "a" * (3 << 20) + '"\n', "longer than 1 MB"),
    (f'1,"{SECRET}' + "a\n" * (3 << 20), "longer than 1 MB")])
@pytest.mark.parametrize("before", [0, 3, 300_000])
def test_what_is_no_csv_is_refused_with_file_and_rule(tmp_path, text, rule, before):
    with pytest.raises(pl.errors.DataError) as caught:
        scanned(tmp_path / "t.csv", HEAD + "5,fine\n" * before + text)
    assert "t.csv" in str(caught.value) and rule in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("head", "rule"), [
    (f'x,"{SECRET}\n1,2\n', "several lines"), (f'x,"{SECRET}\nb"\n1,2\n', "several lines"),
    (f'x,{SECRET} 6" wide\n1,2\n', "several lines"),
    (f'x,{SECRET} 6"" wide\n1,2\n', "quote within"),
    (f'x,"{SECRET}"b\n1,2\n', "behind a closing"),
    (f"{SECRET},{SECRET},x\n1,2,3\n", "columns 1 and 2"),
    (f"{SECRET}\0,x\n", "UTF-8"), (f"{SECRET};x\n", "semicolons"), (f"x,{SECRET}\udcff\n", "UTF-8"),
    ("\nx,note\n", "no header"), ("", "no header")])
def test_a_header_that_is_none_is_refused(tmp_path, head, rule):
    with pytest.raises(pl.errors.DataError) as caught:
        scanned(tmp_path / "t.csv", head.encode("utf-8", "surrogateescape"))
    assert "t.csv" in str(caught.value) and rule in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [
    ('1,"a\nb"\n2,c\n', [("1", "a\nb"), ("2", "c")]),
    ('1,"a\r\nb\rc"\n', [("1", "a\r\nb\rc")]), ('"1",""""\n', [("1", '"')]),
    ('1,"say ""a"", ""b"""\n2,\n', [("1", 'say "a", "b"'), ("2", "")]),
    ('1,""\n"",2', [("1", ""), ("", "2")]), ("\n\n1,a\n\n", [("1", "a")]), ("", []),
    ('1,"a\nb, c, d\ne"\n', [("1", "a\nb, c, d\ne")]),
    ("1,\u2028\u0085\x0b\n", [("1", "\u2028\u0085\x0b")]),
    ('1,"' + "é" * 600_000 + '"', None)])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_is_csv_is_read(tmp_path, text, expected, end):
    if end == "\r" and "\r" in text:
        end = "\n"
    text, marked = (HEAD + text), "\ufeff" + HEAD + text
    if expected is None:
        with pytest.raises(pl.errors.DataError, match="longer than 1 MB"):
            scanned(tmp_path / "t.csv", text.encode())
        return
    if end != "\n":
        text, marked = text.replace("\n", end), marked.replace("\n", end)
        expected = [tuple(cell.replace("\n", end) for cell in row) for row in expected]
        if "\r\r\n" in text:
            return
    assert scanned(tmp_path / "t.csv", text) == expected
    assert scanned(tmp_path / "t.csv", marked) == expected


CELLS = st.text("\",\r\n ab1;'é", max_size=6)
PLAIN = st.tuples(st.integers(0, 9).map(str), st.text("ab1 é;'", max_size=4))


def written(row):
    held = io.StringIO()
    quoting = csv.QUOTE_ALL if "\r" in "".join(row) else csv.QUOTE_MINIMAL
    csv.writer(held, lineterminator="\n", quoting=quoting).writerow(row)
    return held.getvalue()


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_what_a_writer_wrote_comes_back_at_any_block(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = HEAD + "".join(map(written, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowfiles, "_BLOCK", block)
        patch.setattr(rowfiles, "_HEAD_BLOCK", block)
        try:
            assert scanned(path, text) == rows
        except pl.errors.DataError as error:
            assert "whole row by itself" in str(error)
            assert any("".join(row).count("\n") > 1 for row in rows)


# One line, as a record that no writer quoted; or a record that a writer wrote, of several lines.
LINES = st.one_of(PLAIN.map(written), st.text("\",,\"ab1\r", max_size=9).map(lambda t: t + "\n"))
RECORDS = st.one_of(LINES, st.tuples(CELLS, CELLS).map(written))


@given(st.lists(RECORDS, max_size=8), RECORDS, st.data())
@example(["5,a\n"] * 8, '5,"tall\n', None)
@settings(max_examples=600, deadline=None)
def test_one_record_more_moves_the_count_by_one_at_most(tmp_path_factory, rows, record, data):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    place = 1 if data is None else data.draw(st.integers(0, len(rows)))
    if "\n" in record[:-1]:  # within what two broken rows opened and closed there is no record
        rows = [row for row in rows if count(path, HEAD + row) is not None]
        place = min(place, len(rows))
    before = count(path, HEAD + "".join(rows))
    after = count(path, HEAD + "".join((*rows[:place], record, *rows[place:])))
    assert before is None or after is None or abs(after - before) <= 1


@given(st.lists(PLAIN, min_size=1, max_size=6), LINES, LINES, st.data())
@settings(max_examples=300, deadline=None)
def test_two_broken_records_swallow_nobody(tmp_path_factory, rows, one, other, data):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    found = count(path, HEAD + one + "".join(map(written, rows)) + other)
    assert found is None or found >= len(rows)


def test_every_path_refuses_the_record_that_swallows_others(tmp_path):
    rows = "".join(f"{i % 10},a,yes,fine\n" for i in range(500))
    path = tmp_path / "t.csv"
    path.write_text("x,c,y,note\n" + rows + '5,a,no,"tall\n' + rows)
    book = pl.Ledger.create(None, budget=pl.Budget(1.0))
    refused(pl.errors.DataError, lambda: pl.read_table(path, SCHEMA),
            lambda: read_features(path, SCHEMA), lambda: book.protect(pl.scan_csv(path), None,
            SCHEMA, target="y").count(), lambda: list(pl.scan_csv(tmp_path).batches(SCHEMA, "y")),
            match=r"t\.csv.*never closed")
    assert book.spent == 0


def test_a_quote_in_the_header_takes_no_time(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,pipe 6" wide\n' + "1,2\n" * 400_000)
    began = time.process_time()
    refused(pl.errors.DataError, lambda: pl.scan_csv(path), match="several lines")
    assert time.process_time() - began < 5


_REFUSED = """
import os, sys, privledger as pl, pyarrow.compute
S = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 9),))
threads = lambda: len(os.listdir("/proc/self/task"))
def refuse():
    before, files = threads(), len(os.listdir("/proc/self/fd"))
    for text in ('x,x\\n1,2\\n', 'x,y\\n1,"2\\n',
                 'x,y\\n' + '1,2\\n' * 900000 + '1,2,3\\n', 'x,"\\n'):
        open("d.csv", "w").write(text)
        try:
            pl.Ledger.create(None, budget=pl.Budget(1.0)).protect(pl.scan_csv("d.csv"), None, S)
        except pl.errors.DataError:
            continue
        sys.exit("accepted")
    assert threads() == before, threads() - before
    assert len(os.listdir("/proc/self/fd")) == files
refuse()
child = os.fork()
if not child:
    refuse()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
def test_a_refusal_leaves_no_thread_and_no_open_file(tmp_path):
    # From Python 3.12 on a fork names the threads that pyarrow and numpy had before.
    done = subprocess.run([sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c",
                           _REFUSED], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_zipped_bomb_is_refused_in_little_memory(tmp_path):
    import gzip
    import tracemalloc

    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"x,note\n1,")
        for _ in range(200):
            file.write(b"a" * (1 << 20))
    tracemalloc.start()
    with pytest.raises(pl.errors.DataError, match="longer than 1 MB"):
        list(pl.scan_csv(path).batches(SCHEMA.select(("x",))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


def test_numbers_are_those_that_were_written(tmp_path):
    rng = np.random.default_rng(0)
    values = (rng.random(120_000) * 10).tolist()
    path = tmp_path / "t.csv"
    path.write_text("note,x\n" + "".join(
        f'"{"no" * int(value)}, ""{value}""",{value!r}\n' for value in values))
    found = np.concatenate([batch.features.arrays[0] for batch in pl.scan_csv(path).batches(
        SCHEMA.select(("x",)), None, 10_000)])
    assert np.array_equal(found, values)
