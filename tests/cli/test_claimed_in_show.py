"""`show` puts what a paper claims beside what was charged. A claim is a note, never a price."""

import sys

import numpy as np
import pytest

import privledger as pl
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.bodies import body_of
from tests.worlds import schema_of

verify_alone = verify_history.main

SCHEMA = schema_of("s", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
X, Y = {"x": np.linspace(0, 1, 60)}, np.linspace(0, 1, 60)
CLASSES = schema_of("c", {"x": (0.0, 1.0), "z": (0.0, 1.0)}, y=["n", "p"])


def granted(path, claimed, *, delta=1e-6, budget_delta=1e-6):
    with pl.Ledger.create(path, budget=pl.Budget(1.0, budget_delta)) as ledger:
        data = ledger.protect(X, Y, SCHEMA)
        with ledger.request(pl.Gaussian(20.0), data, learner="mine", delta=delta,
                            claimed=claimed) as session:
            session.release(pl.Gaussian(20.0), data.count())
        return ledger.spent, ledger.verify()


def test_claim_and_ratio_are_shown(call, as_json, tmp_path):
    path = tmp_path / "a.ledger"
    spent, findings = granted(path, 0.05)
    grant = as_json("show", path)["grants"][0]
    assert findings == []
    assert grant["claimed"] == 0.05
    assert grant["ratio"] == pytest.approx(spent / 0.05)
    assert "claimed 0.05, ratio" in call("show", path, "--all").stdout.replace("\n", " ")


def test_a_claim_is_never_charged(tmp_path):
    small, _ = granted(tmp_path / "a.ledger", 1e-9)
    none, _ = granted(tmp_path / "b.ledger", None)
    large, _ = granted(tmp_path / "c.ledger", 1e9)
    assert small == none == large


def test_a_claim_at_another_delta_has_no_ratio(as_json, tmp_path):
    granted(tmp_path / "a.ledger", 0.05, delta=0.0)
    grant = as_json("show", tmp_path / "a.ledger")["grants"][0]
    assert (grant["claimed"], grant["ratio"]) == (0.05, None)


def test_a_file_without_claims_shows_a_dash(call, as_json, tmp_path):
    granted(tmp_path / "a.ledger", None)
    with pl.Ledger.open(tmp_path / "a.ledger") as ledger:
        assert all("claimed" not in body_of(entry) for entry in ledger._history.store.read())
    assert as_json("show", tmp_path / "a.ledger")["grants"][0]["claimed"] is None
    whole = call("show", tmp_path / "a.ledger", "--all").stdout
    assert "claimed -, ratio -" in whole.replace("\n", " ")


def test_the_standalone_verifier_takes_claims(call, tmp_path, monkeypatch, capsys):
    granted(tmp_path / "a.ledger", 0.05)
    call("export", tmp_path / "a.ledger", "-o", tmp_path / "a.jsonl")
    monkeypatch.setattr(sys, "argv", ["verify", str(tmp_path / "a.jsonl")])
    assert verify_alone() == 0
    capsys.readouterr()


def learners():
    from privledger_learners import DPSIS, DPBoostRegressor, JointTreeRegressor, SGBDTRegressor

    yield SGBDTRegressor(0.5, 1e-6, SCHEMA, n_trees=3)
    yield SGBDTRegressor(0.5, 1e-6, SCHEMA, n_trees=3, sampling_rate=0.5)
    yield DPBoostRegressor(1.0, 0.0, SCHEMA, n_trees=2, depth=2)
    yield JointTreeRegressor(1.0, schema=SCHEMA)
    yield DPSIS(1.0, schema=CLASSES, k=1)


@pytest.mark.parametrize("learner", learners(), ids=lambda each: type(each).__name__)
def test_learners_record_the_total_that_plan_shows(learner):
    schema = learner.schema
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, learner.delta), filter="auto")
    if schema is CLASSES:
        data = ledger.protect({"x": X["x"], "z": X["x"]}, np.array(["n", "p"] * 30), schema)
    else:
        data = ledger.protect(X, Y, schema)
    learner.fit(data)
    (grant,) = ledger.state.grants.values()
    assert body_of(grant).get("claimed") == learner.claimed(schema)[-1].claimed


def every_kind():
    from privledger_learners import DPBoostClassifier, SGBDTClassifier
    from privledger_learners.dpsis import DPSISTwoStage

    yield from learners()
    yield SGBDTClassifier(0.5, 1e-6, CLASSES, n_trees=3)
    yield DPBoostClassifier(1.0, 0.0, CLASSES, n_trees=2, depth=2)
    yield DPSISTwoStage(1.0, schema=CLASSES, k=1)


@all_cases("learner", every_kind(), ids=lambda each: type(each).__name__)
def test_every_learner_has_both_columns(learner):
    """The last step is the whole plan, and its sound figure is within what was asked for."""
    last = learner.claimed(learner.schema)[-1]
    assert last.step == "everything"
    assert last.sound <= learner.epsilon * (1 + 1e-6)
    assert last.claimed is None or last.ratio > 0
