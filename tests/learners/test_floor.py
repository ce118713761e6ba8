"""Where a model would be noise every learner predicts the prior or the mean, and says so."""

import warnings

import numpy as np
import privledger_learners as learners
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_learners.floor import Floor

import privledger as pl
from tests.all_cases import all_cases

CLASSIFIERS = [learners.AutoClassifier, learners.SGBDTClassifier, learners.DPBoostClassifier,
               learners.JointTreeClassifier,
               learners.DiPriMeForestClassifier, learners.MultinomialForestClassifier,
               learners.PrivateEnsembleClassifier]
REGRESSORS = [learners.AutoRegressor, learners.SGBDTRegressor, learners.DPBoostRegressor,
              learners.JointTreeRegressor,
              learners.DiPriMeForestRegressor]
EVERY = [*CLASSIFIERS, *REGRESSORS]


def schema_of(kind, rows=None):
    target = (pl.Column("t", "numeric", "target", 0.0, 10.0) if "regression" in kind.info.tasks
              else pl.Column("t", "categorical", "target", categories=("b", "a", "c")))
    return pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0), target),
                     expected_rows=rows,
                     expected_rows_provenance=None if rows is None else "declared")


def table_of(kind, n=400):
    x = np.linspace(0.0, 1.0, n)
    if "regression" in kind.info.tasks:
        return {"x": x}, 2.0 + 2 * (x > 0.5)
    return {"x": x}, np.where(x < 0.25, "b", np.where(x < 0.9, "a", "c"))


def one_answer(found):
    """The same for every row, but for rounding."""
    return len(np.unique(found)) == 1 if found.dtype.kind in "OU" else np.ptp(found) < 1e-6


def made(kind, epsilon, rows=None, **more):
    delta = 1e-6 if kind.__name__.startswith(("SGBDT", "Auto")) else 0.0
    return kind(epsilon=epsilon, delta=delta, schema=schema_of(kind, rows), unaccounted=True,
                **more)


@all_cases("kind", EVERY)
def test_declared_rows_below_the_floor_buy_the_prior_or_the_mean(kind):
    """400 rows were declared, and all of epsilon .01 goes into one answer: two thirds are "a"."""
    model = made(kind, 0.01, 400, mode="simulation", random_state=1)
    plan = model.plan()
    assert isinstance(plan, pl.Laplace | pl.Gaussian)
    assert 0.01 * (1 - 1e-3) <= pl.epsilon(plan, model.delta) <= 0.01
    assert model.claimed()[-1].sound == pl.epsilon(plan, model.delta)
    X, y = table_of(kind)
    with pytest.warns(learners.NoiseFloorWarning, match="400 rows times epsilon 0.01"):
        model.fit(X, y)
    assert "400 rows" in model.fell_back_
    found = model.predict(X)
    assert one_answer(found)
    assert model.ledger_.spent <= 0.01
    if "regression" in kind.info.tasks:
        assert 0.0 <= found[0] <= 10.0
    else:
        assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
        assert set(found) <= {"a", "b", "c"}


@pytest.mark.parametrize("kind", EVERY)
def test_above_the_floor_nothing_is_said(kind):
    """A table of 400 rows at epsilon 5: 2,000 are ten times what any floor asks."""
    for rows in (None, 400):
        model = made(kind, 5.0, rows)
        X, y = table_of(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error", learners.NoiseFloorWarning)
            model.fit(X, y)
        assert model.fell_back_ == ""
        assert not one_answer(model.predict(X))


@pytest.mark.parametrize("kind", [one for one in EVERY if not one.__name__.startswith("Auto")])
def test_without_declared_rows_the_bought_number_decides(kind):
    """The plan cannot know: it is reserved whole, and what is bought says that it is noise.

    Seeded noise, seed 0: a bought count of 400 rows at epsilon .01 is mostly below the floor.
    """
    said = []
    for seed in range(4):
        model = made(kind, 0.01, mode="simulation", random_state=seed)
        assert not isinstance(model.plan(), pl.Laplace)
        X, y = table_of(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", learners.NoiseFloorWarning)
            model.fit(X, y)
        if model.fell_back_:
            said.append(model.predict(X))
    assert said and all(one_answer(found) for found in said)


@pytest.mark.parametrize("kind", [learners.DiPriMeForestClassifier, learners.JointTreeRegressor,
                                  learners.MultinomialForestClassifier,
                                  learners.PrivateEnsembleClassifier])
def test_a_depth_that_was_asked_for_is_grown(kind):
    model = made(kind, 0.01, 400, depth=1)
    assert not isinstance(model.plan(), pl.Laplace)
    X, y = table_of(kind)
    assert model.fit(X, y).fell_back_ == ""


@settings(max_examples=30, deadline=None)
@given(shares=st.lists(st.integers(0, 10**6), min_size=2, max_size=6),
       epsilon=st.floats(1e-3, 10.0), seed=st.integers(0, 1000))
def test_the_prior_is_a_law_whatever_the_noise_says(shares, epsilon, seed):
    """Shares are positive and add up to one; with noise that is far below the counts they are
    the true ones."""
    labels = [f"c{place}" for place in range(len(shares))]
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0),
                             pl.Column("t", "categorical", "target", categories=labels)))
    floor = Floor.pure(schema, "add_remove", epsilon, "why")

    class Said:
        """A session whose answer is given, moved by noise of the plan's own size."""

        def release(self, plan, query):
            noise = np.random.default_rng(seed).laplace(size=len(shares)) * plan.scale
            return np.array(shares, dtype=float) + noise

    class Data:
        """Nothing is read."""

        def histogram(self, name):
            return name

    found = floor.shares(Said(), Data())
    assert (found > 0).all() and found.sum() == pytest.approx(1.0)
    if min(shares) > 1e3 * 25 / epsilon:
        assert found == pytest.approx(np.array(shares) / sum(shares), abs=0.01)


def test_the_mean_is_close_where_rows_are_many_for_one_number():
    """4,000 rows at epsilon .02: noise of 50 in sums of 1,200 and 4,000. More than ten times
    that is needed to be off by .15 of the range, with a chance of e^-12 twice over."""
    schema = schema_of(learners.JointTreeRegressor, 4000)
    X, y = table_of(learners.JointTreeRegressor, 4000)
    with pytest.warns(learners.NoiseFloorWarning):
        model = learners.JointTreeRegressor(epsilon=0.02, schema=schema, unaccounted=True).fit(X, y)
    assert abs(model.predict(X)[0] - 3.0) < 1.5


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", [learners.SGBDTClassifier, learners.JointTreeRegressor])
def test_the_floor_is_priced_under_both_relations(kind, relation):
    model = made(kind, 0.01, 400, relation=relation)
    assert 0.01 * (1 - 1e-3) <= pl.epsilon(model.plan(), model.delta, relation) <= 0.01
    X, y = table_of(kind)
    with pytest.warns(learners.NoiseFloorWarning):
        model.fit(X, y)
    assert model.ledger_.verify() == []


@pytest.mark.parametrize("kind", EVERY)
def test_a_model_that_fell_back_is_kept(kind, tmp_path):
    X, y = table_of(kind)
    with pytest.warns(learners.NoiseFloorWarning):
        model = made(kind, 0.01, 400).fit(X, y)
    pl.save_model(model, tmp_path / "m")
    found = pl.load_model(tmp_path / "m")
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert found.fell_back_ == model.fell_back_


def test_a_ledger_of_gaussian_currency_prices_the_floor_of_boosting():
    X, y = table_of(learners.SGBDTClassifier)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect(X, y, schema_of(learners.SGBDTClassifier, 400))
    with pytest.warns(learners.NoiseFloorWarning):
        learners.SGBDTClassifier(epsilon=0.01, delta=1e-6).fit(data)
    assert 0 < ledger.spent < 1
