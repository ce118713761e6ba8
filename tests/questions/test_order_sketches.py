"""Agreement and rank from sorted keys and from tallies: one law, whatever the division."""

import itertools

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.engines.messages import message_from_bytes, message_to_bytes
from privledger.questions import feature_scores, order_keys, order_sketch
from privledger.questions.order_keys import Grid, order_grid, target_steps
from privledger.questions.order_sketch import Ordered, Tallied, dot
from privledger.questions.votes import on_grid
from privledger.tables.chunk import ONE, Rows
from privledger.tables.columns import Columns
from tests.questions.test_chunks import merged, numbers_in
from tests.questions.test_feature_scores import slow_agreement, slow_pairs

FEATURES = (pl.Column("a", "numeric", "feature", 0.0, 8.0, missing=True),
            pl.Column("b", "numeric", "feature", -1.0, 3.0),
            pl.Column("c", "categorical", "feature", categories=("x", "y", "z"), missing=True))
COARSE = 2  # bits of a feature's steps, so that there are many ties and full tallies
TARGETS = 8  # of a number


def schema_of(classes):
    target = (pl.Column("t", "categorical", "target", categories=tuple(range(classes)))
              if classes else pl.Column("t", "numeric", "target", -1.0, 1.0))
    return pl.Schema("toy", (*FEATURES, target))


def rows_of(schema, rng, n, people=None):
    a, b = rng.uniform(0, 8, n), rng.uniform(-1, 3, n)
    a[rng.random(n) < 0.2] = np.nan
    arrays = (a, b, rng.integers(-1, 3, n).astype(np.int32))
    classes = len(schema.target.categories)
    target = rng.integers(0, classes, n).astype(np.int32) if classes else rng.uniform(-1, 1, n)
    return Rows(Columns(schema, arrays, n), target, people=people)


@pytest.fixture
def coarse():
    """Few steps, and few records whose keys are kept: every form is met on small tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_keys, "FINE_BITS", COARSE)
        patch.setattr(order_keys, "COARSE_BITS", COARSE)
        patch.setattr(order_keys, "MOST_TARGETS", TARGETS)
        for module in (order_sketch, feature_scores):
            patch.setattr(module, "MOST_SORTED", 12)
        yield


def on_steps(rows, place):
    """By the definition: a feature's step and the target's, of records that have both."""
    schema = rows.features.schema
    column, values = FEATURES[place], rows.features.arrays[place]
    low, high = (0.0, 2.0) if column.kind == "categorical" else (column.lower, column.upper)
    classes, found = len(schema.target.categories), []
    for value, target in zip(values.tolist(), rows.target.tolist(), strict=True):
        if not (np.isnan(value) or (column.kind == "categorical" and value < 0)):
            step = min(int((value - low) / (high - low) * 2**COARSE), 2**COARSE - 1)
            said = (target if 0 < classes <= TARGETS else target * TARGETS // classes if classes
                    else round((target + 1) / 2 * (TARGETS - 1)))
            found.append((step, said))
    return found


@settings(max_examples=60, deadline=None)
@given(classes=st.sampled_from([0, 1, 2, 3, 5, 11]), n=st.integers(0, 40),
       seed=st.integers(0, 10**6))
@pytest.mark.usefixtures("coarse")
def test_scores_are_those_of_the_definition_on_the_steps(classes, n, seed):
    schema = schema_of(classes)
    rows = rows_of(schema, np.random.default_rng(seed), n)
    data = pl.Dataset(schema, object())
    for score in ("rank", "agreement") if 0 < classes <= 5 else ("rank",):
        question = data.features_by(score)
        sketch = question.sketch(rows, 1.0)
        assert type(sketch) is (Ordered if n <= 12 else Tallied)
        for place, found in enumerate(question.scores(sketch)):
            pairs = on_steps(rows, place)
            slow = (slow_agreement(pairs, classes) if score == "agreement"
                    else slow_pairs(pairs) / max(n, 1))
            assert found == slow


@settings(max_examples=60, deadline=None)
@given(data=st.data(), score=st.sampled_from(["agreement", "rank"]),
       classes=st.sampled_from([0, 2, 3]), people=st.booleans(), n=st.integers(0, 40))
@pytest.mark.usefixtures("coarse")
def test_every_division_and_order_gives_the_same_numbers(data, score, classes, people, n):
    classes = classes or (2 if score == "agreement" else 0)
    schema, seed = schema_of(classes), data.draw(st.integers(0, 999))
    who = np.sort(np.random.default_rng(seed).integers(0, max(n, 1), n)) if people else None
    if who is not None:
        who = np.unique(who, return_inverse=True)[1].astype(np.int32)
    rows = rows_of(schema, np.random.default_rng(seed), n, who)
    question = pl.Dataset(schema, object()).features_by(score)
    whole = question.sketch(rows, 1.0)
    part = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=int)
    chunks = [rows.subset(np.flatnonzero(part == one)) for one in range(5)]
    # As from another process; scores that were found of a chunk stay behind.
    sketches = [message_from_bytes(message_to_bytes(question.sketch(chunk, 1.0)))
                for chunk in chunks]
    found = merged(question, sketches, data.draw(st.permutations(range(5))))
    assert type(found) is type(whole)
    assert (found.total, found.one) == (whole.total, whole.one)
    for one, other in zip(numbers_in(whole), numbers_in(found), strict=True):
        assert one.dtype == other.dtype and one.dtype.kind in "iu"
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(question.scores(whole), question.scores(found))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 60), seed=st.integers(0, 10**6), classes=st.sampled_from([0, 2, 4, 70]),
       distinct=st.sampled_from([1, 3, 10**6]))
def test_sorted_keys_and_tallies_say_the_same(n, seed, classes, distinct):
    """On the real grids; also where many records share a value."""
    rng = np.random.default_rng(seed)
    schema = schema_of(classes)
    rows = rows_of(schema, rng, n)
    rows.features.arrays[1][:] = -1 + 4 * np.floor(rng.random(n) * distinct) / distinct
    question = pl.Dataset(schema, object()).features_by("rank")
    grid = order_grid(schema)
    for score in ("rank", "agreement") if 0 < classes <= 64 else ("rank",):
        sketch = question.sketch(rows, 1.0)
        gaps = np.array([column.missing for column in FEATURES])
        np.testing.assert_array_equal(
            order_sketch.order_scores(score, sketch, grid, gaps),
            order_sketch.order_scores(score, sketch.tallied(grid), grid, gaps))


@settings(max_examples=120, deadline=None)
@given(data=st.data(), classes=st.sampled_from([0, 2, 3, 11]),
       score=st.sampled_from(["agreement", "rank"]))
@pytest.mark.usefixtures("coarse")
def test_one_record_moves_scores_on_coarse_steps_as_the_bound_says(data, classes, score):
    """A record more, and a record in another's place, whichever form the sketches have."""
    if score == "agreement" and classes not in (2, 3):
        return
    schema, n = schema_of(classes), data.draw(st.integers(0, 15))
    rows = rows_of(schema, np.random.default_rng(data.draw(st.integers(0, 10**6))), n + 2)
    question = pl.Dataset(schema, object()).features_by(score)

    def scores(kept):
        return question.scores(question.sketch(rows.subset(np.array(kept, dtype=int)), 1.0))

    bound = pl.questions.FeatureChoice.bound_of(score, schema)
    low, high = (end * bound.sensitivity for end in bound.change)
    less, more, other = range(n), range(n + 1), [*range(n), n + 1]
    moved, swapped = scores(more) - scores(less), scores(other) - scores(more)
    assert (moved >= low - 1e-9).all() and (moved <= high + 1e-9).all()
    assert np.abs(swapped).max() <= question.sensitivity("replace_one")


@pytest.mark.parametrize("classes", [3, 8, 0])
@pytest.mark.usefixtures("coarse")
def test_the_bound_of_rank_is_nearly_reached_on_coarse_steps(classes):
    """All records of other targets on two steps of the feature in order, one wrong beside them."""
    schema, size = schema_of(classes), 84
    kinds = classes or TARGETS
    target = np.repeat(np.arange(1, kinds), size // (kinds - 1) + 1)
    order = np.sort(target) if kinds == 3 else target
    value = -1 + 4 * (np.arange(len(order)) * 3 // len(order)) / 4
    held = [*order, 0] if classes else [*(order / (kinds - 1) * 2 - 1), -1.0]
    n = len(order) + 1
    rows = Rows(Columns(schema, (np.zeros(n), np.append(value, 3.0), np.zeros(n, dtype=np.int32)),
                        n), np.array(held, dtype=np.int32 if classes else float))
    question = pl.Dataset(schema, object()).features_by("rank")
    scores = [question.scores(question.sketch(rows.subset(np.arange(k)), 1.0))[1]
              for k in (n - 1, n)]
    bound = pl.questions.FeatureChoice.bound_of("rank", schema).sensitivity
    assert -bound <= scores[1] - scores[0] <= (-0.95 if kinds == 3 else -0.8) * bound


def test_targets_keep_their_order_on_their_steps():
    many = schema_of(3000)
    codes = target_steps(np.arange(3000, dtype=np.int32), many, order_grid(many))
    assert (np.diff(codes.astype(int)) >= 0).all() and set(codes) == set(range(1024))
    number = schema_of(0)
    codes = target_steps(np.array([-5.0, -1, 0, 1, 7, np.nan]), number, order_grid(number))
    assert codes.tolist() == [0, 0, 512, 1023, 1023, 0]
    assert [Grid(one).size for one in (1, 2, 64, 65, 1024)] == [
        1 << 17, 1 << 17, 1 << 22, 1 << 18, 1 << 21]


def test_the_steps_are_those_of_the_public_range():
    """A column's values never decide which of them are told apart."""
    schema = schema_of(2)
    step = 4.0 / 2**16
    value = np.array([-1.0, -1 + step * 0.999, -1 + step, 3.0, 1.0, 1 + step / 2, np.nan])
    keys = Grid(2).keys((value + 1)[None] * 2**14, np.zeros(7, dtype=np.uint32))
    assert (keys[0, :6] >> 1).tolist() == [0, 0, 1, 65535, 32768, 32768]
    assert order_grid(schema) == Grid(2)


def test_pairs_of_millions_of_people_are_counted_exactly():
    """Steps of eight million people once wrapped round: a rank of 0 where it was two million."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        left, right = draw.integers(0, 1 << 40, 7), draw.integers(0, 1 << 46, 7)
        assert dot(left, right) == sum(map(int.__mul__, left.tolist(), right.tolist()))
        left = draw.integers(0, 1 << 50, 7)  # 2^33 people
        assert dot(left, right) == sum(map(int.__mul__, left.tolist(), right.tolist()))
    assert dot(np.array([1 << 42]), np.array([1 << 42])) == 1 << 84


@pytest.mark.parametrize("score", ["agreement", "rank"])
def test_rows_that_weigh_nothing_leave_no_trace(score):
    schema = schema_of(2)
    rows = rows_of(schema, np.random.default_rng(5), 30, np.arange(30, dtype=np.int32))
    rows.mass[10:] = 0
    question = pl.Dataset(schema, object()).features_by(score)
    some = question.sketch(rows.subset(np.arange(10)), 1.0).tallied(order_grid(schema))
    every = question.sketch(rows, 1.0)
    assert some.total == every.total == 10 * ONE
    for one, other in zip(numbers_in(every), numbers_in(some), strict=True):
        np.testing.assert_array_equal(one, other)


def test_wholly_tied_and_wholly_missing_features():
    schema = schema_of(2)
    for n, value in itertools.product((1, 7, 8, 9, 30), (1.0, np.nan)):
        target = (np.arange(n) % 2).astype(np.int32)
        rows = Rows(Columns(schema, (np.full(n, value), np.ones(n), np.zeros(n, dtype=np.int32)),
                            n), target)
        data = pl.Dataset(schema, object())
        rank, agreement = (question.scores(question.sketch(rows, 1.0))
                           for question in map(data.features_by, ("rank", "agreement")))
        assert rank.tolist() == [0, 0, 0]
        half = (n + 1) // 2
        assert agreement.tolist() == [0 if np.isnan(value) else half, half, half]


def test_more_records_than_scores_are_exact_for_are_refused():
    grid, gaps = Grid(2), np.zeros(0, dtype=bool)
    for one in (1, ONE):
        with pytest.raises(AssertionError):
            order_sketch.order_scores("rank", Tallied((), one << 32, one), grid, gaps)
        assert len(order_sketch.order_scores("rank", Tallied((), one << 31, one), grid, gaps)) == 0


def test_features_with_and_without_ties_stand_beside_each_other():
    rng = np.random.default_rng(8)
    columns = tuple(pl.Column(f"x{j}", "numeric", "feature", 0.0, 1.0) for j in range(6))
    schema = pl.Schema("mixed", (*columns, schema_of(3).target))
    values = [rng.integers(0, 4, 40) / 4 if j % 2 else rng.permutation(40) / 40 for j in range(6)]
    rows = Rows(Columns(schema, tuple(values), 40), rng.integers(0, 3, 40).astype(np.int32))
    for classes in (2, 3):
        rows.target %= classes
        sketch = pl.Dataset(schema, object()).features_by("agreement").sketch(rows, 1.0)
        grid = Grid(classes)
        if classes == 2:
            sketch = Ordered(np.sort(np.array([(v * 65536).astype(np.uint32) << 1 | rows.target
                                               for v in values]).astype(np.uint32), axis=1), 1)
        found = order_sketch.order_scores("agreement", sketch, grid, np.zeros(6, dtype=bool))
        assert found.tolist() == [slow_agreement(list(zip(v.tolist(), rows.target.tolist(),
                                                          strict=True)), classes) for v in values]


@pytest.mark.parametrize("n", [11, 12, 13])
@pytest.mark.usefixtures("coarse")
def test_the_form_follows_from_how_many_there_are(n):
    schema = schema_of(2)
    rows = rows_of(schema, np.random.default_rng(n), n)
    question = pl.Dataset(schema, object()).features_by("rank")
    first, second = (question.sketch(rows.subset(places), 1.0)
                     for places in np.split(np.arange(n), [5]))
    both = question.merge(first, second)
    assert type(both) is type(question.sketch(rows, 1.0)) is (Tallied if n > 12 else Ordered)


def test_one_name_for_two_questions_does_not_mix_their_scores():
    """A caller can put any name anywhere."""
    schema = schema_of(2)
    rows = rows_of(schema, np.random.default_rng(3), 30)
    data = pl.Dataset(schema, object())
    one, other = data.features_by("agreement"), data.features_by("correlation")
    right = other.scores(other.sketch(rows, 1.0))
    named = evolve(other, key=one.key)
    one.sketch(rows, 1.0)
    assert named.scores(named.sketch(rows, 1.0)).tolist() == right.tolist()
    rank = evolve(data.features_by("rank"), key=one.key)
    found, said = (which.scores(which.sketch(rows, 1.0)).tolist() for which in (rank, one))
    assert found != said


def test_nothing_is_further_out_than_one():
    table = np.array([[-3.0, -1.0, 0.5, 9.0, np.nan]])
    on_grid(table, np.zeros(1), np.ones(1), 10)
    assert table.tolist() == [[-10, -10, 5, 10, 0]]
