"""The law of sketches: the same whole numbers before noise for every chunking and order."""

import itertools

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.errors import UnsupportedNode
from privledger.noise.seeded import SeededSource
from privledger.questions import closed_set
from privledger.questions.cells import CoinCells, LabelledCells
from privledger.questions.feature_scores import ReleasedScores
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_target
from tests.worlds import refused

N = 37
NUMBERS = pl.Schema("n", (
    pl.Column("x", "numeric", "feature", -1.0, 2.0, missing=True),
    pl.Column("z", "numeric", "feature", 0.0, 100.0, integer=True),
    pl.Column("c", "categorical", "feature", categories=("a", "b", "d"), missing=True),
    pl.Column("y", "numeric", "target", 0.0, 10.0)))
CLASSES = pl.Schema("k", (*NUMBERS.columns[:3],
                          pl.Column("y", "categorical", "target", categories=(0, 1, 2))))
Q = pl.questions


def rows_of(schema, seed=0):
    rng = np.random.default_rng(seed)
    X = {"x": rng.choice([-1.0, 2.0, np.nan, *rng.uniform(-1, 2, 9)], N),
         "z": rng.integers(0, 101, N),
         "c": rng.choice(np.array(["a", "b", "d", None], dtype=object), N)}
    y = rng.integers(0, 3, N) if schema is CLASSES else rng.uniform(0, 10, N)
    return Rows(pl.encode_features(X, schema), encode_target(y, schema), SeededSource(seed))


def moved(data, loss, width):
    """A score with updates on public cells and on coins."""
    score = data.score(loss, np.linspace(0.1, 0.3, width))
    shape = (3, width) if width > 1 else (3,)
    score.add(CoinCells(3), np.sin(np.arange(3 * width)).reshape(shape))
    return score


def sums():
    """Queries with every kind of block and cells."""
    number, classes = pl.Dataset(NUMBERS, None), pl.Dataset(CLASSES, None)
    squared, softmax = moved(number, "squared", 1), moved(classes, "softmax", 3)
    rows = Q.RowEncoding(("x", "z", "c"), (0, 0, 3), (0.1, -0.5, 0.0), (0.3, 0.01, 1.0),
                         (False, True, False), "hinge", 1.4, 3.0)
    counted, bounded = moved(number, "poisson", 1), moved(number, "huber", 1)
    squared.add(rows, np.cos(np.arange(8.0)))
    softmax.add(rows, np.cos(np.arange(24.0)).reshape(8, 3))
    tree = number.root(number.bins(8)).grow([0], [3]).grow([1, 2], [5, 1])
    table = np.array([0, 1] * 4 + [0], dtype=np.uint8)
    for data, blocks in (
            (number, (Q.Ones(), Q.ColumnValue("x", 0.5, 1.5), Q.TargetShares(),
                      Q.ColumnMoments("x", -1.0, 1.0, 2, True),
                      squared.gradient(0.7), squared.hessian(0.5),
                      Q.RowValues(("x", "z", ""), 1.5, "products"),
                      Q.RowValues(("x", ""), 0.9, "squares"),
                      Q.LinearGradient(rows, 2.0, squared), counted.hessian(),
                      Q.LinearGradient(rows, 0.5, counted), bounded.gradient(0.9))),
            (classes, (Q.Ones(), Q.ClassIs(1), softmax.gradient(0.4, filtered=True),
                       softmax.hessian(), Q.CustomValue(lambda t: t["z"] / 3, 9.0, "a row"),
                       Q.LinearGradient(rows, 0.7, softmax), Q.LinearGradient(rows, 1.0)))):
        for cells in (None, Q.CategoryCells("c", 4), Q.IntervalCells("x", (0.0, 1.0)), tree,
                      Q.TreeCells(tree.bins, (Q.Test(0, table),), 2), LabelledCells(),
                      Q.IndexCells(np.arange(N) % 5, 5), CoinCells(3, (1, 2, 3)),
                      Q.ResidualCells(squared if data is number else softmax, (0.1, 0.5)),
                      Q.CrossCells(Q.CategoryCells("c", 4), Q.IntervalCells("z", (50.0,))),
                      Q.MappedCells([Q.CategoryCells("c", 4)], [0, 2, 1, 2], 3, True),
                      Q.NearestCells(("x", "z"), [[0.0, -0.9], [0.1, 0.2], [0.1, -0.5]]),
                      Q.RowsPerPersonCells((2.0,))):
            yield data.query(blocks, cells), pl.Gaussian(3.0, (0.0625,) * (len(blocks) - 1) + (
                1 - 0.0625 * (len(blocks) - 1),))


def thresholds():
    """A sum that is compared with a threshold, and one of a stream."""
    data = pl.Dataset(NUMBERS, None)
    yield data.sparse_vector().above(data.sum("x"), 3.0), pl.SparseVector(1.0, 2.0, 1, 2.0)
    yield data.correlated().step(data.sum("x")), pl.nodes.Correlated(
        pl.Gaussian(3.0), (1.0,), 1, 1, 1)


def choices():
    """Choices of cuts, features and labels by every score."""
    number, classes = pl.Dataset(NUMBERS, None), pl.Dataset(CLASSES, None)
    labels = Q.CategoryCells("", 3)
    for bins in (8, 1000):  # counted in a table, and sorted
        tree = classes.root(classes.bins(bins)).grow([1], [5])
        other = number.root(number.bins(bins)).grow([2], [1])
        gradient = moved(number, "squared", 1).gradient(0.3, filtered=True)
        yield classes.choose(tree, "rank", features=[0, 1]), pl.Exponential(1.0)
        yield classes.choose(tree, "rank", features=[-1, 2]), pl.Exponential(1.0)
        for score in ("squared_error", "gini", "entropy"):
            for among in ("features", "both"):
                yield (classes.choose(tree, score, among=among, labels=labels), pl.Exponential(1.0))
        yield other_choice(number, other), pl.Exponential(1.0)
        yield (number.choose(other, "gain", among="both", gradient=gradient, penalty=1.0),
               pl.Exponential(1.0))
        yield classes.choose_label(tree, labels), pl.Exponential(1.0)
    for name in ("z", ""):
        yield Q.QuantileChoice(number, name, 0.3, 0.0, 100.0, 16), pl.Exponential(1.0)
    yield Q.TableChoice(classes, (labels, Q.CrossCells(tree, labels)), np.ones(9),
                        [0.5, 0.0]), pl.Exponential(1.0)


def other_choice(data, tree):
    return data.choose(tree, "squared_error", among="features",
                       allowed=np.array([[True, False, True], [True, True, False]]))


def features():
    """Choices of features by every score."""
    classes = pl.Dataset(CLASSES, None)
    custom = Q.CustomScores(lambda X, y: np.nansum(X > 1, axis=0), 1.0, "a count")
    for score in ("agreement", "rank", "correlation", Q.Votes(3, 2, 0.05), custom):
        yield classes.features_by(score), pl.Exponential(1.0)


def chunks_of(rows, part):
    """Tables of the records with the same number, with their rows' own coins."""
    return [rows.subset(np.flatnonzero(part == one)) for one in range(int(part.max()) + 1)]


def numbers_in(sketch):
    """Every array of a sketch, in a fixed order."""
    if isinstance(sketch, np.ndarray):
        return [sketch]
    if isinstance(sketch, tuple):
        return [array for one in sketch for array in numbers_in(one)]
    if not attrs.has(type(sketch)):
        return []
    return [array for one in attrs.fields(type(sketch))
            for array in numbers_in(getattr(sketch, one.name))]


def merged(question, sketches, order):
    """Pairwise, in an order that need not be that of the rows."""
    waiting = [sketches[place] for place in order]
    while len(waiting) > 1:
        waiting.append(question.merge(waiting.pop(0), waiting.pop(0)))
    return waiting[0]


SUMMED = [*sums(), *choices(), *thresholds()]
PARTS = st.lists(st.integers(0, 4), min_size=N, max_size=N).map(np.array)


@pytest.mark.parametrize("place", range(len(SUMMED)))
@settings(max_examples=8, deadline=None)
@given(part=PARTS, seed=st.integers(0, 3), order=st.randoms(use_true_random=False))
def test_sums_are_the_same_for_every_chunking_and_order(place, part, seed, order):
    question, mechanism = SUMMED[place]
    rows = rows_of(question.data.schema, seed)
    state = question.prepare(mechanism, "add_remove" if type(question) is Q.CorrelatedSum
                             else "replace_one")
    whole = question.sketch(rows, state)
    chunks = chunks_of(rows, part)
    shuffled = list(range(len(chunks)))
    order.shuffle(shuffled)
    found = merged(question, [question.sketch(chunk, state) for chunk in chunks], shuffled)
    assert len(numbers_in(whole)) == len(numbers_in(found)) > 0
    for one, other in zip(numbers_in(whole), numbers_in(found), strict=True):
        assert one.dtype.kind in "iu"
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("place", range(4))
@settings(max_examples=8, deadline=None)
@given(part=PARTS, seed=st.integers(0, 3), order=st.randoms(use_true_random=False))
def test_feature_scores_are_the_same_for_every_chunking_and_order(place, part, seed, order):
    question, mechanism = [one for one in features() if not one[0].custom][place]
    rows = rows_of(question.data.schema, seed)
    state = question.prepare(mechanism, "replace_one")
    whole = question.sketch(rows, state)
    chunks = chunks_of(rows, part)
    for chunk in chunks:  # their rows' own coins, which the table has in its cache
        if question.votes is not None:
            coins = rows.cache[question.key].coins[chunk.parent[1]]
            asked = rows.cache[question.key].asked
            chunk.cache[question.key] = ReleasedScores(asked, coins)
    shuffled = list(range(len(chunks)))
    order.shuffle(shuffled)
    found = merged(question, [question.sketch(chunk, state) for chunk in chunks], shuffled)
    assert type(found) is type(whole) and len(numbers_in(whole)) > 0
    for one, other in zip(numbers_in(whole), numbers_in(found), strict=True):
        assert one.dtype.kind in "iu" and one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(question.scores(whole), question.scores(found))


def test_custom_scores_have_no_chunks():
    (question, _), = [one for one in features() if one[0].custom]
    rows = rows_of(CLASSES)
    sketches = [question.sketch(chunk, 1.0) for chunk in chunks_of(rows, np.arange(N) % 2)]
    refused(UnsupportedNode, lambda: question.merge(*sketches), match="whole table")


@settings(max_examples=20, deadline=None)
@given(part=PARTS, order=st.randoms(use_true_random=False))
def test_single_labels_are_the_same_for_every_chunking_and_order(part, order):
    question = Q.LabelQuery(pl.Dataset(CLASSES, None))
    rows = rows_of(CLASSES)
    asked = np.random.default_rng(1).permutation(N)[:20]
    chunks = chunks_of(rows, part)
    shuffled = list(range(len(chunks)))
    order.shuffle(shuffled)
    found = merged(question, [question.sketch(chunk, asked) for chunk in chunks], shuffled)
    np.testing.assert_array_equal(found, question.sketch(rows, asked))


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, N - 1), max_size=4), order=st.randoms(use_true_random=False))
def test_responses_stay_in_the_order_of_the_records(cuts, order):
    """Of a table in one piece; stretches of it say the same, in any order."""
    question = Q.ResponseQuery(pl.Dataset(CLASSES, None), "")
    rows, ends = rows_of(CLASSES), [0, *sorted(cuts), N]
    stretches = [attrs.evolve(rows.subset(np.arange(a, b)), first=a)
                 for a, b in itertools.pairwise(ends)]
    order.shuffle(stretches)
    found = ()
    for one in stretches:
        found = question.merge(found, question.sketch(one, 3))
    codes = np.concatenate([held for _, held in sorted(found, key=lambda one: one[0])])
    np.testing.assert_array_equal(codes, question.sketch(rows, 3)[0][1])


def test_the_law_is_tried_on_every_kind():
    kinds = {type(question) for question, _ in (*SUMMED, *features())} | {
        Q.LabelQuery, Q.ResponseQuery, Q.GroupQuery}  # the last: tests/questions/test_groups.py
    assert kinds == set(closed_set.QUESTIONS)
    asked = [question for question, _ in SUMMED if type(question) is Q.Query]
    assert {type(block) for question in asked for block in question.blocks} == set(
        closed_set.BLOCKS)
    assert {type(question.cells) for question in asked} - {type(None)} == set(
        closed_set.CELLS) - {Q.NamedCells}  # texts are in memory: tests/questions/test_groups.py
