"""A number of rows steers a learner only where it cannot tell a table from its neighbour."""

import numpy as np
import privledger_learners as learners
import pytest
from attrs import evolve

import privledger as pl
from tests.all_cases import all_cases
from tests.bodies import body_of
from tests.worlds import refused, schema_of

SCHEMA = schema_of("t", {"a": (0.0, 1.0), "b": (0.0, 1.0)}, y=["no", "yes"])
LEARNERS = [learners.DiPriMeForestClassifier, learners.JointTreeClassifier,
            learners.MultinomialForestClassifier,
            learners.PrivateEnsembleClassifier, learners.SGBDTClassifier,
            learners.DPBoostClassifier]


def table(rows):
    place = np.arange(rows)
    X = {"a": (place * 0.618) % 1.0, "b": (place * 0.414) % 1.0}
    return X, np.where(X["a"] > 0.5, "yes", "no")


def promised(rows, provenance="declared: the trial enrols so many"):
    return evolve(SCHEMA, expected_rows=rows, expected_rows_provenance=provenance)


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_a_true_number_of_rows_is_refused_under_add_remove(kind):
    """It changed the depth with probability 1 between 133 and 134 rows."""
    for rows in (133, 134):
        schema = evolve(SCHEMA, public_rows=rows)
        with pytest.raises(pl.errors.RelationMismatch, match="expected_rows"):
            kind(epsilon=1.0, delta=1e-6, schema=schema).fit(*table(rows))
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
        with pytest.raises(pl.errors.RelationMismatch, match="expected_rows"):
            ledger.protect(*table(rows), schema)


@pytest.mark.parametrize("kind", [learners.DiPriMeForestClassifier, learners.JointTreeClassifier,
                                  learners.MultinomialForestClassifier,
                                  learners.PrivateEnsembleClassifier])
def test_no_plan_follows_a_true_number_of_rows(kind):
    with pytest.raises(pl.errors.RelationMismatch, match="expected_rows"):
        kind(epsilon=1.0, delta=1e-6).plan(evolve(SCHEMA, public_rows=133))


def test_blocks_do_not_follow_a_true_number_of_rows():
    with pytest.raises(pl.errors.RelationMismatch, match="expected_rows"):
        learners.DPSISTwoStage(epsilon=1.0, k=1).plan(evolve(SCHEMA, public_rows=133))


@pytest.mark.parametrize("kind", [learners.JointTreeClassifier,
                                  learners.MultinomialForestClassifier])
def test_a_promise_steers_and_neighbours_are_treated_alike(kind):
    """Neighbouring tables under one promise, which fits neither: the same plan, no comparison."""
    schema = promised(5000)
    plans = []
    for rows in (133, 134):
        model = kind(epsilon=1.0, delta=1e-6, schema=schema).fit(*table(rows))
        plans.append(model.plan())
    assert plans[0] == plans[1] != kind(epsilon=1.0, delta=1e-6, schema=SCHEMA).plan()


@pytest.mark.parametrize("kind", [learners.DiPriMeForestClassifier, learners.JointTreeClassifier])
def test_a_true_number_steers_where_it_is_public(kind):
    known = evolve(SCHEMA, public_rows=5000)
    learner = kind(epsilon=1.0, relation="replace_one", schema=known)
    assert learner.plan() != kind(epsilon=1.0, relation="replace_one", schema=SCHEMA).plan()
    learner.fit(*table(134))


@pytest.mark.parametrize("provenance", ["data", "the table", "counted", "len(X)", "", "Data: len",
                                        "the file: declared"])
def test_a_promise_that_was_counted_is_refused(provenance):
    refused(pl.errors.DataDerived, lambda: promised(134, provenance), match="expected_rows")


@all_cases(("rows", "provenance"), [
    (134, None), (None, "declared"), (134, 7), (True, "declared"), (-1, "declared"),
    (134.0, "declared"), (float("nan"), "declared"), (0, "declared")])
def test_a_promise_is_whole_and_somebody_stands_for_it(rows, provenance):
    refused(pl.PrivledgerError, lambda: promised(rows, provenance))


def test_the_promise_survives_its_file_and_leaves_other_digests_alone():
    schema = promised(500)
    assert pl.Schema.from_dict(schema.to_dict()) == schema
    assert schema.select(("a",)).expected_rows == 500
    assert "expected_rows" not in SCHEMA.to_dict()


def test_the_ledger_holds_the_promise_and_never_a_true_number():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    ledger.request(pl.Laplace(10.0, 1.0), ledger.protect(*table(134), promised(500))).close()
    (entry,) = [e for e in ledger._history.store.read() if e.event.kind == "protected"]
    assert body_of(entry)["rows"] == 500


def test_a_policy_asks_for_a_promise_and_not_for_the_true_number():
    policy = pl.Policy(1.0, 1e-6, min_rows=400)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), policy=policy)
    ledger.request(pl.Laplace(10.0, 1.0), ledger.protect(*table(134), promised(500))).close()
    with pytest.raises(pl.errors.PolicyViolation, match="expected_rows"):
        ledger.request(pl.Laplace(10.0, 1.0), ledger.protect(*table(134), SCHEMA))
