"""Every shipped learner against the conformance kit and scikit-learn's own checks: one table.

By default each learner's first setting meets every check but the dear ones, and each other setting
its price and one more check, in turn; `pytest -m slow` runs all the rest on all settings.
"""

from importlib.metadata import entry_points

import pytest
from privledger_learners import (
    DPSIS,
    AutoClassifier,
    AutoRegressor,
    DiPriMeForestClassifier,
    DiPriMeForestRegressor,
    DPBoostClassifier,
    DPBoostRegressor,
    DPDFClassifier,
    DPERTClassifier,
    DPERTRegressor,
    DPRFClassifier,
    DPRFRegressor,
    DPSISTwoStage,
    JointTreeClassifier,
    JointTreeRegressor,
    LabelPrivateClassifier,
    LeastSquaresRegressor,
    LinearClassifier,
    LinearRegressor,
    MarginalSynthesizer,
    MaxTreeClassifier,
    MultinomialForestClassifier,
    NaiveBayesClassifier,
    NearestCentroidClassifier,
    PrivateEnsembleClassifier,
    PrivateKMeans,
    PrivatePCA,
    RDTClassifier,
    SGBDTClassifier,
    SGBDTRegressor,
    SRTClassifier,
    SSRDTClassifier,
    TOPClassifier,
)
from privledger_learners.statistics import Summary, between, corr, count, mean, quantile
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import privledger as pl
from privledger.testing import CHECKS


def same_scores(X, y):
    return X.shape[1] * [1.0]


class Numbers(DPSIS):
    """The same on the kit's table with a number as its target."""

    info = pl.LearnerInfo("numbers", "DP-SIS on a number", tasks=("regression", "classification"))


class Classes(DPSIS):
    """The same on the kit's table with classes only: nothing else has sizes to balance."""

    info = pl.LearnerInfo("classes", "DP-SIS on classes", tasks=("classification",))


class Pairs(MarginalSynthesizer):
    """The same on the kit's table with a number as its target."""

    info = pl.LearnerInfo("pairs", "a tree of pairs", tasks=("regression",))


SMALL, ROUNDS = {"n_trees": 2, "max_depth": 2}, {"delta": 1e-6, "n_trees": 8}
FORESTS = (DPRFClassifier, DPERTClassifier, RDTClassifier, DPDFClassifier, MaxTreeClassifier,
           SRTClassifier, DPRFRegressor, DPERTRegressor)
FIRST = [  # (class, parameters): one setting of every learner, but for baselines that are alike
    (RDTClassifier, SMALL), (DPERTRegressor, SMALL), (SSRDTClassifier, {}),
    (AutoClassifier, {"delta": 0.0, "relation": "replace_one"}), (AutoRegressor, {"delta": 0.0}),
    (DiPriMeForestClassifier, {}), (DiPriMeForestRegressor, {}),
    (DPBoostRegressor, {}), (DPBoostClassifier, {}), (DPSIS, {"k": 2}), (DPSISTwoStage, {"k": 2}),
    (JointTreeClassifier, {}), (JointTreeRegressor, {}), (LabelPrivateClassifier, {"n_trees": 5}),
    (NaiveBayesClassifier, {}), (NearestCentroidClassifier, {}), (LeastSquaresRegressor, {}),
    (PrivateKMeans, {"n_clusters": 3, "n_rounds": 2}), (PrivatePCA, {}),
    (LinearClassifier, {"delta": 1e-6, "n_steps": 12}),
    (LinearRegressor, {"delta": 1e-6, "n_steps": 12}),
    (MarginalSynthesizer, {"delta": 1e-6}),
    (MultinomialForestClassifier, {}), (PrivateEnsembleClassifier, {}),
    (SGBDTRegressor, ROUNDS), (SGBDTClassifier, ROUNDS), (Summary, {})]
OTHERS = [
    *((kind, SMALL) for kind in FORESTS[:2]), *((kind, SMALL) for kind in FORESTS[3:7]),
    (TOPClassifier, {}),
    *((kind, {"n_trees": 2, "depth": 2, "relation": "replace_one"}) for kind in FORESTS),
    *((kind, {"delta": 1e-6, "n_trees": 2, "depth": 1}) for kind in FORESTS),
    (DiPriMeForestClassifier, {"variant": "base", "n_trees": 3, "partitioned": True, "depth": 3}),
    (DiPriMeForestClassifier, {"variant": "exp", "relation": "replace_one", "max_depth": 3}),
    (DiPriMeForestClassifier, {"variant": "flip", "delta": 1e-6, "n_trees": 2, "depth": 2}),
    (DiPriMeForestRegressor, {"variant": "exp", "n_trees": 3, "partitioned": True,
                              "relation": "replace_one", "depth": 2}),
    (DPBoostRegressor, {"n_trees": 10, "parts": 5, "depth": 2, "gradient_filtering": True,
                        "geometric": "leaves"}),
    (DPBoostClassifier, {"delta": 1e-6, "n_trees": 6, "depth": 2, "geometric": "gradients"}),
    (DPBoostClassifier, {"n_trees": 4, "parts": 2, "relation": "replace_one"}),
    (DPSIS, {"k": 2, "epsilon": 6.0}), (DPSIS, {"k": 2, "delta": 1e-6}),
    (DPSIS, {"k": 2, "scores": "rank", "relation": "replace_one"}),
    (DPSIS, {"k": 2, "scores": "correlation", "method": "canonical"}),
    (DPSIS, {"k": 1, "scores": pl.questions.CustomScores(same_scores, 1.0, "constant")}),
    (DPSISTwoStage, {"k": 2, "method": "canonical", "relation": "replace_one"}),
    (Numbers, {"k": 2}), (Numbers, {"k": 2, "epsilon": 6.0}),
    (Classes, {"k": 2, "class_weight": "balanced"}),
    (Classes, {"k": 1, "class_weight": "balanced", "relation": "replace_one",
               "method": "canonical"}),
    (JointTreeClassifier, {"depth": 3, "relation": "replace_one"}),
    (JointTreeClassifier, {"delta": 1e-6, "max_depth": 4}),
    (JointTreeRegressor, {"depth": 2, "relation": "replace_one"}),
    *((kind, {"relation": "replace_one"}) for kind in (
        NaiveBayesClassifier, NearestCentroidClassifier, LeastSquaresRegressor, PrivateKMeans)),
    (PrivatePCA, {"relation": "replace_one", "n_components": 1}),
    (LinearClassifier, {"delta": 1e-6, "n_steps": 9, "relation": "replace_one", "hinges": False}),
    (LinearRegressor, {"delta": 1e-6, "n_steps": 9, "gradient_clip": 0.4, "sampling_rate": 0.3,
                       "log_scale": False}),
    (LinearRegressor, {"delta": 1e-6, "n_steps": 9, "loss": "poisson", "relation": "replace_one"}),
    (LinearRegressor, {"delta": 1e-6, "n_steps": 9, "loss": "huber", "gradient_clip": 0.4}),
    (MarginalSynthesizer, {"delta": 1e-6, "relation": "replace_one", "rounds": 1}),
    (MarginalSynthesizer, {"delta": 1e-6, "degree": 1}), (Pairs, {"delta": 1e-6}),
    (MultinomialForestClassifier, {"variant": "multinomial", "n_trees": 2, "max_depth": 2}),
    (MultinomialForestClassifier, {"variant": "multinomial", "n_trees": 2, "delta": 1e-6,
                                   "impurity": "entropy", "depth": 2, "halves": False}),
    (MultinomialForestClassifier, {"labels": "drawn", "relation": "replace_one", "halves": True,
                                   "n_trees": 2, "depth": 2}),
    (PrivateEnsembleClassifier, {"variant": "paper"}),
    (PrivateEnsembleClassifier, {"delta": 1e-6, "depth": 2, "n_trees": 3, "sharing": "disjoint"}),
    *((PrivateEnsembleClassifier, {"setting": setting, **more}) for setting, more in (
        ("sspe1", {}), ("sspe1", {"linkage": "linked"}),
        ("sspe1", {"variant": "paper", "linkage": "linked"}), ("sspe2", {}),
        ("sspe2", {"variant": "paper"}), ("pte", {"second_trees": 3}))),
    (Summary, {"statistics": (mean("size"), count(), quantile("size", [.2, .5])),
               "by": ("colour",), "where": between("size", 0.1, 0.8), "delta": 1e-6}),
    (Summary, {"statistics": (mean("size"), count()), "by": ("place",), "delta": 1e-5}),
    (Summary, {"statistics": (corr("size", "weight"), count("colour")),
               "relation": "replace_one"}),
    (SGBDTRegressor, {**ROUNDS, "individual_filter": "gdp", "extra_rounds": 5}),
    (SGBDTRegressor, {**ROUNDS, "sampling_rate": 0.2, "individual_filter": "renyi"}),
    (SGBDTClassifier, {**ROUNDS, "relation": "replace_one"})]
LONG = [  # two hundred trees for every check
    (AutoClassifier, {}), (AutoRegressor, {}),
    (SGBDTClassifier, {"delta": 1e-6, "ranges": "bought", "n_trees": 5}),
    (SGBDTRegressor, {"delta": 1e-6, "ranges": "bought", "n_trees": 5}),
    (SGBDTClassifier, {"delta": 1e-6, "start": "linear", "ranges": "log", "n_trees": 5}),
    (SGBDTRegressor, {"delta": 1e-6, "start": "linear", "n_trees": 5})]
STATISTICAL, LOCKSTEP, PRICE = "epsilon-holds", "lockstep-holds", "spend-within-plan"
DEAR = {
    STATISTICAL: (JointTreeClassifier, DPSIS),
    LOCKSTEP: (JointTreeRegressor, DPSIS, LeastSquaresRegressor, LinearRegressor,
               LabelPrivateClassifier, PrivateKMeans, SGBDTRegressor, DiPriMeForestRegressor)}
"""Checks of the kit that take seconds, and the learners that meet them in the default run: one of
each way to ask the ledger."""


def cases():
    """(kind, parameters, checks): what the default run holds is one case, the rest behind it."""
    turn = 0
    for rank, settings in enumerate((FIRST, OTHERS, LONG)):
        for kind, parameters in settings:
            turn += 1
            default = [name for place, name in enumerate(CHECKS) if (
                (rank == 0 and kind in DEAR.get(name, (kind,)))
                or (rank == 1 and name not in DEAR and (place == turn % len(CHECKS) or (
                    name == PRICE and kind not in FORESTS))))]
            rest = [name for name in CHECKS if name not in default]
            for checks, marks in ((default, ()), (rest, pytest.mark.slow)):
                yield pytest.param(kind, {"epsilon": 1.0, **parameters}, checks,
                                   id=f"{kind.__name__}-{turn}{'-rest' * bool(marks)}",
                                   marks=marks)


@pytest.mark.parametrize(("kind", "parameters", "checks"), cases())
def test_learner_conforms(kind, parameters, checks):
    for name in checks:  # the one that fails is named in what it raises
        CHECKS[name](kind(**parameters))


def test_every_learner_that_is_installed_is_in_the_table():
    installed = {one.load() for one in entry_points(group="privledger.learners")
                 if one.value.startswith("privledger_learners.")}
    assert installed == {kind for kind, _ in [*FIRST, *OTHERS]} - {Numbers, Classes, Pairs}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "parameters", "fits"), [
    *((SGBDTRegressor, one, 2000) for kind, one in [*FIRST, *OTHERS] if kind is SGBDTRegressor),
    *((SGBDTClassifier, one, 2000) for kind, one in [*FIRST, *OTHERS] if kind is SGBDTClassifier),
    *((kind, one, 2000) for kind, one in [*FIRST, *OTHERS] if kind in (
        DPBoostRegressor, DPBoostClassifier, JointTreeClassifier, JointTreeRegressor)),
    *((kind, one, 500) for kind, one in [*FIRST, *LONG] if kind in (AutoClassifier, AutoRegressor)),
], ids=lambda one: getattr(one, "__name__", None))
def test_many_fits_do_not_disprove_epsilon(kind, parameters, fits):
    """An accusation of an honest learner has probability at most 1e-6."""
    CHECKS[STATISTICAL](kind(epsilon=1.0, **parameters), fits=fits)


def simulated(*kinds, **parameters):
    """scikit-learn's suite runs where a schema may be inferred. NOT PRIVATE."""
    return [kind(**{"epsilon": 100.0, "mode": "simulation", "random_state": 0, **parameters})
            for kind in kinds]


@parametrize_with_checks(simulated(JointTreeClassifier, JointTreeRegressor))
def test_scikit_learn_accepts_it(estimator, check):
    """Of what all learners share; the others behind the marker."""
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [
    *simulated(AutoClassifier, AutoRegressor, delta=0.0),
    *simulated(SSRDTClassifier, TOPClassifier),
    *simulated(*FORESTS, n_trees=2, depth=2), *simulated(DiPriMeForestClassifier),
    *simulated(DiPriMeForestRegressor, MultinomialForestClassifier),
    *simulated(DPBoostRegressor, DPBoostClassifier, epsilon=50.0, n_trees=20, depth=3),
    *simulated(DPSIS, DPSISTwoStage, k=1, epsilon=1.0),
    *simulated(LabelPrivateClassifier, n_trees=5),
    *simulated(LinearClassifier, LinearRegressor, n_steps=20),
    *simulated(NaiveBayesClassifier, NearestCentroidClassifier, LeastSquaresRegressor),
    *simulated(PrivateKMeans, PrivatePCA),
    *simulated(PrivateEnsembleClassifier, epsilon=200.0),
    *simulated(PrivateEnsembleClassifier, epsilon=200.0, setting="sspe2"),
    *simulated(SGBDTRegressor, SGBDTClassifier, epsilon=8.0, n_trees=60)],
    ids=lambda one: type(one).__name__)
def test_scikit_learn_accepts_the_others(estimator, monkeypatch):
    """All its checks in one case: 1,621 cases took every run seconds to collect."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check_estimator(estimator, on_skip=None)
