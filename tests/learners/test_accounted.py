"""Searches, cross-validations and ensembles do not spend on plain tables where nobody adds up."""

import gc
import warnings

import numpy as np
import privledger_learners as learners
import pytest
from joblib import parallel_config
from privledger_learners.accounted import UnaccountedWarning
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import (
    enable_halving_search_cv,  # noqa: F401
    enable_iterative_imputer,  # noqa: F401
)
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.impute import IterativeImputer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import SelfTrainingClassifier

import privledger as pl
from privledger.testing.fitting import recording
from tests.all_cases import all_cases

SCHEMA = pl.Schema("t", (
    pl.Column("a", "numeric", "feature", 0.0, 1.0), pl.Column("b", "numeric", "feature", 0.0, 1.0),
    pl.Column("y", "categorical", "target", categories=(0, 1))), array_layout=True)
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(60, 2))
Y = (X[:, 0] > 0.5).astype(int)
GRID = {"depth": [1, 2]}


def test_one_that_was_not_cloned_is_refused_at_its_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="NotGranted"):
            GridSearchCV(Late(), {}, cv=2).fit(X, Y)


def learner(**options):
    return learners.JointTreeClassifier(**{"epsilon": 1.0, "schema": SCHEMA, "depth": 1, **options})


class Late(learners.JointTreeClassifier):
    """A learner that is made inside of a worker, past the clone."""

    def __init__(self, epsilon=1.0):
        super().__init__(epsilon)

    def __sklearn_clone__(self):
        return Late(self.epsilon)

    def fit(self, X, y):
        return learner().fit(X, y)


TOOLS = {
    "GridSearchCV": lambda model: GridSearchCV(model, GRID, cv=2).fit(X, Y),
    "RandomizedSearchCV": lambda model: RandomizedSearchCV(model, GRID, n_iter=2, cv=2).fit(X, Y),
    "HalvingGridSearchCV": lambda model: HalvingGridSearchCV(model, GRID, cv=2).fit(X, Y),
    "cross_val_score": lambda model: cross_val_score(model, X, Y, cv=2),
    "cross_validate": lambda model: cross_validate(model, X, Y, cv=2),
    "cross_val_predict": lambda model: cross_val_predict(model, X, Y, cv=2),
    "learning_curve": lambda model: learning_curve(model, X, Y, cv=2, error_score="raise"),
    "validation_curve": lambda model: validation_curve(
        model, X, Y, param_name="depth", param_range=[1, 2], cv=2, error_score="raise"),
    "permutation_test_score": lambda model: permutation_test_score(
        model, X, Y, cv=2, n_permutations=2),
    "StackingClassifier": lambda model: StackingClassifier([("one", model)], cv=2).fit(X, Y),
    "VotingClassifier": lambda model: VotingClassifier([("a", model), ("b", model)]).fit(X, Y),
    "BaggingClassifier": lambda model: BaggingClassifier(model, 2).fit(X, Y),
    "CalibratedClassifierCV": lambda model: CalibratedClassifierCV(model, cv=2).fit(X, Y),
    "OneVsRestClassifier": lambda model: OneVsRestClassifier(model).fit(X, Y),
    "OneVsOneClassifier": lambda model: OneVsOneClassifier(model).fit(X, Y),
    "MultiOutputClassifier": lambda model: MultiOutputClassifier(model).fit(X, np.stack([Y, Y]).T),
    "ClassifierChain": lambda model: ClassifierChain(model).fit(X, np.stack([Y, Y]).T),
    "SelfTrainingClassifier": lambda model: SelfTrainingClassifier(model).fit(X, Y),
    "SequentialFeatureSelector": lambda model: SequentialFeatureSelector(model, cv=2).fit(X, Y),
    "IterativeImputer": lambda model: IterativeImputer(model, max_iter=2).fit(
        np.where(np.eye(len(X), np.shape(X)[1]) > 0, np.nan, np.asarray(X, dtype=float))),
    "a pipeline in a search": lambda model: GridSearchCV(
        make_pipeline(FunctionTransformer(), model), {}, cv=2).fit(X, Y),
    "a search in threads": lambda model: _in_threads(model)}


def _in_threads(model):
    with parallel_config(backend="threading"):
        return GridSearchCV(model, GRID, cv=2, n_jobs=2).fit(X, Y)


def refused(call):
    """Whether it was refused with an error of our own, before any ledger was asked."""
    with recording() as asked, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except pl.NotGranted as refusal:
            assert "PrivateSearchCV" in str(refusal)
    return not asked.sessions


@all_cases("tool", TOOLS)
def test_a_fit_in_a_search_is_refused_and_nothing_is_asked(tool):
    assert refused(lambda: TOOLS[tool](learner()))


@pytest.mark.parametrize("tool", ["GridSearchCV", "cross_val_score", "BaggingClassifier"])
def test_whoever_takes_it_on_says_so(tool):
    with recording() as asked:
        TOOLS[tool](learner(unaccounted=True))
    assert len(asked.sessions) >= 2


@pytest.mark.parametrize("model", [
    learners.SGBDTClassifier(delta=1e-6), learners.DPBoostClassifier(),
    learners.PrivateEnsembleClassifier(),
    learners.LabelPrivateClassifier(), learners.DPSIS(k=1)], ids=lambda model: type(model).__name__)
def test_every_learner_refuses_and_its_clone_keeps_the_word(model):
    model = clone(model).set_params(schema=SCHEMA)
    assert refused(lambda: cross_validate(model, X, Y, cv=2, error_score="raise",
                                          scoring=lambda *_: 0.0))
    assert clone(model.set_params(unaccounted=True)).unaccounted is True


def test_a_regressor_refuses():
    schema = pl.Schema("t", (*SCHEMA.features, pl.Column("y", "numeric", "target", 0.0, 1.0)),
                       array_layout=True)
    model = learners.DiPriMeForestRegressor(schema=schema)
    assert refused(lambda: GridSearchCV(model, {}, cv=2).fit(X, X[:, 0]))
    assert refused(lambda: RFECV(model, cv=2).fit(X, X[:, 0]))


@pytest.mark.slow
def test_worker_processes_refuse():
    """Here without the refusal at the first clone: what is fitted was cloned elsewhere."""
    with pytest.raises(pl.NotGranted):
        GridSearchCV(learner(), GRID, cv=2, n_jobs=2).fit(X, Y)
    with pytest.raises(ValueError, match="NotGranted"):
        GridSearchCV(Late(), {}, cv=2, n_jobs=2).fit(X, Y)


@pytest.mark.parametrize("word", [1, "yes", None, np.True_])
def test_the_word_is_true_or_false(word):
    with pytest.raises(pl.InvalidValue):
        learner(unaccounted=word).fit(X, Y)


def test_a_pipeline_alone_is_one_fit():
    make_pipeline(FunctionTransformer(), learner()).fit(X, Y)


def caught(call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kept = call()
    return [one for one in said if issubclass(one.category, UnaccountedWarning)], kept


def test_rows_that_another_living_ledger_holds_are_warned_about():
    rows = np.random.default_rng(6).uniform(size=(300, 2))
    labels = (rows[:, 0] > 0.5).astype(int)
    said, first = caught(lambda: learner().fit(rows[:200], labels[:200]))
    assert not said
    said, second = caught(lambda: learner().fit(rows[200:], labels[200:]))
    assert not said  # other people
    said, third = caught(lambda: learner().fit(rows[::-1][:200], labels[::-1][:200]))
    assert len(said) == 1 and "adds up" in str(said[0].message)
    said, _ = caught(lambda: learner(unaccounted=True).fit(rows[:200], labels[:200]))
    assert not said
    del first, second, third
    gc.collect()
    said, _ = caught(lambda: learner().fit(rows[:200], labels[:200]))
    assert not said  # what was remembered went with its ledgers


def test_a_small_part_of_a_large_table_is_recognised():
    rows = np.random.default_rng(7).uniform(size=(20_000, 2))
    labels = (rows[:, 0] > 0.5).astype(int)
    _, whole = caught(lambda: learner().fit(rows, labels))
    said, _ = caught(lambda: learner().fit(rows[::50], labels[::50]))
    assert len(said) == 1
    assert whole is not None
