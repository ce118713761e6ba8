"""DiPriMe forests: conform, cost what they say, survive thin data."""

import math

import numpy as np
import pytest
from privledger_learners import DiPriMeForestClassifier, DiPriMeForestRegressor
from privledger_learners.trees.grow import some_of, splittable

import privledger as pl
from tests.worlds import schema_of


@pytest.fixture
def rings(rings_and_never):
    return rings_and_never


def test_numbers_are_learned():
    schema = schema_of("line", {"a": (0.0, 1.0)}, t=(0.0, 100.0))
    a = np.random.default_rng(0).uniform(0, 1, 4000)
    model = DiPriMeForestRegressor(epsilon=8.0, schema=schema).fit({"a": a}, 20 + 30 * a)
    assert model.score({"a": a}, 20 + 30 * a) > 0.7


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("variant", ["base", "exp", "flip", "joint"])
def test_parts_without_records_still_give_trees(rings, rows, variant):
    """Twenty parts for hardly any record: same plan, same shape, every leaf has a value."""
    schema, X, y = rings
    few = {name: column[:rows] for name, column in X.items()}
    model = DiPriMeForestClassifier(epsilon=1.0, schema=schema, variant=variant, n_trees=20,
                                    partitioned=True, depth=2).fit(few, y[:rows])
    assert len(model.forest_.trees) == 20
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("variant", ["base", "exp", "joint"])
def test_deeper_than_the_categories_allow(variant):
    """Once every box holds a single value no leaf has a candidate: a public fact."""
    schema = pl.Schema("narrow", (
        pl.Column("c", "categorical", "feature", categories=("x", "y")),
        pl.Column("i", "numeric", "feature", 0.0, 1.0, integer=True),
        pl.Column("t", "categorical", "target", categories=("n", "p"))))
    X = {"c": np.array(["x", "y"] * 50), "i": np.array([0.0, 1.0] * 50)}
    model = DiPriMeForestClassifier(epsilon=5.0, schema=schema, variant=variant, depth=6).fit(
        X, np.array(["n", "p"] * 50))
    assert np.isfinite(model.predict_proba(X)).all()
    assert not splittable(model.forest_.trees[0].cells).all()
    assert (model.forest_.trees[0].cells.feature == -1).any()


def test_splittable_boxes_are_public(rings):
    data = pl.Ledger.create(None, budget=pl.Budget(1.0)).protect(*rings[1:], rings[0])
    tree = data.root(data.bins(2))
    assert splittable(tree).tolist() == [[True, True, True]]
    tree = tree.grow([0], [1]).grow([2, -1], [0, -1])
    # a < middle leaves one bin; colour == red leaves one category.
    assert splittable(tree).tolist()[:2] == [[False, True, True], [False, True, False]]
    rng = np.random.default_rng(0)
    assert (some_of(splittable(tree), 1, rng).sum(axis=1) == 1).all()
    assert not some_of(np.zeros((2, 3), dtype=bool), 2, rng).any()


def test_claims_show_what_k_medians_cost():
    """F1: K medians that a choice looks at cost rho (K + 1) / 2 + 1 - rho times the claim."""
    schema = pl.Schema("five", (*(pl.Column(f"x{k}", "numeric", "feature", 0.0, 1.0)
                                  for k in range(5)),
                                pl.Column("t", "numeric", "target", 0.0, 1.0)))
    learner = DiPriMeForestRegressor(epsilon=10.0, schema=schema, variant="exp", depth=4,
                                     split_share=0.5, level_ratio=1.0, candidates=5,
                                     quantile_share=0.0, n_trees=10, partitioned=True)
    levels, leaves, trees, everything = learner.claimed()
    assert levels.ratio == pytest.approx(3.0)  # 2.00 with the leaves, at rho = .5
    assert (levels.sound + leaves.claimed) / everything.claimed == pytest.approx(2.0)
    assert leaves.sound == math.inf
    assert trees.ratio == pytest.approx(3.0)
    assert everything.ratio == pytest.approx(1.0)


def test_delta_buys_more_for_trees_on_the_same_records(rings):
    pure, approximate = (DiPriMeForestClassifier(
        epsilon=1.0, delta=delta, schema=rings[0], n_trees=30, depth=3, variant="base")
        for delta in (0.0, 1e-6))
    assert approximate._recipe(rings[0]).factor > 1.5 * pure._recipe(rings[0]).factor
    assert pl.epsilon(approximate.plan(), 1e-6) <= 1.0
