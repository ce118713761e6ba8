"""AutoClassifier and AutoRegressor: the choice is a function of public facts, and nothing else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from privledger_learners import (
    AutoClassifier,
    AutoRegressor,
    JointTreeClassifier,
    JointTreeRegressor,
    SGBDTClassifier,
    SGBDTRegressor,
)
from privledger_learners.auto import KINDS, PublicFacts, choose

import privledger as pl
from privledger.ledger.view import view_of


def schema_of(rows=None, task="classification", **more):
    target = (pl.Column("t", "categorical", "target", categories=("no", "yes"))
              if task == "classification" else pl.Column("t", "numeric", "target", 0.0, 1.0))
    return pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0), target),
                     expected_rows=rows,
                     expected_rows_provenance=None if rows is None else "declared", **more)


def table_of(task="classification", n=400):
    x = np.linspace(0.0, 1.0, n)
    return {"x": x}, x if task == "regression" else np.where(x > 0.3, "yes", "no")


@given(task=st.sampled_from(["classification", "regression"]),
       rows=st.none() | st.integers(1, 10**7), epsilon=st.floats(1e-3, 100.0),
       delta=st.sampled_from([0.0, 1e-9, 1e-5]),
       relation=st.sampled_from(["add_remove", "replace_one"]),
       features=st.integers(1, 10**4), classes=st.integers(2, 50))
def test_the_rule_names_a_learner_of_the_task_and_says_why(task, rows, epsilon, delta, relation,
                                                           features, classes):
    facts = PublicFacts(task, features, features, 0 if task == "regression" else classes, rows,
                        epsilon, delta, relation)
    chosen = choose(facts)
    assert chosen == choose(facts)
    info = KINDS[chosen.name].info
    assert task in info.tasks and relation in info.relations and chosen.why
    assert chosen.name.startswith("joint-tree" if delta == 0 else "sgbdt")


@pytest.mark.parametrize(("rows", "delta", "kind"), [
    (None, 1e-6, "sgbdt"), (50, 1e-6, "sgbdt"), (50, 0.0, "joint-tree"),
    (10**5, 1e-6, "sgbdt"), (10**5, 0.0, "joint-tree")])
@pytest.mark.parametrize("auto", [AutoClassifier, AutoRegressor])
def test_plan_and_fit_are_those_of_the_chosen_learner(auto, rows, delta, kind):
    task = auto.info.tasks[0]
    schema = schema_of(rows, task)
    model = auto(epsilon=1.0, delta=delta, schema=schema, random_state=3, mode="simulation")
    same = {"joint-tree": (JointTreeClassifier, JointTreeRegressor),
            "sgbdt": (SGBDTClassifier, SGBDTRegressor)}[kind][task == "regression"]
    other = same(epsilon=1.0, delta=delta, schema=schema, random_state=3, mode="simulation")
    assert model.plan() == other.plan()
    X, y = table_of(task)
    model.fit(X, y), other.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    assert model.chosen_ == other.info.name
    assert model.why_ == model.choice().why
    assert model.ledger_.spent == other.ledger_.spent


def test_the_ledger_reads_the_name_that_a_policy_was_asked_about():
    X, y = table_of()
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6))
    data = ledger.protect(X, y, schema_of(50))
    model = AutoClassifier(epsilon=1.0, delta=0.0).fit(data)
    (line,) = view_of(ledger.state).charges
    assert line.learners == ("auto-classifier",)
    assert model.chosen_ == "joint-tree-classifier"
    assert ledger.verify() == []


def test_claims_name_the_choice_first():
    model = AutoRegressor(epsilon=1.0, delta=0.0, schema=schema_of(50, "regression"))
    first, *rest = model.claimed()
    assert "joint-tree-regressor" in first.step and "delta is 0" in first.note
    assert first.sound == 0 and first.claimed is None
    other = JointTreeRegressor(epsilon=1.0, schema=schema_of(50, "regression"))
    assert tuple(rest) == other.claimed()


def test_another_fit_forgets_the_first():
    X, y = table_of()
    model = AutoClassifier(epsilon=1.0, delta=0.0, schema=schema_of(50)).fit(X, y)
    assert hasattr(model, "forest_")
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    with pytest.warns(UserWarning, match="another in-memory"):
        model.set_params(delta=1e-6).fit(X, y)
    assert hasattr(model, "model_") and not hasattr(model, "forest_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(again, "data_")


@pytest.mark.parametrize("wrong", [
    {"epsilon": 0.0}, {"epsilon": np.nan}, {"epsilon": True}, {"delta": -1.0}, {"delta": np.nan},
    {"mode": "public"}, {"relation": "both"}])
def test_bad_parameters_are_refused(wrong):
    X, y = table_of()
    with pytest.raises(pl.PrivledgerError):
        AutoClassifier(**{"epsilon": 1.0, "schema": schema_of(50), **wrong}).fit(X, y)


def test_a_true_number_of_rows_steers_nothing_under_add_remove():
    X, y = table_of()
    schema = pl.Schema("t", schema_of().columns, public_rows=400)
    with pytest.raises(pl.errors.RelationMismatch):
        AutoClassifier(epsilon=1.0, schema=schema).fit(X, y)
    AutoClassifier(epsilon=1.0, delta=0.0, schema=schema, relation="replace_one").fit(X, y)


def test_wrong_task_is_refused():
    with pytest.raises(pl.SchemaError):
        AutoRegressor(epsilon=1.0, schema=schema_of(50)).plan()
