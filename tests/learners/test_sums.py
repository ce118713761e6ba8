"""Learners of a few sums: textbook answers without noise, intervals that cover, refusals."""

import numpy as np
import pytest
from attrs import evolve
from privledger_learners import (
    LeastSquaresRegressor,
    NaiveBayesClassifier,
    NearestCentroidClassifier,
    PrivateKMeans,
    PrivatePCA,
)
from privledger_learners.naive_bayes import ClassMoments
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import refused

NUMBERS = (pl.Column("a", "numeric", "feature", -6.0, 6.0),
           pl.Column("b", "numeric", "feature", 0.0, 12.0))
CLASSES = pl.Schema("c", (*NUMBERS, pl.Column("c", "categorical", "feature",
                                              categories=("x", "y")),
                          pl.Column("t", "categorical", "target", categories=("n", "p", "q"))))
LINE = pl.Schema("l", (*NUMBERS, pl.Column("y", "numeric", "target", -20.0, 20.0)))
ALL = (NaiveBayesClassifier, NearestCentroidClassifier, LeastSquaresRegressor, PrivateKMeans,
       PrivatePCA)
QUIET = {"epsilon": 1e5, "unaccounted": True}


def groups(n=3000, seed=0):
    """Three clouds of two numbers and a category; labels."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    X = {"a": rng.normal(np.array([-3.0, 0.0, 3.0])[label], 1).clip(-6, 6),
         "b": rng.normal(np.array([3.0, 9.0, 4.0])[label], 1).clip(0, 12),
         "c": np.where(rng.random(n) < np.array([0.2, 0.5, 0.9])[label], "x", "y")}
    return X, np.array(["n", "p", "q"])[label]


def line(n, seed=0):
    """y = 1 + 2a - b and errors."""
    rng = np.random.default_rng(seed)
    X = {"a": rng.uniform(-5, 5, n), "b": rng.uniform(1, 8, n)}
    return X, 1 + 2 * X["a"] - X["b"] + rng.normal(0, 1.5, n)


def numbers(X):
    return np.stack([X["a"], X["b"]], axis=1)


def schema_of(kind):
    return LINE if kind is LeastSquaresRegressor else CLASSES


def test_a_naive_bayes_says_the_log_of_its_law():
    """Normal densities of numbers and shares of categories; what is missing adds nothing."""
    draw = np.random.default_rng(5)
    numbers = [evolve(column, missing=True) for column in NUMBERS]
    schema = pl.Schema("c", (*numbers, *CLASSES.columns[2:]))
    base, means = np.log(draw.dirichlet(np.ones(3))), draw.uniform(-1, 1, (3, 2))
    spreads, tables = draw.uniform(0.01, 0.5, (3, 2)), np.log(draw.dirichlet([1, 1], 3))
    model = ClassMoments(schema, base, means, spreads, tables)
    a, b, c = draw.uniform(-6, 6, 60), draw.uniform(0, 12, 60), draw.integers(0, 2, 60)
    a[:20], b[10:30] = np.nan, np.nan
    found = model.logs({"a": a, "b": b, "c": np.array(["x", "y"])[c]})
    normal = norm(means, np.sqrt(spreads))
    each = normal.logpdf(np.stack([a / 6, b / 6 - 1], axis=1)[:, None, :])
    truth = base + np.nan_to_num(each + np.log(2 * np.pi) / 2).sum(axis=2) + tables[:, c].T
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "book"), [
    (NaiveBayesClassifier, GaussianNB()), (NearestCentroidClassifier, NearestCentroid())])
def test_without_noise_classes_are_those_of_the_textbook(kind, book):
    X, y = groups()
    found = kind(schema=CLASSES.select(("a", "b")), **QUIET).fit(X, y)
    assert (found.predict(X) == book.fit(numbers(X), y).predict(numbers(X))).mean() > 0.995
    with_category = kind(schema=CLASSES, **QUIET).fit(X, y)
    assert with_category.score(X, y) > found.score(X, y) - 0.002
    assert kind(schema=CLASSES.select(("c",)), **QUIET).fit(X, y).score(X, y) > 0.5


def test_without_noise_a_line_is_that_of_the_textbook():
    X, y = line(4000)
    found = LeastSquaresRegressor(schema=LINE, **QUIET).fit(X, y)
    book = LinearRegression().fit(numbers(X), y)
    assert found.coef_ == pytest.approx(book.coef_, abs=1e-3)
    assert found.intercept_ == pytest.approx(book.intercept_, abs=1e-3)
    design = np.column_stack([np.ones(4000), numbers(X)])
    left = y - book.predict(numbers(X))
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (left @ left) / 3997)
    assert found.standard_errors_ == pytest.approx(errors, rel=0.01)
    assert (found.noise_errors_ < 0.01 * errors).all()


@pytest.mark.parametrize(("n", "epsilon"), [(2000, 1.0), (20000, 3.0)])
def test_intervals_cover_the_line_with_noise_and_without(n, epsilon):
    """80 intervals of 95 %. Fewer than 57 of them have probability below 1e-10."""
    hits = np.zeros(3)
    for seed in range(80):
        model = LeastSquaresRegressor(epsilon=epsilon, schema=LINE, unaccounted=True,
                                      mode="simulation", random_state=seed).fit(*line(n, seed))
        low, high = model.intervals().T
        hits += (low <= [1, 2, -1]) & (high >= [1, 2, -1])
        assert (model.noise_errors_ <= model.standard_errors_).all()
    assert (hits >= 57).all()


def test_intervals_are_infinite_where_noise_is_all_there_is():
    model = LeastSquaresRegressor(epsilon=1.0, schema=LINE, unaccounted=True, mode="simulation",
                                  random_state=1).fit(*line(120))
    assert np.isinf(model.standard_errors_).all() and np.isinf(model.intervals()).all()
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_)
    refused(pl.InvalidValue, lambda: model.intervals(1.0))


def test_without_noise_clusters_and_components_are_those_of_the_textbook():
    X, _ = groups()
    only = pl.Schema("f", NUMBERS)  # a table without a target
    found = PrivateKMeans(schema=only, n_clusters=3, n_rounds=8, **QUIET).fit(X)
    scaled = numbers(X) / 6 - [0, 1]
    book = KMeans(3, n_init=3, random_state=0).fit(scaled)
    assert np.sort(found.cluster_centers_[:, 0]) == pytest.approx([-3, 0, 3], abs=0.15)
    assert np.square(found.transform(X)).min(axis=1).sum() < 1.01 * book.inertia_
    assert (found.predict(X) == found.transform(X).argmin(axis=1)).all()
    assert found.counts_.sum() == pytest.approx(3000, abs=5)
    axes, known = PrivatePCA(schema=only, **QUIET).fit(X), PCA().fit(scaled)
    assert np.abs((axes.components_ * known.components_).sum(axis=1)) == pytest.approx(1, abs=1e-3)
    assert axes.explained_variance_ == pytest.approx(known.explained_variance_, rel=1e-2)
    assert axes.explained_variance_ratio_.sum() == pytest.approx(1)
    assert axes.inverse_transform(axes.transform(X)) == pytest.approx(scaled)
    one = PrivatePCA(schema=only, n_components=1, **QUIET).fit(X)
    assert one.transform(X).shape == (3000, 1)
    assert list(one.get_feature_names_out()) == ["privatepca0"]


@all_cases("kind", ALL)
@all_cases("relation", ["add_remove", "replace_one"])
def test_the_plan_costs_epsilon_and_fits_a_table_with_or_without_a_target(kind, relation):
    learner = kind(epsilon=0.7, delta=1e-7, schema=schema_of(kind), relation=relation)
    assert 0.7 * (1 - 1e-4) <= pl.epsilon(learner.plan(), 1e-7, relation) <= 0.7
    (claim,) = learner.claimed()
    assert claim.claimed is None and claim.sound <= 0.7
    data = line(500) if kind is LeastSquaresRegressor else groups(500)
    learner.fit(*data)
    assert learner.ledger_.spent <= 0.7 and learner.ledger_.verify() == []


@all_cases("kind", ALL)
@all_cases("wrong", [
    {"delta": 0.0}, {"epsilon": np.nan}, {"mode": "public"}, {"relation": "replace_label"}])
def test_bad_parameters_are_refused(kind, wrong):
    refused(pl.PrivledgerError, lambda: kind(**{"schema": schema_of(kind), **wrong}).plan())


@pytest.mark.parametrize(("kind", "wrong"), [
    (PrivateKMeans, {"n_clusters": 0}), (PrivateKMeans, {"n_rounds": True}),
    (PrivatePCA, {"n_components": 3}), (PrivatePCA, {"schema": CLASSES.select(("c",))}),
    (LeastSquaresRegressor, {"schema": CLASSES}), (PrivateKMeans, {"schema": None}),
    (LeastSquaresRegressor, {"schema": pl.Schema("l", (LINE.target, *CLASSES.features))})])
def test_what_cannot_be_asked_is_refused_before_anything_is(kind, wrong):
    refused(pl.PrivledgerError, lambda: kind(**{"schema": schema_of(kind), **wrong}).plan())


def test_few_rows_predict_the_largest_class_or_the_mean():
    X, y = groups(15)
    schema = evolve(CLASSES, expected_rows=15, expected_rows_provenance="declared: made here")
    with pytest.warns(UserWarning, match="largest class"):
        model = NaiveBayesClassifier(schema=schema, epsilon=0.5, unaccounted=True).fit(X, y)
    assert len(set(model.predict(X))) == 1 and model.fell_back_
