"""The proof by search: no neighbour moves a query further than its derived sensitivity.

Sums are whole numbers of grid steps, so distances are exact: they are compared with the noise
scale that a mechanism of known parameters would add.
"""

import math

import numpy as np
import pytest

import privledger as pl
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_target
from tests.worlds import refused

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", -2.0, 3.0, missing=True),
    pl.Column("c", "categorical", "feature", categories=("a", "b", "d"), missing=True),
    pl.Column("y", "numeric", "target", 0.0, 10.0)))
CLASSES = pl.Schema("t", (*SCHEMA.columns[:2],
                          pl.Column("y", "categorical", "target", categories=(0, 1, 2))))


def random_table(rng, n, classes):
    """Values on and beyond the bounds are likely, because sensitivities live there."""
    x = rng.choice([-2.0, 3.0, 0.5, np.nan, 1e9, -1e9, rng.normal(), rng.normal()], n)
    c = rng.choice(np.array(["a", "b", "d", None], dtype=object), n)
    y = rng.integers(0, 3, n) if classes else rng.choice([0.0, 10.0, 99.0, rng.uniform(0, 10)], n)
    return {"x": x, "c": c}, y


def as_rows(X, y, schema):
    return Rows(pl.encode_features(X, schema), encode_target(y, schema))


def integer_sums(query, mechanism, relation, X, y, schema):
    """What noise is added to: one integer array per block, by the functions a release uses."""
    rows = as_rows(X, y, schema)
    state = query.prepare(mechanism, relation)
    return state.recipes, list(query.sketch(rows, state))


def queries(data, rng):
    """(query, shares): one to three blocks, with and without cells."""
    classes = data.schema.task == "classification"
    blocks = [pl.questions.Ones(), pl.questions.ColumnValue("x", 0.5, 2.5),
              pl.questions.ColumnValue("x", float(rng.normal()), 0.01,
                                       clip=float(rng.uniform(0.01, 3)))]
    blocks += [pl.questions.RowValues(["x"] if classes else ["x", ""], float(rng.uniform(0.1, 3)),
                                      kind) for kind in ("values", "squares", "products")]
    blocks += [pl.questions.ColumnMoments("x", -1.0, float(rng.uniform(0, 3)), degree)
               for degree in (1, 2, 3)]
    if classes:
        score = data.score("softmax", rng.normal(size=3) * 3)
        logistic = data.score("logistic", [float(rng.normal())])
        blocks += [score.gradient(float(rng.uniform(0.01, 2))), score.hessian(),
                   logistic.gradient(0.7), logistic.hessian(), pl.questions.ClassIs(1),
                   pl.questions.ClassIs(2)]
    else:
        score = data.score(str(rng.choice(["squared", "huber", "poisson"])),
                           [float(rng.normal())], center=5.0, scale=5.0)
        blocks += [pl.questions.ColumnValue("", 5.0, 5.0), pl.questions.TargetShares(),
                   score.gradient(float(rng.uniform(0.01, 2))),
                   score.hessian()]
    score.add(pl.questions.IntervalCells("x", (0.0, 1.0)), rng.normal(
        size=(4, 3) if classes else 4) * 2)
    encoding = pl.questions.RowEncoding(
        ["x", "c"], [0, 3], rng.normal(size=2), [0.1, 1.0], [bool(rng.integers(2)), False],
        str(rng.choice(["", "hinge", "square"])), 1.4, float(rng.uniform(0.1, 64)),
        rng.normal(size=(int(rng.integers(4)), 2)))
    score.add(encoding, rng.normal(size=(encoding.count, 3) if classes else encoding.count))
    blocks += [pl.questions.LinearGradient(encoding, float(rng.uniform(0.01, 9)), one)
               for one in (score, None)]
    bins = data.bins(8)
    tables = [rng.integers(0, 2, size).astype(np.uint8) for size in bins.sizes()]
    tree = pl.questions.TreeCells(bins,
                                  [pl.questions.Test(0, tables[0]),
                                   pl.questions.Test(1, 2 * tables[1])], 4)
    grown = data.root(bins).grow([1], [1]).grow([0, 0], [3, 5])
    cells = [None, grown,
             pl.questions.CrossCells(grown, pl.questions.CategoryCells("", 3) if classes else tree),
             data.cells("c"), data.cells("x", [0.0, 1.0]), tree,
             pl.questions.ResidualCells(score, (0.1, 0.5)),
             pl.questions.MappedCells([data.cells("x", [0.0]), data.cells("c")],
                                      rng.integers(0, 4, 3 * data.cells("c").count), 4,
                                      bool(rng.integers(2))),
             pl.questions.NearestCells(["x"], rng.uniform(-1, 1, (3, 1))),
             pl.questions.CategoryCells("", 3) if classes else tree]
    for _ in range(6):
        chosen = rng.choice(len(blocks), rng.integers(1, 4), replace=False)
        cell = cells[rng.integers(len(cells))]
        share = rng.dirichlet(np.ones(len(chosen))) * (1 - 1e-12)
        yield data.query([blocks[i] for i in chosen], cell), tuple(share)


def neighbours(rng, X, y, relation, classes):
    """The same table with one record more, with one record replaced, or with another label."""
    more, label = random_table(rng, 1, classes)
    if relation == "replace_label":
        swapped = y.copy()
        swapped[rng.integers(len(y))] = label[0]
        return X, swapped
    if relation == "add_remove":
        return {k: np.concatenate([v, more[k]]) for k, v in X.items()}, np.concatenate([y, label])
    place = rng.integers(len(y))
    changed = {k: v.copy() for k, v in X.items()}
    for k in changed:
        changed[k][place] = more[k][0]
    swapped = y.copy()
    swapped[place] = label[0]
    return changed, swapped


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_label"])
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
@pytest.mark.parametrize("seed", range(12))
def test_gaussian_noise_covers_every_neighbour(make_ledger, relation, classes, seed):
    """mu squared of the joint release is at most 1 / noise_multiplier**2, blocks together."""
    rng = np.random.default_rng([seed, classes])
    schema = CLASSES if classes else SCHEMA
    X, y = random_table(rng, int(rng.integers(1, 12)), classes)
    data = make_ledger().protect(X, y, schema)
    for query, shares in queries(data, rng):
        multiplier = float(np.exp(rng.uniform(-6, 6)))
        mechanism = pl.Gaussian(multiplier, shares if len(shares) > 1 else ())
        made, before = integer_sums(query, mechanism, relation, X, y, schema)
        for _ in range(8):
            made, after = integer_sums(query, mechanism, relation,
                                       *neighbours(rng, X, y, relation, classes), schema)
            squared = 0.0
            for recipe, one, two in zip(made, before, after, strict=True):
                assert one.dtype == np.int64 and one.shape == two.shape
                distance = math.sqrt(sum(int(d) ** 2 for d in (one - two).ravel().tolist()))
                squared += (distance / recipe.noise) ** 2
            assert squared <= 1 / multiplier**2


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_label"])
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
@pytest.mark.parametrize("seed", range(12))
def test_laplace_noise_covers_every_neighbour(make_ledger, relation, classes, seed):
    """L1 distance over the scale, blocks together, is at most epsilon."""
    rng = np.random.default_rng([seed, 7, classes])
    schema = CLASSES if classes else SCHEMA
    X, y = random_table(rng, int(rng.integers(1, 12)), classes)
    data = make_ledger().protect(X, y, schema)
    for query, _ in queries(data, rng):
        sensitivity = math.fsum(query.sensitivity(block, relation, 1) for block in query.blocks)
        mechanism = pl.Laplace(float(np.exp(rng.uniform(-6, 6))), l1_sensitivity=sensitivity)
        _, before = integer_sums(query, mechanism, relation, X, y, schema)
        for _ in range(8):
            made, after = integer_sums(query, mechanism, relation,
                                       *neighbours(rng, X, y, relation, classes), schema)
            loss = math.fsum(
                sum(abs(int(d)) for d in (one - two).ravel().tolist()) / recipe.noise
                for recipe, one, two in zip(made, before, after, strict=True))
            assert loss <= pl.epsilon(mechanism)


@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_a_block_contributes_less_than_nothing_where_it_says_so(make_ledger, classes):
    """An unsigned block that did would move by twice what it is priced for."""
    schema = CLASSES if classes else SCHEMA
    signs = {}
    for seed in range(8):
        rng = np.random.default_rng([seed, 3, classes])
        X, y = random_table(rng, 30, classes)
        rows = as_rows(X, y, schema)
        for query, shares in queries(make_ledger().protect(X, y, schema), rng):
            mechanism = pl.Gaussian(9.0, shares if len(shares) > 1 else ())
            state = query.prepare(mechanism, "replace_one")
            for block, values in zip(query.blocks, query.contributions(rows, state), strict=True):
                least = 0.0 if values is None else float(values.min(initial=0.0))
                signs.setdefault((type(block), block.signed), []).append(least < 0)
    for (kind, signed), negative in signs.items():
        assert any(negative) is signed, kind.__name__
    assert {signed for _, signed in signs} == {False, True} and len(signs) > 6


def test_a_declared_sensitivity_below_the_derived_one_is_refused(guarded):
    data = guarded[1]
    for query, bound in ((data.count(), 1.0), (data.sum("size"), 1.0),
                         (data.query((pl.questions.Ones(),
                                      pl.questions.ColumnValue("size", 0.5, 0.5))), 2.0)):
        query.prepare(pl.Laplace(1.0, l1_sensitivity=bound), "add_remove")
        with pytest.raises(pl.errors.UnsupportedNode, match="sensitivity"):
            query.prepare(pl.Laplace(1.0, l1_sensitivity=bound * (1 - 1e-9)), "add_remove")


def test_no_sampler_means_refused(guarded):
    data = guarded[1]
    for mechanism in (pl.SparseVector(1.0, 2.0), pl.ReportNoisyMax(1.0), pl.Exponential(1.0),
                      pl.Asserted(1.0, "x"), pl.nodes.Public("x"), pl.Repeat(pl.Gaussian(1.0), 2),
                      None):
        with pytest.raises(pl.errors.UnsupportedNode):
            data.count().prepare(mechanism, "add_remove")
    for shares in ((0.5, 0.5), (0.2, 0.2, 0.2)):
        with pytest.raises(pl.errors.UnsupportedNode, match="shares"):
            data.count().prepare(pl.Gaussian(1.0, shares), "add_remove")
    refused(pl.errors.UnsupportedNode, lambda: data.query((pl.questions.Ones(),
            pl.questions.Ones())).prepare(pl.Gaussian(1.0), "add_remove"), match="shares")


@pytest.mark.parametrize(("relation", "norm", "signed", "width", "cells", "expected"), [
    ("add_remove", 1, True, 1, 1, 1.0), ("add_remove", 2, False, 1, 9, 1.0),
    ("add_remove", 2, True, 5, 9, 1.0),
    ("replace_one", 2, True, 1, 1, 2.0), ("replace_one", 1, True, 3, 4, 2.0),
    ("replace_one", 2, False, 1, 1, 1.0), ("replace_one", 1, False, 1, 1, 1.0),
    ("replace_one", 2, False, 1, 4, math.sqrt(2)), ("replace_one", 1, False, 1, 4, 2.0),
    ("replace_one", 2, False, 3, 1, math.sqrt(2)), ("replace_one", 1, False, 3, 1, 2.0),
    ("replace_label", 1, False, 1, 4, 1.0), ("replace_label", 2, False, 1, 4, 1.0),
    ("replace_label", 1, True, 1, 4, 2.0), ("replace_label", 1, False, 3, 4, 2.0),
    ("replace_label", 2, False, 3, 4, math.sqrt(2)), ("replace_label", 1, False, 1, 1, 1.0)])
def test_derived_sensitivities(guarded, relation, norm, signed, width, cells, expected):
    """(1,0,0) and (0,1,0) are two contributions of norm one: they lie sqrt(2) apart."""
    class Block:
        clip, asserted = 1.0, False

    block = Block()
    block.signed, block.width = signed, width
    data = guarded[1]
    parts = None if cells == 1 else pl.questions.IntervalCells("size",
                                                               np.linspace(0.1, 0.9, cells - 2))
    query = data.query((pl.questions.Ones(),), parts)
    assert query.sensitivity(block, relation, norm) == pytest.approx(expected, rel=1e-12)
    assert query.sensitivity(block, relation, norm) >= expected


def test_contributions_that_are_no_numbers_count_as_nothing_special(guarded):
    """Finite leaf values may overflow when added up; a NaN must not point at a record."""
    ledger = guarded[0]
    schema = CLASSES
    rng = np.random.default_rng(0)
    X, y = random_table(rng, 40, True)
    data = ledger.protect(X, y, schema)
    score = data.score("softmax", [0.0, 0.0, 0.0])
    cells = pl.questions.IntervalCells("x", (0.0,))
    huge = np.zeros((3, 3))
    huge[1, 0] = 1.7e308
    with np.errstate(all="ignore"):
        for _ in range(3):
            score.add(cells, huge)
        mechanism = pl.Gaussian(1.0)
        query = data.query((score.gradient(1.0),), cells)
        made, sums = integer_sums(query, mechanism, "add_remove", X, y, schema)
    assert np.abs(sums[0]).max() <= 40 / made[0].grid


def test_values_at_the_edge_of_floating_point_stay_within_the_clip(guarded):
    ledger = guarded[0]
    X = {"x": np.array([3.0, -2.0]), "c": np.array(["a", "b"], dtype=object)}
    y = np.array([0.0, 10.0])
    data = ledger.protect(X, y, SCHEMA)
    for center, scale in ((0.0, 1e-139), (1e308, 1e-139), (-1e308, 1e139), (0.0, 1e139)):
        for block in (pl.questions.ColumnValue("x", center, scale),
                      data.score("squared", [1e308], center=center, scale=scale).gradient(1.0)):
            with np.errstate(all="ignore"):
                made, sums = integer_sums(data.query((block,)), pl.Gaussian(1.0), "add_remove",
                                          X, y, SCHEMA)
            assert abs(int(sums[0].sum())) <= 2 / made[0].grid


@pytest.mark.parametrize(("cells", "l1"), [("c", 1.0), ("", 2.0)])
def test_label_counts_attain_their_bounds(make_ledger, cells, l1):
    """A binary count over public leaves moves by one, a histogram of labels by two in L1."""
    X = {"x": [0.0, 1.0], "c": ["a", "b"]}
    ledger = make_ledger(relation="replace_label")
    data = ledger.protect(X, [0, 1], CLASSES, public_features=True)
    query = (data.query((pl.questions.ClassIs(1),), data.cells("c")) if cells
             else data.histogram("y"))
    assert query.sensitivity(query.blocks[0], "replace_label", 1) == l1
    made, before = integer_sums(query, pl.Laplace(1.0, l1), "replace_label", X, [0, 1], CLASSES)
    _, after = integer_sums(query, pl.Laplace(1.0, l1), "replace_label", X, [1, 1], CLASSES)
    assert np.abs(before[0] - after[0]).sum() * made[0].grid == pytest.approx(l1)
