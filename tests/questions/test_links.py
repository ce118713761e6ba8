"""What a record contributes is the same wherever it is computed (docs/proofs/whole-numbers.md)."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.questions import blocks, links, score, sums, two_classes
from privledger.questions.blocks import clipped
from privledger.questions.tallies import STEPS, of_gradient
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns

Q = pl.questions
X = pl.Column("x", "numeric", "feature", 0.0, 1.0)
SCHEMAS = {
    "squared": pl.Schema("n", (X, pl.Column("y", "numeric", "target", -1.0, 1.0))),
    "logistic": pl.Schema("b", (X, pl.Column("y", "categorical", "target", categories=(0, 1)))),
    "softmax": pl.Schema("k", (X, pl.Column("y", "categorical", "target",
                                            categories=(0, 1, 2))))}
SCHEMAS |= dict.fromkeys(("huber", "poisson"), SCHEMAS["squared"])
LOSSES = [*SCHEMAS]
N = 23


def rows_of(loss, seed, n=N):
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, n) if SCHEMAS[loss].task == "regression" else rng.integers(
        0, 2 if loss == "logistic" else 3, n).astype(np.int32)
    return Rows(Columns(SCHEMAS[loss], (rng.uniform(0, 1, n),), n), y)


def moved(data, loss, seed=0, spread=1.5):
    """A score after three updates."""
    width = 3 if loss == "softmax" else 1
    rng = np.random.default_rng(seed)
    found = data.score(loss, rng.normal(0, spread, width))
    for edges in ((0.3,), (0.5,), (0.9,)):
        shape = (3, width) if width > 1 else (3,)
        found.add(Q.IntervalCells("x", edges), rng.normal(0, spread, shape))
    return found


def scored(running, rows):
    """Every record's score in whole steps, by Python's integers."""
    def rounded(value):
        return int(np.rint(np.float64(value) * 2**16))

    width, x = running.width, rows.features.arrays[0]
    found = [[rounded(value) for value in running.start] for _ in range(rows.n)]
    for cells, values in running.updates():
        table = values.reshape(cells.count, width)
        for line, cell in zip(found, np.digitize(x, cells.edges), strict=True):
            for place in range(width):
                line[place] += rounded(table[cell, place])
    return found


@pytest.mark.parametrize(("table", "golden"), [
    (links.exponentials()[0], "01ee272162da64bced79d1b7a46c84bd92ef042296856b7dc9c40176112fafdc"),
    (links.exponentials()[1], "513e3bc88912056e9c53582b3087c019957b443abfc105ac4cc516dfaf8e3469"),
    (links.logistic_table(), "b75c98ce8f58edda2ab07f7c906a02497cf58b63bfd4b2973ee0b0fca4b53ab7"),
], ids=["coarse", "fine", "logistic"])
def test_tables_are_the_same_to_the_last_bit(table, golden):
    """On every machine: they are public, and what a record contributes follows from them."""
    assert hashlib.sha256(table.astype("<f8").tobytes()).hexdigest() == golden
    assert not table.flags.writeable


def test_tables_are_as_close_as_is_said():
    steps = np.arange(-20 * 2**16, 20 * 2**16, 7, dtype=np.int32)
    truth = np.array([1 / (1 + math.exp(-s / 2**16)) for s in steps.tolist()])
    (found,) = links.means("logistic", steps)
    assert np.abs(found - truth).max() <= 1.6e-5
    assert (np.diff(found) >= 0).all()
    below = np.arange(0, 24 * 2**16, 5, dtype=np.int32)
    exact = np.array([math.exp(-s / 2**16) for s in below.tolist()])
    assert np.abs(links.exp_of(below) / exact - 1).max() <= 1e-15
    (found,) = links.means("poisson", steps)
    exact = np.exp(np.clip(steps / 2**16, -16, 8))
    assert np.abs(found / exact - 1).max() <= 2e-15
    np.testing.assert_allclose(Q.probabilities("poisson", steps / 2**16), exact, rtol=1e-15)
    rng = np.random.default_rng(0)
    scores = (rng.normal(0, 3, (2000, 4)) * 2**16).astype(np.int32)
    shares = np.exp(scores / 2**16 - scores.max(axis=1, keepdims=True) / 2**16)
    shares /= shares.sum(axis=1, keepdims=True)
    assert np.abs(np.stack(links.means("softmax", scores), axis=1) - shares).max() <= 5e-7


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread", [1e-3, 1.0, 40.0, 800.0, 16000.0])
def test_a_score_stands_for_the_same_inside_the_guard_and_outside(loss, spread):
    """Up to the largest scores that there are: nothing overflows on the public side."""
    width = 3 if loss == "softmax" else 1
    draw = np.random.default_rng(int(spread * 1000))
    steps = np.rint(draw.uniform(-spread, spread, (500, width)) * 2**16).astype(np.int32)
    with np.errstate(all="raise", under="ignore"):
        outside = Q.probabilities(loss, steps / 2**16)
    inside = np.stack(links.means(loss, steps), axis=1)
    assert np.abs(outside - inside).max() <= (1e-11 if loss == "poisson" else 1.6e-5)
    if loss in ("logistic", "softmax"):
        assert outside.min() >= 0 and outside.max() <= 1
    if loss == "softmax":
        assert np.abs(outside.sum(axis=1) - 1).max() <= 1e-15 * width
        assert (outside.argmax(axis=1) == steps.argmax(axis=1)).all()


@pytest.mark.parametrize("s", [0, 1, -(2**16), 12345, links.MOST, -links.MOST])
def test_probabilities_are_whole_steps(s):
    both = links.means("logistic", np.array([s, -s], dtype=np.int32))[0] * 2**20
    assert np.array_equal(both, np.rint(both)) and (both >= 0).all() and (both <= 2**20).all()
    three = links.means("softmax", np.array([[s, -s, 0]], dtype=np.int32))
    for share in three:
        assert float(share[0] * 2**20).is_integer() and 0 <= share[0] <= 1
    assert abs(sum(float(share[0]) for share in three) - 1) <= 3 * 2.0**-21


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99))
def test_scores_are_what_whole_numbers_say(loss, seed):
    rows = rows_of(loss, seed)
    held = moved(pl.Dataset(SCHEMAS[loss], None), loss, seed)
    found = held.of(rows).scores
    assert found.dtype == np.int32
    assert found.reshape(N, -1).tolist() == scored(held, rows)


def reference(loss, line, y):
    """Gradient and hessian of one record by Python's fractions."""
    if loss == "squared":
        return [Fraction(float(y)) - Fraction(line[0], 2**16)], Fraction(1)
    if loss == "huber":
        return [min(max(Fraction(float(y)) - Fraction(line[0], 2**16), -1), 1)], Fraction(1)
    if loss == "poisson":
        coarse, fine = links.exponentials()
        below = min(max(8 * 2**16 - line[0], 0), 24 * 2**16)
        mean = float(coarse[below >> 10] * fine[below & 1023]) / float(coarse[512])
        return [Fraction(float(y)) - Fraction(mean)], min(Fraction(mean), Fraction(1))
    if loss == "logistic":
        place = min(max((line[0] + 4) // 8 + 2**17, 0), 2**18)
        p = Fraction(float(links.logistic_table()[place]))
        return [Fraction(int(y)) - p], 4 * p * (1 - p)
    coarse, fine = links.exponentials()
    parts = [coarse[d >> 10] * fine[d & 1023] for d in (max(line) - s for s in line)]
    total = (parts[0] + parts[1]) + parts[2]
    shares = [Fraction(round(float(part / total) * 2**20), 2**20) for part in parts]
    return ([Fraction(int(y == code)) - share for code, share in enumerate(shares)],
            (1 - sum(share * share for share in shares)) * Fraction(3, 2))


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), clip=st.sampled_from([0.25, 0.5, 1.0]))
def test_gradients_and_hessians_are_those_of_a_slow_reference(loss, seed, clip):
    rows = rows_of(loss, seed)
    held = moved(pl.Dataset(SCHEMAS[loss], None), loss, seed)
    gradient = held.gradient(clip).values(rows).reshape(N, -1)
    filtered = held.gradient(clip, filtered=True).values(rows).reshape(N, -1)
    hessian = held.hessian().values(rows)
    for place, line in enumerate(scored(held, rows)):
        truth, second = reference(loss, line, rows.target[place])
        # One rounding where the target is a float, none where it is a class.
        assert gradient[place].tolist() == [float(one) for one in truth]
        if hessian is not None:
            assert hessian[place] == pytest.approx(float(second), abs=1e-15)
        square = sum(one * one for one in truth)
        if abs(square - Fraction(clip) ** 2) > Fraction(1, 2**40):
            inside = square <= Fraction(clip) ** 2
            assert filtered[place].tolist() == (gradient[place].tolist() if inside else
                                                [0.0] * len(truth))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 99), part=st.lists(st.integers(0, 3), min_size=N, max_size=N))
def test_every_split_of_the_rows_gives_the_same_whole_numbers(loss, norm, seed, part):
    data, rows = pl.Dataset(SCHEMAS[loss], None), rows_of(loss, seed)
    held = moved(data, loss, seed)
    blocks = (held.gradient(0.4), held.hessian(), held.gradient(0.9, filtered=True),
              held.hessian(0.9))
    query = data.query(blocks, Q.ResidualCells(held, (0.2, 0.5)))
    state = query.prepare(pl.Gaussian(2.0, (0.25,) * 4) if norm == 2 else
                          pl.Laplace(1.0, 10.0), "add_remove")
    whole = query.sketch(rows, state)
    found = [np.zeros_like(array) for array in whole]
    for one in range(4):
        chunk = rows.subset(np.flatnonzero(np.array(part) == one))
        for total, array in zip(found, query.sketch(chunk, state), strict=True):
            total += array
    for one, other in zip(whole, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 999), n=st.sampled_from([1, 23, 1500]), leaves=st.integers(0, 3),
       clip=st.floats(1e-3, 2.0), norm=st.sampled_from([1, 2]), one=st.booleans())
def test_a_run_at_a_time_gives_the_sums_of_the_whole(loss, seed, n, leaves, clip, norm, one):
    """The mean is looked up once for all blocks, and cells have several sums each."""
    data, rows = pl.Dataset(SCHEMAS[loss], None), rows_of(loss, seed, n)
    held = moved(data, loss, seed, spread=4.0)
    asked = (held.hessian(), held.gradient(clip, coordinate=0 if one else None))
    cells = Q.IntervalCells("x", tuple((np.arange(leaves) + 1.0) / 9)) if leaves else None
    query = data.query(asked, cells)
    state = query.prepare(pl.Gaussian(2.0, (0.3, 0.7)) if norm == 2 else
                          pl.Laplace(1.0 + clip, 10.0), "add_remove")
    exact = [np.zeros((query.cell_count, block.width), dtype=np.int64) for block in asked]
    places = np.zeros(n, dtype=int) if cells is None else cells.index(rows)
    for block, recipe, total in zip(asked, state.recipes, exact, strict=True):
        values = clipped(block, rows, norm)
        values = np.ones(n) if values is None else values
        np.add.at(total, places, np.trunc(values.reshape(n, -1) / recipe.grid).astype(np.int64))
    for total, found in zip(exact, query.sketch(rows, state), strict=True):
        np.testing.assert_array_equal(total, found)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), n=st.sampled_from([0, 1, 1500, blocks.RUN + 7]), spread=st.sampled_from(
    [1.0, 9.0, 4000.0]), norm=st.sampled_from([1, 2]), clip=st.floats(1e-3, 2.0))
def test_what_is_looked_up_is_what_the_blocks_say(data, n, spread, norm, clip):
    """Of two classes, in the table's reach and beyond it, by one block or by two in any order."""
    seed = data.draw(st.integers(0, 999))
    rows = rows_of("logistic", seed, n)
    if data.draw(st.booleans()) and n:
        rows.target[0] = -1  # without a label
    held = moved(pl.Dataset(SCHEMAS["logistic"], None), "logistic", seed, spread)
    asked = [held.hessian(data.draw(st.none() | st.just(clip))),
             held.gradient(clip, filtered=data.draw(st.booleans()))]
    asked = data.draw(st.permutations(asked))[:data.draw(st.integers(1, 2))]
    query = pl.Dataset(SCHEMAS["logistic"], None).query(
        tuple(asked), Q.IntervalCells("x", (0.2, 0.4, 0.9)))
    share = (1 / len(asked),) * len(asked) if len(asked) > 1 else ()
    state = query.prepare(pl.Gaussian(data.draw(st.sampled_from([1.0, 500.0])), share) if norm == 2
                          else pl.Laplace(1.0 + clip, 10.0), "add_remove")
    found = []
    for pays in (math.inf, 0):
        two_classes._table.cache_clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(two_classes, "_PAYS", pays)
            found.append(query.sketch(rows, state))
    assert two_classes._table.cache_info().currsize == 1
    for one, other in zip(*found, strict=True):
        assert other.dtype == np.int64
        np.testing.assert_array_equal(one, other)


def test_the_largest_sums_of_a_run_are_kept_apart():
    """Full contributions of one sign, all in one cell: neither half reaches into the other."""
    n = 2 * blocks.RUN + 3
    for first in (-1, 1):
        for last in (-1, 1):
            steps = np.full(2 * (2**18 + 1), (first << 52) + (last << 20), dtype=np.int64)
            found = two_classes._added(steps, np.zeros(n, np.int32), np.zeros(n, np.int32),
                                       np.zeros(n, np.uint8), 3, 2)
            assert [one[:, 0].tolist() for one in found] == [
                [first * n << 20, 0, 0], [last * n << 20, 0, 0]]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_table_is_made_for_two_classes_once_it_pays(loss):
    """And of one score only: others are added up as they were."""
    two_classes._table.cache_clear()
    data, rows = pl.Dataset(SCHEMAS[loss], None), rows_of(loss, 3)
    one, other = (moved(data, loss) for _ in range(2))
    for asked, known in (((one.hessian(), one.gradient(0.5)), loss == "logistic"),
                         ((one.hessian(), other.gradient(0.5)), False),
                         ((Q.Ones(), one.gradient(0.5)), False)):
        query = data.query(asked, Q.IntervalCells("x", (0.5,)))
        state = query.prepare(pl.Gaussian(2.0, (0.5, 0.5)), "add_remove")
        for pays in (math.inf, 1):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(two_classes, "_PAYS", pays)
                found = two_classes.looked_up(asked, state.recipes, 2, rows,
                                              query.cells.index(rows), query.cell_count)
            assert (found is not None) == (known and pays == 1)


def test_of_a_sample_only_its_own_records_are_looked_up(monkeypatch):
    """And nothing of a block whose records may add more steps than sums keep apart."""
    two_classes._table.cache_clear()
    monkeypatch.setattr(two_classes, "_PAYS", 0)
    data, rows = pl.Dataset(SCHEMAS["logistic"], None), rows_of("logistic", 5, 700)
    held = moved(data, "logistic")
    query = data.query((held.hessian(), held.gradient(0.5)), Q.IntervalCells("x", (0.5,)))
    state = query.prepare(pl.Gaussian(2.0, (0.5, 0.5)), "add_remove")
    mask = np.arange(700) % 3 == 0
    inside, outside = (query.sketch(rows, evolve(state, mask=some)) for some in (mask, ~mask))
    for one, other, whole in zip(inside, outside, query.sketch(rows, state), strict=True):
        np.testing.assert_array_equal(one + other, whole)
        assert one.any() and other.any()
    fine = [evolve(one, grid=0.5 / two_classes._MOST_STEPS / 2) for one in state.recipes]
    assert two_classes.looked_up(query.blocks, fine, 2, rows, query.cells.index(rows), 2) is None


@pytest.mark.parametrize("loss", LOSSES)
def test_no_number_depends_on_the_place_of_its_record(loss, monkeypatch):
    """Vector units treat the last few records of a run another way than the others."""
    n = 301
    rows, data = rows_of(loss, 5, n), pl.Dataset(SCHEMAS[loss], None)

    def numbers(part):
        held = moved(data, loss)
        found = [clipped(block, part, norm) for norm in (1, 2) for block in (
            held.gradient(0.3), held.hessian(), held.gradient(0.3, filtered=True),
            held.hessian(0.3))]
        found.append(sums.square_norms(found[0], 0.3))
        found.append(of_gradient(held.gradient(0.3, coordinate=0), part)[0].numbers)
        return [array for array in found if array is not None]

    whole = numbers(rows)
    for first, last in ((0, 1), (3, 300), (17, 24), (299, 301)):
        some = np.arange(first, last)
        for one, other in zip(whole, numbers(rows.subset(some)), strict=True):
            np.testing.assert_array_equal(one[some], other)
    for module in (score, sums):
        monkeypatch.setattr(module, "runs", lambda n, size=0: blocks.runs(n, 7))
    for one, other in zip(whole, numbers(rows), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), clip=st.floats(1e-3, 3.0), norm=st.sampled_from([1, 2]))
def test_what_is_added_is_never_longer_than_the_clip_and_the_room(loss, seed, clip, norm):
    """The room is the 2^-40 by which noise is wider than its node says."""
    held = moved(pl.Dataset(SCHEMAS[loss], None), loss, seed, spread=4.0)
    rows = rows_of(loss, seed)
    values = clipped(held.gradient(clip), rows, norm).reshape(N, -1)
    alone = np.arange(N)
    grid = 2.0 ** math.ceil(math.log2(clip * 2.0**-20))
    steps = sums.cell_sums(values, grid, alone, N, N, values.shape[1], math.ceil(clip / grid))
    for line in steps.tolist():
        exact = sum(Fraction(s) ** 2 for s in line) if norm == 2 else sum(map(abs, line)) ** 2
        assert exact * Fraction(grid) ** 2 <= (Fraction(clip) * (1 + Fraction(1, 2**40))) ** 2
    np.testing.assert_array_equal(steps, np.trunc(values / grid).astype(np.int64))
    assert np.abs(of_gradient(held.gradient(clip, coordinate=0), rows)[0].numbers).max() <= STEPS


def test_scores_stay_within_their_range():
    """Whatever was added: they come to its end, and back from there, and never turn around."""
    data, rows = pl.Dataset(SCHEMAS["squared"], None), rows_of("squared", 1)
    held = data.score("squared", [1e300])
    assert (held.of(rows).scores == links.MOST).all()
    cells = Q.IntervalCells("x", (0.5,))
    for value, expected in ((1e9, links.MOST), (-2.0, links.MOST - 2**17), (-1e30, None),
                            (-1e30, -links.MOST), (1.0, -links.MOST + 2**16)):
        held.add(cells, np.full(3, value))
        found = held.of(rows).scores
        assert found.dtype == np.int32
        if expected is not None:
            assert (found == expected).all()
    assert np.isfinite(held.gradient(1.0).values(rows)).all()


def test_a_softmax_of_the_farthest_scores_is_certain():
    far = np.array([[links.MOST, -links.MOST, 0]], dtype=np.int32)
    assert [float(one[0]) for one in links.means("softmax", far)] == [1.0, 0.0, 0.0]


def test_a_task_of_too_many_records_is_not_added_up():
    with pytest.raises(AssertionError, match="at most"):
        sums.cell_sums(np.zeros(1), 1.0, None, 1, 2**33, 1, 2.0**20)


def test_many_runs_add_up_as_one():
    rng = np.random.default_rng(0)
    n = 3 * blocks.RUN + 5
    values, cells = rng.uniform(-1, 1, n), rng.integers(0, 5, n).astype(np.uint8)
    found = sums.cell_sums(values, 2.0**-20, cells, 5, n, 1, 2.0**20)
    truth = np.trunc(values * 2**20).astype(np.int64)
    assert found[:, 0].tolist() == [int(truth[cells == cell].sum()) for cell in range(5)]
    alone = sums.cell_sums(values, 2.0**-20, None, 1, n, 1, 2.0**20)
    assert alone.tolist() == [[int(truth.sum())]]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.sampled_from([200, 4000]))
def test_cells_by_comparison_are_those_of_the_tables(data, count):
    """Tables of few runs of equal entries are read by comparing, others entry by entry."""
    bins = pl.Dataset(SCHEMAS["squared"], None).bins(40)
    size = bins.sizes()[0]
    tests = []
    for _ in range(data.draw(st.integers(0, 3))):
        entries = st.integers(0, count // 4)
        jumps = data.draw(st.integers(0, 12))
        table = np.repeat(data.draw(st.lists(entries, min_size=jumps + 1, max_size=jumps + 1)),
                          size // (jumps + 1) + 1)[:size]
        tests.append(Q.Test(0, np.asarray(table, dtype=np.uint16)))
    tree = Q.TreeCells(bins, tuple(tests), count)
    codes = np.arange(size, dtype=data.draw(st.sampled_from([np.uint8, np.uint16])))
    expected = sum((test.table.astype(np.int64) for test in tests), np.zeros(size, dtype=np.int64))
    assert tree.assign((codes,)).tolist() == expected.tolist()
