"""Every shipped learner trains in its own process, is kept, and predicts from the file."""

import sys
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.broker import Limits, RemoteLearner
from privledger.broker.sandbox import BROKEN
from privledger.plugins import find_learner
from privledger.plugins.model_file import (
    ModelFacts,
    model_bytes,
    model_file,
    read_model,
    revived,
    write_model,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
from kept_learners import CLASSES, LEARNERS, table

from tests.bodies import body_of
from tests.worlds import protected, refused

sys.path.pop(0)
SHORT = ("sgbdt-regressor", "label-private-classifier")
GAUSSIAN = ("sgbdt", "linear", "marginal", "naive", "nearest", "least", "k-means", "pca")
VARIANTS = [
    *(pytest.param(name, {}, marks=() if name in SHORT else pytest.mark.slow)
      for name in LEARNERS),
    *(pytest.param("private-ensemble-classifier", {"setting": setting}, marks=pytest.mark.slow)
      for setting in ("sspe1", "sspe2", "pte"))]


def relation_of(name, more):
    relations = pl.load_learner(name).info.relations
    if more.get("setting") in ("sspe2", "pte"):
        return "replace_label"
    return "add_remove" if "add_remove" in relations else relations[0]


def remote(name, more, **options):
    schema, params = LEARNERS[name]
    delta = 1e-6 if name.startswith(GAUSSIAN) else 0.0
    relation = relation_of(name, more)
    try:
        return RemoteLearner.start(
            find_learner(name), {"epsilon": 5.0, "delta": delta} | params | more, schema,
            relation, patience=120.0, **options), relation
    except pl.errors.IsolationUnavailable as error:
        assert BROKEN not in str(error)
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "more"), VARIANTS)
def test_a_learner_in_its_own_process_is_kept(name, more, tmp_path):
    schema = LEARNERS[name][0]
    learner, relation = remote(name, more)
    ledger = pl.Ledger.create(None, budget=pl.Budget(5.0, 1e-6), relation=relation)
    X, y = table(schema)
    if learner.unlabelled:
        y = y.astype(object)
        y[:50] = None
    data = ledger.protect(X, y, schema, public_features=relation == "replace_label",
                          unlabelled=learner.unlabelled)
    learner.fit(data)
    made = learner.keep(ModelFacts(name, schema, relation, "brokered", True,
                              ledger.receipt.as_dict()))
    write_model(made, tmp_path / "kept.model")
    found = pl.load_model(tmp_path / "kept.model")
    header = read_model(tmp_path / "kept.model").header
    assert (header["learner"], header["isolation"], header["relation"]) == (
        name, "brokered", relation)
    assert header["receipt"] == ledger.receipt.as_dict()
    new, _ = table(schema, 150, seed=9)
    if hasattr(found, "predict"):
        here, there = found.predict(new), learner.predict(new)
        assert list(here) == list(there)
        again = RemoteLearner.revive(find_learner(name), model_file(model_bytes(made)))
        assert list(again.predict(new)) == list(there)
        again.close()
    else:
        assert len(found.sample(150) if hasattr(found, "sample") else found.transform(new)) == (
            2 if name.startswith("dpsis") else 150)
    learner.close()
    (grant,) = ledger.state.grants.values()
    assert body_of(grant)["isolation"] == "brokered"
    assert ledger.verify() == []


def test_labels_are_answered_as_in_the_owners_process():
    """Simulated noise repeats itself: the same answers, whether asked here or there."""
    name, found = "label-private-classifier", []
    schema, params = LEARNERS[name]
    X, y = table(schema)
    for make in (lambda: pl.load_learner(name)(epsilon=5.0, schema=schema, random_state=3,
                                               mode="simulation", **params),
                 lambda: remote(name, {"random_state": 3, "mode": "simulation"})[0]):
        _, data = protected(pl.Budget(5.0, 0.0), X, y, schema, relation="replace_label",
                            mode="simulation", seed=5, public_features=True)
        learner = make()
        found.append(learner.fit(data).predict(X))
        if isinstance(learner, RemoteLearner):
            learner.close()
    np.testing.assert_array_equal(*found)


def test_a_model_larger_than_its_limit_is_not_kept(start, tiny):
    learner = start("BigModel", limits=Limits(model_mb=1))
    learner.fit(tiny[1])
    with pytest.raises(pl.errors.IsolationLimit, match="model_mb"):
        learner.keep(ModelFacts("big", tiny[1].schema, "add_remove"))
    assert learner._process.poll() is not None


@pytest.mark.parametrize(("what", "error"), [
    ("code", pl.errors.ModelError), ("nothing", pl.errors.ModelError),
    ("bytes", pl.errors.ModelError),
    ("truncated", pl.errors.IsolationError), ("long", pl.errors.IsolationError),
    ("object", pl.errors.ModelError)])
def test_a_hostile_model_is_refused(start, tiny, what, error):
    """Whatever a learner's process sends is read by the same closed reader."""
    learner = start("OddModel", what=what)
    learner.fit(tiny[1])
    refused(error, lambda: learner.keep(ModelFacts("odd", tiny[1].schema, "add_remove")))


def test_what_a_learner_says_about_its_model_is_not_believed(start, tiny):
    learner = start("OddModel", what="header")
    learner.fit(tiny[1])
    made = learner.keep(ModelFacts("odd", tiny[1].schema, "add_remove", "brokered", False))
    assert (made.header["learner"], made.header["isolation"], made.header["private"]) == (
        "odd", "brokered", False)
    assert made.header["schema"] == tiny[1].schema.to_dict()
    assert made.header["receipt"] is None


def test_a_kept_model_is_built_by_the_registered_class_only(tmp_path):
    name = "sgbdt-regressor"
    schema, _ = LEARNERS[name]
    learner = pl.load_learner(name)(epsilon=5.0, delta=1e-6, schema=schema, n_trees=2)
    pl.save_model(learner.fit(*table(schema)), tmp_path / "m")
    made = read_model(tmp_path / "m")
    refused(pl.errors.ModelError, lambda: revived(made, pl.load_learner("dpboost-regressor")))
    assert CLASSES.task == "classification"
