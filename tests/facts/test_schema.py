"""Schemas: public facts, where they come from, and what is refused."""

import json
import math
from pathlib import Path

import pytest

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import protected, refused

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
SCHEMAS = sorted(SHARED.glob("*/schema.json")) if SHARED.is_dir() else []
NUMBER = {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}
WORDS = {"name": "c", "kind": "categorical", "categories": ["a", "b"]}


def read(*columns, **more):
    return pl.Schema.from_dict({"columns": [dict(column) for column in columns], **more})


@pytest.mark.skipif(not SCHEMAS, reason="the shared example data are not here")
@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.parent.name)
def test_every_shared_schema_loads_and_goes_round(path):
    schema = pl.Schema.load(path)
    assert schema.features and schema.task in ("regression", "classification")
    again = pl.Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again.digest == schema.digest and again.to_dict() == schema.to_dict()


@pytest.mark.skipif(not SCHEMAS, reason="the shared example data are not here")
@pytest.mark.parametrize("name", ["abalone", "zoo", "adult", "golub"])
def test_shared_tables_fit_their_schemas(name):
    schema = pl.Schema.load(SHARED / name / "schema.json")
    table = next(p for p in sorted((SHARED / name).iterdir())
                 if p.name.startswith(name) and p.suffix in (".gz", ".npz", ".csv")
                 and "test" not in p.name)
    X, y = pl.read_table(table, schema)
    _, data = protected(pl.Budget(1.0, 1e-6), X, y, schema)
    assert len(data.schema.features) == len(schema.features)


def test_toml_form(tmp_path):
    (tmp_path / "s.toml").write_text('''
name = "t"
target = "y"
[[columns]]
name = "x"
kind = "numeric"
lower = 0
upper = 10
integer = true
[[columns]]
name = "y"
kind = "categorical"
categories = ["no", "yes"]
''')
    schema = pl.Schema.load(tmp_path / "s.toml")
    assert schema.task == "classification" and schema.target.name == "y"
    assert schema.digest == read(NUMBER | {"upper": 10, "integer": True},
                                 WORDS | {"name": "y", "categories": ["no", "yes"]},
                                 target="y", name="t").digest


@pytest.mark.parametrize(("name", "text"), [
    ("s.json", ""), ("s.json", "[]"), ("s.json", "{"), ("s.json", "3"), ("s.toml", "= 1"),
    ("s.json", "{}"), ("s.json", '{"columns": 3}'), ("s.json", '{"columns": [3]}'),
    ("s.json", '{"columns": []}'), ("s.json", '{"columns": [{}]}'),
    ("s.json", '{"columns": [{"name": "x", "kind": "numeric", "lower": NaN, "upper": 1}]}')])
def test_what_is_no_schema_is_a_schema_error(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    refused(pl.SchemaError, lambda: pl.Schema.load(tmp_path / name))


@all_cases("bad", [math.nan, math.inf, -math.inf, True, False, "1", None, [0], 10**400])
@all_cases("end", ["lower", "upper"])
def test_impossible_bounds(end, bad):
    refused(pl.SchemaError, lambda: read(NUMBER | {end: bad}))


@pytest.mark.parametrize(("lower", "upper"), [(1, 0), (1, 1), (0.0, -0.0), (2, -2)])
def test_inverted_bounds(lower, upper):
    refused(pl.SchemaError, lambda: read(NUMBER | {"lower": lower, "upper": upper}), match="below")


@pytest.mark.parametrize("lacking", ["lower", "upper"])
@pytest.mark.parametrize("role", ["feature", "target"])
def test_missing_bounds(lacking, role):
    column = {key: value for key, value in NUMBER.items() if key != lacking} | {"role": role}
    refused(pl.SchemaError, lambda: read(column, NUMBER | {"name": "z"}), match="bounds missing")


@all_cases("word", ["data", "Data", "computed", "", "train", "public?"])
@all_cases("key", ["provenance", "bounds_from"])
def test_bounds_read_off_the_data_are_refused(word, key):
    refused(pl.errors.DataDerived, lambda: read(NUMBER | {key: word}),
            lambda: read(NUMBER, **{key: word}))


@pytest.mark.parametrize("word", [None, 3, True, ["public"]])
def test_provenance_is_a_word(word):
    refused(pl.SchemaError, lambda: read(NUMBER | {"provenance": word}))


def test_one_public_word_does_not_hide_another():
    for both in ({"provenance": "public", "bounds_from": "data"},
                 {"provenance": "data", "bounds_from": "public"}):
        with pytest.raises(pl.errors.DataDerived):
            read(NUMBER | both)
        with pytest.raises(pl.errors.DataDerived):
            read(NUMBER, **both)


@pytest.mark.parametrize("word", ["public", "declared", "Physical", "ledger", "released"])
def test_public_provenances(word):
    assert read(NUMBER | {"provenance": word}).features[0].provenance == word


@all_cases("columns", [
    [NUMBER, NUMBER], [NUMBER, NUMBER | {"name": "y", "role": "target"},
                       NUMBER | {"name": "z", "role": "target"}],
    [NUMBER | {"role": "target"}], [NUMBER | {"kind": "text"}], [NUMBER | {"role": "input"}],
    [NUMBER | {"name": ""}], [NUMBER | {"name": 3}], [NUMBER | {"outside": "drop"}],
    [NUMBER | {"extra": 1}], [NUMBER | {"lowr": 1}], [WORDS | {"categories": []}],
    [WORDS | {"categories": ["a", "a"]}], [WORDS | {"categories": [1, "1"]}],
    [WORDS | {"categories": [1, 1.0]}], [WORDS | {"kind": "identifier"}],
    [{key: value for key, value in NUMBER.items() if key != "name"}],
    [{key: value for key, value in NUMBER.items() if key != "kind"}],
    [{key: value for key, value in WORDS.items() if key != "categories"}],
], ids=range(18))
def test_a_malformed_schema_is_a_schema_error(columns):
    refused(pl.SchemaError, lambda: read(*columns))


def test_privacy_units_of_several_rows_are_refused():
    with pytest.raises(pl.SchemaError, match="privacy unit"):
        read(NUMBER, unit={"column": "person", "rows": 3})


def test_other_roles_need_no_bounds():
    schema = read(NUMBER, {"name": "id", "kind": "identifier", "role": "identifier"},
                  {"name": "when", "kind": "timestamp", "role": "timestamp"})
    assert [column.name for column in schema.features] == ["x"]
    with pytest.raises(pl.SchemaError):
        _ = schema.target


def test_select():
    schema = read(NUMBER, NUMBER | {"name": "z"}, WORDS | {"role": "target"})
    assert [c.name for c in schema.select(("z",)).features] == ["z"]
    assert schema.select(("z",)).target.name == "c"
    for names in (("q",), ("c",), ()):
        with pytest.raises(pl.SchemaError):
            schema.select(names)


def test_records_are_frozen():
    schema = read(NUMBER)
    with pytest.raises(AttributeError):
        schema.features[0].upper = 99.0
    with pytest.raises(AttributeError):
        schema.columns = ()


WHOLE = {"name": "t", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0.0, "upper": 1.0},
    {"name": "y", "kind": "categorical", "role": "target", "categories": ["a", "b"]}]}


@pytest.mark.parametrize("column", ["abc", 3, None, [], [["name", "x"]]])
def test_a_column_that_is_no_object_is_refused_in_words(column):
    """A text was asked for its keys: an internal error, also of a model file."""
    with pytest.raises(pl.SchemaError):
        pl.Schema.from_dict(WHOLE | {"columns": [*WHOLE["columns"], column]})


@all_cases("flag", ["missing", "integer", "ordered"])
@all_cases("said", ["false", "no", 0, 1, None, []])
def test_a_flag_is_true_or_false_and_no_word(flag, said):
    """`missing = "false"` was taken for true."""
    first, target = WHOLE["columns"]
    with pytest.raises(pl.SchemaError, match=flag):
        pl.Schema.from_dict(WHOLE | {"columns": [first | {flag: said}, target]})


def test_categories_are_a_list_and_a_layout_a_flag():
    first, target = WHOLE["columns"]
    refused(pl.SchemaError, lambda: pl.Schema.from_dict(WHOLE | {"columns": [first,
            target | {"categories": "ab"}]}), lambda: pl.Column("y", "categorical", "target",
            categories="ab"), match="categories")
    with pytest.raises(pl.SchemaError, match="array_layout"):
        pl.Schema.from_dict(WHOLE | {"array_layout": "no"})


@all_cases("categories", [
    (None, "a"), (math.nan, 1), ("", "a"), ([1], {}), (math.inf, 1), (b"a", b"b"), (("a",), "b"),
    ("1", "1.0"), (1, True, "True"), (1e-05, "0.00001"), ({"a"}, "b"), (1j, "a")])
def test_a_category_is_something_that_a_cell_can_be(categories):
    refused(pl.errors.SchemaError, lambda: pl.Column("c", "categorical", "feature",
            categories=categories), lambda: pl.Schema.from_dict({"columns": [NUMBER, {"name": "c",
            "kind": "categorical", "categories": list(categories)}]}), match="'c'")


@all_cases("given", [
    {"kind": "numeric", "lower": 0, "upper": 1, "categories": ["a"]},
    {"kind": "numeric", "lower": 0, "upper": 1, "ordered": True},
    {"kind": "numeric", "lower": 0.5, "upper": 2, "integer": True},
    {"kind": "categorical", "categories": ["a"], "lower": 1},
    {"kind": "categorical", "categories": ["a"], "upper": 1},
    {"kind": "categorical", "categories": [1, 2], "integer": True},
    {"kind": "categorical", "categories": ["?", "a"], "missing_value_marker": "?"},
    {"kind": "categorical", "categories": [1, 2], "missing_value_marker": "1.0"},
    *({"kind": "numeric", "lower": 0, "upper": 1, "missing_value_marker": marker}
      for marker in ("", True, math.nan, math.inf, ["?"], {}))])
def test_what_means_nothing_for_a_column_is_refused(given):
    with pytest.raises(pl.errors.SchemaError, match="'c'"):
        pl.Schema.from_dict({"columns": [NUMBER, {"name": "c", **given}]})


@pytest.mark.parametrize("key", ["expected_row", "public_row", "missing_value_markers", "Target",
                                 "array_layouts", "colums", "units"])
def test_a_key_that_is_almost_one_is_refused(key):
    with pytest.raises(pl.errors.SchemaError, match="is meant"):
        pl.Schema.from_dict({"name": "t", "columns": [NUMBER], key: 1})
    assert pl.Schema.from_dict({"columns": [NUMBER], "title": "t", "source": "s", "note": "n"})
