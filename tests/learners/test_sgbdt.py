"""S-GBDT: what a user sees, on small made-up tables."""

import numpy as np
import pytest
from privledger_learners import SGBDTClassifier, SGBDTRegressor
from sklearn.metrics import roc_auc_score

import privledger as pl
from tests.learners.with_gaps import NUMBER, N, labels, schema, table
from tests.worlds import protected, refused


def test_it_learns_and_its_price_is_its_epsilon():
    X, y = table()
    model = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=schema(NUMBER)).fit(X, y)
    assert model.score(X, y) > 0.5
    assert 1.999 < model.ledger_.spent <= 2.0
    assert pl.epsilon(model.plan(schema(NUMBER)), 1e-6) <= 2.0
    assert model.ledger_.verify() == []
    assert model.receipt_.head == model.ledger_.receipt.head


@pytest.mark.parametrize("names", [("yes", "no"), ("no", "yes"), (1, 0), ("c", "a", "b")])
def test_columns_of_probabilities_follow_sorted_classes(names):
    """scikit-learn's scorers rely on it, whatever the order of the schema's list."""
    X, y = table(names)
    model = SGBDTClassifier(epsilon=4.0, delta=1e-6, schema=schema(labels(*names))).fit(X, y)
    assert model.classes_.tolist() == sorted(names)
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(1), 1)
    auc = roc_auc_score(y, proba[:, 1] if len(names) == 2 else proba, multi_class="ovr")
    assert auc > 0.85
    assert model.score(X, y) > 0.6
    assert (model.classes_[proba.argmax(1)] == model.predict(X)).mean() > 0.999
    if len(names) == 2:
        assert roc_auc_score(y == sorted(names)[1], model.decision_function(X)) > 0.85


def test_prediction_takes_unseen_categories_and_missing_cells():
    X, y = table()
    model = SGBDTRegressor(epsilon=1.0, delta=1e-6, schema=schema(NUMBER)).fit(X, y)
    strange = {"size": [np.nan, 5.0], "colour": ["violet", None]}
    assert np.isfinite(model.predict(strange)).all()


@pytest.mark.parametrize("options", [
    {"sampling_rate": 0.2}, {"static_noise": True}, {"splits": "random", "leaf": "ratio"},
    {"individual_filter": "gdp", "extra_rounds": 10, "rollover": True},
    {"individual_filter": "gdp", "extra_rounds": 10}, {"relation": "replace_one"},
    {"individual_filter": "renyi", "sampling_rate": 0.3, "extra_rounds": 10},
    {"falling_clip": True, "individual_filter": "gdp"}, {"falling_clip": False},
    {"start_share": 0.0, "gradient_clip": 0.3}, {"depth": 1}, {"n_trees": 1}])
def test_every_option_stays_inside_its_budget(options):
    X, y = table()
    chosen = {"n_trees": 30, **options}
    model = SGBDTRegressor(epsilon=1.5, delta=1e-6, schema=schema(NUMBER), **chosen).fit(X, y)
    assert model.ledger_.spent <= 1.5
    assert model.ledger_.verify() == []
    assert np.isfinite(model.predict(X)).all()


def test_late_arrivals_bring_their_own_budget():
    X, y = table()
    learner = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=schema(NUMBER), n_trees=40)
    parts = [({k: v[first:last] for k, v in X.items()}, y[first:last])
             for first, last in ((0, 700), (700, N))]
    ledger, data = protected(pl.Budget(2.0, 1e-6), *parts[0], schema(NUMBER))
    learner.partial_fit(data)
    learner.partial_fit(ledger.append(data, *parts[1]))
    assert learner.n_trees_ == 80
    assert learner.ledger_.spent <= 2.0
    early, late = ledger.record(3), ledger.record(1000)
    assert [line.rounds > 0 for line in early.lines] == [True, True]
    assert [line.rounds > 0 for line in late.lines] == [False, True]
    for spend in (early, late):
        assert spend.total <= learner.stream_scope_.node.cap
    assert learner.ledger_.verify() == []


def test_a_stream_of_plain_tables_stays_within_its_budget():
    X, y = table()
    learner = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=schema(NUMBER), n_trees=10)
    for first, last in ((0, 700), (700, N)):
        learner.partial_fit({k: v[first:last] for k, v in X.items()}, y[first:last])
    assert learner.n_trees_ == 20
    assert 0 < learner.ledger_.spent <= 2.0
    assert learner.ledger_.verify() == []


@pytest.mark.parametrize("options", [
    {"individual_filter": "renyi", "extra_rounds": 100}, {"extra_rounds": 15},
    {"individual_filter": "gdp", "extra_rounds": 5, "static_noise": True},
    {"individual_filter": "renyi", "sampling_rate": 0.3, "extra_rounds": 5}])
@pytest.mark.parametrize("names", [("a", "b"), None])
def test_a_stream_reserves_the_extra_rounds_that_it_runs(options, names):
    """The plan held `n_trees` rounds, and the fit asked for the extra ones, too."""
    X, y = table(names)
    made = SGBDTClassifier if names else SGBDTRegressor
    target = labels(*names) if names else NUMBER
    learner = made(1.0, 1e-6, schema(target), n_trees=10, **options)
    rounds = 10 + options["extra_rounds"]
    for call, (first, last) in enumerate(((0, 700), (700, 1100), (1100, N)), 1):
        learner.partial_fit({k: v[first:last] for k, v in X.items()}, y[first:last])
        assert learner.n_trees_ == call * rounds
    assert learner.stream_scope_.node.kind == options.get("individual_filter", "gdp")
    assert 0.9 < learner.ledger_.spent <= 1.0
    assert learner.ledger_.verify() == []


def test_a_fit_in_a_scope_reserves_the_extra_rounds_that_it_runs():
    X, y = table()
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.03))
    learner = SGBDTRegressor(0.5, 1e-6, schema(NUMBER), n_trees=10, extra_rounds=7, scope=scope)
    assert learner.fit(ledger.protect(X, y, schema(NUMBER))).n_trees_ == 17
    assert ledger.verify() == []


@pytest.mark.parametrize(("options", "name"), [
    ({"sampling_rate": 0.3}, "individual_filter"), ({"n_trees": 0}, "n_trees"),
    ({"individual_filter": "gdp", "sampling_rate": 0.3}, "individual_filter")])
def test_what_no_stream_can_do_is_refused_before_anything_is_opened(options, name):
    X, y = table()
    learner = SGBDTRegressor(1.0, 1e-6, schema(NUMBER), **options)
    refused(pl.InvalidValue, lambda: learner.partial_fit(X, y), match=name)
    assert not hasattr(learner, "stream_scope_")


def test_what_a_scope_makes_useless_is_an_error():
    X, y = table()
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.03))
    data = ledger.protect(X, y, schema(NUMBER))
    for options, name in (({"individual_filter": "renyi"}, "individual_filter"),
                          ({"sampling_rate": 0.5}, "scope")):
        with pytest.raises(pl.InvalidValue, match=name):
            SGBDTRegressor(0.5, 1e-6, schema(NUMBER), scope=scope, **options).fit(data)
    with pytest.raises(pl.InvalidValue, match="scope"):
        SGBDTRegressor(0.5, 1e-6, schema(NUMBER), scope=scope).partial_fit(X, y)


def test_only_the_owner_appends_to_a_guarded_table():
    X, y = table()
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6))
    learner = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=schema(NUMBER), n_trees=10)
    learner.partial_fit(ledger.protect(X, y, schema(NUMBER)))
    refused(pl.NotGranted, lambda: learner.partial_fit(X, y), match="append")


def test_two_learners_share_one_cap_per_record():
    X, y = table()
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    mu = 1 / pl.calibrate(pl.Gaussian, 1.0, 1e-6)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", mu**2))
    paid = ledger.spent
    data = ledger.protect(X, y, schema(NUMBER), name="people")
    for epsilon in (0.7, 1.0):
        SGBDTRegressor(epsilon=epsilon, delta=1e-6, schema=schema(NUMBER), scope=scope,
                       rollover=True, n_trees=30).fit(data)
    assert ledger.spent == paid <= 1.0
    totals = [ledger.record(row).total for row in range(0, N, 50)]
    assert max(totals) <= mu**2
    assert ledger.verify() == []
