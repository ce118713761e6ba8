"""CSV files are read without pyarrow, and read the same; what needs pyarrow says so."""

import math
import sys
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.raw import Text, levels, packed_cells, raw_numbers
from privledger.tables.sources import read_features
from tests.worlds import refused

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", -1e100, 1e100, missing=True),
    pl.Column("c", "categorical", "feature", categories=("é", "a,b", 'say "no"', "12"),
              missing=True),
    pl.Column("d", "numeric", "feature", -1e6, 1e6, missing=True, days_since="2000-02-29")))
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-10**18, 10**18).map(str),
    st.decimals(-10**6, 10**6, allow_nan=False, places=4).map("{:f}".format),
    st.from_regex(r"\A-?[0-9]{1,17}\.?[0-9]{0,7}\Z"), st.just(""))


@given(st.lists(NUMBERS, max_size=40))
@example(["-0", "-0.0", "0.1", "9007199254740993", "0.30000000000000004", "123456789012345",
          "1234567890123456", ".5", "5.", "1e22", "1e23", "4.35", "999999999999999.9"])
@settings(max_examples=200, deadline=None)
def test_numbers_are_those_that_arrow_reads(texts):
    """Bit for bit, in one go and cell by cell."""
    column = SCHEMA.columns[0]
    expected = [math.nan if text == "" else pa.scalar(text).cast(pa.float64()).as_py()
                for text in texts]
    held = Text(packed_cells([text.encode() for text in texts]))
    alone = [raw_numbers(held[row:row + 1], column)[0] for row in range(len(texts))]
    whole = raw_numbers(held, column)
    assert np.array(expected).tobytes() == whole.tobytes() == np.array(alone).tobytes()


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"),
                        max_size=6), max_size=30))
@settings(max_examples=100, deadline=None)
def test_texts_are_those_that_arrow_reads(texts):
    held = Text(packed_cells([text.encode() for text in texts]))
    several, codes = levels(held, SCHEMA.columns[1])
    assert [several[code] for code in codes] == texts and len(set(several)) == len(several)
    assert several == pa.array(texts, pa.string()).dictionary_encode().dictionary.to_pylist()


def test_a_long_cell_does_not_widen_all_others(monkeypatch):
    monkeypatch.setattr("privledger.tables.raw.WIDE", 100)
    cells = [b"1", b"", b"0.30000000000000004", b"2" * 200]
    column = SCHEMA.columns[0]
    assert packed_cells(cells).dtype == object and packed_cells(cells[:3]).dtype == "S19"
    held = raw_numbers(Text(packed_cells(cells)), column)
    assert held.tolist()[2:] == [0.1 + 0.2, float("2" * 200)]


@pytest.fixture
def no_arrow(monkeypatch):
    """As in an install without the extra."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def written(folder, rows=500, seed=5):
    """A CSV file, and what Arrow reads of it."""
    rng = np.random.default_rng(seed)
    cells = {
        "x": [["", repr(float(value)), f"{value:.3f}", f"{value:e}"][kind] for kind, value in zip(
            rng.integers(0, 4, rows), rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9, rows),
            strict=True)],
        "c": [*np.array(["é", "a,b", 'say "no"', "12", ""])[rng.integers(0, 5, rows)].tolist()],
        "d": [["", (date(2000, 2, 29) + timedelta(int(days))).isoformat()][there]
              for there, days in zip(rng.integers(0, 2, rows), rng.integers(-10**4, 10**4, rows),
                                     strict=True)]}
    lines = [",".join('"' + cell.replace('"', '""') + '"' if set(cell) & set(',"') else cell
                      for cell in row) for row in zip(*cells.values(), strict=True)]
    file = folder / "t.csv"
    file.write_text("\n".join(["x,c,d", *lines]) + "\n", encoding="utf-8")
    table = pa.table({
        "x": pa.array([cell or None for cell in cells["x"]]).cast(pa.float64()),
        "c": pa.array([cell or None for cell in cells["c"]]),
        "d": pa.array([cell or None for cell in cells["d"]]).cast(pa.date32())})
    return file, table


def test_a_table_is_the_same_with_and_without_arrow(tmp_path, request):
    file, table = written(tmp_path)
    known = pl.encode_features(table, SCHEMA).arrays
    request.getfixturevalue("no_arrow")
    batches = list(pl.scan_csv(file).batches(SCHEMA, None, 128))
    for place, array in enumerate(known):
        found = np.concatenate([batch.features.arrays[place] for batch in batches])
        assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    assert ledger.protect(pl.scan_csv(file), schema=SCHEMA).schema == SCHEMA


@pytest.mark.parametrize("held", [
    [date(2000, 3, 1), None, math.nan], np.array(["2000-03-01T23:59", "NaT"], "M8[ns]"),
    np.array(["1999-12-31", "2024-02-29"], "M8[D]")])
def test_dates_of_other_libraries_need_no_arrow(held, no_arrow):
    column = SCHEMA.columns[2]
    found = raw_numbers(np.array(held, dtype=object) if isinstance(held, list) else held, column)
    assert np.array_equal(found, {3: [1.0, math.nan, math.nan]}.get(len(held), (
        [1.0, math.nan] if held[1] != held[1] else [-60.0, 8766.0])), equal_nan=True)


def test_what_needs_arrow_says_which_extra(tmp_path, request):
    import polars

    frame = polars.DataFrame({"x": [1.0]})
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    request.getfixturevalue("no_arrow")
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    refused(pl.errors.DataError, lambda: pl.scan_parquet(tmp_path / "t.parquet"),
            lambda: read_features(tmp_path / "t.parquet", SCHEMA),
            lambda: pl.encode_features(frame, SCHEMA), lambda: ledger.protect(frame.lazy(),
            schema=SCHEMA), lambda: pl.encode_features(dict.fromkeys("xcd", frame["x"]), SCHEMA),
            match=r"pip install 'privledger\[parquet\]'")
    assert ledger.spent == 0
