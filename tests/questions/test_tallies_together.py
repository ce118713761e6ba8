"""Several features sorted and scored in one go: the same numbers as one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.questions import options, tallies
from privledger.questions.cells import CategoryCells
from privledger.questions.options import options_of
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from tests.worlds import NoVault

FEATURES = tuple(
    [pl.Column(f"n{place}", "numeric", "feature", 0.0, 1.0) for place in range(3)]
    + [pl.Column("c", "categorical", "feature", categories=("x", "y", "z"))]
    + [pl.Column(f"m{place}", "numeric", "feature", 0.0, 1.0) for place in range(2)])
SCHEMA = pl.Schema("toy", (*FEATURES, pl.Column("t", "categorical", "target",
                                                categories=("n", "p", "q"))))


def rows_of(seed: int, n: int) -> Rows:
    rng = np.random.default_rng(seed)
    # Few distinct values, so that bins are shared; a category may be absent.
    columns = tuple(rng.integers(0, 3, n).astype(np.int32) if column.kind == "categorical"
                    else rng.integers(0, 9, n) / 9 for column in FEATURES)
    return Rows(Columns(SCHEMA, columns, n), rng.integers(0, 3, n).astype(np.int32))


def tree_of(data: pl.Dataset, seed: int, depth: int):
    rng = np.random.default_rng(seed)
    tree = data.root(data.bins(4096))
    for _ in range(depth):
        feature = rng.choice([-1, 0, 1, 2, 3, 4, 5], tree.count)
        cut = np.where(feature == 3, rng.integers(0, 3, tree.count),
                       rng.integers(1, 4096, tree.count))
        tree = tree.grow(feature, cut)
    return tree


def asked(data, tree, score, among, seed):
    rng = np.random.default_rng(seed)
    labels = CategoryCells("", 3) if score in ("gini", "entropy", "squared_error") else None
    allowed = rng.random((tree.count, len(FEATURES))) < 0.7
    return data.choose(tree, score, among=among, labels=labels, allowed=allowed)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 40), depth=st.integers(0, 4),
       score=st.sampled_from(["rank", "gini", "entropy", "squared_error"]),
       among=st.sampled_from(["features", "both"]))
def test_together_is_one_by_one(seed, n, depth, score, among):
    data = pl.Dataset(SCHEMA, NoVault())
    tree, rows = tree_of(data, seed, depth), rows_of(seed, n)
    choice = asked(data, tree, score, among, seed)
    found = []
    # 60: some groups of features, some features alone; with few, counts and sums in one number.
    for most, few in ((1 << 17, 1 << 16), (0, 0), (60, 20)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tallies, "_FEW", few)
            patch.setattr(options, "_TOGETHER", most)
            held = choice.sketch(rows, 1.0)
            found.append((held, options_of(choice, held)))
    (together, whole), *others = found
    assert (np.diff(whole.leaf) > 0).all()
    leaf = np.repeat(whole.leaf, np.diff(whole.starts))
    assert choice.allowed[leaf, whole.feature].all()
    for alone, parts in others:
        assert len(together) == len(alone)
        for one, other in zip(together, alone, strict=True):
            assert type(one) is type(other) and one.feature == other.feature
            if isinstance(one, tallies.Tally):
                np.testing.assert_array_equal(one.keys, other.keys)
                np.testing.assert_array_equal(one.sums, other.sums)
            else:
                np.testing.assert_array_equal(one.table, other.table)
        for name in ("score", "weight", "feature", "first", "length", "leaf", "starts"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name), name)


def test_parts_of_a_table_add_up_whichever_way_each_was_sorted():
    data = pl.Dataset(SCHEMA, NoVault())
    tree = tree_of(data, 5, 3)
    choice = asked(data, tree, "gini", "features", 5)
    whole, held = rows_of(7, 60), None
    for place, most in enumerate((True, False)):  # in a table, by sorting
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tallies, "_fits_table", lambda *sizes: most)  # noqa: B023
            part = choice.sketch(whole.subset(np.arange(place, 60, 2)), 1.0)
            held = part if held is None else choice.merge(held, part)
    one, other = options_of(choice, held), options_of(choice, choice.sketch(whole, 1.0))
    np.testing.assert_array_equal(one.score, other.score)
    np.testing.assert_array_equal(one.feature, other.feature)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n", [1, 65_535, 65_536])
def test_a_count_and_a_sum_in_one_number_are_exact_at_their_ends(n, sign):
    """The largest numbers, of as many records as are packed, and of one more: all in one place."""
    numbers = np.full(n, sign * int(tallies.STEPS))
    held = tallies._Counter(np.zeros(n, np.int32), 2, tallies.Statistics(numbers=numbers)).tally(
        3, np.ones(n, np.uint16), 2)
    assert held.table.tolist() == [[[0, n], [0, sign * n * 2**20]], [[0, 0], [0, 0]]]


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=20),
       st.integers(0, 2**32 - 1))
def test_the_fall_of_an_impurity_is_its_definition(total, seed):
    counts = np.array(total)
    left = np.random.default_rng(seed).integers(0, counts + 1)

    def gini(held):
        return 1.0 - sum((one / held.sum())**2 for one in held) if held.sum() else 0.0

    found = options.impurity_fall(options.gini)(left, counts)
    for low, whole, value in zip(left, counts, found, strict=True):
        size = max(whole.sum(), 1)
        wanted = gini(whole) - (low.sum() * gini(low) + (whole - low).sum() * gini(whole - low)
                                ) / size
        assert value == pytest.approx(wanted, abs=1e-12) or not whole.sum()
