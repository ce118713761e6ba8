"""Frames of every library: one meaning, in memory and in batches, and errors without values."""

import datetime
import decimal
import subprocess
import sys

import dask.dataframe
import narwhals
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.encode import encode_features, encode_target
from privledger.tables.frames import split_target
from privledger.tables.sources import Source, as_source
from tests.all_cases import all_cases
from tests.worlds import refused, schema_of

SECRET, WORD = 0.7312345678901, "s3cr3t-w0rd"
SCHEMA = pl.Schema("t", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("count", "numeric", "feature", -9, 9, missing=True),
    pl.Column("flag", "categorical", "feature", categories=(False, True), missing=True),
    pl.Column("colour", "categorical", "feature", categories=("red", "green", "3"), missing=True),
    pl.Column("grade", "categorical", "feature", categories=(1, 2, 3)),
    pl.Column("y", "categorical", "target", categories=("no", "yes"))))
TYPES = {"size": pa.float32(), "count": pa.int16(), "flag": pa.bool_(), "colour": pa.string(),
         "grade": pa.int64(), "y": pa.string()}
ROWS = st.lists(st.tuples(
    st.floats(-2, 2, width=32), st.none() | st.integers(-99, 99), st.none() | st.booleans(),
    st.sampled_from(("red", "green", "3", None)), st.sampled_from((1, 2, 3)),
    st.sampled_from(("no", "yes"))), min_size=1, max_size=30)


def arrow(rows):
    return pa.table(dict(zip(TYPES, map(list, zip(*rows, strict=True)), strict=True)),
                    schema=pa.schema(TYPES.items()))


def plain(table):
    return {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}


def arrays(X, y):
    return [*encode_features(X, SCHEMA).arrays, encode_target(y, SCHEMA)]


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def in_memory(table):
    """Every form of the same rows."""
    words = table.set_column(3, "colour", table["colour"].dictionary_encode())
    several = pa.concat_tables([words.slice(place, 1) for place in range(len(words))])
    frame = polars.from_arrow(table)
    yield from (table, table.combine_chunks().to_batches()[0], words, several, frame)
    yield frame.with_columns(polars.col("colour").cast(polars.Categorical),
                             polars.col("y").cast(polars.Enum(["yes", "no"])))
    yield frame.with_columns(polars.col("count").cast(polars.Float64),
                             polars.col("grade").cast(polars.Decimal(9, 0)))
    yield frame.select(reversed(frame.columns)).with_columns(more=polars.lit(WORD))
    yield narwhals.from_native(frame)
    yield {name: table[name] for name in table.column_names}
    yield {name: frame[name] for name in table.column_names}
    yield table.to_pandas()
    yield table.to_pandas(types_mapper=pandas.ArrowDtype)
    yield table.to_pandas().astype({"count": "Float64", "colour": "category"})
    yield table.to_pandas().convert_dtypes()
    yield narwhals.from_native(table.to_pandas())


@given(ROWS)
@settings(max_examples=12, deadline=None)
def test_every_form_in_memory_gives_the_same_codes(rows):
    table = arrow(rows)
    X = plain(table)
    expected = arrays(X, X["y"])
    for form in in_memory(table):
        held, y = split_target(form, "y")
        same(arrays(held, y), expected)
        assert as_source(form) is None


@given(ROWS, st.integers(1, 40))
@settings(max_examples=8, deadline=None)
def test_what_is_read_in_batches_gives_them_too(tmp_path_factory, rows, size):
    folder = tmp_path_factory.mktemp("d")
    table = arrow(rows)
    X = plain(table)
    for place in range(2):
        (folder / f"part={place}").mkdir()
        half = len(rows) // 2
        pq.write_table(table.slice(place * half, None if place else half),
                       folder / f"part={place}" / "a.parquet", row_group_size=3)
    scan = polars.scan_parquet(folder / "*" / "*.parquet")
    for form in (pa.dataset.dataset(folder, partitioning="hive"), pa.dataset.dataset(table),
                 pa.dataset.dataset([pa.dataset.dataset(folder / f"part={place}")
                                     for place in range(2)]),
                 scan, narwhals.from_native(scan), polars.from_arrow(table).lazy(),
                 dask.dataframe.from_pandas(table.to_pandas(), npartitions=2, sort=False)):
        source = as_source(form)
        assert type(source) is Source and as_source(source) is source
        batches = list(source.batches(SCHEMA, "y", size))
        assert [len(batch.target) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        parts = [[*batch.features.arrays, batch.target] for batch in batches]
        same([np.concatenate(several) for several in zip(*parts, strict=True)], arrays(X, X["y"]))


@pytest.fixture
def guarded(make_ledger):
    return lambda X, **options: make_ledger().protect(X, schema=SCHEMA, **options)


ONE = [(0.5, 1, True, "red", 1, "no"), (0.25, None, None, None, 2, "yes")]


def test_protect_takes_them_with_the_name_of_the_target(guarded):
    for form in in_memory(arrow(ONE)):
        guarded(form, target="y")
    for target in ("size", "z", 3, True, ["y"]):
        with pytest.raises(pl.SchemaError, match="target"):
            guarded(arrow(ONE), target=target)
    refused(pl.InvalidValue, lambda: guarded(arrow(ONE), y=["no", "yes"], target="y"))
    with pytest.raises(pl.errors.DataError, match="missing column y"):
        guarded(arrow(ONE).drop_columns("y"), target="y")


def test_protect_reads_in_batches_what_is_not_in_memory(guarded, make_ledger):
    rows = ONE * 30
    forms = (pa.dataset.dataset(arrow(rows)), polars.from_arrow(arrow(rows)).lazy(),
             dask.dataframe.from_pandas(arrow(rows).to_pandas(), npartitions=2))
    for form in forms:
        ledger = make_ledger(epsilon=1e6, mode="simulation", seed=3)
        data = ledger.append(ledger.protect(form, schema=SCHEMA, target="y"), form, target="y")
        assert data.schema == SCHEMA
    with ledger.request(pl.Gaussian(0.01), data) as session:  # of one: processes are slow to start
        assert abs(session.release(pl.Gaussian(0.01), data.count()) - 120) < 1
    refused(pl.InvalidValue, lambda: guarded(forms[0], y=["no", "yes"] * 30), match="target")
    refused(pl.SchemaError, lambda: guarded(forms[1], target="size"), match="target")
    held = make_ledger()
    data = held.protect(arrow(rows), schema=SCHEMA, target="y")
    with pytest.raises(pl.errors.DataError, match="not in memory"):
        held.append(data, forms[1], target="y")


MOMENT = datetime.datetime(2020, 1, 2, 3, 4)
DATES = [
    pa.array([MOMENT] * 2, pa.timestamp("ns")), pa.array([MOMENT] * 2, pa.timestamp("s", "UTC")),
    pa.array([1, 2], pa.time32("s")), pa.array([1, 2], pa.duration("ms")),
    pa.array([1, 2], pa.date64()), polars.Series([MOMENT] * 2),
    polars.Series([MOMENT - MOMENT] * 2),
    pandas.Series([MOMENT] * 2), pandas.Series([MOMENT] * 2).dt.tz_localize("UTC"),
    pandas.Series([MOMENT] * 2).astype("category"),
    pandas.Series([MOMENT] * 2, dtype="timestamp[ns][pyarrow]"),
    np.array([MOMENT] * 2, "M8[ns]"), np.array(["2020-01-01"] * 2, "M8[D]"),
    np.array([1, 2], "m8[s]"), [np.timedelta64(1, "s"), np.timedelta64(2, "s")], [MOMENT, None],
    [MOMENT.time(), None]]


@all_cases("values", DATES, ids=range(len(DATES)))
@all_cases("name", ["count", "colour", "y"])
@all_cases("strict", [True, False])
def test_dates_and_times_are_refused_by_name(values, name, strict):
    X = plain(arrow(ONE)) | {name: values}
    with pytest.raises(pl.errors.DataError, match=f"'{name}' holds dates or times") as caught:
        encode_target(values, SCHEMA) if name == "y" else encode_features(X, SCHEMA, strict=strict)
    assert "2020" not in str(caught.value)


def test_a_date_is_its_text_where_the_schema_lists_it():
    schema = pl.Schema("t", (pl.Column("day", "categorical", "feature", categories=(
        "2020-01-01", "2020-01-02"), missing=True),))
    days = [datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 1)]
    for form in (pa.table({"day": days}), polars.DataFrame({"day": days}),
                 pandas.DataFrame({"day": days}), {"day": days}):
        assert encode_features(form, schema).arrays[0].tolist() == [1, -1, 0]
    with pytest.raises(pl.errors.DataError, match="does not list"):
        encode_features({"day": [datetime.date(2020, 1, 3)]}, schema)
    column = schema_of("t", {"day": (0, 1)})
    with pytest.raises(pl.errors.DataError, match="'day' holds dates or times"):
        encode_features(pa.table({"day": days}), column)


BAD = {
    "size": [[WORD, "1"], [SECRET, None], [SECRET, float("nan")], [SECRET, float("inf")],
             [[SECRET], []], [{"a": SECRET}, None], [WORD.encode(), b""]],
    "colour": [[WORD, "red"], [[WORD], []], [{"a": WORD}, None], [WORD.encode(), b""]],
    "grade": [[None, 1], [7312345678901, 1], [1.5, 2.0]]}


@all_cases("form", ["arrow", "polars", "pandas", "column", "dataset", "lazy", "dask"])
@all_cases(("name", "values"), [(name, values) for name, several in BAD.items()
                                for values in several], ids=str)
def test_a_cell_that_does_not_fit_names_the_column_and_no_value(form, name, values):
    table = arrow(ONE)
    table = table.set_column(table.column_names.index(name), name, pa.array(values))
    make = {"arrow": lambda: table, "polars": lambda: polars.from_arrow(table),
            "pandas": table.to_pandas, "column": lambda: {n: table[n] for n in TYPES},
            "dataset": lambda: pa.dataset.dataset(table),
            "lazy": lambda: polars.from_arrow(table).lazy(),
            "dask": lambda: dask.dataframe.from_pandas(table.to_pandas(), npartitions=1)}
    X = make[form]()
    source = as_source(X)
    with pytest.raises(pl.errors.DataError, match=f"'{name}'") as caught:
        encode_features(X, SCHEMA) if source is None else list(source.batches(SCHEMA, "y", 10))
    text = f"{caught.value!r} {caught.value.__cause__!r}"
    assert WORD not in text and "73123456" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_columns_missing_or_twice():
    table = arrow(ONE)
    for form in (table.drop_columns("size"), polars.from_arrow(table).drop("size")):
        with pytest.raises(pl.errors.DataError, match="missing column size"):
            encode_features(form, SCHEMA)
    twice = table.append_column("size", table["size"])
    for form in (twice, twice.to_batches()[0]):
        with pytest.raises(pl.errors.DataError, match="column size is given twice"):
            encode_features(form, SCHEMA)


def test_cells_behind_a_mask_are_missing():
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0, missing=True),
                             pl.Column("c", "categorical", "feature", categories=("a",),
                                       missing=True)))
    masked = {"x": np.ma.array([0.5, SECRET], mask=[False, True]),
              "c": np.ma.array(["a", "a"], mask=[True, False])}
    found = encode_features(masked, schema).arrays
    np.testing.assert_array_equal(found[0], [0.5, np.nan])
    assert found[1].tolist() == [-1, 0]
    one = pl.Schema("t", schema.columns[:1])
    whole = encode_features(np.ma.array([[0.5], [SECRET]], mask=[[False], [True]]), one).arrays[0]
    np.testing.assert_array_equal(whole, [0.5, np.nan])


def test_what_is_encoded_does_not_change_with_its_owners_table():
    schema = schema_of("t", {"x": (0.0, 1.0)})
    own = np.array([0.25, 0.5])
    for form in (own[:, None], {"x": own}, pa.table({"x": pa.array(own)}),
                 polars.DataFrame({"x": own})):
        found = encode_features(form, schema).arrays[0]
        assert not np.shares_memory(found, own)


def test_unused_categories_of_a_frame_are_none_of_its_records():
    schema = schema_of("t", {"c": ["a"]})
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", WORD]))
    assert encode_features(pa.table({"c": words}), schema).arrays[0].tolist() == [0, 0]


def test_big_whole_numbers_and_decimals_are_what_python_makes_of_them():
    column = pl.Schema("t", (pl.Column("x", "numeric", "feature", -1e30, 1e30, missing=True),))
    values = [2**63 - 1, None, -(2**53) - 1]
    expected = [np.nan if value is None else float(value) for value in values]
    exact = pa.array([None if value is None else decimal.Decimal(value) for value in values])
    for form in (pa.table({"x": pa.array(values, pa.int64())}), pa.table({"x": exact}),
                 polars.DataFrame({"x": values}), {"x": pandas.array(values, dtype="Int64")}):
        np.testing.assert_array_equal(encode_features(form, column).arrays[0], expected)


# Statistics, filters, faults.

NUMBER = schema_of("t", {"x": (0.0, 1.0)})


@pytest.fixture
def lying(tmp_path):
    """A file whose cells are all .25, and whose statistics say .875."""
    true, wrong = np.full(50, 0.25), np.full(50, 0.875)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": true}), file, use_dictionary=False, compression="none",
                   write_page_index=True)
    content = file.read_bytes()
    at = content.index(true.tobytes()) + true.nbytes
    file.write_bytes(content[:at] + content[at:].replace(true[:1].tobytes(), wrong[:1].tobytes()))
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).statistics.min == 0.875
    return file


def read(X):
    return [value for batch in as_source(X).batches(NUMBER, None, 100)
            for value in batch.features.arrays[0]]


def test_statistics_that_lie_change_no_row(lying):
    data, scan = pa.dataset.dataset(lying), polars.scan_parquet(lying)
    small = pa.dataset.field("x") < 0.5
    assert data.to_table(filter=small).num_rows == 0  # they would
    assert scan.filter(polars.col("x") < 0.5).collect().height == 0
    for form in (data, scan, scan.filter(polars.col("x") < 0.5), pl.scan_parquet(lying)):
        assert read(form) == [0.25] * 50
    refused(pl.errors.DataError, lambda: as_source(data.filter(small)), match="filter")


def test_a_dataset_notices_what_becomes_of_its_files(lying):
    source = as_source(pa.dataset.dataset(lying.parent))
    lying.write_bytes(lying.read_bytes() + b" ")
    with pytest.raises(pl.errors.DataError, match=r"a\.parquet: the file has changed"):
        list(source.batches(NUMBER, None, 10))
    lying.unlink()
    with pytest.raises(pl.errors.DataError, match=r"a\.parquet"):
        list(source.batches(NUMBER, None, 10))


def test_a_column_that_one_file_of_a_dataset_lacks_is_not_filled_in(tmp_path):
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0, missing=True),))
    pq.write_table(pa.table({"x": [0.5], "z": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"z": [1]}), tmp_path / "b.parquet")
    source = as_source(pa.dataset.dataset(tmp_path))
    with pytest.raises(pl.errors.DataError, match=r"b\.parquet: missing column x"):
        source.batches(schema, None, 10)


def test_whole_numbers_in_one_file_and_floats_in_the_next_are_one_column(tmp_path):
    pq.write_table(pa.table({"x": [1, 0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5, 1.0]}), tmp_path / "b.parquet")
    for form in (pa.dataset.dataset(tmp_path), pl.scan_parquet(tmp_path)):
        assert read(form) == [1.0, 0.0, 0.5, 1.0]


def test_a_dataset_that_guesses_types_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x\n007\n")
    with pytest.raises(pl.errors.DataError, match="scan_csv"):
        as_source(pa.dataset.dataset(tmp_path, format="csv"))


def failing(part):
    raise ValueError(WORD)


def test_what_fails_in_a_library_is_told_without_its_words():
    frame = dask.dataframe.from_pandas(pandas.DataFrame({"x": [0.5]}), npartitions=1)
    scan = polars.LazyFrame({"x": [0.5]})
    for form in (frame.map_partitions(failing, meta={"x": float}), scan.map_batches(failing),
                 scan.with_columns(polars.lit(WORD).str.to_integer().alias("x"))):
        with pytest.raises(pl.errors.DataError, match="could not be read") as caught:
            read(form)
        assert WORD not in f"{caught.value!r}{caught.value.__cause__!r}"
        assert caught.value.__suppress_context__


def test_ids_of_people_are_as_they_stand(make_ledger):
    schema = pl.Schema("t", (*NUMBER.columns, pl.Column("who", "identifier", "identifier")),
                       unit="person", person="who")
    for ids in ([3, 3, 17], ["a", "a", "b"]):
        table = pa.table({"x": [0.5] * 3, "who": ids})
        for form in (pa.dataset.dataset(table), polars.from_arrow(table).lazy(),
                     dask.dataframe.from_pandas(table.to_pandas(), npartitions=2)):
            batches = list(as_source(form).batches(schema, None, 2))
            assert [one for batch in batches for one in batch.people.tolist()] == ids
    refused(pl.errors.DataError, lambda: list(as_source(pa.dataset.dataset(pa.table({"x": [0.5],
            "who": [True]}))).batches(schema, None, 2)), match="'who'")


def test_what_is_not_in_memory_is_said_to_be_so(lying, make_ledger):
    for X in (pl.scan_parquet(lying), polars.scan_parquet(lying), pa.dataset.dataset(lying),
              narwhals.from_native(polars.scan_parquet(lying)),
              dask.dataframe.from_pandas(pandas.DataFrame({"x": [0.5]}), npartitions=1)):
        with pytest.raises(pl.errors.DataError, match="not in memory"):
            encode_features(X, NUMBER, strict=False)


def test_columns_may_be_called_anything():
    """pandas hands out columns as attributes."""
    for name in ("batches", "npartitions", "columns", "origin", "to_arrow", "iloc"):
        schema = pl.Schema("t", (pl.Column(name, "numeric", "feature", 0.0, 1.0),))
        for form in (pandas.DataFrame({name: [0.5]}), polars.DataFrame({name: [0.5]}),
                     pa.table({name: [0.5]}), {name: [0.5]}):
            assert encode_features(form, schema).arrays[0].tolist() == [0.5]


def test_what_needs_no_arrow_imports_none():
    done = subprocess.run([sys.executable, "-c", (
        "import sys, numpy as np, pandas, privledger as pl; from privledger.tables import sources\n"
        "frame = pandas.DataFrame({'x': [.5]})\n"
        "before = set(sys.modules)\n"
        "S = pl.Schema('t', (pl.Column('x', 'numeric', 'feature', 0., 1.),))\n"
        "for X in (frame, {'x': [.5]}, np.array([[.5]])): pl.encode_features(X, S)\n"
        "pl.Ledger.create(None, budget=pl.Budget(1., 1e-6)).protect({'x': [.5]}, schema=S)\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} & "
        "{'pyarrow', 'narwhals', 'polars', 'dask'}))")], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
