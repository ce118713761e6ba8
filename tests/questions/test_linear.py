"""Encoded rows and sums of them times residuals: short, whole, exact, and the same everywhere."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.questions import LinearGradient, RowEncoding
from privledger.questions.row_encoding import STEP, log_scale, wave_of
from privledger.tables.chunk import Rows
from tests.worlds import protected, refused

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", 0.0, 1000.0, missing=True),
    pl.Column("z", "numeric", "feature", -1.0, 3.0),
    pl.Column("c", "categorical", "feature", categories=("a", "b", "d"), missing=True),
    pl.Column("y", "categorical", "target", categories=("n", "p", "q"))))
encodings = st.builds(
    RowEncoding, st.just(("x", "z", "c")), st.just((0, 0, 3)),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.just(0.0)),
    st.tuples(st.floats(1e-3, 5), st.floats(1e-3, 5), st.just(1.0)),
    st.tuples(st.booleans(), st.booleans(), st.just(False)),
    st.sampled_from(["", "hinge", "square"]), st.floats(0.1, 5), st.floats(0.05, 64),
    st.integers(0, 3).flatmap(lambda many: st.lists(
        st.lists(st.floats(-1024, 1024), min_size=3, max_size=3), min_size=many, max_size=many)))


def columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pl.encode_features({
        "x": rng.choice([0.0, 1000.0, np.nan, *rng.uniform(0, 1000, 9)], n),
        "z": rng.uniform(-1, 3, n),
        "c": rng.choice(np.array(["a", "b", "d", None], dtype=object), n)}, SCHEMA)


@given(encodings)
def test_a_vector_is_short_and_made_of_whole_steps(encoding):
    found = encoding.vectors(columns())
    assert found.shape == (60, encoding.count)
    steps = found / STEP
    assert (steps == np.rint(steps)).all()
    for row in steps.astype(np.int64).tolist():
        assert sum(one**2 for one in row) <= Fraction(encoding.reach / STEP) ** 2 * (
            1 + Fraction(1, 2**40))


@given(encodings, st.integers(1, 59))
def test_no_row_is_encoded_by_another(encoding, cut):
    whole, part = columns(), columns()
    part = type(whole)(SCHEMA, tuple(one[cut:] for one in part.arrays), 60 - cut)
    assert (encoding.vectors(whole)[cut:] == encoding.vectors(part)).all()


@given(encodings, st.integers(0, 2**32), st.floats(1e-3, 1e5))
def test_scores_move_by_the_exact_product(encoding, seed, size):
    rows = Rows(columns(), None)
    weights = np.random.default_rng(seed).normal(size=(encoding.count, 3)) * size
    steps = (encoding.vectors(rows.features) / STEP).astype(np.int64).tolist()
    wanted = np.rint(weights * 2**16).astype(np.int64).tolist()
    moves = encoding.moves(rows, weights)
    for row, move in zip(steps, moves.tolist(), strict=True):
        for code in range(3):
            exact = Fraction(sum(one * weight[code] for one, weight in zip(
                row, wanted, strict=True)), 2**8)
            assert abs(Fraction(move[code]) - exact) <= Fraction(1, 2)
    assert np.abs(moves).max(initial=0) <= encoding.farthest(weights)


@given(st.lists(st.floats(-1024, 1024), min_size=3, max_size=3), st.permutations([0, 1]))
def test_a_wave_is_the_same_in_every_order_and_near_a_cosine(turns, order):
    rng = np.random.default_rng(0)
    numbers = list(np.rint(rng.uniform(-3, 3, (2, 50)) / STEP) * STEP)
    found = wave_of(np.array(turns), numbers)
    again = wave_of(np.array([turns[order[0]], turns[order[1]], turns[2]]),
                    [numbers[order[0]], numbers[order[1]]])
    np.testing.assert_array_equal(found, again)
    steps = np.rint(np.array(turns) * 2.0**16) / 2.0**16
    wanted = np.cos(2 * np.pi * (steps[:2] @ np.array(numbers) + steps[2]))
    assert np.abs(found - wanted).max() < 0.06


def test_what_is_encoded():
    encoding = RowEncoding(("z", "c"), (0, 3), (0.5, 0.0), (0.5, 1.0), (False, False), "hinge",
                           2.0, 64.0)
    held = pl.encode_features({"x": [1.0, np.nan], "z": [3.0, 1.0], "c": ["b", None]}, SCHEMA)
    wanted = [[1.0, 0.2, 0.0, 2.0, 0.0, 1.0], [-1.0, 0.2, 0.0, 0.0, 0.0, 1.0]]
    assert np.abs(encoding.vectors(held) - wanted).max() < STEP
    wide = RowEncoding(("x",), (0,), (0.0,), (1.0,), (True,), "", 1.0, 64.0)
    values = {"x": [0.0, 1.0, 15.0, 1000.0, np.nan], "z": [0.0] * 5, "c": [None] * 5}
    found = wide.vectors(pl.encode_features(values, SCHEMA))[:, 0]
    near = 2 * np.log1p([0.0, 1.0, 15.0, 1000.0]) / np.log(1001) - 1
    assert np.abs(found[:4] - near).max() < 0.03 and found[4] == 0.0


def test_a_longer_range_is_told_apart_by_more_steps():
    column = pl.Column("x", "numeric", "feature", 10.0, 1e6)
    values = np.array([-5.0, 10.0, 13.0, 1000.0, 1e6, 1e9])
    near = np.log1p(np.clip(values, 10.0, 1e6) - 10) / np.log1p(1e6 - 10)
    assert np.abs((log_scale(values, column, 1e9) + 1) / 2 - near).max() < 0.01
    coarse = (log_scale(values, column) + 1) / 2
    assert coarse[2] < 0.001 < coarse[3]
    assert (log_scale(values, column, 1000.0) + 1 == 2 * coarse).all()


def test_a_range_around_zero_is_read_by_size_and_sign():
    column = pl.Column("x", "numeric", "feature", -100.0, 1000.0)
    found = log_scale(np.array([-1e9, -100.0, -1.0, -0.0, 0.0, 1.0, 100.0, 1e9]), column)
    near = np.log1p([100.0, 100.0, 1.0, 0.0, 0.0, 1.0, 100.0, 1000.0]) / np.log(1001)
    assert np.abs(np.abs(found) - near).max() < 0.015
    assert (np.sign(found) == [-1, -1, -1, 0, 0, 1, 1, 1]).all()


def test_a_gradient_is_that_of_the_loss():
    """Against the textbook's formula, with next to no noise."""
    rng = np.random.default_rng(1)
    X = {"x": rng.uniform(0, 1000, 500), "z": rng.uniform(-1, 3, 500),
         "c": rng.choice(["a", "b", "d"], 500)}
    y = rng.choice(["n", "p", "q"], 500)
    ledger, data = protected(pl.Budget(1e15, 1e-6), X, y, SCHEMA, mode="simulation", seed=1)
    encoding = RowEncoding(("x", "z", "c"), (0, 0, 3), np.zeros(3), np.ones(3), (False,) * 3)
    weights, start = rng.normal(size=(encoding.count, 3)), np.array([0.1, 0.2, 0.3])
    score = data.score("softmax", start)
    score.add(encoding, weights)
    node = pl.Gaussian(1e-7)
    with ledger.request(node, data) as session:
        found = session.release(node, data.query((LinearGradient(encoding, 100.0, score),)))
    held = encoding.vectors(pl.encode_features(X, SCHEMA))
    scores = held @ weights + start
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    residual = (y[:, None] == np.array(["n", "p", "q"])) - shares
    assert found.reshape(3, -1) == pytest.approx((residual.T @ held), abs=0.05)


def test_an_encoding_divides_nothing():
    """It moves scores; asked for its cells, it is refused before a row is read."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    data = ledger.protect({"x": [1.0], "z": [0.0], "c": ["a"]}, ["n"], SCHEMA)
    encoding = RowEncoding(("z",), (0,), [0.0], [1.0], [False])
    node = pl.Gaussian(9.0)
    with ledger.request(node, data) as session, pytest.raises(pl.PrivledgerError):
        session.release(node, data.query((pl.questions.Ones(),), encoding))
    refused(pl.PrivledgerError, lambda: data.partition(encoding))
    (grant,) = ledger.state.grants.values()
    assert grant.end.releases == 0


@pytest.mark.parametrize("wrong", [
    {"names": ()}, {"names": ("x", "x")}, {"names": "x"}, {"names": ("",)}, {"names": (1,)},
    {"categories": (1, 2)}, {"centers": (0.0, 1.0)}, {"wide": (1,)}, {"beside": "cube"},
    {"reach": 65.0}, {"categories": (5000,)}, {"waves": [1.0, 2.0]},
    {"waves": [[1.0]]}, {"waves": [[1.0], [0.5, 0.5]]},
    {"waves": [[1025.0, 0.0]]}, {"waves": [[np.nan, 0.0]]}, {"waves": [[0.0, 0.0]] * 4096}])
def test_what_is_no_encoding_is_refused(wrong):
    refused(pl.PrivledgerError, lambda: RowEncoding(**{"names": ("x",), "categories": (0,),
            "centers": (0.0,), "scales": (1.0,), "wide": (False,)} | wrong))


@pytest.mark.parametrize(("names", "categories"), [
    (("y",), (3,)), (("nobody",), (0,)), (("c",), (0,)), (("c",), (2,)), (("x",), (2,))])
def test_an_encoding_of_another_table_is_refused(names, categories):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    data = ledger.protect({"x": [1.0], "z": [0.0], "c": ["a"]}, ["n"], SCHEMA)
    encoding = RowEncoding(names, categories, [0.0], [1.0], [False])
    node = pl.Gaussian(9.0)
    with ledger.request(node, data) as session, pytest.raises(pl.PrivledgerError):
        session.release(node, data.query((LinearGradient(encoding, 1.0),)))


def test_weights_that_cannot_be_multiplied_exactly_are_refused():
    score = pl.questions.Score("squared", [0.0])
    encoding = RowEncoding(("z",), (0,), [0.0], [1.0], [False])
    for wrong in ([1e7, 0.0], [np.nan, 0.0], [1.0], [np.inf, 1.0]):
        with pytest.raises(pl.PrivledgerError):
            score.add(encoding, np.array(wrong))
    assert score.updates() == []


@given(encodings, st.sampled_from([None, "logistic", "softmax"]), st.floats(1e-3, 9.0),
       st.sampled_from([1, 2]), st.integers(-20, -8), st.integers(0, 99))
def test_a_product_is_what_its_short_records_add(encoding, loss, clip, norm, fine, seed):
    """Added up at once or record by record: the same whole numbers, within the clip."""
    rng = np.random.default_rng(seed)
    classes = 2 if loss == "logistic" else 3
    rows = Rows(columns(seed=seed), rng.integers(0, classes, 60).astype(np.int32))
    score, width = None, 1
    if loss is not None:
        width = 1 if loss == "logistic" else 3
        score = pl.questions.Score(loss, rng.normal(size=width))
        score.add(encoding, rng.normal(size=(encoding.count, width)[: 1 + (width > 1)]) * 3)
    block = LinearGradient(encoding, clip, score)
    grid = 2.0**np.ceil(np.log2(clip * 2.0**fine)) * block.finer
    mask = rng.uniform(size=60) < 0.7
    each = block.on_grid(rows, norm, grid) / grid
    assert (each == np.rint(each)).all()
    whole = each.astype(np.int64)
    for some, here in ((None, whole), (mask, whole[mask])):
        assert (block.total(rows, norm, grid, some)[0] == here.sum(axis=0)).all()
    bound = Fraction(clip) / Fraction(grid) * (1 + Fraction(1, 2**40))
    for row in whole.tolist():
        assert (sum(map(abs, row)) <= bound if norm == 1
                else sum(one**2 for one in row) <= bound**2)
    free = np.linalg.norm(block.values(rows), ord=norm, axis=1)
    reach = np.linalg.norm(encoding.vectors(rows.features), ord=norm, axis=1)
    lost = width * reach * grid / STEP
    assert (np.abs(np.linalg.norm(each, ord=norm, axis=1) * grid - np.minimum(free, clip))
            <= lost + 1e-9).all()
