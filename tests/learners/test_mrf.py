"""Multinomial forests: conform, cost what they say, label every leaf once."""

import math

import numpy as np
import pytest
from privledger_learners import MultinomialForestClassifier

import privledger as pl
from tests.worlds import refused


@pytest.fixture
def rings(rings_and_never):
    schema, X, _ = rings_and_never
    return schema, X, np.where((X["a"] < 0.2) | (X["colour"] == "blue"), "in", "out")


def test_a_label_is_drawn_once_not_per_prediction(rings):
    schema, X, y = rings
    model = MultinomialForestClassifier(epsilon=1.0, schema=schema, variant="multinomial",
                                        n_trees=3, depth=2).fit(X, y)
    before = model.ledger_.spent
    assert (model.predict(X) == model.predict(X)).all()
    assert model.ledger_.spent == before
    for tree in model.forest_.trees:
        assert (np.sort(tree.values, axis=1) == [0, 0, 1]).all()


def test_the_papers_own_budgets(rings):
    """t trees of B1 = B2 = .05, B3 = 1, d = 10 cost t, not 1."""
    literal = MultinomialForestClassifier(
        epsilon=100.0, schema=rings[0], variant="multinomial", n_trees=100, depth=10,
        b1=0.05, b2=0.05, b3=1.0)
    assert pl.epsilon(literal.plan(), 0.0) == pytest.approx(100.0)
    *printed, forest, everything = literal.claimed()
    assert [step.sound for step in printed] == [pytest.approx(0.5), math.inf, math.inf, math.inf]
    assert (forest.claimed, forest.sound) == (pytest.approx(1.0), pytest.approx(100.0))
    assert everything.sound == pytest.approx(100.0)
    schema, X, y = rings
    small = {"n_trees": 3, "depth": 2, "b1": 0.05, "b2": 0.05, "b3": 0.2, "schema": schema,
             "variant": "multinomial"}
    model = MultinomialForestClassifier(epsilon=0.7, **small).fit(X, y)
    assert model.ledger_.spent == pytest.approx(0.6, rel=1e-6)
    refused(pl.BudgetExceeded, lambda: MultinomialForestClassifier(epsilon=0.5, **small).fit(X, y))


def test_delta_buys_more_per_tree(rings):
    """SOUNDNESS 004: at (1, 1e-6) a hundred trees of depth ten get many times more."""
    pure, approximate = (MultinomialForestClassifier(
        epsilon=1.0, delta=delta, schema=rings[0], variant="multinomial", n_trees=100, depth=10)
        for delta in (0.0, 1e-6))
    few, many = (one.plan().nodes[-1].node.nodes[0].nodes[0].epsilon for one in (pure, approximate))
    assert few == pytest.approx(0.0005, rel=1e-6)
    assert many > 19 * few
    assert pl.epsilon(approximate.plan(), 1e-6) <= 1.0
