"""DP-SIS: what it finds, what it costs, and what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from privledger_learners import DPSIS, DPSISTwoStage
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import protected, refused

D = 60
SCHEMA = pl.Schema("wide", (
    *(pl.Column(f"x{j}", "numeric", "feature", -5.0, 5.0) for j in range(D)),
    pl.Column("t", "categorical", "target", categories=("a", "b"))), None, True)
NUMBER = pl.Schema("wide", (*SCHEMA.features, pl.Column("t", "numeric", "target", -9.0, 9.0)),
                   None, True)


def table(rows: int = 300):
    """Features 3 and 40 make the target."""
    rng = np.random.default_rng(5)
    X = np.clip(rng.normal(size=(rows, D)), -5, 5)
    value = 2 * X[:, 3] - 2 * X[:, 40]
    return X, np.where(value > 0, "a", "b"), np.clip(value, -9, 9)


@pytest.mark.parametrize("options", [
    {}, {"method": "canonical"}, {"scores": "rank"}, {"scores": "correlation"},
    {"delta": 1e-6}, {"relation": "replace_one", "epsilon": 20.0}])
def test_strong_features_are_found(options):
    """Each fails with probability below 1e-6: the runners-up are dozens of scales away."""
    X, classes, numbers = table()
    options = {"epsilon": 40.0} | options
    found = DPSIS(schema=SCHEMA, k=2, **options).fit(X, classes)
    assert set(found.selected_) == {3, 40}
    assert found.transform(X).shape == (300, 2)
    assert found.get_support(indices=True).tolist() == [3, 40]
    if "scores" in options:
        assert set(DPSIS(schema=NUMBER, k=2, **options).fit(X, numbers).selected_) == {3, 40}


def test_two_stage_finds_them_with_much_budget():
    """Fails with probability below 1e-6."""
    X, classes, _ = table(1000)
    assert set(DPSISTwoStage(400.0, schema=SCHEMA, k=2).fit(X, classes).selected_) == {3, 40}


@pytest.mark.parametrize("learner", [
    DPSIS(0.7, k=3), DPSIS(7.0, k=3), DPSIS(0.7, k=3, scores="rank"), DPSISTwoStage(0.7, k=3),
    DPSIS(0.7, 1e-5, k=20), DPSIS(0.7, k=3, relation="replace_one"), DPSIS(0.7, k=D)])
def test_the_plan_costs_epsilon_and_no_more(learner):
    plan = learner.plan(SCHEMA)
    cost = pl.epsilon(plan, learner.delta, learner.relation)
    assert learner.epsilon * 0.999 < cost <= learner.epsilon
    assert learner.plan(SCHEMA) == plan
    X, classes, _ = table()
    fitted = clone(learner).set_params(schema=SCHEMA).fit(X, classes)
    assert len(set(fitted.selected_)) == learner.k
    assert fitted.ledger_.spent == pytest.approx(cost, rel=1e-6)
    assert fitted.ledger_.verify() == []


def test_delta_buys_less_noise_for_many_draws():
    pure, approximate = DPSIS(1.0, k=50).plan(SCHEMA), DPSIS(1.0, 1e-6, k=50).plan(SCHEMA)
    assert approximate.node.epsilon > 1.5 * pure.node.epsilon
    few = DPSIS(1.0, 1e-12, k=1)
    assert few.plan(SCHEMA).node.epsilon >= DPSIS(1.0, k=1).plan(SCHEMA).node.epsilon


def test_default_method_changes_at_the_documented_epsilon():
    assert isinstance(DPSIS(5.0).plan(SCHEMA), pl.Repeat)
    assert isinstance(DPSIS(5.1).plan(SCHEMA), pl.TopK)
    assert isinstance(DPSIS(5.1, k=D).plan(SCHEMA), pl.Repeat)
    assert isinstance(DPSIS(10.0, scores="rank").plan(SCHEMA), pl.Repeat)
    assert isinstance(DPSIS(10.0, 1e-6).plan(SCHEMA), pl.Repeat)


@all_cases(("options", "error"), [
    ({"k": D + 1}, pl.InvalidValue), ({"k": 0}, pl.InvalidValue), ({"k": True}, pl.InvalidValue),
    ({"k": 2.0}, pl.InvalidValue), ({"method": "best"}, pl.InvalidValue),
    ({"scores": "votes"}, pl.InvalidValue), ({"scores": "beauty"}, pl.InvalidValue),
    ({"epsilon": -1.0}, ValueError), ({"epsilon": math.nan}, ValueError),
    ({"epsilon": math.inf}, ValueError), ({"epsilon": True}, ValueError),
    ({"k": D, "method": "canonical"}, pl.PrivledgerError)])
def test_bad_parameters_are_refused_before_anything_is_read(options, error):
    X, classes, _ = table()
    _, data = protected(pl.Budget(100.0, 0.0), X, classes, SCHEMA)
    refused(error, lambda: DPSIS(**options).fit(data))
    assert data._vault.opened == 0


def test_bad_tables_are_refused():
    X, classes, numbers = table()
    refused(pl.SchemaError, lambda: DPSIS().fit(X, classes))
    refused(pl.errors.DataError, lambda: DPSIS(schema=SCHEMA).fit(X),
            lambda: DPSIS(schema=SCHEMA).fit(X[:, 1:], classes))
    refused(pl.SchemaError, lambda: DPSIS(schema=NUMBER, scores="agreement").fit(X, numbers))
    for wrong in (np.nan, np.inf):
        holed = X.copy()
        holed[3, 7] = wrong
        with pytest.raises(pl.errors.DataError) as caught:
            DPSIS(schema=SCHEMA).fit(holed, classes)
        assert "x7" in str(caught.value)
    refused(pl.errors.DataError, lambda: DPSIS(schema=SCHEMA).fit(X, np.array(["z"] * 300)),
            lambda: DPSIS(schema=SCHEMA, k=2).fit(X, classes).transform(X[:, 1:]))


def test_constant_columns_and_single_classes_are_no_errors():
    X = np.zeros((20, D))
    for learner in (DPSIS(schema=SCHEMA), DPSISTwoStage(schema=SCHEMA)):
        for labels in (["a"] * 20, ["a", "b"] * 10):
            assert len(learner.fit(X, np.array(labels)).selected_) == 5


def test_guarded_data_go_on_to_another_learner():
    X, classes, _ = table()
    ledger, data = protected(pl.Budget(50.0, 0.0), X, classes, SCHEMA)
    handle = DPSIS(40.0, k=2).fit(data).transform(data)
    assert [c.name for c in handle.schema.features] == ["x3", "x40"]
    with ledger.request(pl.TopK(1, 1.0), data) as session:
        chosen = session.release(pl.TopK(1, 1.0), handle.features_by("rank"))
    assert chosen[0] in (0, 1)


def test_it_works_in_scikit_learn():
    X, classes, _ = table()
    pipe = make_pipeline(DPSIS(40.0, schema=SCHEMA, k=2), KNeighborsClassifier())
    assert pipe.fit(X, classes).score(X, classes) > 0.85
    search = GridSearchCV(DPSIS(schema=SCHEMA, unaccounted=True), {"k": [1, 2]}, cv=2,
                          scoring=lambda model, X, y=None: float(model.support_.sum()))
    assert search.fit(X, classes).best_params_ == {"k": 2}
    fitted = DPSIS(40.0, schema=SCHEMA, k=2).fit(X, classes)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.transform(X).tolist() == fitted.transform(X).tolist()
    assert not hasattr(again, "ledger_")


def test_both_columns_are_shown():
    steps = DPSIS(1.0, schema=SCHEMA).claimed()
    assert [step.sound for step in steps[:2]] == [math.inf, math.inf]
    assert 0.999 < steps[-1].sound <= 1.0
    assert math.isinf(DPSISTwoStage(1.0, schema=SCHEMA).claimed()[0].sound)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("method", "delta"), [("gumbel", 0.0), ("canonical", 0.0),
                                               ("gumbel", 1e-6)])
def test_class_sizes_are_bought_within_epsilon(relation, method, delta):
    learner = DPSIS(1.5, delta, SCHEMA, k=2, method=method, relation=relation,
                    class_weight="balanced")
    cost = pl.epsilon(learner.plan(), delta, relation)
    assert 1.5 * (1 - 1e-3) <= cost <= 1.5
    plain = DPSIS(1.5, delta, SCHEMA, k=2, method=method, relation=relation)
    public = DPSIS(1.5, delta, SCHEMA, k=2, method=method, relation=relation,
                   class_weight=[1.0] * len(SCHEMA.target.categories))
    assert public.plan() == plain.plan() != learner.plan()


@all_cases("wrong", ["even", [1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan],
                     [1.0, math.inf], [1.0, True], [1.0, "1"]])
def test_weights_of_classes_that_are_none_are_refused(wrong):
    refused(pl.InvalidValue, lambda: DPSIS(1.0, 0.0, SCHEMA, k=1, class_weight=wrong).plan(),
            lambda: DPSIS(1.0, 0.0, SCHEMA, k=1, scores="rank", class_weight="balanced").plan(),
            match="class_weight")


def test_a_small_class_is_told_where_it_counts_as_much_as_a_large_one():
    """No cut of the first feature beats a constant unless the small class is heard."""
    rng = np.random.default_rng(0)
    small = np.arange(1000) < 100
    told = np.where(small, 0.9, np.where(np.arange(1000) < 210, 0.95, rng.uniform(0, 0.5, 1000)))
    X = np.stack([told, *rng.uniform(0, 1, (3, 1000))], axis=1)
    schema = pl.Schema("uneven", (*[pl.Column(f"f{k}", "numeric", "feature", 0.0, 1.0)
                                    for k in range(4)],
                                  pl.Column("t", "categorical", "target",
                                            categories=("large", "small"))))
    y = np.where(small, "small", "large")
    chosen = DPSIS(100.0, schema=schema, k=1, class_weight="balanced", unaccounted=True).fit(X, y)
    assert chosen.selected_.tolist() == [0]
    assert chosen.ledger_.spent <= 100.0 and chosen.ledger_.verify() == []
