"""PrivateSearchCV: one grant for all trials and scores, and nothing kept of the losers."""

import gc
import pickle

import numpy as np
import privledger_learners as learners
import pytest
from privledger_learners.search import expected_trials, success_of
from scipy.stats import randint
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import privledger as pl
from privledger.testing.fitting import recording
from tests.all_cases import all_cases
from tests.worlds import protected, refused

RNG = np.random.default_rng(2)
N = 1500
FEATURES = (pl.Column("a", "numeric", "feature", 0, 1),
            pl.Column("b", "numeric", "feature", 0, 1, missing=True),
            pl.Column("c", "categorical", "feature", categories=("u", "v"), missing=True))
SCHEMA = pl.Schema("t", (*FEATURES, pl.Column("y", "categorical", "target",
                                              categories=("no", "yes"))))
NUMBERS = pl.Schema("t", (*FEATURES, pl.Column("y", "numeric", "target", 0, 10)))
X = {"a": RNG.uniform(size=N), "b": np.where(RNG.uniform(size=N) < 0.1, np.nan,
                                             RNG.uniform(size=N)),
     "c": RNG.choice(np.array(["u", "v", None], dtype=object), N)}
Y = np.where(X["a"] > 0.5, "yes", "no")
GRID = {"depth": [1, 3]}


def search(**options):
    return learners.PrivateSearchCV(learners.JointTreeClassifier(), GRID, **{
        "epsilon": 4.0, "schema": SCHEMA, "mean_trials": 3.0, **options})


@pytest.mark.parametrize(("estimator", "grid", "options"), [
    (learners.JointTreeClassifier(), GRID, {}),
    (learners.JointTreeClassifier(), GRID, {"relation": "replace_one", "shape": 1.0}),
    (learners.JointTreeClassifier(), GRID, {"delta": 1e-6, "shape": -0.5}),
    (learners.SGBDTClassifier(n_trees=10), {"learning_rate": [0.1, 0.3]}, {"delta": 1e-6}),
    (learners.DiPriMeForestClassifier(n_trees=1), {"depth": randint(2, 4)},
     {"n_candidates": 3, "random_state": 1}),
], ids=["pure", "replaced", "delta", "gaussian", "drawn"])
def test_all_trials_and_scores_are_one_grant_of_epsilon(estimator, grid, options):
    model = learners.PrivateSearchCV(estimator, grid, **{
        "epsilon": 4.0, "schema": SCHEMA, "mean_trials": 3.0, **options})
    with recording() as asked:
        model.fit(X, Y)
    assert len(asked.sessions) == 1 and asked.sessions[0].releases == 1
    assert isinstance(model.plan(), pl.nodes.Tuning)
    assert model.plan() == model.plan(SCHEMA)
    assert model.ledger_.spent <= 4.0
    assert pl.epsilon(model.plan(), model.delta, model.relation) <= 4.0
    assert model.ledger_.verify() == []
    assert model.best_params_ in model.candidates_
    assert set(model.predict(X)) <= {"no", "yes"}
    assert model.predict_proba(X).shape == (N, 2)


def test_it_finds_what_learns_and_says_about_how_well():
    """The noise of a score has scale 2 / 25 of one record: no run is misjudged."""
    model = search(epsilon=50.0, mean_trials=20.0).fit(X, Y)
    assert model.best_score_ == pytest.approx(model.score(X, Y), abs=0.1)
    assert model.score(X, Y) > 0.9


def test_a_regressor_is_scored_between_public_bounds():
    target = 10 * X["a"]
    for scoring, worst in ((None, -100), ("neg_mean_absolute_error", -10)):
        model = learners.PrivateSearchCV(learners.JointTreeRegressor(), GRID, epsilon=20.0,
                                         schema=NUMBERS,
                                scoring=scoring, mean_trials=3.0, unaccounted=True).fit(X, target)
        assert worst <= model.best_score_ <= 0
        error = np.abs(model.predict(X) - target)
        exact = -(error**2).mean() if scoring is None else -error.mean()
        assert model.best_score_ == pytest.approx(exact, abs=0.1 * -worst)


def test_the_losers_are_gone():
    """Once the fit is over, the only models that live are the best one's."""
    def living():
        gc.collect()
        return [one for one in gc.get_objects() if type(one) is learners.JointTreeClassifier
                and hasattr(one, "forest_")]

    before = len(living())
    model = search(mean_trials=30.0).fit(X, Y)
    assert [one for one in living() if one is model.best_estimator_]
    assert len(living()) == before + 1


def test_nothing_says_how_many_trials_there_were():
    model = search(mean_trials=30.0)
    ledger = pl.Ledger.create(None, budget=pl.Budget(4.0))
    model.fit(ledger.protect(X, Y, SCHEMA))
    (grant,) = ledger.state.grants.values()
    assert grant.releases == 1
    assert not any(name.startswith(("cv_results", "n_trials", "trials")) for name in vars(model))


def test_copies_and_pickles_hold_no_ledger():
    model = search().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "ledger_") and not hasattr(again.best_estimator_, "ledger_")
    assert (again.predict(X) == model.predict(X)).all()
    assert clone(model).get_params()["mean_trials"] == 3.0


def test_a_ledger_refuses_it_unread_and_charges_what_it_plans():
    ledger, data = protected(pl.Budget(3.0), X, Y, SCHEMA)
    refused(pl.BudgetExceeded, lambda: search().fit(data))
    assert ledger.spent == 0
    search(epsilon=2.0).fit(data)
    assert ledger.spent == pytest.approx(2.0)
    with pytest.raises(pl.errors.RelationMismatch):
        search(relation="replace_one", epsilon=0.5).fit(data)


def test_a_policy_that_forbids_asserted_scores_refuses():
    ledger = pl.Ledger.create(None, budget=pl.Budget(4.0), policy=pl.Policy(4.0, 0.0))
    with pytest.raises(pl.errors.PolicyViolation, match="asserted-node"):
        search().fit(ledger.protect(X, Y, SCHEMA))
    assert ledger.verify() == []


def test_it_is_a_search_itself():
    table = np.stack([X["a"], X["a"]], axis=1)
    plain = pl.Schema("t", (*FEATURES[:1], pl.Column("b2", "numeric", "feature", 0, 1),
                            SCHEMA.target), array_layout=True)
    with pytest.raises(pl.NotGranted, match="PrivateSearchCV"):
        cross_val_score(search(schema=plain), table, Y, cv=2, error_score="raise")


def test_the_published_claim_is_shown_beside_the_price():
    steps = search().claimed()
    assert steps[0].sound == np.inf and steps[-1].sound <= 4.0


@all_cases("wrong", [
    {"epsilon": 0}, {"delta": -1}, {"mean_trials": 0.5}, {"mean_trials": np.nan}, {"shape": -1},
    {"shape": 1e-9}, {"held_out": 1}, {"scoring": "r2"}, {"relation": "replace_label"},
    {"mode": "loud"}, {"params": {"epsilon": [1.0, 2.0]}},
    {"estimator": learners.LabelPrivateClassifier},
    {"estimator": object()}, {"unaccounted": 1}])
def test_bad_parameters_are_refused(wrong):
    with recording() as asked, pytest.raises((pl.PrivledgerError, ValueError, TypeError)):
        search().set_params(**wrong).fit(X, Y)
    assert not asked.sessions


@all_cases("shape", [-0.5, 0.0, 0.5, 1.0, 10.0])
@all_cases("mean", [1.5, 10.0, 300.0])
def test_the_number_of_trials_is_as_expected(mean, shape):
    assert expected_trials(success_of(mean, shape), shape) == pytest.approx(mean, rel=1e-6)


def test_a_mean_that_no_law_of_the_shape_has_is_refused():
    with pytest.raises(pl.InvalidValue, match="mean_trials"):
        search(mean_trials=300.0, shape=-0.9).plan()
