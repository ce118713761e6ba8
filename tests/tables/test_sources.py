"""Tables that are read in batches: the same rows however they are cut, and faults with a name."""

import gzip
import os
import shutil
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.encode import encode_features, encode_target
from privledger.tables.sources import Batch, Source
from tests.worlds import schema_of

SECRET, WORD = 0.7312345678901, "s3cr3t-w0rd"
SCHEMA = pl.Schema("t", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("weight", "numeric", "feature", -5.0, 5.0, missing=True),
    pl.Column("colour", "categorical", "feature", categories=("red", "green", 3), missing=True),
    pl.Column("who", "identifier", "identifier"),
    pl.Column("y", "categorical", "target", categories=("no", "yes")),
), unit="person", person="who")
NAMES = ("size", "weight", "colour", "who", "y")
ROWS = st.lists(st.tuples(
    st.floats(-2, 2), st.none() | st.floats(-1e300, 1e300),
    st.sampled_from(("red", "green", "3", None)), st.integers(-2**53, 2**53).map(str),
    st.sampled_from(("no", "yes"))), min_size=1, max_size=40)
ARROW = pa.schema([("size", pa.float64()), ("weight", pa.float64()), *(
    (name, pa.string()) for name in NAMES[2:])])


def columns(rows):
    return {name: list(values) for name, values in zip(NAMES, zip(*rows, strict=True), strict=True)}


def in_memory(rows):
    table = columns(rows)
    X = {name: np.array(table[name], dtype=object) for name in ("size", "weight", "colour")}
    return [*encode_features(X, SCHEMA).arrays, encode_target(
        np.array(table["y"], dtype=object), SCHEMA), np.array(table["who"], dtype=object)]


def together(batches, size):
    held = list(batches)
    assert [len(batch.target) for batch in held[:-1]] == [size] * (len(held) - 1)
    assert all(type(batch) is Batch and batch.features.n_rows == len(batch.target) <= size
               for batch in held)
    parts = [[*batch.features.arrays, batch.target, batch.people] for batch in held]
    return [np.concatenate(several) for several in zip(*parts, strict=True)]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        if one.dtype == object:
            assert one.tolist() == other.tolist()
        else:
            np.testing.assert_array_equal(one, other)


def as_csv(rows, order=NAMES):
    lines = [",".join(f" {name} " for name in order)]
    for row in rows:
        cells = dict(zip(NAMES, row, strict=True))
        lines.append(",".join("" if cells[name] is None else f'"{cells[name]}"' for name in order))
    return ("\ufeff" + "\r\n".join(lines) + "\r\n").encode()


@given(ROWS, st.lists(st.integers(0, 40), max_size=4), st.integers(1, 50), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_files_row_groups_and_batches_may_end_anywhere(rows, cuts, size, group):
    """CSV in any order of columns, zipped or not, and Parquet: the arrays of a table in memory."""
    ends = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [rows[start:stop] for start, stop in pairwise(ends)]
    with tempfile.TemporaryDirectory() as folder:
        text, parquet = Path(folder, "text"), Path(folder, "parquet")
        text.mkdir()
        parquet.mkdir()
        for place, part in enumerate(parts):
            content = as_csv(part, NAMES if place % 2 else NAMES[::-1])
            if place % 3:
                (text / f"{place}.csv.gz").write_bytes(gzip.compress(content))
            else:
                (text / f"{place}.csv").write_bytes(content)
            table = pa.table(columns(part or rows), schema=ARROW).slice(0, len(part))
            if place % 2:
                table = table.set_column(2, "colour", table["colour"].dictionary_encode())
            pq.write_table(table.append_column("more", pa.nulls(len(table))),
                           parquet / f"{place}.parquet", row_group_size=group)
        for source in (pl.scan_csv(text), pl.scan_parquet(parquet),
                       pl.scan_parquet([parquet / f"{place}.parquet"
                                        for place in range(len(parts))]),
                       pl.scan_parquet(f"{folder}/p*/*.parquet")):
            assert type(source) is Source
            same(together(source.batches(SCHEMA, "y", size), size), in_memory(rows))


@pytest.fixture
def folder(tmp_path):
    """Forty small files."""
    for place in range(40):
        pq.write_table(pa.table({
            "size": [0.5, SECRET], "weight": [1.0, None], "colour": ["red", None],
            "who": [WORD, f"p{place}"], "y": ["no", "yes"]}), tmp_path / f"{place:02}.parquet")
    return tmp_path


def read(folder, target="y", rows=16):
    return list(pl.scan_parquet(folder).batches(SCHEMA, target, rows))


def refused(call, *words):
    with pytest.raises(pl.errors.DataError) as caught:
        call()
    text = f"{caught.value!r} {caught.value.__cause__!r}"
    assert WORD not in text and str(SECRET)[:8] not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for word in words:
        assert word in str(caught.value)


def with_column(folder, name, values):
    table = pq.read_table(folder / "37.parquet")
    table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, folder / "37.parquet")


@pytest.mark.parametrize(("name", "values"), [
    ("size", [WORD, "1"]), ("size", pa.array([0, 1], pa.timestamp("ns"))),
    ("size", pa.array([0, 1], pa.date32())), ("weight", [[SECRET], []]),
    ("colour", pa.array([0, 1], pa.timestamp("s"))), ("y", pa.array([0, 1], pa.duration("s"))),
    ("who", [17, 18])], ids=range(7))
def test_a_column_of_another_type_in_one_file_is_found_before_a_row_is_read(folder, name, values):
    with_column(folder, name, values)
    refused(lambda: pl.scan_parquet(folder).batches(SCHEMA, "y", 4), "37.parquet", f"'{name}'")


@pytest.mark.parametrize(("name", "values"), [
    ("size", [SECRET, None]), ("size", [SECRET, float("inf")]), ("colour", [WORD, "red"]),
    ("y", [None, "no"]), ("y", [WORD, "no"])], ids=range(5))
def test_a_cell_that_does_not_fit_is_named_by_file_and_column(folder, name, values):
    with_column(folder, name, values)
    refused(lambda: read(folder), "37.parquet", f"'{name}'")


def test_a_missing_column_is_named_by_its_file(folder):
    pq.write_table(pq.read_table(folder / "37.parquet").drop_columns("weight"),
                   folder / "37.parquet")
    refused(lambda: pl.scan_parquet(folder).batches(SCHEMA, "y", 4), "37.parquet",
            "missing column weight")


def replaced(folder):
    """The same bytes at the same time in another file."""
    file, other = folder / "37.parquet", folder / "other"
    other.write_bytes(file.read_bytes())
    at = file.stat()
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    other.rename(file)


CHANGES = {
    "gone": lambda folder: (folder / "37.parquet").unlink(),
    "grown": lambda folder: shutil.copy(folder / "00.parquet", folder / "40.parquet"),
    "first": lambda folder: shutil.copy(folder / "00.parquet", folder / "-1.parquet"),
    "written": lambda folder: (folder / "37.parquet").write_bytes(
        (folder / "37.parquet").read_bytes() + b"x"),
    "replaced": replaced, "touched": lambda folder: os.utime(folder / "37.parquet", ns=(1, 1))}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_folder_that_changes_is_refused(folder, change, when):
    batches = pl.scan_parquet(folder).batches(SCHEMA, "y", 4)
    if when == "during":
        next(batches)
    CHANGES[change](folder)
    refused(lambda: list(batches), "scanned")


@pytest.mark.parametrize("size", [0, 3, 200, -1, -300])
def test_a_truncated_file_is_refused(folder, size):
    file = folder / "37.parquet"
    file.write_bytes(file.read_bytes()[:size])
    refused(lambda: read(folder), "37.parquet")


def test_a_damaged_page_is_refused(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).random(5000)}), file,
                   write_page_checksum=True, compression="none", use_dictionary=False)
    schema = schema_of("t", {"x": (0.0, 1.0)})
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1  # one bit of one number
    file.write_bytes(content)
    refused(lambda: list(pl.scan_parquet(file).batches(schema, None, 100)), "a.parquet")


@pytest.mark.parametrize("paths", [
    None, 3, [], b"x", [3], "", "missing.parquet", "missing/*.parquet", ["a\0b"], [b"x"]],
    ids=range(10))
def test_paths_that_lead_nowhere(tmp_path, monkeypatch, paths):
    monkeypatch.chdir(tmp_path)
    for scan in (pl.scan_parquet, pl.scan_csv):
        with pytest.raises(pl.errors.DataError):
            scan(paths)


def test_folders_within_folders_and_files_twice_are_refused(folder):
    with pytest.raises(pl.errors.DataError, match="00.parquet: the file is given twice"):
        pl.scan_parquet([folder, folder / "00.parquet"])
    (folder / "link.parquet").symlink_to(folder / "05.parquet")
    with pytest.raises(pl.errors.DataError, match=r"given twice \(as 05.parquet\)"):
        pl.scan_parquet(folder)
    (folder / "link.parquet").unlink()
    for hidden in ("_SUCCESS", ".05.parquet.crc", "_temporary"):
        (folder / hidden).mkdir()
    assert len(read(folder)) == 5
    (folder / "year=2020").mkdir()
    with pytest.raises(pl.errors.DataError, match="year=2020: give a pattern"):
        pl.scan_parquet(folder)
    os.mkfifo(folder / "a.pq")
    with pytest.raises(pl.errors.DataError, match="a FIFO"):
        pl.scan_parquet(folder / "a.pq")


def test_names_and_numbers_are_checked(folder):
    source = pl.scan_parquet(folder)
    for rows in (0, -1, 1.5, True, None, "8", 1 << 30):
        with pytest.raises(pl.InvalidValue):
            source.batches(SCHEMA, "y", rows)
    with pytest.raises(pl.SchemaError, match="target"):
        source.batches(SCHEMA, "size", 10)


def test_nothing_is_printed(folder):
    source = pl.scan_parquet(folder)
    (batch, *_) = source.batches(SCHEMA, "y", 4)
    assert f"{source!r} {source} {batch!r} {batch}" == (
        "Source(parquet) Source(parquet) Batch(private) Batch(private)")


def test_columns_outside_the_schema_are_not_read(folder, monkeypatch):
    asked = []
    iter_batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda self, **options: (
        asked.append(options["columns"]), iter_batches(self, **options))[1])
    read(folder, target=None)
    assert asked == [["size", "weight", "colour", "who"]] * 40


@pytest.mark.parametrize("text", [
    "", "\n", "size\n0.5\n\n", "size,size\n1,2\n", "a;size\n1;2\n", "size,b\n1\n",
    "size,b\n1,2,3\n", 'size,b\n"1,2\n', f"size\n{WORD}\n", "size\n\udcff\n",
    "b\n1\n", f"size,b\n{SECRET},{WORD},1\n", "size\ninf\n", 'size\n""\n', "size\n1970-01-01\n"],
    ids=range(15))
def test_a_malformed_csv_says_no_value(tmp_path, text):
    schema = schema_of("t", {"size": (0.0, 1.0)})
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode("utf-8", "surrogateescape")))
    for name in ("t.csv", "t.csv.gz"):
        refused(lambda name=name: list(pl.scan_csv(tmp_path / name).batches(schema, None, 5)), name)


@pytest.mark.parametrize("row", [b"1,a,x\n" * (1 << 17), b"1" * (1 << 20)])
def test_a_zipped_file_that_swells_is_refused_before_it_takes_memory(tmp_path, row):
    place = tmp_path / "a.csv.gz"
    with gzip.open(place, "wb") as file:
        file.write(b"n,c,t\n")
        for _ in range(100 << 20 >> 20):
            file.write(row)
    from privledger.tables.rowfiles import csv_files

    tracemalloc.start()
    with pytest.raises(pl.errors.DataError, match="unpacks to over 200 times|a row is longer"):
        for _ in csv_files(place).pieces(("n",), 1 << 18):
            pass
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


def test_an_archive_that_swells_is_refused(tmp_path):
    from privledger.tables.sources import _npz_arrays

    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((10 << 20, 1)), y=np.zeros(1, dtype=int))
    with pytest.raises(pl.errors.DataError, match="unpacks to over 200 times"):
        _npz_arrays(tmp_path / "a.npz")


def test_a_zipped_file_that_ends_early_is_refused(tmp_path):
    schema = schema_of("t", {"size": (0.0, 1.0)})
    text = "size\n" + "\n".join(str(value) for value in np.random.default_rng(0).random(5000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode())[:-3000])
    refused(lambda: list(pl.scan_csv(tmp_path / "t.csv.gz").batches(schema, None, 500)), "t.csv.gz")


def test_a_row_wider_than_a_block_is_refused_and_a_header_is_not(tmp_path):
    schema = schema_of("t", {"size": (0.0, 1.0)})
    file = tmp_path / "t.csv"
    file.write_text("size," + "b" * 300_000 + "\n0.5,1\n")
    (batch,) = pl.scan_csv(file).batches(schema, None, 5)
    assert batch.features.arrays[0].tolist() == [0.5]
    file.write_text("size,b\n0.5,1\n0.25," + "1" * (3 << 20) + "\n")
    refused(lambda: list(pl.scan_csv(file).batches(schema, None, 5)))


@given(st.lists(st.one_of(
    st.floats().map(repr), st.integers().map(str),
    st.text("0123456789+-._eE xinfatyNAN", max_size=6),
    st.floats().map(lambda value: f" {value} "),
    st.sampled_from(("1_0", "+1e3", "nan(1)"))), max_size=6))
@example(["nan(1)"])
@settings(max_examples=150, deadline=None)
def test_a_number_in_a_text_is_what_the_grammar_says_and_python_reads(texts):
    from privledger.tables.raw import Text, packed_cells, raw_numbers

    held = Text(packed_cells([text.encode() for text in texts]))
    column = pl.Column("x", "numeric", "feature", 0.0, 1.0)
    try:
        if any("_" in text for text in texts):  # Python would skip it
            raise ValueError
        expected = [float(text or "nan") for text in texts]
    except ValueError:
        with pytest.raises(pl.errors.DataError):
            raw_numbers(held, column)
        return
    np.testing.assert_array_equal(raw_numbers(held, column), expected)


def test_an_empty_line_is_no_record_and_an_empty_cell_is(tmp_path):
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0, missing=True),))
    file = tmp_path / "t.csv"
    file.write_text('x\n0.5\n""\n')
    (batch,) = pl.scan_csv(file).batches(schema, None, 5)
    np.testing.assert_array_equal(batch.features.arrays[0], [0.5, np.nan])
    for text in ("x,z\n\n0.5,1\n,2\n", "x,z\n0.5,1\n\n\n,2\n\n", "x,z\r\n0.5,1\r\n\r\n,2\r\n"):
        file.write_text(text)
        (batch,) = pl.scan_csv(file).batches(schema, None, 5)
        np.testing.assert_array_equal(batch.features.arrays[0], [0.5, np.nan])
    for text in ("x\n0.5\n\n", "x\n\n0.5\n", "x,z\n \n0.5,1\n"):
        file.write_text(text)
        refused(lambda: list(pl.scan_csv(file).batches(schema, None, 5)), "different lengths")


def test_a_column_twice_in_a_parquet_file_is_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([0.5]), pa.array([0.25])], names=["x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    refused(lambda: pl.scan_parquet(tmp_path), "a.parquet", "columns 1 and 2 have the same name")


def test_a_file_with_other_rows_than_it_says_is_refused(folder, monkeypatch):
    """Stands for a reader that leaves out a row group."""
    iter_batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda self, **options: list(
        iter_batches(self, **options))[:-1])
    refused(lambda: read(folder), "00.parquet", "other rows")


def test_a_table_of_many_small_files_and_one_batch_is_in_order(folder):
    (batch,) = read(folder, rows=1 << 20)
    assert batch.people.tolist() == [one for place in range(40) for one in (WORD, f"p{place}")]
    assert [len(one.target) for one in read(folder, rows=79)] == [79, 1]
