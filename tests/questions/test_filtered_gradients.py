"""Gradient filtering: records beyond the clip take part in nothing, and bounds stay."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.questions.blocks import clipped
from privledger.questions.options import options_of
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from tests.worlds import NoVault, refused

FEATURES = (pl.Column("a", "numeric", "feature", 0.0, 6.0, integer=True),
            pl.Column("b", "categorical", "feature", categories=("x", "y", "z"), missing=True))
NUMBERS = pl.Schema("toy", (*FEATURES, pl.Column("t", "numeric", "target", -1.0, 1.0)))
CLASSES = pl.Schema("toy", (*FEATURES, pl.Column("t", "categorical", "target",
                                                 categories=("n", "p", "q"))))
START = 0.125  # whole steps of a running score: what the sums below are compared with
number_record = st.tuples(st.integers(0, 6), st.integers(-1, 2), st.floats(-1, 1))
class_record = st.tuples(st.integers(0, 6), st.integers(-1, 2), st.integers(0, 2))


def handle(schema):
    return pl.Dataset(schema, NoVault())


def rows_of(schema, table):
    columns = list(zip(*table, strict=True)) if table else [[], [], []]
    features = Columns(schema, (np.array(columns[0], dtype=float),
                                np.array(columns[1], dtype=np.int32)), len(table))
    kind = float if schema is NUMBERS else np.int32
    return Rows(features, np.array(columns[2], dtype=kind))


def asked(schema, clip, filtered):
    data = handle(schema)
    tree = data.root(data.bins(8)).grow([0], [3])
    if schema is NUMBERS:
        gradient = data.score("squared", [START]).gradient(clip, filtered=filtered)
    else:
        score = data.score("softmax", [0.0, 0.5, -0.2])
        gradient = score.gradient(clip, filtered=filtered, coordinate=1)
    return data.choose(tree, "gain", among="both", gradient=gradient, penalty=0.5)


def scores(choice, rows):
    found = options_of(choice, choice.sketch(rows, 1.0))
    result = {}
    for place, leaf in enumerate(found.leaf):
        for spot in range(found.starts[place], found.starts[place + 1]):
            for cut in range(found.first[spot], found.first[spot] + found.length[spot]):
                result[int(leaf), int(found.feature[spot]), int(cut)] = float(found.score[spot])
    return result


@settings(max_examples=60, deadline=None)
@given(data=st.data(), clip=st.sampled_from([0.05, 0.3, 0.7, 2.0]))
@pytest.mark.parametrize("schema", [NUMBERS, CLASSES], ids=["squared", "softmax"])
def test_one_record_moves_the_gain_as_far_as_proved(schema, data, clip):
    record = number_record if schema is NUMBERS else class_record
    table = data.draw(st.lists(record, max_size=12))
    extra, choice = data.draw(record), asked(schema, clip, True)
    before = scores(choice, rows_of(schema, table))
    after = scores(choice, rows_of(schema, [*table, extra]))
    assert before.keys() == after.keys()
    least, most = choice.bound.change
    scale = choice.sensitivity("add_remove")
    for key, value in before.items():
        assert least * scale - 1e-9 <= after[key] - value <= most * scale + 1e-9


@settings(max_examples=60, deadline=None)
@given(table=st.lists(number_record, max_size=12), clip=st.sampled_from([0.05, 0.3, 0.7]))
def test_records_beyond_the_clip_are_as_if_they_were_not_there(table, clip):
    inside = [row for row in table if abs(row[2] - START) <= clip]
    filtered, plain = asked(NUMBERS, clip, True), asked(NUMBERS, clip, False)
    assert scores(filtered, rows_of(NUMBERS, table)) == scores(plain, rows_of(NUMBERS, inside))
    score = handle(NUMBERS).score("squared", [START])
    rows = rows_of(NUMBERS, table)
    assert clipped(score.hessian(clip), rows, 1).sum() == len(inside)
    total = clipped(score.gradient(clip, filtered=True), rows, 1).sum()
    assert total == pytest.approx(sum(row[2] - START for row in inside))


def test_a_vector_beyond_the_clip_is_left_out_whole():
    """Its norm decides for every coordinate, so that splits and leaves see the same records."""
    score = handle(CLASSES).score("softmax", [4.0, 0.0, 0.0])
    rows = rows_of(CLASSES, [(0, 0, 0), (0, 0, 1)])
    gradient = score.gradient(1.0, filtered=True).values(rows)
    assert np.abs(gradient[0]).max() > 0
    assert not gradient[1].any()
    for coordinate in range(3):
        one = score.gradient(1.0, filtered=True, coordinate=coordinate).values(rows)
        np.testing.assert_array_equal(one, gradient[:, coordinate])
    assert score.hessian(1.0).values(rows)[1] == 0 < score.hessian().values(rows)[1]


def test_a_record_that_is_not_a_number_is_out():
    rows = rows_of(NUMBERS, [(0, 0, math.nan), (1, 1, 0.2)])
    score = handle(NUMBERS).score("squared", [0.1])
    assert clipped(score.hessian(0.5), rows, 1).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("wrong", [
    {"filtered": 1}, {"coordinate": 3}, {"coordinate": -1}, {"coordinate": 1.0},
    {"coordinate": True}])
def test_bad_gradients_are_refused(wrong):
    score = handle(CLASSES).score("softmax", [0.0, 0.0, 0.0])
    refused(pl.InvalidValue, lambda: score.gradient(1.0, **wrong))
