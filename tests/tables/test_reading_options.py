"""How text files are written, and dates as days: said by the schema, never guessed."""

import csv
import datetime
import io
import json

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.dictionary import schema_toml
from privledger.tables.examining import examined
from privledger.tables.text_form import TextForm
from tests.all_cases import all_cases
from tests.worlds import refused

BASE = {"name": "t", "target": "wage", "columns": [
    {"name": "née; on", "kind": "numeric", "days_since": "2000-01-01", "lower": "1990-01-01",
     "upper": "2020-01-01", "missing": True},
    {"name": "wage", "kind": "numeric", "lower": 0, "upper": 100},
    {"name": "job", "kind": "categorical", "categories": ["n'a;b", 'say "x"', "c,d"],
     "missing": True}]}
ROWS = [("2000-01-02", "3,5", "n'a;b"), ("n/a", "1e1", 'say "x"'), ("1999-12-31", "7", "c,d"),
        ("", "0,25", "-")]


def schema_of(**reading):
    return pl.Schema.from_dict(BASE | {"reading": reading})


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_a_file_is_read_as_the_schema_says(tmp_path, separator, quote, encoding):
    schema = schema_of(separator=separator, decimal=",", encoding=encoding, quote=quote,
                       missing=["n/a", "-"])
    text = io.StringIO()
    lines = csv.writer(text, delimiter=separator, quotechar=quote, lineterminator="\n")
    lines.writerow(["née; on", "wage", "job"])
    lines.writerows(ROWS)
    (tmp_path / "t.csv").write_bytes(text.getvalue().encode(encoding))
    X, y = pl.read_table(tmp_path / "t.csv", schema)
    assert y.tolist() == [3.5, 10.0, 7.0, 0.25]
    jobs = [one if isinstance(one, str) else None for one in X["job"]]
    assert jobs == ["n'a;b", 'say "x"', "c,d", None]
    np.testing.assert_array_equal(X["née; on"], [1.0, np.nan, -1.0, np.nan])
    assert examined(tmp_path / "t.csv", schema).faults == ()
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    ledger.protect(X, y, schema)
    ledger.protect(pl.scan_csv(tmp_path / "t.csv", schema), schema=schema, target="wage")


def test_a_schema_with_options_comes_back_and_one_without_is_as_before(tmp_path):
    schema = schema_of(separator=";", missing=["NA"])
    assert pl.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    (tmp_path / "s.toml").write_text(schema_toml(schema), encoding="utf-8")
    assert pl.Schema.load(tmp_path / "s.toml") == schema
    assert "reading" not in pl.Schema.from_dict(BASE).to_dict()
    (tmp_path / "d.toml").write_text(
        'target = "y"\n[[columns]]\nname = "d"\nkind = "numeric"\ndays_since = 2000-01-01\n'
        'lower = 2000-01-02\nupper = 2000-12-31\n[[columns]]\nname = "y"\nkind = "numeric"\n'
        'lower = 0\nupper = 1\n')
    column = pl.Schema.load(tmp_path / "d.toml").features[0]
    assert (column.lower, column.upper, column.days_since) == (1, 365, "2000-01-01")


ROWS_SAID = {"expected_rows": 5, "expected_rows_provenance": "public"}
MOST_SAID = {"most_records": 5, "most_records_provenance": "public"}
OF_PEOPLE = {"unit": "person", "person": "id"}
UNREAD = {"kind": "string", "role": "ignore", "upper": 0.0}
NUMBER, CLASSES = {"kind": "numeric", "upper": 1.0}, {"kind": "categorical", "categories": ("a",)}
CHANGES = {  # of each field of a schema, and of a column, two that differ in it alone
    pl.Schema: {
        "name": ({}, {"name": "other"}), "public_rows": ({}, {"public_rows": 5}),
        "columns": ({}, {"columns": (pl.Column("other", "numeric", upper=1.0),)}),
        "array_layout": ({}, {"array_layout": True}), "unit": ({}, {"unit": "row"}),
        "expected_rows": (ROWS_SAID, ROWS_SAID | {"expected_rows": 6}),
        "expected_rows_provenance": (ROWS_SAID, ROWS_SAID | {
            "expected_rows_provenance": "declared"}),
        "person": (OF_PEOPLE, OF_PEOPLE | {"person": "other id"}),
        "public_people": ({}, {"public_people": 5}),
        "most_records": ({}, MOST_SAID),
        "most_records_provenance": (MOST_SAID, MOST_SAID | {"most_records_provenance": "declared"}),
        "form": ({}, {"form": TextForm(";")})},
    pl.Column: {
        "name": ({}, {"name": "other"}), "kind": (UNREAD, UNREAD | {"kind": "timestamp"}),
        "role": ({}, {"role": "target"}), "lower": ({}, {"lower": -1.0}),
        "upper": ({}, {"upper": 2.0}), "categories": (CLASSES, CLASSES | {"categories": ("b",)}),
        "integer": ({}, {"integer": True}), "missing": ({}, {"missing": True}),
        "outside": ({}, {"outside": "refuse"}), "provenance": ({}, {"provenance": "declared"}),
        "ordered": (CLASSES, CLASSES | {"ordered": True}),
        "missing_value_marker": ({}, {"missing": True, "missing_value_marker": "-9"}),
        "days_since": ({}, {"days_since": "2000-01-01"})}}


@pytest.mark.parametrize("of", CHANGES)
def test_every_field_is_in_the_digest_and_comes_back(of):
    """What an answer is kept under, and what a history is about: no field is left out of it."""
    for_readers = {"unit"} if of is pl.Column else set()
    assert {one.name for one in attrs.fields(of)} == set(CHANGES[of]) | for_readers
    columns = (pl.Column("x", "numeric", upper=1.0), pl.Column("id", "identifier", "ignore"),
               pl.Column("other id", "identifier", "ignore"))
    for name, both in CHANGES[of].items():
        schemas = [pl.Schema(**{"name": "s", "columns": columns} | (said if of is pl.Schema else {
            "columns": (pl.Column(**{"name": "c"} | (
                said if "categories" in said else NUMBER | said)), *columns)})) for said in both]
        assert schemas[0].digest != schemas[1].digest, name
        for schema in schemas:
            assert pl.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema, name


@all_cases("wrong", [
    {"separator": ""}, {"separator": ";;"}, {"separator": "a"}, {"separator": 5},
    {"encoding": "rot13"}, {"encoding": "utf-7"}, {"quote": ""}, {"decimal": ";"},
    {"decimal": ","}, {"missing": "NA"}, {"missing": [""]}, {"missing": [1]},
    {"missing": ["c,d"], "separator": ";"}, {"separtor": ";"}])
def test_impossible_options(wrong):
    refused(pl.SchemaError, lambda: schema_of(**wrong))


@pytest.mark.parametrize("wrong", [
    {"days_since": "2000"}, {"days_since": "2000-13-01"}, {"days_since": 5},
    {"days_since": "20000101"}, {"lower": "yesterday"}, {"upper": "2020-1-1"}])
def test_impossible_dates(wrong):
    with pytest.raises((pl.SchemaError, pl.InvalidValue)):
        pl.Schema.from_dict({**BASE, "columns": [BASE["columns"][0] | wrong, *BASE["columns"][1:]]})


@pytest.mark.parametrize("cell", ["2000-1-2", "2000-02-30", "02.01.2000", "2000-01-02T10:00", "5"])
def test_other_texts_are_no_dates(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"née; on,wage,job\n{cell},1,\n", encoding="utf-8")
    with pytest.raises(pl.errors.DataError, match="2020-05-17"):
        pl.read_table(tmp_path / "t.csv", pl.Schema.from_dict(BASE))


def test_numbers_with_two_marks_are_none(tmp_path):
    (tmp_path / "t.csv").write_text('"née; on";wage;job\n;"1.234";\n', encoding="utf-8")
    with pytest.raises(pl.errors.DataError, match="numbers only"):
        pl.read_table(tmp_path / "t.csv", schema_of(separator=";", decimal=","))


def test_a_file_in_another_encoding_is_refused_without_a_word_of_it(tmp_path):
    (tmp_path / "t.csv").write_bytes("née; on,wage,job\n,1,\n".encode("latin-1"))
    with pytest.raises(pl.errors.DataError, match="UTF-8") as caught:
        pl.read_table(tmp_path / "t.csv", pl.Schema.from_dict(BASE))
    assert "née" not in str(caught.value)


DATES = [datetime.date(2000, 1, 2), None, datetime.date(1999, 12, 31)]


def test_dates_of_frames_and_parquet(tmp_path):
    schema = pl.Schema.from_dict(BASE)
    column = schema.features[0]
    stamps = pd.Series(pd.to_datetime(["2000-01-02 23:59", None, "1999-12-31 00:00"]))
    for held in (stamps, DATES, np.array(DATES, dtype="datetime64[D]"), pa.array(DATES),
                 pa.array(stamps), [1.0, None, -1.0]):
        frame = {column.name: held, "job": ["c,d"] * 3}
        found = pl.encode_features(frame, schema).arrays[0]
        np.testing.assert_array_equal(found, [1.0, np.nan, -1.0])
    known = DATES[::2]
    for held in (known, [str(one) for one in known], np.array(known, dtype="datetime64[D]"),
                 [datetime.datetime(2000, 1, 2, 5), datetime.datetime(1999, 12, 31)]):
        found = pl.encode_features({column.name: held, "job": ["c,d"] * 2}, schema).arrays[0]
        assert found.dtype == np.float64 and found.tolist() == [1.0, -1.0]
    pq.write_table(pa.table({column.name: DATES, "wage": [1.0] * 3, "job": ["c,d"] * 3}),
                   tmp_path / "t.parquet")
    X, _ = pl.read_table(tmp_path / "t.parquet", schema)
    np.testing.assert_array_equal(X[column.name], [1.0, np.nan, -1.0])
    zoned = pd.Series(pd.to_datetime(["2000-01-02"] * 3).tz_localize("Europe/Vienna"))
    with pytest.raises(pl.errors.DataError):
        pl.encode_features({column.name: zoned, "job": ["c,d"] * 3}, schema)
    plain = pl.Schema.from_dict({**BASE, "columns": [
        {"name": "d", "kind": "numeric", "lower": 0, "upper": 9}, BASE["columns"][1]]})
    with pytest.raises(pl.errors.DataError, match="dates or times"):
        pl.encode_features({"d": pd.to_datetime(["2000-01-02"])}, plain)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=6),
                min_size=1, max_size=5), st.sampled_from(";\t|:"), st.sampled_from("\"'"),
       st.sampled_from(["utf-8", "latin-1", "utf-16"]))
def test_what_a_writer_wrote_comes_back(tmp_path_factory, cells, separator, quote, encoding):
    wanted = list(dict.fromkeys(cell for cell in cells if cell)) or ["x"]
    schema = pl.Schema.from_dict({
        "name": "t", "target": "y", "reading": {"separator": separator, "quote": quote,
                                                "encoding": encoding},
        "columns": [{"name": "c", "kind": "categorical", "categories": wanted},
                    {"name": "y", "kind": "numeric", "lower": 0, "upper": 1}]})
    text = io.StringIO()
    lines = csv.writer(text, delimiter=separator, quotechar=quote, lineterminator="\n")
    lines.writerow(["c", "y"])
    lines.writerows([cell, 1] for cell in wanted)
    place = tmp_path_factory.mktemp("written") / "t.csv"
    place.write_bytes(text.getvalue().encode(encoding))
    X, _ = pl.read_table(place, schema)
    assert X["c"].tolist() == wanted
