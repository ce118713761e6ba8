"""Linear models: what they cost, what they learn, and what is refused before anything is asked."""

import numpy as np
import pytest
from privledger_learners import LinearClassifier, LinearRegressor, SGBDTClassifier, SGBDTRegressor

import privledger as pl
from tests.worlds import refused


def schema_of(task, features=3, rows=None):
    target = (pl.Column("y", "numeric", "target", -3.0, 3.0) if task == "regression" else
              pl.Column("y", "categorical", "target", categories=("n", "p", "q")[: 2 + (
                  task == "three")]))
    return pl.Schema("t", (*(pl.Column(f"x{place}", "numeric", "feature", -1.0, 1.0)
                             for place in range(features)), target))


def table(task, n=4000):
    rng = np.random.default_rng(0)
    X = {f"x{place}": rng.uniform(-1, 1, n) for place in range(3)}
    score = 2 * X["x0"] - X["x1"]
    if task == "regression":
        return X, score
    return X, np.array(["n", "p", "q"])[(score > 0).astype(int) + (
        (score > 1).astype(int) if task == "three" else 0)]


@pytest.mark.parametrize(("task", "kind", "least"), [
    ("regression", LinearRegressor, 0.9), ("two", LinearClassifier, 0.93),
    ("three", LinearClassifier, 0.85)])
def test_it_learns_and_its_price_is_its_epsilon(task, kind, least):
    """Bounds lie far below what comes out; not a privacy test."""
    X, y = table(task)
    model = kind(epsilon=2.0, delta=1e-6, schema=schema_of(task)).fit(X, y)
    assert model.score(X, y) > least
    assert 2.0 * (1 - 1e-6) <= model.ledger_.spent <= 2.0
    assert model.ledger_.verify() == []
    (claim,) = model.claimed()
    assert claim.claimed is None and claim.sound <= 2.0
    scores = X["x0"] if task == "three" else model.coef_
    assert np.isfinite(scores).all() and np.isfinite(model.intercept_).all()


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rate", [1.0, 0.05])
@pytest.mark.parametrize("task", ["regression", "two"])
def test_the_plan_costs_epsilon(task, rate, relation):
    kind = LinearRegressor if task == "regression" else LinearClassifier
    learner = kind(epsilon=0.7, delta=1e-7, schema=schema_of(task), sampling_rate=rate,
                   relation=relation, n_steps=30)
    if rate < 1 and relation == "replace_one":
        refused(pl.errors.RelationMismatch, lambda: learner.plan())
        return
    cost = pl.epsilon(learner.plan(), 1e-7, relation)
    assert 0.7 * (1 - 1e-4) <= cost <= 0.7


def test_a_table_that_is_too_wide_is_refused_before_anything_is_asked():
    schema = schema_of("two", features=2048)
    X, y = {f"x{place}": np.zeros(50) for place in range(2048)}, ["n"] * 50
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    with pytest.raises(pl.InvalidValue, match="hinges=False"):
        LinearClassifier(schema=schema).fit(ledger.protect(X, y, schema))
    assert ledger.spent == 0 and not ledger.state.grants
    assert LinearClassifier(schema=schema, hinges=False).plan()


@pytest.mark.parametrize(("task", "kind", "least"), [
    ("regression", SGBDTRegressor, 0.9), ("two", SGBDTClassifier, 0.9),
    ("three", SGBDTClassifier, 0.8)])
def test_trees_begin_on_a_linear_model(task, kind, least, tmp_path):
    """Bounds lie far below what comes out; not a privacy test."""
    X, y = table(task)
    model = kind(epsilon=2.0, delta=1e-6, schema=schema_of(task), start="linear",
                 n_trees=50).fit(X, y)
    assert model.score(X, y) > least
    assert 2.0 * (1 - 1e-4) <= model.ledger_.spent <= 2.0 and model.ledger_.verify() == []
    assert model.feature_importances_[2] < 0.1 < model.feature_importances_[0]
    pl.save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(pl.load_model(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("wrong", [
    {"individual_filter": "gdp"}, {"start_share": 0.1}, {"linear_share": 0.0},
    {"linear_share": 0.95}, {"start": "trees"}, {"start": None}])
def test_a_start_that_cannot_be_is_refused(wrong):
    with pytest.raises(pl.InvalidValue):
        SGBDTClassifier(**{"schema": schema_of("two"), "start": "linear", **wrong}).plan()
    X, y = table("two", 200)
    with pytest.raises(pl.InvalidValue, match="stream"):
        SGBDTClassifier(schema=schema_of("two"), start="linear").partial_fit(X, y)


def test_waves_bend_where_a_plane_cannot():
    rng = np.random.default_rng(0)
    X = {"x0": rng.uniform(-1, 1, 4000), "x1": rng.uniform(-1, 1, 4000)}
    y = np.where(X["x0"] * X["x1"] > 0, "p", "n")
    fits = [LinearClassifier(epsilon=3.0, delta=1e-6, schema=schema_of("two", 2), unaccounted=True,
                             features=features).fit(X, y) for features in ("columns", "fourier")]
    plane, waves = (fit.score(X, y) for fit in fits)
    # 25 fits each: .647 (standard deviation .013) and .990 (.001). False alarm: below 1e-6.
    assert plane < 0.75 < 0.95 < waves
    assert fits[0].ledger_.spent == pytest.approx(fits[1].ledger_.spent)
    assert fits[1].feature_importances_ == pytest.approx([0.5, 0.5], abs=0.2)
    named = pl.Schema("t", (pl.Column("c", "categorical", "feature", categories=("a", "b")),
                            schema_of("two").target))
    with pytest.raises(pl.InvalidValue, match="number"):
        LinearClassifier(schema=named, features="fourier").plan()


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
def test_steps_on_samples_get_most_of_the_budget(rate):
    """With rows fall their sums, so noise has to fall, too; or all is spent on the start."""
    made = {one: LinearClassifier(1.0, 1e-6, schema_of("two"), sampling_rate=one)._recipe(
        schema_of("two")) for one in (1.0, rate)}
    whole, sampled = (one.rule.step_node(one.noise).noise_multiplier for one in made.values())
    assert sampled < max(1.5 * rate * whole, 1.0)
    assert pl.epsilon(made[rate].plan, 1e-6) <= 1.0


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_losses_for_tails_and_counts(loss, tmp_path):
    """Errors of Student's t; counts whose logarithm is linear. Bounds lie far below what comes
    out; not a privacy test."""
    rng = np.random.default_rng(3)
    X, score = table("regression")
    low, high = (-40.0, 40.0) if loss == "huber" else (0.0, 60.0)
    truth = score if loss == "huber" else np.exp(1 + score / 2)
    y = np.clip(score + rng.standard_t(1.5, len(score)) if loss == "huber" else
                rng.poisson(truth), low, high).astype(float)
    schema = pl.Schema("t", (*schema_of("regression").features,
                             pl.Column("y", "numeric", "target", low, high)))
    model = LinearRegressor(epsilon=2.0, delta=1e-6, schema=schema, loss=loss).fit(X, y)
    found = model.predict(X)
    assert np.square(found - truth).mean() < 0.15 * truth.var()
    assert low <= found.min() and found.max() <= high
    pl.save_model(model, tmp_path / "m.model")
    np.testing.assert_array_equal(pl.load_model(tmp_path / "m.model").predict(X), found)
    with pytest.raises(pl.PrivledgerError):
        LinearRegressor(schema=schema, loss="log").plan()
