"""Tables in: one meaning for every form, and errors that name columns and never values."""

import decimal
import gzip

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.tables.encode import encode_target
from privledger.tables.raw import _factorize
from privledger.tables.sources import read_features
from tests.all_cases import all_cases
from tests.worlds import refused, schema_of

pandas = pytest.importorskip("pandas")
SECRET = 0.7312345678901
WORD = "s3cr3t-w0rd"
SCHEMA = pl.Schema("t", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("weight", "numeric", "feature", -5.0, 5.0, missing=True),
    pl.Column("colour", "categorical", "feature", categories=("red", "green", 3), missing=True),
    pl.Column("kind", "categorical", "feature", categories=(0, 1)),
    pl.Column("y", "categorical", "target", categories=("no", "yes"))))
COLUMNS = {
    "size": [0.5, SECRET, 0.25, 1.0], "weight": [1.5, np.nan, -5.0, 5.0],
    "colour": ["red", None, "green", 3], "kind": [0, 1, 1, 0]}
LABELS = ["no", "yes", "yes", "no"]


def same(first, second):
    return len(first.arrays) == len(second.arrays) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(first.arrays, second.arrays, strict=True))


def test_every_form_gives_the_same_codes():
    as_object = {name: np.array(values, dtype=object) for name, values in COLUMNS.items()}
    plain = pl.encode_features(COLUMNS, SCHEMA)
    assert [a.dtype.kind for a in plain.arrays] == ["f", "f", "i", "i"]
    assert plain.arrays[2].tolist() == [0, -1, 1, 2] and plain.arrays[3].tolist() == [0, 1, 1, 0]
    frame = pandas.DataFrame(as_object)
    matrix = np.empty((4, 4), dtype=object)
    for place, values in enumerate(COLUMNS.values()):
        matrix[:, place] = values
    for form in (as_object, frame, frame[["kind", "colour", "weight", "size"]], matrix,
                 frame.assign(extra=1), frame.astype({"size": float, "weight": float, "kind": int}),
                 frame.astype({"colour": "category"}), frame.set_index(np.array([9, 8, 7, 6]))):
        assert same(pl.encode_features(form, SCHEMA), plain)


def test_pandas_missing_values_are_missing():
    frame = pandas.DataFrame({
        "size": [0.5, 0.25], "kind": [0, 1], "colour": pandas.array(["red", None], dtype="string"),
        "weight": pandas.array([1.5, None], dtype="Float64")})
    found = pl.encode_features(frame, SCHEMA)
    assert np.isnan(found.arrays[1][1]) and found.arrays[2].tolist() == [0, -1]


@pytest.mark.parametrize("one", [1, 1.0, "1", np.int64(1), np.float32(1)])
def test_a_category_has_many_spellings(one):
    found = pl.encode_features(COLUMNS | {"kind": [one] * 4}, SCHEMA)
    assert found.arrays[3].tolist() == [1] * 4


def test_values_beyond_the_bounds_are_clipped():
    found = pl.encode_features(COLUMNS | {"size": [-9, 2, 0.5, 1e300]}, SCHEMA)
    assert found.arrays[0].tolist() == [0.0, 1.0, 0.5, 1.0]


def test_or_the_table_is_refused():
    strict = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0, outside="refuse"),))
    pl.encode_features({"x": [0.0, 1.0]}, strict)
    with pytest.raises(pl.errors.DataError, match="outside its public bounds"):
        pl.encode_features({"x": [0.0, 1.0 + 1e-12]}, strict)


ragged = np.empty(4, dtype=object)
ragged[:] = [[SECRET], [1], [2], [3]]


@all_cases(("change", "column"), [
    ({"size": [0.5, WORD, 0.25, 1.0]}, "size"), ({"size": [np.nan, 0.1, 0.2, 0.3]}, "size"),
    ({"size": [np.inf, 0.1, 0.2, 0.3]}, "size"), ({"weight": [0.1, -np.inf, 0.2, 0.3]}, "weight"),
    ({"size": [None, SECRET, 0.2, 0.3]}, "size"), ({"size": [1j, SECRET, 0.2, 0.3]}, "size"),
    ({"size": [{"a": SECRET}, 0.1, 0.2, 0.3]}, "size"), ({"size": ragged}, "size"),
    ({"size": [10**400, 0, 0, 0]}, "size"), ({"size": [b"x", 0, 0, 0]}, "size"),
    ({"kind": [0, 1, 2, 0]}, "kind"), ({"kind": [0, None, 1, 0]}, "kind"),
    ({"kind": [0, "", 1, 0]}, "kind"), ({"kind": [0, np.nan, 1, 0]}, "kind"),
    ({"colour": ["red", WORD, "green", 3]}, "colour"), ({"colour": ragged}, "colour"),
    ({"colour": [WORD] * 4}, "colour"),
], ids=range(17))
@all_cases("form", ["dict", "frame"])
def test_an_error_names_the_column_and_never_the_value(change, column, form):
    table = COLUMNS | change
    if form == "frame":
        table = pandas.DataFrame({name: np.array(values, dtype=object) if not isinstance(
            values, np.ndarray) else values for name, values in table.items()})
    with pytest.raises(pl.errors.DataError, match=column) as caught:
        pl.encode_features(table, SCHEMA)
    text = f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert WORD not in text and str(SECRET)[:8] not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("labels", [["no", WORD, "yes", "no"], ["no", None, "yes", "no"],
                                    [0, 1, 1, 0], [np.nan] * 4])
def test_an_unknown_or_missing_label_is_refused(labels):
    with pytest.raises(pl.errors.DataError, match="y") as caught:
        encode_target(np.array(labels, dtype=object), SCHEMA)
    assert WORD not in str(caught.value)


@all_cases("table", [
    {"size": [1.0]}, {}, np.zeros((3, 2)), np.zeros(4), np.zeros((2, 4, 2)), 3.0, None, "table",
    COLUMNS | {"size": [0.5]}, COLUMNS | {"size": 0.5}, COLUMNS | {"size": np.zeros((4, 2))},
], ids=range(11))
def test_a_table_of_another_shape_is_a_data_error(table):
    refused(pl.errors.DataError, lambda: pl.encode_features(table, SCHEMA))


def test_two_columns_of_one_name_are_a_data_error():
    frame = pandas.DataFrame([[0.1, 0.2]], columns=["x", "x"])
    refused(pl.errors.DataError, lambda: pl.encode_features(frame, schema_of("t", {"x": (0., 1.)})))


def test_empty_tables_are_refused_and_one_row_works(make_ledger):
    ledger = make_ledger()
    empty = {name: values[:0] for name, values in COLUMNS.items()}
    refused(pl.errors.DataError, lambda: ledger.protect(empty, LABELS[:0], SCHEMA), match="empty")
    one = {name: values[:1] for name, values in COLUMNS.items()}
    data = ledger.protect(one, LABELS[:1], SCHEMA)
    with ledger.request(pl.Gaussian(30.0), data) as session:
        assert np.isfinite(session.release(pl.Gaussian(30.0), data.count()))


def test_targets_of_another_length_are_refused(make_ledger):
    with pytest.raises(pl.errors.DataError, match="differ in length"):
        make_ledger().protect(COLUMNS, LABELS[:3], SCHEMA)


def test_categories_given_as_a_list_are_kept_as_they_are_now(make_ledger):
    names = ["a", "b"]
    column = pl.Column("c", "categorical", "feature", categories=names)
    names.append("c")
    assert column.categories == ("a", "b")
    schema = pl.Schema("t", [column, pl.Column("y", "numeric", "target", 0.0, 1.0)])
    ledger, node = make_ledger(10.0), pl.Laplace(1.0)
    data = ledger.protect({"c": ["a", "b"]}, [0.1, 0.2], schema)
    with ledger.request(node, data) as session:
        assert len(session.release(node, data.histogram("c"))) == 3


@pytest.mark.parametrize("schema", [None, {}, "schema.json", 3])
def test_a_schema_is_never_inferred(make_ledger, schema):
    refused(pl.InvalidValue, lambda: make_ledger().protect(COLUMNS, LABELS, schema))


def test_prediction_is_lenient():
    lenient = pl.encode_features(
        COLUMNS | {"kind": [0, 9, None, 1], "size": [np.nan, np.inf, -np.inf, 0.5]}, SCHEMA,
        strict=False)
    assert lenient.arrays[3].tolist() == [0, -1, -1, 1]
    assert np.array_equal(lenient.arrays[0], [np.nan, 1.0, 0.0, 0.5], equal_nan=True)


@pytest.mark.parametrize("zipped", [False, True])
def test_reading_csv(tmp_path, zipped):
    text = "colour,kind,weight,size,y\nred,0,1.5,0.5,no\n,1,,0.25,yes\n3,1,-5,1,no\n"
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    X, y = pl.read_table(path, SCHEMA)
    codes = pl.encode_features(X, SCHEMA)
    assert codes.arrays[2].tolist() == [0, -1, 2]
    assert np.isnan(codes.arrays[1][1]) and list(y) == ["no", "yes", "no"]
    assert encode_target(y, SCHEMA).tolist() == [0, 1, 0]


@pytest.mark.parametrize("text", ["", "size,weight\n1,2\n", "size,weight,colour,kind,y\n1,2,red\n",
                                  f"size,weight,colour,kind,y\n{WORD},2,red,0,no\n"])
def test_a_malformed_csv_is_a_data_error(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(pl.errors.DataError) as caught:
        pl.read_table(tmp_path / "t.csv", SCHEMA)
    assert WORD not in str(caught.value)


# Bins.

def test_bin_codes_are_in_range_and_edges_inclusive():
    bins = pl.questions.Bins(SCHEMA, 4)
    assert bins.sizes() == (5, 5, 4, 3)
    table = {"size": [0.0, 0.25, 0.2499999, 0.999, 1.0, 0.5],
             "weight": [-5.0, 5.0, np.nan, 0.0, -2.5, 2.49],
             "colour": ["red", None, 3, "green", "red", ""], "kind": [0, 1, 0, 1, 0, 1]}
    codes = bins.codes(pl.encode_features(table, SCHEMA))
    assert codes[0].tolist() == [0, 1, 0, 3, 3, 2]
    assert codes[1].tolist() == [0, 3, 4, 2, 1, 2]
    assert codes[2].tolist() == [0, 3, 2, 1, 0, 3]
    for code, size in zip(codes, bins.sizes(), strict=True):
        assert code.dtype.kind == "u" and code.max() < size


@all_cases("numeric_bins", [1, 2, 3, 255, 256, 257, 1024, 65534])
def test_random_bins_stay_in_range(numeric_bins):
    rng = np.random.default_rng(numeric_bins)
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", -1e-3, 7e5, missing=True),))
    values = np.concatenate([rng.uniform(-1, 8e5, 500), [np.nan, -1e-3, 7e5, 0.0, -0.0]])
    bins = pl.questions.Bins(schema, numeric_bins)
    (codes,) = bins.codes(pl.encode_features({"x": values}, schema))
    edges = bins.edges(0)
    assert bins.sizes() == (numeric_bins + 1,) and len(edges) == numeric_bins + 1
    assert codes[500] == numeric_bins and codes[501] == 0 and codes[502] == numeric_bins - 1
    inside = np.clip(values[:500], -1e-3, 7e5)
    width = edges[1] - edges[0]
    assert (inside >= edges[codes[:500]] - width * 1e-6).all()
    assert (inside <= edges[codes[:500] + 1] + width * 1e-6).all()


def test_whole_numbers_get_a_bin_each():
    schema = pl.Schema("t", (pl.Column("n", "numeric", "feature", 1, 6, integer=True),))
    bins = pl.questions.Bins(schema, 64)
    (codes,) = bins.codes(pl.encode_features({"n": [1, 2, 3, 4, 5, 6, 9]}, schema))
    assert codes.tolist() == [0, 1, 2, 3, 4, 5, 5] and bins.sizes() == (7,)


@pytest.mark.parametrize("form", [list, np.array, lambda cells: np.array(cells)[:, None]])
def test_a_column_of_whole_numbers_has_no_others(form):
    schema = pl.Schema("t", (pl.Column("n", "numeric", "feature", 1, 6, integer=True),))
    for cells, whole in (([1.0, 2.0], True), ([1.0, 2.2], False), ([1e300, 2.0], True),
                         ([7.5, 2.0], False)):
        held = form(cells)
        table = {"n": held} if np.ndim(held) == 1 else held
        if whole:
            assert pl.encode_features(table, schema).n_rows == 2
            continue
        with pytest.raises(pl.errors.DataError, match="'n' has a value that is not whole"):
            pl.encode_features(table, schema)
        assert pl.encode_features(table, schema, strict=False).n_rows == 2


CODES = schema_of("t", {"c": ["1000", "2.5", "0", True, "a", 1e-05]})
SAME = {"1000": 0, "1000.0": 0, "1000.00": 0, "2.50": 1, "-0": 2, "-0.0": 2, "0.0": 2, "True": 3,
        "1e-05": 5, "0.00001": 5}


@pytest.mark.parametrize("text", [*SAME, "1e3", "1E3", "01000", "+1000", "1_000", "1000.", " 1000",
                                  "1000 ", "\uff11000", "1000,0", "1.0e3", "0x3e8", "2.5e0", "true",
                                  "TRUE", "1", "00", ".0", "A", "a ", "\u0661", "1e-5", "10e-06"])
def test_a_code_is_spelt_alike_in_every_table(tmp_path, text):
    pandas = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    (tmp_path / "t.csv").write_text(f'c,z\n"{text}",1\n', encoding="utf-8")
    pandas.DataFrame({"c": [text]}).to_parquet(tmp_path / "t.parquet")
    found = set()
    for table in ({"c": [text]}, {"c": np.array([text])}, pandas.DataFrame({"c": [text]}),
                  pandas.DataFrame({"c": pandas.Series([text], dtype="string")}),
                  pandas.DataFrame({"c": pandas.Categorical([text])}), pa.table({"c": [text]}),
                  polars.DataFrame({"c": [text]}), "t.csv", "t.parquet"):
        try:
            if isinstance(table, str):
                table = read_features(tmp_path / table, CODES)
            found.add(int(pl.encode_features(table, CODES).arrays[0][0]))
        except pl.errors.DataError as error:
            assert "'c' has a category" in str(error) and text not in str(error).split("'")
            found.add(None)
    assert found == {SAME.get(text, 4 if text == "a" else None)}


@all_cases(("value", "place"), [
    (1000, 0), (1000.0, 0), (np.float32(1000), 0), (np.int8(0), 2), (-0.0, 2), (True, 3),
    (np.True_, 3), (decimal.Decimal("1000.00"), 0), (decimal.Decimal("1E+3"), 0), (1e-05, 5),
    (1, None), (False, None), (b"1000", None), (1000.5, None), (10**30, None)])
def test_a_code_that_is_no_text_is_its_value(value, place):
    for table in ({"c": [value]}, {"c": np.array([value])}, {"c": np.array([value], dtype=object)}):
        try:
            found = int(pl.encode_features(table, CODES).arrays[0][0])
        except pl.errors.DataError:
            found = None
        assert found == place


def test_a_boolean_is_no_number_wherever_it_stands():
    schema = schema_of("t", {"c": [1, True]})
    for form in (list, lambda cells: pytest.importorskip("pandas").Series(cells, dtype=object)):
        for cells in ([1, True, 1.0], [True, 1, 1.0]):
            codes = pl.encode_features({"c": form(cells)}, schema).arrays[0].tolist()
            assert codes == [int(isinstance(cell, bool)) for cell in cells]


@pytest.mark.parametrize(("text", "number"), [
    ("1e1", 10.0), ("+5", 5.0), ("007", 7.0), (".5", 0.5), ("5.", 5.0), (" 5 ", 5.0), ("nan", None),
    ("1_0", "refused"), ("\uff11", "refused"), ("\u0661", "refused"), ("0x1", "refused"),
    ("1,5", "refused"), ("\xa05", "refused"), ("", "refused"), ("1e", "refused"),
    (b"5", "refused")])
def test_a_number_in_a_text_is_spelt_alike_in_every_table(tmp_path, text, number):
    pandas = pytest.importorskip("pandas")
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 10, missing=True),))
    tables = [{"x": [text]}, {"x": np.array([text])}, {"x": np.array([text, 1.0], dtype=object)},
              pandas.DataFrame({"x": [text]})]
    if isinstance(text, str) and text:
        (tmp_path / "t.csv").write_text(f'x,z\n"{text}",1\n', encoding="utf-8")
        tables.append(pl.scan_csv(tmp_path / "t.csv"))
    for table in tables:
        try:
            columns = (next(table.batches(schema)).features if hasattr(table, "batches")
                       else pl.encode_features(table, schema))
            found = None if np.isnan(columns.arrays[0][0]) else columns.arrays[0][0]
        except pl.errors.DataError as error:
            assert "must hold numbers only" in str(error)
            found = "refused"
        assert found == number


@pytest.mark.parametrize("marker", ["?", "NA", "-99", -99, "-99.0"])
def test_a_marker_stands_for_a_missing_cell(tmp_path, marker):
    pandas = pytest.importorskip("pandas")
    cells = ["5", str(marker), "7"]
    schema = pl.Schema.from_dict({"name": "t", "missing_value_marker": marker, "columns": [
        {"name": "x", "kind": "numeric", "lower": 0, "upper": 10},
        {"name": "c", "kind": "categorical", "categories": [5, 7]}]})
    assert pl.Schema.from_dict(schema.to_dict()) == schema
    (tmp_path / "t.csv").write_text("x,c\n" + "".join(f'{cell},"{cell}"\n' for cell in cells))
    read = read_features(tmp_path / "t.csv", schema)
    tables = [{"x": cells, "c": cells}, pandas.DataFrame({"x": cells, "c": cells}), read]
    if marker not in ("?", "NA"):
        tables += [np.array([[5, 5], [-99, -99], [7, 7]]), {"x": [5, -99.0, 7], "c": [5, -99, 7]}]
    for table in tables:
        codes = pl.encode_features(table, schema)
        np.testing.assert_array_equal(codes.arrays[0], [5.0, np.nan, 7.0])
        assert codes.arrays[1].tolist() == [0, -1, 1]
    (batch,) = pl.scan_csv(tmp_path / "t.csv").batches(schema)
    np.testing.assert_array_equal(batch.features.arrays[0], [5.0, np.nan, 7.0])
    strict = pl.Schema.from_dict({**schema.to_dict(), "columns": [
        {**column, "missing": False} for column in schema.to_dict()["columns"]]})
    refused(pl.errors.DataError, lambda: pl.encode_features(tables[0], strict), match="allows none")


def test_bins_are_of_a_schema_that_has_their_columns_as_they_are():
    """Some or all of them, of the same record or of an equal one; none in another form."""
    features = SCHEMA.features

    def with_first(**change):
        columns = (evolve(features[0], **change), *features[1:], SCHEMA.target)
        return pl.Schema("t", columns)

    whole = pl.questions.Bins(SCHEMA, 4)
    for schema in (SCHEMA, pl.Schema.from_dict(SCHEMA.to_dict()),
                   pl.Schema("more", (pl.Column("z", "numeric", "feature", 0.0, 1.0),
                                      *SCHEMA.columns))):
        whole.check(schema)
        for column in features:
            pl.questions.Bins(pl.Schema("one", (column,)), 4).check(schema)
    for other in (with_first(upper=2.0), with_first(name="length"), with_first(missing=True),
                  with_first(integer=True), pl.Schema("few", (features[1], SCHEMA.target))):
        refused(pl.errors.SchemaError, lambda other=other: whole.check(other), match="belong")


def test_trees_check_their_tests():
    bins = pl.questions.Bins(SCHEMA, 4)
    table = np.array([0, 0, 1, 1, 1], dtype=np.uint8)
    pl.questions.TreeCells(bins, [pl.questions.Test(0, table)], 2)
    for tests, count in [
        ([pl.questions.Test(0, table)], 1), ([pl.questions.Test(9, table)], 2),
        ([pl.questions.Test(-1, table)], 2),
        ([pl.questions.Test(2, table)], 2), ([pl.questions.Test(0, table.astype(int))], 2),
        ([pl.questions.Test(0, table.astype(float))], 2), ([pl.questions.Test(0, table)], 70_000),
        ([pl.questions.Test(0, table), pl.questions.Test(1, table)], 2)]:
        with pytest.raises(pl.InvalidValue):
            pl.questions.TreeCells(bins, tests, count)


def test_a_checked_test_cannot_be_changed_afterwards():
    table = np.array([0, 0, 1, 1, 1], dtype=np.uint8)
    test = pl.questions.Test(0, table)
    table[:] = 200
    assert test.table.max() == 1
    with pytest.raises(ValueError):
        test.table[0] = 200
    refused(ValueError, lambda: test.table.setflags(write=True))


@pytest.mark.parametrize("edges", [[], [1.0, 1.0], [2.0, 1.0], [np.nan], [0.0, np.inf], ["a"],
                                   [None]])
def test_impossible_edges(edges):
    refused((ValueError, TypeError), lambda: pl.questions.IntervalCells("size", edges))


@pytest.mark.parametrize(("what", "more"), [
    (what, more) for what in ("a text", "a numeric column", "a categorical column")
    for more in ({"categories": ("a",)}, {"ordered": True}, {"lower": 1.0}, {"upper": 2.0},
                 {"integer": True})])
def test_what_says_nothing_about_a_column_is_refused(what, more):
    kind, role, own = {
        "a text": ("text", "key", {}),
        "a numeric column": ("numeric", "feature", {"lower": 0.0, "upper": 3.0}),
        "a categorical column": ("categorical", "feature", {"categories": ("a", "b")})}[what]
    applies = {"a text": (), "a numeric column": ("lower", "upper", "integer"),
               "a categorical column": ("categories", "ordered")}[what]
    if set(more) <= set(applies):
        pl.Column("c", kind, role, **own | more)
        return
    with pytest.raises(pl.SchemaError, match=f"{next(iter(more))} does not apply to {what}"):
        pl.Column("c", kind, role, **own | more)


@pytest.mark.parametrize("kind", ["U3", "S3", np.int8, np.uint64, bool, np.float64])
@pytest.mark.parametrize("rare", [[], [4999], [1, 2, 3]])
def test_levels_of_a_long_column_are_all_of_them(kind, rare):
    """Most columns show all their levels in a few cells; whatever a rare cell holds is one too."""
    cells = np.zeros(5000, dtype=np.int64)
    cells[::7] = 1
    cells[rare] = [5 + one for one in range(len(rare))]
    array = cells.astype(kind)
    several, codes = _factorize(array, pl.Column("c", "categorical", "feature", categories=("0",)))
    known, places = np.unique(array, return_inverse=True)
    assert several == known.tolist() and codes.tolist() == places.tolist()
    for empty in (array[:0], array[:1]):
        assert len(_factorize(empty, None)[0]) == len(empty)
