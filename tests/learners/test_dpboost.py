"""DPBoost: what a user sees, on small made-up tables, and what its plan costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_learners import DPBoostClassifier, DPBoostRegressor
from privledger_learners.boosting.best_splits import choose_shape
from privledger_learners.dpboost import PURE_SHAPES

import privledger as pl
from tests.learners.with_gaps import NUMBER, labels, schema, table


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("parts", [1, 4])
def test_it_learns_and_its_price_is_its_epsilon(delta, parts):
    X, y = table()
    model = DPBoostRegressor(epsilon=20.0, delta=delta, schema=schema(NUMBER), parts=parts)
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    assert 19.99 < model.ledger_.spent <= 20.0
    assert pl.epsilon(model.plan(schema(NUMBER)), delta) <= 20.0
    assert model.ledger_.verify() == []
    assert model.receipt_.head == model.ledger_.receipt.head


@pytest.mark.parametrize("names", [("yes", "no"), ("no", "yes"), (1, 0), ("c", "a", "b")])
def test_columns_of_probabilities_follow_sorted_classes(names):
    X, y = table(names)
    model = DPBoostClassifier(epsilon=20.0, schema=schema(labels(*names)), n_trees=12, depth=3)
    model.fit(X, y)
    assert model.classes_.tolist() == sorted(names)
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(1), 1)
    assert model.score(X, y) > 0.75
    assert (model.classes_[proba.argmax(1)] == model.predict(X)).mean() > 0.999


OPTIONS = [
    {"parts": 6, "n_trees": 12}, {"gradient_filtering": True}, {"geometric": "leaves"},
    {"geometric": "gradients", "n_trees": 6}, {"leaf": "ratio"}, {"start_share": 0.0},
    {"gradient_clip": 0.3}, {"depth": 1}, {"n_trees": 1}, {"relation": "replace_one"},
    {"relation": "replace_one", "delta": 1e-6, "parts": 3}, {"penalty": 0.0}, {"numeric_bins": 8},
    {"parts": 5, "n_trees": 10, "gradient_filtering": True, "geometric": "gradients",
     "delta": 1e-6, "leaf": "ratio"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("names", [None, ("n", "p"), ("a", "b", "c")])
def test_every_option_stays_inside_its_budget(options, names):
    X, y = table(names)
    kind = DPBoostRegressor if names is None else DPBoostClassifier
    known = schema(NUMBER if names is None else labels(*names))
    model = kind(epsilon=1.5, schema=known, **options).fit(X, y)
    assert model.ledger_.spent <= 1.5
    assert model.ledger_.verify() == []
    shown = model.predict(X) if names is None else model.predict_proba(X)
    assert np.isfinite(shown).all()


@settings(max_examples=25, deadline=None)
@given(epsilon=st.floats(0.05, 20), parts=st.integers(1, 4), ensembles=st.integers(1, 4),
       depth=st.integers(1, 4), relation=st.sampled_from(["add_remove", "replace_one"]))
def test_a_pure_plan_costs_its_epsilon(epsilon, parts, ensembles, depth, relation):
    learner = DPBoostRegressor(epsilon=epsilon, n_trees=parts * ensembles, parts=parts,
                               depth=depth, relation=relation)
    price = pl.epsilon(learner.plan(schema(NUMBER)), 0.0, relation)
    assert 0.999 * epsilon <= price <= epsilon


def test_splits_cost_two_thirds_of_what_the_paper_charges():
    learner = DPBoostRegressor(epsilon=1.0, n_trees=10, start_share=0.0, depth=3)
    steps = {step.step: step for step in learner.claimed(schema(NUMBER))}
    splits, whole = steps["splits of a tree"], steps["everything"]
    assert splits.sound == pytest.approx(splits.claimed * 2 / 3, rel=1e-9)
    assert whole.claimed == pytest.approx(1 + learner.split_share / 2)
    assert whole.sound <= 1.0


def test_a_shape_depends_on_released_values_only_and_grows_with_them():
    sizes = [choose_shape(PURE_SHAPES, n, 1.0) for n in (0.0, 1.0, 10.0**3, 10.0**4, 10.0**9)]
    assert [s.trees for s in sizes] == sorted(s.trees for s in sizes)
    assert sizes[0] == PURE_SHAPES[0]
    assert sizes[-1] == PURE_SHAPES[-1]
    for gaussian, first, step in ((False, 9.2, 1.6), (True, 7.0, 2.0)):  # halfway between levels
        places = [PURE_SHAPES.index(choose_shape(PURE_SHAPES, 3 * 2.0**level, 3.0,
                                                 gaussian=gaussian))
                  for at in range(len(PURE_SHAPES) - 1) for level in (first + step * at - 0.01,
                                                                      first + step * at + 0.01)]
        assert places == [at + more for at in range(len(PURE_SHAPES) - 1) for more in (0, 1)]


def test_disjoint_parts_are_drawn_by_coins_and_paid_once():
    plan = DPBoostRegressor(n_trees=8, parts=4, depth=2).plan(schema(NUMBER))
    # Two forms since bins may be bought: without them, and with them before the same trees.
    public, bought = plan.nodes[-1].nodes
    assert isinstance(bought.nodes[0].node, pl.Laplace)
    for ensembles in (public, bought.nodes[1]):
        assert isinstance(ensembles, pl.Repeat)
        assert ensembles.count == 2
        assert isinstance(ensembles.node, pl.Parallel)
        assert ensembles.node.certificate == "iid_per_record"
        assert len(ensembles.node.nodes) == 4


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("parts", [1, 4])
def test_few_rows_and_empty_parts_work(rows, parts):
    X, y = table()
    few = {name: column[:rows] for name, column in X.items()}
    model = DPBoostRegressor(epsilon=1.0, schema=schema(NUMBER), parts=parts).fit(few, y[:rows])
    assert np.isfinite(model.predict(X)).all()


def test_every_record_filtered_out_is_no_special_case():
    X, y = table()
    model = DPBoostRegressor(epsilon=1.0, schema=schema(NUMBER), gradient_clip=1e-9,
                             gradient_filtering=True).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("kind", [DPBoostRegressor, DPBoostClassifier])
def test_the_default_is_pure(kind):
    assert kind().delta == 0.0
