"""Ids of people: one spelling each, one number for each row, and what is no id."""

import datetime
import decimal
import enum
import unicodedata
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.tables.person_ids import Misspelt, grouped_by_person, persons, spelt, text_keys
from tests.all_cases import all_cases

pandas = pytest.importorskip("pandas")


class Colour(enum.Enum):
    red = 1


NO_IDS = {
    "none": ([1, None], "missing"),
    "nan": (np.array([1.0, np.nan]), "missing"),
    "nan among objects": ([1, float("nan")], "missing"),
    "pandas NA": (pandas.array([1, None], dtype="Int64"), "missing"),
    "NaT": (pandas.Series([1, pandas.NaT], dtype=object), "missing"),
    "a missing text": (pandas.Series(["a", None]), "missing"),
    "masked": (np.ma.masked_array([1, 2], [False, True]), "missing"),
    "boolean": (np.array([True, False]), "boolean"),
    "boolean that equals a number": ([1, True], "boolean"),
    "numpy boolean": ([np.True_, 2], "boolean"),
    "fraction": (np.array([1.5, 2.0]), "fraction"),
    "fraction among objects": ([1, 1.5], "fraction"),
    "fraction as text": (["17.5"], "fraction"),
    "beyond 2^53": (np.array([2.0**53]), "run together"),
    "beyond 2^53, below zero": (np.array([-(2.0**54)]), "run together"),
    "beyond a float32": (np.array([2.0**25], np.float32), "run together"),
    "beyond 2^53 among objects": ([1, 2.0**60], "run together"),
    "infinity": (np.array([np.inf, 1.0]), "infinity"),
    "infinity among objects": ([1, float("-inf")], "infinity"),
    "infinity as text": (["a", "Inf"], "infinity"),
    "empty": (["a", ""], "empty"),
    "white space": (["a", " \t\n"], "empty"),
    "nothing that is seen": (["a", "\u200b\u200e"], "empty"),
    "missing as text": (["a", "NaN"], "missing"),
    "null as text": (["NULL", "b"], "missing"),
    "boolean as text": (["True", "False"], "boolean"),
    "numbers and texts": ([17, "17"], "numbers and texts"),
    "bytes": ([b"a", b"b"], "bytes"),
    "bytes of numpy": (np.array([b"a", b"b"]), "bytes"),
    "tuples": ([(1, 2), (3, 4)], "one value"),
    "dicts": ([{"a": 1}, {"a": 2}], "one value"),
    "dates": ([datetime.date(2020, 1, 1)], "date"),
    "times of numpy": (np.array(["2020-01-01"], "M8[D]"), "date"),
    "times of pandas": (pandas.Series(pandas.to_datetime(["2020-01-01"], utc=True)), "date"),
    "spans": (np.array([3], "m8[s]"), "time"),
    "complex": (np.array([1 + 0j]), "complex"),
    "decimals": ([decimal.Decimal(17)], "whole number or a text"),
    "uuids": ([uuid.UUID(int=1)], "whole number or a text"),
    "members of an enumeration": ([Colour.red], "whole number or a text"),
    "records": (np.array([(1, 2)], [("a", int), ("b", int)]), "several"),
    "two columns": (np.ones((2, 2)), "one column"),
    "a scalar": (np.array(17), "one column"),
    "one text": ("17", "one column"),
    "a dict": ({0: 1}, "one column"),
    "nothing": (None, "one column"),
    "a number": (17, "one column"),
    "too long": (["a" * 1001], "at most 1000"),
    "a number that Python does not write": ([10**5000, 1], "at most 1000"),
    "half a letter": (["a\ud800"], "valid Unicode")}


@all_cases("name", NO_IDS)
def test_what_is_no_id_is_refused_by_column_and_rule(name):
    values, rule = NO_IDS[name]
    with pytest.raises(pl.errors.DataError, match=rule) as caught:
        persons(values, "member")
    assert "'member'" in str(caught.value)
    assert "17" not in str(caught.value).replace("2^53", "")


def test_as_many_ids_as_rows():
    with pytest.raises(pl.errors.DataError, match="as many ids as rows"):
        persons([1, 2, 3], "member", 4)


def test_one_person_however_the_id_is_written():
    for values in ([17, 17.0], ["17", " 17 ", "17.0", "017", "+17", "１７", "1.7e+01", "17.",
                                "1.7e1", "170e-1", ".17E2", "1.7E001"],
                   ["Anna B", " anna  b", "ANNA\u00a0B", "anna\u200b b"],
                   ["stra\u00dfe", "STRASSE"], ["\u212b", "\u00e5", "A\u030a"],
                   ["\u0661\u0667", "17"]):
        assert len(persons(values).ids) == 1, values
    kinds = [np.array([17]), np.array([17], np.uint8), np.array([17.0]), [17], ["17"],
             pandas.Series([17]), pandas.Series(["17"]), pandas.array([17], dtype="Int64"),
             pandas.Series(["17"], dtype="category"), np.array(["17"])]
    assert {persons(one).ids for one in kinds} == {("17",)}


@pytest.mark.parametrize("values", [
    ["\u00e1b", "a\u0301b", "a\u200d\u0301b", "a\x00\u0301b"],  # a mark between letter and accent
    ["anna", "anna\ufe0f", "an\u034fna", "anna\u3164", "\u180banna", "anna\u2800", "an\u17b4na"],
    ["a-1", "a\u20101", "a\u20111", "a\u20131", "a\u22121"], ["-17", "\u221217", "\u201317.0"],
    ["o'brien", "O\u2019Brien", "o\u02bcbrien"], ["irem", "\u0130REM", "\u0131rem", "IREM"],
    ["a\u1f80\u0301", "a\u1f00\u0345\u0301"],
], ids=["joined", "hidden", "dashes", "minus", "quotes", "dotless", "greek"])
def test_what_looks_the_same_is_one_person(values):
    """Each was two people once: one person with two caps."""
    assert len(persons(values).ids) == 1


def test_what_has_no_glyph_is_left_out_and_its_neighbours_are_not():
    for low, high in ((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
                      (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)):
        for code in range(low - 2, high + 3):
            if unicodedata.category(chr(code)) not in ("Cc", "Cf", "Cn"):
                hidden = spelt(f"a{chr(code)}b") == "ab"
                assert hidden == (low <= code <= high), hex(code)


@pytest.mark.parametrize("codes", [
    range(0x600), pytest.param(range(0x600, 0x20000), marks=pytest.mark.slow)])
def test_a_spelling_is_its_own_and_that_of_every_form(codes):
    for code in codes:
        for text in (f"a{chr(code)}b", f"a{chr(code)}\u0301"):
            try:
                found = spelt(text)
            except Misspelt:
                continue
            forms = [unicodedata.normalize(form, text) for form in ("NFD", "NFC", "NFKC", "NFKD")]
            if "\u0345" not in forms[0]:  # the capital of that mark is a letter of its own
                forms += [text.upper(), text.lower()]
            assert {spelt(one) for one in (found, *forms)} == {found}


def test_different_ids_stay_apart():
    values = ["17", "-17", "170", "17a", "a17", "17-1", "1e7", "0x17", "a b", "ab", "a.b"]
    assert len(persons(values).ids) == len(values)
    large = [2**70, 2**70 + 1, -(2**70)]
    assert len(persons(large).ids) == 3
    assert persons([str(one) for one in large]).ids == persons(large).ids


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40))
def test_people_are_numbered_as_they_first_appear(values):
    found = persons(np.array(values, np.int64))
    assert [found.ids[place] for place in found.rows] == [str(value) for value in values]
    assert list(dict.fromkeys(found.rows.tolist())) == list(range(len(found.ids)))
    again = persons([str(value) for value in values])
    assert again.ids == found.ids and again.rows.tolist() == found.rows.tolist()


@given(st.lists(st.text("ab", min_size=1, max_size=20), min_size=1, max_size=40))
def test_texts_are_equal_where_their_numbers_are(values):
    keys = text_keys(values)
    assert keys is not None
    starts, rows = grouped_by_person(keys)
    assert [values[starts[row]] for row in rows] == values
    assert len(starts) == len(set(values))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8"])
def test_the_ends_of_a_type_are_numbers_like_others(dtype):
    ends = np.iinfo(dtype)
    values = np.array([ends.max, ends.min, ends.max], dtype)
    assert persons(values).ids == (str(ends.max), str(ends.min))


def test_nothing_is_shown():
    assert repr(persons([17])) == "Persons(private)"


def chained(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@all_cases("name", NO_IDS)
def test_no_exception_behind_a_refusal_holds_an_id(name):
    """Python's own errors keep what they were about, and a chain keeps them."""
    with pytest.raises(pl.errors.DataError) as caught:
        persons(NO_IDS[name][0], "member")
    for error in chained(caught.value):
        assert isinstance(error, pl.errors.DataError | Misspelt), type(error)
        assert not getattr(error, "__notes__", None)
