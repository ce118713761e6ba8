"""Comparison rows: trees grown a level at a time are those of the definition. NOT PRIVATE."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_papers.comparison_forests import RuleForest
from privledger_papers.comparison_rules import _cuts, _purest, bernoulli, denil, medians, nearness
from privledger_papers.comparison_trees import Level, grow

from tests.all_cases import all_cases

RULES = {"median": medians(3), "denil": denil, "bernoulli": bernoulli,
         "near": nearness(classes=False), "near other class": nearness(classes=True)}


def impurity(y):
    return sum(float(np.sum(y == c)) ** 2 for c in range(3)) / len(y)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_purest_cut_of_every_node_is_the_one_of_the_definition(seed, least):
    rng = np.random.default_rng(seed)
    n, m = 30, 3
    X, y = rng.integers(0, 6, (n, 2)).astype(float), rng.integers(0, 3, n)
    node, feature = rng.integers(0, m, n), rng.integers(0, 2, m)
    level = Level(X, np.eye(3)[y], np.arange(n), node, m, least, 0)
    cuts, pure = _cuts(level, feature, _purest)
    for k in range(m):
        values, own = X[node == k, feature[k]], y[node == k]
        found = [impurity(own[values <= c]) + impurity(own[values > c]) for c in np.unique(values)
                 if least <= np.sum(values <= c) <= len(own) - least]
        if not found:
            assert pure[k] == -np.inf
            continue
        assert pure[k] == pytest.approx(max(found))
        left = values <= cuts[k]
        assert impurity(own[left]) + impurity(own[~left]) == pytest.approx(max(found))


@all_cases("name", RULES)
@all_cases("honest", [False, True])
def test_leaves_hold_enough_records_and_say_what_those_say(name, honest):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    T = np.eye(2)[(X[:, 0] + X[:, 1] > 0).astype(int)]
    tree = grow(X, T, RULES[name], np.random.default_rng(5), least=5, honest=honest)
    shape = np.random.default_rng(5).random(400) < 0.5
    fill = ~shape if honest else np.ones(400, dtype=bool)
    found = tree.values(X)
    leaves, of = np.unique(found, axis=0, return_inverse=True)
    assert len(leaves) > 3
    for value in range(len(leaves)):
        mine = fill & (of.ravel() == value)
        assert mine.sum() >= 5
        assert T[mine].mean(axis=0) == pytest.approx(leaves[value])


@pytest.mark.parametrize("name", RULES)
def test_forests_learn_and_give_shares(name):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (600, 3))
    y = np.where(X[:, 0] > 0, "b", "a")
    forest = RuleForest(RULES[name], True, 10).fit(X, y)
    assert np.mean(forest.predict(X) == y) > 0.9
    assert forest.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(600))


def test_medians_halve_a_node_and_numbers_are_averaged():
    X = np.arange(64.0)[:, None]
    forest = RuleForest(medians(1), False, 1, 1, 3).fit(X, X[:, 0])
    assert np.unique(forest.predict(X)).tolist() == [3.5 + 8 * k for k in range(8)]


def test_one_record_and_one_value_are_leaves():
    for name in RULES:
        forest = RuleForest(RULES[name], True, 2).fit(np.zeros((1, 2)), np.array(["a"]))
        assert forest.predict(np.zeros((3, 2))).tolist() == ["a"] * 3
        same = RuleForest(RULES[name], True, 2).fit(np.ones((20, 2)), np.array(["a", "b"] * 10))
        assert same.predict_proba(np.zeros((1, 2))).sum() == pytest.approx(1.0)
